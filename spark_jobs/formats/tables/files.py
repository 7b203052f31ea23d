"""The files of a table as its log or its manifests have them. The facts that tasks need travel with each file."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from decimal import Context
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.formats.parquet.footer import Chunk

#: Exact for all digits of a Decimal.
_EXACT = Context(prec=100)
#: The diagnostic of a table that cannot be read or written.
FAILED = "E912"


@dataclass(frozen=True)
class Snapshot:
    """A version of a table.

    Args:
        root: where the table is, absolute or a URI.
        version: its number.
        schema: the columns, with the names or numbers that they have in the files among their metadata.
        partition_by: the columns whose values the table knows for each file.
        incremental: the name of the source that reads what versions have added; empty where a version is chosen.
    """

    root: str
    version: int
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    incremental: str = ""

    def remedy(self, chosen: str, following: str) -> str:
        """The advice for a reader that misses a file of this version.

        Args:
            chosen: the advice where the source chooses its version.
            following: a bound of the command line after this version.
        """
        if not self.incremental:
            return chosen
        return (
            f"read everything again after `clinker bookmark reset PIPELINE --source {self.incremental}`, or go on "
            f"after this version by the reset and `clinker run --since {self.incremental}={following}`"
        )


@dataclass(frozen=True)
class DataFile:
    """A file of a table.

    Args:
        snapshot: the version that it is read in.
        records: how many rows are in the file, deleted ones included; None where the table does not say.
        partition: the values of the columns that are not read from it.
        chunks: the statistics of columns, by their names.
        deleted: a bit for each row that is deleted, packed; empty where none is.
    """

    snapshot: Snapshot
    records: int | None
    partition: Mapping[str, Any] = field(default_factory=dict)
    chunks: Mapping[str, Chunk] = field(default_factory=dict)
    deleted: bytes = b""

    @property
    def deleted_rows(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """A mask of deleted rows; rows after its end are not deleted."""
        if not self.deleted:
            return np.zeros(0, bool)
        return np.unpackbits(np.frombuffer(zlib.decompress(self.deleted), np.uint8)).astype(bool)


def packed(deleted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bytes:
    """Which rows are deleted, as `DataFile.deleted` has them."""
    return zlib.compress(np.packbits(deleted).tobytes(), 1)


def numbers(array: pa.Array | None) -> list[Any] | None:
    """Values as footers have them: days, microseconds and units of Decimals as numbers, texts as bytes; or None."""
    if array is None:
        return None
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return None
    if pa.types.is_timestamp(kind):
        return pc.cast(array.cast(pa.timestamp("us", kind.tz)), pa.int64()).to_pylist()
    if pa.types.is_date32(kind):
        return pc.cast(array, pa.int32()).to_pylist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [None if each is None else each.encode() for each in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if each is None else int(each.scaleb(kind.scale, _EXACT)) for each in array.to_pylist()]
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return array.to_pylist() if is_plain else None

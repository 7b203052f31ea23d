"""Finds undeclared columns that only records tell: here in small inputs, by tasks of their own in large ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import spread
from spark_jobs.formats import names
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.formats.names import Part
    from spark_jobs.formats.reader import Reader

#: Up to this many bytes are looked at here: a job costs more than that.
DRIVER_BYTES = 32 << 20
_PACK_BYTES = 16 << 20


class NameSearch:
    """Finds names by tasks where there is much to read; see `names.Search`.

    Args:
        session: gives the Spark session, once it is open.
    """

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session

    def __call__(self, reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The names of each part.

        Raises:
            FormatError: a part cannot be read.
        """
        if sum(part.split.end - part.split.start for part in parts) <= DRIVER_BYTES:
            return names.search_here(reader, parts)
        # A file that cannot be read ends the run with these words; trying it again would not help.
        found = spread.spread(self._session(), partial(names.names_of, reader), _packs(parts), told=(FormatError,))
        return [leaves for of_pack in found for leaves in of_pack]


def _packs(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """The parts by tasks: small neighbours together."""
    packs: list[list[Part]] = []
    filled = _PACK_BYTES
    for part in parts:
        if filled >= _PACK_BYTES:
            packs.append([])
            filled = 0
        packs[-1].append(part)
        filled += part.split.end - part.split.start
    return [tuple(pack) for pack in packs]

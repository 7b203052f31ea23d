"""Writes batches to the Parquet files of a table, one for each partition value, and collects their statistics.

Tasks first write Arrow messages, as for all columnar files. Parquet files are made of them once the table is known: its
columns may be narrower than the columns of records, and its partitions are folders.
"""

from __future__ import annotations

import re
import uuid
from abc import abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.formats.format import UnwritableFile
from spark_jobs.formats.tables import transforms
from spark_jobs.formats.tables.partitions import Transform
from spark_jobs.formats.typed import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_jobs.cxl.schema import Column
    from spark_jobs.formats.tables.partitions import Partition

#: The most files that are open at a time. If records have more partitions, some partitions get several files.
_MOST_OPEN = 64
#: The number of columns with minimum and maximum, and the length to which these are cut in texts.
_MOST_COLUMNS, _MOST_CHARACTERS = 32, 32
#: Every Int has so many digits at most, and every decimal of a table.
_INT_DIGITS, _MOST_DIGITS = 19, 38
_TOO_MANY_DIGITS = f"^[+-]?0*[1-9][0-9]{{{_MOST_DIGITS}}}"
#: The longest name of a folder; most file systems take some more.
_MOST_OF_NAME = 200
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: The largest number that tells partitions apart.
_MOST_CODE = (1 << 63) - 1

#: A file that was written, as the table has it.
_Added = TypeVar("_Added")


@dataclass(frozen=True)
class Layout:
    """The layout of the files of a table.

    Args:
        schema: the columns of the records, with the types that the table has for them.
        partition_by: the partition fields of the table.
        inside: the columns in the files; None for all but partition columns.
        folder: the prefix of the paths of files in the table's folder.
    """

    schema: pa.Schema
    partition_by: tuple[Partition, ...] = ()
    inside: pa.Schema | None = None
    folder: str = ""

    @property
    def in_files(self) -> pa.Schema:
        """The columns that are in the files."""
        if self.inside is not None:
            return self.inside
        known = {each.column for each in self.partition_by}
        return pa.schema([column for column in self.schema if column.name not in known])


@dataclass(frozen=True)
class Written:
    """A file that was written.

    Args:
        path: where it is in the table's folder.
        size: its bytes.
        partition: the names and values of the partition.
        records: the number of rows.
        schema: its columns.
        nulls: how many rows have no value in each column.
        bounds: the lowest and the highest value of each column that has any.
    """

    path: str
    size: int
    partition: tuple[tuple[str, Any], ...]
    records: int
    schema: pa.Schema
    nulls: Mapping[str, int]
    bounds: Mapping[str, tuple[Any, Any]]


class TableWriter(write.TypedWriter, Generic[_Added]):
    """Writes the files of tables. Its options have `compression`, and the `key` by which records are merged."""

    def converted(self, column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.Array:
        """A column as the files have it; a record without a key is merged with none."""
        found = super().converted(column, array, failures)
        options: Any = self._options
        if column.name in options.key and found.null_count:
            for row in pc.indices_nonzero(found.is_null()).to_pylist():
                detail = f"column '{column.name}': a record without a key is merged with none; give it a value"
                failures.append(RowFailure(row, Failure(detail, value=None, field=column.name)))
        return found

    @abstractmethod
    def added(self, written: Written) -> _Added:
        """A file as the table has it."""

    def opened(self, sink: IO[bytes], schema: pa.Schema) -> Any:
        """Open a Parquet writer on a file; it takes Arrow tables."""
        return self._opened(sink, schema)

    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> Any:
        options: Any = self._options
        return parquet.ParquetWriter(sink, schema, compression=str(options.compression))

    def files(
        self,
        source: IO[bytes],
        layout: Layout,
        create: Callable[[str], IO[bytes]],
        *,
        moved: bool = False,
        change: Callable[[pa.Table], pa.Table] | None = None,
    ) -> list[_Added]:
        """Write the files of the records in a stream.

        Args:
            source: the stream.
            layout: the table.
            create: begins a file at a path in the table's folder.
            moved: see `convert`.
            change: converts each group of records to the columns of the layout.

        Raises:
            Unfit: a value does not fit the table's type.
        """
        files = _Files(self, layout, create)
        for group in write.groups(self.batches(source, moved=moved)):
            rows = cast(group, layout.schema) if change is None else change(group)
            files.add(rows)
        return [self.added(each) for each in files.close()]

    def rewritten(
        self, batches: Iterator[pa.RecordBatch], layout: Layout, create: Callable[[str], IO[bytes]]
    ) -> list[_Added]:
        """Write files of rows that the table has already; none where there are no rows.

        Args:
            batches: the rows.
            layout: the table.
            create: begins a file at a path in the table's folder.
        """
        files = _Files(self, layout, create)
        for group in write.groups(batches):
            files.add(pa.Table.from_arrays(group.columns, schema=layout.schema))
        return [self.added(each) for each in files.close()]


def cast(group: pa.Table, schema: pa.Schema) -> pa.Table:
    """Some columns of records with the types of a table.

    Raises:
        Unfit: a value does not fit.
    """
    columns = []
    for column in schema:
        try:
            columns.append(_exact(group.column(column.name), column.type).cast(column.type))
        except pa.ArrowException as error:
            text = f"column '{column.name}' has a value that is no {column.type} of the table: {error}"
            raise UnwritableFile(text) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _exact(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Values on their way to a decimal, with room for all digits: without it Arrow gives wrong numbers unnoticed."""
    if not pa.types.is_decimal(wanted):
        return values
    if pa.types.is_integer(values.type):
        return values.cast(_wide(_INT_DIGITS, 0))
    if pa.types.is_decimal(values.type):
        return values.cast(_wide(_MOST_DIGITS, values.type.scale))
    if pc.any(pc.match_substring_regex(values, "[eE]")).as_py():
        texts = [None if each is None else _plain(each) for each in values.to_pylist()]
        values = pa.chunked_array([pa.array(texts, pa.string())])
    if pc.any(pc.match_substring_regex(values, _TOO_MANY_DIGITS)).as_py():
        raise pa.ArrowInvalid(f"a text has more than {_MOST_DIGITS} digits before the point")
    return values.cast(_wide(2 * _MOST_DIGITS, wanted.scale))


def _wide(precision: int, scale: int) -> pa.DataType:
    """A decimal in which no product of a decimal of a table and a power of ten for its places is too large."""
    arrow: Any = pa
    found: pa.DataType = arrow.decimal256(precision, scale)
    return found


def _plain(text: str) -> str:
    """A number without an exponent; anything else as it is."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        return text
    return f"{found:f}" if found.is_finite() and abs(found.adjusted()) <= 2 * _MOST_DIGITS else text


def _by_partition(rows: pa.Table, partition_by: Sequence[Partition]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, in their order, with its values."""
    if not partition_by:
        if rows.num_rows:
            yield (), rows
        return
    found = [transforms.values(each, rows) for each in partition_by]
    codes, most = np.zeros(rows.num_rows, np.int64), 1
    for values in found:
        if pa.types.is_null(values.type):
            continue
        own: Any = values.dictionary_encode()
        count = len(own.dictionary) + 1
        if most * count > _MOST_CODE:
            codes, most = np.unique(codes, return_inverse=True)[1], rows.num_rows
        codes, most = codes * count + (pc.fill_null(own.indices, -1).to_numpy() + 1), most * count
    order = np.argsort(codes, kind="stable")
    ordered, borders = rows.take(pa.array(order)), np.flatnonzero(np.diff(codes[order])) + 1
    for start, end in zip([0, *borders.tolist()], [*borders.tolist(), rows.num_rows], strict=True):
        if end > start:
            first = int(order[start])
            yield tuple(values[first].as_py() for values in found), ordered.slice(start, end - start)


class _Files:
    """The files that are being written, one for each partition."""

    def __init__(self, writer: TableWriter[Any], layout: Layout, create: Callable[[str], IO[bytes]]) -> None:
        self._writer = writer
        self._layout = layout
        self._create = create
        #: By the values as texts: a zero is not one below zero, and a NaN is itself.
        self._open: dict[tuple[str, ...], _File] = {}
        self._done: list[Written] = []
        self._schema = layout.in_files

    def add(self, rows: pa.Table) -> None:
        """Write rows, each into the file of its partition."""
        for values, own in _by_partition(rows, self._layout.partition_by):
            self._add(values, own)

    def _add(self, values: tuple[Any, ...], rows: pa.Table) -> None:
        """Write rows of a partition."""
        texts = tuple(map(repr, values))
        if texts not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._done.append(self._open.pop(next(iter(self._open))).close())
            known = [*zip(self._layout.partition_by, values, strict=True)]
            path = _path(known, self._layout.folder)
            sink = self._create(path)
            named = tuple((each.name, value) for each, value in known)
            self._open[texts] = _File(path, named, sink, self._writer.opened(sink, self._schema), self._schema)
        self._open[texts].add(rows.select(self._schema.names))

    def close(self) -> list[Written]:
        """The files that were written."""
        self._done += [each.close() for each in self._open.values()]
        self._open = {}
        return self._done


def _path(partition: Iterable[tuple[Partition, Any]], folder: str = "") -> str:
    """Where a new file of a partition is in the table's folder."""
    inner = "".join(
        f"{_folder(each.name, _shown(each, value))}/"
        for each, value in partition
        if each.transform is not Transform.VOID
    )
    return f"{folder}{inner}part-{uuid.uuid4()}.parquet"


def _shown(partition: Partition, value: Any) -> str | None:
    """The value of a partition as names of folders have it."""
    if value is None or partition.transform not in (Transform.YEAR, Transform.MONTH, Transform.HOUR):
        return text_of(value)
    unit: Any = {Transform.YEAR: "Y", Transform.MONTH: "M", Transform.HOUR: "h"}[partition.transform]
    return str(np.datetime64(value, unit)).replace("T", "-")


def text_of(value: Any) -> str | None:
    """The value of a partition as a text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _folder(name: str, value: str | None) -> str:
    """Give the folder of a partition. The table has the value, so a long name may be cut for file systems."""
    found = f"{quote(name, safe=' ')}={_NULL if value is None else quote(value, safe=' ')}"
    return re.sub("%[0-9A-F]?$", "", found[:_MOST_OF_NAME]) if len(found) > _MOST_OF_NAME else found


@dataclass
class _File:
    """A file that is being written, with the statistics of its columns."""

    path: str
    partition: tuple[tuple[str, Any], ...]
    sink: IO[bytes]
    writer: Any
    schema: pa.Schema
    records: int = 0
    nulls: dict[str, int] = field(default_factory=dict)
    #: None: nothing can be said.
    bounds: dict[str, tuple[Any, Any] | None] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        self.writer.write_table(rows)
        self.records += rows.num_rows
        for column in rows.schema:
            values = rows.column(column.name)
            self.nulls[column.name] = self.nulls.get(column.name, 0) + values.null_count
        for column in [*rows.schema][:_MOST_COLUMNS]:
            self._bound(column, rows.column(column.name))

    def _bound(self, column: pa.Field, values: pa.ChunkedArray) -> None:
        known = self.bounds.get(column.name, ())
        if known is None or values.null_count == len(values):
            return
        found = _bounds(column.type, values)
        if found is None or not known:
            self.bounds[column.name] = found
        else:
            self.bounds[column.name] = min(known[0], found[0]), max(known[1], found[1])

    def close(self) -> Written:
        self.writer.close()
        size = self.sink.tell()
        self.sink.close()
        known = {name: bounds for name, bounds in self.bounds.items() if bounds}
        return Written(self.path, size, self.partition, self.records, self.schema, self.nulls, known)


def _bounds(kind: pa.DataType, values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """The lowest and the highest value of some; None where nothing can be said."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (is_number or pa.types.is_string(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return None
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(values)).as_py():
        return None
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py()


def shortened(value: str, *, is_low: bool) -> str | None:
    """Shorten a lower or upper bound so that it still bounds the same texts; None where that is impossible."""
    if len(value) <= _MOST_CHARACTERS:
        return value
    return value[:_MOST_CHARACTERS] if is_low else None

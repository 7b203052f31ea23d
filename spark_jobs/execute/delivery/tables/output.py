"""Outputs that are tables: they match records with the table, and tasks write its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa

from spark_jobs import credentials
from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute.delivery import converting, destination
from spark_jobs.execute.delivery.tables import merge as merging
from spark_jobs.execute.delivery.tables.merge import Merge
from spark_jobs.execute.spark import spread
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import format
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.formats.typed import counterparts
from spark_jobs.nodes.records.guarded import OPEN, Guard
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.execute.delivery.destination import PartRange, PartStore
    from spark_jobs.execute.delivery.tables.commit import TableCommit
    from spark_jobs.execute.delivery.tables.folder import TableFolder
    from spark_jobs.formats.format import ColumnWriter
    from spark_jobs.formats.tables.read import TableReader
    from spark_jobs.formats.tables.write import Layout, TableWriter
    from spark_jobs.scan.files import InputFile
    from spark_jobs.tuning import Tuning


@dataclass(frozen=True)
class WriteResources:
    """The folder, memory and guard for writing the files of a table.

    Args:
        folder: the folder in the part store for files that tasks exchange.
        most_bytes: the bytes that a task holds at once.
        guard: the columns whose values must not be shown.
    """

    folder: str
    most_bytes: int
    guard: Guard = OPEN


@dataclass(frozen=True)
class Records:
    """The records of an output, on their way to a table.

    Args:
        part_store: the store of parts.
        writer: reads parts, and writes the files of the table.
        schema: the columns in the form in which they are written.
        ranges: the parts.
        moved: the parts contain single records in the row format (`converting.py`).
        room: the folder and memory for intermediate data.
        run: the execution id.
        tuning: the amount of work that the driver does itself.
    """

    part_store: PartStore
    writer: Any
    schema: Schema
    ranges: Sequence[PartRange]
    moved: bool
    room: WriteResources
    run: str
    tuning: Tuning


@dataclass(frozen=True)
class Keys:
    """The columns by which a record replaces a row, and the column that deletes it.

    Args:
        names: the columns whose values identify records.
        flag: the column that marks rows to delete; empty if there is none.
    """

    names: tuple[str, ...]
    flag: str = ""


@dataclass
class Target:
    """The table of an output, in the state in which the run found it.

    Args:
        output: the name of the output.
        name: the name of the table in messages.
        schema: its columns; None if there is no table yet.
        partition_by: the columns by which it is partitioned.
        commit: the commit that makes the records visible, once their files are written.
    """

    output: str
    name: str
    schema: pa.Schema | None = None
    partition_by: tuple[str, ...] = ()
    commit: TableCommit | None = None

    def write(self, spark: SparkSession, records: Records) -> TableCommit:
        """Write the files of the records into the folder of the table. Returns the commit that makes them visible.

        Raises:
            RunFailed: the records do not fit the table (E912).
            OSError: a file cannot be written.
            Unfit: a value does not fit.
        """
        raise NotImplementedError

    def refuse(self, text: str) -> NoReturn:
        """End the run because of the table.

        Raises:
            RunFailed: always (E912).
        """
        raise RunFailed(ExitCode.IO, FAILED, f"output '{self.output}': {self.name}: {text}")

    def refuse_other_partitions(self, wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Refuse partitions that a table does not have."""
        if wanted and wanted != known:
            shown = ", ".join(known) or "nothing"
            self.refuse(f"`partition_by` is {', '.join(wanted)}, and the table has {shown}")

    def matched(
        self, wanted: Sequence[pa.Field], written: Schema, *, evolve: bool
    ) -> tuple[list[pa.Field], list[pa.Field]]:
        """The columns of records with the types of the table, and the columns that the table lacks.

        Args:
            wanted: the columns of the records, with the types of new columns.
            written: the columns of the records, in the form in which they are written.
            evolve: the table gets the columns that it lacks.

        Raises:
            RunFailed: a column does not fit the table (E912).
        """
        for name in self.partition_by:
            if name not in written.names:
                self.refuse(f"the records have no column '{name}', by which the table is partitioned")
        if self.schema is None:
            return [*wanted], []
        fields, new = [], []
        cases = {name.casefold(): name for name in self.schema.names}
        for column in wanted:
            if column.name in self.schema.names:
                fields.append(self._as_there(column))
            elif column.name.casefold() in cases:
                self.refuse(f"column '{column.name}' is '{cases[column.name.casefold()]}' in the table; rename it")
            elif not evolve:
                self.refuse(f"the table has no column '{column.name}'; leave it out, or add it by `evolve: true`")
            else:
                fields.append(column)
                new.append(column)
        names = {column.name for column in fields}
        for column in self.schema:
            if column.name not in names and not column.nullable:
                self.refuse(f"column '{column.name}' of the table must not be null, and the records do not have it")
        return fields, new

    def _as_there(self, column: pa.Field) -> pa.Field:
        assert self.schema is not None
        there = self.schema.field(column.name)
        if not _fits(column.type, there.type):
            self.refuse(f"column '{column.name}' is {column.type} here, and {there.type} in the table; convert it")
        return pa.field(column.name, there.type)

    def refuse_flag(self, written: Schema, flag: str) -> None:
        """Refuse a delete flag that is no boolean column, or that is also a column of the table.

        Args:
            written: the columns of the records.
            flag: the column of the flag; empty if there is none.

        Raises:
            RunFailed: the flag is refused (E912).
        """
        if not flag:
            return
        kind = next((counterparts.of(column.type) for column in written.columns if column.name == flag), None)
        if kind is None:
            self.refuse(f"the records have no column '{flag}', which `delete_flag` names")
        if kind != pa.bool_():
            self.refuse(f"column '{flag}', which `delete_flag` names, is {kind}: make it a Bool")
        if self.schema is not None and flag in self.schema.names:
            self.refuse(f"the table has a column '{flag}', and a `delete_flag` is not written: rename the flag")

    def refuse_keys(self, columns: Sequence[pa.Field], key: Collection[str]) -> None:
        """Refuse keys whose values cannot be compared.

        Raises:
            RunFailed: there are some (E912).
        """
        for column in columns:
            if column.name in key and (pa.types.is_floating(column.type) or pa.types.is_nested(column.type)):
                text = f"column '{column.name}' of `key` is {column.type}, which tells no records apart"
                self.refuse(f"{text}: use other columns")

    def merged(
        self,
        spark: SparkSession,
        records: Records,
        layouts: tuple[Layout, Layout | None],
        keys: Keys,
        reader: TableReader,
        place: TableFolder,
        there: Callable[[], Sequence[InputFile]],
    ) -> tuple[tuple[Any, ...], tuple[InputFile, ...]]:
        """Merge records into the table by keys. Returns the files that the commit adds, and the files that it removes.

        Args:
            spark: runs tasks.
            records: the records.
            layouts: the layouts of files with records, and of rewritten files; None if there is no table yet.
            keys: the key columns and the flag.
            reader: reads files of the table.
            place: the folder of the table.
            there: finds the files of the table.

        Raises:
            RunFailed: a key identifies several records or rows, or a file of the table cannot be read.
            OSError: a file cannot be read or written.
            Unfit: a value does not fit.
        """
        layout, table = layouts
        merge = Merge(
            records.part_store,
            records.room.folder,
            partial(create, records.part_store, place.root),
            reader,
            records.writer,
            layout,
            table,
            keys.names,
            keys.flag,
            tuple(name for name in layout.schema.names if name not in records.schema.names),
            records.moved,
            records.room.most_bytes,
            records.tuning.kept_bytes,
        )
        try:
            return merging.merge(spark, merge, records.ranges, there(), records.tuning, place.remove)
        except merging.Ambiguous as problem:
            guard = records.room.guard
            shown = "; ".join(
                f"{', '.join(_key_text(name, value, guard) for name, value in key.items())} ({count} times)"
                for key, count in problem.keys
            )
            what = f"{problem.whose} the same key more than once: {shown}"
            self.refuse(f"{what}; nothing is committed; {problem.remedy}")
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or FAILED, f"output '{self.output}': {error}") from error

    def refuse_nulls(self, having: Collection[str]) -> None:
        """Refuse nulls in columns that are required in the table.

        Args:
            having: the columns with nulls.

        Raises:
            RunFailed: such a column is required (E912).
        """
        for column in self.schema or ():
            if column.name in having and not column.nullable:
                self.refuse(f"column '{column.name}' of the table must not be null, and some records have no value")


def _key_text(name: str, value: Any, guard: Guard) -> str:
    return f"{name} = {credentials.HIDDEN if guard.hides(name) else value!r}"


def column_fields(written: Schema) -> Iterator[pa.Field]:
    """The columns of records with the types of new columns of a table."""
    return (pa.field(column.name, _fresh(counterparts.of(column.type))) for column in written.columns)


def _fresh(kind: pa.DataType) -> pa.DataType:
    """The type of a new column: moments are in UTC."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    return pa.list_(_fresh(kind.value_type)) if pa.types.is_list(kind) else kind


def _fits(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """True if a column of the table may hold values of a type. Ints, digits and Decimals are checked value by value."""
    if ours == theirs:
        return True
    if pa.types.is_list(ours) and pa.types.is_list(theirs):
        return _fits(ours.value_type, theirs.value_type)
    if pa.types.is_decimal(ours):
        return pa.types.is_decimal(theirs)
    if ours == pa.int64():
        return theirs in (pa.int8(), pa.int16(), pa.int32()) or pa.types.is_decimal(theirs)
    if pa.types.is_string(ours):
        return pa.types.is_large_string(theirs) or pa.types.is_decimal(theirs)
    return pa.types.is_timestamp(ours) and pa.types.is_timestamp(theirs)


def files(spark: SparkSession, records: Records, layout: Layout, root: str) -> tuple[Any, ...]:
    """Write records into files in the folder of a table, in this process if that is faster than a job.

    Raises:
        OSError: a file cannot be written.
        Unfit: a value does not fit.
    """
    work = partial(_files, records.part_store, records.writer, layout, root, records.moved)
    if sum(part_range.size for part_range in records.ranges) <= records.tuning.driver_output_bytes:
        made = [work(part_range) for part_range in records.ranges]
    else:
        made = spread.parallel_map(spark, work, [*records.ranges], reraised=(OSError, format.UnwritableFile))
    return tuple(each for some in made for each in some)


def _files(
    part_store: PartStore, writer: TableWriter[Any], layout: Layout, root: str, moved: bool, part_range: PartRange
) -> list[Any]:
    """Write the files of a part. A task does this."""
    destination.check(part_store, part_range)
    stream = converting.open_joined(part_store, cast("ColumnWriter", writer), [part_range], moved=moved)
    return writer.files(stream, layout, partial(create, part_store, root), moved=moved)


def create(part_store: PartStore, root: str, path: str) -> IO[bytes]:
    """Create a file in the folder of a table, which is durable once it is closed."""
    if location.is_uri(root):
        return part_store.create(f"{root}/{path}")
    where = Path(root, path)
    durable.make_folder(where.parent, exist_ok=True)
    return cast("IO[bytes]", _Lasting(where))


class _Lasting:
    """A local file that is synced to disk when it is closed."""

    closed = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("xb")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Wait until the bytes and the name are on the disk."""
        if not self.closed:
            self.closed = True
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            durable.sync_folder(self._path.parent)

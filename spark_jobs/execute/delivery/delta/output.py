"""Outputs that are Delta tables: whether records fit the table, and the files that tasks write of them."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa

from spark_jobs import credentials
from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute.delivery import converting, destination
from spark_jobs.execute.delivery.delta import commit as commits
from spark_jobs.execute.delivery.delta import merge as merging
from spark_jobs.execute.delivery.delta.commit import Commit, Place, Removed, TableCommit
from spark_jobs.execute.delivery.delta.merge import Merge
from spark_jobs.execute.spark import spread
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import format, reader
from spark_jobs.formats.delta import log
from spark_jobs.formats.delta.options import DeltaRead, Mode
from spark_jobs.formats.delta.write import Added, DeltaWriter, Layout
from spark_jobs.formats.typed import counterparts
from spark_jobs.nodes.records.guarded import OPEN, Guard
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.execute.delivery.destination import PartStore, Piece
    from spark_jobs.execute.delivery.participant import Reach
    from spark_jobs.formats.delta.options import DeltaWrite
    from spark_jobs.formats.format import ColumnWriter
    from spark_jobs.scan.files import InputFile
    from spark_jobs.tuning import Tuning

#: What a table may ask of its writers, and gets.
_FEATURES = frozenset(
    {"appendOnly", "deletionVectors", "domainMetadata", "invariants", "checkConstraints", "generatedColumns"}
    | {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "changeDataFeed", "typeWidening"}
)
_LAST_PLAIN_WRITER = 4


@dataclass
class TableOutput:
    """The table of an output, as the run has found it when it began.

    Args:
        output: the name of the output.
        options: what is to be done.
        place: where it is.
        version: its version; None where there is none yet.
        schema: its columns; None where there is none yet.
        partition_by: the columns by which it is partitioned.
        commit: what makes the records visible, once their files are written.
    """

    output: str
    options: DeltaWrite
    place: Place
    version: int | None
    schema: pa.Schema | None
    partition_by: tuple[str, ...]
    commit: TableCommit | None = None

    @classmethod
    def look(cls, output: str, options: DeltaWrite, path: Any, written: str, reach: Reach) -> TableOutput:
        """Look at a table, after what dead runs have left of theirs was completed or removed.

        Raises:
            RunFailed: it cannot be written (E912).
            OSError: what a dead run has left cannot be completed.
        """
        place = Place(str(path).rstrip("/"), written, reach.stores.resolved())
        if not location.is_uri(place.root):
            place.root = os.path.abspath(place.root)
        elif location.scheme_of(place.root) != "s3":
            text = f"{written}: Delta tables are written to local folders and to S3; write the table there"
            raise RunFailed(ExitCode.IO, log.FAILED, text)
        commits.recover(place, reach)
        try:
            table = log.found(place.root, written, place.stores)
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or log.FAILED, str(error)) from error
        found = cls(output, options, place, None, None, options.partition_by)
        if table is not None:
            found._take(table)
        return found

    def _take(self, table: DeltaTable) -> None:
        exported: Any = table.schema().to_arrow()
        self.version, self.schema = table.version(), pa.schema(exported)
        known = tuple(table.metadata().partition_columns)
        if self.options.partition_by and self.options.partition_by != known:
            shown = ", ".join(known) or "nothing"
            self._refuse(f"`partition_by` is {', '.join(self.options.partition_by)}, and the table has {shown}")
        self.partition_by = known
        protocol, configured = table.protocol(), table.metadata().configuration
        if self.options.mode is Mode.OVERWRITE_PARTITIONS and not known:
            self._refuse("`overwrite_partitions` needs a table that has partitions")
        replaces_files = self.options.mode in (Mode.OVERWRITE_PARTITIONS, Mode.MERGE)
        if replaces_files and "deletionVectors" in (protocol.reader_features or ()):
            mode = str(self.options.mode)
            self._refuse(f"`mode: {mode}` replaces no files with deletion vectors, which the table may have")
        if self.options.mode is Mode.MERGE and configured.get("delta.enableChangeDataFeed") == "true":
            self._refuse("the table has `delta.enableChangeDataFeed`, and merged records are no part of its feed")
        unknown = sorted(set(protocol.writer_features or ()) - _FEATURES)
        if protocol.min_writer_version > _LAST_PLAIN_WRITER and not protocol.writer_features:
            unknown.append(f"version {protocol.min_writer_version} of the protocol")
        unknown += sorted(key for key in configured if key.startswith("delta.constraints."))
        rules = ("delta.invariants", "delta.generationExpression", "delta.identity")
        for column in table.schema().fields:
            unknown += [f"{key} of column '{column.name}'" for key in column.metadata if key.startswith(rules)]
        if unknown:
            self._refuse(f"the table asks of its writers what is not done here: {', '.join(unknown)}")
        if self.options.mode is not Mode.APPEND and configured.get("delta.appendOnly") == "true":
            self._refuse("records of the table must not be replaced: it has `delta.appendOnly`")

    def _refuse(self, text: str) -> NoReturn:
        raise RunFailed(ExitCode.IO, log.FAILED, f"output '{self.output}': {self.place.name}: {text}")

    def layout(self, written: Schema) -> tuple[Layout, pa.Schema, tuple[str, ...]]:
        """How files of some columns are written; the columns that the table has then, and which of them are new.

        Raises:
            RunFailed: a column does not fit the table (E912).
        """
        wanted = [
            pa.field(column.name, _fresh(counterparts.of(column.type)))
            for column in written.columns
            if column.name != self.options.delete_flag
        ]
        for name in self.partition_by:
            if name not in written.names:
                self._refuse(f"the records have no column '{name}', by which the table is partitioned")
        self._refuse_flag(written)
        if self.schema is None:
            self._refuse_keys(pa.schema(wanted))
            return Layout(pa.schema(wanted), self.partition_by), pa.schema(wanted), ()
        fields, new = [], []
        cases = {name.casefold(): name for name in self.schema.names}
        for column in wanted:
            if column.name in self.schema.names:
                fields.append(self._as_there(column))
            elif column.name.casefold() in cases:
                self._refuse(f"column '{column.name}' is '{cases[column.name.casefold()]}' in the table; rename it")
            elif not self.options.evolve:
                self._refuse(f"the table has no column '{column.name}'; leave it out, or add it by `evolve: true`")
            else:
                fields.append(column)
                new.append(column)
        names = {column.name for column in fields}
        for column in self.schema:
            if column.name not in names and not column.nullable:
                self._refuse(f"column '{column.name}' of the table must not be null, and the records do not have it")
        if self.options.mode is Mode.MERGE:
            self._refuse_keys(pa.schema(fields))
            # Replaced rows hand these on.
            fields += [pa.field(column.name, column.type) for column in self.schema if column.name not in names]
        return Layout(pa.schema(fields), self.partition_by), pa.schema([*self.schema, *new]), tuple(f.name for f in new)

    def _refuse_flag(self, written: Schema) -> None:
        """Refuse a flag that says nothing, or that the table has a column for."""
        flag = self.options.delete_flag
        if not flag:
            return
        kind = next((counterparts.of(column.type) for column in written.columns if column.name == flag), None)
        if kind is None:
            self._refuse(f"the records have no column '{flag}', which `delete_flag` names")
        if kind != pa.bool_():
            self._refuse(f"column '{flag}', which `delete_flag` names, is {kind}: make it a Bool")
        if self.schema is not None and flag in self.schema.names:
            self._refuse(f"the table has a column '{flag}', and a `delete_flag` is not written: rename the flag")

    def _refuse_keys(self, columns: pa.Schema) -> None:
        """Refuse keys whose values cannot be compared."""
        for name in self.options.key:
            kind = columns.field(name).type
            if pa.types.is_floating(kind) or pa.types.is_nested(kind):
                self._refuse(f"column '{name}' of `key` is {kind}, which tells no records apart: use other columns")

    def _as_there(self, column: pa.Field) -> pa.Field:
        assert self.schema is not None
        there = self.schema.field(column.name)
        if not _fits(column.type, there.type):
            self._refuse(f"column '{column.name}' is {column.type} here, and {there.type} in the table; convert it")
        return pa.field(column.name, there.type)

    def refuse_nulls(self, files: Sequence[Added]) -> None:
        """Refuse nulls where the table has none.

        Raises:
            RunFailed: there are some (E912).
        """
        for column in self.schema or ():
            is_null = any(column.name in each.nulls or each.partition.get(column.name, "") is None for each in files)
            if is_null and not column.nullable:
                self._refuse(f"column '{column.name}' of the table must not be null, and some records have no value")


def _fresh(kind: pa.DataType) -> pa.DataType:
    """A type as new columns have it: moments are in UTC."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    return pa.list_(_fresh(kind.value_type)) if pa.types.is_list(kind) else kind


def _fits(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether values of a type may be in a column of the table; ints, digits and Decimals are looked at one by one."""
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


def write(
    spark: SparkSession,
    part_store: PartStore,
    writer: DeltaWriter,
    written: Schema,
    pieces: Sequence[Piece],
    table: TableOutput,
    run: str,
    tuning: Tuning,
    *,
    moved: bool,
    room: Room,
) -> TableCommit:
    """Write the files of an output into the folder of its table; gives what makes them visible.

    Raises:
        RunFailed: the records do not fit the table (E912).
        OSError: a file cannot be written.
        Unfit: a value does not fit.
    """
    layout, schema, new = table.layout(written)
    removed: tuple[Removed, ...] = ()
    if table.options.mode is Mode.MERGE:
        wanted = _wanted(part_store, writer, layout, written, table, room, moved=moved)
        files, removed = _merged(spark, wanted, pieces, table, tuning, room.guard)
    else:
        work = partial(_files, part_store, writer, layout, table.place.root, moved)
        if sum(piece.size for piece in pieces) <= tuning.driver_output_bytes:
            made = [work(piece) for piece in pieces]
        else:
            made = spread.spread(spark, work, [*pieces], reraised=(OSError, format.Unfit))
        files = tuple(each for some in made for each in some)
    from deltalake import Schema as DeltaSchema

    exported: Any = schema
    schema_json = DeltaSchema.from_arrow(exported).to_json()
    token = uuid.uuid4().hex
    known = Commit(run, table.options.mode, table.version, schema_json, new, table.partition_by, files, token, removed)
    commit = TableCommit(table.place, known)
    try:
        table.refuse_nulls(files)
    except RunFailed:
        commit.give_up()
        raise
    return commit


@dataclass(frozen=True)
class Room:
    """What a merge may use.

    Args:
        folder: where in the part store tasks hand things to one another.
        most_bytes: so many bytes a task holds at once.
        guard: which columns nobody may see.
    """

    folder: str
    most_bytes: int
    guard: Guard = OPEN


def _wanted(
    part_store: PartStore,
    writer: DeltaWriter,
    layout: Layout,
    written: Schema,
    table: TableOutput,
    room: Room,
    *,
    moved: bool,
) -> Merge:
    options, create = table.options, partial(_create, part_store, table.place.root)
    kept = tuple(name for name in layout.schema.names if name not in written.names)
    about = (table.schema, options.key, options.delete_flag, kept, moved, room.most_bytes)
    return Merge(part_store, room.folder, create, writer, layout, *about)


def _merged(
    spark: SparkSession, wanted: Merge, pieces: Sequence[Piece], table: TableOutput, tuning: Tuning, guard: Guard
) -> tuple[tuple[Added, ...], tuple[Removed, ...]]:
    """The files that a merge adds, and those that it takes out.

    Raises:
        RunFailed: keys do not tell records or rows apart, or a file of the table cannot be read.
    """
    place = table.place
    try:
        files: tuple[InputFile, ...] = ()
        if table.version is not None:
            where = reader.Place(Path("/"), place.root, stores=place.stores, allow_outside=True)
            files = log.files(DeltaRead(version=table.version), where, wanted.key)
        return merging.merge(spark, wanted, pieces, files, tuning, place.remove)
    except merging.Ambiguous as problem:
        shown = "; ".join(
            f"{', '.join(_told(name, value, guard) for name, value in key.items())} ({count} times)"
            for key, count in problem.keys
        )
        table._refuse(f"{problem.whose} the same key more than once: {shown}; nothing is committed; {problem.remedy}")
    except FormatError as error:
        raise RunFailed(ExitCode.IO, error.code or log.FAILED, f"output '{table.output}': {error}") from error


def _told(name: str, value: Any, guard: Guard) -> str:
    return f"{name} = {credentials.HIDDEN if guard.hides(name) else value!r}"


def _files(
    part_store: PartStore, writer: DeltaWriter, layout: Layout, root: str, moved: bool, piece: Piece
) -> list[Added]:
    """The files of a part; a task does that."""
    destination.check(part_store, piece)
    stream = converting.joined(part_store, cast("ColumnWriter", writer), [piece], moved=moved)
    return writer.files(stream, layout, partial(_create, part_store, root), moved=moved)


def _create(part_store: PartStore, root: str, path: str) -> IO[bytes]:
    """Begin a file in the folder of a table, which lasts once it is closed."""
    if location.is_uri(root):
        return part_store.create(f"{root}/{path}")
    where = Path(root, path)
    where.parent.mkdir(parents=True, exist_ok=True)
    return cast("IO[bytes]", _Lasting(where))


class _Lasting:
    """A local file that is on the disk once it is closed."""

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

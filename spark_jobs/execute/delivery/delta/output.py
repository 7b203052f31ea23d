"""Outputs that are Delta tables: whether records fit the table, and the files that tasks write of them."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute.delivery import converting, destination
from spark_jobs.execute.delivery.delta import commit as commits
from spark_jobs.execute.delivery.delta.commit import Commit, Place, TableCommit
from spark_jobs.execute.spark import spread
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import format
from spark_jobs.formats.delta import log
from spark_jobs.formats.delta.options import Mode
from spark_jobs.formats.delta.write import Added, DeltaWriter, Layout
from spark_jobs.formats.typed import counterparts
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
        if self.options.mode is Mode.OVERWRITE_PARTITIONS and "deletionVectors" in (protocol.reader_features or ()):
            self._refuse("`overwrite_partitions` replaces no files with deletion vectors, which the table may have")
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

    def _refuse(self, text: str) -> None:
        raise RunFailed(ExitCode.IO, log.FAILED, f"output '{self.output}': {self.place.name}: {text}")

    def layout(self, written: Schema) -> tuple[Layout, pa.Schema, tuple[str, ...]]:
        """How files of some columns are written; the columns that the table has then, and which of them are new.

        Raises:
            RunFailed: a column does not fit the table (E912).
        """
        wanted = [pa.field(column.name, _fresh(counterparts.of(column.type))) for column in written.columns]
        for name in self.partition_by:
            if name not in written.names:
                self._refuse(f"the records have no column '{name}', by which the table is partitioned")
        if self.schema is None:
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
        return Layout(pa.schema(fields), self.partition_by), pa.schema([*self.schema, *new]), tuple(f.name for f in new)

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
    """Whether values of a type may be in a column of the table; ints and digits are looked at one by one."""
    if ours == theirs:
        return True
    if pa.types.is_list(ours) and pa.types.is_list(theirs):
        return _fits(ours.value_type, theirs.value_type)
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
) -> TableCommit:
    """Write the files of an output into the folder of its table; gives what makes them visible.

    Raises:
        RunFailed: the records do not fit the table (E912).
        OSError: a file cannot be written.
        Unfit: a value does not fit.
    """
    layout, schema, new = table.layout(written)
    work = partial(_files, part_store, writer, layout, table.place.root, moved)
    if sum(piece.size for piece in pieces) <= tuning.driver_output_bytes:
        made = [work(piece) for piece in pieces]
    else:
        made = spread.spread(spark, work, [*pieces], reraised=(OSError, format.Unfit))
    files = tuple(each for some in made for each in some)
    from deltalake import Schema as DeltaSchema

    exported: Any = schema
    schema_json = DeltaSchema.from_arrow(exported).to_json()
    known = Commit(
        run, table.options.mode, table.version, schema_json, new, table.partition_by, files, uuid.uuid4().hex
    )
    commit = TableCommit(table.place, known)
    try:
        table.refuse_nulls(files)
    except RunFailed:
        commit.give_up()
        raise
    return commit


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

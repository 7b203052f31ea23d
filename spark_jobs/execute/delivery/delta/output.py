"""Outputs that are Delta tables: they match records with the table, and tasks write its files."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.execute.delivery.delta import commit as commits
from spark_jobs.execute.delivery.delta.commit import Commit, Place, Removed, TableCommit
from spark_jobs.execute.delivery.tables import output as tables
from spark_jobs.execute.delivery.tables.output import Target
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats.delta import log, storage, vectors
from spark_jobs.formats.delta.options import DeltaRead
from spark_jobs.formats.delta.read import DeltaReader
from spark_jobs.formats.tables import partitions
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.formats.tables.modes import Mode
from spark_jobs.formats.tables.write import Layout, text_of
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.execute.delivery.tables.output import Records
    from spark_jobs.formats.delta.options import DeltaWrite
    from spark_jobs.formats.delta.write import Added
    from spark_jobs.scan.files import InputFile

#: The writer features that are supported.
_FEATURES = frozenset(
    {"appendOnly", "deletionVectors", "domainMetadata", "invariants", "checkConstraints", "generatedColumns"}
    | {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "changeDataFeed", "typeWidening"}
)
_LAST_PLAIN_WRITER = 4
#: Since this version of the protocol, a table lists its features.
_LISTING_WRITER = 7


@dataclass(kw_only=True)
class TableOutput(Target):
    """The table of an output, in the state in which the run found it.

    Args:
        options: the options of the output.
        place: the folder of the table.
        version: its version; None if there is no table yet.
    """

    options: DeltaWrite
    place: Place
    version: int | None = None

    @classmethod
    def look(cls, output: str, options: DeltaWrite, path: Any, written: str, access: StorageAccess) -> TableOutput:
        """Look at a table, after commits of dead runs have been completed or removed.

        Raises:
            RunFailed: it cannot be written (E912).
            OSError: the commit of a dead run cannot be completed.
        """
        place = Place(str(path).rstrip("/"), written, access.stores.resolved())
        if not location.is_uri(place.root):
            place.root = os.path.abspath(place.root)
        if (problem := storage.problem(place.root)) is not None:
            raise RunFailed(ExitCode.IO, FAILED, f"{written}: {problem}")
        commits.recover(place, access)
        try:
            table = log.found(place.root, written, place.stores)
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or FAILED, str(error)) from error
        found = cls(output, written, partition_by=options.partition_by, options=options, place=place)
        if table is not None:
            found._take(table)
        return found

    def _take(self, table: DeltaTable) -> None:
        exported: Any = table.schema().to_arrow()
        self.version, self.schema = table.version(), pa.schema(exported)
        known = tuple(table.metadata().partition_columns)
        self.refuse_other_partitions(self.options.partition_by, known)
        self.partition_by = known
        protocol, configured = table.protocol(), table.metadata().configuration
        if self.options.mode is Mode.OVERWRITE_PARTITIONS and not known:
            self.refuse("`overwrite_partitions` needs a table that has partitions")
        if self.options.mode is Mode.MERGE and configured.get("delta.enableChangeDataFeed") == "true":
            self.refuse("the table has `delta.enableChangeDataFeed`, and merged records are no part of its feed")
        unknown = sorted(set(protocol.writer_features or ()) - _FEATURES)
        if protocol.min_writer_version > _LAST_PLAIN_WRITER and protocol.min_writer_version != _LISTING_WRITER:
            unknown.append(f"version {protocol.min_writer_version} of the protocol")
        unknown += sorted(key for key in configured if key.startswith("delta.constraints."))
        rules = ("delta.invariants", "delta.generationExpression", "delta.identity")
        for column in table.schema().fields:
            unknown += [f"{key} of column '{column.name}'" for key in column.metadata if key.startswith(rules)]
        if unknown:
            self.refuse(f"the table asks of its writers what is not done here: {', '.join(unknown)}")
        if self.options.mode is not Mode.APPEND and configured.get("delta.appendOnly") == "true":
            self.refuse("records of the table must not be replaced: it has `delta.appendOnly`")

    def layout(self, written: Schema) -> tuple[Layout, pa.Schema, tuple[str, ...]]:
        """The layout of files with the written columns, the columns of the table afterwards, and the new columns.

        Raises:
            RunFailed: a column does not fit the table (E912).
        """
        flag, key = self.options.delete_flag, self.options.key
        self.refuse_flag(written, flag)
        wanted = [column for column in tables.column_fields(written) if column.name != flag]
        fields, new = self.matched(wanted, written, evolve=self.options.evolve)
        self.refuse_keys(fields, key)
        parts = partitions.identities(self.partition_by)
        if self.schema is None:
            return Layout(pa.schema(fields), parts), pa.schema(fields), ()
        if self.options.mode is Mode.MERGE:
            # Replaced rows supply the values of these columns.
            names = {column.name for column in fields}
            fields += [pa.field(column.name, column.type) for column in self.schema if column.name not in names]
        return Layout(pa.schema(fields), parts), pa.schema([*self.schema, *new]), tuple(f.name for f in new)

    def write(self, spark: SparkSession, records: Records) -> TableCommit:
        """See `Target`."""
        layout, schema, new = self.layout(records.schema)
        removed: tuple[Removed, ...] = ()
        if self.options.mode is Mode.MERGE:
            files, replaced = self._merged(spark, records, layout)
            removed = self._removed(replaced)
        else:
            files = tables.files(spark, records, layout, self.place.root)
        from deltalake import Schema as DeltaSchema

        exported: Any = schema
        schema_json = DeltaSchema.from_arrow(exported).to_json()
        token = uuid.uuid4().hex
        known = Commit(
            records.run, self.options.mode, self.version, schema_json, new, self.partition_by, files, token, removed
        )
        commit = TableCommit(self.place, known)
        try:
            self.refuse_nulls({name for each in files for name in _with_nulls(each)})
        except RunFailed:
            commit.give_up()
            raise
        return commit

    def _merged(
        self, spark: SparkSession, records: Records, layout: Layout
    ) -> tuple[tuple[Added, ...], tuple[InputFile, ...]]:
        """Merge the records. Returns the files that the commit adds, and the files that it removes.

        Raises:
            RunFailed: keys do not tell records or rows apart, or a file of the table cannot be read.
        """
        there = None
        if self.schema is not None:
            bare = pa.schema([pa.field(column.name, column.type) for column in self.schema])
            there = Layout(bare, layout.partition_by)
        keys = tables.Keys(self.options.key, self.options.delete_flag)
        return self.merged(
            spark, records, (layout, there), keys, DeltaReader(DeltaRead()), self.place, self._files_there
        )

    def _files_there(self) -> Sequence[InputFile]:
        """The files of the version that the run has seen."""
        if self.version is None:
            return ()
        return log.files(DeltaRead(version=self.version), self.place.as_source, self.options.key)

    def _removed(self, files: Sequence[InputFile]) -> tuple[Removed, ...]:
        """Rewritten files, as the log describes them.

        Raises:
            RunFailed: the log cannot be read.
        """
        found = [_removed(each) for each in files]
        with_vectors = {own.path for own, file in zip(found, files, strict=True) if file.table.deleted}
        if not with_vectors:
            return tuple(found)
        assert self.version is not None
        try:
            known = vectors.of_files(self.place.root, self.version, self.place.as_source, with_vectors)
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or FAILED, f"output '{self.output}': {error}") from error
        return tuple(replace(each, vector=known.get(each.path)) for each in found)


def _with_nulls(file: Added) -> list[str]:
    """The columns of a file that have nulls."""
    return [*file.nulls, *(name for name, value in file.partition.items() if value is None)]


def _removed(file: InputFile) -> Removed:
    """A rewritten file, as the log describes it."""
    about = file.table
    values = {name: text_of(about.partition[name].as_py()) for name in about.snapshot.partition_by}
    return Removed(file.path.removeprefix(f"{about.snapshot.root}/"), file.size, values)

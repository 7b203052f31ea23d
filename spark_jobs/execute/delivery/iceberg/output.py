"""Outputs that are Iceberg tables: matching of records and table, and the layout of its files."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.execute.delivery import places
from spark_jobs.execute.delivery.destinations import PartStores
from spark_jobs.execute.delivery.iceberg import commit as commits
from spark_jobs.execute.delivery.iceberg.commit import Commit, Place, TableCommit
from spark_jobs.execute.delivery.tables import output as tables
from spark_jobs.execute.delivery.tables.output import Target
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import reader
from spark_jobs.formats.iceberg import catalog as catalogs
from spark_jobs.formats.iceberg import snapshots
from spark_jobs.formats.iceberg.options import IcebergRead
from spark_jobs.formats.iceberg.read import IcebergReader
from spark_jobs.formats.tables import partitions, transforms
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.formats.tables.modes import Mode
from spark_jobs.formats.tables.partitions import Transform
from spark_jobs.formats.tables.write import Layout
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema as TableSchema
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.execute.delivery.tables.output import Records
    from spark_jobs.formats.iceberg.options import IcebergWrite
    from spark_jobs.formats.iceberg.write import Added
    from spark_jobs.formats.tables.partitions import Partition
    from spark_jobs.scan.files import InputFile

#: Later format versions require row ids from writers.
_LAST_VERSION = 2
#: The subfolder of a table for its files.
_DATA = "data/"


@dataclass(kw_only=True)
class TableOutput(Target):
    """The table of an output, in the state in which the run found it.

    Args:
        options: the options of the output.
        catalog: the catalog.
        access: access to stores and catalogs.
        table: the table; None if there is none yet.
        partitions: the partition fields of the table, if there is one.
    """

    options: IcebergWrite
    catalog: Catalog
    access: StorageAccess
    table: Table | None = None
    partitions: tuple[Partition, ...] = ()

    @classmethod
    def look(cls, output: str, options: IcebergWrite, path: Any, written: str, access: StorageAccess) -> TableOutput:
        """Look at a table, after commits of dead runs have been completed or removed.

        Raises:
            RunFailed: it cannot be written (E912).
            OSError: the commit of a dead run cannot be completed.
        """
        try:
            catalog = catalogs.opened(options.catalog, access.catalogs, access.stores.resolved())
            found = cls(output, written, options=options, catalog=catalog, access=access)
            found.table = catalogs.table(catalog, options.table)
            where = found.table.location() if found.table is not None else found._new_location()
            if where is not None:
                commits.recover(found._place(where), access)
                found.table = catalogs.table(catalog, options.table)
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or FAILED, str(error)) from error
        if found.table is not None:
            found._take(found.table)
        return found

    def _place(self, where: str) -> Place:
        """The folder of the table.

        Raises:
            FormatError: nothing is written there (E912).
        """
        root = catalogs.place_of(where.rstrip("/"), self.name)
        about = (self.options.catalog, self.options.table, self.access)
        return Place(root, self.name, self.access.stores.resolved(), *about)

    def _new_location(self) -> str | None:
        """The location that the catalog will give the table; None if there is no namespace for it yet."""
        from pyiceberg.exceptions import NoSuchNamespaceError
        from pyiceberg.schema import Schema as TableSchema

        with catalogs.translated_errors(self.name, self.catalog.properties):
            try:
                return self._staged(TableSchema())
            except NoSuchNamespaceError:
                return None

    def _staged(self, columns: TableSchema) -> str:
        return self.catalog.create_table_transaction(self.options.table, columns).table_metadata.location

    def _take(self, table: Table) -> None:
        self.schema = snapshots.arrow_of(table.schema())
        try:
            self.partitions = commits.partitions_of(table)
        except ValueError as error:
            self.refuse(
                f"the table is partitioned by {error}, and tables are written here that are partitioned by columns or "
                "functions of them; have the table's own engine load what a Parquet output writes"
            )
        known = tuple(str(each) for each in self.partitions if each.transform is not Transform.VOID)
        wanted = (_parsed(text, self.schema.names) for text in self.options.partition_by)
        self.refuse_other_partitions(tuple(wanted), known)
        self._settle()
        if table.format_version > _LAST_VERSION:
            self.refuse(f"the table has version {table.format_version} of the format, and version 2 is written")
        if self.options.mode is Mode.OVERWRITE_PARTITIONS:
            if not self.partition_by:
                self.refuse("`overwrite_partitions` needs a table that has partitions")
            if len(table.specs()) > 1:
                self.refuse("`overwrite_partitions` needs files of the same partitions, and the table's have changed")

    def _settle(self) -> None:
        """Set the columns by which the table is partitioned."""
        self.partition_by = tuple(each.column for each in self.partitions if each.transform is not Transform.VOID)

    def write(self, spark: SparkSession, records: Records) -> TableCommit:
        """See `Target`."""
        options = self.options
        if self.table is None:
            if options.mode is Mode.OVERWRITE_PARTITIONS and not options.partition_by:
                self.refuse("`overwrite_partitions` needs `partition_by`, where there is no table yet")
            try:
                self.partitions = tuple(partitions.parsed(each, records.schema.names) for each in options.partition_by)
            except ValueError as error:
                self.refuse(str(error))
            self._settle()
        self.refuse_flag(records.schema, options.delete_flag)
        wanted = [column for column in tables.column_fields(records.schema) if column.name != options.delete_flag]
        fields, new = self.matched(wanted, records.schema, evolve=options.evolve)
        self.refuse_keys(fields, options.key)
        self._refuse_partitions(fields)
        try:
            columns, where = self._columns(fields, new)
            place = self._place(where)
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or FAILED, f"output '{self.output}': {error}") from error
        if location.is_uri(place.root):
            # The table is in a store, wherever the run's other outputs are.
            stores = PartStores(records.part_store, places.files(self.access, location.parse(place.root)))
            records = replace(records, part_store=stores)
        removed: tuple[str, ...] = ()
        layout = self._layout(columns, self._names(fields))
        if options.mode is Mode.MERGE:
            files, replaced = self._merged(spark, records, layout, columns, place)
            removed = tuple(each.path for each in replaced)
        else:
            files = tables.files(spark, records, layout, place.root)
        known = self.table
        commit = TableCommit(
            place,
            Commit(
                run=records.run,
                token=uuid.uuid4().hex,
                mode=self.options.mode,
                catalog=self.options.catalog,
                table=self.options.table,
                location=where,
                uuid="" if known is None else str(known.metadata.table_uuid),
                snapshot=None if known is None else commits.snapshot_of(known),
                columns=0 if known is None else known.schema().schema_id,
                schema=columns.model_dump_json(),
                new_columns=tuple(column.name for column in new),
                spec=0 if known is None else known.spec().spec_id,
                partition_by=tuple(map(str, self.partitions)),
                files=files,
                removed=removed,
            ),
        )
        try:
            names = {str(field.field_id): field.name for field in columns.fields}
            self.refuse_nulls({names[at] for each in files for at, count in each.nulls.items() if count})
        except RunFailed:
            commit.give_up()
            raise
        return commit

    def _names(self, fields: list[pa.Field]) -> list[str]:
        """The columns of files of records. In a merge they include columns whose values come from replaced rows."""
        names = [column.name for column in fields]
        if self.schema is None or self.options.mode is not Mode.MERGE:
            return names
        return names + [name for name in self.schema.names if name not in names]

    def _merged(
        self, spark: SparkSession, records: Records, layout: Layout, columns: TableSchema, place: Place
    ) -> tuple[tuple[Added, ...], tuple[InputFile, ...]]:
        """Merge the records. Returns the files that the commit adds, and the files that it removes.

        Raises:
            RunFailed: keys do not tell records or rows apart, or a file of the table cannot be read.
        """
        there = None if self.schema is None else self._layout(columns, self.schema.names)
        keys = tables.Keys(self.options.key, self.options.delete_flag)
        own = IcebergReader(IcebergRead())
        return self.merged(spark, records, (layout, there), keys, own, place, self._files_there)

    def _files_there(self) -> Sequence[InputFile]:
        """The files of the snapshot that the run has seen.

        Raises:
            FormatError: they cannot be read (E912).
        """
        if self.table is None:
            return ()
        where = reader.SourceContext(Path("/"), stores=self.access.stores.resolved())
        try:
            return snapshots.newest(self.table, self.name, where, self.options.key)
        except FormatError as error:
            if error.code != "E-SEC-001":
                raise
            text = "some files of the table are outside of its folder; have its own engine rewrite them first"
            raise FormatError(text, self.name, FAILED) from error

    def _refuse_partitions(self, fields: list[pa.Field]) -> None:
        """Refuse partition transforms that a column type does not have, or that the library cannot read back."""
        kinds = {column.name: column.type for column in fields}
        for each in self.partitions:
            if each.transform is Transform.VOID:
                continue
            if wrong := transforms.problem(each.transform, kinds[each.column]):
                self.refuse(f"the table cannot be partitioned by {each}: {wrong}; choose another column or function")
            if self.options.mode is not Mode.APPEND and pa.types.is_floating(kinds[each.column]):
                self.refuse(
                    f"`mode: {self.options.mode}` cannot find partitions of the floats in '{each.column}', which "
                    "PyIceberg reads with fewer digits; partition by another column, or append"
                )

    def _columns(self, fields: list[pa.Field], new: list[pa.Field]) -> tuple[TableSchema, str]:
        """The columns of the table after the commit, with their ids, and the table's location.

        Raises:
            FormatError: the catalog refuses (E912).
        """
        from pyiceberg.schema import assign_fresh_schema_ids

        with catalogs.translated_errors(self.name, self.catalog.properties):
            if self.table is None:
                columns = assign_fresh_schema_ids(_unnumbered(pa.schema(fields)))
                self.catalog.create_namespace_if_not_exists(self.options.table.rpartition(".")[0])
                return columns, self._staged(columns)
            if not new:
                return self.table.schema(), self.table.location()
            changes = self.table.transaction()
            with changes.update_schema() as change:
                for column in _unnumbered(pa.schema(new)).fields:
                    change.add_column(column.name, column.field_type)
            return changes.table_metadata.schema(), self.table.location()

    def _layout(self, columns: TableSchema, names: Sequence[str]) -> Layout:
        """The layout of files with the given columns and the partition columns. Fields carry their field ids."""
        there = snapshots.arrow_of(columns)
        columns_there: list[Any] = [there.field(name) for name in names]
        inside = [column.with_nullable(True) for column in columns_there]
        bare = pa.schema([pa.field(column.name, column.type) for column in inside])
        return Layout(bare, self.partitions, pa.schema(inside), _DATA)


def _parsed(text: str, columns: Sequence[str]) -> str:
    """Normalize a partition field for comparisons."""
    try:
        return str(partitions.parsed(text, columns))
    except ValueError:
        return text


def _unnumbered(columns: pa.Schema) -> TableSchema:
    """Columns in the library's form, without ids."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    return _pyarrow_to_schema_without_ids(columns)

"""Outputs that are Iceberg tables: whether records fit the table, and what its files have to say."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
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
from spark_jobs.formats.iceberg import catalog as catalogs
from spark_jobs.formats.iceberg import snapshots
from spark_jobs.formats.iceberg.options import Mode
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.formats.tables.write import Layout
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema as TableSchema
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.execute.delivery.participant import Reach
    from spark_jobs.execute.delivery.tables.output import Records
    from spark_jobs.formats.iceberg.options import IcebergWrite

#: Later versions ask writers for numbers of rows.
_LAST_VERSION = 2
#: Where the files of a table are in its folder.
_DATA = "data/"


@dataclass(kw_only=True)
class TableOutput(Target):
    """The table of an output, as the run has found it when it began.

    Args:
        options: what is to be done.
        catalog: the catalogue.
        reach: how things are reached.
        table: the table; None where there is none yet.
    """

    options: IcebergWrite
    catalog: Catalog
    reach: Reach
    table: Table | None = None

    @classmethod
    def look(cls, output: str, options: IcebergWrite, path: Any, written: str, reach: Reach) -> TableOutput:
        """Look at a table, after what dead runs have left of theirs was completed or removed.

        Raises:
            RunFailed: it cannot be written (E912).
            OSError: what a dead run has left cannot be completed.
        """
        try:
            catalog = catalogs.opened(options.catalog, reach.catalogs, reach.stores.resolved())
            found = cls(
                output, written, partition_by=options.partition_by, options=options, catalog=catalog, reach=reach
            )
            found.table = catalogs.table(catalog, options.table)
            where = found.table.location() if found.table is not None else found._new_location()
            if where is not None:
                commits.recover(found._place(where), reach)
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
        about = (self.options.catalog, self.options.table, self.reach)
        return Place(root, self.name, self.reach.stores.resolved(), *about)

    def _new_location(self) -> str | None:
        """Where the catalogue will have the table; None where there is no namespace for it yet."""
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
        from pyiceberg.transforms import IdentityTransform

        self.schema = snapshots.arrow_of(table.schema())
        tops = {field.field_id: field.name for field in table.schema().fields}
        known = []
        for field in table.spec().fields:
            if not isinstance(field.transform, IdentityTransform) or field.source_id not in tops:
                source = table.schema().find_column_name(field.source_id)
                self.refuse(
                    f"the table is partitioned by {field.transform}({source}), and tables are written here that are "
                    "partitioned by values of columns; have the table's own engine load what a Parquet output writes"
                )
            known.append(tops[field.source_id])
        self.refuse_other_partitions(self.options.partition_by, tuple(known))
        self.partition_by = tuple(known)
        if table.format_version > _LAST_VERSION:
            self.refuse(f"the table has version {table.format_version} of the format, and version 2 is written")
        if self.options.mode is Mode.OVERWRITE_PARTITIONS:
            if not known:
                self.refuse("`overwrite_partitions` needs a table that has partitions")
            if len(table.specs()) > 1:
                self.refuse("`overwrite_partitions` needs files of the same partitions, and the table's have changed")

    def write(self, spark: SparkSession, records: Records) -> TableCommit:
        """See `Target`."""
        if self.table is None and self.options.mode is Mode.OVERWRITE_PARTITIONS and not self.partition_by:
            self.refuse("`overwrite_partitions` needs `partition_by`, where there is no table yet")
        fields, new = self.matched([*tables.wanted(records.schema)], records.schema, evolve=self.options.evolve)
        if self.options.mode is not Mode.APPEND:
            self._refuse_floats(fields)
        try:
            columns, where = self._columns(fields, new)
            place = self._place(where)
        except FormatError as error:
            raise RunFailed(ExitCode.IO, error.code or FAILED, f"output '{self.output}': {error}") from error
        layout = self._layout(columns, records.schema)
        if location.is_uri(place.root):
            # Whatever else the run writes, and wherever: the table is in a store.
            stores = PartStores(records.part_store, places.files(self.reach, location.parse(place.root)))
            records = replace(records, part_store=stores)
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
                partition_by=self.partition_by,
                files=files,
            ),
        )
        try:
            names = {str(field.field_id): field.name for field in columns.fields}
            self.refuse_nulls({names[at] for each in files for at, count in each.nulls.items() if count})
        except RunFailed:
            commit.give_up()
            raise
        return commit

    def _refuse_floats(self, fields: list[pa.Field]) -> None:
        """Refuse to replace files whose partitions the library does not find again."""
        for column in fields:
            if column.name in self.partition_by and pa.types.is_floating(column.type):
                self.refuse(
                    f"`mode: {self.options.mode}` cannot find partitions of the floats in '{column.name}', which "
                    "PyIceberg reads with fewer digits; partition by another column, or append"
                )

    def _columns(self, fields: list[pa.Field], new: list[pa.Field]) -> tuple[TableSchema, str]:
        """The columns that the table has then, with their numbers, and where it is.

        Raises:
            FormatError: the catalogue refuses (E912).
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

    def _layout(self, columns: TableSchema, written: Schema) -> Layout:
        """How the files are written: with the numbers of their columns, those of partitions among them."""
        there = snapshots.arrow_of(columns)
        columns_there: list[Any] = [there.field(name) for name in written.names]
        inside = [column.with_nullable(True) for column in columns_there]
        bare = pa.schema([pa.field(column.name, column.type) for column in inside])
        return Layout(bare, self.partition_by, pa.schema(inside), _DATA)


def _unnumbered(columns: pa.Schema) -> TableSchema:
    """Columns as the library has them, without numbers."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    return _pyarrow_to_schema_without_ids(columns)

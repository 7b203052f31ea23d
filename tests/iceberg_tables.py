"""Iceberg tables of tests, in a catalogue that is a file of SQLite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.typedef import Record

from tests import object_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from tests.object_store import Bucket

CONFIGURED = '[catalogs.lake]\nuri = "sqlite:///catalog.db"\nwarehouse = "./warehouse"\n'


def catalog(folder: Path) -> Catalog:
    """The catalogue that `CONFIGURED` names in the `clinker.toml` of a folder."""
    (folder / "clinker.toml").write_text(CONFIGURED)
    return load_catalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def append(catalog: Catalog, name: str, rows: pa.Table, partition_by: str = "", **how: Any) -> Table:
    """Add rows to a table, which is made where there is none."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    if not catalog.table_exists(name):
        made = catalog.create_table(name, rows.schema, **how)
        if partition_by:
            with made.update_spec() as change:
                change.add_identity(partition_by)
    table = catalog.load_table(name)
    table.append(rows)
    return table


def delete_positions(table: Table, positions: dict[str, list[int]], content: DataFileContent) -> None:
    """Write a file that deletes rows, as engines do that merge on read; the library itself writes none."""
    rows = [(path, at) for path, some in positions.items() for at in some]
    columns = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
    )
    data = pa.table({"file_path": [path for path, _ in rows], "pos": [at for _, at in rows]}, schema=columns)
    where = f"{table.location()}/data/deletes-{len(table.snapshots())}.parquet"
    parquet.write_table(data, where.removeprefix("file://"))
    deleting = DataFile.from_args(
        content=content, file_path=where, file_format=FileFormat.PARQUET, partition=Record(),
        record_count=len(rows), file_size_in_bytes=1, equality_ids=[1] if content.value == 2 else None,
    )  # fmt: skip
    deleting.spec_id = table.spec().spec_id
    with table.transaction() as changes:
        producer = changes.update_snapshot().fast_append()
        real = producer._manifests

        def with_deletes() -> Any:
            output = producer.new_manifest_output()
            writer = _DeletesWriter(table.spec(), table.schema(), output, producer.snapshot_id, "null")
            with writer:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=producer.snapshot_id, sequence_number=None,
                    file_sequence_number=None, data_file=deleting,
                )  # fmt: skip
                writer.add(entry)
            return [writer.to_manifest_file(), *real()]

        producer._manifests = with_deletes  # type: ignore[method-assign]
        producer.commit()


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def with_metadata_of_version_3(table: Table, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the newest metadata of a table, which the library reads in version 3 and does not write."""
    path = Path(table.metadata_location.removeprefix("file://"))
    found = json.loads(path.read_text())
    found |= {"format-version": 3, "next-row-id": 100}
    change(found)
    path.write_text(json.dumps(found))


def rows(catalog: Catalog, name: str, key: str = "id") -> list[dict[str, Any]]:
    """The rows of a table, as the library reads them, sorted by a column."""
    found = catalog.load_table(name).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row[key] is None, row[key]))


def in_store(folder: Path, s3: Bucket) -> Catalog:
    """A catalogue whose tables are in a bucket."""
    return load_catalog(
        "lake",
        **{
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": s3.uri("warehouse"),
            "s3.endpoint": s3.endpoint,
            "s3.access-key-id": object_store.ACCESS_KEY,
            "s3.secret-access-key": object_store.SECRET_KEY,
            "s3.region": object_store.REGION,
        },
    )

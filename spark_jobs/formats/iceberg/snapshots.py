"""Reads a snapshot of an Iceberg table: the columns, and the files with partition values and statistics.

The driver reads the manifests once, through `pyiceberg`. The facts that tasks need travel with each file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats.iceberg import catalog as catalogs
from spark_jobs.formats.parquet.footer import Chunk
from spark_jobs.formats.tables import physical
from spark_jobs.formats.tables.files import FAILED, DataFile, Snapshot, numbers, packed
from spark_jobs.scan.files import FormatError, InputFile
from spark_jobs.stores import location as locations

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyiceberg.manifest import DataFile as Listed
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot as Kept

    from spark_jobs.formats.iceberg.options import IcebergRead
    from spark_jobs.formats.reader import SourceContext

_PARQUET = "PARQUET"


def files(options: IcebergRead, place: SourceContext, declared: Collection[str]) -> tuple[InputFile, ...]:
    """The files of a snapshot of a table, in the order in which they were added, then by name.

    Args:
        options: which table, and which snapshot.
        place: where files may be, and the catalogues.
        declared: the columns of which something has to be known.

    Raises:
        FormatError: there is no table or no such snapshot, or it cannot be read (E912), or a file is neither in the
            table's folder nor allowed elsewhere (E-SEC-001).
    """
    table = table_of(options, place)
    with catalogs.translated_errors(options.table, table.catalog.properties):
        kept, schema = _chosen(table, options)
        if kept is None:
            return ()
        return _listed(_Found(table, kept, schema, options.table, place), declared)


def table_of(options: IcebergRead, place: SourceContext) -> Table:
    """The table of a source.

    Raises:
        FormatError: there is none, or it cannot be read (E912).
    """
    catalog = catalogs.opened(options.catalog, place.catalogs, place.stores)
    table = catalogs.table(catalog, options.table)
    if table is None:
        text = f"there is no such table in catalogue '{options.catalog}'; check `catalog` and `table`"
        raise FormatError(text, options.table, FAILED)
    return table


def of_snapshot(
    table: Table,
    kept: Kept,
    name: str,
    place: SourceContext,
    declared: Collection[str],
    entries: Sequence[ManifestEntry] | None = None,
) -> tuple[InputFile, ...]:
    """The files of a snapshot, with the columns that the table has now.

    Args:
        table: the table.
        kept: the snapshot.
        name: how messages call the table.
        place: see `files`.
        declared: see `files`.
        entries: those files alone, none of whose rows is deleted; None for all.

    Raises:
        FormatError: see `files`.
    """
    with catalogs.translated_errors(name, table.catalog.properties):
        return _listed(_Found(table, kept, table.schema(), name, place), declared, entries)


def newest(table: Table, name: str, place: SourceContext, declared: Collection[str]) -> tuple[InputFile, ...]:
    """The files of a table as it is; see `of_snapshot`.

    Raises:
        FormatError: see `files`.
    """
    kept = table.current_snapshot()
    return () if kept is None else of_snapshot(table, kept, name, place, declared)


def _chosen(table: Table, options: IcebergRead) -> tuple[Kept | None, Schema]:
    """The requested snapshot and its columns; None if the table has no snapshot yet.

    Raises:
        FormatError: there is no such snapshot (E912).
    """
    from pyiceberg.table.refs import SnapshotRefType

    moment, text = options.moment, ""
    if options.snapshot is not None:
        kept = table.snapshot_by_id(options.snapshot)
        text = f"there is no snapshot {options.snapshot}"
    elif moment is not None:
        kept = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
        text = f"there was no snapshot at {options.timestamp}, or it has expired"
    elif options.ref:
        kept = table.snapshot_by_name(options.ref)
        text = f"there is no branch or tag '{options.ref}'"
    else:
        return table.current_snapshot(), table.schema()
    if kept is None:
        newest = table.current_snapshot()
        text += f"; the newest one is {newest.snapshot_id if newest else 'none'}"
        raise FormatError(text, options.table, FAILED)
    schemas, ref = table.schemas(), table.refs().get(options.ref)
    is_branch = ref is not None and ref.snapshot_ref_type == SnapshotRefType.BRANCH
    # A branch goes on, with the columns of the table; a tag and a snapshot have theirs.
    is_as_now = is_branch or kept.schema_id is None
    return kept, table.schema() if is_as_now else schemas[kept.schema_id]  # type: ignore[index]


@dataclass(frozen=True)
class _Found:
    """A snapshot of a table, on its way to files."""

    table: Table
    kept: Kept
    schema: Schema
    name: str
    place: SourceContext


def _listed(
    found: _Found, declared: Collection[str], chosen: Sequence[ManifestEntry] | None = None
) -> tuple[InputFile, ...]:
    columns = arrow_of(found.schema, _ColumnFacts.of(found.table, found.schema))
    specs = found.table.specs()
    own: dict[int, dict[int, pa.Field]] = {key: _identities(spec, found.schema, columns) for key, spec in specs.items()}
    parted = dict.fromkeys(field.name for one in own.values() for field in one.values())
    root = catalogs.place_of(found.table.location().rstrip("/"), found.name)
    snapshot = Snapshot(root, found.kept.snapshot_id, columns, tuple(parted))
    entries, deletes = _entries(found) if chosen is None else (_ordered(chosen), {})
    numbered = {field.field_id: columns.field(field.name) for field in found.schema.fields if field.name in declared}
    made = []
    for entry in entries:
        listed = entry.data_file
        _refuse_rounded(found, listed, specs[listed.spec_id or 0], numbered)
        if str(getattr(listed.file_format, "value", listed.file_format)).upper() != _PARQUET:
            text = f"a file is {listed.file_format}, and Parquet is read; rewrite the table's files as Parquet"
            raise FormatError(text, found.name, FAILED)
        partition = {
            field.name: _scalar(listed.partition[at], field.type) for at, field in own[listed.spec_id or 0].items()
        }
        chunks = {
            field.name: _chunk(listed, number, field.type)
            for number, field in numbered.items()
            if field.name not in partition
        }
        chunks |= {name: _constant(value, listed.record_count) for name, value in partition.items() if name in declared}
        known = {name: chunk for name, chunk in chunks.items() if chunk is not None}
        gone = deletes.get(listed.file_path)
        about = DataFile(snapshot, listed.record_count, partition, known, b"" if gone is None else packed(gone))
        made.append(_file(found, listed, about))
    return tuple(made)


@dataclass(frozen=True)
class _ColumnFacts:
    """Name mapping and defaults of a table's columns, by field id: for files with other names or fewer columns.

    Args:
        names: the names of columns in files without field ids, which other programs wrote; None for no name mapping.
        defaults: the values of columns in files that are older than the columns.
    """

    names: Mapping[bytes, Sequence[str]] | None
    defaults: Mapping[bytes, Any]

    @classmethod
    def of(cls, table: Table, schema: Schema) -> _ColumnFacts:
        """Take both from the metadata of a table."""
        return cls(_names_in_files(table), _defaults(schema))

    def of_column(self, field: pa.Field) -> pa.Field:
        """Give a column with these facts in its metadata."""
        column: Any = field
        known = dict(field.metadata or {})
        number = known.get(physical.NUMBER, b"")
        if self.names is not None:
            known = physical.called(known, self.names.get(number, ()))
        if number in self.defaults:
            known = physical.defaulting(known, pa.scalar(self.defaults[number], field.type))
        result: pa.Field = column.with_metadata(known)
        return result


def _names_in_files(table: Table) -> Mapping[bytes, Sequence[str]] | None:
    mapping = table.name_mapping()
    if mapping is None:
        return None
    found: dict[bytes, Sequence[str]] = {}
    left = [*mapping.root]
    while left:
        each = left.pop()
        left += each.fields
        if each.field_id is not None:
            found[str(each.field_id).encode()] = each.names
    return found


def _defaults(schema: Schema) -> Mapping[bytes, Any]:
    """The values of columns in older files.

    Raises:
        FormatError: one cannot be read (E912).
    """
    from pyiceberg.conversions import from_json
    from pyiceberg.schema import index_by_id

    found = {}
    for number, field in index_by_id(schema).items():
        if field.initial_default is None:
            continue
        kind: Any = field.field_type
        try:
            found[str(number).encode()] = from_json(kind, field.initial_default)
        except TypeError as error:
            text = f"the default of a column of the type {kind} cannot be read; leave the column out"
            raise FormatError(text, schema.find_column_name(number) or field.name, FAILED) from error
    return found


def arrow_of(schema: Schema, facts: _ColumnFacts | None = None) -> pa.Schema:
    """The columns of a table as Arrow has them, with their numbers among their metadata.

    Args:
        schema: the columns.
        facts: their name mapping and defaults; None where they do not matter.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.schema([_small(field, facts) for field in schema_to_pyarrow(schema)])


def _small(field: pa.Field, facts: _ColumnFacts | None) -> pa.Field:
    """A column whose texts and lists have short offsets, as files have them."""
    kind: Any = field.type
    arrow: Any = pa
    if pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_large_binary(kind):
        kind = pa.binary()
    elif pa.types.is_struct(kind):
        kind = pa.struct([_small(each, facts) for each in kind])
    elif pa.types.is_map(kind):
        kind = arrow.map_(_small(kind.key_field, facts), _small(kind.item_field, facts))
    elif pa.types.is_list(kind) or arrow.types.is_large_list(kind):
        kind = pa.list_(_small(kind.value_field, facts))
    found = field.with_type(kind)
    return found if facts is None else facts.of_column(found)


def _identities(spec: PartitionSpec, schema: Schema, columns: pa.Schema) -> dict[int, pa.Field]:
    """The columns with an identity partition transform, by their places in the partition; without doubles.

    The library reads doubles in manifests with the digits of floats, so they are read from the files, which have them.
    """
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType

    tops = {field.field_id: field.name for field in schema.fields if not isinstance(field.field_type, DoubleType)}
    return {
        at: columns.field(tops[field.source_id])
        for at, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and field.source_id in tops
    }


def _refuse_rounded(found: _Found, listed: Listed, spec: PartitionSpec, numbered: Collection[int]) -> None:
    """Refuse a file without a column of doubles by which the table is partitioned.

    Raises:
        FormatError: it is one (E912).
    """
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType

    there = {*(listed.column_sizes or ()), *(listed.value_counts or ())}
    for field in spec.fields:
        number = field.source_id
        if number not in numbered or number in there or not there or not isinstance(field.transform, IdentityTransform):
            continue
        if isinstance(found.schema.find_type(number), DoubleType):
            text = (
                f"a file lacks column '{found.schema.find_column_name(number)}', and partitions of doubles are not "
                "exact in PyIceberg; have the table's own engine rewrite its files, or leave the column out"
            )
            raise FormatError(text, found.name, FAILED)


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """The value of a partition as a column has it; manifests have days and microseconds."""
    if value is not None and isinstance(value, int) and pa.types.is_temporal(kind):
        narrow = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return pa.scalar(value, narrow).cast(kind)
    return pa.scalar(value, kind)


def _constant(value: Any, records: int) -> Chunk | None:
    if not value.is_valid:
        return Chunk(records, None, None)
    own = numbers(pa.array([value.as_py()], value.type))
    return None if own is None else Chunk(0, own[0], own[0])


def _chunk(listed: Listed, number: int, arrow: pa.DataType) -> Chunk | None:
    """Give the statistics of a column in a file; None where the manifest has none."""
    nulls = (listed.null_value_counts or {}).get(number)
    if nulls is None:
        return None
    lowest, highest = (listed.lower_bounds or {}).get(number), (listed.upper_bounds or {}).get(number)
    # Without a count of NaNs a column may have some, which bounds leave out.
    is_odd = pa.types.is_floating(arrow) and (listed.nan_value_counts or {}).get(number) != 0
    if lowest is None or highest is None or is_odd:
        return Chunk(nulls, None, None)
    bounds = _value(lowest, arrow), _value(highest, arrow)
    return Chunk(nulls, None, None) if None in bounds else Chunk(nulls, *bounds)


def _value(data: bytes, arrow: pa.DataType) -> Any:
    """A bound as footers have it; None where it says nothing here. Columns may have become wider since."""
    if pa.types.is_string(arrow):
        return data
    if pa.types.is_boolean(arrow):
        return data != b"\0"
    if pa.types.is_floating(arrow):
        return struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    if pa.types.is_decimal(arrow):
        return int.from_bytes(data, "big", signed=True)
    is_whole = pa.types.is_integer(arrow) or pa.types.is_date32(arrow)
    # A bound of four bytes is a day: the column was one of dates before.
    is_moment = pa.types.is_timestamp(arrow) and arrow.unit == "us" and len(data) == 8
    if is_whole or is_moment:
        return int.from_bytes(data, "little", signed=True)
    return None


def _entries(found: _Found) -> tuple[list[ManifestEntry], dict[str, Any]]:
    """The data files of a snapshot in their order, and which rows of them are deleted, by their paths.

    Raises:
        FormatError: rows are deleted by their values (E912).
    """
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table.delete_file_index import DeleteFileIndex
    from pyiceberg.utils.concurrent import ExecutorFactory

    io = found.table.io
    workers = ExecutorFactory.get_or_create()
    manifests = found.kept.manifests(io)
    entries: list[ManifestEntry] = []
    index = DeleteFileIndex()
    for entry in chain.from_iterable(workers.map(lambda each: each.fetch_manifest_entry(io), manifests)):
        content = entry.data_file.content
        if content == DataFileContent.DATA:
            entries.append(entry)
        elif content == DataFileContent.POSITION_DELETES:
            index.add_delete_file(entry, partition_key=entry.data_file.partition)
        else:
            text = (
                "rows of the table are deleted by their values (equality deletes), which are not applied here; have "
                "the table's own engine apply them first: `CALL system.rewrite_data_files(table => '…', options => "
                "map('delete-file-threshold', '1'))` in Spark"
            )
            raise FormatError(text, found.name, FAILED)
    entries = _ordered(entries)
    return entries, {} if index.is_empty() else _deleted(found, entries, index)


def _ordered(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Files in the order in which they were added, then by name."""
    return sorted(entries, key=lambda each: (each.sequence_number or 0, each.data_file.file_path))


def _deleted(found: _Found, entries: Sequence[ManifestEntry], index: Any) -> dict[str, Any]:
    """Which rows of files are deleted by their positions."""
    from pyiceberg.io.pyarrow import _read_deletes
    from pyiceberg.utils.concurrent import ExecutorFactory

    of_file = {
        entry.data_file.file_path: index.for_data_file(
            entry.sequence_number or 0, entry.data_file, partition_key=entry.data_file.partition
        )
        for entry in entries
    }
    wanted = list({each.file_path: each for some in of_file.values() for each in some}.values())
    workers = ExecutorFactory.get_or_create()
    read: Mapping[str, Mapping[str, pa.ChunkedArray]] = dict(
        zip(
            (each.file_path for each in wanted),
            workers.map(lambda each: _read_deletes(found.table.io, each), wanted),
            strict=True,
        )
    )
    gone = {}
    for entry in entries:
        path, count = entry.data_file.file_path, entry.data_file.record_count
        rows = np.zeros(count, bool)
        for each in of_file[path]:
            positions = read[each.file_path].get(path)
            if positions is not None:
                at = positions.to_numpy()
                rows[at[at < count]] = True  # readers of Iceberg ignore rows that are not there
        if rows.any():
            gone[path] = rows
    return gone


def _file(found: _Found, listed: Listed, about: DataFile) -> InputFile:
    """A file of the table.

    Raises:
        FormatError: it is outside of the table's folder (E-SEC-001).
    """
    root = about.snapshot.root
    path = catalogs.place_of(listed.file_path, found.name)
    inner = path.removeprefix(f"{root}/")
    is_inside = inner != path and ".." not in inner.split("/") and _leads_inside(path, root)
    if not is_inside and not found.place.allow_outside:
        text = (
            f'a file of the table is outside of its folder {root}: "{path}"; read it with --allow-absolute-paths if '
            "you trust whoever writes the table"
        )
        raise FormatError(text, found.name, "E-SEC-001")
    is_object = locations.is_uri(path)
    return InputFile(
        path,
        f"{found.name}/{inner}" if is_inside else path,
        listed.file_size_in_bytes,
        stores=found.place.stores if is_object else None,
        table=about,
        is_immutable=True,
    )


def _leads_inside(path: str, root: str) -> bool:
    """Whether no link leads out of the folder of a table; stores have none."""
    if locations.is_uri(path):
        return True
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))


def expired(file: InputFile) -> FormatError:
    """Make the error for a file that the table lists and that is missing."""
    snapshot = file.table.snapshot
    remedy = snapshot.remedy("read a newer one", "TIME")
    text = f"snapshot {snapshot.version} of the table has this file, and it is gone: the snapshot has expired; {remedy}"
    return FormatError(text, file.name, FAILED)

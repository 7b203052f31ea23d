"""Reads a version of a Delta table from its log: the columns, and the files with partition values and statistics.

The driver reads the log once, through `deltalake`. The facts that tasks need travel with each file.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from spark_jobs.formats.delta import storage
from spark_jobs.formats.parquet.footer import Chunk
from spark_jobs.formats.tables import physical
from spark_jobs.formats.tables.files import FAILED, DataFile, Snapshot, numbers, packed
from spark_jobs.scan.files import FormatError, InputFile, RealPaths
from spark_jobs.stores import location as locations
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from deltalake import DeltaTable

    from spark_jobs.formats.delta.options import DeltaRead
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.stores.settings import StoreSettings

#: The reader features that are supported.
_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
#: From this version of the protocol on, a table lists its features.
_LAST_READER = 3
#: How the library says that versions are not known from the log alone.
_OF_CATALOG = "catalog-managed table"
#: Colours and arrows in the words of the library.
_DRAWN = re.compile("\x1b\\[[0-9;]*m|\u21b3")
#: Statistics cut moments to milliseconds.
_MORE_MICROSECONDS = 999


def files(
    options: DeltaRead, place: SourceContext, declared: Collection[str], incremental: str = ""
) -> tuple[InputFile, ...]:
    """The files of a version of a table, in the order in which they were added.

    Args:
        options: which version.
        place: where the table is.
        declared: the columns of which something has to be known.
        incremental: the name of the source where it reads what versions have added.

    Raises:
        FormatError: there is no table or no such version, or it cannot be read (E912), its store refuses (E910), or it
            leads out of the base folder (E-SEC-001).
    """
    root = root_of(place)
    table = opened(root, place.path, place.stores)
    _choose(table, options, place.path)
    _refuse_unknown(table, place.path)
    exported: Any = table.schema().to_arrow()
    schema = pa.schema(exported)
    known = table.metadata()
    snapshot = Snapshot(root, table.version(), schema, tuple(known.partition_columns), incremental)
    with _translated_errors(place.path):
        actions: Any = pa.table(table.get_add_actions(flatten=False)).combine_chunks()
        deleted = _deleted(table)
    actions = actions.sort_by([("modification_time", "ascending"), ("path", "ascending")])
    found = [
        _file(path, size, changed, about, place)
        for path, size, changed, about in zip(
            actions["path"].to_pylist(),
            actions["size_bytes"].to_pylist(),
            actions["modification_time"].to_pylist(),
            _described(actions, snapshot, declared, deleted),
            strict=True,
        )
    ]
    if not locations.is_uri(root):
        _refuse_missing(found, place)
    return tuple(found)


def root_of(place: SourceContext) -> str:
    """Where a table is: an absolute path, or the URI of a prefix.

    Raises:
        FormatError: it is where no tables are read (E912).
    """
    try:
        if locations.scheme_of(place.path) in ("", "file"):
            root = os.path.abspath(place.base / locations.local(place.path))
        else:
            root = str(locations.parse(place.path)).rstrip("/")
    except locations.BadLocation as error:
        raise FormatError(f"{error.message}; {error.remedy}", place.path, FAILED) from error
    if (problem := storage.problem(root)) is not None:
        raise FormatError(problem, place.path, FAILED)
    return root


def opened(root: str, name: str, stores: StoreSettings) -> DeltaTable:
    """A table in its newest version; see `found`.

    Raises:
        FormatError: there is none, or it cannot be read (E912).
    """
    table = found(root, name, stores)
    if table is None:
        text = "no Delta table is there: a table is a folder with a `_delta_log`; check the path"
        raise FormatError(text, name, FAILED)
    return table


def found(root: str, name: str, stores: StoreSettings) -> DeltaTable | None:
    """A table in its newest version; None where there is none.

    Args:
        root: where it is, absolute or a URI.
        name: how messages call it.
        stores: resolved settings.

    Raises:
        FormatError: it cannot be read (E912), or its store refuses (E910).
    """
    if importlib.util.find_spec("deltalake") is None:
        raise FormatError("Delta tables need a package: pip install 'clinker-spark[delta]'", name, FAILED)
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        options = storage.options(root, stores)
    except StoreError as error:
        raise FormatError(error.message, name, error.code) from error
    try:
        with _translated_errors(name), suppress(TableNotFoundError):
            return DeltaTable(storage.address(root), storage_options=options)
    except FormatError:
        _ask(root, name, stores)
        raise
    _ask(root, name, stores)
    return None


def _ask(root: str, name: str, stores: StoreSettings) -> None:
    """Ask the store itself for an error, where no table can be read.

    Raises:
        FormatError: it refuses, or cannot be reached (E910).
    """
    if not locations.is_uri(root):
        return
    from spark_jobs.stores import opening

    try:
        next(iter(opening.writable(stores).pages(locations.parse(f"{root}/_delta_log/"), deep=False, most=1)), None)
    except StoreError as error:
        raise FormatError(error.message, name, error.code) from error


class _translated_errors:
    """Translate errors of the library into errors with the table's name.

    Raises:
        FormatError: the table cannot be read (E912).
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Nothing is needed."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from deltalake.exceptions import DeltaError

        if isinstance(error, (DeltaError, OSError, ValueError, pa.ArrowException)):
            text = " ".join(_DRAWN.sub(" ", str(error)).split())
            if _OF_CATALOG in text:
                text = "it has the feature catalogManaged: a catalogue knows its versions; write a copy without it"
            raise FormatError(f"the table cannot be read: {text}", self._name, FAILED) from error


def _choose(table: DeltaTable, options: DeltaRead, name: str) -> None:
    """Load the requested version.

    Raises:
        FormatError: there is no such version (E912).
    """
    newest = table.version()
    if options.version is not None and options.version > newest:
        text = f"there is no version {options.version}: the newest one is {newest}"
        raise FormatError(text, name, FAILED)
    moment = options.moment
    if options.version is None and moment is None:
        return
    if moment is None:
        with _translated_errors(name):
            wanted: Any = options.version
            table.load_as_version(wanted)
    elif version_at(table, moment, name) is None:
        text = f"there was no version at {options.timestamp}: the first one that is kept was written later"
        raise FormatError(text, name, FAILED)


def version_at(table: DeltaTable, moment: datetime, name: str) -> int | None:
    """The version of a table that was the newest one at a moment, to which the table goes; None where there was none.

    Raises:
        FormatError: nobody can tell (E912).
    """
    with _translated_errors(name):
        table.load_as_version(moment)
        first = table.history(1)
        committed = first[0].get("timestamp") if first else None
        return None if committed is not None and committed > moment.timestamp() * 1000 else table.version()


def entry(root: str, number: int, place: SourceContext) -> bytes | None:
    """Read the log entry of a version, lines of JSON; None where the log no longer has it.

    Args:
        root: where the table is, absolute or a URI.
        number: the version.
        place: how stores are reached.

    Raises:
        FormatError: it cannot be read (E912).
    """
    return contents(f"{root}/_delta_log/{number:020d}.json", place)


def contents(path: str, place: SourceContext) -> bytes | None:
    """A file of a log; None where there is none.

    Args:
        path: where it is, absolute or a URI.
        place: how stores are reached.

    Raises:
        FormatError: it cannot be read (E912).
    """
    try:
        if not locations.is_uri(path):
            return Path(path).read_bytes()
        from spark_jobs.stores import opening

        where, store = locations.parse(path), opening.writable(place.stores)
        found = store.look(where)
        return None if found is None else store.fetch(where, 0, found.size, found.version)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(f"the log of the table cannot be read: {error}", place.path, FAILED) from error


def _refuse_unknown(table: DeltaTable, name: str) -> None:
    """Refuse a table that asks more of its readers than is known here; reading it would give wrong rows.

    Raises:
        FormatError: it does (E912).
    """
    protocol = table.protocol()
    unknown = sorted(set(protocol.reader_features or ()) - _FEATURES)
    if unknown or protocol.min_reader_version > _LAST_READER:
        what = ", ".join(unknown) or f"version {protocol.min_reader_version} of the protocol"
        text = f"the table needs a reader that knows {what}; drop the feature, or write a copy of the table without it"
        raise FormatError(text, name, FAILED)


def _deleted(table: DeltaTable) -> dict[str, bytes]:
    """The deleted rows of files, packed, by their paths in the table's folder; of files that have any.

    Raises:
        ValueError: some are of a file elsewhere.
    """
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = {}
    start = unquote(table.table_uri).rstrip("/") + "/"
    vectors: Any = pa.table(table.deletion_vectors())
    for batch in vectors.to_batches():
        for uri, selected in zip(batch["filepath"], batch["selection_vector"], strict=True):
            path = unquote(uri.as_py())
            if not path.startswith(start):
                raise ValueError(f"the rows that are deleted of {path} are of no file of it")
            found[path.removeprefix(start)] = packed(~selected.values.to_numpy(zero_copy_only=False))
    return found


def _described(
    actions: Any, snapshot: Snapshot, declared: Collection[str], deleted: Mapping[str, bytes]
) -> Iterator[DataFile]:
    """Describe each file from the log, in the order of the actions."""
    partitions = _partitions(actions, snapshot)
    chunks = _chunks(actions, snapshot, declared)
    paths, counts = actions["path"].to_pylist(), actions["num_records"].to_pylist()
    for row, (path, count) in enumerate(zip(paths, counts, strict=True)):
        yield DataFile(
            snapshot,
            count,
            {name: values[row] for name, values in partitions.items()},
            {name: found[row] for name, found in chunks.items() if found[row] is not None},  # type: ignore[misc]
            deleted.get(unquote(path), b""),
        )


def _partitions(actions: Any, snapshot: Snapshot) -> dict[str, list[Any]]:
    if not snapshot.partition_by:
        return {}
    found = actions["partition"].combine_chunks()
    return {name: list(found.field(name)) for name in snapshot.partition_by}


def _chunks(actions: Any, snapshot: Snapshot, declared: Collection[str]) -> dict[str, list[Chunk | None]]:
    """Give the statistics of the declared top-level columns, by column name and with one entry for each file."""
    counts = actions["num_records"].to_pylist()
    found: dict[str, list[Chunk | None]] = {}
    for column in snapshot.schema:
        if column.name not in declared:
            continue
        if column.name in snapshot.partition_by:
            own = numbers(actions["partition"].combine_chunks().field(column.name))
            if own is not None:
                found[column.name] = [
                    Chunk(count, None, None) if value is None else Chunk(0, value, value)
                    for count, value in zip(counts, own, strict=True)
                ]
            continue
        name = physical.name_of(column)
        nulls, lowest, highest = (_statistic(actions, key, name) for key in ("null_count", "min", "max"))
        if nulls is None:
            continue
        empty = [None] * len(counts)
        bounds = zip(nulls.to_pylist(), numbers(lowest) or empty, numbers(highest) or empty, strict=True)
        more = _MORE_MICROSECONDS if pa.types.is_timestamp(column.type) else 0
        found[column.name] = [_chunk(*each, more) for each in bounds]
    return found


def _statistic(actions: Any, key: str, name: str) -> pa.Array | None:
    if key not in actions.column_names or not pa.types.is_struct(actions[key].type):
        return None
    if actions[key].type.get_field_index(name) < 0:
        return None
    found: pa.Array = actions[key].combine_chunks().field(name)
    return found


def _chunk(nulls: int | None, lowest: Any, highest: Any, more: int) -> Chunk:
    is_odd = any(isinstance(each, float) and math.isnan(each) for each in (lowest, highest))
    if is_odd or lowest is None or highest is None:
        return Chunk(nulls, None, None)
    return Chunk(nulls, lowest, highest + more if more else highest)


def _file(path: str, size: int, changed: int, about: DataFile, place: SourceContext) -> InputFile:
    """A file of the table.

    Raises:
        FormatError: it is outside of the table (E-SEC-001).
    """
    inner = unquote(path)
    root, name = about.snapshot.root, place.path.rstrip("/")
    if locations.is_uri(inner) or inner.startswith("/") or ".." in inner.split("/"):
        text = f'the log of the table leads to a file outside of it: "{inner}"; read the table that it was cloned from'
        raise FormatError(text, place.path, "E-SEC-001")
    return InputFile(
        f"{root}/{inner}",
        f"{name}/{inner}",
        size,
        changed * 1_000_000,
        stores=place.stores if locations.is_uri(root) else None,
        table=about,
        is_immutable=True,
    )


def _refuse_missing(found: Sequence[InputFile], place: SourceContext) -> None:
    """Refuse a local table whose files are gone, or lead out of the base folder by links.

    Raises:
        FormatError: see there.
    """
    real = RealPaths()
    root = os.path.join(os.path.realpath(place.base), "")
    for file in found:
        if not os.path.exists(file.path):
            raise vacuumed(file)
        if not place.allow_outside and not (leads := real.of(file.path)).startswith(root):
            message = f'path escapes base directory via symlink: "{file.name}" -> "{leads}"'
            raise FormatError(message, file.name, "E-SEC-001")


def vacuumed(file: InputFile) -> FormatError:
    """Make the error for a file that the log lists and that is missing."""
    snapshot = file.table.snapshot
    remedy = snapshot.remedy("read a newer version", str(snapshot.version + 1))
    text = f"version {snapshot.version} of the table has this file, and it is gone: the table was vacuumed; {remedy}"
    return FormatError(text, file.name, FAILED)

"""The commit of a Delta table (see `tables/commit.py`): the log stores its id as an application's transaction.

A commit that replaces files requires the version that the run saw when it began. If somebody else has committed since
then, the run ends. Appended files do not depend on the version.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute.delivery.participant import Address
from spark_jobs.execute.delivery.tables import commit as tables
from spark_jobs.execute.delivery.tables.folder import TableFolder
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import reader
from spark_jobs.formats.delta import log, storage, vectors
from spark_jobs.formats.delta.write import Added
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.formats.tables.modes import Mode
from spark_jobs.formats.tables.write import text_of
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import opening
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.writing import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from deltalake import DeltaTable
    from deltalake.schema import Field as DeltaField

    from spark_jobs.execute.delivery.participant import StorageAccess

#: The kind of its addresses.
KIND = "delta-table"
_APPLICATION = "clinker-{}"
#: The characters that the library does not escape in paths, besides ASCII letters and digits.
_UNESCAPED = "!$&'()+,-./:;=@_~"


@dataclass(frozen=True)
class Removed:
    """A file that a commit removes from the table.

    Args:
        path: its path in the table's folder.
        size: its size in bytes.
        partition: the values of the partition columns, which are not in the file, as texts.
        vector: its deletion vector, as the log describes it; None if it has none.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    vector: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Commit(tables.NotedCommit):
    """A commit to a Delta table, in the form of its note.

    Args:
        run: the execution id.
        mode: the write mode: append, overwrite or merge.
        version: the version that the run has seen; None if there was no table.
        schema: the columns of the table, as in the log.
        new_columns: the columns that the commit adds.
        partition_by: the columns by which the table is partitioned.
        files: the files that the commit adds.
        token: identifies the commit, also among runs with the same execution id.
        removed: the files that were rewritten without some rows, in a merge.
    """

    mode: Mode
    version: int | None
    schema: str
    new_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    files: tuple[Added, ...]
    token: str = ""  # of older runs
    removed: tuple[Removed, ...] = ()

    made: ClassVar = {"mode": Mode, "files": tables.of_fields(Added), "removed": tables.of_fields(Removed)}

    @property
    def application(self) -> str:
        """The id with which the log records the commit."""
        return _APPLICATION.format(f"{self.run}-{self.token}" if self.token else self.run)

    @property
    def of_columns(self) -> str:
        """The id with which the log records the commit's new columns, in a version of their own."""
        return f"{self.application}-columns"

    @property
    def replaces(self) -> bool:
        """True if the commit removes existing files."""
        return self.mode is not Mode.APPEND


@dataclass
class Place(TableFolder):
    """The folder of a Delta table."""

    inner: ClassVar[str] = "_delta_log"

    def table(self) -> DeltaTable | None:
        """The table in its newest version; None if there is none.

        Raises:
            OSError: the answer is unknown.
        """
        try:
            return log.found(self.root, self.name, self.stores)
        except FormatError as error:
            raise OSError(None, error.message, self.root) from error

    @property
    def as_source(self) -> reader.SourceContext:
        """The table as readers see it."""
        return reader.SourceContext(Path("/"), self.root, stores=self.stores, allow_outside=True)

    def add_version(self, number: int, data: bytes, token: str) -> bool:
        """Write a version of the log atomically, unless it exists. Returns True if it was written.

        Raises:
            OSError: it cannot be written, or the answer is unknown.
        """
        name = f"{number:020d}.json"
        if not self._is_local:
            try:
                opening.writable(self.stores).put(self._place_of_notes / name, data, token, ABSENT)
            except StoreError as error:
                if error.kind is not Kind.TAKEN:
                    raise
                return False
            return True
        try:
            _link_unnamed(self._folder_of_notes, name, data)
        except FileExistsError:
            return False
        except OSError:
            return self._add_by_draft(name, data, token)
        durable.sync_folder(self._folder_of_notes)
        return True

    def _add_by_draft(self, name: str, data: bytes, token: str) -> bool:
        """Write a file under another name first, for file systems without unnamed files."""
        draft = self._folder_of_notes / f".clinker-{token}.version"
        try:
            durable.write_file(draft, data)
            os.link(draft, self._folder_of_notes / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        durable.sync_folder(self._folder_of_notes)
        return True


def _link_unnamed(folder: Path, name: str, data: bytes) -> None:
    """Write a file that gets its name only when it is complete, so that a crash leaves nothing.

    Raises:
        FileExistsError: a file with this name exists.
        OSError: the file system has no unnamed files, or the file cannot be written.
    """
    if not hasattr(os, "O_TMPFILE"):
        raise OSError(None, "this system has no files without names", str(folder))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.fdopen(os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=held), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            # With a folder given, the system's link to the open file is followed.
            os.link(f"/proc/self/fd/{file.fileno()}", name, src_dir_fd=held, dst_dir_fd=held)
    finally:
        os.close(held)


@dataclass
class TableCommit(tables.TableCommit):
    """See `Participant`."""

    place: Place
    commit: Commit

    @property
    def noted(self) -> Commit:
        """The commit, as its note has it."""
        return self.commit

    @property
    def address(self) -> Address:
        """See `Participant`."""
        return Address(KIND, self.place.root, self.commit.run)

    @property
    def paths(self) -> Iterable[str]:
        """The files of the run in the table's folder."""
        return (each.path for each in self.commit.files)

    def look(self) -> None:
        """See `tables.TableCommit`."""
        _refuse_changed(self.place, self.commit, self.place.table())

    def publish(self) -> None:
        """See `tables.TableCommit`."""
        _commit(self.place, self.commit)

    def is_completed(self) -> bool:
        """See `Participant`."""
        return _is_done(self.commit, self.place.table())


def _read(place: Place, data: bytes) -> tuple[Address, TableCommit]:
    """The home and the commit of a note.

    Raises:
        ValueError: it has none.
    """
    home, commit = Commit.of(data)
    return home, TableCommit(place, commit)


def dead_participant(address: Address, home: Address, access: StorageAccess) -> tables.DeadCommit:
    """See `joint.py:KINDS`."""
    place = Place(address.place, address.place, access.stores.resolved())
    return tables.DeadCommit(place, home, partial(_read, place))


def recover(place: Place, access: StorageAccess) -> None:
    """Complete or remove the commits that dead runs had prepared for a table.

    Raises:
        OSError: a home cannot be reached, or something cannot be completed.
    """
    tables.recover(place, access, partial(_read, place))


def _is_done(commit: Commit, table: DeltaTable | None) -> bool:
    return table is not None and table.transaction_version(commit.application) is not None


def _seen(commit: Commit, table: DeltaTable | None) -> int | None:
    """The version that the run has seen, or the version that its new columns made from it."""
    if table is None or commit.version is None or table.transaction_version(commit.of_columns) is None:
        return commit.version
    return commit.version + 1


def _refuse_changed(place: Place, commit: Commit, table: DeltaTable | None) -> None:
    """Refuse to commit to a table that has changed since the run saw it.

    Raises:
        RunFailed: the table has changed (E912).
    """
    now = None if table is None else table.version()
    text = ""
    if commit.version is None and now is not None:
        text = "somebody else has made the table, while the run was writing it"
    elif commit.version is not None and now is None:
        text = "the table is gone"
    elif commit.replaces and now != _seen(commit, table):
        text = f"somebody else has written version {now}, and the run replaces what it saw in version {commit.version}"
    elif table is not None and commit.version is not None and now != commit.version:
        known = [each.name for each in table.schema().fields]
        wanted = [each["name"] for each in json.loads(commit.schema)["fields"]]
        if [name for name in wanted if name not in known and name not in commit.new_columns]:
            text = f"somebody else has changed the columns of the table in version {now}"
    if text:
        raise RunFailed(ExitCode.IO, FAILED, f"{place.name}: {text}; nothing is committed; run again")


def _commit(place: Place, commit: Commit) -> None:
    """Commit, if that has not been done yet.

    Raises:
        RunFailed: the table has changed (E912).
        OSError: the commit fails, or its outcome is unknown.
    """
    from deltalake import Schema
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import (
        AddAction,
        CommitProperties,
        RemoveAction,
        Transaction,
        create_table_with_add_actions,
    )  # fmt: skip

    table = place.table()
    if _is_done(commit, table):
        return
    _refuse_changed(place, commit, table)
    schema = Schema.from_json(commit.schema)
    actions = [
        AddAction(each.path, each.size, each.partition, _now_ms(), data_change=True, stats=each.stats)
        for each in commit.files
    ]
    properties = CommitProperties(
        custom_metadata={"clinker.execution_id": commit.run},
        max_commit_retries=0 if commit.replaces else None,
        app_transactions=[Transaction(commit.application, 1, _now_ms())],
    )
    try:
        if table is None:
            create_table_with_add_actions(
                storage.address(place.root),
                schema,
                actions,
                partition_by=[*commit.partition_by],
                storage_options=storage.options(place.root, place.stores),
                commit_properties=properties,
            )
            return
        if commit.new_columns:
            known = {each.name for each in table.schema().fields}
            fields = [each for each in schema.fields if each.name in commit.new_columns and each.name not in known]
            if fields:
                _add_columns(table, commit, fields)
        removed, is_nameable = _replaced(place, commit, table)
        if not is_nameable:
            _commit_by_name(place, commit, table, removed)
            return
        if commit.mode is Mode.OVERWRITE:
            removed = ()  # the library finds them by itself
        table.create_write_transaction(
            [*actions, *(RemoveAction(each.path, True, _now_ms(), each.size, {**each.partition}) for each in removed)],
            "overwrite" if commit.mode is Mode.OVERWRITE else "append",
            table.schema(),
            [*commit.partition_by],
            commit_properties=properties,
        )
    except (DeltaError, StoreError) as error:
        now = place.table()
        if _is_done(commit, now):  # the answer was lost, and the second try found its own version in the way
            return
        if table is None:
            _refuse_changed(place, commit, now)
        text = " ".join(str(error).split())
        if isinstance(error, CommitFailedError):
            said = f"{place.name}: somebody else was faster: {text}; run again"
            raise RunFailed(ExitCode.IO, FAILED, said) from error
        if isinstance(error, StoreError):
            raise
        raise OSError(None, f"the commit fails: {text}", place.root) from error


def _add_columns(table: DeltaTable, commit: Commit, fields: list[DeltaField]) -> None:
    """Add the new columns in a version that is marked as the run's, so that a recovering process recognizes it.

    Raises:
        CommitFailedError: somebody else has committed, and the run replaces rows that it saw.
    """
    from deltalake.transaction import CommitProperties, Transaction

    properties = CommitProperties(
        custom_metadata={"clinker.execution_id": commit.run},
        max_commit_retries=0 if commit.replaces else None,
        app_transactions=[Transaction(commit.of_columns, 1, _now_ms())],
    )
    table.alter.add_columns(fields, commit_properties=properties)


def _replaced(place: Place, commit: Commit, table: DeltaTable) -> tuple[Sequence[Removed], bool]:
    """The replaced files, and True if the library can name them.

    It cannot name files with a deletion vector, unless all files of the table are removed. It also spells paths
    differently from other writers: Spark, for one, does not escape letters outside ASCII. Readers compare paths as
    written, so such a file would not be removed.

    Raises:
        OSError: the log does not name the deletion vectors.
    """
    if commit.mode is Mode.APPEND:
        return (), True
    wanted = {tuple(each.partition.items()) for each in commit.files}
    actions: Any = pa.table(table.get_add_actions(flatten=False))
    names = [name for name in ("path", "size_bytes", "partition") if name in actions.column_names]
    found, is_spelled = [], True
    going = {each.path: each for each in commit.removed}
    for each in actions.select(names).to_pylist():
        path, values = unquote(each["path"]), {name: text_of(each["partition"][name]) for name in commit.partition_by}
        if commit.mode is Mode.MERGE:
            is_gone = path in going
        else:
            is_gone = commit.mode is Mode.OVERWRITE or tuple(values.items()) in wanted
        if is_gone:
            found.append(going.get(path) or Removed(path, each["size_bytes"], values))
            is_spelled = is_spelled and each["path"] == _spelled(path)
    if commit.mode is Mode.MERGE or "deletionVectors" not in (table.protocol().reader_features or ()):
        return found, is_spelled and not any(each.vector for each in found)
    if commit.mode is Mode.OVERWRITE and is_spelled:
        return found, True
    try:
        known = vectors.of_files(place.root, table.version(), place.as_source, {each.path for each in found})
    except FormatError as error:
        raise OSError(None, error.message, place.root) from error
    return [replace(each, vector=known.get(each.path)) for each in found], is_spelled and not known


def _spelled(path: str) -> str:
    """A path as the library writes it into the log, whatever its spelling was."""
    return quote(path, safe=_UNESCAPED)


def _commit_by_name(place: Place, commit: Commit, table: DeltaTable, removed: Sequence[Removed]) -> None:
    """Commit the removal of files that the library cannot name, because of deletion vectors or other spellings.

    Raises:
        CommitFailedError: somebody else has written the version.
        OSError: the commit fails, or its outcome is unknown.
    """
    from deltalake.exceptions import CommitFailedError

    now, number = _now_ms(), table.version() + 1
    actions: Any = pa.table(table.get_add_actions())
    logged = {unquote(path): path for path in actions.column("path").to_pylist()}
    done = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {
            "mode": "Overwrite" if commit.mode is Mode.OVERWRITE else "Append",
            "partitionBy": json.dumps(commit.partition_by),
        },
        "engineInfo": "clinker-spark",
        "clinker.execution_id": commit.run,
    }
    lines: list[dict[str, Any]] = [
        {"commitInfo": done},
        {"txn": {"appId": commit.application, "version": 1, "lastUpdated": now}},
    ]
    for added in commit.files:
        about = {"path": _spelled(added.path), "partitionValues": {**added.partition}, "size": added.size}
        lines.append({"add": {**about, "modificationTime": now, "dataChange": True, "stats": added.stats}})
    for each in removed:
        about = {"path": logged[each.path], "partitionValues": {**each.partition}, "size": each.size}
        about |= {"deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
        lines.append({"remove": {**about, "deletionVector": {**each.vector}} if each.vector else about})
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    if not place.add_version(number, data, commit.token):
        raise CommitFailedError(f"version {number} is there already")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

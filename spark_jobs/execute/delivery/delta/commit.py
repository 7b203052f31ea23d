"""A Delta table as one of the places that a run publishes into: its files are there before, and one commit names them.

Tasks write the files into the table's folder, where nobody sees them until the log has them. The commit has an id of
its own as that of an application, so that it is done once, whoever does it. The run's id would not do: a scheduler may
give it to a second run. A run that publishes elsewhere as well leaves beside the log what has to be committed, and
where that is decided.

A commit that replaces files counts on the version that the run has looked at when it began: should somebody else have
committed meanwhile, the run ends. Appended files do not mind.
"""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from spark_jobs import ownership
from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute import logs
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.participant import Address, Answer, NotCompleted, Rank
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats.delta import log
from spark_jobs.formats.delta.options import Mode
from spark_jobs.formats.delta.write import Added, text_of
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location, opening

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from deltalake import DeltaTable
    from deltalake.schema import Field as DeltaField
    from deltalake.transaction import RemoveAction

    from spark_jobs.execute.delivery.participant import Reach
    from spark_jobs.stores.settings import StoreSettings

#: The kind of its addresses.
KIND = "delta-table"
_NOTE = ".clinker-{}.json"
_APPLICATION = "clinker-{}"


@dataclass(frozen=True)
class Removed:
    """A file that a commit takes out of the table.

    Args:
        path: where it is in the table's folder.
        size: its bytes.
        partition: the values of the columns that are not in it, as texts.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True)
class Commit:
    """What is to be committed.

    Args:
        run: the execution id.
        mode: what becomes of the records that are there.
        version: the version that the run has looked at; None where there was no table.
        schema: the columns of the table, as the log has them.
        new_columns: those among them that are added.
        partition_by: the columns by which the table is partitioned.
        files: the files.
        token: tells the commit from all others, those of runs with the same execution id included.
        removed: the files that were written again without some rows, where records are merged.
    """

    run: str
    mode: Mode
    version: int | None
    schema: str
    new_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    files: tuple[Added, ...]
    token: str = ""  # of older runs
    removed: tuple[Removed, ...] = ()

    @property
    def application(self) -> str:
        """The id under which the log knows that it is done."""
        return _APPLICATION.format(f"{self.run}-{self.token}" if self.token else self.run)

    @property
    def of_columns(self) -> str:
        """The id under which the log knows that its new columns are there, in a version of their own."""
        return f"{self.application}-columns"

    @property
    def replaces(self) -> bool:
        """Whether files that are there go."""
        return self.mode is not Mode.APPEND

    def told(self, home: Address) -> bytes:
        """The commit with its home, as a file has it."""
        return json.dumps({"home": home.told(), **asdict(self)}).encode()

    @classmethod
    def of(cls, data: bytes) -> tuple[Address, Commit]:
        """The home and the commit that a file has.

        Raises:
            ValueError: it has none.
        """
        try:
            found = json.loads(data)
            home = Address.of(found.pop("home"))
            files = tuple(Added(**{**each, "nulls": tuple(each["nulls"])}) for each in found.pop("files"))
            removed = tuple(Removed(**each) for each in found.pop("removed", ()))
            lists = {key: tuple(found.pop(key)) for key in ("new_columns", "partition_by")}
            return home, cls(**{**found, "mode": Mode(found["mode"]), **lists, "files": files, "removed": removed})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(data) from error


@dataclass
class Place:
    """The folder of a table, local or in a store, beside what `deltalake` does there.

    Args:
        root: absolute, or a URI.
        name: how messages call it.
        stores: resolved settings.
    """

    root: str
    name: str
    stores: StoreSettings

    @property
    def _is_local(self) -> bool:
        return not location.is_uri(self.root)

    def table(self) -> DeltaTable | None:
        """The table in its newest version; None where there is none.

        Raises:
            OSError: nobody can tell.
        """
        try:
            return log.found(self.root, self.name, self.stores)
        except FormatError as error:
            raise OSError(None, error.message, self.root) from error

    def write(self, name: str, data: bytes) -> None:
        """A file in the folder of the log, there as a whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        if self._is_local:
            path = self._log / name
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.write_down(path, data)
        else:
            opening.writable(self.stores).put(self._in_log / name, data)

    def read(self, name: str) -> bytes | None:
        """A file in the folder of the log; None where there is none.

        Raises:
            OSError: it cannot be read.
        """
        if self._is_local:
            try:
                return (self._log / name).read_bytes()
            except FileNotFoundError:
                return None
        store = opening.writable(self.stores)
        found = store.look(self._in_log / name)
        return None if found is None else store.fetch(self._in_log / name, 0, found.size, found.version)

    def notes(self) -> list[str]:
        """The names of what runs have left beside the log.

        Raises:
            OSError: nobody can tell.
        """
        start, end = _NOTE.split("{}")
        if self._is_local:
            names = [path.name for path in self._log.glob(f"{start}*{end}")]
        else:
            pages = opening.writable(self.stores).pages(self._in_log / start, deep=False)
            names = [each.location.name for page in pages for each in page.objects]
        return sorted(name for name in names if name.startswith(start) and name.endswith(end))

    def remove(self, inside: Iterable[str]) -> None:
        """Remove files from the table's folder; those that are gone are fine, and those behind links stay.

        Raises:
            OSError: one cannot be removed.
        """
        for path in inside:
            if ".." in path.split("/") or path.startswith("/"):
                raise OSError(None, "leads out of the table", f"{self.root}/{path}")
            if self._is_local:
                _unlink(self.root, path)
            else:
                opening.writable(self.stores).delete(location.parse(f"{self.root}/{path}"))

    def forget_partial(self, inside: str) -> None:
        """Remove half of a file that `write` was writing; a store has no halves.

        Raises:
            OSError: it cannot be removed.
        """
        if self._is_local:
            self.remove([f"{inside}.partial"])

    @property
    def _log(self) -> Path:
        return Path(self.root, "_delta_log")

    @property
    def _in_log(self) -> Any:
        return location.parse(f"{self.root}/_delta_log")


@dataclass
class TableCommit:
    """See `Participant`."""

    place: Place
    commit: Commit
    _note: str = field(default="", init=False)

    @property
    def rank(self) -> Rank:
        """See `Participant`."""
        return Rank.TABLE

    @property
    def address(self) -> Address:
        """See `Participant`."""
        return Address(KIND, self.place.root, self.commit.run)

    @property
    def label(self) -> str:
        """See `Participant`."""
        return f"table {self.place.name}"

    def prepare(self, home: Address | None) -> None:
        """See `Participant`: the files are there, and the log is looked at again."""
        _refuse_changed(self.place, self.commit, self.place.table())
        if home is not None:
            self._note = _NOTE.format(self.commit.run)
            self.place.write(self._note, self.commit.told(home))

    def complete(self) -> None:
        """See `Participant`."""
        try:
            _commit(self.place, self.commit)
        except RunFailed as refused:
            raise NotCompleted(refused, is_visible=False, can_be_later=False) from refused
        if self._note:
            self.place.remove([f"_delta_log/{self._note}"])

    def is_completed(self) -> bool:
        """See `Participant`."""
        return _is_done(self.commit, self.place.table())

    def give_up(self) -> None:
        """See `Participant`."""
        if not self.is_completed():
            _remove(self.place, self.commit)
        if self._note:
            self.place.remove([f"_delta_log/{self._note}"])
            self.place.forget_partial(f"_delta_log/{self._note}")


@dataclass(frozen=True)
class LeftCommit:
    """See `Left`."""

    place: Place
    home: Address

    def complete(self) -> None:
        """See `Left`."""
        commit = self._commit()
        if commit is not None:
            try:
                _commit(self.place, commit)
            except RunFailed as refused:
                text = "%s: what the run %s had written is left out: %s"
                logs.LOG.warning(text, self.place.name, commit.run, refused)
                _remove(self.place, commit)
        self._forget(commit)

    def remove(self) -> None:
        """See `Left`."""
        commit = self._commit()
        if commit is not None and not _is_done(commit, self.place.table()):
            _remove(self.place, commit)
        self._forget(commit)

    def _forget(self, commit: Commit | None) -> None:
        """Remove what was noted, and what a death in the middle of noting has left."""
        note = f"_delta_log/{_NOTE.format(self.home.run)}"
        self.place.remove([note] if commit is not None else [])
        self.place.forget_partial(note)

    def _commit(self) -> Commit | None:
        """What is left; None where nothing is, or another home decides about it."""
        data = self.place.read(_NOTE.format(self.home.run))
        if data is None:
            return None
        try:
            home, commit = Commit.of(data)
        except ValueError:
            return None
        return commit if home == self.home and commit.run == self.home.run else None


def left(address: Address, home: Address, reach: Reach) -> LeftCommit:
    """See `joint.py:KINDS`."""
    return LeftCommit(Place(address.place, address.place, reach.stores.resolved()), home)


def recover(place: Place, reach: Reach) -> None:
    """Have completed or removed what dead runs had prepared for a table.

    Raises:
        OSError: a home cannot be reached, or something cannot be completed.
    """
    for name in place.notes():
        data = place.read(name)
        if data is None:
            continue
        try:
            home, commit = Commit.of(data)
        except ValueError:
            logs.LOG.warning("%s/_delta_log/%s is nothing that a run has written", place.root, name)
            continue
        try:
            answer = joint.resolve(home, reach)
        except OSError as error:
            if place.read(name) is None:  # its run has ended meanwhile, and its home is gone
                continue
            if not _is_done(commit, place.table()):
                raise
            logs.LOG.warning("%s: %s; what the run had for this table is committed", place.name, error)
            place.remove([f"_delta_log/{name}"])
            continue
        if answer is Answer.SETTLED:
            LeftCommit(place, home).remove()


def _is_done(commit: Commit, table: DeltaTable | None) -> bool:
    return table is not None and table.transaction_version(commit.application) is not None


def _seen(commit: Commit, table: DeltaTable | None) -> int | None:
    """The version that the run has seen, or made of that one by its new columns."""
    if table is None or commit.version is None or table.transaction_version(commit.of_columns) is None:
        return commit.version
    return commit.version + 1


def _unlink(root: str, path: str) -> None:
    """Remove a file below a folder. Links are not followed: whoever can write a table may have put one there."""
    *folders, name = path.split("/")
    with ExitStack() as held:
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, folder)
            for each in folders:
                folder = ownership.open_folder(each, folder)
                held.callback(os.close, folder)
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            logs.LOG.warning("%s/%s is left as it is, for a link leads there", root, path)


def _refuse_changed(place: Place, commit: Commit, table: DeltaTable | None) -> None:
    """Refuse to commit to a table that is another one by now.

    Raises:
        RunFailed: it is (E912).
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
        raise RunFailed(ExitCode.IO, log.FAILED, f"{place.name}: {text}; nothing is committed; run again")


def _commit(place: Place, commit: Commit) -> None:
    """Commit, if that was not done yet.

    Raises:
        RunFailed: the table is another one by now (E912).
        OSError: it does not work, or nobody can tell.
    """
    from deltalake import Schema
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import AddAction, CommitProperties, Transaction, create_table_with_add_actions

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
            options = log.store_options(place.stores.s3) if location.is_uri(place.root) else None
            create_table_with_add_actions(
                place.root,
                schema,
                actions,
                partition_by=[*commit.partition_by],
                storage_options=options,
                commit_properties=properties,
            )
            return
        if commit.new_columns:
            known = {each.name for each in table.schema().fields}
            fields = [each for each in schema.fields if each.name in commit.new_columns and each.name not in known]
            if fields:
                _add_columns(table, commit, fields)
        table.create_write_transaction(
            [*actions, *_replaced(commit, table)],
            "overwrite" if commit.mode is Mode.OVERWRITE else "append",
            table.schema(),
            [*commit.partition_by],
            commit_properties=properties,
        )
    except DeltaError as error:
        now = place.table()
        if _is_done(commit, now):  # the answer was lost, and the second try found its own version in the way
            return
        if table is None:
            _refuse_changed(place, commit, now)
        text = " ".join(str(error).split())
        if isinstance(error, CommitFailedError):
            said = f"{place.name}: somebody else was faster: {text}; run again"
            raise RunFailed(ExitCode.IO, log.FAILED, said) from error
        raise OSError(None, f"the commit fails: {text}", place.root) from error


def _add_columns(table: DeltaTable, commit: Commit, fields: list[DeltaField]) -> None:
    """Add the new columns, in a version of their own that whoever completes the commit knows for the run's.

    Raises:
        CommitFailedError: somebody else has committed, and the run replaces what it saw.
    """
    from deltalake.transaction import CommitProperties, Transaction

    properties = CommitProperties(
        custom_metadata={"clinker.execution_id": commit.run},
        max_commit_retries=0 if commit.replaces else None,
        app_transactions=[Transaction(commit.of_columns, 1, _now_ms())],
    )
    table.alter.add_columns(fields, commit_properties=properties)


def _replaced(commit: Commit, table: DeltaTable) -> list[RemoveAction]:
    """The files that are replaced: those of the partitions, or those that were written again."""
    from deltalake.transaction import RemoveAction

    if commit.mode is Mode.MERGE:
        return [RemoveAction(each.path, True, _now_ms(), each.size, {**each.partition}) for each in commit.removed]
    if commit.mode is not Mode.OVERWRITE_PARTITIONS:
        return []
    wanted = {tuple(each.partition.items()) for each in commit.files}
    actions: Any = pa.table(table.get_add_actions(flatten=False))
    found = []
    for each in actions.select(["path", "size_bytes", "partition"]).to_pylist():
        values = {name: text_of(each["partition"][name]) for name in commit.partition_by}
        if tuple(values.items()) in wanted:
            path = unquote(each["path"])
            found.append(RemoveAction(path, True, _now_ms(), each["size_bytes"], values))
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _remove(place: Place, commit: Commit) -> None:
    place.remove(each.path for each in commit.files)

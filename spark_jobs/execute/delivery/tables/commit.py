"""A table as a participant of a publication: its files are written first, and one commit adds them.

Tasks write the files into the table's folder, where they are invisible until the table lists them. The commit has an id
of its own, so that it is done only once, whoever does it. The run's id would not suffice, because a scheduler may give
it to a second run. A run that also publishes elsewhere notes the pending commit, and the home that decides about it, in
the table's folder.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.execute import logs
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.participant import Address, Answer, NotCompleted, Rank
from spark_jobs.execute.delivery.tables.folder import NOTE
from spark_jobs.execute.verdict import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.execute.delivery.tables.folder import TableFolder


@dataclass(frozen=True)
class NotedCommit:
    """A commit in the form of its note: a dataclass of JSON values, and of values and lists that `made` restores.

    Args:
        run: the execution id.
    """

    run: str

    #: Functions that restore values from JSON, by field name; applied to each element of a list.
    made: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    def as_note(self, home: Address) -> bytes:
        """The commit with its home, as the bytes of a note."""
        return json.dumps({"home": home.as_json(), **asdict(self)}).encode()

    @classmethod
    def of(cls, data: bytes) -> tuple[Address, Self]:
        """Parse the home and the commit from the bytes of a note.

        Raises:
            ValueError: it is no note.
        """
        try:
            found = json.loads(data)
            home = Address.of(found.pop("home"))
            known = {key: _frozen(value) for key, value in found.items()}
            for key, make in cls.made.items():
                if key in known:
                    own = known[key]
                    known[key] = tuple(map(make, own)) if isinstance(own, tuple) else make(own)
            return home, cls(**known)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(data) from error


def _frozen(value: Any) -> Any:
    """A JSON value with tuples for lists."""
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def of_fields(kind: type[Any]) -> Callable[[Any], Any]:
    """A function that makes a dataclass from a mapping of its fields."""
    return lambda fields: kind(**fields)


class NotThere(OSError):
    """A commit failed and cannot happen later either, so its files may be removed."""


class TableCommit(ABC):
    """See `Participant`. The parts that depend on the table format are abstract."""

    place: TableFolder
    _note: str = ""

    @property
    @abstractmethod
    def noted(self) -> NotedCommit:
        """The commit, as its note has it."""

    @property
    def run(self) -> str:
        """The execution id."""
        return self.noted.run

    @property
    @abstractmethod
    def address(self) -> Address:
        """See `Participant`."""

    @property
    @abstractmethod
    def paths(self) -> Iterable[str]:
        """The files of the run in the table's folder."""

    @abstractmethod
    def look(self) -> None:
        """Look at the table again.

        Raises:
            RunFailed: it has changed, so that the commit would lose something (E912).
            OSError: the answer is unknown.
        """

    @abstractmethod
    def publish(self) -> None:
        """Commit, unless that has already been done.

        Raises:
            RunFailed: somebody else was faster (E912).
            NotThere: the commit fails for good.
            OSError: the commit fails, or its outcome is unknown.
        """

    @abstractmethod
    def is_completed(self) -> bool:
        """See `Participant`."""

    @property
    def rank(self) -> Rank:
        """See `Participant`."""
        return Rank.TABLE

    @property
    def label(self) -> str:
        """See `Participant`."""
        return f"table {self.place.name}"

    def prepare(self, home: Address | None) -> None:
        """See `Participant`: the files exist, and the table is checked again."""
        self.look()
        if home is not None:
            self._note = NOTE.format(self.run)
            self.place.write(self._note, self.noted.as_note(home))

    def complete(self) -> None:
        """See `Participant`."""
        try:
            self.publish()
        except RunFailed as refused:
            raise NotCompleted(refused, is_visible=False, can_be_later=False) from refused
        except NotThere as error:
            raise NotCompleted(error, is_visible=False, can_be_later=True) from error
        if self._note:
            self.place.remove([self.place.inside(self._note)])

    def give_up(self) -> None:
        """See `Participant`."""
        if not self.is_completed():
            self.place.remove(self.paths)
        if self._note:
            note = self.place.inside(self._note)
            self.place.remove([note])
            self.place.forget_partial(note)


@dataclass(frozen=True)
class DeadCommit:
    """See `DeadParticipant`.

    Args:
        place: the folder of the table.
        home: the home that decides.
        read: parses the home and the commit of a note, or raises ValueError.
    """

    place: TableFolder
    home: Address
    read: Callable[[bytes], tuple[Address, TableCommit]]

    def complete(self) -> None:
        """See `DeadParticipant`."""
        commit = self._commit()
        if commit is not None:
            try:
                commit.publish()
            except RunFailed as refused:
                text = "%s: what the run %s had written is left out: %s"
                logs.LOG.warning(text, self.place.name, commit.run, refused)
                self.place.remove(commit.paths)
        self._forget(commit)

    def remove(self) -> None:
        """See `DeadParticipant`."""
        commit = self._commit()
        if commit is not None and not commit.is_completed():
            self.place.remove(commit.paths)
        self._forget(commit)

    def _forget(self, commit: TableCommit | None) -> None:
        """Remove the note, and a partial note of a process that died while it wrote it."""
        note = self.place.inside(NOTE.format(self.home.run))
        self.place.remove([note] if commit is not None else [])
        self.place.forget_partial(note)

    def _commit(self) -> TableCommit | None:
        """Read the remaining commit; None if there is none, or if another home decides about it."""
        data = self.place.read(NOTE.format(self.home.run))
        if data is None:
            return None
        try:
            home, commit = self.read(data)
        except ValueError:
            return None
        return commit if home == self.home and commit.run == self.home.run else None


def recover(place: TableFolder, access: StorageAccess, read: Callable[[bytes], tuple[Address, TableCommit]]) -> None:
    """Complete or remove commits that dead runs prepared for a table.

    Args:
        place: the folder of the table.
        access: access to the homes of these runs.
        read: see `DeadCommit`.

    Raises:
        OSError: a home cannot be reached, or something cannot be completed.
    """
    for name in place.notes():
        data = place.read(name)
        if data is None:
            continue
        try:
            home, commit = read(data)
        except ValueError:
            logs.LOG.warning("%s/%s is nothing that a run has written", place.root, place.inside(name))
            continue
        try:
            answer = joint.resolve(home, access)
        except OSError as error:
            if place.read(name) is None:  # its run has ended meanwhile, and its home is gone
                continue
            if not commit.is_completed():
                raise
            logs.LOG.warning("%s: %s; what the run had for this table is committed", place.name, error)
            place.remove([place.inside(name)])
            continue
        if answer is Answer.RESOLVED:
            DeadCommit(place, home, read).remove()

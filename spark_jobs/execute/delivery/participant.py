"""Participants of a run's publication (files, objects, a table, a database), and their remains after a dead run.

A run may publish into several places that know nothing of one another. So that it publishes into all of them or none,
each of them is a *participant*, and one of them is the *home* of the run's journal (`joint.py:publish`):

1. Every participant *prepares*: it takes all steps that may fail, makes nothing visible, and notes on its own side how
   to complete the work and the address of the home. "Its own side" is writable only by users who may also write the
   target: a prefix next to the objects or the table, a staging table of the database with its comment.
2. The home writes the journal, all at once or not at all. From now on the run has succeeded, whatever dies.
3. The participants *complete*, in the order of their `Rank`.
4. The home removes the journal.

The journal contains only addresses. So write access to one place does not give write access to another: the remains of
a participant are completed from its own notes, and only if these name the home that asks for it.

A single participant needs no journal, and is prepared without a home (None): it decides for itself, like a table's
commit or a database's transaction.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Rank(enum.IntEnum):
    """The order in which participants complete: the ones most likely to fail come first.

    If the first one refuses, nothing is visible yet, and the run takes everything back.
    """

    #: A constraint, a lock, or another transaction may be in the way.
    DATABASE = 0
    #: Another writer may have committed to the table.
    TABLE = 1
    #: Another program may have replaced an object.
    OBJECTS = 2
    #: Renames in folders that the run has locked.
    FILES = 3


@dataclass(frozen=True)
class Address:
    """The location of the notes with which a participant can be completed.

    Args:
        kind: the kind of place, which selects a module (`joint.py:KINDS`).
        place: the location in a form of that kind: a path, a URI, the name of a connection and a table. No credentials.
        run: the execution id of the run that wrote the notes.
    """

    kind: str
    place: str
    run: str

    def as_json(self) -> dict[str, str]:
        """The address as a JSON object."""
        return {"kind": self.kind, "place": self.place, "run": self.run}

    @classmethod
    def of(cls, found: Any) -> Address:
        """Parse an address from a JSON object.

        Raises:
            ValueError: it is no address.
        """
        if not isinstance(found, dict) or {type(found.get(name)) for name in ("kind", "place", "run")} != {str}:
            raise ValueError(found)
        return cls(found["kind"], found["place"], found["run"])


@dataclass(frozen=True)
class StorageAccess:
    """Access to stores, databases and table catalogs: the settings of `clinker.toml` except credentials.

    Args:
        stores: the settings of stores.
        connections: the URIs of databases by the names of their connections.
        catalogs: the properties of table catalogs by their names.
    """

    stores: StoreSettings = field(default_factory=StoreSettings)
    connections: Mapping[str, str] = field(default_factory=dict)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class NotCompleted(Exception):
    """A participant could not complete, and knows whether anything is visible.

    Args:
        cause: the error.
        is_visible: some output of the run may be visible there.
        can_be_later: another attempt may complete it, after the cause has been removed. False if somebody else has
            changed the target, which must not be overwritten.
    """

    def __init__(self, cause: Exception, *, is_visible: bool, can_be_later: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.is_visible = is_visible
        self.can_be_later = can_be_later


class Participant(Protocol):
    """A place into which a live run publishes.

    All calls come from the driver's main thread. `prepare` and `complete` are called once each, and in this order.
    """

    @property
    def rank(self) -> Rank:
        """Its position in the order of completion."""

    @property
    def address(self) -> Address:
        """The location of the notes with which it can be completed."""

    @property
    def label(self) -> str:
        """Its name in messages: a folder, a URI, a table."""

    def prepare(self, home: Address | None) -> None:
        """Take all steps that may fail, and durably note on its own side how to complete the work. Show nothing.

        For example, parts are joined, uploads finished, staging tables filled, and `if_exists` and versions checked
        again. After this, `complete` is as short and as certain as the place allows.

        Args:
            home: the address at which the run decides, which must be noted: a process that finds prepared work asks
                there whether it counts (`joint.py:resolve`). None: this is the only participant, which decides by
                completing.

        Raises:
            OSError, RunFailed: preparing fails, so the run publishes nothing.
        """

    def complete(self) -> None:
        """Make the prepared work visible.

        Must be idempotent, also across processes: by the name of a transaction, a staging table that is gone, or the
        mark of an object.

        Raises:
            NotCompleted: it failed, and the error knows whether anything is visible.
            OSError: it failed, or the outcome is unknown; the caller asks `is_completed`.
        """

    def is_completed(self) -> bool:
        """True if it has completed.

        Raises:
            OSError: the answer is unknown.
        """

    def give_up(self) -> None:
        """Remove the prepared work as far as possible. Everything that is visible stays.

        It is called when the run ends without having published, even if `prepare` failed half-way. The next run removes
        the rest.

        Raises:
            OSError: something remains.
        """


class Home(Protocol):
    """The place of the journal if a run publishes into several places. Usually it is a participant, too."""

    @property
    def address(self) -> Address:
        """The address of the journal."""

    def announce(self, others: Sequence[Address]) -> None:
        """Write the addresses of participants before any of them is prepared, so that remains of a dead run are found.

        Raises:
            OSError: they cannot be written.
        """

    def decide(self, others: Sequence[Address]) -> None:
        """Write the journal, atomically and durably. From now on the run counts.

        Raises:
            OSError: it cannot be written, or the outcome is unknown; the caller calls `take_back`.
        """

    def take_back(self) -> bool:
        """Remove the journal. Returns False if it may still exist, and so decides. Does not fail."""

    def forget(self) -> None:
        """Remove the journal after all have completed. Does not fail: if it stays, the next run repeats this."""

    def stay(self) -> None:
        """Keep the note that nothing was decided, because a participant could not give up its prepared work."""


class DeadParticipant(Protocol):
    """The remains of a participant from a dead run. Calls may be repeated after a crash in the middle of them."""

    def complete(self) -> None:
        """Make the prepared work visible, and remove all other remains. Completed work stays as it is.

        Without remains there is nothing to do, because they are removed only after the decision. If somebody else has
        changed a target meanwhile, it stays as it is, with a warning.

        Raises:
            OSError: it failed; the journal stays, and the next attempt begins again.
        """

    def remove(self) -> None:
        """Remove prepared and partly prepared work. Everything that is visible stays.

        Raises:
            OSError: something remains.
        """


class Answer(enum.Enum):
    """The state of a run according to its home."""

    #: It still runs: leave its drafts alone.
    LIVES = "lives"
    #: It is dead, and its decided work has been completed or removed. Work that still exists was never decided.
    RESOLVED = "resolved"


def as_json(addresses: Iterable[Address]) -> list[dict[str, str]]:
    """Addresses as JSON objects."""
    return [each.as_json() for each in addresses]

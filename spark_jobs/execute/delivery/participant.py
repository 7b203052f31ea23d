"""Participants of a run's publication (files, objects, a table, a database), and their remains after a dead run.

A run may publish into several places that know nothing of one another. So that it publishes into all of them or none,
each of them is a *participant*, and one of them is the *home* of the run's journal (`joint.py:publish`):

1. Every participant *prepares*: it does whatever may fail, shows nothing, and notes on its own side how it is completed
   and where the home is. "Its own side" is writable only by users who may write the target as well: a prefix beside the
   objects or the table, a staging table of the database with its comment.
2. The home writes the journal, all at once or not at all. From here on the run has succeeded, whatever dies.
3. The participants *complete*, in the order of their `Rank`.
4. The journal goes.

The journal has only addresses. So write access to one place does not give write access to another: the remains of a
participant are completed from its own notes, and only if these name the home that asks for it.

A participant that is alone needs no journal, and is prepared without a home (None): it decides for itself, as a table's
commit or a database's transaction does.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Rank(enum.IntEnum):
    """The order in which participants complete: first those that others can make fail, last those that nearly cannot.

    Should the first one refuse, nothing is visible yet, and the run takes everything back.
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
        kind: which module knows what lies there (`joint.py:KINDS`).
        place: where, in words of that kind: a path, a URI, the name of a connection and a table. No credentials.
        run: the execution id; what lies there is of this run.
    """

    kind: str
    place: str
    run: str

    def as_json(self) -> dict[str, str]:
        """The address as JSON has it."""
        return {"kind": self.kind, "place": self.place, "run": self.run}

    @classmethod
    def of(cls, found: Any) -> Address:
        """The address that JSON has.

        Raises:
            ValueError: it is none.
        """
        if not isinstance(found, dict) or {type(found.get(name)) for name in ("kind", "place", "run")} != {str}:
            raise ValueError(found)
        return cls(found["kind"], found["place"], found["run"])


@dataclass(frozen=True)
class Reach:
    """Access to places: the settings of `clinker.toml` except credentials.

    Args:
        stores: how stores are reached.
        connections: the URIs of databases by the names of their connections.
        catalogs: the properties of catalogues of tables by their names.
    """

    stores: StoreSettings = field(default_factory=StoreSettings)
    connections: Mapping[str, str] = field(default_factory=dict)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class NotCompleted(Exception):
    """A participant could not complete, and knows whether anything is visible.

    Args:
        cause: why.
        is_visible: whether some output of the run may be visible there.
        can_be_later: whether another attempt may complete it, after the cause is mended. False where somebody else has
            changed the target: nobody may overwrite that.
    """

    def __init__(self, cause: Exception, *, is_visible: bool, can_be_later: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.is_visible = is_visible
        self.can_be_later = can_be_later


class Participant(Protocol):
    """A place that a live run publishes into.

    All calls come from the driver's main thread. `prepare` and `complete` are called once each, and in this order.
    """

    @property
    def rank(self) -> Rank:
        """When it completes."""

    @property
    def address(self) -> Address:
        """The location of the notes with which it can be completed."""

    @property
    def label(self) -> str:
        """Its name in messages: a folder, a URI, a table."""

    def prepare(self, home: Address | None) -> None:
        """Do everything that may fail, and write down on its own side what completes it, durably; show nothing.

        That is: parts joined, uploads ready, staging tables filled, `if_exists` and versions looked at again. After
        this `complete` is as short and as certain as the place allows.

        Args:
            home: where the run decides. It has to be written down: a process that finds prepared work asks there
                whether it counts (`joint.py:resolve`). None: this participant is alone and decides by completing.

        Raises:
            OSError, RunFailed: it cannot; the run publishes nothing.
        """

    def complete(self) -> None:
        """Make the prepared work visible.

        It must be possible to do this twice, by this process or by the next one: by the name of a transaction, a
        staging table that is gone, a mark of an object.

        Raises:
            NotCompleted: it did not work, and the error says whether anything is visible.
            OSError: it did not work, or nobody can tell; `is_completed` is asked.
        """

    def is_completed(self) -> bool:
        """Whether it has completed.

        Raises:
            OSError: nobody can tell.
        """

    def give_up(self) -> None:
        """Remove the prepared work as far as possible; everything that is visible stays.

        It is called when the run ends without having published, also where `prepare` has failed half-way. The next
        run removes the rest.

        Raises:
            OSError: something stays.
        """


class Home(Protocol):
    """The place of the journal if a run publishes into several places. Usually it is a participant, too."""

    @property
    def address(self) -> Address:
        """The address of the journal."""

    def announce(self, others: Sequence[Address]) -> None:
        """Write down which participants will be prepared, before any of them is: a death leaves something there.

        Raises:
            OSError: it cannot be written.
        """

    def decide(self, others: Sequence[Address]) -> None:
        """Write the journal, all at once and durably: from here on the run counts.

        Raises:
            OSError: it cannot be written, or nobody can tell; `take_back` follows.
        """

    def take_back(self) -> bool:
        """Remove the journal; False where it may still be there, and so decides. Does not fail."""

    def forget(self) -> None:
        """Remove the journal once all have completed. Does not fail: the next run repeats it if the journal stays."""

    def stay(self) -> None:
        """Keep the note that nothing was decided, because a participant could not give up its prepared work."""


class DeadParticipant(Protocol):
    """The remains of a participant from a dead run. Calls may be repeated after a crash in the middle of them."""

    def complete(self) -> None:
        """Make the prepared work visible, and remove all other remains; completed work stays as it is.

        Where nothing is left there is nothing to do: a participant's remains go only when the run is decided. A target
        that somebody else has changed meanwhile stays as it is, with a warning.

        Raises:
            OSError: it does not work; the journal stays, and the next attempt begins again.
        """

    def remove(self) -> None:
        """Remove prepared and partly prepared work. Everything that is visible stays.

        Raises:
            OSError: something stays.
        """


class Answer(enum.Enum):
    """The state of a run according to its home."""

    #: It still runs: leave its drafts alone.
    LIVES = "lives"
    #: It is dead, and its decided work is completed or removed by now. Anything that is still there was never decided.
    RESOLVED = "resolved"


def as_json(addresses: Iterable[Address]) -> list[dict[str, str]]:
    """Addresses as JSON has them."""
    return [each.as_json() for each in addresses]

"""Publishing into several places at once: all of them or none, in a stated order, whoever fails or dies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.participant import Address, NotCompleted, Rank
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

TAKEN = NotCompleted(StoreError(Kind.TAKEN, "it was taken", "s3://b/x"), is_visible=False, can_be_later=False)
LATER = NotCompleted(OSError(28, "no room", "/x"), is_visible=False, can_be_later=True)


@dataclass
class Place:
    """A participant that can be a home, and fails where it is told to."""

    name: str
    rank: Rank
    told: list[str]
    fails: dict[str, Exception] = field(default_factory=dict)
    keeps_journal: bool = False
    completes_all_the_same: bool = False

    @property
    def address(self) -> Address:
        return Address("test", self.name, "r")

    @property
    def label(self) -> str:
        return f"<{self.name}>"

    def _do(self, what: str) -> None:
        self.told.append(f"{self.name} {what}")
        if what in self.fails:
            raise self.fails[what]

    def announce(self, others: Sequence[Address]) -> None:
        self._do(f"announces {','.join(each.place for each in others)}")

    def prepare(self, home: Address | None) -> None:
        self._do(f"prepares for {home.place}" if home else "prepares alone")
        self._do("prepared")

    def decide(self, others: Sequence[Address]) -> None:
        self._do("decides")

    def complete(self) -> None:
        self._do("completes")

    def is_completed(self) -> bool:
        return self.completes_all_the_same

    def take_back(self) -> bool:
        self._do("takes back")
        return not self.keeps_journal

    def give_up(self) -> None:
        self._do("gives up")

    def forget(self) -> None:
        self._do("forgets")

    def stay(self) -> None:
        self._do("stays")


def places(**fails: dict[str, Exception]) -> tuple[list[str], list[Place]]:
    told: list[str] = []
    names = {"files": Rank.FILES, "table": Rank.TABLE, "rows": Rank.DATABASE}
    return told, [Place(name, rank, told, fails.get(name, {})) for name, rank in names.items()]


def test_all_prepare_before_the_decision_and_complete_by_rank() -> None:
    told, found = places()
    joint.publish(found, found[0])
    assert told == [
        "files announces rows,table",
        *("rows prepares for files", "rows prepared", "table prepares for files", "table prepared"),
        *("files decides", "rows completes", "table completes", "files completes", "files forgets"),
    ]


def test_one_alone_needs_no_journal() -> None:
    told, found = places()
    joint.publish([found[1]], found[0])
    assert told == ["table prepares alone", "table prepared", "table completes"]


@pytest.mark.parametrize("error", [OSError(28, "no room"), KeyboardInterrupt()])
def test_who_cannot_prepare_takes_everything_back(error: Exception) -> None:
    told, found = places(table={"prepared": error})
    with pytest.raises(type(error)):
        joint.publish(found, found[0])
    assert told[-3:] == ["files takes back", "rows gives up", "table gives up"]
    assert "files decides" not in told


def test_a_home_stays_for_what_could_not_be_given_up() -> None:
    """Else what was prepared would wait for a home that is gone."""
    told, found = places(table={"prepared": OSError(28, "no room"), "gives up": OSError(5, "input/output error")})
    with pytest.raises(OSError, match="no room"):
        joint.publish(found, found[0])
    assert told[-3:] == ["rows gives up", "table gives up", "files stays"]


def test_a_decision_that_may_have_been_written_stays() -> None:
    told, found = places(files={"decides": OSError(5, "input/output error")})
    found[0].keeps_journal = True
    with pytest.raises(OSError, match="input/output"):
        joint.publish(found, found[0])
    assert told[-2:] == ["files decides", "files takes back"]


def test_the_first_that_refuses_takes_everything_back() -> None:
    told, found = places(rows={"completes": TAKEN})
    with pytest.raises(StoreError, match="it was taken"):
        joint.publish(found, found[0])
    assert told[-5:] == ["rows completes", "files takes back", "rows gives up", "table gives up", "files gives up"]


def test_what_comes_later_and_can_be_mended_is_left_to_the_next_run() -> None:
    told, found = places(files={"completes": LATER})
    with pytest.raises(RunFailed, match=r"no room.*already in: <rows>, <table>; not yet in: <files>; the next run"):
        joint.publish(found, found[0])
    assert told[-1] == "files completes", "the journal stays"


def test_what_comes_later_and_is_taken_stays_as_it_is_and_the_others_complete() -> None:
    told, found = places(table={"completes": TAKEN})
    with pytest.raises(RunFailed, match=r"already in: <rows>, <files>; not yet in: <table>, for good") as raised:
        joint.publish(found, found[0])
    assert told[-4:] == ["table completes", "files completes", "table gives up", "files forgets"]
    assert raised.value.code == "E902"


def test_a_lost_answer_is_asked_again() -> None:
    told, found = places(rows={"completes": OSError(104, "connection reset")})
    found[2].completes_all_the_same = True
    joint.publish(found, found[0])
    assert told[-1] == "files forgets"


def test_an_answer_that_nobody_knows_is_left_to_the_next_run() -> None:
    told, found = places(rows={"completes": OSError(104, "connection reset")})
    with pytest.raises(RunFailed, match="already in: no place; not yet in: <rows>, <table>, <files>; the next run"):
        joint.publish(found, found[0])
    assert told[-1] == "rows completes"


@pytest.mark.parametrize("told", [[], "x", {"kind": "a", "place": "b"}, {"kind": "a", "place": 1, "run": "r"}])
def test_only_addresses_are_addresses(told: object) -> None:
    assert Address.of(json.loads(json.dumps(Address("a", "b", "c").as_json()))) == Address("a", "b", "c")
    with pytest.raises(ValueError):
        Address.of(told)


def test_a_place_of_a_later_version_is_said_to_be_one() -> None:
    home = Address("files", "/out/.clinker-r", "r")
    with pytest.raises(OSError, match="does not know such places"):
        joint.complete_dead([Address("moon", "luna://x", "r")], home, None)  # type: ignore[arg-type]

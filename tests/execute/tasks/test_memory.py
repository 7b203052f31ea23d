"""What tasks hold under a memory limit: their share and a quarter at most, whatever waits; or E310."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import memory
from spark_jobs.nodes import memory as account

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIMIT = 8 << 20
ROWS = 80_000
#: Those that show each kind of waiting; the others take as long again.
FAST = ["document", "five functions", "distinct", "skewed combine", "sort beside an aggregate"]
#: What needs no disk: records that go through, runs that are files already, build sides that are small.
THROUGH = [
    "rows through",
    "array",
    "document",
    "exploded lines",
    "wide rows",
    "sort",
    "skewed combine",
    "combine of all",
    "combine of lists",
]


def _measured(name: str, folder: Path) -> memory.Result:
    """In a process of its own: its allocator has a peak that only grows."""
    memory.write(folder, name, ROWS)
    command = [sys.executable, memory.__file__, "--in", str(folder), "--limit", str(LIMIT), name]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return memory.Result(**json.loads(told.splitlines()[-1]))


def _slow(names: Sequence[str]) -> list[object]:
    return [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", _slow([name for name in memory.WORKLOADS if name not in [*THROUGH, "huge cell"]]))
def test_what_waits_is_spilled_within_the_share(name: str, tmp_path: Path) -> None:
    result = _measured(name, tmp_path)
    assert result.error is None
    assert result.spilled > 0
    assert result.ratio <= memory.ALLOWED


@pytest.mark.parametrize("name", _slow(THROUGH))
def test_what_goes_through_stays_within_the_share(name: str, tmp_path: Path) -> None:
    result = _measured(name, tmp_path)
    assert result.error is None
    assert result.ratio <= memory.ALLOWED


def test_a_record_that_does_not_fit_ends_the_run_with_its_node(tmp_path: Path) -> None:
    """Two megabytes under a share of four: while it is read, a record is there in a few forms."""
    result = _measured("huge cell", tmp_path)
    assert result.error is not None
    assert result.error.startswith("E310 source 's': in.csv: a record is longer than 1398101 bytes")
    assert result.ratio <= memory.ALLOWED
    assert not (tmp_path / "out" / "o.csv").exists()


def _account(share: int = 300) -> tuple[account.MemoryPool, list[str]]:
    return account.MemoryPool(share), []


def test_the_place_that_holds_most_gives_up_what_it_holds() -> None:
    whole, released = _account()
    reservations = {name: whole.reserve(lambda name=name: _release(name)) for name in ("a", "b")}  # type: ignore[misc]

    def _release(name: str) -> None:
        released.append(name)
        reservations[name].set(0)

    reservations["a"].add(60)
    reservations["b"].add(40)
    assert released == []
    reservations["b"].add(1)
    assert released == ["a"]
    assert whole.held == 41


def test_a_place_at_work_is_left_alone_and_the_next_largest_asked() -> None:
    whole, released = _account()
    busy = whole.reserve(lambda: released.append("busy"))
    other = whole.reserve(lambda: released.append("other"))
    fixed = whole.reserve()
    with busy.busy():
        busy.add(200)
        other.add(10)
        fixed.add(150)
    assert set(released) == {"other"}


def test_what_a_task_keeps_leaves_less_to_the_others() -> None:
    whole, _ = _account(share=3 << 20)
    before = whole.room, whole.limit
    whole.hold(1 << 20)
    assert (whole.room, whole.limit) == (before[0] - (1 << 20), (2 << 20) // 3)

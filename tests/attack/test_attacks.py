"""The attacks themselves, a few rounds each: they run, hold, and notice what they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest

from spark_jobs.execute.delivery.local import journal, recovery
from tests.attack import (
    changed_bytes,
    correlated_pipelines,
    crash_points,
    data_files,
    hostile_files,
    hostile_texts,
    interchanges,
    kills,
    ordered_pipelines,
    pipelines,
    place_kills,
    programs,
    rounds,
    time_windows,
    whole_pipelines,
)

if TYPE_CHECKING:
    import random
    from pathlib import Path
    from types import ModuleType


@pytest.mark.parametrize(
    ("attack", "count"),
    [
        (pipelines, 30),
        (data_files, 25),
        (changed_bytes, 60),
        (interchanges, 30),
        (hostile_texts, 10),
        (hostile_files, 4),
        (programs, 2),
        (whole_pipelines, 2),
        (correlated_pipelines, 6),
        (time_windows, 3),
        (ordered_pipelines, 4),
    ],
    ids=str,
)
def test_an_attack_holds_and_says_so(attack: ModuleType, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert attack.main(["--seed", "3", "--count", str(count)]) == 0
    name = attack.__name__.rpartition(".")[2]
    told = capsys.readouterr().out.strip().splitlines()[-1]
    assert told.startswith(f"{name}: {count} rounds in ")
    assert told.endswith("; 0 findings")


@pytest.mark.slow
def test_drivers_that_are_killed_leave_the_files_of_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert kills.main(["--count", "20", "--rows", "900"]) == 0
    assert capsys.readouterr().out.startswith("kills: 20 rounds in ")


@pytest.mark.slow
def test_drivers_that_are_killed_in_and_between_passes_leave_the_files_of_one_run() -> None:
    assert kills.main(["--correlated", "--count", "12", "--rows", "450"]) == 0


@pytest.mark.slow
def test_runs_into_all_places_that_are_killed_leave_all_old_or_all_new(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.dict("os.environ"):
        assert place_kills.main(["--count", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("; 0 findings")


@pytest.mark.parametrize("has_links", [True, False])
def test_some_crash_points_of_publishing_hold(has_links: bool, tmp_path: Path) -> None:
    """Those after which recovery has most to do, each with a few points of recovery."""
    tally = rounds.Tally("crash_points")
    crash_points.run(tmp_path / "files", tally, has_links=has_links, points=range(0, 1000, 13), stride=29)
    assert tally.findings == 0
    assert tally.outcomes["pairs with a point of recovery"] > 10


@pytest.mark.slow
def test_every_crash_point_of_publishing_holds(tmp_path: Path) -> None:
    tally = rounds.Tally("crash_points")
    crash_points.run(tmp_path / "files", tally, has_links=True, stride=40)
    assert tally.findings == 0
    assert tally.outcomes["points where a mixture shows until the next run"] > 0


def test_a_recovery_that_does_nothing_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recovery, "recover", lambda beside: [])
    tally = rounds.Tally("crash_points")
    crash_points.run(tmp_path / "files", tally, has_links=True, points=range(0, 1000, 13), stride=50)
    assert tally.findings > 0
    assert "repeat: python -m tests.attack.crash_points --point " in capsys.readouterr().out


def test_renames_without_a_journal_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "write", lambda renames, place, others=(): None)
    tally = rounds.Tally("crash_points")
    crash_points.run(tmp_path / "files", tally, has_links=True, points=range(30, 1000, 8), stride=200)
    assert tally.findings > 0


def test_a_finding_says_how_to_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    def one(chance: random.Random, folder: Path) -> str:
        if chance.random() > 0.5:
            raise ValueError("too much")
        return "little"

    assert rounds.play("toy", "a toy", 20, one, ["--seed", "2"]) == 1
    told = capsys.readouterr().out
    assert "too much\n  repeat: python -m tests.attack.toy --seed 2 --first " in told
    first = told.split("--first ")[1].split()[0]
    assert rounds.play("toy", "a toy", 20, one, ["--seed", "2", "--first", first, "--count", "1"]) == 1
    assert "toy: 1 rounds" in capsys.readouterr().out


@pytest.mark.parametrize("name", changed_bytes.SAMPLES)
def test_every_byte_of_a_small_file_may_be_changed_or_missing(name: str, tmp_path: Path) -> None:
    sample = changed_bytes.SAMPLES[name]
    assert changed_bytes.hold(sample, sample.data, tmp_path) == "read"
    data = [*changed_bytes.damaged(sample.data)]
    some = data[:: max(1, len(data) // sample.tries)]  # the attack plays the others
    assert {changed_bytes.hold(sample, each, tmp_path) for each in some} <= {"read", "refused"}

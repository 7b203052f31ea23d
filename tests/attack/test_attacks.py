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
    moved_cases,
    ordered_pipelines,
    pipelines,
    place_kills,
    programs,
    rounds,
    time_windows,
    whole_pipelines,
)
from tests.execute import without_spark

if TYPE_CHECKING:
    import random
    from pathlib import Path
    from types import ModuleType

    from tests.object_store import AnyBucket


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
        (moved_cases, 2),
    ],
    ids=str,
)
def test_an_attack_holds_and_says_so(attack: ModuleType, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert attack.main(["--seed", "3", "--count", str(count)]) == 0
    name = attack.__name__.rpartition(".")[2]
    told = capsys.readouterr().out.strip().splitlines()[-1]
    assert told.startswith(f"{name}: {count} rounds in ")
    assert told.endswith("; 0 findings")


def test_a_case_is_the_same_in_every_store(bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    case = next(each for each in moved_cases.documented() if each.name == "docs/recipes/quality.md")
    for name in ("here", "away"):
        (tmp_path / name).mkdir()
    here = moved_cases.run_here(case, tmp_path / "here")
    moved = moved_cases.run_moved(case, tmp_path / "away", bucket, "a+b%20c/")
    assert moved_cases.compared(here, moved, words=True) == []
    assert {code for code, _ in here.ended} == {0, 2, 3}
    assert len(here.files) > len(case.files)


def test_what_a_move_changes_is_noticed() -> None:
    here = moved_cases.Outcome([(0, "2 ok\n")], {"a.csv": b"n\n1\n", "b.csv": b""})
    moved = moved_cases.Outcome([(2, "1 ok\n")], {"a.csv": b"n\n2\n", "c.csv": b""})
    code, a, b, c = moved_cases.compared(here, moved)
    assert code.startswith("command 1 ended with 2, and with 0 where it was")
    assert (a, b, c) == (
        "a.csv: b'2', and where it was b'1'",
        "b.csv is there before the move alone",
        "c.csv is there after the move alone",
    )
    (said,) = moved_cases.compared(here, moved_cases.Outcome([(0, "1 ok\n")], here.files), words=True)
    assert said == "said: ['1 ok'], and where it was ['2 ok']"


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

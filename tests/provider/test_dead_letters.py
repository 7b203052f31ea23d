"""Counting dead letters, and waiting for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import dead_letters

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "_cxl_dlq_id,value\n"


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    path = tmp_path / "dead.csv"
    path.write_text(HEADER + '1,"two\nlines"\n2,plain\n')
    return path


def test_entries_are_counted_not_lines(letters: Path) -> None:
    assert dead_letters.look(str(letters)) == dead_letters.Found((str(letters),), 2)


def test_a_path_is_a_path_before_it_is_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "d[1].csv").write_text(HEADER + "1,x\n")
    assert dead_letters.look(str(tmp_path / "d[1].csv")).count == 1
    (tmp_path / "d1.csv").write_text(HEADER + "1,x\n2,x\n")
    assert dead_letters.look(str(tmp_path / "d[1].csv")).count == 1
    assert dead_letters.look(str(tmp_path / "d[0-9].csv")).count == 2


def test_entries_may_be_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "dead.csv"
    path.write_bytes(HEADER.encode() + b'1,%b\n\n2,"a""\n%b"\r\n3,z' % (b"x" * 200_000, b"\n\xff" * 200_000))
    assert dead_letters.look(str(path)).count == 3


def test_patterns_add_up_files(letters: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(HEADER + "3,x\n")
    (tmp_path / "empty.csv").write_text(HEADER)
    found = dead_letters.look(str(tmp_path / "*.csv"))
    assert found.count == 3
    assert len(found.paths) == 3


def test_missing_files_hold_nothing(tmp_path: Path) -> None:
    assert dead_letters.look(str(tmp_path / "no.csv")) == dead_letters.Found((), 0)
    assert dead_letters.look(str(tmp_path)) == dead_letters.Found((), 0)


def sensor(path: object, **arguments: Any) -> Any:
    from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

    return ClinkerDeadLettersSensor(task_id="wait", path=str(path), **arguments)


@pytest.mark.airflow
def test_a_path_is_kept_as_text(letters: Path) -> None:
    from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

    assert ClinkerDeadLettersSensor(task_id="wait", path=letters).path == str(letters)


@pytest.mark.airflow
def test_sensor_gives_paths_and_count(letters: Path) -> None:
    assert sensor(letters).execute({}) == {"paths": [str(letters)], "count": 2}
    assert sensor(letters, deferrable=True).execute({}) == {"paths": [str(letters)], "count": 2}


@pytest.mark.airflow
@pytest.mark.parametrize("path", ["", "None", "/nowhere/dead.csv"])
def test_sensor_does_not_find_what_a_clean_run_gives(path: str) -> None:
    assert not sensor(path).poke({}).is_done


@pytest.mark.airflow
def test_sensor_waits_for_enough(letters: Path) -> None:
    assert sensor(letters, min_count=2).poke({}).is_done
    assert not sensor(letters, min_count=3).poke({}).is_done
    with pytest.raises(ValueError, match="from 1 on"):
        sensor(letters, min_count=0)


@pytest.mark.airflow
def test_deferred_sensor_goes_on_when_the_trigger_fires(tmp_path: Path) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    from clinker_provider.triggers.dead_letters import DeadLettersTrigger

    path = tmp_path / "late.csv"
    waiting = sensor(path, deferrable=True, poke_interval=0.01, timeout=30)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    classpath, arguments = deferred.value.trigger.serialize()
    assert classpath == "clinker_provider.triggers.dead_letters.DeadLettersTrigger"
    assert deferred.value.timeout.total_seconds() == 30

    async def wait() -> Any:
        events = DeadLettersTrigger(**arguments).run()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.05)
        assert not first.done()
        path.write_text(HEADER + "1,x\n")
        return await asyncio.wait_for(first, 10)

    event = asyncio.run(wait())
    assert waiting.execute_complete({}, event.payload) == {"paths": [str(path)], "count": 1}


@pytest.mark.airflow
def test_unreadable_dead_letters_are_an_error_not_a_wait(letters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clinker_provider.exceptions import ClinkerIOError
    from clinker_provider.triggers.dead_letters import DeadLettersTrigger

    def refuse(pattern: str, files: Any) -> None:
        raise PermissionError(f"{pattern}: denied")

    monkeypatch.setattr(dead_letters, "look", refuse)
    with pytest.raises(ClinkerIOError, match="denied"):
        sensor(letters).poke({})

    async def first() -> Any:
        return await anext(DeadLettersTrigger(path="x", min_count=1, poke_interval_s=1).run())

    event = asyncio.run(first())
    assert event.payload == {"status": "error", "message": "x: denied"}
    with pytest.raises(ClinkerIOError, match="denied"):
        sensor(letters).execute_complete({}, event.payload)


@pytest.mark.airflow
def test_a_uri_that_leads_nowhere_is_an_error_not_a_wait() -> None:
    from clinker_provider.exceptions import ClinkerIOError

    with pytest.raises(ClinkerIOError, match="no client is known for ftp://"):
        sensor("ftp://acme/dead.csv").poke({})


def test_a_file_uri_is_its_path(tmp_path: Path) -> None:
    (tmp_path / "dead.csv").write_text("id\n1\n")
    assert dead_letters.look(f"file://{tmp_path}/dead.csv").count == 1

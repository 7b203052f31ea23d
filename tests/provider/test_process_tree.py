"""Ending processes, without taking their exit status away from whoever started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import psutil
import pytest

from clinker_provider import process_tree

#: Marks are looked for on the whole machine, where other tests may run.
MINE = uuid.uuid4().hex
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def start(code: str, mark: str, **arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, process_tree.MARK: mark},
        **arguments,  # type: ignore[call-overload]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_exit_status_stays_with_the_parent() -> None:
    process = start(SLEEP, f"{MINE} status")
    assert process_tree.end(process.pid, f"{MINE} status", grace_s=5) == [process.pid]
    assert process.wait(5) == -15


@pytest.mark.slow
def test_processes_that_do_not_listen_are_killed_after_the_grace() -> None:
    process = start(STUBBORN, f"{MINE} stubborn")
    began = time.monotonic()
    process_tree.end(process.pid, f"{MINE} stubborn", grace_s=0.3)
    assert time.monotonic() - began >= 0.3
    assert process.wait(5) == -9


def test_grace_is_not_waited_for_when_all_have_ended() -> None:
    process = start(SLEEP, f"{MINE} quick")
    began = time.monotonic()
    process_tree.end(process.pid, f"{MINE} quick", grace_s=30)
    assert time.monotonic() - began < 15
    process.wait(5)


def test_strays_are_found_by_their_mark_alone() -> None:
    process = start(SLEEP, f"{MINE} stray", start_new_session=True)
    other = start(SLEEP, f"{MINE} other run")
    try:
        assert [found.pid for found in process_tree.marked(f"{MINE} stray")] == [process.pid]
        process_tree.end(None, f"{MINE} stray", grace_s=5)
        assert process.wait(5) == -15
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_own_process_is_never_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(SLEEP, f"{MINE} mine")
    # A task that was itself started with the mark, as one that a job starts would be.
    monkeypatch.setattr(psutil.Process, "environ", lambda self: {process_tree.MARK: f"{MINE} mine"})
    found = {item.pid for item in process_tree.marked(f"{MINE} mine")}
    monkeypatch.undo()
    assert process.pid in found
    assert not found & {os.getpid(), os.getppid()}
    process.kill()
    process.wait()


def test_nothing_to_end_is_no_error() -> None:
    process = start(SLEEP, f"{MINE} gone")
    process.kill()
    process.wait()
    assert process_tree.end(process.pid, f"{MINE} gone", grace_s=1) == []

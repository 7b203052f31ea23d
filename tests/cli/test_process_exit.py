"""How the process ends whose outcome is told: soon, and with that outcome, whatever comes then."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest


def ended(program: str, timeout_s: float = 60) -> tuple[int, str, str, float]:
    """Exit status, output, errors and seconds of a Python program."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


PREAMBLE = """
import atexit, signal, sys, threading, time
from spark_jobs.cli import clinker
from spark_jobs.cli import process_exit
process_exit._TIMEOUT_S = 1.0
"""


def test_threads_that_still_work_are_not_waited_for() -> None:
    status, out, _, seconds = ended(
        PREAMBLE
        + """
from concurrent.futures import ThreadPoolExecutor
ThreadPoolExecutor().submit(time.sleep, 600)
threading.Thread(target=time.sleep, args=(600,)).start()
print("told", end="")
process_exit.run(lambda: 2)
"""
    )
    assert (status, out) == (2, "told")
    assert seconds < 30


def test_what_was_registered_for_the_end_is_done() -> None:
    status, out, _, _ = ended(PREAMBLE + "atexit.register(print, 'tidied', flush=True)\nprocess_exit.run(lambda: 0)")
    assert (status, out) == (0, "tidied\n")


@pytest.mark.thorough
def test_what_hangs_at_the_end_is_left() -> None:
    status, _, _, seconds = ended(PREAMBLE + "atexit.register(time.sleep, 600)\nprocess_exit.run(lambda: 4)")
    assert status == 4
    assert seconds < 30


SIGNALLED = """
def run(arguments):
    signal.raise_signal(signal.{first})
    time.sleep(60)
def late():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.pthread_kill(threading.main_thread().ident, number)
    time.sleep(0.2)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
atexit.register(late)
clinker._COMMANDS["run"] = run
clinker.end_with(["run", "p.yaml"])
"""


@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_after_the_outcome_do_not_change_it(first: str) -> None:
    """A second Ctrl-C within half a second of the first one, or a scheduler that repeats itself."""
    status, _, err, _ = ended(PREAMBLE + SIGNALLED.format(first=first))
    assert (status, err) == (130, "interrupted\n")


def test_signals_after_a_success_do_not_change_it() -> None:
    program = SIGNALLED.replace("    signal.raise_signal(signal.{first})\n    time.sleep(60)\n", "    return 0\n")
    status, _, err, _ = ended(PREAMBLE + program)
    assert (status, err) == (0, "")

"""Several processes that stage the same file at the same time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from spark_jobs.scan.staging.staged_copy import OnExisting

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

#: Stages a file over and over, reads the copy to its end each time, and says how often it copied and what it read.
PROGRAM = """
    import hashlib, os, sys, time
    from datetime import UTC, datetime
    from spark_jobs.scan.staging import purge
    from spark_jobs.scan.files import InputFile
    from spark_jobs.scan.staging.staged_copy import Cleanup, OnExisting, Settings
    from spark_jobs.scan.staging.staging import SourceStaging

    folder, source, mode, cleanup, started, rounds = sys.argv[1:]
    purge.GRACE_S = 0.0
    settings = Settings(folder, ("*",), on_existing=OnExisting(mode), cleanup=Cleanup(cleanup))
    copied, digests = 0, set()
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(int(rounds)):
        since = datetime.fromisoformat(started) if started else datetime.now(UTC)
        run = SourceStaging(settings, since)
        problems = run.purge()
        status = os.stat(source)
        path = run.stage(InputFile(source, "a", status.st_size, status.st_mtime_ns)).path
        with open(path, "rb") as file:
            half = file.read(status.st_size // 2)
            time.sleep(0.002)
            assert os.path.samestat(os.stat(path), os.fstat(file.fileno())), "replaced while it was read"
            digests.add(hashlib.sha256(half + file.read()).hexdigest())
        problems += run.close(succeeded=True)
        assert not problems, problems
        copied += run.copied_files
    print(copied, *digests)
"""


def race(folder: Path, source: Path, mode: OnExisting, cleanup: str, started: str, *, runs: int, rounds: int) -> int:
    """How often the file was copied by some processes; each has always read it whole."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), str(source), mode, cleanup, started]
    processes = [
        subprocess.Popen([*command, str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(runs)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    told = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        told.append(output.split())
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert [digests for _, *digests in told] == [[digest]] * runs
    return sum(int(copied) for copied, *_ in told)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_bytes(os.urandom(4 << 20))
    (tmp_path / "staging").mkdir()
    return path


@pytest.mark.parametrize("mode", list(OnExisting))
def test_runs_that_begin_together_copy_once(tmp_path: Path, source: Path, mode: OnExisting) -> None:
    now = datetime.now(UTC).isoformat()
    assert race(tmp_path / "staging", source, mode, "never", now, runs=5, rounds=1) == 1


@pytest.mark.parametrize("mode", [OnExisting.OVERWRITE, OnExisting.REUSE])
def test_a_copy_is_whole_for_every_reader_while_others_remove_and_replace_it(
    tmp_path: Path, source: Path, mode: OnExisting
) -> None:
    source.write_bytes(os.urandom(200_000))
    copies = race(tmp_path / "staging", source, mode, "always", "", runs=4, rounds=25)
    assert 1 <= copies <= 4 * 25

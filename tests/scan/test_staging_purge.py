"""What dead runs leave in a staging folder goes; what is whole, young, held or somebody else's stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

from spark_jobs.disk.locks import FileLock
from spark_jobs.scan.staging import purge
from spark_jobs.scan.staging.staged_copy import Manifest, StagedCopy

if TYPE_CHECKING:
    from pathlib import Path

OLD = time.time() - 60
RUN = "0" * 32


def aged(path: Path, content: str = "x") -> Path:
    path.write_text(content)
    os.utime(path, (OLD, OLD))
    return path


@pytest.fixture
def copy(tmp_path: Path) -> StagedCopy:
    return StagedCopy.of(str(tmp_path), "/mnt/a.csv")


def left(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[2] for path in folder.iterdir())


def whole(copy: StagedCopy) -> None:
    aged(copy.data)
    copy.commit(Manifest("/mnt/a.csv", 0, 0, 1, "", "2026-01-01T00:00:00+00:00"))
    aged(copy.lock, "")


def test_whole_copies_stay_with_their_locks(tmp_path: Path, copy: StagedCopy) -> None:
    whole(copy)
    assert purge.purge(str(tmp_path)) == []
    assert left(tmp_path) == ["lock", "manifest.json", "staged"]


def test_a_dead_partial_goes_and_the_whole_copy_beside_it_stays(tmp_path: Path, copy: StagedCopy) -> None:
    whole(copy)
    aged(copy.partial(RUN))
    purge.purge(str(tmp_path))
    assert left(tmp_path) == ["lock", "manifest.json", "staged"]


@pytest.mark.parametrize("remains", ["staged", "manifest", "partial", "manifest partial", "broken manifest", "lock"])
@pytest.mark.parametrize("has_lock", [True, False])
def test_leftovers_of_a_dead_run_go(tmp_path: Path, copy: StagedCopy, remains: str, has_lock: bool) -> None:
    if has_lock:
        aged(copy.lock, "")
    match remains:
        case "staged":
            aged(copy.data)
        case "manifest":
            aged(copy.manifest, '{"source_path": "/mnt/a.csv"}')
        case "partial":
            aged(copy.partial(RUN))
        case "manifest partial":
            aged(copy.manifest.with_name(copy.manifest.name + ".partial"))
        case "broken manifest":
            aged(copy.data)
            aged(copy.manifest, "{")
    assert purge.purge(str(tmp_path)) == []
    assert left(tmp_path) == []


@pytest.mark.parametrize("how", [FileLock.shared, FileLock.exclusive])
def test_what_a_living_run_holds_stays(tmp_path: Path, copy: StagedCopy, how: object) -> None:
    aged(copy.data)
    aged(copy.partial(RUN))
    lock = how(copy.lock)  # type: ignore[operator]
    os.utime(copy.lock, (OLD, OLD))
    purge.purge(str(tmp_path))
    assert left(tmp_path) == [f"{RUN}.partial", "lock", "staged"]
    lock.close()
    purge.purge(str(tmp_path))
    assert left(tmp_path) == []


def test_what_is_young_stays(tmp_path: Path, copy: StagedCopy) -> None:
    copy.partial(RUN).write_text("x")
    copy.lock.write_text("")
    purge.purge(str(tmp_path))
    assert left(tmp_path) == [f"{RUN}.partial", "lock"]
    copy.partial(RUN).unlink()
    purge.purge(str(tmp_path))
    assert left(tmp_path) == ["lock"]


def test_files_of_others_are_not_touched(tmp_path: Path) -> None:
    strange = ["a.staged", "notes.partial", f"{'0' * 63}.staged", f"{'g' * 64}.lock", f"{'0' * 64}.staged.bak"]
    for name in strange:
        aged(tmp_path / name)
    assert purge.purge(str(tmp_path)) == []
    assert sorted(os.listdir(tmp_path)) == sorted(strange)


def test_what_cannot_be_removed_is_told_and_the_rest_goes(tmp_path: Path) -> None:
    first, second = (StagedCopy.of(str(tmp_path), name) for name in ("/mnt/a.csv", "/mnt/b.csv"))
    first.data.mkdir()
    aged(second.data)
    (problem,) = purge.purge(str(tmp_path))
    assert problem.startswith(f"{first.data}: leftovers of a dead run are not removed: ")
    assert not second.data.exists()
    (missing,) = purge.purge(str(tmp_path / "missing"))
    assert "is not purged: No such file" in missing


COPYING = """
    import sys, time
    from datetime import UTC, datetime
    from spark_jobs.scan.staging import staging
    from spark_jobs.scan.files import InputFile
    from spark_jobs.scan.staging.staged_copy import Settings

    folder, source = sys.argv[1:]
    def slowly(file, again=False):
        yield b"x"
        print("copying", flush=True)
        time.sleep(60)
    staging._chunks = slowly
    staging.SourceStaging(Settings(folder, ("*",)), datetime.now(UTC)).stage(InputFile(source, "a", 2, 0))
"""


def test_a_killed_run_leaves_a_partial_that_goes_once_it_is_dead(tmp_path: Path) -> None:
    source, folder = tmp_path / "a.csv", tmp_path / "staging"
    source.write_text("xx")
    folder.mkdir()
    command = [sys.executable, "-c", textwrap.dedent(COPYING), str(folder), str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"copying\n"
        for path in folder.iterdir():
            os.utime(path, (OLD, OLD))
        before = left(folder)
        assert sorted(name.rpartition(".")[2] for name in before) == ["lock", "partial"]
        purge.purge(str(folder))
        assert left(folder) == before
        run.send_signal(signal.SIGKILL)
        run.wait()
    purge.purge(str(folder))
    assert left(folder) == []

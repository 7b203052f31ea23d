"""File systems without locks: a run says so, with the path and what to do, and leaves nothing.

The system itself answers, through a library that stands before the C library in a process of its own.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.execute.bad_runs import prepare, tree

CC = shutil.which("cc")
SHIM = """
#include <errno.h>
int flock(int descriptor, int how) { errno = ANSWER; return -1; }
"""
RUN = """
import sys
import pytest
from spark_jobs.cli import clinker
from tests.execute import without_spark
without_spark.install(pytest.MonkeyPatch())
sys.exit(clinker.main(sys.argv[1:]))
"""
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler and LD_PRELOAD")


def without_locks(folder: Path, answer: str) -> dict[str, str]:
    """An environment whose processes get this answer for every lock."""
    library = folder / "no-locks.so"
    command = [str(CC), "-shared", "-fPIC", f"-DANSWER={answer}", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=SHIM, text=True, check=True, timeout=60)
    return {**os.environ, "LD_PRELOAD": str(library)}


@pytest.mark.parametrize("answer", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_a_run_without_locks_ends_with_the_remedy_and_changes_nothing(
    answer: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prepare(tmp_path)
    before = tree(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", RUN, "run", str(tmp_path / "pipeline.yaml"), "--force"],
        env=without_locks(tmp_path_factory.mktemp("shim"), answer),
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ended.returncode == 4, ended.stderr
    assert "error[E900]: " in ended.stderr
    assert f"cannot be locked ({os.strerror(getattr(errno, answer))})" in ended.stderr
    assert "use a file system with file locks" in ended.stderr
    assert str(tmp_path / "out") in ended.stderr
    assert "Traceback" not in ended.stderr
    assert tree(tmp_path) == before

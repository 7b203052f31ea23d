"""What Python workers find on their search path, and that all they need is imported ahead."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from pyspark import daemon

from spark_jobs.execute.spark import worker_daemon

#: Runs the daemon as far as its first fork.
_TELLS_FROZEN = """
import gc
from pyspark import daemon
from spark_jobs.execute.spark import worker_daemon
daemon.manager = lambda: print(gc.get_freeze_count(), len(gc.get_objects()))
worker_daemon.main()
"""


def test_the_zip_of_an_installed_pyspark_is_left_out(tmp_path):
    site = tmp_path / "site-packages"
    archive = site / "pyspark" / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.touch()
    path = ["/engine", str(archive), str(archive.with_name("py4j-src.zip")), str(site)]
    assert worker_daemon.without_zip(path) == ["/engine", path[2], str(site)]


def test_the_zip_stays_where_nothing_else_has_pyspark(tmp_path):
    archive = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.touch()
    other = tmp_path / "other-site-packages"
    assert worker_daemon.without_zip([str(archive), str(other)]) == [str(archive), str(other)]
    assert worker_daemon.without_zip(["/pyspark.zip"]) == ["/pyspark.zip"]


def test_all_modules_that_are_imported_ahead_exist():
    for name in worker_daemon.preloaded():
        assert importlib.util.find_spec(name), name


@pytest.mark.parametrize("error", [ConnectionResetError, BrokenPipeError, EOFError])
def test_a_worker_whose_jvm_has_gone_ends_without_a_word(
    error: type[Exception], capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark's daemon prints what a worker raises, and the terminal is that of the run."""

    def worker(connection: object, authenticated: bool) -> int:
        raise error

    assert worker_daemon.silence_worker(worker)(None, True) == 1
    assert capfd.readouterr() == ("", "")
    assert "worker" in daemon.manager.__code__.co_names, "by this name the daemon calls it"


def test_other_errors_of_a_worker_are_told() -> None:
    def worker(connection: object, authenticated: bool) -> int:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        worker_daemon.silence_worker(worker)(None, True)


def test_workers_do_not_look_for_garbage_among_what_is_imported_ahead() -> None:
    """Spark's daemon has each worker look for garbage behind every task."""
    told = subprocess.run(
        [sys.executable, "-c", _TELLS_FROZEN], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    frozen, looked_through = map(int, told.split())
    assert frozen > 1000 * looked_through

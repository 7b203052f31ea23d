"""What tests of runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.run import passes
from tests.execute import network_runs, without_spark
from tests.execute.bad_runs import run, tree
from tests.scan import web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_jobs.execute.tasks.spec import JobSpec


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs with `--force`, and proves that it changed nothing at all; gives what it said."""
    without_spark.install(monkeypatch)

    def check(exit_code: int, *says: str, options: tuple[str, ...] = ("--force",), unchanged: bool = True) -> str:
        before = tree(tmp_path) if unchanged else {}
        ended = run(tmp_path, *options)
        told = capsys.readouterr()
        assert ended == exit_code, told.err
        for text in says:
            assert text in told.err
        assert "Traceback" not in told.err
        assert "complete" not in told.out
        assert not unchanged or tree(tmp_path) == before
        return told.err

    return check


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, without Spark and without proxies."""
    without_spark.install(monkeypatch)
    web.without_proxies(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """The jobs that runs consist of, as they come."""
    seen: list[JobSpec] = []
    without_spark.install(monkeypatch)

    def run(spark: object, spec: JobSpec) -> Any:
        seen.append(spec)
        return without_spark.run_chain(spark, spec)

    monkeypatch.setattr(passes.chain, "run", run)
    return seen


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[web.Server]:
    """Serves the orders by offset and limit."""
    web.without_proxies(monkeypatch)
    with web.serving(network_runs.by_offset(network_runs.ORDERS)) as server:
        yield server

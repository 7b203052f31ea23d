"""Executors that do not see what the driver sees: said so, with path and machine, and only where it is so."""

from __future__ import annotations

import gzip
import os
import platform
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.disk import volumes
from spark_jobs.execute.run import passes, shared_folders
from spark_jobs.execute.spark import session, spread
from spark_jobs.formats import splits
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_jobs.result import RunResult

PIPELINE = """
pipeline:
  name: shared
nodes:
  - type: source
    name: rows
    config: {name: rows, type: csv, path: in/rows.csv, options: {OPTIONS}, schema: [{name: n, type: int}]}
  - {type: output, name: o, input: rows, config: {name: o, type: csv, path: out/o.csv}}
"""
SHARE = "on a cluster, local paths have to be on a mount that the driver and all executors share"


def prepare(folder: Path, options: str = "delimiter: ','", data: bytes = b"n\n1\n2\n") -> Path:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("OPTIONS", options), "in/rows.csv": data})
    (folder / "out").mkdir()
    (folder / "out" / "o.csv").write_text("n\nold\n")
    return folder / "in" / "rows.csv"


def hidden(monkeypatch: pytest.MonkeyPatch, path: Callable[[], Path], *, elsewhere: bool = True) -> None:
    """Tasks find nothing at a path, which is there again for the driver when they have ended."""
    without_spark.install(monkeypatch)

    def within(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            there = path()
            aside = there.with_name(f"{there.name}.aside")
            os.rename(there, aside)
            try:
                with pytest.MonkeyPatch.context() as patch:
                    if elsewhere:
                        patch.setattr(volumes, "reach", lambda: "another machine")
                    return real(*arguments)
            finally:
                os.rename(aside, there)

        return run

    monkeypatch.setattr(passes.chain, "run", within(passes.chain.run))
    monkeypatch.setattr(spread, "_answers", within(spread._answers))


def ended(folder: Path) -> RunResult:
    found = pipelines.run(folder, force=True).result
    assert found.exit_code == ExitCode.IO
    assert (folder / "out" / "o.csv").read_text() == "n\nold\n", "old files stay"
    return found


@pytest.mark.parametrize("moment", ["in a task", "where it is unpacked"])
def test_an_input_that_an_executor_does_not_see(tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if moment == "in a task":
        path = prepare(tmp_path)
    else:
        monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "1000")
        data = gzip.compress(b"n\n" + b"".join(b"%d\n" % number for number in range(20_000)))
        path = prepare(tmp_path, "compression: gzip", data)
    hidden(monkeypatch, lambda: path)
    error = ended(tmp_path).error
    assert error is not None
    assert error.code == "E909"
    assert error.message == (
        f"source 'rows': the driver sees {path}, and the executor on {platform.node()} does not: {SHARE}"
    )
    assert error.span is not None


def test_an_output_folder_that_an_executor_does_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    hidden(monkeypatch, lambda: next((tmp_path / "out").glob(".clinker-*")))
    error = ended(tmp_path).error
    assert error is not None
    assert error.code == "E909"
    assert f"output 'o': the driver sees the folder {tmp_path}/out/.clinker-" in error.message
    assert f"and the executor on {platform.node()} does not, or may not write there: {SHARE}" in error.message


def test_a_file_that_was_removed_for_a_moment_is_no_matter_of_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepare(tmp_path)
    hidden(monkeypatch, lambda: path, elsewhere=False)
    error = ended(tmp_path).error
    assert error is not None
    assert error.code == "E900"
    assert "in/rows.csv: file not found" in error.message


def test_a_file_that_is_gone_for_the_driver_too_is_no_matter_of_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepare(tmp_path)
    without_spark.install(monkeypatch)
    real = passes.chain.run

    def run(*arguments: Any) -> Any:
        path.unlink()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(volumes, "reach", lambda: "another machine")
            return real(*arguments)

    monkeypatch.setattr(passes.chain, "run", run)
    error = ended(tmp_path).error
    assert error is not None
    assert error.code == "E900"


@pytest.mark.parametrize("what", ["an input", "the folder of an output"])
def test_on_a_cluster_it_is_told_before_anything_is_read(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepare(tmp_path)
    out = tmp_path / "out"
    hidden(monkeypatch, (lambda: path) if what == "an input" else lambda: next(out.glob(".clinker-*")))
    monkeypatch.setattr(session, "is_certainly_local", lambda _: False)
    monkeypatch.setattr(session, "is_local", lambda _: False)
    monkeypatch.setattr(shared_folders, "_tasks", lambda _: 3)
    jobs = list[object]()
    monkeypatch.setattr(passes.chain, "run", jobs.append)
    error = ended(tmp_path).error
    assert error is not None
    assert error.code == "E909"
    assert f"the driver sees {path if what == 'an input' else out}" in error.message
    assert f"the executor on {platform.node()} does not: {SHARE}" in error.message
    assert error.message.endswith("or use a store (s3://bucket/…) in its place")
    assert not jobs

"""The queries of TPC-H that pipelines can say give what SQL gives."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.tpch import run, sql
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.tables(tmp_path_factory.mktemp("tpch"), 0.01)


@pytest.mark.parametrize("query", run.QUERIES)
def test_a_pipeline_agrees_with_sql(query: str, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("BENCH_TPCH", str(tables))
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500000")
    mine, its = tmp_path / "clinker", tmp_path / "duckdb"
    for folder in (mine, its):
        folder.mkdir()
    monkeypatch.setenv("BENCH_OUTPUT", str(mine))
    text = (sql.FOLDER / f"{query}.yaml").read_text("utf-8")
    pipelines.write(mine, {"pipeline.yaml": text})
    assert pipelines.run(mine, allow_absolute_paths=True).result.exit_code == 0
    subprocess.run(
        [sys.executable, sql.__file__, "duckdb", query], env={**os.environ, "BENCH_OUTPUT": str(its)}, check=True
    )
    assert len(run.rows(its)) > 0
    assert run.difference(mine, its) is None


def test_results_that_differ_are_told(tmp_path: Path) -> None:
    for name, text in (
        ("a", "k,v\n1,2.00\n3,4\n"),
        ("b", "k,v\n3,4.000001\n1,2\n"),
        ("c", "k,v\n3,5\n1,2\n"),
        ("d", "k,v\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.csv").write_text(text)
    assert run.difference(tmp_path / "a", tmp_path / "b") is None
    assert "row 1" in str(run.difference(tmp_path / "a", tmp_path / "c"))
    assert run.difference(tmp_path / "a", tmp_path / "d") == "2 rows and 0"

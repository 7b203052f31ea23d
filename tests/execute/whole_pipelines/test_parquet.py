"""Pipelines from and to Parquet: one file, folders of parts, previews."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

duckdb = LazyModule("duckdb")

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: rows, config: {{ name: rows, {read}, schema: {{ id: int, v: string }} }} }}
  - {{ type: output, name: o, input: rows, config: {{ name: o, type: parquet, {write} }} }}
"""
ROWS = [(number, f"text {number}") for number in range(500)]
CSV = "id,v,more\n" + "".join(f"{number},{text},{number}\n" for number, text in ROWS)
FILE = "path: out/rows.parquet"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(folder: Path, write: str, data: str = CSV, read: str = "type: csv, path: in.csv", **options: Any) -> Any:
    pipelines.write(folder, {"in.csv": data, "pipeline.yaml": PIPELINE.format(write=write, read=read)})
    return pipelines.run(folder, force=True, **options).result


@pytest.mark.parametrize("driver_bytes", [0, 1 << 20])
def test_a_file_does_not_depend_on_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_bytes: int) -> None:
    tuning = Tuning(driver_output_bytes=driver_bytes)
    assert run(tmp_path, FILE, tuning=tuning).exit_code == 0
    whole = pipelines.outputs(tmp_path)
    assert [*whole] == ["rows.parquet"]
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "700")
    run(tmp_path, FILE, tuning=tuning)
    assert pipelines.outputs(tmp_path) == whole
    table = pq.read_table(tmp_path / "out/rows.parquet")
    assert table.column_names == ["id", "v", "more"]
    assert [*zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)] == ROWS
    run(tmp_path, "path: out/again.parquet", read="type: parquet, path: out/rows.parquet")
    assert (tmp_path / "out/again.parquet").read_bytes() == whole["rows.parquet"]


def test_a_folder_of_parts_is_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "2000")
    run(tmp_path, "path: out/rows, parts: true, exclude: [more]")
    found = pipelines.outputs(tmp_path)
    assert [*found] == [f"rows/part-{number:05}.parquet" for number in range(len(found))]
    assert len(found) > 2
    assert duckdb.sql(f"select * from '{tmp_path}/out/rows/*.parquet' order by id").fetchall() == ROWS


@pytest.mark.parametrize("driver_bytes", [0, 1 << 20])
@pytest.mark.parametrize("split", ["1000000", "700"])
def test_outputs_are_sorted_and_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_bytes: int, split: str
) -> None:
    tuning = Tuning(driver_output_bytes=driver_bytes)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", split)

    def written(more: str) -> list[list[tuple[int, str]]]:
        assert run(tmp_path, f"{FILE}, if_exists: overwrite, {more}", tuning=tuning).exit_code == 0
        tables = [pq.read_table(path) for path in sorted((tmp_path / "out").iterdir())]
        for path in (tmp_path / "out").iterdir():
            path.unlink()
        assert all(table.column_names == ["id", "v", "more"] for table in tables)
        return [[*zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)] for table in tables]

    by_text = sorted(ROWS, key=lambda row: row[1], reverse=True)
    assert written("sort_order: [{ field: id, order: desc }]") == [ROWS[::-1]]
    assert written("sort_order: [{ field: v, order: desc }], split: { max_records: 200 }") == [
        by_text[:200],
        by_text[200:400],
        by_text[400:],
    ]
    assert written("split: { max_records: 1000 }") == [ROWS]
    cut = written("split: { max_bytes: 5000 }")
    assert [row for each in cut for row in each] == ROWS
    assert len(cut) > 3
    assert run(tmp_path, f"{FILE}, split: {{ max_records: 5 }}", "id,v,more\n").exit_code == 0
    assert pq.read_table(tmp_path / "out/rows_0001.parquet").num_rows == 0


@pytest.mark.parametrize("write", [FILE, "path: out/rows.parquet, parts: true"])
def test_no_record_is_a_file_with_columns(tmp_path: Path, write: str) -> None:
    run(tmp_path, write, "id,v\n")
    assert pq.read_table(tmp_path / "out/rows.parquet").column_names == ["id", "v"]


def test_a_preview_shows_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from spark_jobs.cli import clinker

    pipelines.write(
        tmp_path, {"in.csv": CSV, "pipeline.yaml": PIPELINE.format(write=FILE, read="type: csv, path: in.csv")}
    )
    clinker.main(["run", str(tmp_path / "pipeline.yaml"), "--dry-run", "-n", "2"])
    assert '{"id": 1, "v": "text 1", "more": "1"}' in capsys.readouterr().out
    assert pipelines.outputs(tmp_path) == {}

"""Outputs that are folders of parts: published at once, read by others as one table, replaced as a whole."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import plan
from tests.execute import pipelines, without_spark
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

duckdb = LazyModule("duckdb")

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config: {{ name: rows, type: csv, glob: in/*.csv, schema: {{ id: int, v: string }} }}
  - {{ type: output, name: o, input: rows, config: {{ name: o, parts: true, {write} }} }}
"""
ROWS = [(number, f"text {number}") for number in range(500)]
CSV = "id,v\n" + "".join(f"{number},{text}\n" for number, text in ROWS)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "2000")


def run(folder: Path, write: str, data: str = CSV, **options: Any) -> Any:
    pipelines.write(folder, {"in/a.csv": data, "pipeline.yaml": PIPELINE.format(write=write)})
    return pipelines.run(folder, **options).result


def test_a_folder_of_parts_is_one_table(tmp_path: Path) -> None:
    result = run(tmp_path, "type: csv, path: out/rows")
    found = pipelines.outputs(tmp_path)
    assert [*found] == [f"rows/part-{number:05}.csv" for number in range(len(found))]
    assert len(found) > 2
    assert sorted(result.output_files) == sorted(str(tmp_path / "out" / name) for name in found)
    assert duckdb.sql(f"select * from '{tmp_path}/out/rows/*.csv' order by id").fetchall() == ROWS


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ("type: json, path: out/rows", json.loads),
        ("type: json, options: { format: ndjson }, path: out/rows.gz", lambda data: data.decode().splitlines()),
    ],
)
def test_each_part_is_whole(tmp_path: Path, write: str, read: Any) -> None:
    run(tmp_path, write)
    found = pipelines.outputs(tmp_path)
    assert len(found) > 2
    records = [gzip.decompress(data) if name.endswith(".json.gz") else data for name, data in found.items()]
    assert sum(len(read(data)) for data in records) == 500


def test_sorted_parts_follow_one_another(tmp_path: Path) -> None:
    run(tmp_path, "type: csv, path: out/rows, sort_order: [{ field: id, order: desc }]")
    found = b"".join(data.split(b"\n", 1)[1] for data in pipelines.outputs(tmp_path).values())
    assert found.decode() == "".join(f"{number},{text}\n" for number, text in reversed(ROWS))


def test_no_record_is_a_part_that_says_so(tmp_path: Path) -> None:
    run(tmp_path, "type: csv, path: out/rows", "id,v\n")
    assert pipelines.outputs(tmp_path) == {"rows/part-00000.csv": b"id,v\n"}


def test_parts_of_an_earlier_run_go(tmp_path: Path) -> None:
    run(tmp_path, "type: csv, path: out/rows")
    before = pipelines.outputs(tmp_path)
    refused = run(tmp_path, "type: csv, path: out/rows", "id,v\n1,a\n")
    assert (refused.exit_code, refused.error.code) == (4, "E902")
    assert f"out/rows/part-00002.csv and {len(before) - 3} more exists already" in refused.error.message
    assert pipelines.outputs(tmp_path) == before
    run(tmp_path, "type: csv, path: out/rows, if_exists: overwrite", "id,v\n1,a\n")
    assert pipelines.outputs(tmp_path) == {"rows/part-00000.csv": b"id,v\n1,a\n"}
    run(tmp_path, "type: csv, path: out/rows, if_exists: unique_suffix", "id,v\n2,b\n")
    assert pipelines.outputs(tmp_path)["rows-1/part-00000.csv"] == b"id,v\n2,b\n"


def test_a_failed_run_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    run(tmp_path, "type: csv, path: out/rows", "id,v\n1,a\n")
    assert run(tmp_path, "type: csv, path: out/rows", "id,v\nx,a\n", force=True).exit_code == 3
    assert pipelines.outputs(tmp_path) == {"rows/part-00000.csv": b"id,v\n1,a\n"}
    assert run(tmp_path, "type: csv, path: out/new", "id,v\nx,a\n").exit_code == 3
    assert not (tmp_path / "out/new").exists()


@pytest.mark.parametrize(
    ("name", "says"), [("out/rows/notes.csv", "notes.csv, which is not a part"), ("out/rows", "is a file")]
)
def test_what_is_no_part_is_never_replaced(tmp_path: Path, name: str, says: str) -> None:
    pipelines.write(tmp_path, {name: "id,v\n7,x\n"})
    refused = run(tmp_path, "type: csv, path: out/rows", force=True)
    assert (refused.exit_code, refused.error.code) == (4, "E902")
    assert says in refused.error.message
    assert (tmp_path / name).read_text() == "id,v\n7,x\n"


def test_a_link_that_leads_nowhere_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/rows").symlink_to("gone")
    refused = run(tmp_path, "type: csv, path: out/rows", force=True)
    assert (refused.exit_code, refused.error.code) == (4, "E902")
    assert "out/rows is not a regular file: a folder of parts cannot be written there" in refused.error.message


@pytest.mark.parametrize(
    ("path", "name"),
    [("out/rows/", "rows/part-00000.csv"), ("out/rows.gz//", "rows.gz/part-00000.csv.gz"), ("out/.", "part-00000.csv")],
)
def test_a_path_may_end_as_that_of_a_folder(path: str, name: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"type: csv, path: {path}", "id,v\n1,a\n")
    assert result.error is None
    assert [*pipelines.outputs(tmp_path)] == [name]
    assert result.output_files == (str(tmp_path / "out" / name),)


def test_two_spellings_of_a_folder_are_one(tmp_path: Path) -> None:
    more = "  - { type: output, name: p, input: rows, config: { type: csv, path: out/rows"
    pipelines.write(
        tmp_path, {"in/a.csv": CSV, "p.yaml": PIPELINE.format(write=f"type: csv, path: out/rows/ }} }}\n{more}")}
    )
    assert "E322" in [problem.code.id for problem in plan.validate(tmp_path / "p.yaml", base_dir=tmp_path)]


def test_marks_of_other_tools_stay(tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"out/rows/_SUCCESS": "", "out/rows/.hidden": "x"})
    run(tmp_path, "type: csv, path: out/rows", "id,v\n1,a\n")
    assert [*pipelines.outputs(tmp_path)] == ["rows/.hidden", "rows/_SUCCESS", "rows/part-00000.csv"]


def test_a_folder_for_each_input_file(tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"in/b.csv": "id,v\n1,b\n"})
    run(tmp_path, "type: csv, path: 'out/{source_file}', write_meta: true", "id,v\n1,a\n")
    found = pipelines.outputs(tmp_path)
    assert sorted(found) == ["a.meta.json", "a/part-00000.csv", "b.meta.json", "b/part-00000.csv"]
    assert found["b/part-00000.csv"] == b"id,v\n1,b\n"


@pytest.mark.parametrize("write", ["type: csv, split: { max_records: 2 }", "type: x12"])
def test_what_excludes_parts(tmp_path: Path, write: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.format(write=f"path: out/rows, {write}"))
    assert "E007" in [problem.code.id for problem in plan.validate(tmp_path / "p.yaml", base_dir=tmp_path)]


def test_nothing_else_is_written_among_the_parts(tmp_path: Path) -> None:
    """Known when the run has the names of its files."""
    pipelines.write(tmp_path, {"in/parts.csv": "id,v\n1,b\n"})
    more = "  - { type: output, name: p, input: rows, config: { type: csv, path: '{source_file}/x.csv'"
    result = run(tmp_path, f"type: csv, path: parts }} }}\n{more}", "id,v\n1,a\n")
    assert result.exit_code == 1
    assert result.error.code == "E322"
    assert "into the folder of parts of output 'o'" in result.error.message

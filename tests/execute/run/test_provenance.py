"""`include_provenance`: every record has its source, file and row as metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p, include_provenance: true}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: a, config: {type: csv, glob: "in/*.csv", schema: {id: int}}}
  - {type: source, name: b, config: {type: json, path: b.json, schema: {id: int}, options: {format: ndjson}}}
  - {type: merge, name: m, inputs: [b, a]}
  - {type: transform, name: t, input: m, config: {cxl: "PROGRAM"}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv, include_metadata: METADATA}}
"""


@pytest.fixture(params=[10**9, 12], ids=["one split", "many splits"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, request.param)
    files = {"in/x.csv": "id\n1\nbad\n2\n3\n", "in/y.csv": "id\n4\n5\n", "b.json": '{"id": 7}\n{"id": 8}\n'}
    pipelines.write(tmp_path, files)
    return tmp_path


def _written(folder: Path, program: str, metadata: str) -> list[str]:
    text = PIPELINE.replace("PROGRAM", program).replace("METADATA", metadata)
    pipelines.write(folder, {"pipeline.yaml": text})
    assert pipelines.run(folder).result.exit_code == 2
    return pipelines.outputs(folder)["o.csv"].decode().splitlines()


def test_outputs_write_it_with_their_metadata(folder: Path) -> None:
    assert _written(folder, "filter id != 2\\ndistinct by id", "all") == [
        "id,meta.source_name,meta.source_file,meta.source_row",
        "7,b,b.json,1",
        "8,b,b.json,2",
        "1,a,in/x.csv,1",
        "3,a,in/x.csv,4",
        "4,a,in/y.csv,1",
        "5,a,in/y.csv,2",
    ]


def test_programs_read_and_replace_it(folder: Path) -> None:
    program = 'filter $meta.source_row > 1\\nemit name = $meta.source_name\\nemit meta source_file = \\"mine\\"'
    assert _written(folder, program, "[source_file]") == [
        "id,name,meta.source_file",
        "8,b,mine",
        "2,a,mine",
        "3,a,mine",
        "5,a,mine",
    ]


@pytest.mark.parametrize(
    ("metadata", "program", "carried"),
    [
        ("none", "filter true", set()),
        ("[source_name]", "filter true", {"source_name"}),
        ("none", "emit row = $meta.source_row", {"source_row"}),
    ],
)
def test_records_carry_what_somebody_asks_for(metadata: str, program: str, carried: set[str], tmp_path: Path) -> None:
    text = PIPELINE.replace("PROGRAM", program).replace("METADATA", metadata)
    pipelines.write(tmp_path, {"pipeline.yaml": text})
    loaded = planning.load(tmp_path / "pipeline.yaml")
    assert {frozenset(carried)} == {loaded.by_name[name].step.provenance for name in ("a", "b")}  # type: ignore[union-attr]


def test_without_it_no_record_has_it(tmp_path: Path) -> None:
    text = PIPELINE.replace("PROGRAM", "filter true").replace("METADATA", "all").replace(": true}", ": false}")
    pipelines.write(tmp_path, {"pipeline.yaml": text})
    loaded = planning.load(tmp_path / "pipeline.yaml")
    assert not [column.name for column in loaded.by_name["a"].outputs[""] if column.name.startswith("$meta.")]

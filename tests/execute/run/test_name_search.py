"""Undeclared columns of JSON sources: found by tasks as in one process, and only where somebody wants them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.spark import spread
from spark_jobs.formats import names
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = "{type: output, name: o, input: %s, config: {name: o, type: csv, path: out/o.csv%s}}"
SUMS = "{type: aggregate, name: sums, input: s, config: {name: sums, group_by: [id], cxl: 'emit n = count(*)'}}"


def pipeline(*nodes: str, on_unmapped: str = "auto_widen", path: str = "in/*.ndjson") -> str:
    source = f"{{name: s, type: json, glob: '{path}', on_unmapped: {on_unmapped}, schema: {{id: int}}}}"
    nodes = (f"{{type: source, name: s, config: {source}}}", *nodes)
    return "pipeline: {name: p}\nnodes:\n" + "".join(f"  - {node}\n" for node in nodes)


def lines(first: int, count: int, **more: object) -> str:
    return "".join(json.dumps({"id": i, f"c{i // 50}": "x", **more}) + "\n" for i in range(first, first + count))


def test_tasks_find_what_one_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    files = {"in/a.ndjson": lines(100, 200), "in/b.ndjson": lines(0, 200, z={"k": 1}), "in/c.ndjson": ""}
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline(OUTPUT % ("s", "")), **files})
    assert pipelines.run(tmp_path).result.error is None
    here = pipelines.outputs(tmp_path)
    packs = []
    real = spread._answers
    monkeypatch.setattr(spread, "_answers", lambda *given: packs.append(given[-1]) or real(*given))
    tuning = Tuning(driver_name_bytes=0, name_pack_bytes=1)
    assert pipelines.run(tmp_path, force=True, tuning=tuning).result.error is None
    assert packs == [2]
    assert pipelines.outputs(tmp_path) == here
    assert here["o.csv"].splitlines()[0] == b"id,c2,c3,c4,c5,c0,z.k,c1"


def test_what_a_task_cannot_read_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    broken = pipeline(OUTPUT % ("s", ""), path="in/*.json")
    pipelines.write(tmp_path, {"pipeline.yaml": broken, "in/a.json": '[{"id":1},{"id":'})
    error = pipelines.run(tmp_path, tuning=Tuning(driver_name_bytes=0)).result.error
    assert error is not None
    assert error.code == "E900"
    assert "in/a.json: broken JSON" in error.message


@pytest.mark.parametrize(
    ("nodes", "on_unmapped", "is_searched"),
    [
        ((OUTPUT % ("s", ""),), "auto_widen", True),
        ((OUTPUT % ("s", ""),), "drop", False),
        ((OUTPUT % ("s", ", include_unmapped: false"),), "auto_widen", False),
        ((OUTPUT % ("s", ", include_unmapped: false, sort_order: [c0]"),), "auto_widen", True),
        ((SUMS, OUTPUT % ("sums", "")), "auto_widen", False),
        ((SUMS.replace("[id]", "[c0]"), OUTPUT % ("sums", "")), "auto_widen", True),
        ((SUMS, OUTPUT % ("sums", "")), "reject", True),
    ],
)
def test_names_are_looked_for_where_somebody_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: tuple[str, ...], on_unmapped: str, is_searched: bool
) -> None:
    without_spark.install(monkeypatch)
    searched = []
    real = names.search_here
    monkeypatch.setattr(
        names, "search_here", lambda reader, parts, *most: searched.append(parts) or real(reader, parts, *most)
    )
    written = pipeline(*nodes, on_unmapped=on_unmapped)
    pipelines.write(tmp_path, {"pipeline.yaml": written, "in/a.ndjson": '{"id":1,"c0":"x"}\n'})
    error = pipelines.run(tmp_path).result.error
    assert (error.code if error else None) == ("E217" if on_unmapped == "reject" else None)
    assert bool(searched) is is_searched


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run here."""
    without_spark.install(monkeypatch)


#: The first two records of each file stand for all of them.
SAMPLED = Tuning(driver_name_bytes=0, name_sample_bytes=0, name_sample_records=2)


LATE = {"in/a.ndjson": lines(0, 60), "in/b.ndjson": lines(100, 30), "in/c.ndjson": lines(0, 3, late={"k": None})}
EARLY = {"in/a.ndjson": lines(0, 40), "in/b.ndjson": lines(0, 50, new=1), "in/c.ndjson": lines(0, 9)}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("files", "is_searched"), [(LATE, True), (EARLY, False)])
@pytest.mark.parametrize("split_bytes", ["200", "100000000"])
def test_columns_that_come_late_are_found_and_all_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, split_bytes: str,
    files: dict[str, str], *, is_searched: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", split_bytes)
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline(OUTPUT % ("s", "")), **files})
    caplog.set_level("INFO", logger="clinker.run")
    assert pipelines.run(tmp_path, tuning=SAMPLED, metrics_spool_dir=str(tmp_path / "sampled")).result.error is None
    assert ("s: records have undeclared columns that the first ones lack" in caplog.text) is is_searched
    found = pipelines.outputs(tmp_path)["o.csv"]
    assert found.splitlines()[0] == (b"id,c0,c1,c2,late.k" if is_searched else b"id,c0,new")
    again = pipelines.run(tmp_path, force=True, metrics_spool_dir=str(tmp_path / "whole"))
    assert again.result.error is None
    assert pipelines.outputs(tmp_path)["o.csv"] == found
    assert columns_of(tmp_path / "sampled") == columns_of(tmp_path / "whole")


def columns_of(spool: Path) -> object:
    """What metrics tell of the columns of the source."""
    (path,) = spool.glob("*.json")
    return json.loads(path.read_text())["scans"]["s"]


@pytest.mark.usefixtures("here")
def test_a_late_column_is_rejected_where_all_are(tmp_path: Path) -> None:
    written = pipeline(SUMS, OUTPUT % ("sums", ""), on_unmapped="reject")
    records = '{"id":1}\n' * 50
    pipelines.write(tmp_path, {"pipeline.yaml": written, "in/a.ndjson": records})
    assert pipelines.run(tmp_path, tuning=SAMPLED).result.error is None
    pipelines.write(tmp_path, {"in/a.ndjson": records + '{"id":1,"late":1}\n'})
    error = pipelines.run(tmp_path, tuning=SAMPLED, force=True).result.error
    assert error is not None
    assert error.code == "E217"
    assert "late" in error.message


@pytest.mark.usefixtures("here")
def test_what_no_file_has_is_told_once_when_all_were_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = pipeline(OUTPUT % ("s", ", exclude: [late.k, never]"))
    pipelines.write(tmp_path, {"pipeline.yaml": written, **LATE})
    assert pipelines.run(tmp_path, tuning=SAMPLED).result.error is None
    assert [line for line in caplog.text.splitlines() if "W212" in line and "'late.k'" in line] == []
    assert len([line for line in caplog.text.splitlines() if "W212" in line and "'never'" in line]) == 1


@pytest.mark.usefixtures("here")
def test_late_columns_and_rejected_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pipeline(OUTPUT % ("s", "")).replace("glob:", "correlation_key: key, glob:")
    source = source.replace("{id: int}", "{id: int, key: string}")
    source += "error_handling: {strategy: continue, dlq: {path: out/dead.csv}}\n"
    records = "".join(json.dumps({"id": n, "key": f"k{n % 7}"}) + "\n" for n in range(100))
    records += '{"id":"odd","key":"k3"}\n{"id":5,"key":"k4","late":1}\n'
    pipelines.write(tmp_path, {"pipeline.yaml": source, "in/a.ndjson": records})
    outcome = pipelines.run(tmp_path, tuning=SAMPLED)
    assert outcome.result.error is None
    found = pipelines.outputs(tmp_path)["o.csv"]
    assert found.splitlines()[0] == b"id,key,late"
    assert b"k3" not in found
    assert found.count(b"\n") == 1 + 100 - 14 + 1


@pytest.mark.usefixtures("here")
def test_sources_of_several_jobs_have_late_columns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="clinker.run")
    source = "{type: source, name: %s, config: {name: %s, type: json, glob: 'in/%s.ndjson', schema: {id: int}}}"
    joined = (
        "{type: combine, name: both, input: {a: a, b: b}, config: {where: a.id == b.id, match: first, drive: a, "
        "cxl: 'emit other = b.id'}}"
    )
    nodes = [source % ("a", "a", "a"), source % ("b", "b", "b"), joined, OUTPUT % ("both", ""), OUTPUT % ("b", "")]
    nodes[-1] = nodes[-1].replace("o.csv", "b.csv").replace("name: o", "name: p")
    written = "pipeline: {name: p}\nnodes:\n" + "".join(f"  - {node}\n" for node in nodes)
    records = "".join(f'{{"id":{n}}}\n' for n in range(100))
    late = {name: records + f'{{"id":100,"late_{name}":1}}\n' for name in "ab"}
    pipelines.write(tmp_path, {"pipeline.yaml": written, "in/a.ndjson": late["a"], "in/b.ndjson": late["b"]})
    assert pipelines.run(tmp_path, tuning=SAMPLED).result.error is None
    assert caplog.text.count("records have undeclared columns") == 2
    found = pipelines.outputs(tmp_path)
    assert [found[name].splitlines()[0] for name in ("b.csv", "o.csv")] == [b"id,late_b", b"other,late_a"]
    assert [len(found[name].splitlines()) for name in ("b.csv", "o.csv")] == [102, 102]


COUNTS = (
    '{type: transform, name: t, input: s, config: {cxl: "emit total = $pipeline.total_count\\nemit row = $source.row"}}'
)
#: Arrays of 40 and of 5 records, whose undeclared columns the first records tell, or the last one of a file alone.
ARRAYS = {
    f"in/{name}.json": json.dumps([{"id": n, "c": n} for n in range(count)]) for name, count in [("a", 40), ("b", 5)]
}
LATE_ARRAYS = {**ARRAYS, "in/a.json": ARRAYS["in/a.json"].replace("}]", ', "late": 1}]')}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("files", [ARRAYS, LATE_ARRAYS], ids=["known", "late"])
def test_records_are_numbered_over_arrays_whose_names_are_a_sample(tmp_path: Path, files: dict[str, str]) -> None:
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline(COUNTS, OUTPUT % ("t", ""), path="in/*.json"), **files})
    assert pipelines.run(tmp_path, tuning=replace(SAMPLED, json_portion_bytes=40)).result.error is None
    found = csv.DictReader(io.StringIO(pipelines.outputs(tmp_path)["o.csv"].decode()))
    numbers = [(int(record["total"]), int(record["row"])) for record in found]
    assert numbers == [(n, n) for n in range(1, 41)] + [(40 + n, n) for n in range(1, 6)]

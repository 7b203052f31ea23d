"""The physical plan as explain shows it: what runs together, and where records change place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs import plan
from spark_jobs.diagnostics import codes
from spark_jobs.plan.explain import explain
from spark_jobs.plan.physical import physical

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

PIPELINE = """
pipeline: {name: shown}
nodes:
  - type: source
    name: o
    config: {name: o, type: csv, path: o.csv, schema: [{name: k, type: string}, {name: v, type: int}]}
  - {type: source, name: c, config: {name: c, type: csv, path: c.csv, schema: [{name: k, type: string}]}}
  - {type: transform, name: once, input: o, config: {cxl: "distinct by k\\nemit w = v + 1"}}
  - {type: aggregate, name: sums, input: once, config: {group_by: [k], cxl: "emit total = sum(w)"}}
  - {type: combine, name: named, input: {s: sums, c: c}, config: {where: s.k == c.k, cxl: "emit k = s.k"}}
  - {type: output, name: out, input: named, config: {name: out, type: csv, path: out/o.csv}}
"""


def load(folder: Path, text: str = PIPELINE) -> Plan:
    path = folder / "pipeline.yaml"
    path.write_text(text)
    return plan.load(path)


def test_regions_and_exchanges_are_named(tmp_path: Path) -> None:
    shown = "\n".join(physical.lines(load(tmp_path)))
    assert shown == (
        "Job 0:\n"
        "  Fragment c (a task per split): c → named.c [build side, kept for the next job]\n"
        "Job 1:\n"
        "  Fragment o (a task per split): o → once → once (distinct) [partial]\n"
        "  Exchange groups of once (stage 1, shuffled by the distinct values): once (distinct) [merged]\n"
        "  Exchange order of once (stage 2, to the place of the first record): "
        "once (distinct) [in order] → once → sums [partial]\n"
        "  Exchange groups of sums (stage 3, shuffled by k): sums [merged]\n"
        "  Exchange order of sums (stage 4, to the place of the first record): sums [in order] → named → out"
    )


def test_text_and_json_have_the_jobs(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert "=== Jobs and Fragments ===" in explain.text(loaded)
    jobs = json.loads(explain.as_json(loaded))["jobs"]
    assert [job["number"] for job in jobs] == [0, 1]
    assert [exchange["kind"] for exchange in jobs[1]["exchanges"]] == ["hash", "range", "hash", "range"]


def test_a_plan_that_does_not_run_yet_has_no_jobs(tmp_path: Path) -> None:
    shown = load(tmp_path)
    *others, last = shown.nodes
    waits = replace(last, pending=codes.E400.at(last.span, "it does not run yet"))
    assert physical.jobs(replace(shown, nodes=(*others, waits))) == ()


def test_a_large_file_that_one_task_reads_is_a_job_of_its_own(tmp_path: Path) -> None:
    reads = {
        "type: xml, options: {record_path: /a/b}": True,
        "type: json, options: {format: array}": True,
        "type: edifact": True,
        "type: csv": False,
        "type: json, options: {format: ndjson}": False,
    }
    for written, is_laid in reads.items():
        text = PIPELINE.replace("type: csv, path: o.csv", f"{written}, path: o.csv")
        for size, expected in ((2 << 26, is_laid), ((2 << 26) - 1, False)):
            with (tmp_path / "o.csv").open("wb") as file:
                file.truncate(size)
            loaded = load(tmp_path, text)
            shown = explain.text(loaded)
            kept = "  Fragment o (a task per split): o → o [kept for later jobs]\n"
            assert (kept in shown) is expected
            assert ("  Fragment o (a task per range): o [kept by an earlier job] → once → " in shown) is expected
            roots = [
                fragment["root"] for job in json.loads(explain.as_json(loaded))["jobs"] for fragment in job["fragments"]
            ]
            assert roots.count("o") == (2 if expected else 1)


STATEFUL = """
pipeline: {name: shown, vars: {pipeline: {grand: {type: int}}}}
nodes:
  - {type: source, name: o, config: {type: csv, path: o.csv, schema: {k: string, v: int}}}
  - {type: transform, name: up, input: o, config: {cxl: "emit w = v + 1"}}
  - {type: state, name: total, input: up, config: {scope: pipeline, phase: init, set: [{var: grand, cxl: sum(this.w)}]}}
  - {type: transform, name: share, input: up, config: {cxl: "emit part = w * 100 / $pipeline.grand"}}
  - {type: aggregate, name: sums, input: up, config: {group_by: [k], cxl: "emit n = max(w) / $pipeline.grand"}}
  - {type: output, name: out, input: share, config: {type: csv, path: out/o.csv}}
  - {type: output, name: all, input: sums, config: {type: csv, path: out/s.csv}}
"""


def test_edges_into_a_later_job_are_no_pipelines(tmp_path: Path) -> None:
    """What waits for a variable goes on with records that are kept until all of them are read."""
    loaded = load(tmp_path, STATEFUL)
    shown = explain.text(loaded)
    assert "up → total → up [kept for later jobs]\n" in shown
    assert "up [kept by an earlier job] → " in shown
    stays = "streaming (pipelined); records stay in the task that read them"
    later = "materialized (written down, read in ranges); a job keeps them, and a later one goes on with them"
    for edge, passage in (
        ("source.o -> transform.up", stays),
        ("transform.up -> state.total", stays),
        ("transform.up -> transform.share", later),
    ):
        assert f"edge {edge}:\n  buffer: {passage}\n" in shown, edge
    assert "edge transform.up -> aggregation.sums:\n  buffer: materialized (shuffled by key)" in shown
    assert "transform.up:\n  buffer: materialized\n" in shown
    passages = {(each["from"], each["to"]): each["passage"] for each in json.loads(explain.as_json(loaded))["edges"]}
    assert passages["up", "total"] == "pipelined"
    assert passages["up", "share"] == "written"


def test_edges_out_of_a_large_file_that_one_task_reads_are_no_pipelines(tmp_path: Path) -> None:
    text = PIPELINE.replace("type: csv, path: o.csv", "type: json, options: {format: array}, path: o.csv")
    text = text.replace("distinct by k\\n", "")
    for size, expected in ((2 << 26, "written"), ((2 << 26) - 1, "pipelined")):
        with (tmp_path / "o.csv").open("wb") as file:
            file.truncate(size)
        edges = json.loads(explain.as_json(load(tmp_path, text)))["edges"]
        assert [each["passage"] for each in edges if each["from"] == "o"] == [expected]

"""The page of a task, and the end of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import on_call, validation
from clinker_provider.plugins import page
from spark_jobs import result

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: {id: int}}}
  - {type: transform, name: t, input: rows, config: {cxl: 'emit twice = id * 2'}}
  - {type: output, name: o, input: t, config: {type: csv, path: out.csv}}
"""
NODES = {
    "rows": {"kind": "source", "records_in": 5, "records_out": 5, "filtered": 0, "deduplicated": 0, "dead": 0},
    "t": {"kind": "transform", "records_in": 5, "records_out": 4, "filtered": 0, "deduplicated": 0, "dead": 1},
}
REASON = {
    "stage": "transform:t", "field": "id", "category": "conversion", "count": 1,
    "example": {"file": "in.csv", "row": 3, "value": "<script>alert(1)</script>", "detail": "is no integer"},
}  # fmt: skip


def run(name: str = "now", **more: Any) -> page.Run:
    xcoms = {
        "status": "partial_success", "exit_code": 2, "dlq_count": 1, "dlq_reasons": [REASON],
        "dlq_paths": ["/out/a b.csv"], "return_value": {"records": {"total": 5, "written": 4}},
        "on_call": {"nodes": NODES, "digests": {"": "1", "t": "2"}, "picture": "<svg onload='x()'/>"},
    }  # fmt: skip
    return page.Run(name, "success", "2026-01-02 03:04:05", 7.25, {**xcoms, **more})


def test_a_page_shows_nodes_dead_letters_and_earlier_runs() -> None:
    text = page.page("etl", "orders", run(), [run("before"), run("first")])
    assert '<td>t</td><td>transform</td><td class="number">5</td><td class="number">4</td>' in text
    assert "<td>in.csv, row 3</td>" in text
    assert "clinker dlq show &#x27;/out/a b.csv&#x27;" in text
    assert [text.index(f"<td>{name}</td>") for name in ("now", "before", "first")] == sorted(
        text.index(f"<td>{name}</td>") for name in ("now", "before", "first")
    )
    assert "the same as in before" in text


def test_a_page_says_why_a_run_failed() -> None:
    failed = run(status="failed", exit_code=4, reason="a file could not be read:\np.yaml:3:7 E216 no file")
    text = page.page("etl", "orders", failed, [])
    assert "<pre>a file could not be read:\np.yaml:3:7 E216 no file</pre>" in text
    assert text.index("exit code 4") < text.index("<pre>") < text.index("<h2>")
    assert "<pre>" not in page.page("etl", "orders", run(reason=None), [])


def test_nothing_of_the_data_is_markup() -> None:
    text = page.page("<b>", "<i>", run(status="<u>", pipeline_path="<a>", reason="<em>"), [])
    for sign in ("<b>", "<i>", "<u>", "<a>", "<em>", "<script", "<svg"):
        assert sign not in text.replace('<b class="', "")


def test_a_page_says_what_changed_in_the_pipeline() -> None:
    before = run("before", on_call={"digests": {"": "0", "t": "1", "old": "1"}})
    text = page.page("etl", "orders", run(on_call={"digests": {"": "1", "t": "2", "new": "3"}}), [before])
    for sentence in ("node new is new", "node old is gone", "node t changed", "what is no node changed"):
        assert sentence in text


def test_a_page_says_that_it_has_not_all_reasons_and_not_all_runs() -> None:
    kept = {"nodes": NODES, "more_reasons": {"reasons": 1, "count": 1200}}
    text = page.page("etl", "orders", run(on_call=kept), [run("before")])
    assert "1 more reason, with 1,200 records." in text
    assert "This one and up to 20 before it." in text
    assert "more reason" not in page.page("etl", "orders", run(), [])


def test_a_run_that_has_told_nothing_has_a_page() -> None:
    text = page.page("etl", "orders", page.Run("now", "running"), [])
    assert "(running) has told nothing yet" in text


def test_a_run_that_ended_without_a_word_is_told_apart_from_one_that_goes_on() -> None:
    assert "it is no Clinker task" in page.page("etl", "bash", page.Run("now", "success"), [])
    assert "it is no Clinker task" not in page.page("etl", "bash", page.Run("now", None), [])


@pytest.mark.parametrize("value", ["s3://bucket/a", 7, ["x"], {"a": 1}, True, None, "\ud800"])
def test_a_task_that_pushes_other_things_under_the_same_names_has_a_page(value: object) -> None:
    keys = ("status", "exit_code", "dlq_count", "dlq_paths", "dlq_reasons", "pipeline_path", "return_value", "on_call")
    odd = page.Run("r", "success", xcoms=dict.fromkeys(keys, value))
    deeper = run(
        on_call=dict.fromkeys(("nodes", "digests", "picture"), value),
        return_value={"records": value},
        dlq_reasons=[value, {"example": value}],
        dlq_paths=[value],
    )
    deepest = run(on_call={"nodes": {"n": value}, "digests": {"n": value}}, return_value={"records": {"total": value}})
    for each in (odd, deeper, deepest):
        page.page("etl", "t", each, [odd, deeper, deepest]).encode("utf-8")


def test_the_end_of_the_log_has_nodes_reasons_and_the_next_command() -> None:
    record = result.RunResult(
        "e", 2, nodes=NODES, dlq_count=1, dlq_paths=("/out/d.csv",), dlq_reasons=(REASON,)
    )  # fmt: skip
    lines = on_call.log_lines(record)
    assert lines[0].split() == ["node", "read", "written", "filtered", "duplicates", "dead"]
    assert lines[2].split() == ["t", "5", "4", "0", "0", "1"]
    assert "in.csv, row 3: is no integer" in "\n".join(lines)
    assert lines[-1] == "  more: clinker dlq show /out/d.csv"
    assert on_call.log_lines(result.RunResult("e", 0)) == []
    assert on_call.more(["s3://bucket/dead.csv"]) is None


def test_the_plan_is_kept_with_a_digest_of_each_node(tmp_path: Path) -> None:
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(PIPELINE)
    before = on_call.of_plan(validation.Subject(pipeline))
    assert before["picture"].count('<g class="node') == 3
    pipeline.write_text(PIPELINE.replace("id * 2", "id * 3").replace("  - {type: output", "\n  - {type: output"))
    assert on_call.changes(before["digests"], on_call.digests(pipeline)) == ["node t changed"]


def test_keys_of_any_kind_have_a_digest(tmp_path: Path) -> None:
    pipeline = tmp_path / "p.yaml"
    text = "pipeline: {name: p}\nnodes: [{name: a, config: {on: 1, x: 2, 3: 4, 2026-01-01: 5, null: 6}}]\n"
    pipeline.write_text(text)
    before = on_call.digests(pipeline)
    assert sorted(before) == ["", "a"]
    pipeline.write_text(text.replace("on: 1, x: 2", "x: 2, on: 1"))
    assert on_call.digests(pipeline) == before, "the order of keys means nothing"
    pipeline.write_text(text.replace("x: 2", "x: '2'"))
    assert on_call.changes(before, on_call.digests(pipeline)) == ["node a changed"]
    pipeline.write_text(text.replace("{name: p}", "{name: q}"))
    assert len(on_call.changes(before, on_call.digests(pipeline))) == 1


@pytest.mark.airflow
def test_a_task_keeps_it_without_secrets(
    spark: Any, context: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spark.pipeline.write_text(PIPELINE.replace("name: t,", "name: LEAK-node,").replace("input: t", "input: LEAK-node"))
    leaking = {**REASON, "example": {**REASON["example"], "value": "LEAK-node"}}
    nodes = {"LEAK-node": NODES["t"]}
    more = {"dlq_reasons_more": 3, "dlq_reasons_more_count": 40}
    job = {"exit": 2, "record": {"dlq_count": 41, "dlq_reasons": [leaking], **more, "nodes": nodes}}
    operator = spark.operator(job, validate="execute", env_vars={"API_TOKEN": "LEAK-node"})
    operator.execute(context)
    kept = context["ti"].pushed["on_call"]
    assert set(kept) == {"picture", "digests", "nodes", "more_reasons"}
    shown = page.page("d", "run", page.Run("r", "success", xcoms=context["ti"].pushed), [])
    assert "3 more reasons, with 40 records." in shown
    assert "LEAK" not in str(context["ti"].pushed)
    assert "LEAK" not in caplog.text
    assert "***" in kept["picture"]

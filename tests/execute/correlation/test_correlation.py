"""Correlation groups: what leaves the outputs when a record fails, whatever the splits, partitions and memory."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import plan
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Forty orders of three lines each, which stand apart.
LINES = [(f"o{i % 40}", i, "bad" if i in (17, 85) else str(i)) for i in range(120)]
ORDERS = "ord,line,v\n" + "".join(f"{ord_},{line},{v}\n" for ord_, line, v in LINES)
#: The orders of the two bad lines.
DIRTY = {"o17", "o5"}

HEAD = """
    pipeline: {name: p}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    nodes:
      - type: source
        name: s
        config: {type: csv, path: in.csv, correlation_key: ord, schema: {ord: string, line: int, v: string}}
"""
CHECKED = "      - {type: transform, name: t, input: s, config: {cxl: emit n = v.to_int()}}\n"


def output(name: str, node: str, more: str = "") -> str:
    return f"      - {{type: output, name: {name}, input: {node}, config: {{type: csv, path: out/{name}.csv{more}}}}}\n"


def rows(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode())))


def dead(found: Mapping[str, bytes]) -> list[tuple[str, ...]]:
    """Source, row, category, stage and key of the dead letters."""
    names = ("_cxl_dlq_source_name", "_cxl_dlq_source_row", "_cxl_dlq_error_category", "_cxl_dlq_stage", "$ck.ord")
    return [tuple(row[name] for name in names) for row in rows(found["dead.csv"])]


@pytest.fixture(params=[(1, 1), (7, 1), (9, 3)], ids=["whole", "split", "partitioned"])
def ran(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a pipeline in one split, in several, and with several partitions where records meet."""
    splits, _ = request.param
    without_spark.install(monkeypatch)

    def run(pipeline: str, data: str = ORDERS, exit_code: int = 2, **more: str) -> dict[str, bytes]:
        pipelines.write(
            tmp_path, {"pipeline.yaml": pipeline, "in.csv": data, **{f"{k}.csv": v for k, v in more.items()}}
        )
        if splits > 1:
            pipelines.with_splits(monkeypatch, tmp_path, "in.csv", splits)
        outcome = pipelines.run(tmp_path)
        assert (outcome.result.error, outcome.result.exit_code) == (None, exit_code)
        run.result = outcome.result  # type: ignore[attr-defined]
        return pipelines.outputs(tmp_path)

    return run


def test_a_group_leaves_as_one_and_the_others_stay_in_order(ran: Any) -> None:
    found = ran(HEAD + CHECKED + output("o", "t"))
    kept = [(ord_, line) for ord_, line, _ in LINES if ord_ not in DIRTY]
    assert [(row["ord"], int(row["line"])) for row in rows(found["o.csv"])] == kept
    assert dead(found) == [
        ("s", str(line + 1), "type_coercion_failure", "transform:t", ord_) if v == "bad"
        else ("s", str(line + 1), "correlated", "correlation_commit", ord_)
        for ord_, line, v in LINES
        if ord_ in DIRTY
    ]  # fmt: skip
    assert (ran.result.records_total, ran.result.records_written, ran.result.dlq_count) == (120, 114, 6)


def test_the_entry_of_a_good_record_says_what_failed_in_its_group(ran: Any) -> None:
    found = ran(HEAD + CHECKED + output("o", "t"))
    told = {row["_cxl_dlq_error_detail"] for row in rows(found["dead.csv"]) if row["$ck.ord"] == "o17"}
    failure = "field 'n': conversion failed: cannot convert 'bad' to Int"
    assert told == {
        f"row 18: {failure}",
        *[f"correlated with failure in group: row 18: {failure}"] * 2,
    }


def test_what_is_filtered_or_a_duplicate_is_no_collateral(ran: Any) -> None:
    program = '"filter line != 57\\ndistinct by ord"'
    once = f"      - {{type: transform, name: d, input: t, config: {{cxl: {program}}}}}\n"
    found = ran(HEAD + CHECKED + once + output("o", "d"))
    assert [row["ord"] for row in rows(found["o.csv"])] == [f"o{i}" for i in range(40) if f"o{i}" not in DIRTY]
    # Line 17 fails before, line 57 is filtered, line 97 is the first that is seen; line 5 is, line 45 is a duplicate.
    assert dead(found) == [
        ("s", "6", "correlated", "correlation_commit", "o5"),
        ("s", "18", "type_coercion_failure", "transform:t", "o17"),
        ("s", "86", "type_coercion_failure", "transform:t", "o5"),
        ("s", "98", "correlated", "correlation_commit", "o17"),
    ]


def test_a_dead_record_is_in_no_branch_and_no_aggregate(ran: Any) -> None:
    both = (
        "      - {type: route, name: r, input: s, config: {mode: inclusive, conditions: {a: line >= 0}, default: b}}\n"
    )
    counted = "      - {type: aggregate, name: c, input: s, config: {group_by: [ord], cxl: emit n = count(*)}}\n"
    found = ran(HEAD + CHECKED + both + counted + output("o", "t") + output("p", "r.a") + output("q", "c"))
    assert {row["ord"] for row in rows(found["p.csv"])}.isdisjoint(DIRTY)
    assert {(row["ord"], row["n"]) for row in rows(found["q.csv"])} == {(f"o{i}", "3") for i in range(40)} - {
        (name, "3") for name in DIRTY
    }
    # The row of an aggregate has the source and the place of its first record; each record is told once.
    assert dead(found) == [
        ("s", "6", "correlated", "correlation_commit", "o5"),
        ("<merged>", "6", "correlated", "correlation_commit", "o5"),
        ("s", "18", "type_coercion_failure", "transform:t", "o17"),
        ("s", "46", "correlated", "correlation_commit", "o5"),
        ("s", "58", "correlated", "correlation_commit", "o17"),
        ("<merged>", "58", "correlated", "correlation_commit", "o17"),
        ("s", "86", "type_coercion_failure", "transform:t", "o5"),
        ("s", "98", "correlated", "correlation_commit", "o17"),
    ]


def test_the_row_of_an_aggregate_that_fails_takes_its_group_along(ran: Any) -> None:
    summed = "      - {type: aggregate, name: c, input: s, config: {group_by: [ord], cxl: emit top = max(line)}}\n"
    checked = "      - {type: transform, name: k, input: c, config: {cxl: emit x = 1 / (top - 90)}}\n"
    found = ran(HEAD + summed + checked + output("o", "k") + output("p", "s"))
    assert "o10" not in {row["ord"] for row in rows(found["o.csv"])} | {row["ord"] for row in rows(found["p.csv"])}
    assert dead(found) == [
        ("<merged>", "11", "type_coercion_failure", "transform:k", "o10"),
        ("s", "11", "correlated", "correlation_commit", "o10"),
        ("s", "51", "correlated", "correlation_commit", "o10"),
        ("s", "91", "correlated", "correlation_commit", "o10"),
    ]


def test_the_row_of_an_aggregate_without_a_key_leaves_every_output_when_it_fails(ran: Any) -> None:
    """It is a group of its own, as a record without a key is."""
    summed = "      - {type: aggregate, name: c, input: s, config: {group_by: [ord, v], cxl: emit top = max(line)}}\n"
    checked = "      - {type: transform, name: k, input: c, config: {cxl: emit x = 1 / (top - 3)}}\n"
    data = "ord,line,v\na,1,p\n,2,p\n,3,p\n,4,q\nb,5,q\n"
    found = ran(HEAD + summed + checked + output("o", "k") + output("beside", "c") + output("p", "s"), data)
    for name in ("o.csv", "beside.csv"):
        assert [(row["ord"], row["v"], row["top"]) for row in rows(found[name])] == [
            ("a", "p", "1"), ("", "q", "4"), ("b", "q", "5"),
        ]  # fmt: skip
    assert [row["line"] for row in rows(found["p.csv"])] == ["1", "2", "3", "4", "5"]
    assert dead(found) == [("<merged>", "2", "type_coercion_failure", "transform:k", "")]


def test_a_combined_row_is_of_the_groups_of_both_sides_where_keys_are_propagated(ran: Any) -> None:
    priced = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: shop,
          schema: {shop: string, line: int, p: string}}}
      - {type: transform, name: u, input: w, config: {cxl: emit q = p.to_int()}}
      - type: combine
        name: c
        input: {a: t, b: u}
        config: {where: a.line == b.line, propagate_ck: MODE, on_miss: skip, cxl: "emit ord = a.ord\\nemit q = b.q"}
"""
    shops = "shop,line,p\n" + "".join(f"w{i % 10},{i},{'?' if i == 3 else i}\n" for i in range(120))
    found = ran(HEAD + CHECKED + priced.replace("MODE", "all") + output("o", "c"), w=shops)
    left = [ord_ for ord_, line, _ in LINES if ord_ not in DIRTY and line % 10 != 3]
    assert [row["ord"] for row in rows(found["o.csv"])] == left
    assert ran.result.dlq_count == len(dead(found))


def test_sources_of_a_merge_are_rejected_each_for_itself(ran: Any) -> None:
    merged = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: ord,
          schema: {ord: string, line: int, v: string}}}
      - {type: merge, name: m, inputs: [s, w], config: {mode: concat}}
      - {type: transform, name: t, input: m, config: {cxl: emit n = v.to_int()}}
"""
    found = ran(HEAD + merged + output("o", "t"), w="ord,line,v\no17,1,1\no3,2,x\no3,3,3\n")
    kept = [(ord_, str(line)) for ord_, line, _ in LINES if ord_ not in DIRTY] + [("o17", "1")]
    assert [(row["ord"], row["line"]) for row in rows(found["o.csv"])] == kept
    assert [entry[1:3] for entry in dead(found) if entry[0] == "w"] == [
        ("2", "type_coercion_failure"), ("3", "correlated")
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["shop", "[shop, ord]"])
def test_a_failure_behind_a_merge_that_cut_the_key_takes_the_records_own_group_along(ran: Any, key: str) -> None:
    """Record 2 of w fails where nothing is left of its key, or a part; record 3 is of its group all the same."""
    merged = f"""
      - {{type: source, name: w, config: {{type: csv, path: w.csv, correlation_key: {key},
          schema: {{ord: string, line: int, v: string, shop: string}}}}}}
      - {{type: transform, name: same, input: s, config: {{cxl: emit shop = ord}}}}
      - {{type: merge, name: m, inputs: [same, w], config: {{mode: concat}}}}
      - {{type: transform, name: t, input: m, config: {{cxl: emit n = v.to_int()}}}}
"""
    lines = "ord,line,v,shop\na,1,1,x\nb,2,?,y\nb,3,3,y\nb,4,4,z\n"
    found = ran(HEAD + merged + output("o", "t") + output("beside", "w"), w=lines)
    assert [row["line"] for row in rows(found["beside.csv"])] == ["1", "4"]
    # Behind the merge rows are of the groups by the fields that are left.
    left = {"shop": ["1", "3", "4"], "[shop, ord]": ["1"]}[key]
    kept = [row["line"] for row in rows(found["o.csv"])]
    assert kept[-len(left) :] == left
    assert len(kept) - len(left) == len(LINES) - (2 if key == "shop" else 6)
    assert ("w", "3", "correlated", "correlation_commit", "" if key == "shop" else "b") in dead(found)
    assert ran.result.dlq_count == len(dead(found))


def test_the_record_that_a_failed_result_names_has_no_other_entry(ran: Any) -> None:
    """So the dead letters can be the next input: each record is there once."""
    summed = "      - {type: aggregate, name: c, input: s, config: {group_by: [ord], cxl: PROGRAM}}\n"
    summed = summed.replace("PROGRAM", "emit x = 1 / (max(line) - 90)")
    found = ran(HEAD + summed + output("o", "c") + output("p", "s"))
    assert "o10" not in {row["ord"] for row in rows(found["o.csv"])} | {row["ord"] for row in rows(found["p.csv"])}
    assert dead(found) == [
        ("s", "11", "aggregate_finalize", "aggregate:c", "o10"),
        ("s", "51", "correlated", "correlation_commit", "o10"),
        ("s", "91", "correlated", "correlation_commit", "o10"),
    ]


def test_a_key_that_is_empty_or_does_not_convert_is_a_group_of_its_own(ran: Any) -> None:
    head = HEAD.replace("ord: string", "ord: int")
    found = ran(head + CHECKED + output("o", "t"), "ord,line,v\n1,1,x\n,2,x\n,3,3\nq,4,4\n1,5,5\nq,6,6\n2,7,7\n")
    assert [row["line"] for row in rows(found["o.csv"])] == ["3", "7"]
    assert dead(found) == [
        ("s", "1", "type_coercion_failure", "transform:t", "1"),
        ("s", "2", "type_coercion_failure", "transform:t", ""),
        ("s", "4", "type_coercion_failure", "transform:t", ""),
        ("s", "5", "correlated", "correlation_commit", "1"),
        ("s", "6", "type_coercion_failure", "transform:t", ""),
    ]


def test_under_best_effort_a_group_is_dropped_and_told_in_the_log(ran: Any, caplog: pytest.LogCaptureFixture) -> None:
    found = ran(HEAD.replace("continue", "best_effort") + CHECKED + output("o", "t"))
    assert set(found) == {"o.csv"}
    assert len(rows(found["o.csv"])) == 114
    told = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert len(told) == 6
    assert sum("correlated" in line for line in told) == 4


def test_a_thousand_bad_groups_are_told_exactly(ran: Any) -> None:
    data = "ord,line,v\n" + "".join(
        f"o{i % 3000},{i},{'x' if i % 3000 < 2900 and i < 3000 else i}\n" for i in range(6000)
    )
    found = ran(HEAD + CHECKED + output("o", "t"), data)
    assert len(rows(found["o.csv"])) == 200
    assert len(dead(found)) == ran.result.dlq_count == 5800


def test_a_clean_run_is_a_single_pass_and_writes_what_it_would_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    clean = ORDERS.replace("bad", "7")
    for name, pipeline in (("a", HEAD), ("b", HEAD.replace("correlation_key: ord, ", ""))):
        pipelines.write(tmp_path / name, {"pipeline.yaml": pipeline + CHECKED + output("o", "t"), "in.csv": clean})
        assert pipelines.run(tmp_path / name).result.exit_code == 0
    assert pipelines.outputs(tmp_path / "a") == pipelines.outputs(tmp_path / "b")
    assert plan.load(tmp_path / "a/pipeline.yaml").warnings == ()


def with_errors(more: str) -> str:
    return HEAD.replace("strategy: continue", f"strategy: continue, {more}")


def test_primary_rejects_a_group_whose_first_record_failed_be_it_filtered_or_not(ran: Any) -> None:
    data = "ord,line,v\na,1,x\nb,2,2\nc,3,-\na,4,4\nb,5,x\nc,6,x\nc,7,7\n"
    checked = "      - {type: transform, name: t, input: s, config: {cxl: \"filter v != '-'\\nemit n = v.to_int()\"}}\n"
    both = output("o", "t", ", correlation_fanout_policy: any") + output("p", "t")
    found = ran(with_errors("correlation_fanout_policy: primary") + checked + both, data)
    assert [row["line"] for row in rows(found["o.csv"])] == []
    # The first of c is filtered and has not failed, so c keeps its good line.
    assert [row["line"] for row in rows(found["p.csv"])] == ["2", "7"]
    assert [entry[1:3] for entry in dead(found)] == [
        ("1", "type_coercion_failure"), ("2", "correlated"), ("4", "correlated"), ("5", "type_coercion_failure"),
        ("6", "type_coercion_failure"), ("7", "correlated"),
    ]  # fmt: skip


def test_all_rejects_nothing_but_what_failed(ran: Any) -> None:
    found = ran(with_errors("correlation_fanout_policy: all") + CHECKED + output("o", "t"))
    assert len(rows(found["o.csv"])) == 118
    assert [entry[1] for entry in dead(found)] == ["18", "86"]


def test_a_group_with_more_records_than_may_be_leaves_with_its_failing_ones_counted(ran: Any) -> None:
    # Two of a fail and three come to the output twice; b has as many as may be; c fails alone.
    data = "ord,line,v\n" + "".join(f"{ord_},{i},{v}\n" for i, (ord_, v) in enumerate(
        [("a", "x"), ("b", "1"), ("a", "2"), ("c", "x"), ("a", "3"), ("b", "4"), ("a", "x"), ("b", "5"), ("a", "6"),
         ("b", "7")]
    ))  # fmt: skip
    found = ran(with_errors("max_group_buffer: 4") + CHECKED + output("o", "t") + output("p", "t"), data)
    assert [row["ord"] for row in rows(found["o.csv"])] == [row["ord"] for row in rows(found["p.csv"])] == ["b"] * 4
    assert [entry[1:3] for entry in dead(found)] == [
        ("1", "type_coercion_failure"), ("3", "group_size_exceeded"), ("4", "type_coercion_failure"),
        ("5", "correlated"), ("7", "type_coercion_failure"), ("9", "correlated"),
    ]  # fmt: skip
    told = next(row for row in rows(found["dead.csv"]) if row["_cxl_dlq_source_row"] == "5")
    why = "correlated with failure in group: group ord=a of 5 records is larger than max_group_buffer 4"
    assert told["_cxl_dlq_error_detail"] == why


@pytest.mark.parametrize(("limit", "kept"), [(1, 0), (2, 0), (3, 114), (0, 114)])
def test_no_group_is_too_large_where_the_limit_is_0(ran: Any, limit: int, kept: int) -> None:
    found = ran(with_errors(f"max_group_buffer: {limit}") + CHECKED + output("o", "t"))
    assert len(rows(found["o.csv"])) == kept
    assert {entry[2] for entry in dead(found) if "size" in entry[2]} == ({"group_size_exceeded"} if not kept else set())


@pytest.mark.parametrize("is_cut", [False, True])
def test_under_fail_fast_a_group_that_is_too_large_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool
) -> None:
    without_spark.install(monkeypatch)
    head = HEAD.replace("strategy: continue", "strategy: fail_fast, max_group_buffer: 2")
    pipelines.write(tmp_path, {"pipeline.yaml": head + output("o", "s"), "in.csv": ORDERS})
    if is_cut:
        pipelines.cut_by(monkeypatch, 40)
    result = pipelines.run(tmp_path).result
    assert (result.exit_code, result.error and result.error.code) == (3, "group_size_exceeded")
    assert result.error is not None
    # The first in the order of records, wherever in a file of numbers it stands.
    keys = [line.split(",")[0] for line in ORDERS.splitlines()[1:]]
    number, key = next((number, key) for number, key in enumerate(keys, 1) if keys.count(key) > 2)
    said = f"in.csv, row {number}: group ord={key} of {keys.count(key)} records is larger than max_group_buffer 2"
    assert result.error.message == f"{said} (strategy fail_fast)"
    assert not (tmp_path / "out/o.csv").exists()


def test_a_build_side_without_records_has_its_keys_nevertheless(ran: Any) -> None:
    joined = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: shop,
          schema: {shop: string, line: int}}}
      - type: combine
        name: c
        input: {a: s, b: w}
        config: {where: a.line == b.line, propagate_ck: all, on_miss: null_fields, cxl: emit ord = a.ord}
"""
    found = ran(HEAD + joined + output("o", "c", ", include_correlation_keys: true"), exit_code=0, w="shop,line\n")
    assert rows(found["o.csv"])[0] == {"ord": "o0", "$ck.ord": "o0", "$ck.shop": ""}


def test_a_run_warns_of_a_key_that_ends_in_a_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Order A is written by half, which nobody who gave the key expects."""
    from spark_jobs.cli import clinker

    text = """
        pipeline: {name: p}
        error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
        nodes:
          - {type: source, name: a, config: {type: csv, path: a.csv, correlation_key: o, schema: SCHEMA}}
          - {type: source, name: b, config: {type: csv, path: b.csv, schema: SCHEMA}}
          - {type: merge, name: m, inputs: [a, b]}
          - {type: transform, name: t, input: m, config: {cxl: emit q = n.to_int()}}
          - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
    """
    text = text.replace("SCHEMA", "{o: string, n: string}")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "a.csv": "o,n\nA,1\nA,bad\n", "b.csv": "o,n\nA,5\n"})
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert clinker.main(["validate", "pipeline.yaml"]) == 0
    assert "warning[W007]: merge 'm' ends the correlation key `o` of 'a'" in capsys.readouterr().err
    assert clinker.main(["run", "pipeline.yaml"]) == 2
    assert "warning[W007]" in capsys.readouterr().err
    assert (tmp_path / "out/o.csv").read_text() == "o,n,q\nA,1,1\nA,5,5\n"

"""Retraction: a row that fails behind an aggregate takes its records along, from everywhere, to a fixed point."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.execute import pipelines, without_spark
from tests.execute.correlation.test_correlation import output, rows

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
    pipeline: {name: p}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    nodes:
      - type: source
        name: s
        config: {type: csv, path: in.csv, correlation_key: k, schema: {k: string, a: string, b: string, v: int}}
"""


def summed(name: str, node: str, keys: str, what: str = "sum(v)") -> str:
    config = f"{{group_by: [{keys}], cxl: emit t = {what}}}"
    return f"      - {{type: aggregate, name: {name}, input: {node}, config: {config}}}\n"


def refusing(name: str, node: str, below: int) -> str:
    """Fails for totals that are positive and below a bound."""
    program = f'"emit ok = if t > 0 and t < {below} then \\"x\\".to_int() else 1"'
    return f"      - {{type: transform, name: {name}, input: {node}, config: {{cxl: {program}}}}}\n"


@pytest.fixture(params=[1, 8], ids=["whole", "split"])
def ran(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    without_spark.install(monkeypatch)

    def run(pipeline: str, data: str, exit_code: int = 2) -> dict[str, bytes]:
        pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.csv": data})
        if request.param > 1:
            pipelines.with_splits(monkeypatch, tmp_path, "in.csv", request.param)
        outcome = pipelines.run(tmp_path)
        assert (outcome.result.error, outcome.result.exit_code) == (None, exit_code)
        run.result = outcome.result  # type: ignore[attr-defined]
        return pipelines.outputs(tmp_path)

    return run


def drawn(seed: int, count: int = 200) -> list[tuple[str, str, str, int]]:
    draw = random.Random(seed)
    return [(f"k{draw.randrange(60)}", f"a{draw.randrange(12)}", f"b{draw.randrange(9)}", draw.randrange(1, 40))
            for _ in range(count)]  # fmt: skip


def text(records: list[tuple[str, str, str, int]]) -> str:
    return "k,a,b,v\n" + "".join(f"{k},{a},{b},{v}\n" for k, a, b, v in records)


def settled(records: list[tuple[str, str, str, int]], bounds: tuple[int, int]) -> tuple[list[int], int]:
    """The plain model: the records that stay, and the rows that failed, recomputed until nothing changes."""
    left, failed = list(range(len(records))), 0
    while True:
        gone: set[int] = set()
        for column, bound in zip((1, 2), bounds, strict=True):
            groups: dict[str, list[int]] = {}
            for number in left:
                groups.setdefault(records[number][column], []).append(number)
            for members in groups.values():
                if sum(records[number][3] for number in members) < bound:
                    gone.update(members)
                    failed += 1
        if not gone:
            return left, failed
        left = [number for number in left if number not in gone]


@pytest.mark.parametrize(("seed", "left_over"), [(0, 0), (2, 141), (3, 166), (5, 170)])
def test_two_aggregates_take_records_out_of_each_other_until_nothing_fails(ran: Any, seed: int, left_over: int) -> None:
    records, bounds = drawn(seed), (240, 300)
    stages = summed("x", "s", "a") + refusing("cx", "x", bounds[0]) + summed("y", "s", "b")
    found = ran(
        HEAD + stages + refusing("cy", "y", bounds[1]) + output("ox", "cx") + output("oy", "cy") + output("o", "s"),
        text(records),
    )
    left, failed = settled(records, bounds)
    assert len(left) == left_over
    kept = [records[number] for number in left]
    assert found["o.csv"].decode() == text(kept)
    for name, column in (("ox.csv", 1), ("oy.csv", 2)):
        totals: dict[str, int] = {}
        for record in kept:
            totals[record[column]] = totals.get(record[column], 0) + record[3]
        assert [(row["ab"[column - 1]], int(row["t"])) for row in rows(found[name])] == list(totals.items())
    letters = rows(found["dead.csv"])
    assert len(letters) == failed == ran.result.dlq_count
    assert {row["_cxl_dlq_source_name"] for row in letters} == {"<merged>"}


def test_a_failure_behind_an_aggregate_of_an_aggregate_takes_the_records_of_both(ran: Any) -> None:
    records = drawn(9)
    inner = summed("x", "s", "a, b") + summed("y", "x", "a", "sum(t)")
    found = ran(
        HEAD + inner + refusing("c", "y", 300) + output("o", "c") + output("p", "x") + output("q", "s"), text(records)
    )
    totals: dict[str, int] = {}
    for _, a, _, v in records:
        totals[a] = totals.get(a, 0) + v
    good = {a for a, total in totals.items() if total >= 300}
    assert 0 < len(good) < len(totals)
    assert {row["a"] for row in rows(found["o.csv"])} == good
    assert {row["a"] for row in rows(found["p.csv"])} == good
    assert found["q.csv"].decode() == text([record for record in records if record[1] in good])


def test_records_of_a_strict_aggregate_are_taken_back_through_it(ran: Any) -> None:
    records = drawn(5)
    found = ran(
        HEAD + summed("x", "s", "k, a") + summed("y", "x", "a", "sum(t)") + refusing("c", "y", 300)
        + output("o", "c") + output("q", "s"),
        text(records),
    )  # fmt: skip
    good = {row["a"] for row in rows(found["o.csv"])}
    assert 0 < len(good) < 12
    assert found["q.csv"].decode() == text([record for record in records if record[1] in good])


def test_what_fails_before_the_aggregate_is_settled_first(ran: Any) -> None:
    checked = "      - {type: transform, name: t, input: s, config: {cxl: emit w = 1 / (v - 1)}}\n"
    # The check behind the aggregate sees the total without the record that fails before, and lets it pass.
    stages = checked + summed("x", "t", "a") + refusing("c", "x", 5)
    found = ran(HEAD + stages + output("o", "c"), "k,a,b,v\nk1,a1,b,1\nk2,a1,b,5\nk3,a2,b,4\n")
    assert [(row["a"], row["t"]) for row in rows(found["o.csv"])] == [("a1", "5")]
    letters = [(row["_cxl_dlq_source_name"], row["_cxl_dlq_source_row"]) for row in rows(found["dead.csv"])]
    assert letters == [("s", "1"), ("<merged>", "3")]


def test_a_global_row_of_no_records_that_fails_ends_the_rounds(ran: Any) -> None:
    program = '"emit ok = if (t ?? 0) < 50 then \\"x\\".to_int() else 1"'
    check = f"      - {{type: transform, name: c, input: x, config: {{cxl: {program}}}}}\n"
    found = ran(
        HEAD + summed("x", "s", "") + check + output("o", "c") + output("q", "s"), "k,a,b,v\nk1,a,b,1\nk2,a,b,2\n"
    )
    assert rows(found["o.csv"]) == rows(found["q.csv"]) == []
    assert [row["_cxl_dlq_source_row"] for row in rows(found["dead.csv"])] == ["", "1"]


def test_the_number_of_a_group_is_its_place_after_the_last_round(ran: Any) -> None:
    stages = summed("x", "s", "a") + refusing("c", "x", 5)
    found = ran(
        HEAD + stages + output("o", "c", ", include_correlation_keys: true"),
        "k,a,b,v\nk1,a1,b,1\nk2,a2,b,5\nk3,a3,b,4\nk4,a4,b,9\n",
    )
    assert [(row["a"], row["$ck.aggregate.x"]) for row in rows(found["o.csv"])] == [("a2", "0"), ("a4", "1")]


def test_metrics_tell_of_the_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    stages = summed("x", "s", "a") + refusing("c", "x", 5) + output("o", "c")
    data = "k,a,b,v\nk1,a1,b,1\nk2,a2,b,5\nk3,a3,b,4\n"
    pipelines.write(tmp_path, {"pipeline.yaml": HEAD + stages, "in.csv": data})
    pipelines.run(tmp_path, metrics_spool_dir=str(tmp_path / "metrics"))
    (path,) = (tmp_path / "metrics").iterdir()
    told = json.loads(path.read_text())["correlation"]
    assert told == {
        "passes": 4, "rejected_groups": 0, "oversized_groups": 0,
        "retract": {
            "iterations": 1, "groups_recomputed": 2, "output_rows_retracted_total": 2, "degrade_fallback_count": 0,
        },
        "retract.iterations": 1, "retract.groups_recomputed": 2, "retract.records_taken_back": 2,
        "retract.degrade_fallback_count": 0, "per_source_rollback_cursors": {"s": 2},
    }  # fmt: skip


@pytest.mark.parametrize("keys", ["a", ""])
def test_a_group_whose_own_result_fails_takes_its_records_back(ran: Any, keys: str) -> None:
    """As if the check stood behind the aggregate; its entry is that of its first record."""
    stages = summed("x", "s", keys, "if sum(v) < 5 then 1 / 0 else sum(v)")
    data = "k,a,b,v\nk1,a1,b,1\nk2,a2,b,5\nk1,a1,b,3\nk2,a3,b,9\n"
    found = ran(HEAD + stages + output("o", "x") + output("q", "s"), data) if keys else None
    if found is None:
        found = ran(HEAD + stages + output("o", "x") + output("q", "s"), "k,a,b,v\nk1,a1,b,1\nk1,a1,b,3\n")
        assert (rows(found["o.csv"]), rows(found["q.csv"])) == ([{"t": ""}], [])
    else:
        assert [(row["a"], row["t"]) for row in rows(found["o.csv"])] == [("a2", "5"), ("a3", "9")]
        assert [row["v"] for row in rows(found["q.csv"])] == ["5", "9"]
    named = ("source_name", "source_row", "error_category", "stage")
    letters = [tuple(row[f"_cxl_dlq_{name}"] for name in named) for row in rows(found["dead.csv"])]
    assert letters == [("s", "1", "aggregate_finalize", "aggregate:x")]
    assert [row["$ck.k"] for row in rows(found["dead.csv"])] == ["k1"]


@pytest.mark.parametrize("keys", ["a", "k, a", ""])
def test_the_entry_of_a_groups_own_result_has_the_key_of_its_first_record(ran: Any, keys: str) -> None:
    """As a text of its value, whether the aggregate mixes keys or not."""
    head = HEAD.replace("{k: string,", "{k: int,")
    assert head != HEAD
    stages = summed("x", "s", keys, "1 / (sum(v) - sum(v))")
    found = ran(head + stages + output("o", "x") + output("q", "s"), "k,a,b,v\n007,a1,b,1\n8,a1,b,3\n")
    triggers = [row for row in rows(found["dead.csv"]) if row["_cxl_dlq_error_category"] == "aggregate_finalize"]
    assert (triggers[0]["k"], triggers[0]["$ck.k"]) == ("7", "7")
    assert {row["$ck.k"] for row in triggers} <= {"7", "8"}


def test_what_is_left_of_a_group_that_was_taken_back_may_fail_as_another_row(ran: Any) -> None:
    """Record 2 is a duplicate until record 1 counts as never read: then group p is of it, and fails anew."""
    once = "      - {type: transform, name: t, input: s, config: {cxl: distinct by v}}\n"
    stages = once + summed("x", "t", "a") + refusing("c", "x", 5)
    found = ran(
        HEAD + stages + output("o", "c") + output("q", "t"), "k,a,b,v\nk1,q,b,1\nk2,p,b,1\nk3,p,b,2\nk4,r,b,9\n"
    )
    assert [row["t"] for row in rows(found["o.csv"])] == [row["v"] for row in rows(found["q.csv"])] == ["9"]
    assert [(row["_cxl_dlq_source_row"], row["a"]) for row in rows(found["dead.csv"])] == [
        ("1", "q"), ("2", "p"), ("3", "p"),
    ]  # fmt: skip


def test_a_strict_row_whose_records_were_taken_back_rejects_nothing(ran: Any) -> None:
    """The run is as if they had not been read."""
    stages = summed("x", "s", "k, a") + refusing("c", "x", 5) + summed("y", "s", "b") + refusing("d", "y", 5)
    found = ran(
        HEAD + stages + output("o", "c") + output("p", "d") + output("q", "s"),
        "k,a,b,v\nk1,a1,b1,1\nk1,a2,b2,50\nk2,a1,b3,60\n",
    )
    assert [row["t"] for row in rows(found["o.csv"])] == ["50", "60"]
    assert [row["t"] for row in rows(found["p.csv"])] == ["50", "60"]
    assert [row["v"] for row in rows(found["q.csv"])] == ["50", "60"]
    assert [row["_cxl_dlq_stage"] for row in rows(found["dead.csv"])] == ["transform:d"]


@pytest.mark.parametrize("inputs", ["met, s", "s, met"])
def test_a_row_that_begins_with_one_of_no_records_takes_the_others_back(ran: Any, inputs: str) -> None:
    """The count of no records meets all records, so each is in its total twice: those of a1 are taken back."""
    stages = f"""
      - {{type: transform, name: f, input: s, config: {{cxl: filter v > 99}}}}
      - type: aggregate
        name: none
        input: f
        config: {{group_by: [], cxl: emit t = count(*)}}
      - type: combine
        name: met
        input: {{d: none, b: s}}
        config: {{where: d.t < b.v, match: all, propagate_ck: all,
          cxl: "emit k = b.k\nemit a = b.a\nemit b = b.b\nemit v = b.v"}}
      - {{type: merge, name: m, inputs: [{inputs}]}}
"""
    text = HEAD + stages + summed("x", "m", "a") + refusing("c", "x", 13) + output("o", "c") + output("q", "s")
    found = ran(text, "k,a,b,v\nk1,a1,b,1\nk2,a1,b,5\nk3,a2,b,9\n")
    assert [row["t"] for row in rows(found["o.csv"])] == ["18"]
    assert [row["v"] for row in rows(found["q.csv"])] == ["9"]
    assert [(row["_cxl_dlq_source_row"], row["a"]) for row in rows(found["dead.csv"])] == [("1", "a1")]


@pytest.mark.parametrize("is_written", [False, True])
def test_the_entry_of_a_row_shows_its_columns_whether_anything_reads_them(ran: Any, is_written: bool) -> None:
    window = """
      - {type: aggregate, name: x, input: s, config: {group_by: [b], cxl: "emit a = any(a)\\nemit v = sum(v)"}}
      - {type: transform, name: w, input: x, config: {cxl: emit n = $window.sum(v), analytic_window: {group_by: [a]},
          validations: [{name: small, check: n < 9, message: large}]}}
"""
    more = output("o", "w") if is_written else ""
    found = ran(HEAD + window + output("q", "s") + more, "k,a,b,v\nk1,a1,b1,10\nk2,a2,b2,5\nk3,a2,b3,7\n")
    assert [(row["k"], row["a"], row["b"], row["v"]) for row in rows(found["dead.csv"])] == [
        ("", "a1", "b1", "10"), ("", "a2", "b3", "7"),
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["k1,a3,b3,7\n", ""])
def test_a_record_that_is_taken_back_is_the_first_of_no_group(ran: Any, line: str) -> None:
    """Under `primary`: of k1 the next record fails, before or after that; of k2 the next one is good."""
    data = "k,a,b,v\nk1,a1,b1,1\nk2,a1,b1,2\nk1,a2,b2,0\nk2,a2,b3,9\nk2,a2,b3,0\n"
    primary = HEAD.replace("strategy: continue,", "strategy: continue, correlation_fanout_policy: primary,")
    divided = "      - {type: transform, name: d, input: s, config: {cxl: emit x = 1 / v}}\n"
    found = ran(primary + summed("x", "s", "b") + refusing("c", "x", 4) + divided + output("o", "d") + output("p", "c"),
                data + line)  # fmt: skip
    assert [row["v"] for row in rows(found["o.csv"])] == ["9"]
    told = [(row["_cxl_dlq_source_name"], row["_cxl_dlq_source_row"]) for row in rows(found["dead.csv"])]
    assert told == [("<merged>", "1"), ("s", "3"), ("s", "5"), *([("s", "6")] if line else [])]


@pytest.mark.parametrize("window", [
    "{tumbling: {size: 10m}}", "{hopping: {size: 20m, slide: 10m}}", "{session: {gap: 5m}}",
])  # fmt: skip
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [1, 0, 2, 4, 3, 5]], ids=["by time", "mixed"])
def test_a_failure_behind_an_aggregate_of_time_windows_takes_their_records(
    ran: Any, window: str, order: list[int]
) -> None:
    """Only where all records have met it is known when a session began."""
    head = HEAD.replace("v: int}", "v: int, at: date_time}, watermark: {column: at, delay: 1h}")
    timed = f"{{group_by: [k, b], time_window: {window}, cxl: emit t = sum(v)}}"
    stages = f"      - {{type: aggregate, name: x, input: s, config: {timed}}}\n" + summed("y", "x", "b", "sum(t)")
    records = [
        "k1,a,b1,1,2026-01-01T00:01:00", "k1,a,b1,2,2026-01-01T00:03:00", "k2,a,b1,3,2026-01-01T00:02:00",
        "k3,a,b2,50,2026-01-01T00:40:00", "k3,a,b2,50,2026-01-01T00:41:00", "k1,a,b2,100,2026-01-01T00:55:00",
    ]  # fmt: skip
    data = "k,a,b,v,at\n" + "".join(f"{records[each]}\n" for each in order)
    found = ran(head + stages + refusing("c", "y", 20) + output("o", "c") + output("p", "s"), data)
    times = 2 if "hopping" in window else 1
    assert [(row["b"], row["t"]) for row in rows(found["o.csv"])] == [("b2", str(200 * times))]
    assert [row["b"] for row in rows(found["p.csv"])] == ["b2"] * 3
    assert [row["_cxl_dlq_stage"] for row in rows(found["dead.csv"]) if row["_cxl_dlq_trigger"] != "false"] == [
        "transform:c"
    ]


def test_passes_end_where_records_cannot_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better a run that fails than one without end."""
    without_spark.install(monkeypatch)
    monkeypatch.setattr("spark_jobs.execute.correlation.hook.CorrelatedTask.collect", lambda *_: None)
    pipelines.write(
        tmp_path, {"pipeline.yaml": HEAD + summed("x", "s", "a") + refusing("c", "x", 5) + output("o", "c")}
    )
    pipelines.write(tmp_path, {"in.csv": "k,a,b,v\nk1,a,b,1\n"})
    error = pipelines.run(tmp_path).result.error
    assert error is not None
    assert error.code == "E903"

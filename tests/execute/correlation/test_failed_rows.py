"""A row of an aggregate that fails is in no output, whatever group it belongs to and on whatever branch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from tests.execute import pipelines, without_spark
from tests.execute.correlation.test_correlation import output, rows
from tests.execute.correlation.test_retraction import HEAD, refusing, summed

if TYPE_CHECKING:
    from pathlib import Path

#: A source without a key, of the same columns.
BARE = """
      - type: source
        name: t
        config: {type: csv, path: bare.csv, schema: {k: string, a: string, b: string, v: int}}
"""
DATA = "k,a,b,v\nk1,a1,b,1\nk1,a2,b,50\nk2,a1,b,60\nk2,a3,b,2\nk3,a3,b,70\n"
POLICIES = ["any", "all", "primary"]


@pytest.fixture(params=[1, 4], ids=["whole", "split"])
def ran(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    without_spark.install(monkeypatch)

    def run(pipeline: str, data: str = DATA, bare: str = "k,a,b,v\n", more: str = "") -> dict[str, bytes]:
        pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.csv": data, "bare.csv": bare})
        pipelines.write(tmp_path, {"in_more.csv": f"k,a,b,v\n{more}"})
        if request.param > 1:
            pipelines.with_splits(monkeypatch, tmp_path, "in.csv", request.param)
        outcome = pipelines.run(tmp_path)
        assert (outcome.result.error, outcome.result.exit_code) == (None, 2)
        return pipelines.outputs(tmp_path)

    return run


def totals(found: dict[str, bytes], name: str) -> list[str]:
    return [row["t"] for row in rows(found[f"{name}.csv"])]


def letters(found: dict[str, bytes]) -> list[tuple[str, ...]]:
    named = ("source_name", "source_row", "error_category", "stage")
    return [tuple(row[f"_cxl_dlq_{name}"] for name in named) for row in rows(found["dead.csv"])]


def under(policy: str) -> str:
    return f", correlation_fanout_policy: {policy}"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_that_fails_in_one_branch_is_not_written_by_another(ran: Any, policy: str) -> None:
    found = ran(
        HEAD + summed("x", "s", "k, a") + refusing("c", "x", 5) + output("o", "c", under(policy))
        + output("p", "x", under(policy)) + output("q", "s", under("all"))
    )  # fmt: skip
    # A row that fails stands for all records of its group, so that these are rejected under `all` as well.
    assert totals(found, "o") == totals(found, "p") == ["70"]
    assert [row["v"] for row in rows(found["q.csv"])] == ["70"]
    assert [each for each in letters(found) if each[2] != "correlated"] == [
        ("<merged>", "1", "type_coercion_failure", "transform:c"),
        ("<merged>", "4", "type_coercion_failure", "transform:c"),
    ]


def test_a_row_that_fails_fails_nowhere_that_is_settled_later(ran: Any) -> None:
    """Once it has failed at the transform it counts as never made, and meets nothing."""
    meets = """
      - type: combine
        name: met
        input: {d: x, b: x}
        config: {where: d.a == b.a, match: all, on_miss: skip, propagate_ck: driver, cxl: emit n = 12 / (b.t - 50)}
"""
    found = ran(
        HEAD + summed("x", "s", "k, a") + meets + refusing("c", "x", 51) + output("o", "c") + output("p", "met")
    )
    failed = [each for each in letters(found) if each[2] != "correlated"]
    assert {each[3] for each in failed} == {"transform:c"}


def test_no_record_is_refused_with_a_row_that_fails_before(ran: Any) -> None:
    """The row counts as never made, and drives no combine: the build record has no entry."""
    looks_up = """
      - type: combine
        name: met
        input: {d: x, b: t}
        config: {where: d.a == b.a, match: all, on_miss: skip, propagate_ck: driver, cxl: emit n = 12 / b.v}
"""
    nodes = HEAD + BARE + summed("x", "s", "k, a") + looks_up + refusing("c", "x", 51) + output("o", "c")
    found = ran(nodes + output("p", "met"), bare="k,a,b,v\nq,a2,b,0\n")
    assert {each[3] for each in letters(found)} <= {"transform:c", "correlation_commit"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_of_a_source_without_key_is_of_no_group_and_stays_away_alone(ran: Any, policy: str) -> None:
    found = ran(
        HEAD + BARE + summed("x", "t", "a") + refusing("c", "x", 5) + output("o", "c", under(policy))
        + output("p", "x", under(policy)) + output("q", "s") + output("r", "t"),
        bare="k,a,b,v\nk1,a1,b,1\nk1,a2,b,50\n",
    )  # fmt: skip
    assert totals(found, "o") == totals(found, "p") == ["50"]
    assert (len(rows(found["q.csv"])), len(rows(found["r.csv"]))) == (5, 2)
    assert letters(found) == [("<merged>", "1", "type_coercion_failure", "transform:c")]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_whose_key_was_cut_is_of_no_group_and_stays_away_alone(ran: Any, policy: str) -> None:
    merge = "      - {type: merge, name: m, inputs: [s, t]}\n"
    found = ran(
        HEAD + BARE + merge + summed("x", "m", "b, v") + refusing("c", "x", 5) + output("o", "c", under(policy))
        + output("p", "x", under(policy)) + output("q", "m")
    )  # fmt: skip
    assert totals(found, "o") == totals(found, "p") == ["50", "60", "70"]
    assert len(rows(found["q.csv"])) == 5
    assert [each[1] for each in letters(found)] == ["1", "4"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stage", [
    "type: aggregate, input: x, config: {group_by: [a], cxl: emit n = sum(9 / (t - 1))}",
    "type: aggregate, input: x, config: {group_by: [k, a], cxl: emit n = sum(9 / (t - 1))}",
    "type: aggregate, input: x, config: {group_by: [], cxl: emit n = sum(9 / (t - 1))}",
    *[
        f"type: combine, input: {{d: {driver}, b: {build}}}, config: {{where: {where}, match: all, on_miss: skip, "
        f"propagate_ck: {keys}, cxl: emit n = {program}}}"
        for driver, build, where, program in (
            ("x", "t", "d.a == b.a", "9 / (d.t - 1)"),
            ("x", "x", "d.a == b.a", "9 / (d.t - 1)"),
            ("t", "x", "d.v == 9 / (b.t - 1)", "b.t"),
            ("s", "x", "d.v == 9 / (b.t - 1)", "b.t"),
        )
        for keys in ("driver", "all", "{named: [k]}", "{named: [none]}")
    ],
])  # fmt: skip
def test_it_rejects_the_groups_that_it_came_with_where_a_node_cuts_its_key(ran: Any, stage: str, policy: str) -> None:
    """Of the group by k1 and a1 is nothing else than the row and its record."""
    head = HEAD.replace("correlation_key: k", "correlation_key: [k, a]")
    nodes = head + BARE + summed("x", "s", "k, a") + f"      - {{name: c, {stage}}}\n"
    outputs = output("o", "c") + output("p", "x", under(policy)) + output("q", "s", under(policy))
    found = ran(nodes + outputs, bare="k,a,b,v\nq,a1,b,3\n")
    assert [(row["k"], row["a"]) for row in rows(found["p.csv"])] == [
        ("k1", "a2"), ("k2", "a1"), ("k2", "a3"), ("k3", "a3"),
    ]  # fmt: skip
    assert [row["v"] for row in rows(found["q.csv"])] == ["50", "60", "2", "70"]
    assert [each for each in letters(found) if each[0] == "s"] == [("s", "1", "correlated", "correlation_commit")]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_of_it_in_another_branch_of_a_route_is_not_written(ran: Any, policy: str) -> None:
    route = (
        "      - {type: route, name: r, input: x, config: {mode: inclusive, conditions: "
        "{odd: 'a != \"a2\"', every: t > 0}, default: rest}}\n"
    )
    found = ran(
        HEAD + summed("x", "s", "k, a") + route + refusing("c", "r.odd", 5) + output("o", "c", under(policy))
        + output("p", "r.every", under(policy)) + output("q", "r.rest")
    )  # fmt: skip
    assert (totals(found, "o"), totals(found, "p"), totals(found, "q")) == (["70"], ["70"], [])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_row_that_fails_behind_a_merge_is_not_written_before_it(ran: Any, policy: str) -> None:
    merge = "      - {type: merge, name: m, inputs: [x, y]}\n"
    found = ran(
        HEAD + summed("x", "s", "k, a") + summed("y", "s", "k, a", "max(v)") + merge + refusing("c", "m", 5)
        + output("o", "c", under(policy)) + output("p", "x", under(policy)) + output("q", "y", under(policy))
    )  # fmt: skip
    assert totals(found, "p") == totals(found, "q") == ["70"]
    assert sorted(totals(found, "o")) == sorted(totals(found, "p") + totals(found, "q"))


def test_a_row_of_no_records_that_fails_is_written_nowhere(ran: Any) -> None:
    program = '"emit ok = if (t ?? 0) < 50 then \\"x\\".to_int() else 1"'
    check = f"      - {{type: transform, name: c, input: x, config: {{cxl: {program}}}}}\n"
    found = ran(
        HEAD + summed("x", "s", "") + check + output("o", "c") + output("p", "x") + output("q", "s"),
        "k,a,b,v\nk1,a,b,1\nk2,a,b,2\n",
    )
    assert totals(found, "o") == totals(found, "p") == rows(found["q.csv"]) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sort", ["", ", sort_order: [t]"])
def test_a_row_that_cannot_be_written_ends_the_passes(ran: Any, policy: str, sort: str) -> None:
    """It is no candidate for its output any more when its group is rejected, and fails there all the same."""
    latin = f", options: {{encoding: latin-1}}{sort}{under(policy)}"
    found = ran(
        HEAD + summed("x", "s", "k", "any(b)") + output("o", "x", latin) + output("p", "x", under(policy)),
        "k,a,b,v\nk1,a,b,1\nk2,a,\u20ac,2\nk3,a,b,3\n",
    )
    assert totals(found, "o") == totals(found, "p") == ["b", "b"]
    assert letters(found) == [("<merged>", "2", "type_coercion_failure", "output:o")]


@pytest.mark.parametrize("keys", ["k", "a", ""])
@pytest.mark.parametrize(("window", "good"), [
    ("{tumbling: {size: 10m}}", ["7", "8", "9"]),
    ("{hopping: {size: 20m, slide: 10m}}", ["7", "7", "8", "8", "9", "9"]),
    ("{session: {gap: 5m}}", ["7", "8", "9"]),
])  # fmt: skip
def test_other_windows_stay_unless_the_row_stands_for_its_group(
    ran: Any, window: str, keys: str, good: list[str]
) -> None:
    head = HEAD.replace("v: int}", "v: int, at: date_time}, watermark: {column: at}")
    timed = f"{{group_by: [{keys}], time_window: {window}, cxl: emit t = sum(v)}}"
    stages = f"      - {{type: aggregate, name: x, input: s, config: {timed}}}\n" + refusing("c", "x", 5)
    times = [("k1", 1, 1), ("k1", 41, 7), ("k1", 81, 8), ("k1", 121, 9)]
    data = "".join(f"{k},a,b,{v},2026-01-01T{at // 60:02}:{at % 60:02}:00\n" for k, at, v in times)
    found = ran(head + stages + output("o", "c", under("all")) + output("p", "x", under("all")), f"k,a,b,v,at\n{data}")
    # A row of a strict aggregate stands for all records of its group, those of other windows too.
    stays = [] if keys == "k" else good
    assert totals(found, "o") == totals(found, "p") == stays
    assert {each[3] for each in letters(found) if each[2] != "correlated"} == {"transform:c"}


def test_what_leaves_with_a_row_says_that_it_was_one_and_where_it_failed(ran: Any) -> None:
    """A result that fails tells its aggregate itself."""
    large = summed("y", "s", "k, b", "sum(if v > 65 then 0 else v * 150000000000000000)")
    found = ran(HEAD + summed("x", "s", "k, a") + refusing("c", "x", 5) + large + output("o", "c") + output("q", "s"))
    told = {
        row["_cxl_dlq_source_row"]: row["_cxl_dlq_error_detail"]
        for row in rows(found["dead.csv"])
        if row["_cxl_dlq_error_category"] == "correlated"
    }
    begin = "correlated with failure in group: row"
    why = "field 'ok': conversion failed: cannot convert 'x' to Int (an aggregated row, at 'c')"
    overflow = "aggregate y: integer overflow in sum"
    assert told == dict.fromkeys("12", f"{begin} 1: {why}") | dict.fromkeys("34", f"{begin} 3: {overflow}")


@pytest.mark.parametrize("path", ["glob: in*.csv", "path: in.csv"])
def test_what_leaves_with_a_record_says_in_which_of_several_files_that_is(ran: Any, path: str) -> None:
    """A row number is of its file: record 2 of one file is good, that of the other is not."""
    fail = "      - {type: transform, name: c, input: s, config: {cxl: emit ok = 1 / (v - 7)}}\n"
    pipeline = HEAD.replace("path: in.csv", path).replace("v: int}", "v: int}, on_unmapped: drop")
    more = {"glob: in*.csv": "k2,a1,b,7\n", "path: in.csv": ""}[path]
    found = ran(pipeline + fail + output("o", "c"), "k,a,b,v\nk1,a1,b,1\nk2,a1,b,2\nk1,a1,b,7\n", more=more)
    told = [
        (row["_cxl_dlq_source_file"], row["_cxl_dlq_source_row"], row["_cxl_dlq_error_detail"].partition("group: ")[2])
        for row in rows(found["dead.csv"])
        if row["_cxl_dlq_error_category"] == "correlated"
    ]
    why = "field 'ok': division by zero"
    assert (
        told
        == {
            "glob: in*.csv": [
                ("in.csv", "1", f"row 3: {why} (in in.csv)"),
                ("in.csv", "2", f"row 1: {why} (in in_more.csv)"),
            ],
            "path: in.csv": [("in.csv", "1", f"row 3: {why}")],
        }[path]
    )


OWN_FILE = HEAD.replace(
    "{path: out/dead.csv}", "{per_source: {s: {path: out/own.csv, max_rate: RATE, min_records: 1}}}"
)


@pytest.mark.parametrize(
    ("line", "rate", "exit_code", "counts"),
    [("k3,a3,c,3\n", "0.1", 2, {}), ("k3,a3,b,?\n", "0.1", 3, {"s": 1}), ("k3,a3,b,?\n", "0.2", 2, {"s": 1})],
)
def test_the_row_of_an_aggregate_is_of_no_source_in_counts_rates_and_files(
    here: Path, capsys: pytest.CaptureFixture[str], line: str, rate: str, exit_code: int, counts: dict[str, int]
) -> None:
    """Its entry says `<merged>`: it is in no file of a source, so the log names it, and counts for no source's rate."""
    text = OWN_FILE.replace("RATE", rate) + summed("x", "s", "b") + refusing("c", "x", 5) + output("o", "c")
    pipelines.write(here, {"pipeline.yaml": text, "in.csv": DATA + line})
    assert clinker.main(["run", "pipeline.yaml", "--metrics-spool-dir", "spool"]) == exit_code
    (spool,) = (here / "spool").iterdir()
    figures = json.loads(spool.read_text())
    assert (figures["per_source_dlq_counts"], figures["records_dlq"]) == (counts, 1)
    assert (here / "out" / "own.csv").exists() == (exit_code == 2 and bool(counts))
    told = [line for line in capsys.readouterr().err.splitlines() if "dropped" in line]
    why = "row 6: field 'ok': conversion failed: cannot convert 'x' to Int (transform:c, type_coercion_failure)"
    assert told == ([] if counts else [f"WARNING dropped an aggregated row that begins with in.csv, {why}"])


@pytest.mark.parametrize(
    ("key", "left", "records"), [("k", ["7"], 1), ("[k, a]", ["7"], 3), ("[a, k]", ["7"], 3), ("a", ["6", "7"], 3)]
)
def test_rows_of_time_windows_leave_with_the_groups_that_are_left(
    ran: Any, key: str, left: list[str], records: int
) -> None:
    """By `k`, which is the whole key, a part of it, or none of it: then a row that fails stays away alone."""
    head = HEAD.replace("correlation_key: k", f"correlation_key: {key}")
    head = head.replace("v: int}", "v: int, at: date_time}, watermark: {column: at}")
    timed = "{group_by: [k], time_window: {tumbling: {size: 10m}}, allowed_lateness: 9h, cxl: emit t = sum(v)}"
    stages = f"      - {{type: aggregate, name: x, input: s, config: {timed}}}\n" + refusing("c", "x", 5)
    data = "k,a,b,v,at\nk1,a,b,1,2026-01-01T00:01:00\nk1,b,b,6,2026-01-01T00:41:00\nk2,c,b,7,2026-01-01T00:42:00\n"
    found = ran(head + stages + output("o", "c") + output("q", "s"), data)
    assert totals(found, "o") == left
    assert len(rows(found["q.csv"])) == records

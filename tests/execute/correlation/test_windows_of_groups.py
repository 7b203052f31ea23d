"""Windows over rows that change from round to round: they are computed over what counts as read in the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.execute import pipelines
from tests.execute.correlation.test_correlation import output, rows
from tests.execute.correlation.test_retraction import HEAD, ran, refusing, summed

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ran"]

DATA = "k,a,b,v\nk1,a1,b1,5\nk1,a2,b1,7\nk2,a3,b1,1\nk2,a1,b2,4\nk3,a2,b2,6\n"
TIMED = HEAD.replace("v: int}", "v: int, at: date_time}, watermark: {column: at}")
TIMES = "k,a,b,v,at\nk1,a1,b1,5,2026-01-01T10:05:00\nk1,a2,b1,7,2026-01-01T10:50:00\nk2,a3,b1,1,2026-01-01T12:10:00\n"


def windowed(name: str, node: str, cxl: str, window: str = "{group_by: [b]}") -> str:
    config = f'{{analytic_window: {window}, cxl: "{cxl}"}}'
    return f"      - {{type: transform, name: {name}, input: {node}, config: {config}}}\n"


def timed(name: str, node: str, keys: str = "", window: str = "{tumbling: {size: 1h}}") -> str:
    config = f"{{group_by: [{keys}], time_window: {window}, cxl: emit t = sum(v)}}"
    return f"      - {{type: aggregate, name: {name}, input: {node}, config: {config}}}\n"


def dead(found: Any) -> list[tuple[str, ...]]:
    named = ("source_name", "source_row", "error_category", "stage")
    return [tuple(row[f"_cxl_dlq_{name}"] for name in named) for row in rows(found["dead.csv"])]


def test_a_window_is_computed_over_the_records_that_were_not_taken_back(ran: Any) -> None:
    """The total of a3 is refused, so record 3 is in no frame."""
    stages = windowed("w", "s", "emit r = $window.sum(v)") + summed("x", "s", "a") + refusing("c", "x", 2)
    found = ran(HEAD + stages + output("o", "w") + output("p", "c"), DATA.replace("k2,a3,b1,1\n", "").replace(
        "k1,a1,b1,5", "k2,a3,b1,1\nk1,a1,b1,5"
    ))  # fmt: skip
    assert [(row["a"], row["r"]) for row in rows(found["o.csv"])] == [
        ("a1", "5"),
        ("a2", "12"),
        ("a1", "4"),
        ("a2", "10"),
    ]
    assert dead(found) == [("<merged>", "1", "type_coercion_failure", "transform:c")]


def test_a_row_of_an_aggregate_that_fails_behind_a_window_leaves_its_frame(ran: Any) -> None:
    """The first running total is refused; without that row the others are 7 and 8, and good. b2 has two good rows."""
    stages = summed("x", "s", "a, b") + windowed("w", "x", "emit r = $window.sum(t)")
    check = "      - {type: transform, name: c, input: w, config: {cxl: emit ok = 1 / (r - 5)}}\n"
    found = ran(HEAD + stages + check + output("o", "c") + output("raw", "s"), DATA)
    kept = [("a2", "b1", "7"), ("a3", "b1", "8"), ("a1", "b2", "4"), ("a2", "b2", "10")]
    assert [(row["a"], row["b"], row["r"]) for row in rows(found["o.csv"])] == kept
    assert [row["v"] for row in rows(found["raw.csv"])] == ["7", "1", "4", "6"]
    assert dead(found) == [("<merged>", "1", "type_coercion_failure", "transform:c")]


def test_what_a_window_gives_may_fail_in_the_next_round(ran: Any) -> None:
    """7 is refused at once; then the running total of a3, which was 13, is 6, and that is refused too."""
    stages = summed("x", "s", "a, b") + windowed("w", "x", "emit r = $window.sum(t)")
    program = '"emit ok = if t == 7 or r == 6 then 1 / 0 else 1"'
    check = f"      - {{type: transform, name: c, input: w, config: {{cxl: {program}}}}}\n"
    found = ran(HEAD + stages + check + output("o", "c"), DATA.replace("b2", "b3"))
    assert [(row["a"], row["r"]) for row in rows(found["o.csv"])] == [("a1", "5"), ("a1", "4"), ("a2", "10")]
    assert [entry[1] for entry in dead(found)] == ["2", "3"]


def test_rows_that_another_source_sees_are_those_that_are_left(ran: Any) -> None:
    other = """
      - {type: source, name: t, config: {type: csv, path: in.csv, schema: {k: string, a: string, b: string, v: int}}}
"""
    stages = other + windowed("w", "t", "emit n = $window.count()", "{source: s, on: a, group_by: [a]}")
    found = ran(
        HEAD + stages + summed("x", "s", "b") + refusing("c", "x", 11) + output("o", "w") + output("p", "c"), DATA
    )
    # b2 has ten: its records of s are taken back, a1 and a2 have one each.
    assert [row["n"] for row in rows(found["o.csv"])] == ["1", "1", "1", "1", "1"]


def test_a_time_window_is_computed_over_what_is_left_and_vanishes_with_its_last_record(ran: Any) -> None:
    stages = timed("h", "s") + summed("x", "s", "a") + refusing("c", "x", 6)
    found = ran(TIMED + stages + output("o", "h") + output("p", "c"), TIMES)
    assert [row["t"] for row in rows(found["o.csv"])] == ["7"]
    assert [row["a"] for row in rows(found["p.csv"])] == ["a2"]
    assert [entry[1] for entry in dead(found)] == ["1", "3"]


def test_a_session_ends_earlier_without_a_record_that_was_taken_back(ran: Any) -> None:
    """Record 2 joined two sessions."""
    times = (
        TIMES.replace("T12:10", "T11:30").replace("k1,a1,b1,5,", "k1,a1,b1,9,").replace("k2,a3,b1,1,", "k2,a3,b1,8,")
    )
    stages = timed("h", "s", window="{session: {gap: 50m}}") + summed("x", "s", "a") + refusing("c", "x", 8)
    found = ran(TIMED + stages + output("o", "h") + output("p", "c"), times)
    assert [row["t"] for row in rows(found["o.csv"])] == ["9", "8"]


def test_a_record_that_counts_as_never_read_makes_no_other_late(ran: Any) -> None:
    """Record 1 passes the end of the first window, and fails in another branch: record 2 is in time then."""
    times = (
        "k,a,b,v,at\nk1,a1,b1,0,2026-01-01T12:00:00\nk2,a2,b1,7,2026-01-01T10:50:00\nk3,a3,b1,1,2026-01-01T12:10:00\n"
    )
    check = "      - {type: transform, name: c, input: s, config: {cxl: emit ok = 1 / v}}\n"
    found = ran(TIMED + timed("h", "s") + check + output("o", "h") + output("p", "c"), times)
    assert [row["t"] for row in rows(found["o.csv"])] == ["7", "1"]
    assert dead(found) == [("s", "1", "type_coercion_failure", "transform:c")]


def test_a_late_record_rejects_no_group_and_is_no_collateral(ran: Any) -> None:
    times = (
        TIMES.replace("k1,a2,b1,7,2026-01-01T10:50", "k2,a2,b1,7,2026-01-01T12:50") + "k2,a4,b1,3,2026-01-01T10:00:00\n"
    )
    found = ran(TIMED + timed("h", "s") + output("o", "h") + output("raw", "s"), times)
    assert [row["t"] for row in rows(found["o.csv"])] == ["5", "8"]
    assert len(rows(found["raw.csv"])) == 4
    assert dead(found) == [("s", "4", "late_record", "time_window:h")]
    assert [row["$ck.k"] for row in rows(found["dead.csv"])] == ["k2"]


MERGED = """
    pipeline: {name: merged}
    error_handling:
      strategy: continue
      dlq: {path: out/dead.csv, per_source: {t: {path: out/t.csv}}}
    nodes:
      - type: source
        name: s
        config: &s
          {type: csv, path: in.csv, schema: {k: string, n: int, at: date_time}, watermark: {column: at},
           correlation_key: [n, k]}
      - {type: source, name: t, config: {<<: *s, path: t.csv, correlation_key: k}}
      - {type: source, name: u, config: {type: csv, path: u.csv, schema: {k: string, n: int, at: date_time},
         watermark: {column: at}}}
      - {type: transform, name: x, input: s, config: {cxl: 'emit k = "x"'}}
      - {type: merge, name: m, inputs: [x, t, u], config: {mode: interleave}}
      - type: aggregate
        name: h
        input: m
        config: {group_by: [k], time_window: WINDOW, cxl: emit c = count(*)}
      - {type: output, name: o, input: h, config: {type: csv, path: out/o.csv}}
"""


@pytest.mark.parametrize("window", ["{tumbling: {size: 1h}}", "{session: {gap: 1h}}"])
@pytest.mark.parametrize("split_bytes", [20, 1 << 20])
def test_a_late_record_shows_the_key_that_it_was_read_with(
    here: Path, monkeypatch: pytest.MonkeyPatch, window: str, split_bytes: int
) -> None:
    """Whatever of it is left where streams are merged, and wherever it turns out that the record is late."""
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
    lines = (
        "k,n,at\nk1,1,2026-01-01T12:00:00\nk2,,2026-01-01T15:00:00\nk3,7,2026-01-01T10:00:00\n,8,2026-01-01T09:00:00\n"
    )
    pipelines.write(
        here, {"pipeline.yaml": MERGED.replace("WINDOW", window), **dict.fromkeys(("in.csv", "t.csv", "u.csv"), lines)}
    )
    assert pipelines.run(here).result.exit_code == 2
    found = pipelines.outputs(here)
    names = ("_cxl_dlq_source_name", "k", "$ck.k", "$ck.n")
    shown = [[row[name] for name in names] for row in rows(found["dead.csv"])]
    assert shown == [["s", "k3", "k3", "7"], ["s", "", "", "8"], ["u", "k3", "", ""], ["u", "", "", ""]]
    assert [[row["k"], row["$ck.k"]] for row in rows(found["t.csv"])] == [["k3", "k3"], ["", ""]]

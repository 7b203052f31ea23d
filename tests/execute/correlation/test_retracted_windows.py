"""A row that is made of rows of time windows takes the records of these windows back when it fails, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.execute.correlation.test_correlation import output, rows
from tests.execute.correlation.test_failed_rows import letters, ran
from tests.execute.correlation.test_retraction import refusing, summed

__all__ = ["ran"]

SOURCE = """
      - type: source
        name: NAME
        config: {type: csv, path: PATH, correlation_key: k, watermark: {column: at},
          schema: {k: string, a: string, b: string, v: int, at: date_time}}
"""
HEAD = """
    pipeline: {name: p}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    nodes:
""" + SOURCE.replace("NAME", "s").replace("PATH", "in.csv")
MERGED = SOURCE.replace("NAME", "t").replace("PATH", "bare.csv") + "      - {type: merge, name: m, inputs: [t, s]}\n"
WINDOWS = {
    "tumbling": "{tumbling: {size: 10m}}",
    "hopping": "{hopping: {size: 20m, slide: 10m}}",
    "session": "{session: {gap: 5m}}",
}
#: What a1 has is too little, in windows of two keys.
TIMES = [
    ("k1", "a1", 1, "00:01"), ("k1", "a1", 1, "00:03"), ("k2", "a1", 1, "00:04"), ("k1", "a1", 1, "00:09"),
    ("k3", "a2", 50, "02:00"), ("k1", "a2", 60, "02:10"),
]  # fmt: skip
#: A line of another source, behind all of them in time.
BARE = [("k9", "a9", 99, "09:00")]


def lines(times: list[tuple[str, str, int, str]]) -> str:
    return "k,a,b,v,at\n" + "".join(f"{k},{a},b,{v},2026-01-01T{at}:00\n" for k, a, v, at in times)


def windowed(name: str, given: str, window: str, most: str) -> str:
    timed = f'{{group_by: [k], time_window: {WINDOWS[window]}, cxl: "emit a = {most}(a)\\nemit t = sum(v)"}}'
    return f"      - {{type: aggregate, name: {name}, input: {given}, config: {timed}}}\n"


@pytest.mark.parametrize("most", ["max", "any"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("is_merged", [False, True])
def test_a_row_takes_back_the_records_of_its_windows(ran: Any, window: str, most: str, is_merged: bool) -> None:
    stages = windowed("x", "m" if is_merged else "s", window, most) + summed("y", "x", "a", "sum(t)")
    text = HEAD + (MERGED if is_merged else "") + stages + refusing("c", "y", 9)
    found = ran(text + output("o", "c") + output("q", "s"), lines(TIMES), bare=lines(BARE))
    width = 2 if window == "hopping" else 1
    assert [int(row["t"]) for row in rows(found["o.csv"])] == [110 * width, *([99 * width] if is_merged else [])]
    assert [row["v"] for row in rows(found["q.csv"])] == ["50", "60"]
    assert letters(found) == [("<merged>", "1", "type_coercion_failure", "transform:c")]


@pytest.mark.parametrize("most", ["max", "any"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("is_merged", [False, True])
def test_a_record_that_came_late_is_not_taken_back(ran: Any, window: str, most: str, is_merged: bool) -> None:
    """It is in no window, so it is still written, and told as late."""
    stages = windowed("x", "m" if is_merged else "s", window, most) + summed("y", "x", "a", "sum(t)")
    text = HEAD + (MERGED if is_merged else "") + stages + refusing("c", "y", 9)
    late = [*TIMES[:3], TIMES[4], TIMES[3], TIMES[5]]
    found = ran(text + output("o", "c") + output("q", "s"), lines(late), bare=lines(BARE))
    assert [row["v"] for row in rows(found["q.csv"])] == ["50", "1", "60"]
    assert letters(found) == [
        ("<merged>", "1", "type_coercion_failure", "transform:c"),
        ("s", "5", "late_record", "time_window:x"),
    ]

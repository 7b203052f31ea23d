"""Time windows over odd input: what is no time, the ends of the calendar, lengths of nothing, keys of nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan
from spark_jobs.diagnostics.diagnostic import DiagnosticError
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
    pipeline: {name: p}
    nodes:
      - type: source
        name: s
        config:
          type: csv
          path: s.csv
          watermark: {column: at, delay: DELAY}
          schema: {id: int, k: string, at: date_time}
      - type: aggregate
        name: a
        input: s
        config:
          group_by: [k]
          time_window: {WINDOW}
          cxl: emit ids = collect(id)
      - {type: output, name: o, input: a, config: {type: csv, path: out/o.csv}}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv, include_source_row: false}}
"""
ROWS = "1,a,2024-01-01T10:00:00\n2,a,2024-01-01T10:10:00\n3,,2024-01-01T12:30:00\n"
ENDS = "1,a,0001-01-01T00:00:00\n2,,0001-01-01T00:30:00\n3,a,0001-01-01T00:40:00\n4,a,9999-12-31T23:59:59\n"


@pytest.mark.parametrize(
    ("window", "delay", "rows", "wanted"),
    [
        ("tumbling: {size: 1h}", "0s", ENDS, ['a,"[1,3]"', ",[2]", "a,[4]"]),
        ("hopping: {size: 2h, slide: 1h}", "0s", ENDS, ['a,"[1,3]"', ",[2]", 'a,"[1,3]"', ",[2]", "a,[4]", "a,[4]"]),
        ("session: {gap: 1h}", "0s", ENDS, ['a,"[1,3]"', ",[2]", "a,[4]"]),
        ("session: {gap: 1h}", "1d", ENDS, ["a,[4]"]),
        ("session: {gap: 9999999d}", "0s", ROWS, ['a,"[1,2]"', ",[3]"]),
        ("tumbling: {size: 99999999999d}", "0s", ROWS, ['a,"[1,2]"', ",[3]"]),
        ("tumbling: {size: 1h}", "0s", "1,,2024-01-01T10:00:00\n2,,2024-01-01T10:10:00\n", [',"[1,2]"']),
        ("session: {gap: 1h}", "0s", "1,,2024-01-01T10:00:00\n2,,2024-01-01T10:10:00\n", [',"[1,2]"']),
        ("session: {gap: 1h}", "0s", "1,a,\n2,b,\n", []),
        ("tumbling: {size: 1h}", "0s", "", []),
    ],
    ids=[
        "first and last moments", "hopping over them", "a session at each", "before the first moment",
        "a gap longer than time", "a window longer than time", "keys that are all null", "a session of null keys",
        "no times", "no records",
    ],
)  # fmt: skip
@pytest.mark.parametrize("splits", [1, 3])
def test_odd_times_and_keys(
    window: str, delay: str, rows: str, wanted: list[str], splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    text = PIPELINE.replace("WINDOW", window).replace("DELAY", delay)
    pipelines.write(tmp_path, {"pipeline.yaml": text, "s.csv": f"id,k,at\n{rows}"})
    pipelines.with_splits(monkeypatch, tmp_path, "s.csv", splits)
    result = pipelines.run(tmp_path).result
    assert result.exit_code == 0, result.error
    assert pipelines.outputs(tmp_path)["o.csv"].decode().splitlines() == ["k,ids", *wanted]


def test_a_text_that_is_no_time_is_a_dead_letter_and_moves_no_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    text = PIPELINE.replace("WINDOW", "tumbling: {size: 1h}").replace("DELAY", "0s")
    rows = "1,a,9999-99-99T00:00:00\n2,a,2024-01-01T10:00:00\n3,a,tomorrow\n4,a,2024-01-01T10:01:00\n"
    pipelines.write(tmp_path, {"pipeline.yaml": text, "s.csv": f"id,k,at\n{rows}"})
    assert pipelines.run(tmp_path).result.exit_code == 2
    found = pipelines.outputs(tmp_path)
    assert found["o.csv"].decode().splitlines() == ["k,ids", 'a,"[2,4]"']
    for letter, value in zip(
        found["dead.csv"].decode().splitlines()[1:], ("9999-99-99T00:00:00", "tomorrow"), strict=True
    ):
        assert f"at,{value},type_coercion_failure" in letter
        assert letter.endswith(f"cannot convert '{value}' to DateTime,aggregate:a,,")


@pytest.mark.parametrize(
    ("window", "key"),
    [
        ("tumbling: {size: 0s}", "size"),
        ("hopping: {size: 0m, slide: 1h}", "size"),
        ("hopping: {size: 1h, slide: 0s}", "slide"),
        ("session: {gap: 0ms}", "gap"),
    ],
)
def test_a_window_of_no_length_is_refused(window: str, key: str, tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE.replace("WINDOW", window).replace("DELAY", "0s")})
    with pytest.raises(DiagnosticError) as found:
        plan.load(tmp_path / "pipeline.yaml")
    (problem,) = found.value.diagnostics
    assert problem.code.id == "E214"
    assert problem.message == f"`{key}`: the duration must be longer than nothing"

"""The entry of an aggregate's row says which row it was: by columns of sources, or else in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.execute import pipelines, without_spark
from tests.execute.correlation.test_correlation import rows

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{name: p}}
error_handling: {{strategy: {strategy}, dlq: {{path: out/dead.csv}}}}
nodes:
  - type: source
    name: s
    config: {{type: csv, path: in.csv, correlation_key: k, schema: {{k: string, a: string, v: int}}}}
  - type: transform
    name: sized
    input: s
    config: {{cxl: "emit size = if v > 5 then \\"large\\" else null\\nemit tens = v / 10"}}
  - {{type: aggregate, name: x, input: sized, config: {{group_by: [{keys}], cxl: emit total = sum(v)}}}}
  - type: transform
    name: checked
    input: x
    config:
      cxl: emit total = total
      validations: [{{name: cap, check: total < 30, message: too much}}]
  - {{type: output, name: o, input: checked, config: {{type: csv, path: out/o.csv}}}}
"""
DATA = "k,a,v\nk1,a,10\nk2,a,15\nk3,b,6\nk4,b,20\nk4,c,5\nk4,c,26\n"


@pytest.fixture(params=["whole", "cut"])
def ran(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    without_spark.install(monkeypatch)

    def run(keys: str, strategy: str = "continue", data: str = DATA) -> Any:
        pipeline = PIPELINE.format(keys=keys, strategy=strategy)
        pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.csv": data})
        if request.param == "cut":
            pipelines.cut_by(monkeypatch, 8)
        return pipelines.run(tmp_path, force=True).result

    return run


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("size", [("1", "", "too much (row with size=large)")]),
        ("tens, size", [("4", "", "too much (row with tens=2, size=large)")]),
        ("k, tens", [("4", "", "too much (row with tens=2)")]),
        ("k", [("4", "", "too much")]),
        ("a", [("5", "c", "too much")]),
    ],
)
def test_what_no_source_has_is_said_in_words(ran: Any, tmp_path: Path, keys: str, expected: list[Any]) -> None:
    assert ran(keys).exit_code == 2
    found = [
        row for row in rows(pipelines.outputs(tmp_path)["dead.csv"]) if row["_cxl_dlq_error_category"] != "correlated"
    ]
    named = ("_cxl_dlq_source_row", "a", "_cxl_dlq_error_detail")
    assert [tuple(row[name] for name in named) for row in found] == expected
    assert {row["_cxl_dlq_source_name"] for row in found} == {"<merged>"}


def test_nulls_are_said_and_records_are_not_remarked_on(ran: Any, tmp_path: Path) -> None:
    data = "k,a,v\nk1,a,5\nk2,a,x\n" + "".join(f"n{number},a,5\n" for number in range(8))
    assert ran("size", data=data).exit_code == 2
    details = [row["_cxl_dlq_error_detail"] for row in rows(pipelines.outputs(tmp_path)["dead.csv"])]
    assert details == [
        "too much (row with size=null)",
        "row 2: field 'v': conversion failed: cannot convert 'x' to Int",
    ]


def test_the_failure_that_ends_a_run_says_it_too(ran: Any) -> None:
    error = ran("size", "fail_fast").error
    assert error is not None
    assert "too much (row with size=large)" in error.message

"""Rollback cursors in the metrics: how far each source has come with what counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.execute import pipelines, without_spark
from tests.execute.correlation.test_correlation import output
from tests.execute.correlation.test_retraction import HEAD, refusing, summed

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
      - type: source
        name: t
        config: {type: csv, glob: "other/*.csv", correlation_key: k,
          schema: {k: string, a: string, b: string, v: int}}
"""
CHECKED = "      - {type: transform, name: c, input: s, config: {cxl: emit w = 1 / v}}\n"


@pytest.fixture(params=[1, 5], ids=["whole", "split"])
def cursors(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    without_spark.install(monkeypatch)

    def run(pipeline: str, **data: str) -> dict[str, int]:
        files = {f"{name.replace('_', '/')}.csv": f"k,a,b,v\n{text}" for name, text in data.items()}
        pipelines.write(tmp_path, {"pipeline.yaml": pipeline, **files})
        if request.param > 1:
            pipelines.with_splits(monkeypatch, tmp_path, "in.csv", request.param)
        assert pipelines.run(tmp_path, metrics_spool_dir=str(tmp_path / "metrics")).result.error is None
        (path,) = (tmp_path / "metrics").iterdir()
        found: dict[str, int] = json.loads(path.read_text())["correlation"]["per_source_rollback_cursors"]
        return found

    return run


@pytest.mark.parametrize(("lines", "cursor"), [
    ("k1,a,b,1\nk2,a,b,1\nk3,a,b,1\n", {"s": 3}),
    ("k1,a,b,1\nk2,a,b,0\nk1,a,b,0\n", {"s": 1}),
    ("k1,a,b,0\nk2,a,b,0\n", {}),
    ("k1,a,b,0\nk1,a,b,2\nk2,a,b,x\n", {"s": 2}),
    ("", {}),
])  # fmt: skip
def test_a_source_has_come_as_far_as_its_last_record_that_has_not_failed(
    cursors: Any, lines: str, cursor: dict[str, int]
) -> None:
    """Collateral has come through: another record of its group failed."""
    assert cursors(HEAD + CHECKED + output("o", "c"), **{"in": lines}) == cursor


def test_what_is_taken_back_has_not_come_through(cursors: Any) -> None:
    stages = summed("x", "s", "a") + refusing("c", "x", 5) + output("o", "c")
    assert cursors(HEAD + stages, **{"in": "k1,a1,b,9\nk2,a2,b,7\nk3,a3,b,1\nk4,a3,b,1\n"}) == {"s": 2}


def test_no_cursor_is_behind_the_first_record_of_a_group_that_is_too_large(cursors: Any) -> None:
    """Rows 1 and 2 of one source and 2 and 3 of the other, which is in two files."""
    text = HEAD.replace("dlq:", "max_group_buffer: 3, dlq:") + OTHER
    text += "      - {type: merge, name: m, inputs: [s, t]}\n" + output("o", "m")
    data = {"in": "g,a,b,1\ng,a,b,2\n", "other_1": "h,a,b,3\ng,a,b,4\n", "other_2": "g,a,b,5\nh,a,b,6\n"}
    assert cursors(text, **data) == {"s": 1, "t": 2}

"""Whole runs that read or write interchanges and fixed-width files: what they warn of, and what ends them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines, without_spark
from tests.execute.bad_runs import run

if TYPE_CHECKING:
    from pathlib import Path

ISA = "ISA*00*          *00*          *ZZ*A              *ZZ*B              *240501*0900*U*00501*000000007*0*P*:~"


@pytest.fixture(params=["1000000", "40"], ids=["whole", "in splits"])
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", request.param)
    return tmp_path


def warnings(told: str) -> list[str]:
    """The warnings of a run that logs JSON."""
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    return [line["message"] for line in lines if line["level"].lower().startswith("warn")]


X12 = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: x12, path: in.x12, options: {max_elements: 3, trailers: warn}, SCHEMA}}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
""".replace(
    "SCHEMA", "schema: {seg_id: string, set_ref: string, set_type: string, e01: string, e02: string, e03: string}"
)


def test_a_count_that_does_not_fit_is_a_warning_where_trailers_say_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{ISA}GS*PO*A*B*1*1*7*X*1~ST*850*01*V~REF*a~SE*9*01~GE*1*7~IEA*1*000000007~"
    pipelines.write(here, {"pipeline.yaml": X12, "in.x12": text})
    assert run(here, "--log-format", "json") == 0
    says = "segment 5 (SE) at byte 144: the count of segments from ST to SE is 9, but there are 3; it is read on"
    assert warnings(capsys.readouterr().err) == [f"in.x12: {says}"]
    found = pipelines.outputs(here)["o.csv"].decode().splitlines()
    assert found[1:] == ["ST,01,850,850,01,V", "REF,01,850,a,,"]
    pipelines.write(here, {"pipeline.yaml": X12.replace(", trailers: warn", "")})
    assert run(here, "--force") == 4
    assert "the count of segments from ST to SE is 9, but there are 3" in capsys.readouterr().err

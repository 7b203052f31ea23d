"""Whole runs that read or write interchanges and fixed-width files: what they warn of, and what ends them."""

from __future__ import annotations

import csv
import io
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


FIXED = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {a: string, n: int}}}
  - {type: output, name: o, input: s, config: {type: fixed_width, path: out/o, OPTIONS schema: {fields: [
      {name: a, type: string, start: 0, width: 3}, {name: n, type: integer, start: 3, width: 4}]}}}
  - {type: output, name: c, input: s, config: {type: csv, path: out/c.csv}}
"""


def test_values_that_are_cut_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"ab{'cd' if number > 4 else ''},{number}\n" for number in range(40))
    pipelines.write(here, {"pipeline.yaml": FIXED.replace("OPTIONS", ""), "in.csv": "a,n\n" + rows})
    assert run(here, "--log-format", "json") == 0
    says = "output 'o': field 'a': values cut to its 3 bytes: 35; the first is 'abcd' of in.csv, row 6"
    assert warnings(capsys.readouterr().err) == [says]
    assert pipelines.outputs(here)["o"].decode().splitlines()[5] == "abc   5"
    silent = FIXED.replace("OPTIONS", "").replace("width: 3", "width: 3, truncation: silent")
    pipelines.write(here, {"pipeline.yaml": silent})
    assert run(here, "--force", "--log-format", "json") == 0
    assert warnings(capsys.readouterr().err) == []


INTERCHANGE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {seg_id: string, REF: string, e01: string}}}
  - {type: output, name: o, input: s, config: {type: KIND, path: out/o, ORDER options: {OPTIONS HEADER}}}
  - {type: output, name: c, input: s, config: {type: csv, path: out/c.csv}}
"""
X12_HEADER = f"interchange: {json.dumps(ISA[4:-1].split('*'))}, group_header: [PO, A, B, d, t, '1', X, v], set_type: V"
EDIFACT_HEADER = "interchange: ['UNOA:1', A, B, '1:1', R], message_type: T"
#: What has no place in a file, what is said of it, and how the file of the others begins.
UNWRITABLE = {
    "x12": ("a*b", "segment BEG: element 1 'a*b' has the delimiter '*', which X12 cannot escape", "ISA*"),
    "x12, line end": ('"a\n"', "segment BEG: the last element ends with a line end, which X12 cannot escape", "ISA*"),
    "x12, tag": ("BEGIN", "'BEGIN' is no tag of a segment, which has two or three letters or digits", "ISA*"),
    "edifact, tag": ("B1", "'B1' is no tag of a segment, which has three letters", "UNB+"),
    "fixed_width": ("12345", "field 'n': value '12345' (5 bytes) exceeds width 4", "ok"),
}


def unwritable(name: str, options: str, order: str) -> dict[str, str | bytes]:
    """A pipeline, and an input whose 25th row has no place in one of its outputs."""
    kind, value = name.partition(",")[0], UNWRITABLE[name][0]
    if kind == "fixed_width":
        rows = "".join(f"ok,{value if number == 24 else 1}\n" for number in range(40))
        written = f"options: {{{options}}}, {order}" if options else order
        return {"pipeline.yaml": FIXED.replace("OPTIONS", written), "in.csv": "a,n\n" + rows}
    reference = "set_ref" if kind == "x12" else "msg_ref"
    bad = f"{value},1,x" if "tag" in name else f"BEG,1,{value}"
    text = INTERCHANGE.replace("REF", reference).replace("KIND", kind).replace("ORDER", order)
    text = text.replace("HEADER", X12_HEADER if kind == "x12" else EDIFACT_HEADER)
    rows = "".join(f"{bad if number == 24 else f'BEG,1,{number}'}\n" for number in range(40))
    text = text.replace("OPTIONS", f"{options}, " if options else "")
    return {"pipeline.yaml": text, "in.csv": f"seg_id,{reference},e01\n{rows}".encode()}


@pytest.mark.parametrize("order", ["", "sort_order: [SORTED],"])
@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_value_that_has_no_place_ends_the_run_or_is_a_dead_letter(
    name: str, order: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, says, begins = UNWRITABLE[name]
    order = order.replace("SORTED", "n" if name == "fixed_width" else "e01")
    pipelines.write(here, unwritable(name, "", order))
    assert run(here) == 4
    told = capsys.readouterr().err
    assert "error[E900]: in.csv, row 25: output 'o': out/o: " in told
    assert says in told
    assert "record: {" in told
    assert pipelines.outputs(here) == {}
    pipelines.write(here, unwritable(name, "on_unwritable: dlq", order))
    assert run(here) == 2
    found = pipelines.outputs(here)
    assert found["o"].decode().startswith(begins)
    (letter,) = csv.DictReader(io.StringIO(found["dead.csv"].decode()))
    stage = letter["_cxl_dlq_stage"], letter["_cxl_dlq_error_category"], letter["_cxl_dlq_source_row"]
    assert stage == ("output:o", "type_coercion_failure", "25")
    assert says in letter["_cxl_dlq_error_detail"]
    assert len(list(csv.reader(io.StringIO(found["c.csv"].decode())))) == 41
    pipelines.write(here, {"pipeline.yaml": unwritable(name, "on_unwritable: dlq", order)["pipeline.yaml"].replace(  # type: ignore[union-attr,arg-type]
        "strategy: continue", "strategy: fail_fast")})  # fmt: skip
    assert run(here, "--force") == 3


def test_a_message_whose_type_nobody_says_names_the_record_that_opens_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = INTERCHANGE.replace("REF: string", "set_ref: string, set_type: string").replace("KIND", "x12")
    text = text.replace("ORDER", "").replace("OPTIONS HEADER", X12_HEADER.replace(", set_type: V", ""))
    records = [("BEG" if number % 20 else "ST", number // 20, "" if number > 19 else 850) for number in range(40)]
    rows = "".join(f"{tag},{reference},{kind},x\n" for tag, reference, kind in records)
    pipelines.write(here, {"pipeline.yaml": text, "in.csv": "seg_id,set_ref,set_type,e01\n" + rows})
    assert run(here) == 4
    told = capsys.readouterr().err
    assert "error[E900]: in.csv, row 21: output 'o': out/o: the type of the message '1' is not known" in told

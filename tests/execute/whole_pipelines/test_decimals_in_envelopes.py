"""Decimals in the envelopes of documents: read with all digits, counted on, merged, written into headers."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

SIZES = pytest.mark.parametrize("size", [10**9, 200, 40])
_ISA = "ISA*00*          *00*          *ZZ*A              *ZZ*B              *240501*0900*U*00401*{}*0*P*:~"


def _x12(total: str) -> str:
    return (
        _ISA.format(total.rjust(9, "0"))
        + "GS*PO*A*B*20240501*0900*1*X*004010~ST*850*01~REF*7~REF*8~SE*4*01~GE*1*1~"
        + (f"IEA*1*{total.rjust(9, '0')}~")
    )


def _edifact(total: str) -> str:
    return f"UNB+UNOA:1+ANNA+HUB+240501:0900+{total}'UNH+1+ORDERS'REF+7'REF+8'UNT+4+1'UNZ+1+{total}'"


def _json(total: str) -> str:
    return f'{{"rows": [{{"e01": "7"}}, {{"e01": "8"}}], "head": {{"total": {total}}}}}'


def _xml(total: str) -> str:
    return f"<d><r><e01>7</e01></r><r><e01>8</e01></r><head><total>{total}</total></head></d>"


_SECTION = "envelope: {{sections: {{h: {{extract: {{{}}}, fields: {{{}: {}}}}}}}}}"
#: A file with a total in its envelope, what its source says, the field that has the total.
FORMATS = {
    "x12": (_x12, "on_unmapped: drop, schema: {seg_id: string, e01: string}", "segment: ISA", "e13"),
    "edifact": (_edifact, "on_unmapped: drop, schema: {seg_id: string, e01: string}", "segment: UNB", "e05"),
    "json": (_json, "schema: {e01: string}, options: {record_path: rows}", "json_pointer: /head", "total"),
    "xml": (_xml, "schema: {e01: string}, options: {record_path: d/r}", "xml_path: d/head", "total"),
}


def _source(form: str, kind: str = '"decimal(12,3)"') -> str:
    _, config, place, field = FORMATS[form]
    section = _SECTION.format(place, field, kind)
    return f"  - {{type: source, name: {form}, config: {{type: {form}, glob: in/*.{form}, {config}, {section}}}}}\n"


def _pipeline(form: str) -> str:
    field = FORMATS[form][3]
    return f"""
pipeline: {{name: p}}
nodes:
{_source(form)}
  - type: transform
    name: t
    input: {form}
    config:
      cxl: |
        filter e01 == "7" or e01 == "8"
        emit total = $doc.h.{field}
        emit part = ($doc.h.{field} * 0.335d).round(2)
        emit is_large = $doc.h.{field} > 0.5d
  - {{type: output, name: o, input: t, config: {{type: csv, path: out/o.csv, exclude: [seg_id]}}}}
  - {{type: aggregate, name: a, input: t, config: {{group_by: [e01], cxl: "emit sum = sum(total)"}}}}
  - {{type: output, name: p, input: a, config: {{type: csv, path: out/p.csv}}}}
"""


def _half_up(number: Decimal) -> Decimal:
    found = number.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")
    return found if found else abs(found)


@SIZES
@pytest.mark.parametrize("form", FORMATS)
def test_a_field_of_an_envelope_is_exact(form: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, size)
    draw = random.Random(form)
    whole = 10**9 if form in ("json", "xml") else 10**4
    totals = [Decimal(draw.randrange(whole * 10**3)).scaleb(-3) for _ in range(4)]
    make = FORMATS[form][0]
    files = {f"in/{number}.{form}": make(str(total)) for number, total in enumerate(totals)}
    pipelines.write(tmp_path, {"pipeline.yaml": _pipeline(form), **files})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    out = pipelines.outputs(tmp_path)
    assert out["o.csv"].decode().splitlines()[1:] == [
        f"{key},{total},{_half_up(total * Decimal('0.335'))},{str(total > Decimal('0.5')).lower()}"
        for total in totals
        for key in ("7", "8")
    ]
    assert out["p.csv"].decode().splitlines()[1:] == [f"{key},{sum(totals)}" for key in ("7", "8")]


@pytest.mark.parametrize("total", ["1.2345", "1234567890.5"])
@pytest.mark.parametrize("form", ["json", "xml"])
def test_a_field_that_would_be_rounded_ends_the_run(
    form: str, total: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.write(tmp_path, {"pipeline.yaml": _pipeline(form), f"in/0.{form}": FORMATS[form][0](total)})
    result = pipelines.run(tmp_path).result
    assert result.exit_code == 4
    assert f"section 'h': field 'total': cannot convert '{total}' to Decimal(12,3)" in str(result.error)


@pytest.mark.parametrize("form", ["x12", "edifact"])
def test_an_interchange_that_would_be_rounded_is_told_with_its_segment(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.write(tmp_path, {"pipeline.yaml": _pipeline(form), f"in/0.{form}": FORMATS[form][0]("1.2345")})
    result = pipelines.run(tmp_path).result
    assert result.exit_code == 4
    assert "segment 1 " in str(result.error)
    assert "1.2345' to Decimal(12,3)" in str(result.error)


@SIZES
def test_documents_of_several_scales_meet(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, size)
    text = (
        "pipeline: {name: p}\nnodes:\n"
        + _source("json")
        + _source("xml", '"decimal(9,1)"')
        + """
  - {type: merge, name: m, inputs: [json, xml]}
  - type: transform
    name: t
    input: m
    config: {cxl: "emit total = $doc.h.total\\nemit twice = $doc.h.total * 2"}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
    )
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in/0.json": _json("1.25"), "in/0.xml": _xml("7")})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    lines = pipelines.outputs(tmp_path)["o.csv"].decode().splitlines()[1:]
    assert lines == ["7,1.250,2.500", "8,1.250,2.500", "7,7.0,14.0", "8,7.0,14.0"]


def test_a_header_is_written_with_all_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    text = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config:
      type: json
      path: in/0.json
      schema: {e01: string}
      options: {record_path: rows}
      envelope:
        sections:
          h:
            extract: {json_pointer: /head}
            fields: {e01: string, e02: string, e03: string, e04: string, e05: "decimal(12,3)"}
  - type: transform
    name: t
    input: s
    config: {cxl: "emit msg_ref = '1'\\nemit msg_type = 'A'\\nemit seg_id = 'REF'"}
  - type: output
    name: o
    input: t
    config: {type: edifact, path: out/o.edi, options: {interchange_from_doc: h}}
"""
    head = '{"e01": "UNOC:3", "e02": "A", "e03": "B", "e04": "260501:0930", "e05": 12.5}'
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in/0.json": f'{{"rows": [{{"e01": "1"}}], "head": {head}}}'})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    assert "+260501:0930+12.500'" in pipelines.outputs(tmp_path)["o.edi"].decode()

"""Dates in another language in each format: read by forms of the pipeline or a column, written by those of a schema."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from lxml import etree
from pyarrow import parquet

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY, MOMENT = "%A, %-d. %B %Y", "%a %d. %b %Y %H:%M"
ISO = [("2024-03-03", "2024-03-03T13:05:00"), ("2024-10-01", "2024-10-01T00:00:00"), ("2024-02-29", "")]
GERMAN = [
    ("Sonntag, 3. März 2024", "So. 03. März 2024 13:05"),
    ("Dienstag, 1. Oktober 2024", "Di. 01. Okt. 2024 00:00"),
    ("Donnerstag, 29. Februar 2024", ""),
]
ISA = "ISA*00*          *00*          *ZZ*SENDER         *ZZ*RECEIVER       *240101*1200*U*00401*000000905*0*P*:~"


def of_columns() -> bytes:
    sink = io.BytesIO()
    days, moments = zip(*GERMAN, strict=True)
    parquet.write_table(pa.table({"d": days, "t": [text or None for text in moments]}), sink)
    return sink.getvalue()


def of_blocks() -> bytes:
    sink = io.BytesIO()
    fields = [{"name": name, "type": ["null", "string"]} for name in "dt"]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    fastavro.writer(sink, schema, [{"d": d, "t": t or None} for d, t in GERMAN])
    return sink.getvalue()


def in_bytes(day: str, moment: str) -> bytes:
    return day.encode().ljust(30) + moment.encode().ljust(30)


#: The type of a source, its file, and what else its `config` says.
FILES: dict[str, tuple[str, bytes, str]] = {
    "csv": ("csv", "".join(f'"{d}";{t}\n' for d, t in GERMAN).encode(), "options: { has_header: false, delimiter: ; }"),
    "array": ("json", json.dumps([{"d": d, "t": t or None} for d, t in GERMAN]).encode(), ""),
    "lines": ("json", "".join(json.dumps({"d": d, "t": t or None}) + "\n" for d, t in GERMAN).encode(), ""),
    "exploded": (
        "json",
        json.dumps([{"l": [{"d": d, "t": t or None} for d, t in GERMAN]}]).encode(),
        "array_paths: [{ path: l }]",
    ),
    "xml": (
        "xml",
        f"<x>{''.join(f'<r><d>{d}</d><t>{t}</t></r>' for d, t in GERMAN)}</x>".encode(),
        "options: { record_path: x/r }",
    ),
    "fixed width": ("fixed_width", b"\n".join(in_bytes(d, t) for d, t in GERMAN), ""),
    "parquet": ("parquet", of_columns(), ""),
    "avro": ("avro", of_blocks(), ""),
    "edifact": (
        "edifact",
        f"UNB+UNOA:1+S+R+240101:1200+REF1'UNH+M1+X'{''.join(f'DTM+++{d}+{t}{chr(39)}' for d, t in GERMAN)}"
        "UNT+5+M1'UNZ+1+REF1'".encode(),
        "on_unmapped: drop",
    ),
    "x12": (
        "x12",
        f"{ISA}GS*PO*A*B*1*1*1*X*1~ST*850*1~{''.join(f'DTM***{d}*{t}~' for d, t in GERMAN)}SE*5*1~GE*1*1~"
        "IEA*1*000000905~".encode(),
        "on_unmapped: drop",
    ),
}


@pytest.fixture(autouse=True, params=["100000", "40"])
def _here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", request.param)


@pytest.mark.parametrize("is_of_pipeline", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_dates_are_read(name: str, is_of_pipeline: bool, tmp_path: Path) -> None:
    kind, data, more = FILES[name]
    days, moments = ("e03", "e04") if kind in ("edifact", "x12") else ("d", "t")
    forms = f"date_formats: ['{DAY}', '{MOMENT}']" if is_of_pipeline else ""
    columns = [(days, "date", DAY, 0), (moments, "datetime", MOMENT, 30)]
    declared = ", ".join(
        f"{{ name: {column}, type: {static}, start: {at}, width: 30"
        f"{'' if is_of_pipeline else f', format: {json.dumps(form)}'} }}"
        for column, static, form, at in columns
    )
    source = f"type: {kind}, path: in.x, format_schema: {{ fields: [{declared}] }}, {more}"
    cxl = f"filter not {days}.is_null()\\nemit d = {days}\\nemit t = {moments}"
    text = f"""
        pipeline: {{ name: p, date_locale: de, {forms} }}
        nodes:
          - {{ type: source, name: s, config: {{ {source} }} }}
          - {{ type: transform, name: x, input: s, config: {{ cxl: "{cxl}" }} }}
          - {{ type: output, name: o, input: x, config: {{ type: csv, path: out/o, include_unmapped: false }} }}
    """
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.x": data})
    outcome = pipelines.run(tmp_path).result
    assert outcome.error is None
    assert pipelines.outputs(tmp_path)["o"].decode() == "d,t\n" + "".join(f"{d},{t}\n" for d, t in ISO)


def of_xml(data: bytes) -> Any:
    return [(record.findtext("d"), record.findtext("t") or "") for record in etree.fromstring(data)]


def of_fixed_width(data: bytes) -> Any:
    return [(line[:30].decode().strip(), line[30:].decode().strip()) for line in data.splitlines()]


WRITTEN: dict[str, Callable[[bytes], Any]] = {
    "json": lambda data: [(record["d"], record.get("t", "")) for record in json.loads(data)],
    "xml": of_xml,
    "fixed_width": of_fixed_width,
    "parquet": lambda data: [
        (record["d"], record["t"] or "") for record in parquet.read_table(io.BytesIO(data)).to_pylist()
    ],
    "avro": lambda data: [(record["d"], record["t"] or "") for record in fastavro.reader(io.BytesIO(data))],
}


@pytest.mark.parametrize("order", ["", ", sort_order: [t]"])
@pytest.mark.parametrize("kind", WRITTEN)
def test_dates_are_written(kind: str, order: str, tmp_path: Path) -> None:
    fields = (
        f"{{ name: d, type: date, start: 0, width: 30, format: {json.dumps(DAY)} }}, "
        f"{{ name: t, type: datetime, start: 30, width: 30, format: {json.dumps(MOMENT)} }}"
    )
    output = f"type: {kind}, path: out/o, schema: {{ fields: [{fields}] }}{order}"
    text = f"""
        pipeline: {{ name: p, date_locale: de }}
        nodes:
          - {{ type: source, name: s, config: {{ type: csv, path: in.csv, schema: {{ d: date, t: date_time }} }} }}
          - {{ type: output, name: o, input: s, config: {{ {output} }} }}
    """
    rows = "d,t\n" + "".join(f"{d},{t}\n" for d, t in ISO)
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": rows})
    outcome = pipelines.run(tmp_path).result
    assert outcome.error is None
    assert WRITTEN[kind](pipelines.outputs(tmp_path)["o"]) == GERMAN


@pytest.mark.parametrize("kind", ["csv", *WRITTEN])
def test_a_part_of_a_date_is_written(kind: str, tmp_path: Path) -> None:
    fields = (
        "{ name: d, type: date, start: 0, width: 30, format: '%m.%Y' }, "
        "{ name: t, type: datetime, start: 30, width: 30, format: '%H:%M' }"
    )
    layout = f"schema: {{ fields: [{fields}] }}"
    text = f"""
        pipeline: {{ name: p }}
        nodes:
          - {{ type: source, name: s, config: {{ type: csv, path: in.csv, schema: {{ d: date, t: date_time }} }} }}
          - {{ type: transform, name: x, input: s, config: {{ cxl: "emit f = t.format_date('%H:%M')" }} }}
          - {{ type: output, name: o, input: s, config: {{ type: {kind}, path: out/o, {layout} }} }}
          - {{ type: output, name: f, input: x, config: {{ type: csv, path: out/f, include_unmapped: false }} }}
    """
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": "d,t\n2026-05-01,2026-05-01T09:30:00\n"})
    outcome = pipelines.run(tmp_path).result
    assert outcome.error is None
    found = pipelines.outputs(tmp_path)
    of_csv = {"csv": lambda data: [tuple(line.split(",")) for line in data.decode().splitlines()[1:]]}
    assert {**WRITTEN, **of_csv}[kind](found["o"]) == [("05.2026", "09:30")]
    assert found["f"] == b"f\n09:30\n"

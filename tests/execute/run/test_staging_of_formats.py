"""Staged copies of each format: a run that reads them gives what a run without staging gives, byte by byte."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_jobs.disk import volumes
from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan.compression import USUAL_ENDINGS, Compression
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - {{ type: source, name: s, config: {{ type: {type}, glob: 'in/*', {config} }} }}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        emit file = $source.file
        emit path = $source.path
        emit row = $source.row
        emit more = {more}
  - {{ type: output, name: o, input: t, config: {{ type: json, path: 'out/{{source_file}}.json' }} }}
"""
STAGING = '[storage.staging]\nenabled = true\ndir = "staging"\npatterns = ["in/*"]\ncleanup = "never"\n'
ROWS = [{"i": n if n != 7 else "x", "a": f"é {n % 5}", "d": f"2024-02-{n % 28 + 1:02}"} for n in range(60)]
SCHEMA = "schema: { i: int, a: string, d: date }"
LAYOUT = (
    "{ fields: [{ name: i, start: 0, width: 4, type: integer }, { name: a, start: 4, width: 7 }, "
    "{ name: d, start: 11, width: 10, type: date }] }"
)
ISA = "ISA*00*          *00*          *ZZ*SENDER         *ZZ*RECEIVER       *240101*1200*U*00401*000000905*0*P*:~"


def of_columns() -> bytes:
    sink = io.BytesIO()
    table = pa.table({"i": [*range(60)], "a": [row["a"] for row in ROWS], "more": [[n] for n in range(60)]})
    parquet.write_table(table, sink, row_group_size=7)
    return sink.getvalue()


def of_blocks() -> bytes:
    sink = io.BytesIO()
    fields = [{"name": "i", "type": "long"}, {"name": "a", "type": "string"}]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    fastavro.writer(sink, schema, [{"i": n, "a": ROWS[n]["a"]} for n in range(60)], "deflate", sync_interval=100)
    return sink.getvalue()


def section(place: str, field: str, kind: str = "int") -> str:
    return f"envelope: {{ sections: {{ h: {{ extract: {{ {place} }}, fields: {{ {field}: {kind} }} }} }} }}"


#: The format, a file, what its source says, and an expression that reads its envelope.
FILES: dict[str, tuple[str, bytes, str, str]] = {
    "csv": (
        "csv",
        ("i,a,d,z\n" + "".join(f'{row["i"]},{row["a"]},{row["d"]},"z\n"\n' for row in ROWS)).encode("utf-16"),
        f"{SCHEMA}, options: {{ encoding: utf-16 }}",
        "1",
    ),
    "lines": ("json", "".join(json.dumps(row) + "\n" for row in ROWS).encode(), SCHEMA, "1"),
    "array": (
        "json",
        json.dumps([{"l": [row]} for row in ROWS]).encode(),
        f"{SCHEMA}, array_paths: [{{ path: l }}]",
        "1",
    ),
    "object": (
        "json",
        json.dumps({"rows": ROWS, "head": {"n": 7}}).encode(),
        f"{SCHEMA}, options: {{ record_path: rows }}, {section('json_pointer: /head', 'n')}",
        "$doc.h.n",
    ),
    "xml": (
        "xml",
        (
            "<d><h><n>7</n></h>" + "".join(f"<r><i>{row['i']}</i><a>{row['a']}</a></r>" for row in ROWS) + "</d>"
        ).encode(),
        f"{SCHEMA}, options: {{ record_path: d/r }}, {section('xml_path: d/h', 'n')}",
        "$doc.h.n",
    ),
    "fixed width": (
        "fixed_width",
        "".join(f"{row['i']:<4}{row['a']:<6}{row['d']}\n" for row in ROWS).encode(),
        f"format_schema: {LAYOUT}",
        "1",
    ),
    "parquet": ("parquet", of_columns(), SCHEMA, "1"),
    "avro": ("avro", of_blocks(), SCHEMA, "1"),
    "edifact": (
        "edifact",
        b"UNB+UNOA:1+S+R+240101:1200+REF1'UNH+M1+ORDERS:D:96A:UN'BGM+220+A?+B'UNT+3+M1'UNZ+1+REF1'" * 3,
        f"schema: {{ seg_id: string, e01: string }}, {section('segment: UNB', 'e05', 'string')}",
        "$doc.h.e05",
    ),
    "x12": (
        "x12",
        f"{ISA}GS*PO*A*B*1*1*1*X*1~ST*850*0001~BEG*00*é~SE*3*0001~GE*1*1~IEA*1*000000905~".encode() * 3,
        f"schema: {{ seg_id: string, e01: string }}, {section('segment: ISA', 'e13', 'string')}",
        "$doc.h.e13",
    ),
}


def run(folder: Path, name: str, compression: Compression, settings: str) -> tuple[int, dict[str, Any]]:
    kind, data, config, more = FILES[name]
    packed = data if compression is Compression.NONE else pack(data, compression)
    end = USUAL_ENDINGS[compression]
    text = PIPELINE.format(type=kind, config=config, more=more)
    pipelines.write(folder, {"pipeline.yaml": text, "clinker.toml": settings})
    pipelines.write(folder, {f"in/{file}.x{end}": packed for file in ("a", "b")})
    outcome = pipelines.run(folder, force=True).result
    found: dict[str, Any] = dict(pipelines.outputs(folder))
    if letters := found.pop("dead.csv", b""):
        found["dead"] = [line.split(",", 2)[2] for line in letters.decode().splitlines()]
    return outcome.exit_code, found


@pytest.mark.thorough
@pytest.mark.parametrize("split_bytes", ["1000000", "100"])
@pytest.mark.parametrize(
    ("name", "compression"),
    [(name, Compression.NONE) for name in FILES]
    + [(name, Compression.GZIP) for name in FILES if name not in ("parquet", "avro")],
)
def test_copies_are_read_as_files_are(
    name: str, compression: Compression, split_bytes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setattr(volumes, "share_device", lambda first, second: False)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", split_bytes)
    (tmp_path / "staging").mkdir()
    expected = run(tmp_path, name, compression, "")
    assert expected[0] in (0, 2)
    assert {"a.json", "b.json"} <= {path.replace(".x", "") for path in expected[1]}
    for existing in ("overwrite", "reuse"):
        assert run(tmp_path, name, compression, f'{STAGING}on_existing = "{existing}"\n') == expected
    assert len([*(tmp_path / "staging").glob("*.staged")]) == 2

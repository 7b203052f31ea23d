"""Small files that unfold: the limit of memory holds for what they claim, and a run ends soon with words of its own.

Each round makes a file of some hundred bytes or some hundred kilobytes, which stands for megabytes or gigabytes, and
runs a pipeline over it in a child, whose memory is measured and limited. With `--real` the command runs it, and the
memory of all of its processes is counted.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.diagnostic import DiagnosticError
from spark_jobs.formats.avro import container
from tests.attack import rounds
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

#: What a task may hold in these runs, and how much more than before a process may have while it runs.
LIMIT, MOST_MORE = 64 << 20, 400 << 20
#: The same for the command, whose JVM has some of its own.
REAL_LIMIT, REAL_MOST = 256 << 20, 1800 << 20
#: A run ends by then; the machine may be busy.
_LIMIT_S, _REAL_LIMIT_S = 40.0, 180.0
_CLOCK_S = 6 * _LIMIT_S
#: Beyond this a child gets no memory, so that a finding does not take the machine.
_ADDRESSES = 6 << 30

#: The name of a file, its bytes, what is said of the source, and other files.
Made = tuple[str, bytes, str, dict[str, str]]


def _packed(table: pa.Table, chance: random.Random, **options: Any) -> bytes:
    sink = io.BytesIO()
    compression = chance.choice(["zstd", "gzip", "snappy", "none"])
    version = chance.choice(["1.0", "2.0"])
    stores = chance.random() < 0.5
    pq.write_table(table, sink, compression=compression, data_page_version=version, store_schema=stores, **options)
    return sink.getvalue()


def _dictionary(chance: random.Random) -> Made:
    size = chance.choice([10_000, 100_000, 1_000_000])
    rows = chance.choice([10, 3_000, 20_000_000_000 // size // 10])
    text = pa.array(["x" * size, "y"])
    table = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), text)})
    return "in.parquet", _packed(table, chance), "type: parquet, schema: {a: string}", {}


def _list(chance: random.Random) -> Made:
    values, rows = chance.choice([100_000, 3_000_000]), chance.choice([1, 2, 1000])
    offsets = [values * row // rows for row in range(rows + 1)]
    inner = chance.choice([pa.nulls(values, pa.int32()), pa.array([0] * values, pa.int64()), pa.array([""] * values)])
    table = pa.table({"a": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner)})
    return "in.parquet", _packed(table, chance), "type: parquet, schema: {a: array}", {}


def _cell(chance: random.Random) -> Made:
    table = pa.table({"a": ["x" * chance.choice([1 << 20, 60 << 20])] * chance.choice([1, 3])})
    encodings: dict[str, Any] = chance.choice(
        [{}, {"use_dictionary": False}, {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}]
    )
    return "in.parquet", _packed(table, chance, **encodings), "type: parquet, schema: {a: string}", {}


def _prefixes(chance: random.Random) -> Made:
    size, rows = chance.choice([(1000, 20_000), (100_000, 1000)])
    table = pa.table({"a": ["x" * size] * rows})
    data = _packed(table, chance, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
    return "in.parquet", data, "type: parquet, schema: {a: string}", {}


def _empty_columns(chance: random.Random) -> Made:
    columns, rows = chance.choice([(1, 1_000_000), (300, 2000)])
    table = pa.table({f"c{at}": pa.nulls(rows, pa.string()) for at in range(columns)})
    return "in.parquet", _packed(table, chance), "type: parquet, schema: {c0: string}", {}


def avro(schema: Any, records: int, data: bytes, words: bytes = b"", codec: str = "deflate") -> bytes:
    """An Avro file of one block, with any words in its header."""
    told = json.dumps(schema).encode()
    number = container.number
    if codec == "deflate":
        made = zlib.compressobj(9, wbits=-15)
        data = made.compress(data) + made.flush()
    pairs = [(b"avro.schema", told), (b"avro.codec", codec.encode())]
    head = b"".join(number(len(each)) + each for pair in pairs for each in pair)
    marker = b"\1" * 16
    return b"".join(
        [container.MAGIC, number(2), head, words, number(0), marker, number(records), number(len(data)), data, marker]
    )


def record(*kinds: Any) -> dict[str, Any]:
    """The schema of records of columns of some types, `a` the first."""
    fields = [{"name": "abcdefgh"[at % 8] + ("" if at < 8 else str(at)), "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": "r", "fields": fields}


def _avro_file(chance: random.Random) -> Made:
    number = container.number
    array = {"type": "array", "items": "long"}
    huge = chance.choice([1000, 10_000_000, 1_000_000_000, 1 << 40])
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": huge, "scale": huge}
    digits = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
    fixed = {"type": "fixed", "name": "f", "size": huge}
    own = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}
    count = chance.choice([1000, 2_000_000])
    zeros = chance.choice([100_000, 8_000_000])
    nested = {"type": "array", "items": {"type": "array", "items": "long"}}
    claimed = number(chance.choice([1 << 40, -(1 << 40)])) + number(8) + b"\0" * 8
    makers: list[Callable[[], bytes]] = [
        lambda: avro(record(decimal), 1, number(1) + b"\x05"),
        lambda: avro(record(digits), 1, number(zeros // 10) + b"\x7f" * (zeros // 10)),
        lambda: avro(record("string"), 1, b"\0", number(count) + b"\0\0" * count),
        lambda: avro(record("string"), count, b"\0" * count),
        lambda: avro(record(fixed), 1, b"\0" * 100),
        lambda: avro(own, 1, b"\0"),
        lambda: avro(record(array), 1, claimed),
        lambda: avro(record(array), 1, number(zeros) + b"\0" * zeros + b"\0"),
        lambda: avro(record(nested), 1, number(zeros) + b"\0" * zeros + b"\0"),
        lambda: avro(record({"type": "array", "items": "null"}), 1, number(1 << 40) + b"\0"),
        lambda: avro(record({"type": "map", "values": "null"}), 1, number(zeros) + b"\0" * (zeros + 1)),
        lambda: avro(record("string", *["null"] * 1500), 20_000, b"\0" * 20_000),
        lambda: avro(record("string"), 1 << 50, b"\0"),
        lambda: avro(record("string"), 1, number(1 << 40)),
    ]
    return "in.avro", chance.choice(makers)(), "type: avro, schema: {a: any}", {}


def _fixed_width(chance: random.Random) -> Made:
    fields, width = chance.choice([(5, 1 << 30), (40, 60 << 20), (200, 1 << 20), (2000, 1000)])
    layout = {"fields": [{"name": f"f{at}", "type": "string", "start": 0, "width": width} for at in range(fields)]}
    line = b"x" * chance.choice([10, 1 << 20]) + b"\n"
    said = "type: fixed_width, format_schema: layout.yaml, schema: {f0: string}, options: {compression: gzip}"
    return "in.dat.gz", gzip.compress(line * chance.choice([1, 20])), said, {"layout.yaml": json.dumps(layout)}


def _text(chance: random.Random) -> Made:
    size = chance.choice([1000, 1 << 20, 60 << 20])
    packers: list[tuple[Callable[[bytes], bytes], str, str]] = [
        (gzip.compress, "gz", "gzip"), (bz2.compress, "bz2", "bzip2"), (_zstandard, "zst", "zstd")
    ]  # fmt: skip
    pack, ending, codec = chance.choice(packers)
    makers: list[tuple[str, Callable[[], bytes]]] = [
        ("type: csv", lambda: b"a\n" + b"x" * size + b"\n"),
        ("type: csv", lambda: b'a\n"' + b"\n" * size),
        ("type: csv", lambda: b"a" * size + b"\n1\n"),
        ("type: json", lambda: b'{"a": "' + b"x" * size + b'"}\n'),
        ("type: json", lambda: b'{"a": [' + b"0," * (size // 2) + b"0]}\n"),
        ("type: json", lambda: b"[" * min(size, 1 << 20)),
        ("type: json", lambda: b'{"a":' * min(size, 1 << 20)),
        ("type: json, array_paths: [{path: a}]", lambda: b'{"a": [' + b"0," * (size // 2) + b"0]}\n"),
    ]
    kind, data = chance.choice(makers)
    said = f"{kind}, schema: {{a: any}}, options: {{compression: {codec}}}"
    return f"in.txt.{ending}", pack(data()), said, {}


def _names(chance: random.Random) -> Made:
    """Records and headers that are looked into before anything is read: names are long, or what has them is."""
    size = chance.choice([1 << 20, 18 << 20, 60 << 20])
    text = chance.choice(_TEXT_NAMES)
    if chance.random() < 0.8:
        kind, options, data = text
        packed = gzip.compress(data(size))
        said = f"type: {kind}, options: {{compression: gzip{options}}}, schema: {{k: string}}"
        return "in.txt.gz", packed, said, {}
    return chance.choice(_BINARY_NAMES)(size)


def _repeated(text: bytes, size: int) -> bytes:
    return text * (size // len(text))


#: Formats, options, and what makes so many bytes.
_TEXT_NAMES: list[tuple[str, str, Callable[[int], bytes]]] = [
    ("csv", "", lambda size: b"k," + b"a" * size + b"\n1,2\n"),
    ("csv", "", lambda size: b"b" * size + b"\n1\n"),
    ("csv", "", lambda size: b"k" + b"," * size + b"\n1\n"),
    ("csv", "", lambda size: b"k;" * (size // 2) + b"\n1\n"),
    ("csv", "", lambda size: b'k,"' + b'""' * (size // 2) + b'"\n1,2\n'),
    ("csv", "", lambda size: b'k,"' + b"a\n" * (size // 2)),
    ("csv", "", lambda size: b'k,a\n1,"' + b'""' * (size // 2) + b'"\n'),
    ("csv", ", header_rows: 9", lambda size: (b"k," + b"a" * (size // 9) + b"\n") * 9 + b"1,2\n"),
    ("csv", ", has_header: false", lambda size: (b"k," * 3 + b"a" * (size // 4) + b"\n") * 4),
    ("csv", ", skip_footer: 1", lambda size: b"k\n1\n" + b"a" * size + b"\nend\n"),
    ("csv", ", trim: true", lambda size: b"k," + b" " * size + b"a\n1,2\n"),
    ("json", "", lambda size: b'{"a": [' + _repeated(b"0,", size) + b"0]}\n"),
    ("json", "", lambda size: b'{"a": [' + _repeated(b"[],", size) + b"0]}\n"),
    ("json", "", lambda size: b'{"a": [' + _repeated(b'{"b":1},', size) + b"0]}\n"),
    ("json", "", lambda size: b'{"' + b"a" * size + b'": 1}\n'),
    ("json", "", lambda size: b'{"k": "1", "a": "' + b"\\u00e9" * (size // 6) + b'"}\n'),
    ("json", "", lambda size: b"\n" * size + b'{"k": "1", "a": 1}\n'),
    ("json", "", lambda size: b" " * size + b'[{"k": "1", "a": 1}]'),
    ("json", ", format: array", lambda size: b'[{"k": "1", "a": [' + _repeated(b"0,", size) + b"0]}]"),
    ("json", ", record_path: d", lambda size: b'{"x": [' + _repeated(b"0,", size) + b'0], "d": [{"k": "1", "a": 2}]}'),
    ("json", ", record_path: d", lambda size: b'{"d": [{"k": "1", "a": [' + _repeated(b"0,", size) + b"0]}]}"),
    ("json", ", record_path: d", lambda size: b'{"d": [], "d": [{"k": "' + b"x" * size + b'"}]}'),
    ("xml", ", record_path: r/o", lambda size: b"<r><o><a>" + b"x" * size + b"</a></o></r>"),
    ("xml", ", record_path: r/o", lambda size: b"<r><o>" + _repeated(b"<a/>", size) + b"</o></r>"),
    ("xml", ", record_path: r/o", lambda size: b"<r><o><" + b"a" * size + b">1</" + b"a" * size + b"></o></r>"),
    ("xml", ", record_path: r/o", lambda size: b'<r><o a="' + b"x" * size + b'"/></r>'),
    ("xml", ", record_path: r/o", lambda size: b"<r><!--" + b"x" * size + b"--><o><k>1</k></o></r>"),
    ("xml", ", record_path: r/o", lambda size: b"<r>" + b" " * size + b"<o><k>1</k></o></r>"),
    ("edifact", "", lambda size: b"UNB+UNOA:1+A+B+260101:0000+1'UNH+1+ORDERS:D:96A:UN'FTX+" + b"x" * size + b"'"),
    ("x12", "", lambda size: b"ISA" + b"*" * size),
]  # fmt: skip


def long_avro_schema(size: int) -> Made:
    """A schema of many columns."""
    schema = record("string")
    schema["fields"] += [{"name": f"n{at}", "type": ["null", "string"]} for at in range(size // 400)]
    data = avro(schema, 1, b"\0" * (1 + size // 400))
    return "in.avro", data, "type: avro, schema: {a: string}", {}


def long_avro_doc(size: int) -> Made:
    """A schema with a long text in it."""
    schema = {**record("string"), "doc": "x" * min(size, 14 << 20)}
    return "in.avro", avro(schema, 1, b"\0"), "type: avro, schema: {a: string}", {}


def long_parquet_footer(size: int) -> Made:
    """A footer with a long text in it."""
    table = pa.table({"a": ["1"]}).replace_schema_metadata({"words": "x" * size})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return "in.parquet", sink.getvalue(), "type: parquet, schema: {a: string}", {}


def long_orc_footer(size: int) -> Made:
    """A footer that names a column of so many letters."""
    sink = io.BytesIO()
    orc.write_table(pa.table({"a": ["1"], "b" * size: ["2"]}), sink, compression="zlib")
    return "in.orc", sink.getvalue(), "type: orc, schema: {a: string}", {}


def long_excel_header(size: int) -> Made:
    """A sheet whose header has a name of so many letters."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in _WORKBOOK.items():
            book.writestr(name, text.replace("{long}", "b" * size))
    return "in.xlsx", sink.getvalue(), "type: excel, schema: {a: string}", {}


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_CELL = '<c r="{}" t="inlineStr"><is><t>{}</t></is></c>'
#: The parts of a workbook with one sheet, whose header has a long name.
_WORKBOOK = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" '
    'ContentType="application/xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}"><sheets>'
    '<sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{_RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}"><sheetData><row r="1">{_CELL.format("A1", "a")}'
    f'{_CELL.format("B1", "{long}")}</row><row r="2">{_CELL.format("A2", "1")}</row></sheetData></worksheet>',
}
_BINARY_NAMES = [long_avro_schema, long_avro_doc, long_parquet_footer, long_orc_footer, long_excel_header]


def _zstandard(data: bytes) -> bytes:
    """Bytes in a frame of zstd."""
    found: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return found


def _json(chance: random.Random) -> Made:
    size = chance.choice([1000, 100_000, 1_000_000])
    opened, closed = chance.choice([("[", "]"), ('{"a":', "}")])
    depth = chance.choice([size, 0])
    makers: list[Callable[[], str]] = [
        lambda: '{"a": ' + opened * size + "1" + closed * depth + "}\n",
        lambda: "[" * size + "]" * depth,
        lambda: '{"a": ' + "9" * size + "}\n",
        lambda: '{"a": 0.' + "1" * size + "}\n",
        lambda: '{"a": 1e' + "9" * size + "}\n",
        lambda: '{"a": "' + "\\u0041" * size + '"}\n',
        lambda: "{" + ",".join(f'"c{at}": 1' for at in range(size)) + "}\n",
        lambda: "{" + '"a": 1,' * size + '"a": 1}\n',
    ]
    kind = chance.choice(["int", "float", "string", "any", "decimal", "map", "array"])
    layout = chance.choice(["", ", options: {format: array}", ", options: {record_path: a}"])
    return "in.json", chance.choice(makers)().encode(), f"type: json, schema: {{a: {kind}}}{layout}", {}


def _csv(chance: random.Random) -> Made:
    size = chance.choice([1000, 100_000, 1_000_000])
    makers: list[Callable[[], str]] = [
        lambda: ",".join(f"c{at}" for at in range(size)) + "\n1\n",
        lambda: "a\n" + "," * size + "\n",
        lambda: "," * size + "\n" + "," * size,
        lambda: 'a\n"' + "x\n" * size,
        lambda: 'a,b\n1,"' + '""' * size,
        lambda: "a\n" + "\n" * size,
        lambda: "a\n" + "9" * size + "\n",
    ]
    kind = chance.choice(["int", "string", "decimal", "any"])
    option = chance.choice(["", "has_header: false", "ragged: pad", "quotes: strict"])
    said = f"type: csv, schema: {{a: {kind}}}, options: {{{option}}}"
    return "in.csv", chance.choice(makers)().encode(), said, {}


def _interchange(chance: random.Random) -> Made:
    size = chance.choice([1000, 100_000, 1_000_000])
    isa = "ISA*00*          *00*          *ZZ*A              *ZZ*B              *260101*0000*U*00401*000000001*0*P*>~"
    head = f"{isa}GS*PO*A*B*20260101*0000*1*X*004010~ST*850*0001~"
    unb = "UNB+UNOA:1+A+B+260101:0000+1'UNH+1+ORDERS:D:96A:UN'"
    makers: list[tuple[str, Callable[[], str]]] = [
        ("x12", lambda: head + "REF*" + "x" * size),
        ("x12", lambda: head + "REF*1~" * size),
        ("x12", lambda: head + "REF" + "*1" * size + "~"),
        ("x12", lambda: head + "ST*850*0001~" * size),
        ("x12", lambda: isa[: chance.randint(1, 105)] + "*" * size),
        ("x12", lambda: head + "\n" * size),
        ("edifact", lambda: unb + "FTX+" + "?" * size),
        ("edifact", lambda: unb + "FTX" + "+1" * size + "'"),
        ("edifact", lambda: unb + "FTX+" + "1:" * size + "'"),
        ("edifact", lambda: unb + "BGM+1'" * size),
    ]
    kind, data = chance.choice(makers)
    return f"in.{kind}", data().encode(), f"type: {kind}, schema: {{seg_id: string, e01: string}}", {}


def _xml(chance: random.Random) -> Made:
    size = chance.choice([1000, 100_000, 1_000_000])
    ends = chance.choice([0, size])
    makers: list[Callable[[], str]] = [
        lambda: "<r><o " + " ".join(f'a{at}="1"' for at in range(size)) + "/></r>",
        lambda: "<r><o>" + "<a>" * size + "</a>" * ends + "</o></r>",
        lambda: "<a>" * size + "</a>" * ends,
        lambda: "<r><o a='" + "x" * size,
        lambda: "<r><o><!--" + "-" * size,
        lambda: "<r><o><" + "a" * size + "/></o></r>",
        lambda: "<r><o>" + "<a/>" * size + "</o></r>",
        lambda: "<r><o>" + "&amp;" * size + "</o></r>",
        lambda: "<r><o>" + "".join(f"<a{at}/>" for at in range(size)) + "</o></r>",
        lambda: "<r>" + "".join(f"<o xmlns:n{at}='u{at}'>" for at in range(size)) + "</r>",
    ]
    kind = chance.choice(["int", "string", "any", "array"])
    paths = chance.choice(["", ", array_paths: [{path: a, mode: explode}]", ", array_paths: [{path: a, mode: join}]"])
    said = f"type: xml, options: {{record_path: r/o}}, schema: {{a: {kind}}}{paths}"
    return "in.xml", chance.choice(makers)().encode(), said, {}


def _elements(chance: random.Random) -> Made:
    """Arrays that become records, beside a text that each of these has."""
    wide, count = chance.choice([(10, 1_000_000), (1000, 300_000), (300_000, 9_000), (10_000, 60_000)])
    mode = chance.choice(["explode", "join"])
    paths = f"array_paths: [{{path: a, mode: {mode}}}]"
    element = chance.choice(["1", '{"q": 1}', "null"])
    data = '{"k": "' + "x" * wide + '", "a": [' + f"{element}," * count + f"{element}]}}\n"
    if chance.random() < 0.5:
        return "in.json", data.encode(), f"type: json, schema: {{k: string, a: any}}, {paths}", {}
    text = f"<r><o><k>{'x' * wide}</k>{'<a>1</a>' * count}</o></r>"
    said = f"type: xml, options: {{record_path: r/o}}, schema: {{k: string, a: any}}, {paths}"
    return "in.xml", text.encode(), said, {}


def _pipeline(chance: random.Random) -> Made:
    """Files of YAML and programs that nest, or stand for very much."""
    size = chance.choice([1000, 100_000, 1_000_000])
    opened, inside, closed = chance.choice(
        [("(", "1", ")"), ("-", "1", ""), ("not ", "true", ""), ("if true then ", "1", " else 1"), ("[", "1", "]"),
         ("{a: ", "1", "}"), ("a ?? ", "1", ""), ("match a { 1 => ", "1", " }"), ("a.map(it => ", "it", ")")]
    )  # fmt: skip
    nested = f"emit v = {opened * size}{inside}{closed * chance.choice([0, size])}"
    blocks = "emit each x in a { " * size
    layers = [f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 10)]
    makers: list[Callable[[], str]] = [
        lambda: _PIPELINE.format(program=json.dumps(nested)),
        lambda: _PIPELINE.format(program=json.dumps(blocks)),
        lambda: _PIPELINE.format(program=json.dumps(f"emit v = {'9' * size}")),
        lambda: _PIPELINE.format(program=json.dumps('emit v = "' + "x" * size)),
        lambda: "[" * size,
        lambda: "{a: " * size,
        lambda: "a: " + "&x " * size,
        lambda: "- " * size,
        lambda: "\n".join(["l0: &l0 [1]", *layers, _PIPELINE.format(program="emit v = 1")]),
        lambda: "pipeline: { name: " + "p" * size + " }\n",
        lambda: "? " * size,
    ]
    return "in.csv", b"a\n1\n", "", {"pipeline.yaml": chance.choice(makers)()}


def _blocks(chance: random.Random) -> Made:
    """Arrays whose elements become records, with a long text that the block reads for each of them."""
    size, count = chance.choice([(10**6, 100), (10**6, 10**4), (10**6, 10**5), (10**5, 10**4), (100, 10**6)])
    line = json.dumps({"w": "x" * size, "a": [1] * count}).encode() + b"\n"
    programs = [
        ("", "emit v = w.length()"),
        ("", "emit v = w + it.to_string()"),
        ("let b = w + w\n", "emit v = b.length() + it"),
        ("", "emit meta m = w\nemit v = $meta.m.length()"),
        ("emit w = w + 'y'\n", "emit v = w.length()"),
    ]
    first, inside = chance.choice(programs)
    program = f"{first}emit each it in a {{\n{inside}\nemit w = 1\n}}"
    text = _PIPELINE.format(program=json.dumps(program)).replace("in.csv, type: csv", "in.json, type: json")
    return "in.json", line, "", {"pipeline.yaml": text.replace("{ a: int }", "{ w: string, a: array }")}


_PIPELINE = """\
pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: s, config: {{ path: in.csv, type: csv, schema: {{ a: int }} }} }}
  - {{ type: transform, name: t, input: s, config: {{ cxl: {program} }} }}
  - {{ type: output, name: o, input: t, config: {{ type: csv, path: out/o.csv }} }}
"""

_KINDS = {
    "dictionary": _dictionary,
    "list": _list,
    "cell": _cell,
    "prefixes": _prefixes,
    "empty columns": _empty_columns,
    "avro": _avro_file,
    "fixed width": _fixed_width,
    "text": _text,
    "names": _names,
    "json": _json,
    "csv": _csv,
    "interchange": _interchange,
    "xml": _xml,
    "elements": _elements,
    "pipeline": _pipeline,
    "blocks": _blocks,
}


def _write(folder: Path, made: Made, *, is_filtered: bool) -> None:
    name, data, said, others = made
    node = "{ type: transform, name: t, input: s, config: { cxl: 'filter false' } }" if is_filtered else ""
    pipelines.write(folder, {**others, name: data})
    lines = [
        "pipeline: { name: p }",
        "nodes:",
        f"  - {{ type: source, name: s, config: {{ name: s, path: {name}, {said} }} }}",
        f"  - {node}" if node else "",
        f"  - {{ type: output, name: o, input: {'t' if node else 's'}, "
        "config: { name: o, type: csv, path: out/o.csv } }",
    ]
    if "pipeline.yaml" not in others:
        (folder / "pipeline.yaml").write_text("\n".join(line for line in lines if line) + "\n")


def _child(folder: Path, channel: int) -> None:
    """Run the pipeline and tell of its end; in a process of its own, which ends here."""
    try:
        without_spark.install(pytest.MonkeyPatch())
        with open(os.devnull, "w") as nothing:
            sys.stderr = sys.stdout = nothing
            result = pipelines.run(folder, force=True, threads=1, memory_limit_bytes=LIMIT, quiet=True).result
        told: dict[str, Any] = {"exit": result.exit_code, "code": result.error.code if result.error else None}
        told["message"] = str(result.error)[:500]
    except DiagnosticError as refused:
        told = {"exit": int(ExitCode.CONFIG), "code": "refused before it runs", "message": str(refused)[:500]}
    except BaseException:  # noqa: BLE001 - a finding is whatever is raised
        told = {"exit": None, "code": "raised", "message": traceback.format_exc()[-1500:]}
    os.write(channel, json.dumps(told).encode())
    os._exit(0)


def _in_child(folder: Path) -> tuple[dict[str, Any], int]:
    before = psutil.Process().memory_info().rss
    inward, outward = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(inward)
        _child(folder, outward)
    os.close(outward)
    limit = _ADDRESSES + psutil.Process().memory_info().vms
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
    resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    began = time.monotonic()
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > _CLOCK_S:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    data = os.read(inward, 1 << 16)
    os.close(inward)
    assert data, f"the process ended with {status} after {time.monotonic() - began:.0f} s"
    took = usage.ru_utime + usage.ru_stime
    assert took < _LIMIT_S, f"it took {took:.0f} s: {data!r}"
    return json.loads(data), usage.ru_maxrss * 1024 - before


def _by_command(folder: Path) -> tuple[dict[str, Any], int]:
    command = [str(Path(sys.executable).parent / "clinker"), "run", "pipeline.yaml", "--force"]
    command += ["--threads", "1", "--memory-limit", str(REAL_LIMIT)]
    run = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    began, peak = time.monotonic(), 0
    while run.poll() is None:
        peak = max(peak, _size_of_tree(run.pid))
        if time.monotonic() - began > _REAL_LIMIT_S:
            for each in [*psutil.Process(run.pid).children(recursive=True), psutil.Process(run.pid)]:
                each.kill()
            raise AssertionError(f"it took more than {_REAL_LIMIT_S} s")
        time.sleep(0.05)
    assert run.stdout is not None
    told = run.stdout.read()
    assert "Traceback" not in told, told[-2000:]
    code = told.partition("error[")[2].partition("]")[0] or None
    return {"exit": run.returncode, "code": code, "message": told[-500:]}, peak


def _size_of_tree(pid: int) -> int:
    size = 0
    try:
        for each in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            try:
                size += each.memory_info().rss
            except psutil.NoSuchProcess:
                continue  # it ended meanwhile
    except psutil.NoSuchProcess:
        return size
    return size


def hold(folder: Path, made: Made, *, is_filtered: bool = False, is_real: bool = False) -> str:
    """Run a pipeline over a file; gives a word for what became of it.

    Raises:
        AssertionError: it takes too long or too much, or ends without words of its own.
    """
    _write(folder, made, is_filtered=is_filtered)
    told, peak = _by_command(folder) if is_real else _in_child(folder)
    assert told["exit"] in {*map(int, ExitCode)} - {int(ExitCode.INTERRUPTED)}, told
    assert told["code"] not in ("E905", "E904", "raised"), told["message"]
    assert told["exit"] in (0, 2) or told["code"], told
    most = REAL_MOST if is_real else MOST_MORE
    assert peak < most, f"{peak >> 20} MB at {len(made[1])} bytes of {made[0]}: {told}"
    return "read" if told["exit"] in (0, 2) else str(told["code"])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = rounds.parser("hostile_files", 200, "small files that unfold, in a measured process")
    options.add_argument("--real", action="store_true", help="run the command on embedded Spark")
    options.add_argument("--kind", choices=[*_KINDS], help="files of one kind alone")
    chosen = options.parse_args(arguments)

    def one(chance: random.Random, folder: Path) -> str:
        kind = chosen.kind or chance.choice([*_KINDS])
        is_filtered = chance.random() < 0.3
        made = _KINDS[kind](chance)
        return f"{kind} {hold(folder, made, is_filtered=is_filtered, is_real=chosen.real)}"

    return rounds.rounds("hostile_files", chosen, one)


if __name__ == "__main__":
    sys.exit(main())

"""Small files of every format with changed bytes: all records are good or failures, or the file is refused, soon."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import fastavro
import fastavro.write
import pyarrow as pa
from pyarrow import orc, parquet

from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv.options import Quoting, Ragged
from spark_jobs.formats.edi.settings import Trailers
from spark_jobs.formats.fixed_width.options import LineSeparator
from spark_jobs.formats.format import ArrayPath, Reading, Section, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.formats.rules.declared import Rules
from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError
from tests.attack import rounds
from tests.formats.csv.files import Result

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: One file is read by then, several times.
_LIMIT_S = 10.0
_NUMBERED = tuple(SourceColumn(name, types.STRING) for name in ("seg_id", "msg_ref", "e01", "set_ref"))
_COLUMNS = (
    SourceColumn("a", types.STRING, rules=Rules(default="-")),
    SourceColumn("i", types.INT, required=True, rules=Rules(whole=3)),
    SourceColumn("f", types.FLOAT, rules=Rules(default="0", fraction=2)),
    SourceColumn("d", types.DATE),
    SourceColumn("b", types.BOOL),
    SourceColumn("x", types.ANY),
)


@dataclass(frozen=True)
class Sample:
    """A small file.

    Args:
        format: its format.
        data: its bytes.
        options: how it is read.
        columns: what is declared of it.
        layout: its format schema, in formats that need one.
        arrays: arrays that make several records.
        sections: what is read of its envelope.
        compression: how it is compressed.
        tries: how many of its bytes the test changes; an ORC file that is broken may cost a process.
    """

    format: str
    data: bytes
    options: dict[str, Any] = field(default_factory=dict)
    columns: tuple[SourceColumn, ...] = _COLUMNS
    layout: Any = None
    arrays: tuple[ArrayPath, ...] = ()
    sections: tuple[Section, ...] = ()
    compression: Compression = Compression.NONE
    tries: int = 300

    def read(self, path: Path, data: bytes, size: int) -> Result:
        """The records of some bytes in splits of a size.

        Raises:
            FormatError: the file is refused.
        """
        path.write_bytes(data)
        known = registry.named(self.format)
        reader = known.reader(known.read_options(**self.options), self.arrays, self.layout)
        file = replace(files.describe(str(path), path.name), compression=self.compression)
        scan = reader.plan(tuple(column.key for column in self.columns), [file], OnUnmapped.AUTO_WIDEN)
        wanted = Reading(self.columns, scan.undeclared, failure_texts=True, sections=self.sections)
        if known.is_framed:
            wanted = replace(wanted, block_bytes=size)  # they are never split
        cut = splits.plan(scan.files, size)
        result, is_consistent = _result(reader, scan, cut, wanted)
        if not is_consistent:
            # A guessed border was wrong, which a run finds as well.
            result, is_consistent = _result(reader, scan, reader.exact_splits(scan.files[0], cut), wanted)
        assert is_consistent
        return result


def _result(reader: Any, scan: Any, cut: Sequence[splits.Split], wanted: Reading) -> tuple[Result, bool]:
    result, is_consistent = Result(), True
    for split in cut:
        outcome, offset = SplitOutcome(), result.count
        for block in reader.read(split, scan.files[split.file], wanted, outcome):
            result.add(block, offset)
        assert outcome.records == result.count - offset
        is_consistent &= outcome.is_consistent
    return result, is_consistent


def _layout(*records: tuple[str, tuple[dict[str, Any], ...]]) -> Any:
    kinds = tuple(
        (("id", tag), ("tag", tag), ("fields", tuple(tuple(one.items()) for one in fields))) for tag, fields in records
    )
    return ("records", kinds), ("discriminator", (("start", 0), ("width", 1)))


def _parquet() -> bytes:
    sink = io.BytesIO()
    table = pa.table({"a": ["x", None, "y"], "i": [1, 2, 3], "f": [0.5, None, 2.25], "more": [[1], [], None]})
    parquet.write_table(table, sink, row_group_size=2)
    return sink.getvalue()


def _orc(codec: str) -> bytes:
    """A file of three stripes, with values of every shape in it."""
    sink = io.BytesIO()
    columns = {
        "a": ["x", None, "é"],
        "i": [1, 22, 333],
        "f": [0.5, None, 2.25],
        "d": pa.array([date(2024, 2, 29), date(1, 1, 1), None]),
        "b": [True, False, None],
        "x": [[1], [], None],
        "n": [{"k": "p"}, {"k": None}, None],
    }
    table = pa.table(columns)
    with orc.ORCWriter(sink, compression=codec, stripe_size=1, batch_size=1) as writer:
        for row in range(3):
            writer.write(table.slice(row, 1))
    return sink.getvalue()


def _avro(codec: str) -> bytes:
    """A file of two blocks, with values of every shape in it."""
    sink = io.BytesIO()
    plain = [{"name": name, "type": ["null", kind]} for name, kind in (("a", "string"), ("f", "double"))]
    nested = {"type": "map", "values": {"type": "array", "items": ["null", "long", "string"]}}
    kind = {"type": "enum", "name": "k", "symbols": ["p", "q"]}
    inner = {"type": "record", "name": "n", "fields": [{"name": "k", "type": kind}, {"name": "b", "type": "boolean"}]}
    day = {"type": "int", "logicalType": "date"}
    others = zip("ixnd", ("long", nested, inner, day), strict=True)
    fields = [*plain, *({"name": name, "type": one} for name, one in others)]
    records = [
        {"a": "é", "f": 0.5, "i": 1, "x": {"k": [1, None, "v"]}, "n": {"k": "p", "b": True}, "d": date(2024, 2, 29)},
        {"a": None, "f": None, "i": 22, "x": {}, "n": {"k": "q", "b": False}, "d": date(1, 1, 1)},
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    writer = fastavro.write.Writer(sink, schema, codec, sync_marker=b"0123456789abcdef")
    for record in records:
        writer.write(record)
        writer.dump()
    writer.flush()
    return sink.getvalue()


_LINES = 'a,i,f,d,b,x\nx,1,2.5,2024-02-29,true,é\n"q""\n,",22,,,no,\n,333,0.25,2024-03-01,,1\n'.encode()
_KINDS = _layout(
    ("H", ({"name": "a", "start": 1, "width": 3}, {"name": "d", "start": 4, "width": 10})),
    (
        "I",
        (
            {"name": "i", "start": 1, "width": 3, "type": "integer", "pad": "0", "justify": "right"},
            {"name": "f", "start": 4, "width": 4, "type": "decimal", "scale": 2},
        ),
    ),
)
_OBJECTS = [
    '{"a":"é\\n","i":1,"f":2.5,"d":"2024-02-29","b":true,"x":{"k":[1,null]}}',
    '{"i":22,"more":[12345678901234567890],"u":1e999,"v":-1e400}',
]
_ISA = "ISA*00*          *00*          *ZZ*SENDER         *ZZ*RECEIVER       *240101*1200*U*00401*000000905*0*P*:~"
_WRAPPED = f"{_ISA}GS*PO*A*B*1*1*1*X*1~ST*850*0001~{'REF*ZZ*éa~' * 9}SE*11*0001~GE*1*1~IEA*1*000000905~".encode()
SAMPLES = {
    "csv": Sample("csv", _LINES),
    "csv, ragged": Sample(
        "csv", b"sep=,\n" + _LINES, {"ragged": Ragged.BOTH, "quotes": Quoting.STRICT, "skip_rows": 1}
    ),
    "csv without header": Sample("csv", b"x,1,2.5,2024-02-29,true,e,more\n" + _LINES[12:], {"has_header": False}),
    "csv in UTF-16": Sample("csv", _LINES.decode().encode("utf-16"), {"encoding": "utf-16"}),
    "gzip": Sample(
        "csv", pack(_LINES[:30], Compression.GZIP) + pack(_LINES[30:], Compression.GZIP), compression=Compression.GZIP
    ),
    "ndjson": Sample("json", "\n".join(_OBJECTS).encode()),
    "array": Sample("json", f"[{', '.join(_OBJECTS)}]".encode()),
    "object": Sample(
        "json",
        f'{{"Head": {{"n": 7}}, "rows": [{",".join(_OBJECTS)}]}}'.encode(),
        {"record_path": "rows"},
        sections=(Section("h", "json_pointer", "/Head", (("n", types.INT),)),),
    ),
    "exploded": Sample("json", b'[{"i":1,"l":[{"a":"x"},{"a":"y"}]},{"i":2,"l":[]}]', arrays=(ArrayPath("l"),)),
    "xml": Sample(
        "xml",
        "<?xml version='1.0' encoding='utf-8'?><r><h n='7'/><o i='1'><a>é&amp;</a><f>2.5</f></o>"
        "<o i='22'><a><![CDATA[<]]></a><x><k>1</k><k>2</k></x></o></r>".encode(),
        {"record_path": "r/o"},
        (SourceColumn("a", types.STRING), SourceColumn("i", types.INT, alias="@i"), SourceColumn("f", types.FLOAT)),
        sections=(Section("h", "xml_path", "r/h", (("@n", types.INT),)),),
    ),
    "xml with arrays": Sample(
        "xml",
        "<!DOCTYPE r [<!ELEMENT r ANY>]><r xmlns:n='u'><o i='1'><l n:s='A'/><l><q>é</q></l></o>"
        "<o i='2'><n:l>t</n:l><a k.l='1'>x</a></o></r>".encode(),
        {"record_path": "r/o"},
        (SourceColumn("i", types.INT, alias="@i"), SourceColumn("a", types.STRING)),
    ),
    "xml in UTF-16": Sample(
        "xml",
        "<?xml version='1.0' encoding='utf-16'?><r><o i='1'><a>é</a></o></r>".encode("utf-16"),
        {"record_path": "r/o"},
        (SourceColumn("i", types.INT, alias="@i"), SourceColumn("a", types.STRING)),
    ),
    "fixed width": Sample("fixed_width", "Hé 2024-02-29\nI0010250\nI022\n".encode(), layout=_KINDS),
    "fixed width without ends": Sample(
        "fixed_width",
        b"Habc2024-02-29I0010250      I0220000      ",
        {"line_separator": LineSeparator.NONE},
        layout=_KINDS,
    ),
    "edifact": Sample(
        "edifact",
        b"UNA:+.? 'UNB+UNOA:1+S+R+240101:1200+REF1'UNH+M1+ORDERS:D:96A:UN'BGM+220+A?+B'UNT+3+M1'UNZ+1+REF1'",
        columns=_NUMBERED,
    ),
    "x12": Sample(
        "x12",
        f"{_ISA}GS*PO*A*B*20240101*1200*1*X*004010~ST*850*0001~BEG*00*é~SE*3*0001~GE*1*1~IEA*1*000000905~".encode(),
        columns=_NUMBERED,
    ),
    "edifact, indented": Sample(
        "edifact",
        "UNB+UNOC:3+S+R+240101:1200+REF1'\r\n UNH+M1+ORDERS'\n  FTX+é?\n+?''\nUNT+9+M1'\n\tUNZ+1+REF1'\n".encode(
            "latin-1"
        ),
        {"trailers": Trailers.WARN},
        columns=_NUMBERED,
    ),
    "x12, beside": Sample(
        "x12",
        f"{_ISA}\nISB*1~\nTA1*1*2~ \nGS*PO*A*B*1*1*1*X*1~\n ST*850*0001*V~\n BIN*4*~\n*\r~SE*3*0001~GE*1*1~"
        "IEA*1*000000905~\n".encode(),
        columns=_NUMBERED,
    ),
    "x12, wrapped": Sample(
        "x12", b"\n".join(_WRAPPED[at : at + 80] for at in range(0, len(_WRAPPED), 80)), columns=_NUMBERED
    ),
    "parquet": Sample("parquet", _parquet()),
    "orc": Sample("orc", _orc("uncompressed"), tries=60),
    "orc, packed": Sample("orc", _orc("zlib"), tries=60),
    "avro": Sample("avro", _avro("null")),
    "avro, packed": Sample("avro", _avro("deflate")),
}


def damaged(data: bytes) -> Iterator[bytes]:
    """The file with each of its bytes changed, twice, and removed, and cut off there."""
    for at in range(len(data)):
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        yield data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at]


def hold(sample: Sample, data: bytes, folder: Path) -> str:
    """Read a file whole and in splits; gives a word for what became of it.

    Raises:
        AssertionError: records are lost, the splits change something, or it takes too long.
    """
    began = time.process_time()
    whole = _read(sample, folder / "whole", data, 1 << 30)
    for size in (7, 64):
        found = _read(sample, folder / "cut", data, size)
        refused = [one[0] == "refused" for one in (found, whole)]
        # Who reads a part of an Avro file may meet another broken block first.
        are_broken = sample.format == "avro" and all(refused)
        assert are_broken or found == whole, f"{data!r} in splits of {size}: {found} instead of {whole}"
    took = time.process_time() - began
    assert took < _LIMIT_S, f"{took:.1f} s for {data!r}"
    return whole[0]


def _read(sample: Sample, path: Path, data: bytes, size: int) -> tuple[str, str]:
    try:
        found = sample.read(path, data, size)
    except FormatError as refused:
        return "refused", str(refused).replace("whole", "cut")
    assert len(found.records) + len(found.failures) == found.count
    return "read", repr((found.records, found.rows, found.failures, found.failed_rows, found.count))


_SIGNS = [b"'", b'"', b"\n", b"\r\n", b"<", b">", b"&", b"\0", b"\xff", b"*~", b"?", b"{", b"]", b",", b"\xef\xbb\xbf"]
_SIGNS += [b"<!DOCTYPE r>", b"<!ENTITY e 'x'>", b"&e;", b" xmlns:n='u'", b"n:", b"]]>", b"<![CDATA["]


def one(chance: random.Random, folder: Path) -> str:
    """A file with some bytes changed, removed, repeated, or put in."""
    name = chance.choice(list(SAMPLES))
    data = SAMPLES[name].data
    for _ in range(chance.choice([1, 1, 2, 3, 6])):
        at, end = sorted(chance.choices(range(len(data) + 1), k=2))
        match chance.randrange(6):
            case 0:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + 1 :]
            case 2:
                data = data[:at] + chance.choice(_SIGNS) + data[at:]
            case 3:
                data = data[:end] + data[at:]  # a stretch twice
            case 4:
                data = data[:at] + data[end:]
            case _:
                data = data[:at] + data[end:] + data[at:end]
    return f"{name} {hold(SAMPLES[name], data, folder)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("changed_bytes", "files with changed bytes, whole against splits", 2000, one, arguments)


if __name__ == "__main__":
    sys.exit(main())

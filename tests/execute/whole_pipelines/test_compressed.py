"""Pipelines that read and write compressed files: the records are those of the files inside."""

from __future__ import annotations

import gzip
import io
import lzma
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from spark_jobs.execute.run import passes
from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan import files, unpacking
from spark_jobs.scan.compression import Compression
from tests.execute import pipelines, without_spark
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

duckdb = LazyModule("duckdb")

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config: {{ name: rows, path: {source}, schema: [{{ name: id, type: int }}, {{ name: v, type: string }}], {read} }}
  - {{ type: output, name: o, input: rows, config: {{ name: o, path: out/{target}, {write} }} }}
"""
LAYOUT = "{ fields: [{ name: id, start: 0, width: 6, type: integer }, { name: v, start: 6, width: 10 }] }"
ROWS = [(number, f"text {number}") for number in range(500)]
CSV = "id,v\n" + "".join(f"{number},{text}\n" for number, text in ROWS)
FORMATS = {
    "csv": (CSV, "type: csv", "type: csv"),
    "ndjson": (
        "".join(f'{{"id":{number},"v":"{text}"}}\n' for number, text in ROWS),
        "type: json",
        "type: json, options: { format: ndjson }",
    ),
    "json": (
        "[\n" + ",\n".join(f'{{"id":{number},"v":"{text}"}}' for number, text in ROWS) + "\n]\n",
        "type: json",
        "type: json",
    ),
    "xml": (
        "<Root>" + "".join(f"<Record><id>{number}</id><v>{text}</v></Record>" for number, text in ROWS) + "</Root>",
        "type: xml, options: { record_path: Root/Record }",
        "type: xml",
    ),
    "txt": (
        "".join(f"{number:>6}{text:<10}\n" for number, text in ROWS),
        f"type: fixed_width, format_schema: {LAYOUT}",
        f"type: fixed_width, schema: {LAYOUT}",
    ),
    "dat": (
        "".join(f"{number:>6}{text:<10}" for number, text in ROWS),
        f"type: fixed_width, format_schema: {LAYOUT}, options: {{ line_separator: none }}",
        f"type: fixed_width, schema: {LAYOUT}, options: {{ line_separator: none }}",
    ),
}
ENDINGS = {Compression.GZIP: ".gz", Compression.BZ2: ".bz2", Compression.ZSTD: ".zst", Compression.LZ4: ".lz4"}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(folder: Path, data: bytes, **parts: str) -> Any:
    parts.setdefault("read", "type: csv")
    parts.setdefault("write", "type: csv")
    pipelines.write(folder, {parts["source"]: data, "pipeline.yaml": PIPELINE.format(**parts)})
    return pipelines.run(folder, force=True)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("codec", ENDINGS)
def test_what_is_written_is_read(
    tmp_path: Path, codec: Compression, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, read, write = FORMATS[name]
    target = f"o.{name}{ENDINGS[codec]}"
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500")  # the first run writes many parts
    run(tmp_path, text.encode(), source=f"in.{name}", target=target, read=read, write=write)
    packed = (tmp_path / "out" / target).read_bytes()
    assert unpacking.whole(packed, codec).decode() == text
    run(tmp_path, packed, source=target, target="again", read=read, write=write)
    assert (tmp_path / "out/again").read_text() == text


def test_other_tools_read_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500")
    for ending in ENDINGS.values():
        run(tmp_path, CSV.encode(), source="in.csv", target=f"o.csv{ending}")
    for ending in (".gz", ".zst"):
        found = duckdb.sql(f"select * from read_csv('{tmp_path}/out/o.csv{ending}', compression='auto_detect')")
        assert found.fetchall() == ROWS
    for ending in (".gz", ".bz2", ".zst"):
        assert pd.read_csv(tmp_path / f"out/o.csv{ending}").to_records(index=False).tolist() == ROWS


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_was_cut_off_ends_the_run(tmp_path: Path, name: str) -> None:
    text, read, write = FORMATS[name]
    packed = gzip.compress(text.encode())
    for length in (0, 3, 300, len(packed) - 5):
        result = run(tmp_path, packed[:length], source="in.gz", target="o", read=read, write=write).result
        assert (result.exit_code, result.error.code) == (4, "E900")
        assert "is not a complete gzip file" in result.error.message
        assert pipelines.outputs(tmp_path) == {}


@pytest.mark.parametrize("name", ["csv", "ndjson", "txt", "dat"])
def test_a_large_file_is_unpacked_for_many_tasks(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, read, _ = FORMATS[name]
    text = text.replace("text 7", '"a\nb"') if name == "csv" else text
    loads: list[int] = []

    def run_chain(spark: object, spec: Any) -> Any:
        loads.append(len(spec.loads))
        return without_spark.run_chain(spark, spec)

    monkeypatch.setattr(passes.chain, "run", run_chain)
    expected = None
    for size in (10**9, 1000, 64):
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(size))
        assert run(tmp_path, gzip.compress(text.encode()), source="in.gz", target="o", read=read).result.exit_code == 0
        written = (tmp_path / "out/o").read_bytes()
        expected = expected or written
        assert written == expected
    assert (loads[0], len(loads) > 3 or loads[1] > 5) == (1, True)
    for length in (len(gzip.compress(text.encode())) - 9, 1200):
        packed = gzip.compress(text.encode())[:length]
        (tmp_path / "out/o").unlink(missing_ok=True)
        result = run(tmp_path, packed, source="in.gz", target="o", read=read).result
        assert (result.exit_code, result.error.code) == (4, "E900")
        assert "is not a complete gzip file" in result.error.message
        assert result.error.span is not None
        assert pipelines.outputs(tmp_path) == {}


def test_a_cut_off_record_in_a_large_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, read, _ = FORMATS["dat"]
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500")
    result = run(tmp_path, gzip.compress(text[:-3].encode()), source="in.gz", target="o", read=read).result
    assert result.exit_code == 4
    assert result.error.message.endswith("in.gz: incomplete record: expected 16 bytes, got 13")


def test_the_size_of_what_is_in_a_file_is_estimated(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(300_000).hex().encode()
    for codec in [*ENDINGS, Compression.XZ]:
        for data in (noise * 3, noise[:1000] * 4000, noise[:100]):
            path = tmp_path / "in"
            path.write_bytes(pack(data, codec) if codec is not Compression.XZ else lzma.compress(data))
            file = replace(files.describe(str(path), "in"), compression=codec)
            (found,) = unpacking.with_ratios([file])
            if file.size >= 256 << 10:
                assert 0.5 < found.plain_size / len(data) < 2
            assert unpacking.with_ratios([replace(file, compression=Compression.NONE)])[0].plain_size == file.size


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("sort_order: [{ field: id, order: desc }]", {"o.csv.gz": "id,v\n3,c\n2,b\n1,a\n"}),
        ("split: { max_records: 2 }", {"o_0001.csv.gz": "id,v\n1,a\n2,b\n", "o_0002.csv.gz": "id,v\n3,c\n"}),
    ],
    ids=["sorted", "split"],
)
def test_records_that_move_are_packed_when_they_have_come_to_rest(
    tmp_path: Path, more: str, expected: dict[str, str]
) -> None:
    run(tmp_path, b"id,v\n1,a\n2,b\n3,c\n", source="in.csv", target="o.csv.gz", write=f"type: csv, {more}")
    found = pipelines.outputs(tmp_path)
    assert {name: gzip.decompress(data).decode() for name, data in found.items()} == expected


def test_options_outrank_names(tmp_path: Path) -> None:
    pack_none = "type: csv, options: { compression: none }"
    run(tmp_path, b"id,v\n1,a\n", source="in.csv.gz", target="o.csv.gz", read=pack_none, write=pack_none)
    assert (tmp_path / "out/o.csv.gz").read_bytes() == b"id,v\n1,a\n"
    gz = "type: csv, options: { compression: gz }"
    run(tmp_path, gzip.compress(b"id,v\n1,a\n"), source="in.csv", target="o.csv", read=gz, write=gz)
    assert gzip.decompress((tmp_path / "out/o.csv").read_bytes()) == b"id,v\n1,a\n"


def test_a_compressed_file_without_its_name_says_what_to_do(tmp_path: Path) -> None:
    result = run(tmp_path, pack(b"id,v\n1,a\n", Compression.BZ2), source="in.csv", target="o.csv").result
    assert "`options.compression: bz2`" in result.error.message


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_inside(tmp_path: Path, encoding: str) -> None:
    data = gzip.compress("id,v\n1,é\n".encode(encoding))
    read = f"type: csv, options: {{ encoding: {encoding} }}"
    run(tmp_path, data, source="in.csv.gz", target="o.csv", read=read)
    assert (tmp_path / "out/o.csv").read_text() == "id,v\n1,é\n"


@pytest.mark.parametrize("name", ["csv", "json", "xml", "txt", "dat"])
def test_no_record_inside(tmp_path: Path, name: str) -> None:
    _, read, _ = FORMATS[name]
    run(tmp_path, gzip.compress(b""), source="in.gz", target="o.csv.gz", read=read)
    assert gzip.decompress((tmp_path / "out/o.csv.gz").read_bytes()) == b"id,v\n"


def test_columns_that_only_records_name_are_found(tmp_path: Path) -> None:
    lines = b"".join(b'{"id":%d,"v":"a","more":%d}\n' % (number, number) for number in range(20_000))
    run(tmp_path, gzip.compress(lines), source="in.json.gz", target="o.csv", read="type: json")
    found = pd.read_csv(io.BytesIO((tmp_path / "out/o.csv").read_bytes()))
    assert (list(found.columns), int(found["more"].sum())) == (["id", "v", "more"], sum(range(20_000)))

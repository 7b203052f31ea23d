"""Folders of parts in each format: other readers take each part for a file, and all of them for what one file has."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import openpyxl
import pytest
from lxml import etree
from pyarrow import parquet

from spark_jobs import plan
from spark_jobs.execute import identity
from spark_jobs.execute.delivery.local import joining
from spark_jobs.execute.run import executor
from spark_jobs.plan.options import RunOptions
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Records = list[dict[str, str]]

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: dead.csv }} }}
nodes:
  - type: source
    name: rows
    config: {{ type: csv, glob: in/*.csv, schema: {{ id: int, v: string, d: date }}, correlation_key: d }}
  - {{ type: transform, name: t, input: rows, config: {{ cxl: '{cxl}' }} }}
  - {{ type: output, name: o, input: t, config: {{ {write} }} }}
"""
FIELDS = [("id", 0, 6), ("v", 6, 12), ("d", 18, 10), ("more", 28, 8)]
LAYOUT = ", ".join(f"{{ name: {name}, start: {start}, width: {width} }}" for name, start, width in FIELDS)


def rows(count: int) -> str:
    """Records with an undeclared column; some fail."""
    lines = (f'{"x" if n % 9 == 3 else n},"é, {n % 5}\n",2024-02-{n % 28 + 1:02},m{n % 3}\n' for n in range(count))
    return "id,v,d,more\n" + "".join(lines)


FILES = {"in/a.csv": rows(40), "in/b.csv": rows(25), "in/c.csv": "id,v,d,more\n"}


def of_csv(data: bytes) -> Any:
    header, *found = csv.reader(io.StringIO(data.decode(), newline=""))
    return [dict(zip(header, record, strict=True)) for record in found]


def of_xml(data: bytes) -> Any:
    return [{column.tag: column.text for column in record} for record in etree.fromstring(data)]


def of_fixed_width(data: bytes) -> Any:
    """Records without line ends between: values have some."""
    size = 36
    found = [data[at : at + size] for at in range(0, len(data), size)]
    return [{name: each[at : at + width].decode().strip(" ") for name, at, width in FIELDS} for each in found]


def of_excel(data: bytes) -> Any:
    header, *found = openpyxl.load_workbook(io.BytesIO(data)).active.iter_rows(values_only=True)
    return [dict(zip(header, record, strict=True)) for record in found]


READ: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    "csv": ("csv", of_csv),
    "array": ("json", json.loads),
    "pretty": ("json, options: { pretty: true }", json.loads),
    "lines": ("json, options: { format: ndjson }", lambda data: [json.loads(line) for line in data.splitlines()]),
    "xml": ("xml", of_xml),
    "fixed width": (
        f"fixed_width, options: {{ line_separator: none }}, schema: {{ fields: [{LAYOUT}] }}",
        of_fixed_width,
    ),
    "parquet": ("parquet", lambda data: parquet.read_table(io.BytesIO(data)).to_pylist()),
    "avro": ("avro", lambda data: [*fastavro.reader(io.BytesIO(data))]),
    "excel": ("excel", of_excel),
}
WAYS = {
    "as they are": ("emit id = id", "path: 'out/rows{end}'"),
    "sorted": ("emit id = id", "path: 'out/rows{end}', sort_order: [{{ field: v, order: desc }}, id]"),
    "few": ("filter id % 17 == 5", "path: 'out/rows{end}'"),
    "none": ("filter id < 0", "path: 'out/rows{end}'"),
    "by file": ("filter id > 12", "path: 'out/{{source_file}}{end}'"),
    "by file, sorted": ("filter id > 12", "path: 'out/{{source_file}}{end}', sort_order: [v]"),
    "nulls": ('emit more = if id % 3 == 0 then null else "y"', "path: 'out/rows{end}', preserve_nulls: true"),
    "mapped": (
        "emit id = id",
        "path: 'out/rows{end}', mapping: {{ word: v, key: $ck.d }}, include_correlation_keys: true",
    ),
}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(folder: Path, cxl: str, write: str, **options: Any) -> Any:
    pipelines.write(folder, {**FILES, "pipeline.yaml": PIPELINE.format(cxl=cxl, write=write)})
    outcome = pipelines.run(folder, force=True, **options)
    assert outcome.result.exit_code == 2, outcome.result.error
    return outcome


def shown(found: Any) -> Records:
    """Records as texts, without what is null or empty: each format has its own way for these."""
    return [{name: str(value) for name, value in record.items() if value not in (None, "")} for record in found]


def by_output(folder: Path, end: str, read: Callable[[bytes], Any]) -> dict[str, Records]:
    """The records of each folder, or file, in order of parts."""
    together: dict[str, Records] = {}
    for path, data in pipelines.outputs(folder).items():
        name = path.partition("/")[0].removesuffix(end)
        together.setdefault(name, []).extend(shown(read(gzip.decompress(data) if end else data)))
    return together


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "end", "way"),
    [(name, "", way) for name in READ for way in WAYS]
    + [(name, ".gz", way) for name in list(READ)[:6] for way in ("as they are", "by file, sorted")],
)
def test_parts_have_the_records_of_one_file(
    name: str, end: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (written, read), (cxl, target) = READ[name], WAYS[way]
    write = f"type: {written}, {target.format(end=end)}"
    run(tmp_path / "whole", cxl, write)
    whole = by_output(tmp_path / "whole", end, read)
    counts = []
    for split_bytes in (10**9, 500, 10**9):
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
        run(tmp_path / "parts", cxl, f"{write}, parts: true")  # over those of the run before
        assert by_output(tmp_path / "parts", end, read) == whole
        counts.append(len(pipelines.outputs(tmp_path / "parts")))
    assert counts[0] == counts[2] <= counts[1]
    assert counts[0] < counts[1] or way not in ("as they are", "by file", "nulls", "mapped")


@pytest.mark.parametrize("name", ["csv", "array", "pretty", "lines", "xml", "fixed width"])
def test_parts_are_renamed_and_not_copied(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver would read and write all bytes of an output."""
    written, read = READ[name]
    copied: list[Any] = []
    monkeypatch.setattr(joining, "_append", lambda _, piece: copied.append(piece.path))
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500")
    run(tmp_path, "emit id = id", f"type: {written}, path: out/rows, parts: true")
    found = by_output(tmp_path, "", read)
    assert [path for path in copied if path.endswith(".part")] == []  # dead letters are
    assert 3 < len(pipelines.outputs(tmp_path)) < len(found["rows"])


def test_a_preview_of_parts_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "100")
    for name, (written, read) in READ.items():
        if name in ("parquet", "avro", "excel"):
            continue
        write = f"type: {written}, path: out/rows, parts: true"
        pipelines.write(tmp_path, {**FILES, "pipeline.yaml": PIPELINE.format(cxl="emit id = id", write=write)})
        texts: list[str] = []
        options = RunOptions(threads=2, dry_run=True, preview=30)
        chosen = plan.load(tmp_path / "pipeline.yaml", options)
        executor.execute(chosen, options, identity.Identity.new(None, None), lambda _, text: texts.append(text))  # noqa: B023
        assert [record["id"] for record in shown(read(texts[0].encode()))][:3] == ["0", "1", "2"], name

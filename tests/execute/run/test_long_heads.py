"""What looks for names, headers and footers before a run holds no more than a task may."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from spark_jobs.formats import registry
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.attack import hostile_files
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_jobs.execute.run.metrics import Outcome

#: The least that a task may have, and what is longer than a third of it.
_LIMIT, _SIZE = 4 << 20, 3 << 20

_PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: s, config: {{ path: {path}, type: {kind}, schema: {{ k: string }}{said} }} }}
  - {{ type: output, name: o, input: s, config: {{ type: json, path: out/o.json }} }}
"""


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def _run(folder: Path, path: str, data: bytes, kind: str, said: str = "") -> Outcome:
    pipelines.write(folder, {path: data, "pipeline.yaml": _PIPELINE.format(path=path, kind=kind, said=said)})
    return pipelines.run(folder, threads=1, memory_limit_bytes=_LIMIT)


@pytest.mark.parametrize(
    ("kind", "options", "data"),
    [
        ("csv", "", b"k," + b"a" * _SIZE + b"\n1,2\n"),
        ("csv", "", b"k" + b"," * _SIZE + b"\n1\n"),
        ("csv", "header_rows: 3", (b"k," + b"a" * (_SIZE // 3) + b"\n") * 3 + b"1,2\n"),
        ("json", "", b'{"a": [' + b"0," * (_SIZE // 2) + b"0]}\n"),
        ("json", "", b'{"k": "1"}\n{"' + b"a" * _SIZE + b'": 1}\n'),
        ("json", "format: array", b'[{"k": "1", "a": "' + b"x" * _SIZE + b'"}]'),
        ("json", "record_path: d", b'{"d": [{"k": "1", "a": "' + b"x" * _SIZE + b'"}]}'),
        ("xml", "record_path: r/o", b"<r><o><a>" + b"x" * _SIZE + b"</a></o></r>"),
        ("xml", "record_path: r/o", b"<r><o>" + b"<a/>" * (_SIZE // 4) + b"</o></r>"),
        ("xml", "record_path: r/o", b'<r><o a="' + b"x" * _SIZE + b'"/></r>'),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_header_or_record_that_no_task_could_hold_ends_the_run_before_it(
    kind: str, options: str, data: bytes, is_packed: bool, tmp_path: Path
) -> None:
    path, data = ("in.txt.gz", gzip.compress(data, 1)) if is_packed else ("in.txt", data)
    packing = "compression: gzip" if is_packed else ""
    said = ", options: {" + ", ".join(filter(None, [packing, options])) + "}"
    error = _run(tmp_path, path, data, kind, said).result.error
    assert error is not None
    assert error.code == "E310"
    assert "memory.limit" in error.message


@pytest.mark.parametrize(
    ("kind", "path", "make"),
    [
        ("parquet", "in.parquet", hostile_files.long_parquet_footer),
        ("avro", "in.avro", hostile_files.long_avro_schema),
    ],
)
def test_a_footer_that_no_task_could_hold_ends_the_run_before_it(
    kind: str, path: str, make: Callable[[int], hostile_files.Made], tmp_path: Path
) -> None:
    error = _run(tmp_path, path, make(_SIZE)[1], kind).result.error
    assert error is not None
    assert error.code == "E310"


@pytest.mark.parametrize(
    ("kind", "path", "make"),
    [
        ("orc", "in.orc", hostile_files.long_orc_footer),
        ("excel", "in.xlsx", hostile_files.long_excel_header),
        ("parquet", "in.parquet", hostile_files.long_parquet_footer),
        ("avro", "in.avro", hostile_files.long_avro_schema),
    ],
)
def test_long_footers_and_headers_are_bounded_by_what_a_reader_is_given(
    kind: str, path: str, make: Callable[[int], hostile_files.Made], tmp_path: Path
) -> None:
    """Processes that decode have 64 MiB at least."""
    from dataclasses import replace

    (tmp_path / path).write_bytes(make(80 << 20 if kind in ("orc", "excel") else _SIZE)[1])
    found = registry.named(kind)
    reader = replace(found.reader(found.read_options()), record_bytes=1 << 20)
    with pytest.raises(FormatError) as raised:
        reader.plan(("a",), [files.describe(str(tmp_path / path), path)], OnUnmapped.DROP)
    assert raised.value.code == "E310"


def test_blanks_before_json_are_passed_over_in_pieces(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b" \n" * (_SIZE // 2) + b'{"k": "1"}\n{"k": "2"}\n'
    result = _run(tmp_path, "in.json", data, "json").result
    assert (result.exit_code, result.records_total) == (0, 2)


def test_a_header_that_is_short_enough_is_read_under_the_least_memory(tmp_path: Path) -> None:
    assert _run(tmp_path, "in.csv", b"k," + b"a" * 1_000_000 + b"\n1,2\n", "csv").result.exit_code == 0

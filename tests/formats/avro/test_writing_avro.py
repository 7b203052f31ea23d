"""Avro outputs are read by fastavro, and are the same whatever the tasks were; sorted, split, in parts, compressed."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from spark_jobs.formats.avro import write as avro_write
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      name: rows
      path: {source}
      type: {read}
      schema: {{ id: int, v: string, f: float, d: date, at: date_time, b: bool }}
  - {{ type: output, name: o, input: rows, config: {{ name: o, path: out/{target}, type: {write} }} }}
"""
CSV = "id,v,f,d,at,b\n" + "".join(
    f"{number},tëxt {number % 9},{'' if number % 7 == 0 else number / 8},2024-02-{number % 28 + 1:02},"
    f"2024-01-01T00:00:{number % 60:02},{'true' if number % 2 else 'false'}\n"
    for number in range(200)
)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(
    folder: Path, data: str | bytes, source: str, target: str, read: str = "csv", write: str = "avro", **options: Any
) -> Any:
    text = PIPELINE.format(source=source, target=target, read=read, write=write)
    given = data.encode() if isinstance(data, str) else data
    pipelines.write(folder, {source: given, "pipeline.yaml": text})
    return pipelines.run(folder, force=True, **options).result


def records(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return [*fastavro.reader(file)]  # type: ignore[list-item]  # records are maps


def expected() -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "v": f"tëxt {number % 9}",
            "f": None if number % 7 == 0 else number / 8,
            "d": date(2024, 2, number % 28 + 1),
            "at": datetime(2024, 1, 1, 0, 0, number % 60),
            "b": number % 2 == 1,
        }
        for number in range(200)
    ]


@pytest.mark.parametrize("codec", ["deflate", "none", "zstd", "snappy"])
@pytest.mark.parametrize("split", ["1000000", "900"])
def test_what_is_written_is_read(tmp_path: Path, codec: str, split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", split)
    assert run(tmp_path, CSV, "in.csv", "o.avro", write=f"avro, options: {{ compression: {codec} }}").exit_code == 0
    written = (tmp_path / "out/o.avro").read_bytes()
    if codec in ("deflate", "none"):  # fastavro has the others with further packages
        assert records(tmp_path / "out/o.avro") == expected()
    assert run(tmp_path, written, "again.avro", "again.csv", read="avro", write="csv").exit_code == 0
    assert run(tmp_path, CSV, "in.csv", "plain.csv", write="csv").exit_code == 0
    assert (tmp_path / "out/again.csv").read_text() == (tmp_path / "out/plain.csv").read_text()


@pytest.mark.thorough
@pytest.mark.parametrize("write", ["", ", sort_order: [{ field: v }]", ", split: { max_records: 70 }"])
def test_a_file_does_not_depend_on_splits_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """Blocks are cut by their records: the files have several, most of them with records of several splits."""
    monkeypatch.setattr(avro_write, "BLOCK_BYTES", 500)
    written = f"avro, if_exists: overwrite{write}"
    assert run(tmp_path, CSV, "in.csv", "o.avro", write=written).exit_code == 0
    whole = pipelines.outputs(tmp_path)
    for split, options in (("64", {}), ("101", {"threads": 3}), ("900", {"memory_limit_bytes": 8 << 20}), ("4000", {})):
        tuning = Tuning(driver_output_bytes=0 if options else 1 << 20)
        pipelines.cut_by(monkeypatch, int(split))
        assert run(tmp_path, CSV, "in.csv", "o.avro", write=written, tuning=tuning, **options).exit_code == 0
        assert pipelines.outputs(tmp_path) == whole
    for name, data in whole.items():
        with (tmp_path / "out" / name).open("rb") as file:
            counts = [block.num_records for block in fastavro.block_reader(file)]
        assert len(counts) > 3
        assert data.count(data[-16:]) == len(counts) + 1


def test_sorted_split_and_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "900")
    run(tmp_path, CSV, "in.csv", "s.avro", write="avro, sort_order: [{ field: id, order: desc }]")
    assert records(tmp_path / "out/s.avro") == expected()[::-1]
    run(tmp_path, CSV, "in.csv", "c.avro", write="avro, split: { max_records: 70 }")
    cut = [records(path) for path in sorted((tmp_path / "out").glob("c_*.avro"))]
    assert [len(found) for found in cut] == [70, 70, 60]
    assert [one for found in cut for one in found] == expected()
    run(tmp_path, CSV, "in.csv", "parts", write="avro, parts: true")
    parts = [records(path) for path in sorted((tmp_path / "out/parts").iterdir())]
    assert len(parts) > 3
    assert [one for found in parts for one in found] == expected()


def test_no_record_and_names_that_avro_does_not_have(tmp_path: Path) -> None:
    assert run(tmp_path, CSV.splitlines()[0] + "\n", "in.csv", "o.avro").exit_code == 0
    assert records(tmp_path / "out/o.avro") == []
    failed = run(tmp_path, CSV.replace("id,v,", "id,v,odd-name,", 1).replace("\n", ",1\n"), "in.csv", "p.avro")
    assert failed.exit_code != 0


DECIMALS = """
pipeline: { name: p }
nodes:
  - type: source
    name: rows
    config: { name: rows, path: in.csv, type: csv, schema: { id: int, v: "decimal(38,7)", w: "decimal(9,2)" } }
  - { type: output, name: o, input: rows, config: { name: o, path: out/o.avro, type: avro } }
"""
AGAIN = DECIMALS.replace("path: in.csv, type: csv", "path: out/o.avro, type: avro").replace(
    "path: out/o.avro, type: avro } }\n", "path: out/again.csv, type: csv } }\n"
)


def test_decimals_are_decimals_of_avro(tmp_path: Path) -> None:
    values = [
        "0", "1", "-1", "127", "128", "-128", "-129", "0.0000001", "-0.0000001",
        "1234567890123456789012345678901.1234567", "-1234567890123456789012345678901.1234567", "", "32767", "32768",
        "-32768", "-32769",
    ]  # fmt: skip
    lines = [f"{number},{value},{value if len(value) < 8 else ''}\n" for number, value in enumerate(values)]
    pipelines.write(tmp_path, {"in.csv": "id,v,w\n" + "".join(lines), "pipeline.yaml": DECIMALS})
    assert pipelines.run(tmp_path, force=True).result.exit_code == 0
    found = records(tmp_path / "out/o.avro")
    assert [row["v"] for row in found] == [Decimal(value) if value else None for value in values]
    assert [row["w"] for row in found] == [Decimal(value) if 0 < len(value) < 8 else None for value in values]
    with (tmp_path / "out/o.avro").open("rb") as file:
        schema = fastavro.reader(file).writer_schema
    assert schema["fields"][1]["type"] == [  # type: ignore[index,call-overload]
        "null", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 7},
    ]  # fmt: skip
    pipelines.write(tmp_path, {"pipeline.yaml": AGAIN})
    assert pipelines.run(tmp_path, force=True).result.exit_code == 0
    again = (tmp_path / "out/again.csv").read_text().splitlines()[1:]
    spelled = [
        f"{Decimal(value).quantize(Decimal('0.0000001'), context=Context(prec=50)):f}" if value else ""
        for value in values
    ]
    assert [line.split(",")[1] for line in again] == spelled

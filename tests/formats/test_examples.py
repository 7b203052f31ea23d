"""The examples of the formats' reference: each option is in one, and each gives what the page shows."""

from __future__ import annotations

import io
import itertools
import json
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
import openpyxl
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc, parquet
from pyiceberg.table.metadata import TableMetadataV2

from docs import generate_formats
from spark_jobs import plan
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor
from spark_jobs.formats import registry
from spark_jobs.plan.options import RunOptions
from tests import iceberg_tables
from tests.execute import without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import Database

EXAMPLES = [
    pytest.param(name, direction, example, id=f"{name}-{direction}-{number}")
    for name in registry.formats()
    for direction in ("read", "write")
    for number, example in enumerate(generate_formats.examples(name)[direction])
]


def packed(name: str, options: dict[str, Any], text: str) -> bytes:
    """The bytes of a file that the page shows."""
    is_typed = name in ("parquet", "avro", "orc", "excel")
    rows = [json.loads(line) for line in text.splitlines()] if is_typed else []
    sink = io.BytesIO()
    if name == "excel":
        return workbook(rows, options)
    if name == "database":
        return database(text)
    if name == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), sink)
        return sink.getvalue()
    if name == "orc":
        orc.write_table(pa.Table.from_pylist(rows), sink)
        return sink.getvalue()
    if name == "avro":
        kinds = {int: "long", str: "string"}
        fields = [{"name": key, "type": kinds[type(value)]} for key, value in rows[0].items()]
        fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, rows)
        return sink.getvalue()
    data = text.encode(options.get("encoding", "utf-8"))
    if "compression" not in options:
        return data
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, options["compression"]) as stream:
        stream.write(data)
    found: bytes = buffer.getvalue().to_pybytes()
    return found


def database(text: str) -> bytes:
    """A database of SQLite with a table of the records that the page shows."""
    with closing(sqlite3.connect(":memory:")) as opened:
        opened.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        opened.executemany("INSERT INTO customers VALUES (:id, :name)", map(json.loads, text.splitlines()))
        opened.commit()
        return opened.serialize()


def workbook(rows: list[dict[str, Any]], options: dict[str, Any]) -> bytes:
    """A workbook that the page shows: cells by the letters of their columns, or records below their names."""
    book = openpyxl.Workbook()
    book.active.title = options.get("sheets", ["Sheet1"])[0]
    if "A" not in rows[0]:
        rows = [dict(zip("ABC", each, strict=False)) for each in (rows[0].keys(), *(row.values() for row in rows))]
    for number, row in enumerate(rows, 1):
        for letter, value in row.items():
            book.active[f"{letter}{number}"] = value
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def shown(name: str, options: dict[str, Any], data: bytes) -> str:
    """What the page shows of a file."""
    if name in ("delta", "iceberg"):
        return data.decode()
    if name == "parquet":
        table = parquet.ParquetFile(io.BytesIO(data))
        assert table.metadata.row_group(0).column(0).compression == options["compression"].upper()
        return "".join(json.dumps(row, default=str) + "\n" for row in table.read().to_pylist())
    if name == "orc":
        file = orc.ORCFile(io.BytesIO(data))
        assert file.compression == options["compression"].upper()
        return "".join(json.dumps(row, default=str) + "\n" for row in file.read().to_pylist())
    if name == "avro":
        found = fastavro.reader(io.BytesIO(data))
        assert found.codec == options["compression"]
        return "".join(json.dumps(row, default=str) + "\n" for row in found)
    if name == "excel":
        sheet = openpyxl.load_workbook(io.BytesIO(data))[options["sheet"]]
        rows = ({cell.column_letter: cell.value for cell in row} for row in sheet.iter_rows())
        return "".join(json.dumps(row, default=str) + "\n" for row in rows)
    with pa.input_stream(io.BytesIO(data), compression=options.get("compression")) as stream:
        text: str = stream.read().decode(options.get("encoding", "utf-8"))
    return text


def played(folder: Path, source: dict[str, Any], output: dict[str, Any], data: bytes) -> bytes:
    """What a pipeline of a source and an output writes."""
    if source["type"] == "delta":
        for line in data.splitlines():
            write_deltalake(folder / "in", pa.Table.from_pylist([json.loads(line)]), mode="append")
    elif source["type"] == "iceberg":
        for line in data.splitlines():
            iceberg_tables.append(
                iceberg_tables.catalog(folder), "shop.people", pa.Table.from_pylist([json.loads(line)])
            )
    else:
        (folder / "in").write_bytes(data)
    known = registry.named(source["type"])
    place = {"path": "in"} if known.has_files or known.is_in_folder else {}
    takes = registry.named(output["type"])
    goes = {"path": "out"} if takes.has_files or takes.is_in_folder else {}
    nodes = [
        {"type": "source", "name": "s", "config": {**place, **source}},
        {"type": "output", "name": "o", "input": "s", "config": {**goes, **output}},
    ]
    (folder / "pipeline.yaml").write_text(
        yaml.safe_dump({"pipeline": {"name": "example"}, "nodes": nodes}, sort_keys=False)
    )
    options = RunOptions(force=True, threads=1)
    loaded = plan.load(folder / "pipeline.yaml", options)
    outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
    assert outcome.result.exit_code == 0, outcome.result.error
    if output["type"] == "iceberg":
        rows = iceberg_tables.rows(iceberg_tables.catalog(folder), "shop.people")
        return "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()
    if output["type"] == "delta":
        rows = DeltaTable(folder / "out").to_pyarrow_table().to_pylist()
        return "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()
    return (folder / "out").read_bytes() if goes else b""


def table_after(postgres: Database, write: Callable[[], object]) -> str:
    """What the page shows of a table: all rows afterwards."""
    postgres.run(
        "CREATE SCHEMA waiting;\nCREATE TABLE customers (id int PRIMARY KEY, name text);\n"
        "INSERT INTO customers VALUES (1, 'Ada')"
    )
    write()
    rows = postgres.run("SELECT id, name FROM customers ORDER BY id")
    return "".join(json.dumps({"id": id, "name": name}) + "\n" for id, name in rows)


@pytest.mark.parametrize(("name", "direction", "example"), EXAMPLES)
def test_an_example_gives_what_it_shows(
    name: str,
    direction: str,
    example: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_CONNECTION_SHOP", "sqlite:///in")
    if name == "iceberg":
        iceberg_tables.catalog(tmp_path)  # with its `clinker.toml`
        snapshots = itertools.count(1)
        monkeypatch.setattr(TableMetadataV2, "new_snapshot_id", lambda _: next(snapshots))
    mine = generate_formats.config(name, direction, example)
    lines = {"options": {"format": "ndjson"}, "type": "json"}
    if direction == "read":
        output = {**lines, "preserve_nulls": True}
        data = packed(name, example["options"], example["file"])
        assert played(tmp_path, mine, output, data).decode() == example["records"]
    else:
        source = example.get("from") or {**lines, "schema": example["schema"]}
        write = partial(played, tmp_path, source, mine, example["records"].encode())
        if name == "database":
            postgres = request.getfixturevalue("postgres")
            monkeypatch.setenv("CLINKER_CONNECTION_SHOP", postgres.uri)
            assert table_after(postgres, write) == example["file"]
        else:
            assert shown(name, example["options"], write()) == example["file"]


@pytest.mark.parametrize("name", registry.formats())
@pytest.mark.parametrize("direction", ["read", "write"])
def test_each_option_has_an_example(name: str, direction: str) -> None:
    there = {option for example in generate_formats.examples(name)[direction] for option in example["options"]}
    assert there == generate_formats.options(name, direction)

"""Outputs that are tables of PostgreSQL, in whole pipelines."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest

from spark_jobs import plan
from spark_jobs.cli import clinker
from spark_jobs.execute.delivery import databases, joint
from spark_jobs.execute.delivery.local import recovery
from spark_jobs.execute.delivery.local.files import LocalDraft
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.formats.database.options import DatabaseWrite
from spark_jobs.formats.database.postgres import loading
from spark_jobs.scan import connections
from spark_jobs.scan.files import FormatError
from tests.execute import pipelines, without_spark
from tests.postgres import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.postgres import Database

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      {{ type: json, path: in.ndjson, options: {{ format: ndjson }}, schema: {{ {schema} }}, on_unmapped: {unmapped} }}
  - type: output
    name: t
    input: rows
    config: {{ type: database, options: {{ connection: warehouse, table: {table}, {options} }} }}
"""
FILES = """
  - type: output
    name: f
    input: rows
    config: { type: csv, path: out/rows.csv }
"""


#: With 1 each statement is a place to die at.
STRIDE = 6


class Warehouse:
    """A folder with a pipeline that writes a table."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self.error: Any = None
        self.loading: Any = loading

    def write(self, rows: list[dict[str, Any]], schema: str, code: int = 0, **said: str) -> None:
        known = {"table": "t", "options": "mode: insert", "unmapped": "drop", "files": "", **said}
        text = PIPELINE.format(schema=schema, **known) + known["files"]
        pipelines.write(
            self.folder, {"pipeline.yaml": text, "in.ndjson": "".join(json.dumps(row) + "\n" for row in rows)}
        )
        outcome = pipelines.run(self.folder, force=True)
        self.error = outcome.result.error
        assert outcome.result.exit_code == code, outcome.result.error
        assert PASSWORD not in str(outcome)

    @property
    def staged(self) -> list[Any]:
        return self.database.run("SELECT relname::text FROM pg_class WHERE relname LIKE 'clinker%'")

    @property
    def notes(self) -> list[str]:
        """What is left there tells of itself."""
        text = "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname LIKE 'clinker%' AND relkind = 'r'"
        return [comment or "" for (comment,) in self.database.run(text)]

    @property
    def letters(self) -> list[str]:
        found = self.folder / "out/dlq.csv"
        return found.read_text().splitlines()[1:] if found.exists() else []


@pytest.fixture
def warehouse(tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    without_spark.install(monkeypatch)
    return Warehouse(tmp_path, postgres)


def test_types_are_those_of_the_table(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        'CREATE TABLE "T""x" (id serial, i2 int2, n numeric, m numeric(6,2), f8 numeric, ts timestamp, tz timestamptz, '
        "d date, b bool, j jsonb, u uuid, by bytea, a int8[], e text, iv interval)"
    )
    row = {
        "i2": 7, "n": "12345678901234567890.123456789", "m": "1.10", "f8": 0.1, "ts": "2024-02-29T12:30:00.123456",
        "tz": "2024-02-29T12:30:00", "d": "2024-02-29", "b": True, "j": '{"a": [1, null]}',
        "u": "6f1d1a34-6d2b-4b57-9a7e-111111111111", "by": "tëxt", "e": "", "iv": "1 day",
    }  # fmt: skip
    schema = (
        "i2: int, n: string, m: string, f8: float, ts: date_time, tz: date_time, d: date, b: bool, j: string, "
        "u: string, by: string, e: string, iv: string"
    )
    warehouse.write([row, dict.fromkeys(row)], schema, table='\'"T""x"\'')
    found = postgres.run(
        "SELECT id, i2, n::text, m::text, f8::text, ts::text, (tz AT TIME ZONE 'UTC')::text, d::text, b, j::text, "
        'u::text, convert_from(by, \'UTF8\'), a::text, e, iv::text FROM "T""x" ORDER BY id'
    )
    assert found == [
        (1, 7, "12345678901234567890.123456789", "1.10", "0.1", "2024-02-29 12:30:00.123456", "2024-02-29 12:30:00",
         "2024-02-29", True, '{"a": [1, null]}', row["u"], "tëxt", None, "", "1 day"),
        (2, *[None] * 14),
    ]  # fmt: skip
    assert warehouse.staged == []


def test_rows_come_in_order_from_many_parts(
    warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, 1000)
    postgres.run("CREATE TABLE t (place serial, id int8)")
    warehouse.write([{"id": number * 3} for number in range(2000)], "id: int")
    assert postgres.run("SELECT count(*), bool_and(id = (place - 1) * 3) FROM t") == [(2000, True)]


def test_a_part_that_comes_again_counts_once(postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int)")
    connection = connections.Connection("warehouse", postgres.uri)
    options = loading.look(connection, DatabaseWrite("warehouse", "t"))
    schema = pa.schema([("id", pa.int64())])
    staging = loading.begin(connection, options, "run", 0, schema)
    for part, first in ((0, 0), (1, 100), (0, 0), (1, 100)):
        batches = [
            pa.RecordBatch.from_arrays([pa.array(range(at, at + 10), pa.int64())], schema=schema)
            for at in (first, first + 10)
        ]
        assert loading.fill(connection, staging, part, batches, schema) == 20
    with loading.transaction(connection) as found:
        loading.publish(found, replace(staging, rows=40))
    assert postgres.run("SELECT array_agg(id) FROM t") == [([*range(20), *range(100, 120)],)]


def test_upserts_change_rows_and_the_last_record_counts(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text, kept int DEFAULT 5);\nINSERT INTO t VALUES (1, 'old', 9)")
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}]
    warehouse.write(rows, "id: int, v: string", options="mode: upsert, key: id")
    postgres.run("CREATE TABLE u (k char(3), l int, v text, UNIQUE (k, l))")
    again = [{"k": "a", "v": "1", "l": 1}, {"k": "a ", "v": "2", "l": 1}, {"k": "b"}, {"k": "b", "v": "3", "l": 1}]
    options = "mode: upsert, key: [l, k]"
    warehouse.write(again, "k: string, l: int, v: string", code=2, table="u", options=options)
    assert postgres.run("SELECT k::text, v FROM u ORDER BY k") == [("a", "2"), ("b", "3")]
    assert len(warehouse.letters) == 1
    assert postgres.run("SELECT id, v, kept FROM t ORDER BY id") == [(1, "c", 9), (2, "b", 5)]


@pytest.mark.parametrize("name", ["clinker_part", "clinker_row", "clinker_again", "s", 'a"b {x}; --'])
def test_columns_may_have_any_name(name: str, warehouse: Warehouse, postgres: Database) -> None:
    quoted = name.replace('"', '""')
    postgres.run(f'CREATE TABLE "T; ""x" (id int UNIQUE, "{quoted}" text)')
    said = {"schema": f"id: int, '{name}': string", "table": '\'"T; ""x"\''}
    warehouse.write([{"id": 1, name: "a"}], **said)
    warehouse.write([{"id": 1, name: "b"}, {"id": 1, name: "c"}], **said, options="mode: upsert, key: id")
    assert postgres.run('SELECT * FROM "T; ""x"') == [(1, "c")]
    assert warehouse.staged == []


def test_tables_are_not_replaced_where_rows_of_others_would_go_with_theirs(
    warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t ON DELETE CASCADE);\n"
        "CREATE TABLE kid (id int REFERENCES t ON DELETE CASCADE);\nINSERT INTO t VALUES (1);\n"
        "INSERT INTO kid VALUES (1)"
    )
    warehouse.write([{"id": 1}], "id: int", code=4, options="mode: replace")
    assert warehouse.error.code == "E915"
    assert "kid (ON DELETE CASCADE)" in warehouse.error.message
    assert postgres.run("SELECT id FROM kid") == [(1,)]


def test_replacing_leaves_only_the_new_rows(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int);\nINSERT INTO t VALUES (1), (2)")
    warehouse.write([{"id": 3}], "id: int", options="mode: replace")
    assert postgres.run("SELECT id FROM t") == [(3,)]
    warehouse.write([], "id: int", options="mode: replace")
    assert postgres.run("SELECT id FROM t") == []


def test_records_that_the_columns_refuse_are_dead_letters(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t (id int NOT NULL, s varchar(3), i int2, n numeric(4,2), j json, u uuid, f real, "
        "g numeric(6,1), k numeric(3));\n"
        "CREATE TABLE other (id int)"
    )
    good = {"id": 1, "s": "äöü  ", "i": 32767, "n": "99.99", "j": "[]", "u": "6f1d1a34-6d2b-4b57-9a7e-111111111111",
            "f": 0.5, "g": 12345.6, "k": 123}  # fmt: skip
    bad = [
        {"id": None}, {"s": "abcd"}, {"i": 32768}, {"n": "100"}, {"n": "x"}, {"n": "99.995"}, {"j": "NaN"}, {"u": "1"},
        {"s": "\0"}, {"f": 1e39}, {"g": 123456.0}, {"k": 1234},
    ]  # fmt: skip
    warehouse.write(
        [good, *({**good, **each} for each in bad)],
        "id: int, s: string, i: int, n: string, j: string, u: string, f: float, g: float, k: int",
        code=2,
    )
    assert postgres.run("SELECT id, s FROM t") == [(1, "äöü")]
    said = ["there must be a value", "has 4 characters, and 3", "32768 is beyond int2", "100 has more than 2 digits",
            "'x' is no number", "99.995 has more than", "no JSON", "'1' is no UUID", "U+0000",
            "1e+39 is beyond float4", "123456.0 has more than 5 digits", "1234 has more than 3 digits"]  # fmt: skip
    assert len(warehouse.letters) == len(said)
    for text, letter in zip(said, warehouse.letters, strict=True):
        assert text in letter


#: Types that cast texts by cutting them, texts that fit as they are kept, and texts that would be cut or refused.
_CUTTING = [
    ("short", ["abc", "abc  "], ["abc", "abc"], ["abcd"], "has 4 characters, and 3"),
    ("shorter", ["abc"], ["abc"], ["äbcd"], "has 4 characters, and 3"),
    ("bit(3)", ["101", "B011"], ["101", "011"], ["1", "1011", "xF", "2"], " bits"),
    ("varbit(5)", ["1", "xF"], ["1", "1111"], ["101111", "xFF"], " bits"),
    ('"char"', ["a", ""], ["a", ""], ["ab", "ä"], "bytes, and 1"),
    ("name", ["a" * 63], ["a" * 63], ["ä" * 32], "has 64 bytes, and 63"),
    ("varchar(3)[]", ["{ab,cd,efg}"], ["{ab,cd,efg}"], [], ""),
    ("uuid", ["{6f1d1a34-6d2b-4b57-9a7e-111111111111}"], ["6f1d1a34-6d2b-4b57-9a7e-111111111111"],
     ["{6f1d1a34-6d2b-4b57-9a7e-111111111111", "6f1d1a34-6d2b-4b57-9a7e-111111111111}}"], "is no UUID"),
    ("jsonb", ["1e5"], ["100000"], ["[1e99999999999999999999]", "9" * 131_073], "more digits than numeric"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "fit", "kept", "unfit", "said"), _CUTTING, ids=[each[0] for each in _CUTTING])
def test_no_text_is_cut_to_make_it_fit(
    type: str, fit: list[str], kept: list[str], unfit: list[str], said: str, warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run("CREATE DOMAIN short AS varchar(3)")
    postgres.run("CREATE DOMAIN shorter AS short CHECK (value <> '')")
    postgres.run(f"CREATE TABLE t (n serial, v {type})")
    warehouse.write([{"v": text} for text in (*fit, *unfit)], "v: string", code=2 if unfit else 0)
    assert [value for (value,) in postgres.run("SELECT v::text FROM t ORDER BY n")] == kept
    assert len(warehouse.letters) == len(unfit)
    assert all(said in letter or "is no string of bits" in letter for letter in warehouse.letters)


def test_elements_of_a_text_are_not_cut_either(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (v varchar(3)[])")
    warehouse.write([{"v": "{ab,cdef}"}], "v: string", code=4)
    assert "value too long for type character varying(3)" in warehouse.error.message
    assert postgres.run("SELECT * FROM t") == []


#: Texts, with the types of columns that the database reads them as.
EDGES = [
    ("1e5000", ""), ("1e200000", ""), ("1e5000", "numeric"), ("1e131071", "numeric"), ("1e131072", "numeric"),
    ("1e-16383", "numeric"), ("1e-16384", "numeric"), ("0e99999", "numeric"), (" 7\v", "numeric(6,2)"),
    ("\u00a07", "int4"), ("1_000", "numeric"), ("\u0661\u0662", "numeric"), ("\u0661", "int4"), ("sNaN", "numeric"),
    ("NaN12", "numeric"), ("nan", "numeric(6,2)"), ("Infinity", "numeric"), ("-inf", "numeric(6,2)"),
    (".5", "numeric(6,2)"), ("5.", "numeric"), ("1e-200", "numeric(6,2)"), ("+9223372036854775807", "int8"),
    ("-9223372036854775809", "int8"), ("9" * 5000, "int8"), ('"\\u0000"', "jsonb"), ('{"\\ud800": 1}', "jsonb"),
    ('["\\ud83d\\ude00"]', "jsonb"), ('"\\u0000"', "json"), ("[1e400000]", "jsonb"), ("[1e400000]", "json"),
    ("9" * 5000, "jsonb"), ('"\\\\u0000"', "jsonb"), ("[1e-400000]", "jsonb"),
]  # fmt: skip


def test_texts_at_the_edges_of_types_end_no_run(warehouse: Warehouse, postgres: Database) -> None:
    """A record that the database would refuse is a dead letter, and all others are rows."""
    import adbc_driver_manager

    kinds = [kind or "numeric(6,2)" for _, kind in EDGES]
    names = [f"c{number}" for number in range(len(EDGES))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    postgres.run(f"CREATE TABLE t ({columns})")
    good = []
    for name, (text, _), kind in zip(names, EDGES, kinds, strict=True):
        with contextlib.suppress(adbc_driver_manager.Error):
            postgres.run(f"SELECT {loading.literal(text)}::{kind}::text")
            good.append(name)
    assert 0 < len(good) < len(names)
    rows = [{name: text} for name, (text, _) in zip(names, EDGES, strict=True)]
    warehouse.write(rows, ", ".join(f"{name}: string" for name in names), code=2)
    there = postgres.run(f"SELECT {', '.join(f'{name} IS NOT NULL' for name in names)} FROM t")
    found = {name for row in there for name, is_there in zip(names, row, strict=True) if is_there}
    assert found == set(good)


@pytest.mark.parametrize(
    ("table", "schema", "options", "said"),
    [
        ("other int", "id: int", "mode: insert", "table t has no column 'id'"),
        ("id int, x int NOT NULL", "id: int", "mode: insert", "column 'x' of table t needs a value"),
        ("id int", "id: float", "mode: insert", "is integer, and the records have double"),
        ("id int GENERATED ALWAYS AS IDENTITY", "id: int", "mode: insert", "is computed by the database"),
        ("id int", "id: int", "mode: upsert, key: id", "no unique index of table t has just the columns of `key`"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_read(
    table: str, schema: str, options: str, said: str, warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run(f"CREATE TABLE t ({table})")
    (warehouse.folder / "in.ndjson").unlink(missing_ok=True)
    warehouse.write([], schema, code=4, options=options)
    assert warehouse.error.code == "E915"
    assert said in warehouse.error.message


def test_undeclared_columns_need_a_column_too(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int)")
    warehouse.write([{"id": 1, "x": 2}], "id: int", code=4, unmapped="auto_widen")
    assert "table t has no column 'x'" in warehouse.error.message
    postgres.run("ALTER TABLE t ADD x int")
    warehouse.write([{"id": 1, "x": 2}], "id: int", unmapped="auto_widen")
    assert postgres.run("SELECT id, x FROM t") == [(1, 2)]


def test_keys_that_are_there_are_dead_letters(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t (id int UNIQUE, k char(3), l numeric(6,1), v text, UNIQUE (k, l));\n"
        "INSERT INTO t VALUES (2, 'a', 1.5, 'old')"
    )
    rows = [{"id": 1}, {"id": 2}, {"id": 3, "k": "a ", "l": 1.5}, {"id": 4, "k": "a"}, {"id": 5, "k": "b", "l": 1.5}]
    warehouse.write(rows, "id: int, k: string, l: float", code=2, files=FILES)
    assert postgres.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (4,), (5,)]
    first, second = warehouse.letters
    assert "column 'id' of table t: the table has a row with this value already (unique 'public.t_id_key')" in first
    assert "columns k, l of table t: the table has a row with this value already" in second
    assert ",2," in first
    warehouse.write([{"id": 9, "k": "b", "l": 1.5}, {"id": 5, "k": "b", "l": 1.5}], "id: int, k: string, l: float",
                    code=2, options="mode: upsert, key: id")  # fmt: skip
    assert postgres.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (4,), (5,)]
    assert len(warehouse.letters) == 1
    warehouse.write([{"id": 2, "k": "a", "l": 1.5}], "id: int, k: string, l: float", options="mode: replace")
    assert postgres.run("SELECT id FROM t") == [(2,)]


def test_records_that_rows_of_other_tables_and_checks_refuse_are_dead_letters(
    warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run(
        "CREATE TABLE p (id int, x text, PRIMARY KEY (id, x));\nINSERT INTO p VALUES (1, 'a');\n"
        "CREATE TABLE t (id int CHECK (10 / id > 1), p int, x text, d date, CHECK (x <> 'b' OR d > '2024-01-01'), "
        "mother int, UNIQUE (id), FOREIGN KEY (mother) REFERENCES t (id), FOREIGN KEY (p, x) REFERENCES p (id, x))"
    )
    rows = [
        {"id": 1, "p": 1, "x": "a"}, {"id": 2, "p": 1}, {"id": 3, "p": 2, "x": "a"}, {"id": 10}, {"id": 0},
        {"id": 4, "x": "b", "d": "2023-01-01"}, {"id": 5, "x": "b", "d": "Jan 3 2024"}, {"id": 3, "mother": 1},
    ]  # fmt: skip
    warehouse.write(rows, "id: int, p: int, x: string, d: string, mother: int", code=2)
    assert postgres.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,), (5,)]
    said = [
        "table public.p has no row with this value (foreign key 't_p_x_fkey')", "check 't_id_check' does not hold",
        "the database says: division by zero", "check 't_check' does not hold",
    ]  # fmt: skip
    assert len(warehouse.letters) == len(said)
    for text, letter in zip(said, warehouse.letters, strict=True):
        assert text in letter


def test_rows_of_one_run_refer_to_one_another(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE p (id int PRIMARY KEY);\nCREATE TABLE t (id int REFERENCES p DEFERRABLE INITIALLY DEFERRED)"
    )
    other = "\n  - type: output\n    name: p\n    input: rows\n    config: { type: database, options: "
    files = other + "{ connection: warehouse, table: p, mode: insert } }\n"
    warehouse.write([{"id": 1}], "id: int", files=files)
    assert postgres.run("SELECT id FROM t") == [(1,)]


def test_two_records_with_one_value_of_a_computed_column_end_the_run_with_the_words_of_the_database(
    warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run("CREATE TABLE t (id int, twice int GENERATED ALWAYS AS (id * 2) STORED UNIQUE)")
    warehouse.write([{"id": 1}, {"id": 2}, {"id": 2}], "id: int", code=4, files=FILES)
    assert warehouse.error.code == "E911"
    for text in (
        "table public.t: ", "duplicate key value violates unique constraint",
        "Key (twice)=(4) already exists", "either two records have it",
    ):  # fmt: skip
        assert text in warehouse.error.message
    assert postgres.run("SELECT id FROM t") == []
    assert not (warehouse.folder / "out/rows.csv").exists()
    assert warehouse.staged == []


def test_elements_of_arrays_are_looked_at(postgres: Database) -> None:
    from spark_jobs.cxl import types
    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.database import write

    postgres.run("CREATE TABLE t (i int2[], n numeric(3,1)[], s varchar(2)[], d date[])")
    known = loading.look(connections.Connection("warehouse", postgres.uri), DatabaseWrite("warehouse", "t"))
    kinds = {"i": types.INT, "n": types.FLOAT, "s": types.STRING, "d": types.STRING}
    schema = Schema(tuple(Column(name, types.array_of(kind)) for name, kind in kinds.items()))
    writer = write.DatabaseWriter(schema, known)
    rows = [
        {"i": [1, None], "n": [99.94], "s": ["ab"], "d": ["2024-01-01", "1 May 2024"]}, {"i": [1, 32768]},
        {"n": [1.0, 99.95]}, {"s": ["a", "abc"]}, {"d": ["2024-01-01", "2023-02-29"]}, {"i": []}, {"s": ["\0"]},
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, writer.schema)
    assert [failure.row for failure in writer.encode(batch).failures] == [1, 2, 3, 4, 6]


#: Texts of types whose forms are many: what the database reads as a value becomes one, and nothing else does.
UNUSUAL = [
    ("date", "2024-02-29"), ("date", "2023-02-29"), ("date", "Jan 5 2024"), ("date", "0000-01-01"),
    ("date", "infinity"), ("date", "31.12."), ("timestamp", "2024-02-29T12:30:00.1234567"),
    ("timestamp", "2024-02-29 24:00"),
    ("timestamp", "2024-02-30 12:00"), ("timestamptz", "2024-01-01 12:00 Europe/Berlin"), ("timestamptz", "x"),
    ("timestamptz", "2024-01-01T12:00:00+15:60"), ("bool", "tRu"), ("bool", "On"), ("bool", "2"), ("bool", " yes "),
    ("float8", "1e308"), ("float8", "1e309"), ("float8", "1e-400"), ("float8", "NaN"), ("float8", "0x10"),
    ("float4", "1e39"), ("float4", "-1.5e3"), ("mood", "glad"), ("mood", "Glad"), ("interval", "1 day -2:00"),
    ("interval", "soon"), ("inet", "10.0.0.1/8"), ("inet", "10.0.0.256"), ("even", "4"), ("even", "5"), ("even", "x"),
    ("int4range", "[1,3)"), ("int4range", "[3,1)"), ("int2[]", "{1,2}"), ("int2[]", "{1,40000}"), ("time", "25:00"),
    ("time", "23:59:60"), ("macaddr", "x"), ("point", "(1,2)"),
]  # fmt: skip


def test_texts_are_what_the_database_reads(warehouse: Warehouse, postgres: Database) -> None:
    import adbc_driver_manager

    postgres.run("CREATE TYPE mood AS ENUM ('glad');\nCREATE DOMAIN even AS int CHECK (VALUE % 2 = 0)")
    names = [f"c{number}" for number in range(len(UNUSUAL))]
    postgres.run(f"CREATE TABLE t ({', '.join(f'{n} {kind}' for n, (kind, _) in zip(names, UNUSUAL, strict=True))})")
    good = set()
    for name, (kind, text) in zip(names, UNUSUAL, strict=True):
        with contextlib.suppress(adbc_driver_manager.Error):
            postgres.run(f"SELECT {loading.literal(text)}::{kind}::text")
            good.add(name)
    assert 0 < len(good) < len(names)
    rows = [{name: text} for name, (_, text) in zip(names, UNUSUAL, strict=True)]
    warehouse.write(rows, ", ".join(f"{name}: string" for name in names), code=2)
    there = postgres.run(f"SELECT {', '.join(f'{name} IS NOT NULL' for name in names)} FROM t")
    assert {name for row in there for name, is_there in zip(names, row, strict=True) if is_there} == good
    assert len(warehouse.letters) == len(names) - len(good)
    letter = next(each for each in warehouse.letters if "2023-02-29" in each)
    assert "column 'c1' of table t: the database says: " in letter
    assert "out of range" in letter


@pytest.mark.parametrize("column", ["id int", "id int UNIQUE"])
def test_a_lock_of_another_session_is_not_waited_for_forever(
    column: str, warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adbc_driver_postgresql import dbapi

    monkeypatch.setattr(loading, "LOCK_S", 1)
    postgres.run(f"CREATE TABLE t ({column})")
    with dbapi.connect(postgres.uri) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        warehouse.write([{"id": 1}], "id: int", code=4)
    assert "another session has held a lock for 1 s" in warehouse.error.message
    assert warehouse.staged == []


def test_missing_rights_are_told_with_the_statement_that_gives_them(
    warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"r{postgres.uri.rpartition('/')[2]}"
    postgres.run(
        f"CREATE TABLE t (id int);\nCREATE ROLE {role} LOGIN PASSWORD 'x';\nREVOKE CREATE ON SCHEMA public FROM PUBLIC"
    )
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", postgres.uri.replace(f"clinker:{PASSWORD}", f"{role}:x"))
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert "GRANT INSERT ON t" in warehouse.error.message
    postgres.run(f"GRANT INSERT ON t TO {role}")
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert 'GRANT CREATE ON SCHEMA "public"' in warehouse.error.message
    postgres.run(f"CREATE SCHEMA own AUTHORIZATION {role}")
    warehouse.write([{"id": 1}], "id: int", options="staging_schema: own")
    assert postgres.run("SELECT id FROM t") == [(1,)]
    postgres.run(f"DROP OWNED BY {role};\nDROP ROLE {role}")


def dying(warehouse: Warehouse, run: Callable[[], None], patch: Callable[[Callable[[], None]], None]) -> bool:
    """Run in a process that is killed where it is patched to be; whether it was."""
    child = os.fork()
    if not child:
        try:
            patch(lambda: os.kill(os.getpid(), signal.SIGKILL))
            run()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child that was forked must not go on as a test
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    # What is left there tells nobody a password.
    assert not [note for note in warehouse.notes if PASSWORD in note]
    for file in warehouse.folder.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()
    return os.WIFSIGNALED(status)


def killed(owner: Any, name: str, number: int, *, before: bool = False) -> Callable[[Callable[[], None]], None]:
    """Die at a call of a function, before it or after it."""

    def patch(die: Callable[[], None]) -> None:
        real, calls = getattr(owner, name), itertools.count(1)

        def call(*given: Any, **named: Any) -> Any:
            is_there = next(calls) == number
            if is_there and before:
                die()
            found = real(*given, **named)
            if is_there:
                die()
            return found

        setattr(owner, name, call)

    return patch


def killed_in_copy(die: Callable[[], None], package: Any = loading) -> None:
    """Die while the first rows are on their way."""
    real = package.fill

    def fill(connection: Any, staging: Any, part: int, batches: Any, schema: Any) -> int:
        def ending() -> Any:
            yield from batches
            die()

        return real(connection, staging, part, ending(), schema)

    package.fill = fill


def settled(warehouse: Warehouse, files: str, *, first: str = "database") -> list[int]:
    """What is in the table, and in the file if there is one, once somebody has cleared up."""
    access = StorageAccess(connections={"warehouse": warehouse.database.uri})
    if first == "files" and (warehouse.folder / "out").exists():
        recovery.recover(warehouse.folder / "out", access)
    databases.recover(connections.find("warehouse", {}, warehouse.folder), access)
    assert warehouse.staged == []
    ids = sorted(row[0] for row in warehouse.database.run("SELECT id FROM t"))
    if files:
        assert (warehouse.folder / "out/rows.csv").read_text().split()[1:] == [str(each) for each in ids]
    return ids


ALONE = [
    (killed(loading, "begin", 1), False),
    (killed_in_copy, False),
    (killed(loading, "fill", 1), False),
    (killed(databases, "load", 1), False),
    (killed(loading, "publish", 1), False),
    (killed(databases.Tables, "complete", 1), True),
]
JOINT = [
    (killed_in_copy, False),
    (killed(databases.Tables, "prepare", 1), False),
    (killed(LocalDraft, "decide", 1, before=True), False),
    (killed(LocalDraft, "decide", 1), True),
    (killed(loading, "publish", 2), True),
    (killed(databases.Tables, "complete", 1), True),
    (killed(LocalDraft, "complete", 1), True),
]


@pytest.mark.parametrize(("files", "number"), [*(("", at) for at in range(6)), *((FILES, at) for at in range(7))])
def test_a_death_leaves_all_old_or_all_new(files: str, number: int, warehouse: Warehouse, postgres: Database) -> None:
    patch, is_new = (JOINT if files else ALONE)[number]
    postgres.run("CREATE TABLE t (id int);\nINSERT INTO t VALUES (1)")
    pipelines.write(warehouse.folder, {"out/rows.csv": "id\n1\n"} if files else {})
    rows = [{"id": 1}, {"id": 2}]
    assert dying(warehouse, lambda: warehouse.write(rows, "id: int", options="mode: replace", files=files), patch)
    assert settled(warehouse, files, first="files" if number % 2 else "database") == ([1, 2] if is_new else [1])


def test_a_death_at_any_statement_leaves_all_old_or_all_new(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int);\nINSERT INTO t VALUES (0)")
    pipelines.write(warehouse.folder, {"out/rows.csv": "id\n0\n"})
    ids, deaths = [0], 0
    for number in itertools.count(1, STRIDE):
        rows = [{"id": number}, {"id": number + 1}]
        new = [number, number + 1]
        write = partial(warehouse.write, rows, "id: int", options="mode: replace", files=FILES)
        is_killed = dying(warehouse, write, killed(loading, "run", number, before=True))
        found = settled(warehouse, FILES)
        assert found in (ids, new)
        ids, deaths = found, deaths + is_killed
        if not is_killed:
            assert found == new
            break
    assert deaths * STRIDE > 40


def test_rows_of_a_run_that_may_count_are_not_overtaken(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int)")
    write = partial(warehouse.write, [{"id": 1}], "id: int", options="mode: replace", files=FILES)
    assert dying(warehouse, write, killed(LocalDraft, "decide", 1))
    shutil.move(warehouse.folder / "out", warehouse.folder / "elsewhere")
    warehouse.write([{"id": 2}], "id: int", code=4, options="mode: replace")
    assert "whether they count cannot be found out" in warehouse.error.message
    assert "is not on this machine" in warehouse.error.message
    shutil.move(warehouse.folder / "elsewhere", warehouse.folder / "out")
    warehouse.write([{"id": 2}], "id: int", options="mode: insert")
    assert postgres.run("SELECT id FROM t") == [(1,), (2,)]


def test_a_staging_table_of_another_role_says_nothing(warehouse: Warehouse, postgres: Database) -> None:
    role = f"s{postgres.uri.rpartition('/')[2]}"
    comment = json.dumps(
        {"run": "x", "connection": "warehouse", "target": "t", "mode": "insert", "keys": [], "rows": 1,
         "columns": [["id", "(SELECT 1 / 0)"]], "home": None}
    )  # fmt: skip
    name = loading.name_of("x", "warehouse", 0)
    postgres.run(
        f"CREATE TABLE t (id int);\nCREATE ROLE {role};\nCREATE TABLE {name} (id int);\n"
        f"COMMENT ON TABLE {name} IS '{comment}';\nALTER TABLE {name} OWNER TO {role}"
    )
    postgres.run("CREATE ROLE w LOGIN PASSWORD 'y' NOSUPERUSER;\nGRANT ALL ON t TO w;\nGRANT ALL ON SCHEMA public TO w")
    uri = postgres.uri.replace(f"clinker:{PASSWORD}", "w:y")
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("CLINKER_CONNECTION_WAREHOUSE", uri)
            warehouse.write([{"id": 1}], "id: int")
        assert warehouse.staged == [(name,)]
        with loading.transaction(connections.Connection("warehouse", uri)) as found:
            assert loading.all_stagings(found) == []
            with pytest.raises(FormatError, match="belongs to another role"):
                loading.stagings_of(found, "x", "warehouse")
        with loading.transaction(connections.Connection("warehouse", postgres.uri)) as found:
            assert loading.all_stagings(found) == []  # not even a superuser is told what to do by others
    finally:
        postgres.run(f"DROP OWNED BY w, {role};\nDROP ROLE w;\nDROP ROLE {role}")


def test_rows_that_somebody_removes_while_they_wait_are_missed(
    warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run("CREATE TABLE t (id int)")
    real = databases.load

    def robbed(*given: Any) -> Any:
        found = real(*given)
        postgres.run(f"DROP TABLE {found[0].stagings[0].table}")
        return found

    monkeypatch.setattr(databases, "load", robbed)
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert "somebody has removed" in warehouse.error.message
    warehouse.write([{"id": 1}], "id: int", code=4, files=FILES)
    assert not (warehouse.folder / "out/rows.csv").exists()


def test_two_connections_may_lead_to_one_database(
    warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINKER_CONNECTION_OTHER", postgres.uri)
    postgres.run("CREATE TABLE t (id int);\nCREATE TABLE u (id int)")
    files = """
  - type: output
    name: o
    input: rows
    config: { type: database, options: { connection: other, table: u } }
"""
    warehouse.write([{"id": 1}, {"id": 2}], "id: int", files=files)
    assert postgres.run("SELECT t.id, u.id FROM t JOIN u USING (id) ORDER BY 1") == [(1, 1), (2, 2)]
    assert warehouse.staged == []


def test_a_session_that_ends_at_the_commit_leaves_all_old(
    warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run("CREATE TABLE t (id int)")
    real, calls = loading.publish, itertools.count(1)

    def cut(found: Any, staging: Any) -> None:
        real(found, staging)
        if next(calls) == 2:
            ((backend,),) = loading.run(found, "SELECT pg_backend_pid()")
            postgres.run(f"SELECT pg_terminate_backend({backend})")

    monkeypatch.setattr(loading, "publish", cut)
    warehouse.write([{"id": 1}], "id: int", code=4, files=FILES)
    assert warehouse.error.code == "E911"
    assert postgres.run("SELECT id FROM t") == []
    assert not (warehouse.folder / "out/rows.csv").exists()
    assert warehouse.staged == []


def test_a_constraint_that_is_checked_at_the_commit_ends_the_run(warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t DEFERRABLE INITIALLY DEFERRED);\n"
        "INSERT INTO t VALUES (1)"
    )
    for files in ("", FILES):
        warehouse.write([{"id": 2, "up": 3}], "id: int, up: int", code=4, files=files)
        assert "violates foreign key constraint" in warehouse.error.message
        assert postgres.run("SELECT id FROM t") == [(1,)]
        assert not (warehouse.folder / "out/rows.csv").exists()
        assert warehouse.staged == []


def test_validate_looks_for_the_connection_of_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PIPELINE.format(schema="id: int", unmapped="drop", table="t", options="mode: insert")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.ndjson": '{"id": 1}\n'})
    monkeypatch.delenv("CLINKER_CONNECTION_WAREHOUSE", raising=False)
    assert clinker.main(["validate", str(tmp_path / "pipeline.yaml")]) == 1
    assert "error[E911]: warehouse: there is no connection" in capsys.readouterr().err
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", "oracle://db.acme.example/x")
    assert clinker.main(["validate", str(tmp_path / "pipeline.yaml")]) == 1
    assert "leads to Oracle, which is not supported" in capsys.readouterr().err
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", "postgresql://ada:s3cret@127.0.0.1:1/x")
    assert clinker.main(["validate", str(tmp_path / "pipeline.yaml")]) == 0
    capsys.readouterr()
    assert clinker.main(["explain", str(tmp_path / "pipeline.yaml")]) == 0
    plan = capsys.readouterr().out
    assert "table t of connection 'warehouse' (insert)\n" in plan
    assert "a run that the table refuses begins again, shuffles records once for each unique index of the table" in plan
    pipelines.write(tmp_path, {"pipeline.yaml": text.replace("mode: insert", "mode: upsert, key: id")})
    assert clinker.main(["explain", str(tmp_path / "pipeline.yaml")]) == 0
    assert "once for each unique index of the table but the `key`, and then" in capsys.readouterr().out


def test_records_are_shown_without_asking_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", "postgresql://127.0.0.1:1/nobody-listens-here")
    text = PIPELINE.format(schema="id: int, s: string", unmapped="drop", table="t", options="mode: insert")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.ndjson": '{"id": 1, "s": "x"}\n'})
    assert clinker.main(["run", str(tmp_path / "pipeline.yaml"), "--dry-run", "-n", "1"]) == 0
    assert '{"id": 1, "s": "x"}' in capsys.readouterr().out


def test_a_living_run_is_left_alone(warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.run("CREATE TABLE t (id int)")
    real, met = joint.publish, threading.Event()

    def meeting(*given: Any) -> Any:
        databases.recover(connections.find("warehouse", {}, warehouse.folder), StorageAccess())
        met.set()
        return real(*given)

    monkeypatch.setattr(joint, "publish", meeting)
    warehouse.write([{"id": 1}], "id: int")
    assert met.is_set()
    assert postgres.run("SELECT id FROM t") == [(1,)]


def test_a_database_that_goes_away_in_copy_ends_the_run(
    warehouse: Warehouse, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run("CREATE TABLE t (id int)")
    real = loading.fill

    def cut(connection: Any, staging: Any, part: int, batches: Any, schema: Any) -> int:
        def ending() -> Any:
            yield from batches
            postgres.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND query ILIKE 'COPY%'"
            )

        return real(connection, staging, part, ending(), schema)

    monkeypatch.setattr(loading, "fill", cut)
    warehouse.write([{"id": number} for number in range(1000)], "id: int", code=4)
    assert warehouse.error.code == "E911"
    assert postgres.run("SELECT count(*) FROM t") == [(0,)]
    assert warehouse.staged == []


def test_keys_of_files_and_paths_are_told(tmp_path: Path) -> None:
    text = PIPELINE.format(schema="id: int", unmapped="drop", table="t", options="mode: upsert")
    pipelines.write(tmp_path, {"pipeline.yaml": text.replace("{ type: database,", "{ type: database, path: x, ")})
    with pytest.raises(Exception, match="E219") as raised:
        plan.load(tmp_path / "pipeline.yaml")
    assert "`mode: upsert` and `key` go together" in str(raised.value)


TWO_TABLES = """
  - type: output
    name: seen
    input: rows
    config: { type: database, options: { connection: warehouse, table: seen, mode: upsert, key: v } }
"""


def watched(command: list[str], log: Path, shown: set[str]) -> tuple[int, str]:
    """Execute a command, and note the command lines of its processes; gives its code and what it says."""
    with log.open("w") as told, subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT) as process:
        own = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                shown |= {" ".join(each.cmdline()) for each in [own, *own.children(recursive=True)]}
                process.wait(0.2)
            except (psutil.Error, subprocess.TimeoutExpired):
                continue
    return process.returncode, log.read_text()


@pytest.mark.spark
def test_tasks_of_spark_put_rows_into_tables_and_no_password_is_left(
    tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks in processes of their own fill the staging tables; a second run changes what it upserts, and no more."""
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "20000")
    postgres.run("CREATE TABLE t (id int2 NOT NULL, v varchar(4));\nCREATE TABLE seen (v text PRIMARY KEY, id int)")
    schema = "id: int, v: string"
    text = PIPELINE.format(schema=schema, unmapped="drop", table="t", options="mode: replace") + TWO_TABLES + FILES
    rows = [{"id": number, "v": f"g{number % 3}"} for number in range(9000)]
    bad = [{"id": 40000, "v": "g0"}, {"id": 1, "v": "too long"}]
    lines = [json.dumps(row) + "\n" for row in (*rows, *bad)]
    pipelines.write(tmp_path, {"p.yaml": text, "in.ndjson": "".join(lines)})
    options = ["--log-level", "debug", "--metrics-spool-dir", str(tmp_path / "spool"), "--force"]
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "p.yaml"), *options]
    shown = set[str]()
    for _ in range(2):
        code, told = watched(command, tmp_path / "told.log", shown)
        assert code == 2, told
        assert postgres.run("SELECT count(*), min(id), max(id) FROM t") == [(9000, 0, 8999)]
        assert postgres.run("SELECT v, id FROM seen ORDER BY v") == [
            ("g0", 40000), ("g1", 8998), ("g2", 8999), ("too long", 1),
        ]  # fmt: skip
        assert (tmp_path / "out/rows.csv").read_text().count("\n") == 9003
        assert len((tmp_path / "out/dlq.csv").read_text().splitlines()) == 3
        assert postgres.run("SELECT 1 FROM pg_class WHERE relname LIKE 'clinker%'") == []
    left = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [each for each in (*shown, *left) if PASSWORD in each]
    assert any("java" in each for each in shown)

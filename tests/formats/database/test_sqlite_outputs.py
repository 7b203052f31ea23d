"""Outputs that are tables of SQLite: values, dead letters, and tables that are not written."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.execute.delivery.local import recovery
from spark_jobs.execute.delivery.local.files import LocalDraft
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.execute.run import progress, stopwatch
from spark_jobs.formats.database import write
from spark_jobs.formats.database.options import DatabaseRead, DatabaseWrite
from spark_jobs.formats.database.sqlite import loading
from spark_jobs.formats.database.sqlite import reading as sqlite
from spark_jobs.scan import connections
from tests.execute import pipelines, without_spark
from tests.formats.database.table_outputs import SqliteDatabase, SqliteWarehouse, check_values, put
from tests.formats.database.test_mysql_outputs import KINDS, MOMENTS, NUMBERS, TEXTS, same
from tests.formats.database.test_table_outputs import FILES, dying, killed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteWarehouse:
    without_spark.install(monkeypatch)
    (tmp_path / "data").mkdir()
    database = SqliteDatabase(f"sqlite:///{tmp_path}/data/shop [1].db")
    sqlite3.connect(database.path).close()
    database.path.touch()
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", database.uri)
    return SqliteWarehouse(tmp_path, database)  # type: ignore[arg-type]


def test_types_are_those_of_the_table(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run(
        'CREATE TABLE "sel""ect" (id INTEGER PRIMARY KEY, "from" SMALLINT, n DECIMAL(10,2), f DOUBLE, ts DATETIME, '
        "d DATE, b BOOLEAN, j JSON, t TEXT, x, by_ BLOB, twice INT AS (id * 2))"
    )
    row = {
        "id": 1, "from": 7, "n": "12.50", "f": 0.1, "ts": "2024-02-29T12:30:00.123456", "d": "2024-02-29", "b": True,
        "j": '{"a": 1}', "t": "a'b\0🎈", "x": "007", "by_": "tëxt",
    }  # fmt: skip
    schema = (
        "id: int, from: int, n: string, f: float, ts: date_time, d: date, b: bool, j: string, t: string, x: string, "
        "by_: string"
    )
    rows = [row, {**dict.fromkeys(row), "id": 2}]
    warehouse.write(rows, schema, table="'sel\"ect'")
    first, second = warehouse.database.run('SELECT * FROM "sel""ect" ORDER BY id')
    assert first == (1, 7, 12.5, 0.1, "2024-02-29 12:30:00.123456", "2024-02-29", 1, '{"a": 1}', "a'b\0🎈", "007",
                     "tëxt", 2)  # fmt: skip
    assert second == (2, *[None] * 10, 4)
    assert warehouse.staged == []


def test_modes_do_what_they_do_elsewhere(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (k TEXT COLLATE NOCASE UNIQUE, other INT UNIQUE, v INT, stays INT DEFAULT 4);\n"
        "INSERT INTO t VALUES ('a', 1, 1, 9), ('b', 2, 2, 9)"
    )
    rows = [
        {"k": "A", "other": 1, "v": 10}, {"k": "c", "other": 3, "v": 30}, {"k": "C", "other": 4, "v": 31},
        {"k": "d", "other": 2, "v": 40}, {"k": None, "other": 7, "v": 0},
    ]  # fmt: skip
    warehouse.write(rows, "k: string, other: int, v: int", code=2, options="mode: upsert, key: k", files=FILES)
    assert warehouse.database.run("SELECT * FROM t ORDER BY k") == [("a", 1, 10, 9), ("b", 2, 2, 9), ("c", 4, 31, 4)]
    assert len(warehouse.letters) == 2
    warehouse.write([{"k": "z", "v": 1}], "k: string, v: int", options="mode: replace")
    assert warehouse.database.run("SELECT * FROM t") == [("z", None, 1, 4)]


def test_rows_come_in_order_from_many_parts(warehouse: SqliteWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines.cut_by(monkeypatch, 1000)
    warehouse.database.run("CREATE TABLE t (place INTEGER PRIMARY KEY, id INT)")
    warehouse.write([{"id": number * 3} for number in range(2000)], "id: int")
    assert warehouse.database.run("SELECT count(*), sum(id = (place - 1) * 3) FROM t") == [(2000, 2000)]


def test_names_of_tables_may_have_points(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run('CREATE TABLE "a.b" (id INT);\nCREATE TABLE b (id INT)')
    warehouse.write([{"id": 1}], "id: int", table="a.b")
    warehouse.write([{"id": 2}], "id: int", table="main.b")
    warehouse.write([{"id": 3}], "id: int", table="main.a.b", code=4)
    assert warehouse.database.run('SELECT id FROM "a.b"') == [(1,)]
    assert warehouse.database.run("SELECT id FROM b") == [(2,)]
    connection = connections.Connection("warehouse", warehouse.database.uri)
    (found,) = sqlite.look(connection, DatabaseRead("warehouse", "a.b")).tables
    assert found.part.relation == '"a.b"'


def test_progress_tells_how_many_rows_are_in_the_table(
    warehouse: SqliteWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    texts: list[str] = []

    def show(clock: stopwatch.Stopwatch, detail: Any) -> None:
        if detail is None:
            texts.append(progress.Progress(clock, now=lambda: 0.0).text())
        shown.append(detail)
        clock.detail = detail

    monkeypatch.setattr(stopwatch.Stopwatch, "show", show)
    warehouse.database.run("CREATE TABLE t (id INT)")
    warehouse.write([{"id": number} for number in range(2000)], "id: int", files=FILES)
    # Once it is tried and once it is done.
    assert texts == ['publishing 2,000 of 2,000 records into main."t" [0 s]'] * 2
    assert shown[-1] is None


#: A type, what a column is declared as, a value that it keeps, and values that it refuses or would change.
REFUSED = [
    ("int", "REAL", 1 << 53, [(1 << 53) + 1, (1 << 62) + 1]),
    ("string", "INTEGER", "007", ["x", "1.5", "9223372036854775808", "", "1e3"]),
    ("string", "REAL", "12.50", ["x", "nan", "1e999", "0.12345678901234567890"]),
    ("string", "NUMERIC(30,10)", "1e3", ["12345678901234567890.5", "x", ""]),
    ("string", "BOOLEAN", "1", ["true"]),
    ("string", "DATE", "2024-02-29", ["2024", " 1.5 "]),
    ("string", "JSON", '{"a": 1}', ["1.50"]),
    ("int", "INT NOT NULL", 1, [None]),
    ("int", "INT CHECK (v > 0)", 1, [0]),
]


def test_what_columns_would_refuse_or_change_are_dead_letters(warehouse: SqliteWarehouse) -> None:
    connection = connections.Connection("warehouse", warehouse.database.uri)
    for number, (kind, column, good, bad) in enumerate(REFUSED):
        table = f"t{number}"
        warehouse.database.run(f"CREATE TABLE {table} (id INT, v {column})")
        refused = put(loading, connection, table, KINDS[kind], [good, *bad], "r")
        assert [*refused] == [*range(1, len(bad) + 1)], (column, refused)
        assert all(why.startswith(f"column 'v' of table {table}: ") for why in refused.values()), refused
        assert warehouse.database.run(f"SELECT id FROM {table}") == [(0,)], column
    assert warehouse.staged == []


def test_not_a_number_is_no_null(warehouse: SqliteWarehouse) -> None:
    connection = connections.Connection("warehouse", warehouse.database.uri)
    warehouse.database.run("CREATE TABLE t (v REAL)")
    known = loading.look(connection, DatabaseWrite("warehouse", "t"))
    writer = write.DatabaseWriter(Schema((Column("v", types.FLOAT),)), known)
    batch = pa.RecordBatch.from_pydict({"v": [1.0, float("nan"), float("inf"), None]})
    assert [failure.row for failure in writer._refused(batch)] == [1]


def test_constraints_are_asked_before_the_verdict(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE p (k TEXT PRIMARY KEY);\nINSERT INTO p VALUES ('x');\n"
        "CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT REFERENCES p, low INT, high INT CHECK (high < 100), "
        "u TEXT UNIQUE ON CONFLICT REPLACE, CONSTRAINT ordered CHECK (low <= high));\n"
        "INSERT INTO t VALUES (1, 'x', 1, 2, 'u')"
    )
    rows = [
        {"id": 1}, {"id": 2, "k": "y"}, {"id": 3, "low": 3, "high": 2}, {"id": 4, "high": 100}, {"id": 5, "u": "u"},
        {"id": None}, {"id": 7, "k": "x", "low": 1, "high": 1, "u": "v"},
    ]  # fmt: skip
    schema = "id: int, k: string, low: int, high: int, u: string"
    warehouse.write(rows, schema, code=2)
    assert warehouse.database.run("SELECT id FROM t ORDER BY id") == [(1,), (7,)]
    reasons = ["already (unique", "foreign key", "ordered", "high < 100", "already (unique", "must be a value"]
    for reason, letter in zip(reasons, sorted(warehouse.letters, key=lambda line: line.split(",")[4]), strict=True):
        assert reason in letter
    warehouse.database.run(
        "ALTER TABLE t ADD COLUMN twice INT AS (low * 2);\nCREATE UNIQUE INDEX twice_ ON t (twice) WHERE low > 5"
    )
    warehouse.write([{"id": 8, "low": 7}, {"id": 9, "low": 7}], schema, code=4)
    assert "UNIQUE constraint failed: t.twice" in warehouse.error.message
    assert "or another program has put it there since" in warehouse.error.message
    assert warehouse.database.run("SELECT count(*) FROM t") == [(2,)]


def test_tables_are_not_replaced_where_rows_of_others_would_go_with_theirs(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, up INT REFERENCES T ON DELETE CASCADE);\n"
        "INSERT INTO t VALUES (1, 1);\n"
        "CREATE TABLE kid (id INT REFERENCES T ON DELETE CASCADE);\nINSERT INTO kid VALUES (1)"
    )
    warehouse.write([{"id": 1}], "id: int", code=4, options="mode: replace")
    assert warehouse.error.code == "E915"
    assert "kid (ON DELETE CASCADE)" in warehouse.error.message
    assert warehouse.database.run("SELECT id FROM kid") == [(1,)]
    warehouse.database.run("DROP TABLE kid")
    warehouse.write([{"id": 2}], "id: int", options="mode: replace")
    assert warehouse.database.run("SELECT id FROM t") == [(2,)]


def test_values_are_compared_as_the_columns_of_the_tables_compare_them(warehouse: SqliteWarehouse) -> None:
    """A column of any type has `7` and `007`, and a foreign key is read as the column that it refers to."""
    warehouse.database.run(
        "CREATE TABLE t (id INT, a ANY UNIQUE) STRICT;\nINSERT INTO t VALUES (1, '7');\n"
        "CREATE TABLE p (k TEXT PRIMARY KEY);\nINSERT INTO p VALUES ('007'), ('8');\n"
        "CREATE TABLE u (id INT, k INT REFERENCES p, n NUMERIC UNIQUE);\nINSERT INTO u VALUES (1, NULL, 5)"
    )
    warehouse.write([{"id": 2, "a": "007"}, {"id": 3, "a": "7"}, {"id": 4, "a": "7.0"}], "id: int, a: string", code=2)
    assert warehouse.database.run("SELECT id FROM t") == [(1,), (2,), (4,)]
    rows = [{"id": 2, "k": 7}, {"id": 3, "k": 8}, {"id": 4, "n": "5.0"}, {"id": 5, "n": "05.10"}]
    warehouse.write(rows, "id: int, k: int, n: string", code=2, table="u")
    assert warehouse.database.run("SELECT id FROM u") == [(1,), (3,), (5,)]


def test_strict_tables_and_tables_without_row_ids(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (k TEXT PRIMARY KEY, n REAL, b BLOB, a ANY) STRICT, WITHOUT ROWID;\n"
        "INSERT INTO t VALUES ('a', 1, NULL, NULL)"
    )
    rows = [{"k": "a", "n": 2.5, "b": "ä", "a": "007"}, {"k": "b", "n": 1.0}, {"k": None}]
    schema = "k: string, n: float, b: string, a: string"
    warehouse.write(rows, schema, code=2, options="mode: upsert, key: [k]")
    assert warehouse.database.run("SELECT * FROM t") == [("a", 2.5, "ä".encode(), "007"), ("b", 1.0, None, None)]
    warehouse.write([{"k": "c", "n": 1}], "k: string, n: bool", code=4)
    assert "is REAL, and the records have bool" in warehouse.error.message


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("SELECT 1", "there is no table `t`"),
        ("CREATE TABLE s (id);\nCREATE VIEW t AS SELECT * FROM s", "there is no table `t`"),
        ("CREATE VIRTUAL TABLE t USING fts5(id)", "is no table that rows can be put into"),
        ("CREATE TABLE t (id TEXT)", "is TEXT, and the records have int64"),
        ("CREATE TABLE t (ID INT)", "did you mean `ID`"),
        ("CREATE TABLE t (id INT, n INT NOT NULL)", "column 'n' of table t needs a value"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_read(made: str, said: str, warehouse: SqliteWarehouse) -> None:
    warehouse.database.run(made)
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert warehouse.error.code == "E915"
    assert said in warehouse.error.message


def test_a_file_that_is_not_there_is_not_made(warehouse: SqliteWarehouse) -> None:
    warehouse.database.path.unlink()
    warehouse.write([{"id": 1}], "id: int", code=4)
    said = f"there is no file {warehouse.database.path}; correct the URI: with three slashes"
    assert said in warehouse.error.message
    assert os.listdir(warehouse.database.path.parent) == []
    warehouse.database.path.mkdir()
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert f"{warehouse.database.path} is a folder" in warehouse.error.message


def test_the_journal_stays_as_it_is_and_readers_see_old_rows(
    warehouse: SqliteWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(warehouse.database.path, isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("CREATE TABLE t (id INT)")
        reader.execute("INSERT INTO t VALUES (1)")
        seen: list[Any] = []
        real = loading.publish

        def publish(found: Any, staging: Any) -> None:
            real(found, staging)
            seen.append(reader.execute("SELECT id FROM t").fetchall())

        monkeypatch.setattr(loading, "publish", publish)
        warehouse.write([{"id": 2}], "id: int", options="mode: replace", files=FILES)
        assert seen == [[(1,)], [(1,)]]
        assert reader.execute("SELECT id FROM t").fetchall() == [(2,)]
        assert reader.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def test_a_lock_of_another_program_is_not_waited_for_forever(
    warehouse: SqliteWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.formats.database.sqlite import session

    warehouse.database.run("CREATE TABLE t (id INT)")
    monkeypatch.setattr(session, "LOCK_S", 0.1)
    with closing(sqlite3.connect(warehouse.database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        warehouse.write([{"id": 1}], "id: int", code=4)
        assert "another program has held a lock" in warehouse.error.message
        other.execute("ROLLBACK")
    warehouse.write([{"id": 1}], "id: int")
    assert warehouse.database.run("SELECT id FROM t") == [(1,)]


def test_a_deferred_foreign_key_ends_the_run_and_nothing_is_published(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, up INT REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
    for files in ("", FILES):
        warehouse.write([{"id": 1, "up": 5}], "id: int, up: int", code=4, files=files)
        assert "FOREIGN KEY constraint failed" in warehouse.error.message
        assert warehouse.database.run("SELECT id FROM t") == []
        assert not (warehouse.folder / "out/rows.csv").exists()
        assert warehouse.staged == []
    warehouse.write([{"id": 1, "up": 2}, {"id": 2, "up": 1}], "id: int, up: int", files=FILES)
    assert warehouse.database.run("SELECT id FROM t") == [(1,), (2,)]


COPY = """
pipeline: { name: p }
nodes:
  - type: source
    name: rows
    config: { type: database, options: { connection: warehouse, table: s }, schema: { id: int, v: string } }
  - type: output
    name: t
    input: rows
    config: { type: database, options: { connection: warehouse, table: t } }
"""


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_run_reads_and_writes_one_file(mode: str, warehouse: SqliteWarehouse) -> None:
    with closing(sqlite3.connect(warehouse.database.path, isolation_level=None)) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE s (id INT, v TEXT)")
        other.execute("CREATE TABLE t (id INT, v TEXT)")
        other.execute("INSERT INTO s VALUES (1, 'x'), (2, NULL)")
    pipelines.write(warehouse.folder, {"pipeline.yaml": COPY})
    outcome = pipelines.run(warehouse.folder, force=True)
    assert outcome.result.exit_code == 0, outcome.result.error
    assert warehouse.database.run("SELECT * FROM t") == [(1, "x"), (2, None)]


def test_whoever_completes_a_run_finds_a_file_that_was_named_by_a_relative_path(
    warehouse: SqliteWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run("CREATE TABLE t (id INT)")
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", f"sqlite:///data/{warehouse.database.path.name}")
    write = partial(warehouse.write, [{"id": 1}], "id: int", files=FILES)
    assert dying(warehouse, write, killed(LocalDraft, "decide", 1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    recovery.recover(warehouse.folder / "out", StorageAccess())
    assert warehouse.database.run("SELECT id FROM t") == [(1,)]
    assert (warehouse.folder / "out/rows.csv").read_text() == "id\n1\n"


#: Texts that are numbers, or nearly.
SPELLINGS = ["1e5", " 12 ", "1.50", "0x10", "-0", "inf", ".5", "5.", "12500000000000000000"]
#: Values of each type of records, and what the columns are declared as that they go into.
VALUES: dict[str, tuple[Any, Any, list[str]]] = {
    "int": (types.INT, st.integers(-(1 << 63), (1 << 63) - 1), ["INT", "REAL", "NUMERIC", "", "BOOLEAN", "STRING"]),
    "float": (types.FLOAT, st.floats(), ["REAL", "NUMERIC", "", "STRING"]),
    "bool": (types.BOOL, st.booleans(), ["BOOLEAN", "INT", ""]),
    "date": (types.DATE, st.dates(), ["DATE", "DATETIME", "TEXT", ""]),
    "moment": (types.DATETIME, MOMENTS, ["DATETIME", "TIMESTAMP", "TEXT", ""]),
    "text": (types.STRING, TEXTS | NUMBERS | st.sampled_from(SPELLINGS),
             ["TEXT", "VARCHAR(2)", "", "BLOB", "INT", "REAL", "DECIMAL(9,2)", "DATE", "STRING", "JSON"]),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_what_survives_comes_back_as_it_was(name: str, warehouse: SqliteWarehouse) -> None:
    check_values(warehouse, loading, sqlite, VALUES[name], key="INTEGER", examples=10, is_same=is_same)


def is_same(read: Any, value: Any) -> bool:
    if isinstance(value, datetime.datetime):
        return datetime.datetime.fromisoformat(read) == value
    if isinstance(value, datetime.date):
        return datetime.date.fromisoformat(read) == value
    if isinstance(value, str) and isinstance(read, int | float):
        return decimal.Decimal(repr(read)) == decimal.Decimal(value)
    return same(read, value)


def test_values_of_json_are_texts(warehouse: SqliteWarehouse) -> None:
    warehouse.database.run("CREATE TABLE t (v TEXT)")
    warehouse.write([{"v": json.dumps([1, "x"])}], "v: string")
    assert warehouse.database.run("SELECT v ->> 1 FROM t") == [("x",)]

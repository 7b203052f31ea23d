"""Tables and statements of PostgreSQL as sources of whole pipelines."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import plan
from spark_jobs.formats import registry
from spark_jobs.formats.database.options import DatabaseRead
from spark_jobs.formats.database.postgres import reading as postgres_tables
from spark_jobs.formats.database.tables import Slice
from spark_jobs.formats.reader import SourceContext
from spark_jobs.plan.options import RunOptions
from spark_jobs.scan.connections import Connection
from tests.execute import pipelines, without_spark
from tests.formats.database.test_sqlite import PIPELINE
from tests.postgres import PASSWORD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import Database


class Warehouse:
    """A folder with a pipeline that reads the database."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.database = database

    def read(self, options: str, schema: str = "id: int") -> Any:
        text = PIPELINE.replace("connection: shop", "connection: warehouse").format(options=options, schema=schema)
        pipelines.write(self.folder, {"pipeline.yaml": text})
        return pipelines.run(self.folder, force=True)

    def records(self, options: str, schema: str = "id: int") -> list[dict[str, Any]]:
        outcome = self.read(options, schema)
        assert outcome.result.exit_code == 0, outcome.result.error
        return [json.loads(line) for line in (self.folder / "out/rows").read_text().splitlines()]


@pytest.fixture
def warehouse(tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    without_spark.install(monkeypatch)
    return Warehouse(tmp_path, postgres)


TYPES = {
    "i2": ("int2", "-32768", -32768),
    "i8": ("int8", "9223372036854775807", 9223372036854775807),
    "o": ("oid", "4294967295", 4294967295),
    "n": ("numeric", "12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678"),
    "m": ("numeric(10,2)", "1.10", "1.10"),
    "nan": ("numeric", "'NaN'", "NaN"),
    "f": ("float8", "0.1", 0.1),
    "b": ("bool", "true", True),
    "t": ("text", "'tëxt'", "tëxt"),
    "c": ("char(3)", "'x'", "x  "),
    "d": ("date", "'2024-02-29'", "2024-02-29"),
    "ts": ("timestamp", "'2024-02-29 12:30:00.123456'", "2024-02-29T12:30:00.123456"),
    "tz": ("timestamptz", "'2024-02-29 12:30:00+02'", "2024-02-29T10:30:00"),
    "tm": ("time", "'08:30'", "08:30:00"),
    "iv": ("interval", "'1 day 02:00'", "1 day 02:00:00"),
    "u": ("uuid", "'6f1e1c2e-0000-4000-8000-000000000001'", "6f1e1c2e-0000-4000-8000-000000000001"),
    "ip": ("inet", "'10.0.0.1'", "10.0.0.1/32"),
    "mo": ("money", "5", "$5.00"),
    "j": ("json", """'{"a": [1, 2.5, null], "b": 12345678901234567890}'""",
          {"a": [1, 2.5, None], "b": 12345678901234567890}),
    "jb": ("jsonb", "'\"x\"'", "x"),
    "a": ("int[]", "'{1,NULL,3}'", [1, None, 3]),
    "aa": ("text[]", "'{{a,b},{c,d}}'", [["a", "b"], ["c", "d"]]),
    "e": ("mood", "'glad'", "glad"),
}  # fmt: skip


def test_each_type_has_its_values(warehouse: Warehouse) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    given = ", ".join(text for _, text, _ in TYPES.values())
    nulls = ", ".join("NULL" for _ in TYPES)
    warehouse.database.run(
        "CREATE TYPE mood AS ENUM ('glad', 'sad');\n"
        "SET lc_monetary = 'C';\n"
        f"CREATE TABLE t (id int, {columns});\nINSERT INTO t VALUES (1, {given}), (2, {nulls})"
    )
    first, second = warehouse.records("table: t")
    assert first == {"id": 1, **{name: value for name, (_, _, value) in TYPES.items()}}
    assert second == {"id": 2, **dict.fromkeys(TYPES)}
    declared = "m: float, n: string, a: array, j: map, tz: date_time, d: date"
    assert warehouse.records("table: t", f"id: int, {declared}")[0]["m"] == 1.1


def test_moments_without_end_are_failures(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int, at timestamptz);\nINSERT INTO t VALUES (1, 'infinity'), (2, now())")
    outcome = warehouse.read("table: t", "id: int, at: date_time")
    assert outcome.result.exit_code == 2
    assert len((warehouse.folder / "out/rows").read_text().splitlines()) == 1


ROWS = "CREATE TABLE t AS SELECT g AS id, repeat('x', 200) AS v FROM generate_series(1, 2000) g"


def test_a_table_is_read_in_splits_by_its_pages(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.database.run(f"{ROWS};\nDELETE FROM t WHERE id % 3 = 0")
    expected = [row for row in range(1, 2001) if row % 3]
    for split_bytes in (8192, 50_000, 1 << 30):
        pipelines.cut_by(monkeypatch, split_bytes)
        assert [record["id"] for record in warehouse.records("table: t")] == expected


def test_a_run_sees_one_state_of_the_database(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.formats.database.postgres import reading as driver

    warehouse.database.run(ROWS)
    pipelines.cut_by(monkeypatch, 50_000)
    batches = driver.batches
    seen = []

    def batches_and_write(*given: Any, **more: Any) -> Any:
        seen.append(given)
        warehouse.database.run("UPDATE t SET id = -id")
        return batches(*given, **more)

    monkeypatch.setattr(driver, "batches", batches_and_write)
    assert [record["id"] for record in warehouse.records("table: t")] == [*range(1, 2001)]
    assert len(seen) > 3
    assert not driver._held, "the transaction of the run is over"


def test_partitions_of_a_table_are_read_one_after_the_other(warehouse: Warehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (id int, k int) PARTITION BY RANGE (k);\n"
        "CREATE TABLE t_b PARTITION OF t FOR VALUES FROM (10) TO (20);\n"
        "CREATE TABLE t_a (k int, id int);\nALTER TABLE t ATTACH PARTITION t_a FOR VALUES FROM (0) TO (10);\n"
        "INSERT INTO t VALUES (1, 15), (2, 5), (3, 11)"
    )
    assert [record["id"] for record in warehouse.records("table: t")] == [2, 1, 3]


@pytest.mark.parametrize("kind", ["int2", "int8", "numeric", "date", "timestamp", "timestamptz"])
def test_ranges_of_a_column_have_each_row_once(kind: str, warehouse: Warehouse) -> None:
    value = f"g::{kind}" if kind[0] in "in" else f"('2024-01-01'::date + g)::{kind}"
    warehouse.database.run(
        f"CREATE TABLE t AS SELECT g AS id, {value} AS k FROM generate_series(1, 100) g;\n"
        "INSERT INTO t VALUES (101, NULL)"
    )
    found = [record["id"] for record in warehouse.records("table: t, partition_by: k, partitions: 7")]
    assert sorted(found) == [*range(1, 102)]


def test_statements_and_views_are_read(warehouse: Warehouse) -> None:
    warehouse.database.run(f"{ROWS};\nCREATE VIEW w AS SELECT id FROM t WHERE id < 4")
    assert [record["id"] for record in warehouse.records("table: w")] == [1, 2, 3]
    query = 'query: "SELECT id FROM t ORDER BY id DESC LIMIT 2 -- the last ones"'
    assert [record["id"] for record in warehouse.records(query)] == [2000, 1999]
    assert warehouse.records('query: "SELECT id FROM t", partition_by: id, partitions: 3')[-1] == {"id": 2000}


def test_only_columns_that_are_read_are_asked_for(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int, b bytea);\nINSERT INTO t VALUES (1, '\\x00')")
    error = warehouse.read("table: t").result.error
    assert error is not None
    assert "column 'b' has bytes" in error.message
    text = PIPELINE.replace("connection: shop", "connection: warehouse").format(options="table: t", schema="id: int")
    pipelines.write(warehouse.folder, {"pipeline.yaml": text.replace("schema:", "on_unmapped: drop, schema:")})
    assert pipelines.run(warehouse.folder, force=True).result.exit_code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table: nowhere", "there is no table `nowhere`"),
        ("table: secret", "permission denied for table secret"),
        ('query: "SELECT x FROM t"', 'column "x" does not exist'),
        ('query: "SELECT 1 AS a, 2 AS a"', "names column 'a' twice"),
        ("table: t, partition_by: v, partitions: 2", "`partition_by: v` is no column of numbers, dates or moments"),
        ('query: "DELETE FROM t RETURNING id"', "syntax error"),
        ('query: "SELECT 1 / (id - 5) AS id FROM t"', "division by zero"),
    ],
)
def test_what_the_database_refuses_is_told_in_its_words(
    options: str, said: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run(f"{ROWS};\nCREATE TABLE secret (id int)")
    if "secret" in options:
        warehouse.database.run("DROP ROLE IF EXISTS guest;\nCREATE ROLE guest LOGIN PASSWORD 'guestpass'")
        uri = warehouse.database.uri.replace(f"clinker:{PASSWORD}", "guest:guestpass")
        monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", uri)
    error = warehouse.read(options).result.error
    assert error is not None
    assert error.code in ("E911", "E217")
    assert said in error.message
    assert PASSWORD not in error.message


def test_a_wrong_password_and_a_silent_server_are_told_without_the_password(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uri in (
        warehouse.database.uri.replace(PASSWORD, "wr0ng-pass"),
        f"postgresql://clinker:{PASSWORD}@127.0.0.1:1/x",
        f"postgresql://clinker:{PASSWORD}@127.0.0.1:port/x",
    ):
        monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", uri)
        error = warehouse.read("table: t").result.error
        assert error is not None
        assert error.code == "E911"
        assert "wr0ng-pass" not in error.message
        assert PASSWORD not in error.message


def test_no_password_is_in_what_travels_or_is_shown(warehouse: Warehouse) -> None:
    warehouse.database.run(ROWS)
    warehouse.records("table: t")
    loaded = plan.load(warehouse.folder / "pipeline.yaml", RunOptions())
    (step,) = loaded.sources.values()
    inputs = step.reader.found(SourceContext(warehouse.folder, connections=loaded.connections))
    assert PASSWORD not in repr((loaded, inputs))
    assert PASSWORD.encode() not in pickle.dumps((step, inputs))
    assert registry.named("database").has_files is False


def test_rows_with_long_texts_and_bytes_come_a_few_at_a_time(postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t AS SELECT g AS id, repeat('x', 40000) AS v, convert_to(repeat('y', 40000), 'UTF8') AS b "
        "FROM generate_series(1, 40) g"
    )
    (table,) = postgres_tables.look(Connection("warehouse", postgres.uri), DatabaseRead("warehouse", table="t")).tables
    try:
        rows = Slice(table.connection, table.part, 0, table.part.size, is_last=True, most_bytes=400_000)
        counts = [count for count, _ in postgres_tables.batches(rows, table.columns)]
    finally:
        postgres_tables.release()
    assert sum(counts) == 40
    assert max(counts) <= 6


def test_a_row_that_no_task_could_hold_ends_the_run(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t AS SELECT 1 AS id, repeat('x', 6000000) AS v")
    text = PIPELINE.replace("connection: shop", "connection: warehouse")
    text = text.format(options="table: t", schema="id: int, v: string")
    pipelines.write(warehouse.folder, {"pipeline.yaml": text})
    error = pipelines.run(warehouse.folder, force=True, threads=1, memory_limit_bytes=8 << 20).result.error
    assert error is not None
    assert error.code == "E310"

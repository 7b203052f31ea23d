"""Tables and statements of MySQL and MariaDB as sources of whole pipelines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats.database.mysql import reading as mysql
from spark_jobs.formats.database.options import DatabaseRead
from spark_jobs.formats.database.tables import Slice, UnfitOptions
from spark_jobs.scan.connections import Connection
from tests.execute import pipelines, without_spark
from tests.formats.database.test_incremental_tables import IncrementalColumn
from tests.formats.database.test_sqlite import PIPELINE
from tests.postgres import PASSWORD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mariadb import MariaDatabase


class Warehouse:
    """A folder with a pipeline that reads the database."""

    def __init__(self, folder: Path, database: MariaDatabase) -> None:
        self.folder, self.database = folder, database

    def read(self, options: str, schema: str = "id: int", more: str = "") -> Any:
        text = PIPELINE.replace("connection: shop", "connection: warehouse").format(options=options, schema=schema)
        pipelines.write(self.folder, {"pipeline.yaml": text.replace("schema:", f"{more}schema:")})
        return pipelines.run(self.folder, force=True)

    def records(self, options: str, schema: str = "id: int") -> list[dict[str, Any]]:
        outcome = self.read(options, schema)
        assert outcome.result.exit_code == 0, outcome.result.error
        return [json.loads(line) for line in (self.folder / "out/rows").read_text().splitlines()]


@pytest.fixture
def warehouse(tmp_path: Path, mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    without_spark.install(monkeypatch)
    return Warehouse(tmp_path, mariadb)


TYPES = {
    "i1": ("tinyint", "-128", -128),
    "flag": ("tinyint(1)", "2", 2),
    "u8": ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    "i8": ("bigint", "-9223372036854775808", -9223372036854775808),
    "n": ("decimal(40,18)", "1234567890123456789012.123456789012345678", "1234567890123456789012.123456789012345678"),
    "f": ("float", "0.1", 0.10000000149011612),
    "g": ("double", "0.1", 0.1),
    "b": ("bit(10)", "b'1000000001'", 513),
    "t": ("varchar(20)", "'tëxt 🎈'", "tëxt 🎈"),
    "c": ("char(3)", "'x'", "x"),
    "long_": ("mediumtext", "'a\\\\b\\nc'", "a\\b\nc"),
    "d": ("date", "'2024-02-29'", "2024-02-29"),
    "dt": ("datetime(6)", "'2024-02-29 12:30:00.123456'", "2024-02-29T12:30:00.123456"),
    "ds": ("datetime", "'2024-02-29 12:30:00'", "2024-02-29T12:30:00"),
    "ts": ("timestamp NULL", "'2024-02-29 12:30:00'", "2024-02-29T12:30:00"),
    "tm": ("time(3)", "'-838:59:59.5'", "-838:59:59.500"),
    "y": ("year", "2024", 2024),
    "e": ("enum('glad','sad')", "'glad'", "glad"),
    "s": ("set('a','b')", "'b,a'", "a,b"),
    "j": ("json", """'{"a": [1, 2.5, null]}'""", {"a": [1, 2.5, None]}),
    "p": ("point", "point(1, 2)", "POINT(1 2)"),
}  # fmt: skip


def test_each_type_has_its_values(warehouse: Warehouse) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    given = ", ".join(text for _, text, _ in TYPES.values())
    nulls = ", ".join("NULL" for _ in TYPES)
    warehouse.database.run(
        f"SET time_zone = '+00:00';\nCREATE TABLE t (id int, {columns});\n"
        f"INSERT INTO t VALUES (1, {given}), (2, {nulls})"
    )
    first, second = warehouse.records("table: t")
    assert first == {"id": 1, **{name: value for name, (_, _, value) in TYPES.items()}}
    assert second == {"id": 2, **dict.fromkeys(TYPES)}
    warehouse.database.run("UPDATE t SET flag = id - 1")
    assert warehouse.records("table: t", "id: int, flag: bool, n: string, dt: date_time, j: map")[1]["flag"] is True


def test_moments_that_no_calendar_has_are_failures(warehouse: Warehouse) -> None:
    warehouse.database.run(
        "SET sql_mode = 'ALLOW_INVALID_DATES';\nCREATE TABLE t (id int, d date, m datetime(6));\n"
        "INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00'), (2, '2024-00-10', '2024-02-30 01:02:03'), "
        "(3, '2024-02-30', '2024-01-01 00:00:00.5'), (4, '2024-02-01', '2024-02-01')"
    )
    rows = warehouse.records("table: t")
    assert [row["d"] for row in rows] == ["0000-00-00", "2024-00-10", "2024-02-30", "2024-02-01"]
    assert [row["m"] for row in rows] == [
        "0000-00-00 00:00:00.000000", "2024-02-30 01:02:03.000000", "2024-01-01T00:00:00.500", "2024-02-01T00:00:00",
    ]  # fmt: skip
    outcome = warehouse.read("table: t", "id: int, d: date")
    assert outcome.result.exit_code in (2, 3), "zero dates are dead letters under `date`"


ROWS = (
    "CREATE TABLE t (id int PRIMARY KEY, v varchar(200), k int, KEY (k));\n"
    "INSERT INTO t SELECT seq, repeat('x', 100), 5000 - seq FROM seq_1_to_2000"
)


def test_rows_come_in_the_order_of_the_primary_key(warehouse: Warehouse) -> None:
    warehouse.database.run(ROWS)
    assert [record["id"] for record in warehouse.records("table: t", "id: int, k: int")] == [*range(1, 2001)]
    counted = "query: \"SELECT count(*) AS id FROM t WHERE v LIKE 'x%'\""
    assert warehouse.records(counted) == [{"id": 2000}]


@pytest.mark.parametrize(
    "kind", ["int", "bigint unsigned", "decimal(30,3)", "double", "date", "datetime(6)", "timestamp(3) NULL"]
)
def test_ranges_of_a_column_have_each_row_once(kind: str, warehouse: Warehouse) -> None:
    value = "'2024-01-01' + INTERVAL seq DAY" if kind[0] in "dt" and kind[:2] not in ("de", "do") else "seq * 1.5"
    warehouse.database.run(
        f"CREATE TABLE t (id int, k {kind});\nINSERT INTO t SELECT seq, {value} FROM seq_1_to_100;\n"
        "INSERT INTO t VALUES (101, NULL)"
    )
    found = [record["id"] for record in warehouse.records("table: t, partition_by: k, partitions: 7")]
    assert sorted(found) == [*range(1, 102)]
    assert len(warehouse.records('query: "SELECT * FROM t WHERE id < 4", partition_by: k, partitions: 2')) == 3


def test_a_task_sees_one_state(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.database.run(ROWS)
    monkeypatch.setattr(mysql, "_MOST_ROWS", 100)
    real = mysql._array
    seen = []

    def array_and_write(*given: Any) -> Any:
        if not seen:
            seen.append(given)
            warehouse.database.run("UPDATE t SET k = -1")
        return real(*given)

    monkeypatch.setattr(mysql, "_array", array_and_write)
    assert {record["k"] > 0 for record in warehouse.records("table: t", "id: int, k: int")} == {True}
    assert seen


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table: nowhere", "there is no table `nowhere`"),
        ("table: a.b.c", "is no name of a table"),
        ('query: "SELECT x FROM t"', "Unknown column 'x'"),
        ('query: "SELECT 1 AS a, 2 AS a"', "Duplicate column name 'a'"),
        ("table: t, partition_by: v, partitions: 2", "`partition_by: v` is no column of numbers, dates or moments"),
        ('query: "DELETE FROM t"', "error in your SQL syntax"),
    ],
)
def test_what_the_database_refuses_is_told_in_its_words(options: str, said: str, warehouse: Warehouse) -> None:
    warehouse.database.run(ROWS)
    error = warehouse.read(options).result.error
    assert error is not None
    assert error.code == "E911"
    assert said in error.message
    assert PASSWORD not in error.message


def test_bytes_are_refused_unless_they_are_texts(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int, b varbinary(9));\nINSERT INTO t VALUES (1, 'tëxt'), (2, NULL)")
    error = warehouse.read("table: t").result.error
    assert error is not None
    assert "column 'b' has bytes" in error.message
    assert warehouse.records("table: t", "id: int, b: string")[0]["b"] == "tëxt"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((PASSWORD, "wr0ng-pass"), "Access denied for user"),
        (("127.0.0.1:", "127.0.0.1:1/x#"), "Can't connect to MySQL server"),
        (("/t", "/t?ssl-mode=strict&x="), "ssl-mode"),
        (("/t", "/t?connect-timeout=0#"), "connect-timeout"),
        (("127.0.0.1:", "a..b:"), "idna"),
        (("mysql://", "mysql+pymysql://"), "is no URI that is known"),
        (("mysql://", "mssql://"), "leads to SQL Server, which is not supported"),
    ],
)
def test_connections_that_fail_are_told_without_the_password(
    change: tuple[str, str], said: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", warehouse.database.uri.replace(*change))
    error = warehouse.read("table: t").result.error
    assert error is not None
    assert error.code == "E911"
    assert said in error.message
    assert "wr0ng-pass" not in error.message
    assert PASSWORD not in error.message


def test_a_file_of_options_that_is_none_is_told_without_its_lines(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".my.cnf").write_text("password=of-the-file\n[client]\n")
    error = warehouse.read("table: t").result.error
    assert error is not None
    assert error.code == "E911"
    assert ".my.cnf is no file of options" in error.message
    assert "of-the-file" not in error.message


def test_ranges_of_floats_may_be_as_wide_as_all_of_them(warehouse: Warehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (id int, k double);\nINSERT INTO t VALUES (1, -1.7e308), (2, 0), (3, 1.7e308)"
    )
    records = warehouse.records("table: t, partition_by: k, partitions: 4")
    assert sorted(record["id"] for record in records) == [1, 2, 3]


def test_json_that_nobody_checked_stays_a_text(warehouse: Warehouse) -> None:
    warehouse.database.run(
        "SET check_constraint_checks = 0;\nCREATE TABLE t (id int, j json);\n"
        "INSERT INTO t VALUES (1, '{no json'), (2, '{\"a\": 1}')"
    )
    assert [record["j"] for record in warehouse.records("table: t")] == ["{no json", {"a": 1}]


def test_rows_with_long_texts_come_a_few_at_a_time(mariadb: MariaDatabase) -> None:
    mariadb.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text);\nINSERT INTO t SELECT seq, repeat('x', 40000) FROM seq_1_to_50"
    )
    (table,) = mysql.look(Connection("warehouse", mariadb.uri), DatabaseRead("warehouse", table="t")).tables
    rows = Slice(table.connection, table.part, 0, 1, is_last=True, most_bytes=400_000)
    read = mysql.batches(rows, table.columns)
    assert [count for count, _ in read] == [10] * 5


def test_rows_are_read_once(tmp_path: Path, mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    run = IncrementalColumn(tmp_path, "warehouse").run
    mariadb.run("CREATE TABLE t (id bigint PRIMARY KEY, at datetime(6) NOT NULL, v varchar(9) DEFAULT 'b')")
    assert run("{ column: at }") == []
    mariadb.run("INSERT INTO t (id, at) SELECT seq, '2024-01-01' + INTERVAL seq HOUR FROM seq_1_to_50")
    assert run("{ column: at }") == [*range(1, 51)]
    assert run("{ column: at }") == []
    mariadb.run("INSERT INTO t (id, at) VALUES (51, '2024-02-01 00:00:00.000001'), (52, UTC_TIMESTAMP(6))")
    assert run("{ column: at, delay: 1h }") == [51]
    assert run("{ column: at }") == [52]
    assert run("{ column: at }", since=("2024-01-01T02:00:00",), until=("2024-01-01T04:00:00",)) == [2, 3]


def test_bytes_do_not_say_how_far_a_run_went(
    tmp_path: Path, mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    incremental = IncrementalColumn(tmp_path, "warehouse")
    mariadb.run("CREATE TABLE t (id bigint, v varbinary(9));\nINSERT INTO t VALUES (1, x'ff')")
    incremental.run("{ column: v }", code=4)
    assert "`incremental.column: v` has bytes" in incremental.error.message


def test_names_of_tables() -> None:
    assert mysql.relation_of("t") == (None, "t")
    assert mysql.relation_of("`a.b`.`c``d`") == ("a.b", "c`d")
    for name in ("a.b.c", "`a", "a.", ""):
        with pytest.raises(UnfitOptions):
            mysql.relation_of(name)

"""Outputs that are tables of MariaDB: values, dead letters, and tables that are not written."""

from __future__ import annotations

import datetime
import decimal
import json
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats.database.mysql import loading
from spark_jobs.formats.database.mysql import reading as mysql
from spark_jobs.formats.database.options import DatabaseWrite
from spark_jobs.scan import connections
from tests.execute import pipelines, without_spark
from tests.formats.database.table_outputs import MariaWarehouse, SqliteDatabase, check_values, put
from tests.formats.database.test_table_outputs import FILES, PIPELINE, watched
from tests.postgres import PASSWORD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mariadb import MariaDatabase


@pytest.fixture
def warehouse(tmp_path: Path, mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> MariaWarehouse:
    without_spark.install(monkeypatch)
    return MariaWarehouse(tmp_path, mariadb)  # type: ignore[arg-type]


def test_types_are_those_of_the_table(warehouse: MariaWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE `select` (id int AUTO_INCREMENT PRIMARY KEY, `from` smallint, n decimal(40,10), f double, "
        "ts timestamp(6) NULL, dt datetime(6), d date, b boolean, bi bit(3), j json, y year, e enum('glad','it''s'), "
        "s set('a','b'), tm time(3), by_ varbinary(9), t text, u uuid, twice int AS (`from` * 2) STORED)"
    )
    row = {
        "from": 7, "n": "123456789012345678901234567890.0123456789", "f": 0.1, "ts": "2024-02-29T12:30:00.123456",
        "dt": "0001-01-01T00:00:00", "d": "2024-02-29", "b": True, "bi": 5, "j": '{"a": [1, null]}', "y": 1901,
        "e": "it's", "s": "a,b", "tm": "-838:59:58.500", "by_": "tëxt", "t": "a'b\\c\n\0%s🎈",
        "u": "6f1d1a34-6d2b-4b57-9a7e-111111111111",
    }  # fmt: skip
    schema = (
        "from: int, n: string, f: float, ts: date_time, dt: date_time, d: date, b: bool, bi: int, j: string, y: int, "
        "e: string, s: string, tm: string, by_: string, t: string, u: string"
    )
    warehouse.write([row, dict.fromkeys(row)], schema, table="select")
    first, second = warehouse.read("SELECT * FROM `select` ORDER BY id")
    moment = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
    assert first[1:5] == (7, decimal.Decimal(row["n"]), 0.1, moment)
    assert first[5:9] == (datetime.datetime(1, 1, 1), datetime.date(2024, 2, 29), 1, b"\5")
    assert first[9:13] == ('{"a": [1, null]}', 1901, "it's", "a,b")
    assert first[13] == -datetime.timedelta(hours=838, minutes=59, seconds=58.5)
    assert first[14:] == ("tëxt".encode(), row["t"], row["u"], 14)
    assert second == (2, *[None] * 17)
    assert warehouse.staged == []


def test_rows_come_in_order_from_many_parts(warehouse: MariaWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines.cut_by(monkeypatch, 1000)
    warehouse.database.run("CREATE TABLE t (place int AUTO_INCREMENT PRIMARY KEY, id bigint)")
    warehouse.write([{"id": number * 3} for number in range(2000)], "id: int")
    assert warehouse.database.run("SELECT count(*), sum(id = (place - 1) * 3) FROM t")[0][0] == 2000
    assert int(warehouse.database.run("SELECT sum(id = (place - 1) * 3) FROM t")[0][0]) == 2000


def test_a_part_that_comes_again_counts_once(warehouse: MariaWarehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    connection = connections.Connection("warehouse", warehouse.database.uri)
    options = loading.look(connection, DatabaseWrite("warehouse", "t"))
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 2, 3], pa.int64())})
    staging = loading.begin(connection, options, "r", 0, batch.schema)
    for _ in range(2):
        assert loading.fill(connection, staging, 4, [batch], batch.schema) == 3
    assert int(warehouse.database.run(f"SELECT count(*) FROM {staging.table} WHERE `$part` >= 0")[0][0]) == 3


def test_upserts_change_the_rows_of_their_key_alone(warehouse: MariaWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (k varchar(9) COLLATE utf8mb4_general_ci UNIQUE, other int UNIQUE, v int, w int DEFAULT 4);\n"
        "INSERT INTO t VALUES ('a', 1, 1, 9), ('b', 2, 2, 9)"
    )
    rows = [
        {"k": "A", "other": 1, "v": 10}, {"k": "c", "other": 3, "v": 30}, {"k": "C", "other": 4, "v": 31},
        {"k": "d", "other": 2, "v": 40}, {"k": None, "other": 7, "v": 0},
    ]  # fmt: skip
    warehouse.write(rows, "k: string, other: int, v: int", code=2, options="mode: upsert, key: k")
    assert warehouse.read("SELECT * FROM t ORDER BY k") == [("a", 1, 10, 9), ("b", 2, 2, 9), ("C", 4, 31, 4)]
    assert sorted("has a row with this value already" in each for each in warehouse.letters) == [False, True]
    warehouse.write([{"k": "x", "other": 4, "v": 0}], "k: string, other: int, v: int", code=2,
                    options="mode: upsert, key: k")  # fmt: skip
    assert warehouse.read("SELECT count(*) FROM t") == [(3,)]


def test_replacing_leaves_only_the_new_rows(warehouse: MariaWarehouse) -> None:
    warehouse.database.run(
        "SET sql_safe_updates = 0;\nCREATE TABLE t (id int PRIMARY KEY);\nINSERT INTO t VALUES (1), (2)"
    )
    warehouse.write([{"id": 2}, {"id": 3}], "id: int", options="mode: replace", files=FILES)
    assert warehouse.read("SELECT id FROM t ORDER BY id") == [(2,), (3,)]
    assert (warehouse.folder / "out/rows.csv").read_text() == "id\n2\n3\n"


def test_tables_are_not_replaced_where_rows_of_others_would_go_with_theirs(warehouse: MariaWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE);\n"
        "CREATE TABLE kid (id int, FOREIGN KEY (id) REFERENCES t (id) ON DELETE SET NULL);\n"
        "INSERT INTO t VALUES (1, NULL);\nINSERT INTO kid VALUES (1)"
    )
    warehouse.write([{"id": 1}], "id: int", code=4, options="mode: replace")
    assert warehouse.error.code == "E915"
    assert "`kid` (ON DELETE SET NULL)" in warehouse.error.message
    assert warehouse.read("SELECT id FROM kid") == [(1,)]
    warehouse.database.run("DROP TABLE kid")
    warehouse.write([{"id": 2}], "id: int", options="mode: replace")
    assert warehouse.read("SELECT id FROM t") == [(2,)]


def test_servers_and_databases_may_be_odd(warehouse: MariaWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Per cent signs in names, a server that wants primary keys, defaults of old tables that are no dates."""
    name = warehouse.database.uri.rpartition("/")[2]
    warehouse.database.run(
        f"SET SESSION sql_mode = '';\nCREATE DATABASE `{name}%s`;\nCREATE TABLE `{name}%s`.t (id int PRIMARY KEY, "
        "d datetime NOT NULL DEFAULT '0000-00-00 00:00:00');\nSET GLOBAL innodb_force_primary_key = ON"
    )
    try:
        monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", f"{warehouse.database.uri}%25s")
        warehouse.write([{"id": 1}], "id: int", options="mode: upsert, key: id", files=FILES)
        assert warehouse.read(f"SELECT id, cast(d AS char) FROM `{name}%s`.t") == [(1, "0000-00-00 00:00:00")]
    finally:
        warehouse.database.run(f"SET GLOBAL innodb_force_primary_key = OFF;\nDROP DATABASE `{name}%s`")


#: A type, a value that it keeps, and values that it refuses or would change.
REFUSED = [
    ("int", "tinyint", 127, [128, -129]),
    ("int", "bigint unsigned", 1 << 62, [-1]),
    ("int", "decimal(3,1)", 99, [100, -100]),
    ("int", "year", 2155, [1900, 70, 2156]),
    ("int", "bit(2)", 3, [4, -1]),
    ("float", "float", 1.5, [1e39, -1e39]),
    ("float", "decimal(3,1)", 99.94, [99.95, 1e300]),
    ("float", "float(7,2)", 99999.99, [99999.999, -99999.996, 100000.0]),
    ("float", "double(2,2)", 0.994, [0.995, 1.0]),
    ("float", "double unsigned", 0.5, [-0.5]),
    ("string", "varchar(2)", "ä🎈", ["abc", "ab "]),
    ("string", "char(3)", "ab", ["abcd", "a "]),
    ("string", "tinytext", "ä" * 127, ["ä" * 128]),
    ("string", "varchar(9) CHARACTER SET latin1", "ä€", ["ł", "🎈"]),
    ("string", "varchar(9) CHARACTER SET ascii", "a", ["ä"]),
    ("string", "varchar(9) CHARACTER SET utf8mb3", "ä", ["🎈"]),
    ("string", "binary(2)", "ab", ["a", "abc"]),
    ("string", "varbinary(2)", "ä", ["äb"]),
    ("string", "enum('a','b','3')", "3", ["A", "1", "", "c", "a "]),
    ("string", "set('a','b')", "b,a", ["A", "a,a", "c", "1", "a,"]),
    ("string", r"enum('a\\b','n\n','it''s')", "a\\b", ["a\\\\b", "n\\n", "nn"]),
    ("string", r"set('a\\b','n\n','(x)')", "n\n,a\\b,(x)", ["a\\\\b", "n"]),
    ("string", "bigint unsigned", "18446744073709551615", ["18446744073709551616", "-1", "1.5", "", "1e3", "0x10"]),
    ("string", "decimal(4,2)", "12.340", ["12.345", "123", "x", "nan", "1e999999999", "1e-999999999"]),
    ("string", "double", "1e308", ["1e309", "inf", "nan", "1_0", ""]),
    ("string", "date", "2024-02-29", ["2023-02-29", "0000-00-00", "24-01-01", "2024-1-1", "2024-01-00", ""]),
    ("string", "datetime(3)", "2024-02-29T12:30:00.123+02:00", ["2024-02-29 12:30:00.1234", "now", "2024-02-29 24:00"]),
    ("string", "timestamp NULL", "2038-01-19T03:14:07Z", ["1970-01-01T00:00:00Z", "2107-01-01 00:00:00"]),
    ("string", "time", "838:59:59", ["839:00:00", "12", "12:30", "12:30:00.5", "12:61:00"]),
    ("string", "year", "2024", ["24", "1900", "x"]),
    ("string", "json", '{"a": 1}', ["{", "NaN", ""]),
    ("string", "uuid", "6f1d1a34-6d2b-4b57-9a7e-111111111111", ["6f1d1a34", ""]),
    ("string", "inet6", "2001:db8::1", ["2001:db8::g", "1"]),
    ("date_time", "datetime", "2024-02-29T12:30:00", ["2024-02-29T12:30:00.5"]),
    ("date_time", "timestamp(6) NULL", "2024-02-29T12:30:00.5", ["1969-12-31T23:59:59", "2200-01-01T00:00:00"]),
]  # fmt: skip


KINDS = {
    "int": types.INT, "float": types.FLOAT, "string": types.STRING, "date_time": types.DATETIME,
}  # fmt: skip


def given_as(kind: str, values: list[Any]) -> list[Any]:
    """Values as records have them."""
    return [datetime.datetime.fromisoformat(each) for each in values] if kind == "date_time" else values


def test_what_columns_would_refuse_or_change_are_dead_letters(warehouse: MariaWarehouse) -> None:
    connection = connections.Connection("warehouse", warehouse.database.uri)
    for number, (kind, column, good, bad) in enumerate(REFUSED):
        table = f"t{number}"
        warehouse.database.run(f"CREATE TABLE {table} (id int, v {column})")
        refused = put(loading, connection, table, KINDS[kind], given_as(kind, [good, *bad]), "r")
        assert [*refused] == [*range(1, len(bad) + 1)], (column, refused)
        assert all(why.startswith(f"column 'v' of table {table}: ") for why in refused.values()), refused
        assert warehouse.read(f"SELECT id FROM {table}") == [(0,)], column
    warehouse.database.run("CREATE TABLE t (id int, v tinyint)")
    warehouse.write([{"id": 1, "v": 128}, {"id": 2, "v": 127}], "id: int, v: int", code=2)
    assert warehouse.read("SELECT * FROM t") == [(2, 127)]
    assert "128 is beyond tinyint" in warehouse.letters[0]


@pytest.mark.parametrize(
    ("made", "rows", "schema", "said"),
    [
        ("CREATE TABLE t (id int) ENGINE=MyISAM", [{"id": 1}], "id: int", "ALTER TABLE"),
        ("CREATE TABLE s (id int);\nCREATE VIEW t AS SELECT * FROM s", [{"id": 1}], "id: int", "is no table that rows"),
        ("SELECT 1", [{"id": 1}], "id: int", "there is no table `t`"),
        ("CREATE TABLE t (idd int)", [{"id": 1}], "id: int", "did you mean `idd`"),
        ("CREATE TABLE t (id int AS (1))", [{"id": 1}], "id: int", "is computed by the database"),
        ("CREATE TABLE t (id int, n int NOT NULL)", [{"id": 1}], "id: int", "column 'n' of table t needs a value"),
        ("CREATE TABLE t (id point)", [{"id": "x"}], "id: string", "is point, and the records have string"),
        ("CREATE TABLE t (id bit(4))", [{"id": "x"}], "id: string", "is bit(4), and the records have string"),
        ("CREATE TABLE t (id varchar(5))", [{"id": 1}], "id: int", "is varchar(5), and the records have int64"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_read(
    made: str, rows: list[Any], schema: str, said: str, warehouse: MariaWarehouse
) -> None:
    warehouse.database.run(made)
    warehouse.write(rows, schema, code=4)
    assert warehouse.error.code == "E915"
    assert said in warehouse.error.message


def test_missing_rights_are_told_with_the_statement_that_gives_them(
    warehouse: MariaWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = warehouse.database.uri.rpartition("/")[2]
    user = f"u{database[:12]}"
    warehouse.database.run(f"CREATE TABLE t (id int PRIMARY KEY);\nCREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'pw'")
    host = warehouse.database.uri.rpartition("@")[2]
    own = warehouse.database
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", f"mysql://{user}:pw@{host}")
    try:
        own.run(f"GRANT SELECT ON {database}.t TO {user}@'127.0.0.1'")
        warehouse.write([{"id": 1}], "id: int", code=4)
        assert "the right INSERT on table t is missing: GRANT INSERT ON" in warehouse.error.message
        own.run(f"GRANT INSERT ON {database}.t TO {user}@'127.0.0.1'")
        warehouse.write([{"id": 1}], "id: int", code=4, options="mode: replace")
        assert "the right DELETE" in warehouse.error.message
        warehouse.write([{"id": 1}], "id: int", code=4)
        assert "CREATE TEMPORARY TABLES ON" in warehouse.error.message
        own.run(
            f"CREATE DATABASE {database}_s;\nGRANT CREATE, DROP, SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY "
            f"TABLES ON {database}_s.* TO {user}@'127.0.0.1'"
        )
        warehouse.write([{"id": 1}], "id: int", options=f"staging_schema: {database}_s")
        assert warehouse.read("SELECT id FROM t") == [(1,)]
        assert own.run(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}_s'") == []
    finally:
        own.run(f"DROP USER {user}@'127.0.0.1';\nDROP DATABASE IF EXISTS {database}_s")


def test_keys_are_compared_as_the_column_compares_them(warehouse: MariaWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE t (id int, v varchar(9) COLLATE utf8mb4_general_ci UNIQUE, w varchar(9) COLLATE utf8mb4_bin, "
        "UNIQUE (w));\nINSERT INTO t VALUES (1, 'a', 'a')"
    )
    rows = [
        {"id": 2, "v": "A", "w": "b"}, {"id": 3, "v": "á", "w": "c"}, {"id": 4, "v": "a  ", "w": "d"},
        {"id": 5, "v": "b", "w": "A"}, {"id": 6, "v": "c", "w": "a"}, {"id": 7, "v": None, "w": None},
    ]  # fmt: skip
    warehouse.write(rows, "id: int, v: string, w: string", code=2)
    assert warehouse.read("SELECT id FROM t ORDER BY id") == [(1,), (5,), (7,)]
    warehouse.write([{"id": 8, "v": "e"}, {"id": 9, "v": "É"}], "id: int, v: string", code=2)
    assert warehouse.read("SELECT id FROM t ORDER BY id") == [(1,), (5,), (7,), (8,)]
    warehouse.database.run("CREATE TABLE u (id int, v varbinary(9), UNIQUE (v(1)))")
    warehouse.write([{"id": 8, "v": "ab"}, {"id": 9, "v": "ac"}], "id: int, v: string", code=4, table="u")
    assert "Duplicate entry" in warehouse.error.message
    assert "or use `mode: upsert`" in warehouse.error.message


def test_records_that_rows_of_other_tables_and_checks_refuse_are_dead_letters(warehouse: MariaWarehouse) -> None:
    warehouse.database.run(
        "CREATE TABLE p (k varchar(5) PRIMARY KEY);\nINSERT INTO p VALUES ('x');\n"
        "CREATE TABLE t (id int PRIMARY KEY, k varchar(5), low int, high int CHECK (high < 100), "
        "CONSTRAINT ordered CHECK (low <= high), FOREIGN KEY (k) REFERENCES p (k))"
    )
    rows = [
        {"id": 1, "k": "x", "low": 1, "high": 2}, {"id": 2, "k": "y", "low": 1, "high": 2},
        {"id": 3, "k": None, "low": 3, "high": 2}, {"id": 4, "low": 1, "high": 100}, {"id": 5},
    ]  # fmt: skip
    warehouse.write(rows, "id: int, k: string, low: int, high: int", code=2, options="mode: upsert, key: id")
    assert warehouse.read("SELECT id FROM t ORDER BY id") == [(1,), (5,)]
    words = ("foreign key", "check 'ordered'", "check 'high'")
    assert sorted((tuple(word in each for word in words) for each in warehouse.letters), reverse=True) == [
        (True, False, False), (False, True, False), (False, False, True),
    ]  # fmt: skip


def test_a_session_is_strict_whatever_the_server_says(warehouse: MariaWarehouse) -> None:
    before = warehouse.read("SELECT @@global.sql_mode, @@global.time_zone")[0]
    warehouse.database.run("CREATE TABLE t (id int, m timestamp NULL, v varchar(9))")
    try:
        warehouse.database.run("SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', GLOBAL time_zone = '+05:00'")
        warehouse.write([{"id": 1, "m": "2024-01-01T00:00:00", "v": "a\\'b\""}], "id: int, m: date_time, v: string")
    finally:
        warehouse.database.run(f"SET GLOBAL sql_mode = '{before[0]}', GLOBAL time_zone = '{before[1]}'")
    assert warehouse.read("SELECT unix_timestamp(m), v FROM t") == [(1704067200, "a\\'b\"")]


def test_a_record_that_no_statement_holds_is_a_dead_letter(warehouse: MariaWarehouse) -> None:
    ((before,),) = warehouse.read("SELECT @@global.max_allowed_packet")
    warehouse.database.run("CREATE TABLE t (id int, v longtext)")
    try:
        warehouse.database.run("SET GLOBAL max_allowed_packet = 1048576")
        rows = [{"id": 1, "v": "x" * 1_000_000}, {"id": 2, "v": "'" * 900_000}, {"id": 3, "v": "ä" * 400_000}]
        warehouse.write(rows, "id: int, v: string", code=2)
    finally:
        warehouse.database.run(f"SET GLOBAL max_allowed_packet = {before}")
    assert warehouse.read("SELECT id, char_length(v) FROM t ORDER BY id") == [(1, 1_000_000), (3, 400_000)]
    assert "max_allowed_packet" in warehouse.letters[0]


def test_no_password_is_told(warehouse: MariaWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    monkeypatch.setenv(
        "CLINKER_CONNECTION_WAREHOUSE", warehouse.database.uri.replace("s3cret-of-the-tests", "wr0ng-pw")
    )
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert "Access denied" in warehouse.error.message
    assert "wr0ng-pw" not in str(warehouse.error)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MOMENTS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59))
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20).map(str)
#: Values of each type of records, and the columns that they go into.
VALUES: dict[str, tuple[Any, Any, list[str]]] = {
    "int": (types.INT, st.integers(-(1 << 63), (1 << 63) - 1),
            ["tinyint unsigned", "mediumint", "bigint", "bigint unsigned", "decimal(10,0)", "year", "bit(64)"]),
    "float": (types.FLOAT, st.floats(), ["double"]),
    "bool": (types.BOOL, st.booleans(), ["boolean", "bit(1)"]),
    "date": (types.DATE, st.dates(), ["date", "datetime", "timestamp(6) NULL"]),
    "moment": (types.DATETIME, MOMENTS, ["datetime", "datetime(6)", "timestamp(3) NULL"]),
    "text": (types.STRING, TEXTS | NUMBERS | st.sampled_from(["a ", "", "\\", "'", "A", "1"]),
             ["varchar(10)", "char(5)", "tinytext", "text", "varchar(9) CHARACTER SET latin1", "enum('a','b','1')",
              "decimal(30,5)", "bigint", "varbinary(10)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_what_survives_comes_back_as_it_was(name: str, warehouse: MariaWarehouse) -> None:
    check_values(warehouse, loading, mysql, VALUES[name], key="bigint", examples=5, is_same=same)


def same(read: Any, value: Any) -> bool:
    """Whether a value is the one that was written, in the kind that its column has."""
    if isinstance(read, bytes):
        return bool(read == value.encode())
    if isinstance(read, datetime.datetime) and not isinstance(value, datetime.datetime):
        return read == datetime.datetime(value.year, value.month, value.day)
    if isinstance(read, str) and isinstance(value, str):
        return read == value or (("." in read or read.isdigit()) and decimal.Decimal(read) == decimal.Decimal(value))
    if isinstance(read, str) or isinstance(value, str):
        return decimal.Decimal(read) == decimal.Decimal(value)
    return bool(read == value)


def test_what_is_read_from_a_table_can_be_written_to_another(warehouse: MariaWarehouse) -> None:
    rows = [{"id": 1, "v": json.dumps({"b": 1, "a": [1.5, "x"]})}]
    warehouse.database.run("CREATE TABLE t (id int, v json)")
    warehouse.write(rows, "id: int, v: string")
    assert json.loads(warehouse.read("SELECT v FROM t")[0][0]) == {"b": 1, "a": [1.5, "x"]}


IN_SQLITE = """
  - type: output
    name: seen
    input: rows
    config: { type: database, options: { connection: shop, table: seen, mode: upsert, key: v } }
"""


@pytest.mark.spark
def test_tasks_of_spark_write_two_databases_and_a_file_by_one_verdict(
    tmp_path: Path, mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "20000")
    warehouse = MariaWarehouse(tmp_path, mariadb)  # type: ignore[arg-type]
    shop = SqliteDatabase(f"sqlite:///{tmp_path}/shop.db")
    shop.path.touch()
    shop.run("CREATE TABLE seen (v TEXT PRIMARY KEY, id INT CHECK (id < 40000))")
    monkeypatch.setenv("CLINKER_CONNECTION_SHOP", shop.uri)
    mariadb.run("CREATE TABLE t (id smallint NOT NULL, v varchar(4), KEY (id))")
    text = PIPELINE.format(schema="id: int, v: string", unmapped="drop", table="t", options="mode: replace")
    rows = [{"id": number, "v": f"g{number % 3}"} for number in range(9000)]
    bad = [{"id": 40000, "v": "g0"}, {"id": 1, "v": "too long"}]
    lines = [json.dumps(row) + "\n" for row in (*rows, *bad)]
    pipelines.write(tmp_path, {"p.yaml": text + IN_SQLITE + FILES, "in.ndjson": "".join(lines)})
    options = ["--log-level", "debug", "--metrics-spool-dir", str(tmp_path / "spool"), "--force"]
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "p.yaml"), *options]
    shown = set[str]()
    for _ in range(2):
        code, told = watched(command, tmp_path / "told.log", shown)
        assert code == 2, told
        assert warehouse.read("SELECT count(*), min(id), max(id) FROM t") == [(9000, 0, 8999)]
        assert shop.run("SELECT v, id FROM seen ORDER BY v") == [
            ("g0", 8997), ("g1", 8998), ("g2", 8999), ("too long", 1),
        ]  # fmt: skip
        assert (tmp_path / "out/rows.csv").read_text().count("\n") == 9003
        assert len((tmp_path / "out/dlq.csv").read_text().splitlines()) == 4
        assert warehouse.staged == []
    left = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [each for each in (*shown, *left) if PASSWORD in each]
    assert any("java" in each for each in shown)

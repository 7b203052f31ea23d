"""Records of one run that a unique index of the table takes only one of, against what the servers themselves say."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.formats.database.mysql import columns as mysql_columns
from spark_jobs.formats.database.options import DatabaseWrite
from spark_jobs.formats.database.postgres import loading as postgres_loading
from spark_jobs.formats.database.postgres.validation import Checks
from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
from tests.execute import pipelines
from tests.formats.database.test_mysql_outputs import warehouse as maria_warehouse
from tests.formats.database.test_sqlite_outputs import warehouse as sqlite_warehouse
from tests.formats.database.test_table_outputs import FILES, PIPELINE
from tests.formats.database.test_table_outputs import warehouse as postgres_warehouse

if TYPE_CHECKING:
    from tests.formats.database.test_table_outputs import Warehouse
    from tests.postgres import Database

__all__ = ["maria_warehouse", "postgres_warehouse", "sqlite_warehouse"]

#: A column, what records have for it, and values that the column takes.
Case = tuple[str, str, list[Any]]

UUID = "6f1d1a34-6d2b-4b57-9a7e-1111111111aa"
OF_POSTGRES: list[Case] = [
    ("int8", "int", [1, 2, 1, None, None, 3, 2]),
    ("int4", "string", ["7", " 7", "+7", "07", "8", "-0", "0"]),
    ("text", "string", ["a", "A", "a ", "a", "ä", "", "", "1", "1.0"]),
    ("varchar(3)", "string", ["abc", "abc  ", "ab", "ab ", "ab  "]),
    ("char(4)", "string", ["a", "a ", "b", "B", "ab"]),
    ("short", "string", ["abc", "abc ", "ab"]),
    ("numeric", "string", ["1.0", "1.00", "1", "1e0", "-0", "0", "NaN", "nan", "1e-30", "1.000000000000000000001"]),
    ("numeric(6,2)", "string", ["1.234", "1.231", "1.23", "1.235", "1.24", "-1.005", "-1.01"]),
    ("numeric(6,2)", "float", [0.1, 0.10, 0.104, 1.0, 1.001]),
    ("numeric", "int", [1, 10, 1]),
    ("float4", "float", [0.1, 0.10000000149011612, 16777216.0, 16777217.0, 0.0, -0.0]),
    ("float8", "int", [2**53, 2**53 + 1, 2**53 + 2]),
    ("float8", "string", ["1", "1.0", "1e0", "NaN", "nan"]),
    ("uuid", "string", [UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}"]),
    ("date", "string", ["2024-02-29", "Feb 29 2024", "20240229", "2024-03-01"]),
    ("date", "date", ["2024-02-29", "2024-02-29", "2024-03-01"]),
    ("timestamp", "date", ["2024-02-29", "2024-02-29", "2024-03-01"]),
    ("timestamptz", "string", ["2024-02-29T12:00:00Z", "2024-02-29 13:00:00+01", "2024-02-29 12:00:00"]),
    ("timestamp(0)", "date_time", ["2024-02-29T12:30:00.4", "2024-02-29T12:30:00.3", "2024-02-29T12:30:00.6"]),
    ("timestamp", "date_time", ["2024-02-29T12:30:00.4", "2024-02-29T12:30:00.40", "2024-02-29T12:30:00.6"]),
    ("bool", "string", ["t", "true", "no", "0"]),
    ("bool", "bool", [True, False, True]),
    ("mood", "string", ["glad", "sad", "glad"]),
    ("inet", "string", ["10.0.0.1", "10.0.0.1/32", "10.0.0.1/24"]),
    ("jsonb", "string", ['{"a":1}', '{"a": 1}', '{"a": 2}']),
    ("bytea", "string", ["a", "A", "a", "\\x61"]),
    ("text", "any", [1, 2.5, "1", "2.5", 1, "x"]),
]  # fmt: skip
OF_MARIADB: list[Case] = [
    ("bigint", "int", [1, 2, 1, None, None]),
    ("int", "string", ["7", " 7", "+7", "8"]),
    ("varchar(9) COLLATE utf8mb4_general_ci", "string", ["a", "A", "á", "a ", "b", "É", "e", "ß", "s", "ss", ""]),
    ("varchar(9) COLLATE utf8mb4_unicode_ci", "string", ["a", "A", "ß", "ss", "a-", "a\u0001", "a", "Æ", "ae"]),
    ("varchar(9) COLLATE utf8mb4_turkish_ci", "string", ["i", "I", "ı", "İ", "a", "A"]),
    ("varchar(9) COLLATE utf8mb4_nopad_bin", "string", ["a", "a ", "A", "a"]),
    ("varchar(9) COLLATE utf8mb4_unicode_nopad_ci", "string", ["a", "a ", "A"]),
    ("varchar(9) COLLATE utf8mb4_bin", "string", ["a", "A", "a ", "b"]),
    ("varchar(9) CHARACTER SET latin1", "string", ["a", "A", "ä", "Ä", "æ"]),
    ("char(3)", "string", ["a", "A", "b"]),
    ("enum('a','b','B2')", "string", ["a", "b", "a"]),
    ("set('a','b','c')", "string", ["a,b", "b,a", "a", "b", "", "c,a"]),
    ("decimal(60,30)", "string", ["1.0", "1.00", "1", "123456789012345678901234567890.1",
                                  "123456789012345678901234567890.2", "-0", "0"]),
    ("decimal(8,2)", "float", [0.1, 0.101, 1.0, 1.004]),
    ("float", "float", [0.1, 0.10000000149011612, 16777216.0, 16777217.0]),
    ("double", "float", [0.0, -0.0, 1.5, 1.5]),
    ("datetime(6)", "string", ["2024-02-29T12:00:00Z", "2024-02-29 13:00:00+01:00", "2024-02-29", "2024-02-29 00:00"]),
    ("date", "date", ["2024-02-29", "2024-02-29", "2024-03-01"]),
    ("time(3)", "string", ["12:30:00", "12:30:00.000", "12:30:00.5", "12:30:00.50"]),
    ("varbinary(9)", "string", ["a", "A", "a ", "a"]),
    ("year", "string", ["2024", "2024", "1999"]),
    ("uuid", "string", [UUID, UUID.upper()]),
    ("bit(3)", "int", [1, 2, 1]),
]  # fmt: skip
OF_SQLITE: list[Case] = [
    ("INTEGER", "int", [1, 2, 1, None, None]),
    ("INTEGER", "string", ["7", " 7", "+7", "8"]),
    ("NUMERIC", "string", ["1", "1.0", "1e0", "0.5", ".5", "-0", "0", "0.0"]),
    ("REAL", "int", [1, 2, 1]),
    ("REAL", "float", [0.0, -0.0, 0.1, 0.1]),
    ("TEXT", "string", ["a", "A", "a ", "a", "", ""]),
    ("TEXT COLLATE NOCASE", "string", ["a", "A", "a ", "ä", "Ä"]),
    ("TEXT COLLATE RTRIM", "string", ["a", "A", "a ", " a"]),
    ("BLOB", "string", ["1", "1", "a"]),
    ("", "float", [1.0, 1, 1.5]),
    ("DATE", "date", ["2024-02-29", "2024-02-29", "2024-03-01"]),
    ("DATETIME", "date_time", ["2024-02-29T12:30:00", "2024-02-29T12:30:00.000", "2024-02-29T12:30:01"]),
]  # fmt: skip


def _named(cases: list[Case]) -> Any:
    return pytest.mark.parametrize(("column", "declared", "found"), cases, ids=[f"{c} {d}" for c, d, _ in cases])


def compare(warehouse: Warehouse, declared: str, found: list[Any], expected: list[int]) -> None:
    """Have a run write values; the table has the first of those that the database has as one."""
    warehouse.write(
        [{"id": number, "v": value} for number, value in enumerate(found)],
        f"id: int, v: {declared}",
        code=2 if len(expected) < len(found) else 0,
        files=FILES,
    )
    assert [int(row[0]) for row in warehouse.database.run("SELECT id FROM t ORDER BY id")] == expected
    assert len(warehouse.letters) == len(found) - len(expected)
    assert all("an earlier record of the run has this value" in letter for letter in warehouse.letters)
    assert warehouse.staged == []


@_named(OF_POSTGRES)
def test_postgres_takes_the_first_of_equal_values(
    column: str, declared: str, found: list[Any], postgres_warehouse: Warehouse
) -> None:
    database = postgres_warehouse.database
    database.run("CREATE TYPE mood AS ENUM ('glad', 'sad');\nCREATE DOMAIN short AS varchar(3)")
    for name in ("t", "expected"):
        database.run(f"CREATE TABLE {name} (id int, v {column} UNIQUE)")
    for number, value in enumerate(found):
        text = "NULL" if value is None else postgres_loading.literal(_text(value))
        # Texts are assigned to columns of characters, where a cast would cut them.
        given = f"convert_to({text}, 'UTF8')" if column == "bytea" else text
        database.run(f"SET TimeZone = 'UTC';\nINSERT INTO expected VALUES ({number}, {given}) ON CONFLICT DO NOTHING")
    expected = [number for (number,) in database.run("SELECT id FROM expected ORDER BY id")]
    compare(postgres_warehouse, declared, found, expected)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@_named(OF_MARIADB)
def test_mariadb_takes_the_first_of_equal_values(
    column: str, declared: str, found: list[Any], maria_warehouse: Any
) -> None:
    import pymysql

    database = maria_warehouse.database
    for name in ("t", "expected"):
        database.run(f"CREATE TABLE {name} (id int, v {column} UNIQUE) CHARACTER SET utf8mb4")
    expected = []
    for number, value in enumerate(found):
        given = _text(value)
        if column.startswith("datetime"):
            given = {"2024-02-29T12:00:00Z": "2024-02-29 12:00", "2024-02-29 13:00:00+01:00": "2024-02-29 12:00"}.get(
                given, given
            )
        text = "NULL" if value is None else mysql_columns.escaped(given) if isinstance(value, str) else given
        with contextlib.suppress(pymysql.IntegrityError):
            database.run(f"INSERT INTO expected VALUES ({number}, {text})")
            expected.append(number)
    compare(maria_warehouse, declared, found, expected)


@_named(OF_SQLITE)
def test_sqlite_takes_the_first_of_equal_values(
    column: str, declared: str, found: list[Any], sqlite_warehouse: Any
) -> None:
    database = sqlite_warehouse.database
    for name in ("t", "expected"):
        database.run(f"CREATE TABLE {name} (id INT, v {column} UNIQUE)")
    for number, value in enumerate(found):
        text = "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)
        if column == "DATETIME":
            text = text.replace("T", " ").replace(".000", "")
        database.run(f"INSERT OR IGNORE INTO expected VALUES ({number}, {text})")
    expected = [number for (number,) in database.run("SELECT id FROM expected ORDER BY id")]
    compare(sqlite_warehouse, declared, found, expected)


@pytest.fixture(params=["postgres", "maria", "sqlite"])
def anywhere(request: pytest.FixtureRequest) -> Any:
    """A warehouse of each kind of database."""
    return request.getfixturevalue(f"{request.param}_warehouse")


def test_dead_letters_name_the_index_its_columns_and_the_first_record(anywhere: Any) -> None:
    anywhere.database.run("CREATE TABLE t (id int, a int, b varchar(9), CONSTRAINT both_ UNIQUE (a, b))")
    rows = [{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 1, "b": "y"}, {"id": 3, "a": 1, "b": "x"}, {"id": 4, "a": 1}]
    anywhere.write([*rows, {"id": 5, "a": 1}], "id: int, a: int, b: string", code=2, files=FILES)
    assert [row[0] for row in anywhere.database.run("SELECT id FROM t ORDER BY id")] == [1, 2, 4, 5]
    (letter,) = anywhere.letters
    assert "columns a, b of table t: an earlier record of the run has this value (unique '" in letter
    assert "1, x (the first is in in.ndjson, row 1)" in letter
    assert "validation_failure" in letter
    assert "output:t" in letter
    # The other output has all of them.
    assert len((anywhere.folder / "out/rows.csv").read_text().splitlines()) == 6


def test_records_meet_across_tasks_and_the_table_has_their_order(
    anywhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "AUTOINCREMENT" if "sqlite" in anywhere.database.uri else ""
    serial = {"postgresql": "serial PRIMARY KEY", "mysql": "int AUTO_INCREMENT PRIMARY KEY"}.get(
        anywhere.database.uri.partition(":")[0], f"INTEGER PRIMARY KEY {place}"
    )
    anywhere.database.run(f"CREATE TABLE t (place {serial}, id int, k varchar(20), UNIQUE (k))")
    pipelines.cut_by(monkeypatch, 2000)
    rows = [{"id": number, "k": None if number % 10 == 0 else f"k{number * 7 % 500}"} for number in range(1000)]
    anywhere.write(rows, "id: int, k: string", code=2)
    seen: set[str] = set()
    expected = []
    for row in rows:
        if row["k"] is None or row["k"] not in seen:
            expected.append(row["id"])
            seen.add(str(row["k"]))
    assert [row[0] for row in anywhere.database.run("SELECT id FROM t ORDER BY place")] == expected
    assert len(anywhere.letters) == len(rows) - len(expected)


def test_replacing_looks_at_the_records_of_the_run_alone(anywhere: Any) -> None:
    anywhere.database.run("CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1, 1), (9, 9)")
    rows = [{"id": 1, "v": 2}, {"id": 2, "v": 3}, {"id": 1, "v": 4}]
    anywhere.write(rows, "id: int, v: int", code=2, options="mode: replace")
    assert [tuple(row) for row in anywhere.database.run("SELECT id, v FROM t ORDER BY id")] == [(1, 2), (2, 3)]
    assert len(anywhere.letters) == 1


def test_records_of_an_upsert_about_one_row_may_have_one_value(anywhere: Any) -> None:
    anywhere.database.run("CREATE TABLE t (k int PRIMARY KEY, u int, v int, UNIQUE (u))")
    rows = [
        {"k": 1, "u": 10, "v": 1}, {"k": 2, "u": 20, "v": 2}, {"k": 1, "u": 10, "v": 3}, {"k": 3, "u": 10, "v": 4},
        {"k": 2, "u": 21, "v": 5}, {"k": 4, "u": 21, "v": 6}, {"k": 5, "v": 7}, {"k": 6, "v": 8}, {"k": 1, "u": 10},
    ]  # fmt: skip
    anywhere.write(rows, "k: int, u: int, v: int", code=2, options="mode: upsert, key: k")
    found = [tuple(row) for row in anywhere.database.run("SELECT k, u, v FROM t ORDER BY k")]
    assert found == [(1, 10, None), (2, 21, 5), (5, None, 7), (6, None, 8)]
    assert len(anywhere.letters) == 2


CORRELATED = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      type: json
      path: in.ndjson
      options: {{ format: ndjson }}
      schema: {{ id: int, g: string, v: int }}
      correlation_key: [g]
  - type: output
    name: t
    input: rows
    config: {{ type: database, options: {{ connection: warehouse, table: t, mode: {mode} }} }}
  - type: output
    name: f
    input: rows
    config: {{ type: csv, path: out/rows.csv }}
"""


@pytest.mark.parametrize("mode", ["insert", "replace"])
@pytest.mark.parametrize("split", [10**9, 60])
def test_a_record_that_equals_another_rejects_its_group(
    mode: str, split: int, anywhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    anywhere.database.run("CREATE TABLE t (id int PRIMARY KEY, g varchar(9), v int)")
    rows = [
        (1, "a", 1), (2, "a", 2), (3, "b", 3), (1, "b", 4), (4, "c", 5), (5, "c", 6), (3, "d", 7), (6, "e", 8),
    ]  # fmt: skip
    pipelines.cut_by(monkeypatch, split)
    lines = [json.dumps({"id": number, "g": group, "v": value}) + "\n" for number, group, value in rows]
    pipelines.write(anywhere.folder, {"pipeline.yaml": CORRELATED.format(mode=mode), "in.ndjson": "".join(lines)})
    outcome = pipelines.run(anywhere.folder, force=True)
    assert outcome.result.exit_code == 2, outcome.result.error
    written = [tuple(row) for row in anywhere.database.run("SELECT id, g, v FROM t ORDER BY id")]
    # Record 3 of group b was read, and rejected with its group: the one of group d equals it.
    assert written == [(1, "a", 1), (2, "a", 2), (4, "c", 5), (5, "c", 6), (6, "e", 8)]
    assert len(written) + len(anywhere.letters) == len(rows)
    assert sum("validation_failure" in letter for letter in anywhere.letters) == 2
    kept = (anywhere.folder / "out/rows.csv").read_text().splitlines()[1:]
    assert [line.split(",")[2] for line in kept] == ["1", "2", "5", "6", "8"]


def test_a_record_that_the_table_refuses_equals_none(anywhere: Any) -> None:
    anywhere.database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, u int UNIQUE);\nINSERT INTO t VALUES (0, 0, 7)"
    )
    rows = [{"id": 1}, {"id": 1, "v": 2}, {"id": 2, "v": 3, "u": 7}, {"id": 2, "v": 4, "u": 8}, {"id": 2, "v": 5}]
    anywhere.write(rows, "id: int, v: int, u: int", code=2, files=FILES)
    assert [tuple(row) for row in anywhere.database.run("SELECT id, v FROM t ORDER BY id")] == [(0, 0), (1, 2), (2, 4)]
    assert len(anywhere.letters) == 3
    for text in ("must be a value", "already", "earlier record"):
        assert sum(text in letter for letter in anywhere.letters) == 1
    assert len((anywhere.folder / "out/rows.csv").read_text().splitlines()) == 6


@pytest.mark.parametrize("split", [10**9, 60])
def test_a_record_that_the_table_refuses_rejects_its_group_and_equals_none(
    split: int, anywhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    anywhere.database.run("CREATE TABLE t (id int PRIMARY KEY, g varchar(9), v int NOT NULL)")
    rows = [(1, "a", None), (1, "b", 2), (2, "a", 3), (2, "c", 4), (3, "b", 5), (4, "d", None), (5, "c", 6)]
    pipelines.cut_by(monkeypatch, split)
    lines = [json.dumps({"id": number, "g": group, "v": value}) + "\n" for number, group, value in rows]
    pipelines.write(anywhere.folder, {"pipeline.yaml": CORRELATED.format(mode="insert"), "in.ndjson": "".join(lines)})
    outcome = pipelines.run(anywhere.folder, force=True)
    assert outcome.result.exit_code == 2, outcome.result.error
    written = [tuple(row) for row in anywhere.database.run("SELECT id, v FROM t ORDER BY id")]
    # Record 2 of group a was read, and rejected with its group: the one of group c equals it.
    assert written == [(1, 2), (3, 5)]
    assert len(anywhere.letters) == 5
    assert sum("must be a value" in letter and "type_coercion_failure" in letter for letter in anywhere.letters) == 2
    assert len((anywhere.folder / "out/rows.csv").read_text().splitlines()) == 3


#: Indexes whose values only PostgreSQL computes or compares: the index, and records of `id`, `a` and `b`.
COMPUTED: list[tuple[str, str]] = [
    ("lower(b)", "1x 1X 2x 3y"),
    ('lower(b) COLLATE "C", (a % 2)', "1x 2X 3X 3x 4y 2y"),
    ("(a + length(b))", "1xx 2x 3- 2xx 0xxx"),
    ("b COLLATE loose", "1x 2X 3é 4É 5e"),
    ("a", "1x 1y 2x"),
    ("b text_pattern_ops, a", "1x 1x 1X"),
    ("a) WHERE (b <> 'x'", "1x 1x 1y 1z 2y"),
    ("(a / 2)) WHERE (b IS NULL OR b = 'x'", "2- 3- 3x 4y 5y 4x 5-"),
    ("a, b) NULLS NOT DISTINCT WHERE (a < 3", "1- 1- 3- 3- 2x 2x"),
    ("(10 / (a - 5))", "5x 6x 6y 4x"),
]


def _record(number: int, text: str) -> dict[str, Any]:
    return {"id": number, "a": int(text[0])} | ({} if text[1:] == "-" else {"b": text[1:]})


@pytest.mark.parametrize(("index", "given"), COMPUTED)
def test_the_database_computes_values_of_an_index(
    index: str, given: str, postgres_warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    for name in ("t", "expected"):
        postgres.run(f"CREATE TABLE {name} (id int, a int, b text);\nCREATE UNIQUE INDEX ON {name} ({index})")
        postgres.run(f"INSERT INTO {name} VALUES (-1, 9, 'y')")
    rows = [_record(number, text) for number, text in enumerate([*given.split(), "9y"])]
    for row in rows:
        values = ", ".join("NULL" if row.get(name) is None else repr(row[name]) for name in ("id", "a", "b"))
        with contextlib.suppress(Exception):
            postgres.run(f"INSERT INTO expected VALUES ({values})")
    expected = [number for (number,) in postgres.run("SELECT id FROM expected ORDER BY id")]
    postgres_warehouse.write(rows, "id: int, a: int, b: string", code=2, files=FILES)
    found = [number for (number,) in postgres.run("SELECT id FROM t ORDER BY id")]
    assert found == expected
    refused = len(rows) + 1 - len(expected)
    assert len(postgres_warehouse.letters) == refused
    said = ["has a row with this value already", "an earlier record of the run has this value", "division by zero"]
    counts = [sum(text in letter for letter in postgres_warehouse.letters) for text in said]
    assert sum(counts) == refused
    assert counts[1]
    assert postgres_warehouse.staged == []


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("soft", ["a", "A", "b", "B "]),
        ("interval", ["1 day", "24:00", "25:00", "P1D"]),
        ("jsonb", ['{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', "1", "1.00", "[]"]),
        ("timetz", ["12:00+00", "13:00+01", "12:00:00Z"]),
        ("int4range", ["[1,2]", "[1,3)", "[1,4)"]),
    ],
)
def test_types_have_values_that_are_equal_and_differ(
    column: str, found: list[str], postgres_warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run("CREATE EXTENSION citext;\nCREATE DOMAIN soft AS citext")
    for name in ("t", "expected"):
        postgres.run(f"CREATE TABLE {name} (id int, v {column} UNIQUE)")
    for number, value in enumerate(found):
        postgres.run(f"INSERT INTO expected VALUES ({number}, '{value}') ON CONFLICT DO NOTHING")
    compare(
        postgres_warehouse, "string", found, [row[0] for row in postgres.run("SELECT id FROM expected ORDER BY id")]
    )


def test_a_domain_may_be_the_key_of_an_upsert(postgres_warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE EXTENSION citext;\nCREATE DOMAIN soft AS citext;\nCREATE TABLE t (k soft UNIQUE, v int);\n"
        "INSERT INTO t VALUES ('a', 0)"
    )
    rows = [{"k": "A", "v": 1}, {"k": "b", "v": 2}, {"k": "B", "v": 3}]
    postgres_warehouse.write(rows, "k: string, v: int", options="mode: upsert, key: k")
    assert postgres.run("SELECT lower(k::text), v FROM t ORDER BY 1") == [("a", 1), ("b", 3)]


def test_an_index_may_be_about_one_partition(postgres_warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t (id int, a int) PARTITION BY RANGE (a);\n"
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10);\n"
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20);\n"
        "CREATE UNIQUE INDEX ON t_1 (id);\nINSERT INTO t VALUES (1, 1), (5, 11)"
    )
    rows = [{"id": 1, "a": 2}, {"id": 1, "a": 12}, {"id": 1, "a": 13}, {"id": 2, "a": 3}, {"id": 2, "a": 4},
            {"id": 5, "a": 5}]  # fmt: skip
    postgres_warehouse.write(rows, "id: int, a: int", code=2)
    found = postgres.run("SELECT id, a FROM t ORDER BY id, a")
    assert found == [(1, 1), (1, 12), (1, 13), (2, 3), (5, 5), (5, 11)]
    assert len(postgres_warehouse.letters) == 2


@pytest.mark.parametrize(
    ("index", "given"),
    [
        ("lower(b)", "1x 1X 2x 3y"),
        ("b COLLATE NOCASE, (a % 2) DESC", "1x 2X 3X 3x 4y 2y"),
        ("(a + length(b))", "1xx 2x 3- 2xx 0xxx"),
        ("(a / 2.0)", "1x 1y 2x"),
        ("[a]) WHERE (\"b\" <> 'x)' AND b <> 'x' -- of ) rows", "1x 1x 1y 1z 2y"),
        ("('it''s' || (a / 2))) WHERE (b IS NULL OR b = 'X'", "2- 3- 3x 4y 5y 4x 5-"),
        ("(c || b)", "1x 2x"),
    ],
)
def test_sqlite_computes_values_of_an_index(index: str, given: str, sqlite_warehouse: Any) -> None:
    database = sqlite_warehouse.database
    close = "\n)" if "--" in index else ")"
    for name in ("t", "expected"):
        database.run(
            f"CREATE TABLE {name} (id INTEGER, a INTEGER, b TEXT COLLATE NOCASE, c TEXT NOT NULL DEFAULT 'c', "
            f"d BLOB NOT NULL DEFAULT x'', CHECK (length(c) = 1));\n"
            f"CREATE UNIQUE INDEX u_{name} ON {name} ({index}{close};\n"
            f"INSERT INTO {name} (id, a, b) VALUES (-1, 9, 'y')"
        )
    rows = [_record(number, text) for number, text in enumerate([*given.split(), "9Y"])]
    for row in rows:
        values = ", ".join("NULL" if row.get(name) is None else repr(row[name]) for name in ("id", "a", "b"))
        database.run(f"INSERT OR IGNORE INTO expected (id, a, b) VALUES ({values})")
    expected = [number for (number,) in database.run("SELECT id FROM expected ORDER BY id")]
    if "c ||" in index:  # the records have no such column: the database alone computes it
        sqlite_warehouse.write(rows, "id: int, a: int, b: string", code=4)
        assert "UNIQUE constraint failed: index 'u_t'" in sqlite_warehouse.error.message
        return
    sqlite_warehouse.write(rows, "id: int, a: int, b: string", code=2, files=FILES)
    assert [number for (number,) in database.run("SELECT id FROM t ORDER BY id")] == expected
    assert len(sqlite_warehouse.letters) == len(rows) + 1 - len(expected)
    assert any("an earlier record of the run has this value" in letter for letter in sqlite_warehouse.letters)
    assert sqlite_warehouse.staged == []


def test_an_upsert_may_keep_what_an_index_computes(sqlite_warehouse: Any) -> None:
    database = sqlite_warehouse.database
    database.run(
        "CREATE TABLE t (k INTEGER PRIMARY KEY, b TEXT);\nCREATE UNIQUE INDEX u ON t (lower(b)) WHERE b > 'a';\n"
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')"
    )
    rows = [{"k": 1, "b": "X"}, {"k": 3, "b": "Y"}, {"k": 4, "b": "A"}, {"k": 5, "b": "A"}, {"k": 6, "b": "n"},
            {"k": 7, "b": "N"}, {"k": 8, "b": "n"}]  # fmt: skip
    sqlite_warehouse.write(rows, "k: int, b: string", code=2, options="mode: upsert, key: k")
    found = [tuple(row) for row in database.run("SELECT k, b FROM t ORDER BY k")]
    assert found == [(1, "X"), (2, "y"), (3, "Y"), (4, "A"), (5, "A"), (6, "n"), (7, "N")]
    assert len(sqlite_warehouse.letters) == 1


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin"])
def test_mariadb_compares_the_first_characters(collation: str, maria_warehouse: Any) -> None:
    import pymysql

    database = maria_warehouse.database
    for name in ("t", "expected"):
        database.run(
            f"CREATE TABLE {name} (id int, a int, v varchar(20) COLLATE {collation}, UNIQUE (v(2), a));\n"
            f"INSERT INTO {name} VALUES (-1, 1, 'zzz')"
        )
    texts = ["äbc", "ÄB", "äbx", "äc", "a ", "a", "a  x", "", None, None, "zz", "🎈🎈🎈", "🎈🎈"]
    rows = [{"id": number, "a": 1, "v": text} for number, text in enumerate(texts)]
    for row in rows:
        text = "NULL" if row["v"] is None else mysql_columns.escaped(row["v"])
        with contextlib.suppress(pymysql.IntegrityError):
            database.run(f"INSERT INTO expected VALUES ({row['id']}, 1, {text})")
    expected = [row[0] for row in database.run("SELECT id FROM expected ORDER BY id")]
    maria_warehouse.write(rows, "id: int, a: int, v: string", code=2, files=FILES)
    assert [row[0] for row in database.run("SELECT id FROM t ORDER BY id")] == expected
    assert len(maria_warehouse.letters) == len(rows) + 1 - len(expected)


def test_the_first_characters_are_no_key(maria_warehouse: Any) -> None:
    maria_warehouse.database.run("CREATE TABLE t (k varchar(20), v int, UNIQUE (k(2)))")
    maria_warehouse.write([{"k": "a", "v": 1}], "k: string, v: int", code=4, options="mode: upsert, key: k")
    assert "no unique index of table t has just the columns of `key`: there is none" in maria_warehouse.error.message


def test_records_are_compared_only_if_the_table_refuses_some(anywhere: Any, caplog: pytest.LogCaptureFixture) -> None:
    anywhere.database.run("CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v int)")
    with caplog.at_level("INFO", "clinker"):
        anywhere.write([{"id": 1, "u": 1}, {"id": 2}], "id: int, u: int, v: int", files=FILES)
        assert "begins again" not in caplog.text
        anywhere.write(
            [{"id": 3, "u": 3}, {"id": 4, "u": 3}, {"id": 5}], "id: int, u: int, v: int", code=2, files=FILES
        )
    assert caplog.text.count("begins again") == 1
    assert [row[0] for row in anywhere.database.run("SELECT id FROM t ORDER BY id")] == [1, 2, 3, 5]
    (letter,) = anywhere.letters
    assert "an earlier record of the run has this value" in letter
    assert len((anywhere.folder / "out/rows.csv").read_text().splitlines()) == 4
    assert anywhere.staged == []


def test_a_run_without_files_begins_again_too(anywhere: Any) -> None:
    anywhere.database.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    rows = [{"id": 1, "v": 1}, {"id": 1, "v": 2}]
    pipelines.write(
        anywhere.folder,
        {
            "pipeline.yaml": PIPELINE.format(
                schema="id: int, v: int", table="t", options="mode: insert", unmapped="drop"
            ).replace("dlq: { path: out/dlq.csv }", ""),
            "in.ndjson": "".join(json.dumps(row) + "\n" for row in rows),
        },
    )
    outcome = pipelines.run(anywhere.folder, force=True)
    assert outcome.result.exit_code == 2, outcome.result.error
    assert [tuple(row) for row in anywhere.database.run("SELECT id, v FROM t")] == [(1, 1)]
    assert anywhere.staged == []


def test_deferred_constraints_begin_again_too(postgres_warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, v int)")
    rows = [{"id": 1, "v": 1}, {"id": 1, "v": 2}, {"id": 2, "v": 3}]
    postgres_warehouse.write(rows, "id: int, v: int", code=2)
    assert postgres.run("SELECT id, v FROM t ORDER BY v") == [(1, 1), (2, 3)]


def test_a_check_without_columns_refuses_records(anywhere: Any) -> None:
    condition = "1 = 0" if "sqlite" in anywhere.database.uri else "1 < 0"
    anywhere.database.run(f"CREATE TABLE t (id int, CONSTRAINT never CHECK ({condition}))")
    anywhere.write([{"id": 1}, {"id": 2}], "id: int", code=2)
    assert anywhere.database.run("SELECT * FROM t") == []
    assert len(anywhere.letters) == 2
    assert all("never" in letter for letter in anywhere.letters)


def test_a_value_that_the_column_refuses_equals_none(postgres_warehouse: Warehouse, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int2 UNIQUE, k varchar(2) UNIQUE)")
    rows = [{"id": 40000}, {"id": 40000}, {"id": 1, "k": "abc"}, {"id": 2, "k": "abc"}, {"id": 3, "k": "ab"}]
    postgres_warehouse.write(rows, "id: int, k: string", code=2)
    assert postgres.run("SELECT id FROM t") == [(3,)]
    said = ["beyond int2", "beyond int2", "has 3 characters", "has 3 characters"]
    assert len(postgres_warehouse.letters) == len(said)
    for text, letter in zip(said, postgres_warehouse.letters, strict=True):
        assert text in letter


def test_nulls_may_be_equal(postgres_warehouse: Warehouse, postgres: Database) -> None:
    ((is_old,),) = postgres.run("SELECT current_setting('server_version_num')::int < 150000")
    if is_old:
        pytest.skip("PostgreSQL 15 has NULLS NOT DISTINCT")
    postgres.run(
        "CREATE TABLE t (id int, a int, b text, UNIQUE NULLS NOT DISTINCT (a, b));\nINSERT INTO t VALUES (0, NULL, 'x')"
    )
    rows = [
        {"id": 1}, {"id": 2}, {"id": 3, "a": 1}, {"id": 4, "a": 1}, {"id": 5, "b": "-"}, {"id": 6, "b": ""},
        {"id": 7, "b": "x"}, {"id": 8, "a": 1, "b": "x"},
    ]  # fmt: skip
    postgres_warehouse.write(rows, "id: int, a: int, b: string", code=2)
    assert [number for (number,) in postgres.run("SELECT id FROM t ORDER BY id")] == [0, 1, 3, 5, 6, 8]
    assert sorted("an earlier record" in letter for letter in postgres_warehouse.letters) == [False, True, True]
    assert sum("has a row with this value already" in letter for letter in postgres_warehouse.letters) == 1


def test_columns_of_a_full_match_have_values_together(postgres_warehouse: Warehouse, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE p (a int, b text, UNIQUE (a, b));\nINSERT INTO p VALUES (1, 'x');\n"
        "CREATE TABLE t (id int, a int, b text, FOREIGN KEY (a, b) REFERENCES p (a, b) MATCH FULL)"
    )
    rows = [{"id": 1, "a": 1, "b": "x"}, {"id": 2}, {"id": 3, "a": 1}, {"id": 4, "b": "x"}, {"id": 5, "a": 2, "b": "x"}]
    postgres_warehouse.write(rows, "id: int, a: int, b: string", code=2)
    assert postgres.run("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert len(postgres_warehouse.letters) == 3
    assert all("values together or not at all" in letter for letter in postgres_warehouse.letters)


def test_an_index_of_undeclared_columns_is_the_databases_to_check(
    postgres_warehouse: Warehouse, postgres: Database
) -> None:
    postgres.run("CREATE TABLE t (id int, x int UNIQUE)")
    rows = [{"id": 1, "x": 2}, {"id": 2, "x": 2}]
    postgres_warehouse.write(rows, "id: int", code=4, unmapped="auto_widen")
    assert "duplicate key value violates unique constraint" in postgres_warehouse.error.message
    assert postgres.run("SELECT * FROM t") == []


def test_conditions_say_what_nulls_are() -> None:
    full = Constraint("foreign key", "f", ("a", "b"), "p", ("c", "d"), is_full=True)
    assert full.refusing("t", ()) == (
        'NOT (r."a" IS NULL AND r."b" IS NULL) AND (NOT (r."a" IS NOT NULL AND r."b" IS NOT NULL) OR '
        'NOT EXISTS (SELECT 1 FROM p t WHERE t."c" = r."a" AND t."d" = r."b"))'
    )
    alike = Constraint("unique", "u", ("a",), nulls_are_equal=True)
    assert '(t."a" = r."a" OR (t."a" IS NULL AND r."a" IS NULL))' in alike.refusing("t", ())


def test_a_database_without_a_session_still_finds_equal_texts() -> None:
    checks = Checks(Target("t", "t", "s", ()), DatabaseWrite("w", "t"))
    texts = pa.array(["a", None, "a"])
    assert checks.comparable(TargetColumn("v", "mood", "mood"), texts, "").to_pylist() == ["a", None, "a"]

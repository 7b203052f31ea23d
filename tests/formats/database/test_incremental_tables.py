"""Tables of which each run reads the rows that are new, in PostgreSQL and in SQLite."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.execute import pipelines, without_spark
from tests.formats.database.test_sqlite import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres import Database

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      type: database
      options: {{ connection: {connection}, {options} }}
      incremental: {incremental}
      schema: {{ id: int }}
      on_unmapped: drop
  - type: output
    name: o
    input: rows
    config: {{ type: csv, path: out/rows, include_header: false }}
"""
BOOKMARK = "out/.clinker-p.bookmark.json"


class IncrementalColumn:
    """A folder with a pipeline that reads new rows."""

    def __init__(self, folder: Path, connection: str) -> None:
        self.folder, self.connection = folder, connection
        self.error: Any = None

    def run(self, incremental: str, options: str = "table: t", code: int = 0, **chosen: Any) -> list[int]:
        """The ids of a run."""
        text = PIPELINE.format(connection=self.connection, options=options, incremental=incremental)
        pipelines.write(self.folder, {"pipeline.yaml": text})
        outcome = pipelines.run(self.folder, force=True, **chosen)
        self.error = outcome.result.error
        assert outcome.result.exit_code == code, self.error
        return [int(line) for line in (self.folder / "out/rows").read_text().split()] if code == 0 else []

    @property
    def mark(self) -> Any:
        path = self.folder / BOOKMARK
        return json.loads(path.read_text())["sources"]["rows"] if path.exists() else None


@pytest.fixture
def in_postgres(tmp_path: Path, postgres: Database, monkeypatch: pytest.MonkeyPatch) -> IncrementalColumn:
    without_spark.install(monkeypatch)
    return IncrementalColumn(tmp_path, "warehouse")


@pytest.fixture
def in_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IncrementalColumn:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_CONNECTION_SHOP", "sqlite:///shop.db")
    return IncrementalColumn(tmp_path, "shop")


def test_rows_of_postgres_are_read_once(in_postgres: IncrementalColumn, postgres: Database) -> None:
    run = in_postgres.run
    postgres.run("CREATE TABLE t (id int8, at timestamptz NOT NULL)")
    assert run("{ column: at }") == []
    assert in_postgres.mark is None
    postgres.run("INSERT INTO t SELECT n, timestamptz '2024-01-01 00:00:00.000001+02' + n * interval '1h' "
                 "FROM generate_series(1, 500) n")  # fmt: skip
    assert run("{ column: at }") == [*range(1, 501)]
    assert in_postgres.mark == {
        "by": "column", "of": "warehouse:t", "column": "at", "through": "2024-01-21 18:00:00.000001+00",
    }  # fmt: skip
    assert run("{ column: at }") == []
    postgres.run("INSERT INTO t VALUES (7, '2024-01-21 18:00:00.000002+00'), (8, '2020-01-01')")
    assert run("{ column: at }") == [7]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("int2", "1", "2"),
        ("int8", "9007199254740992", "9007199254740993"),
        ("numeric", "0.1234567890123456789012345678901", "0.1234567890123456789012345678902"),
        ("date", "'2024-02-29'", "'2024-03-01'"),
        ("timestamp", "'2024-02-29 12:00:00.000001'", "'2024-02-29 12:00:00.000002'"),
        ("text", "'a''b'", "'a''c'"),
    ],
)
def test_each_type_that_grows_keeps_its_value_exactly(
    kind: str, first: str, second: str, in_postgres: IncrementalColumn, postgres: Database
) -> None:
    postgres.run(f'CREATE TABLE t (id int, "Grow""s" {kind});\nINSERT INTO t VALUES (1, {first})')
    incremental = """{ column: 'Grow"s' }"""
    assert in_postgres.run(incremental) == [1]
    postgres.run(f"INSERT INTO t VALUES (2, {second})")
    assert in_postgres.run(incremental) == [2]
    assert in_postgres.run(incremental) == []


@pytest.mark.parametrize("options", ["table: parts", "table: parts, partition_by: id, partitions: 3"])
def test_partitions_and_ranges_have_the_new_rows_once(
    options: str, in_postgres: IncrementalColumn, postgres: Database
) -> None:
    postgres.run(
        "CREATE TABLE parts (id int, n int NOT NULL) PARTITION BY RANGE (id);\n"
        "CREATE TABLE p1 PARTITION OF parts FOR VALUES FROM (0) TO (100);\n"
        "CREATE TABLE p2 PARTITION OF parts FOR VALUES FROM (100) TO (1000);\n"
        "INSERT INTO parts SELECT n, n % 10 FROM generate_series(0, 199) n"
    )
    assert sorted(in_postgres.run("{ column: n }", options)) == [*range(200)]
    postgres.run("INSERT INTO parts VALUES (5, 10), (500, 11), (6, 3)")
    assert sorted(in_postgres.run("{ column: n }", options)) == [5, 500]


def test_many_rows_are_read_in_parallel_and_new_ones_by_an_index(
    in_postgres: IncrementalColumn, postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, 16_384)
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text);\n"
        "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 2000) n"
    )
    assert in_postgres.run("{ column: id }") == [*range(1, 2001)]
    postgres.run("INSERT INTO t SELECT n, '' FROM generate_series(2001, 2500) n;\nANALYZE t")
    assert sorted(in_postgres.run("{ column: id }")) == [*range(2001, 2501)]  # in the order of their places


def test_rows_that_may_still_be_overtaken_wait(in_postgres: IncrementalColumn, postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t (id int, at timestamp);\nINSERT INTO t VALUES "
        "(1, now() AT TIME ZONE 'UTC' - interval '1h'), (2, now() AT TIME ZONE 'UTC' - interval '1min')"
    )
    assert in_postgres.run("{ column: at, delay: 10m }") == [1]
    assert in_postgres.run("{ column: at, delay: 10m }") == []
    assert in_postgres.run("{ column: at }") == [2]


def test_since_and_until_of_postgres(in_postgres: IncrementalColumn, postgres: Database) -> None:
    run, column = in_postgres.run, "{ column: at }"
    postgres.run("CREATE TABLE t (id int, at timestamptz);\n"
                 "INSERT INTO t SELECT n, '2024-01-01T00:00:00Z'::timestamptz + n * interval '1 day' "
                 "FROM generate_series(0, 9) n")  # fmt: skip
    assert run(column, until=("2024-01-03T02:00:00+02:00",)) == [0, 1]
    # What would leave a gap is read, and the bookmark stays where the gap begins.
    assert run(column, since=("2024-01-08",)) == [7, 8, 9]
    assert run(column, since=("2024-01-05",), until=("2024-01-06",)) == [4]
    assert in_postgres.mark["through"] == "2024-01-02 00:00:00+00"
    assert run(column) == [*range(2, 10)]
    assert run(column, since=("2024-01-08",), until=("2024-01-09",)) == [7]
    assert run(column, since=("2024-01-09",)) == [8, 9]
    assert run(column) == []
    # A backfill never moves it back.
    postgres.run("DELETE FROM t WHERE id = 9")
    assert run(column, since=("2024-01-09",)) == [8]
    assert in_postgres.mark["through"] == "2024-01-10 00:00:00+00"


def test_rows_of_sqlite_are_read_once(in_sqlite: IncrementalColumn) -> None:
    shop = Shop(in_sqlite.folder)
    shop.fill("CREATE TABLE t (id INTEGER PRIMARY KEY, at)")
    assert in_sqlite.run("{ column: id }") == []
    shop.fill("INSERT INTO t VALUES (1, 'b'), (2, 'a''')")
    assert in_sqlite.run("{ column: id }") == [1, 2]
    assert in_sqlite.mark["through"] == 2
    shop.fill("INSERT INTO t VALUES (5, 'c')")
    assert in_sqlite.run("{ column: id }") == [5]
    assert in_sqlite.run("{ column: id }", since=("2",)) == [2, 5]
    assert in_sqlite.run("{ column: id }", since=("2",), until=("5",)) == [2]
    shop.fill("INSERT INTO t VALUES (6, 'd')")
    assert in_sqlite.run("{ column: id }", 'query: "SELECT id FROM t WHERE id <> 5"', code=4) == []
    assert "is of `shop:t`, and the source reads `shop:query`" in in_sqlite.error.message


@pytest.mark.parametrize(
    "layout", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S.000"]
)
def test_bounds_of_sqlite_are_times_however_the_column_spells_them(in_sqlite: IncrementalColumn, layout: str) -> None:
    rows = [
        (number, datetime(2026, 1, day, hour).strftime(layout))
        for number, (day, hour) in enumerate([(1, 23), (2, 0), (2, 6), (2, 23), (3, 0)], 1)
    ]
    Shop(in_sqlite.folder).fill("CREATE TABLE t (id INTEGER, at TEXT)", f"INSERT INTO t VALUES {str(rows)[1:-1]}")

    def between(since: str, until: str) -> list[int]:
        return in_sqlite.run("{ column: at }", since=(since,), until=(until,))

    assert between("2026-01-02T06:00:00Z", "2026-01-03T00:00:00+00:00") == [3, 4]
    assert between("2026-01-02 06:00:00", "2026-01-03 00:00") == [3, 4]
    assert between("2026-01-02T07:00:00+01:00", "2026-01-03T01:00:00+01:00") == [3, 4]
    assert between("2026-01-01", "2026-01-02T06:00:00") == [1, 2]
    in_sqlite.run("{ column: at }", since=("yesterday",), code=4)
    assert "--since yesterday is no date or time, as `at` has them" in in_sqlite.error.message


def test_bounds_of_sqlite_are_in_the_zone_of_the_column(in_sqlite: IncrementalColumn) -> None:
    rows = "(1, '2026-01-02T06:59:00+01:00'), (2, '2026-01-02T07:00:00+01:00'), (3, '2026-01-02T08:00:00.5+01:00')"
    Shop(in_sqlite.folder).fill("CREATE TABLE t (id INTEGER, at TEXT)", f"INSERT INTO t VALUES {rows}")
    assert in_sqlite.run("{ column: at }", since=("2026-01-02T06:00:00Z",), until=("2026-01-02T07:00:00.5Z",)) == [2]


def test_texts_of_sqlite_grow_as_texts(in_sqlite: IncrementalColumn) -> None:
    shop = Shop(in_sqlite.folder)
    shop.fill("CREATE TABLE t (id INTEGER, at TEXT)", "INSERT INTO t VALUES (1, '2024-01-01 00:00'), (2, 'it''s')")
    query = 'query: "SELECT * FROM t"'
    assert in_sqlite.run("{ column: at }", query) == [1, 2]
    shop.fill("INSERT INTO t VALUES (3, 'it''s new')")
    assert in_sqlite.run("{ column: at }", query) == [3]
    assert in_sqlite.run("{ column: at }", f"{query}, partition_by: id, partitions: 2", since=("it",)) == [2, 3]


@pytest.mark.parametrize(
    ("table", "incremental", "said"),
    [
        ("id int, at timestamp", "{ column: at }", "rows have no value in `at`"),
        ("id int, at int DEFAULT 1", "{ column: other }", "`incremental.column: other` is no column"),
        ("id int, at json DEFAULT '1'", "{ column: at }", "it is of the type json"),
        ("id int, at int DEFAULT 1", "{ column: at, delay: 1h }", "needs a column of moments"),
        ("id int, at date DEFAULT 'infinity'", "{ column: at }", "the greatest value of `at` is infinity"),
        ("id int, at numeric DEFAULT 'NaN'", "{ column: at }", "the greatest value of `at` is NaN"),
    ],
)
def test_columns_that_cannot_grow_are_told_in_postgres(
    table: str, incremental: str, said: str, in_postgres: IncrementalColumn, postgres: Database
) -> None:
    postgres.run(f"CREATE TABLE t ({table});\nINSERT INTO t (id) VALUES (1)")
    in_postgres.run(incremental, code=4)
    assert in_postgres.error.code == "E913"
    assert said in in_postgres.error.message


@pytest.mark.parametrize(
    ("table", "incremental", "said"),
    [
        ("id, at", "{ column: at }", "rows have no value in `at`"),
        ("id, at DEFAULT 1", "{ column: other }", "`incremental.column: other` is no column"),
        ("id, at DEFAULT 1", "{ column: at, delay: 1h }", "SQLite has no such type: leave `delay` out"),
        ("id, at DEFAULT 9e999", "{ column: at }", "the greatest value of `at` is inf"),
        ("id, at DEFAULT x'00'", "{ column: at }", "has bytes or a text that cannot be shown"),
    ],
)
def test_columns_that_cannot_grow_are_told_in_sqlite(
    table: str, incremental: str, said: str, in_sqlite: IncrementalColumn
) -> None:
    Shop(in_sqlite.folder).fill(f"CREATE TABLE t ({table})", "INSERT INTO t (id) VALUES (1)")
    in_sqlite.run(incremental, code=4)
    assert in_sqlite.error.code == "E913"
    assert said in in_sqlite.error.message


@pytest.mark.parametrize("bound", ["x", "1.5.2", "NaN"])
def test_bounds_of_another_type_are_told(bound: str, in_postgres: IncrementalColumn, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int);\nINSERT INTO t VALUES (1)")
    in_postgres.run("{ column: id }", code=4, since=(bound,))
    assert f"--since {bound} is no number, as `id` has them" in in_postgres.error.message


def test_another_column_needs_a_new_bookmark(in_postgres: IncrementalColumn, postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int, n int);\nINSERT INTO t VALUES (1, 10)")
    in_postgres.run("{ column: id }")
    in_postgres.run("{ column: n }", code=4)
    assert "its bookmark is of `id`, and the source reads `n`" in in_postgres.error.message
    assert "clinker bookmark reset PIPELINE --source rows" in in_postgres.error.message

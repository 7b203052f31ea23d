"""Tables and statements of SQLite as sources of whole pipelines."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs import plan
from spark_jobs.cli import clinker
from spark_jobs.cxl import types
from spark_jobs.formats.database.options import DatabaseRead
from spark_jobs.formats.database.sqlite import reading as sqlite
from spark_jobs.formats.database.tables import Slice
from spark_jobs.plan.physical import inputs
from spark_jobs.scan.connections import Connection
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config: {{ type: database, options: {{ connection: shop, {options} }}, schema: {{ {schema} }} }}
  - type: output
    name: o
    input: rows
    config: {{ type: json, path: out/rows, options: {{ format: ndjson }}, preserve_nulls: true }}
"""


class Shop:
    """A folder with a pipeline that reads a database there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "shop.db"

    def fill(self, *statements: str, rows: list[Any] | None = None) -> None:
        with closing(sqlite3.connect(self.path)) as opened, opened:
            for statement in statements[:-1] if rows is not None else statements:
                opened.execute(statement)
            if rows is not None:
                opened.executemany(statements[-1], rows)

    def read(self, options: str, schema: str = "id: int", **chosen: Any) -> Any:
        pipelines.write(self.folder, {"pipeline.yaml": PIPELINE.format(options=options, schema=schema)})
        return pipelines.run(self.folder, force=True, **chosen)

    def records(self, options: str, schema: str = "id: int") -> list[dict[str, Any]]:
        outcome = self.read(options, schema)
        assert outcome.result.exit_code == 0, outcome.result.error
        return [json.loads(line) for line in (self.folder / "out/rows").read_text().splitlines()]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_CONNECTION_SHOP", "sqlite:///shop.db")
    return Shop(tmp_path)


def test_each_value_is_what_it_is(shop: Shop) -> None:
    shop.fill(
        "CREATE TABLE t (id, v, t TEXT, n)",
        "INSERT INTO t VALUES (?, ?, ?, ?)",
        rows=[(1, 9007199254740993, "tëxt", None), (2, 1.5, "", None), (3, "x", None, None)],
    )
    assert shop.records("table: t", "id: int, v: any") == [
        {"id": 1, "v": 9007199254740993, "t": "tëxt", "n": None},
        {"id": 2, "v": 1.5, "t": "", "n": None},
        {"id": 3, "v": "x", "t": None, "n": None},
    ]


@pytest.mark.parametrize("split_bytes", [1, 1000, 1 << 20])
def test_a_table_is_read_in_splits_in_the_order_of_its_rows(
    split_bytes: int, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.fill("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (?, ?)",
              rows=[(row * 7 - 100, f"v{row}") for row in range(500)])  # fmt: skip
    pipelines.cut_by(monkeypatch, max(split_bytes, shop.path.stat().st_size // 40))
    assert [record["id"] for record in shop.records("table: t")] == [row * 7 - 100 for row in range(500)]


def test_ranges_of_a_column_have_each_row_once(shop: Shop) -> None:
    rows: list[tuple[Any, ...]] = [(row, row % 10) for row in range(100)] + [(100, None), (101, "text"), (102, 9.5)]
    shop.fill("CREATE TABLE t (id INTEGER, k)", "INSERT INTO t VALUES (?, ?)", rows=rows)
    found = shop.records("table: t, partition_by: k, partitions: 4", "id: int, k: any")
    assert sorted(record["id"] for record in found) == [*range(103)]
    # The ranges come one after the other.
    assert [record["k"] for record in found if record["id"] < 100][-20:] == [8, 9] * 10


def test_statements_views_and_tables_without_row_ids_are_read(shop: Shop) -> None:
    shop.fill(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) WITHOUT ROWID",
        "INSERT INTO t VALUES (2, 'b'), (1, 'a')",
        "CREATE VIEW w AS SELECT id + 10 AS id, v FROM t",
    )
    assert shop.records("table: t") == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    assert shop.records("table: w") == [{"id": 11, "v": "a"}, {"id": 12, "v": "b"}]
    assert shop.records('query: "SELECT max(id) AS id FROM t;"') == [{"id": 2}]
    shop.fill("CREATE TABLE empty (id INTEGER)")
    assert shop.records("table: empty") == []


def test_what_does_not_convert_is_a_dead_letter_of_its_table_and_row(shop: Shop) -> None:
    shop.fill("CREATE TABLE t (id)", "INSERT INTO t VALUES (1), ('x'), (3)")
    assert shop.read("table: t").result.exit_code == 2
    header, letter = (shop.folder / "out/dlq.csv").read_text().splitlines()
    found = dict(zip(header.split(","), letter.split(","), strict=True))
    assert (found["_cxl_dlq_source_file"], found["_cxl_dlq_source_row"], found["id"]) == ("shop:t", "2", "x")


def test_a_table_is_the_build_side_of_a_combine(shop: Shop) -> None:
    shop.fill("CREATE TABLE names (code TEXT, name TEXT)", "INSERT INTO names VALUES ('a', 'Ada'), ('b', 'Bob')")
    text = """
    pipeline: { name: p }
    nodes:
      - { type: source, name: rows, config: { type: csv, path: in.csv, schema: { code: string } } }
      - type: source
        name: names
        config: { type: database, options: { connection: shop, table: names }, schema: { code: string, name: string } }
      - type: combine
        name: named
        input: { r: rows, n: names }
        config: { where: "r.code == n.code", cxl: "emit name = n.name\\nemit code = r.code" }
      - { type: output, name: o, input: named, config: { type: csv, path: out/rows } }
    """
    pipelines.write(shop.folder, {"pipeline.yaml": text, "in.csv": "code\nb\na\nb\n"})
    outcome = pipelines.run(shop.folder)
    assert outcome.result.exit_code == 0, outcome.result.error
    assert (shop.folder / "out/rows").read_text() == "name,code\nBob,b\nAda,a\nBob,b\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table: nowhere", "connection 'shop': no such table: nowhere"),
        ('query: "SELEC 1"', "syntax error"),
        ("table: t, partition_by: x, partitions: 2", "`partition_by: x` is no column of numbers"),
    ],
)
def test_what_the_database_refuses_is_told_in_its_words(options: str, said: str, shop: Shop) -> None:
    shop.fill("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)")
    error = shop.read(options).result.error
    assert error is not None
    assert error.code == "E911"
    assert said in error.message


def test_bytes_are_texts_where_they_are_declared_so(shop: Shop) -> None:
    shop.fill("CREATE TABLE t (id INTEGER, b BLOB)", "INSERT INTO t VALUES (1, x'41')")
    error = shop.read("table: t").result.error
    assert error is not None
    assert "column 'b' has bytes" in error.message
    assert shop.records("table: t", "id: int, b: string") == [{"id": 1, "b": "A"}]


def test_a_database_that_is_written_to_while_it_is_read_ends_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:

    shop.fill("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)")
    look = sqlite.look

    def look_and_write(*given: Any) -> Any:
        found = look(*given)
        shop.fill("INSERT INTO t VALUES (2)")
        return found

    monkeypatch.setattr(sqlite, "look", look_and_write)
    error = shop.read("table: t").result.error
    assert error is not None
    assert error.code == "E907"
    assert "was written to, while the run was reading it" in error.message


def test_a_connection_that_is_not_there_is_told_before_the_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLINKER_CONNECTION_SHOP")
    text = PIPELINE.format(options="table: t", schema="id: int")
    pipelines.write(
        shop.folder, {"pipeline.yaml": text, "clinker.toml": '[connections.other]\nuri = "sqlite:///x.db"\n'}
    )
    loaded = plan.load(shop.folder / "pipeline.yaml")
    found = [item.message for item in inputs.missing(loaded, inputs.discover(loaded))]
    assert "there is no connection 'shop': set CLINKER_CONNECTION_SHOP to its URI" in found[0]
    assert "clinker.toml, which has other" in found[0]
    shop.fill("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)")
    pipelines.write(shop.folder, {"clinker.toml": '[connections.shop]\nuri = "sqlite:///shop.db"\n'})
    assert shop.records("table: t") == [{"id": 1}]


def test_a_password_in_the_workspace_file_is_refused(shop: Shop) -> None:
    toml = '[connections.shop]\nuri = "postgresql://ada:s3cret@host/db"\n'
    pipelines.write(
        shop.folder, {"pipeline.yaml": PIPELINE.format(options="table: t", schema="id: int"), "clinker.toml": toml}
    )
    found = [str(item.message) for item in plan.validate(shop.folder / "pipeline.yaml")]
    assert "connections.shop.uri has a password" in found[0]
    assert "s3cret" not in "".join(found)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table: t, query: x", "exactly one of `table` and `query`"),
        ("partitions: 3, table: t", "go together"),
        ('table: t, connection: "postgresql://ada:s3cret@host/db"', "is no name"),
    ],
)
def test_options_that_make_no_sense_are_told(options: str, said: str, shop: Shop) -> None:
    text = PIPELINE.format(options=options, schema="id: int")
    if "connection:" in options:
        text = text.replace("connection: shop, ", "")
    pipelines.write(shop.folder, {"pipeline.yaml": text})
    found = [str(item.message) for item in plan.validate(shop.folder / "pipeline.yaml")]
    assert any(said in each for each in found), found
    assert "s3cret" not in "".join(found)


def test_cases_give_records_in_place_of_a_table(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The database is not asked: there is none."""
    text = PIPELINE.format(options="table: t", schema="id: int")
    cases = """
    pipeline: pipeline.yaml
    cases:
      - name: rows
        given: { rows: [{ id: 1 }, { id: "x" }] }
        expect: { o: [{ id: 1 }] }
        dead_letters: [{ row: 2, value: x }]
      - name: file
        given: { rows: { file: in.csv } }
        expect: { o: [] }
    """
    pipelines.write(shop.folder, {"pipeline.yaml": text, "pipeline.test.yaml": cases, "in.csv": "id\n"})
    assert clinker.main(["test", str(shop.folder / "pipeline.test.yaml")]) == 1
    shown = capsys.readouterr()
    assert "1 passed, 1 failed" in shown.out
    assert "source 'rows' reads a database, which has no file; give its records as `rows`" in shown.out + shown.err


def test_keys_of_files_are_refused(shop: Shop) -> None:
    text = PIPELINE.format(options="table: t", schema="id: int").replace("type: database,", "type: database, path: x,")
    pipelines.write(shop.folder, {"pipeline.yaml": text})
    found = [item.code.id for item in plan.validate(shop.folder / "pipeline.yaml")]
    assert "E219" in found


def test_rows_with_long_values_come_a_few_at_a_time(shop: Shop) -> None:
    """Texts, bytes, and bytes in a column that is declared as one of numbers."""
    shop.fill("CREATE TABLE t (a TEXT, b BLOB, c INT)", "INSERT INTO t VALUES (?, ?, ?)", rows=[
        *[("x" * 40_000, None, 1)] * 50, *[(None, b"x" * 40_000, 2)] * 50, *[(None, None, b"x" * 40_000)] * 50,
    ])  # fmt: skip
    (table,) = sqlite.look(Connection("shop", f"sqlite:///{shop.path}"), DatabaseRead("shop", table="t")).tables
    rows = Slice(table.connection, table.part, 0, table.part.size, is_last=True, most_bytes=400_000)
    read = sqlite.batches(rows, [column for column in table.columns if column.name != "c"])
    assert [count for count, _ in read] == [10] * 10 + [50]
    read = sqlite.batches(replace(rows, most_bytes=4_000_000), [table.columns[0]])
    assert [count for count, _ in read] == [150]


def test_a_row_that_no_task_could_hold_ends_the_run(shop: Shop) -> None:
    for value in ("x" * 6_000_000, b"x" * 6_000_000):
        shop.fill("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT, v)", "INSERT INTO t VALUES (1, ?)", rows=[[value]])
        outcome = shop.read("table: t", "id: int, v: string", threads=1, memory_limit_bytes=8 << 20)
        assert outcome.result.error.code == "E310", outcome.result.error
        assert "memory.limit" in outcome.result.error.message
        assert shop.read("table: t", "id: int, v: string", threads=1).result.exit_code == 0


def test_bytes_after_many_numbers_come_a_few_at_a_time(shop: Shop) -> None:
    values = [(at,) for at in range(500)] + [(b"x" * 40_000,)] * 100
    shop.fill("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (?)", rows=values)
    (table,) = sqlite.look(Connection("shop", f"sqlite:///{shop.path}"), DatabaseRead("shop", table="t")).tables
    rows = Slice(table.connection, table.part, 0, table.part.size, is_last=True, most_bytes=100_000)
    cells, sizes = sqlite._Cells(1), []
    with sqlite._opened(rows.connection, rows.part) as opened:
        cursor = opened.execute("SELECT a FROM t ORDER BY rowid")
        while found := cells.fetched(cursor, 50, rows.most_bytes):
            sizes.append(sum(len(value) for (value,) in found if isinstance(value, bytes)))
            cells.note([(pa.array([1]), types.INT)])  # as if it had numbers alone, each time
    assert len(sizes) > 12
    assert max(sizes) <= 20 * 40_000


def test_a_text_that_is_none_is_named_with_its_column(shop: Shop) -> None:
    shop.fill('CREATE TABLE t (id INT, "odd \'name" TEXT)', "INSERT INTO t VALUES (1, CAST(x'ff41' AS TEXT))")
    error = shop.read("table: t", 'id: int, "odd \'name": string').result.error
    assert error.code == "E911"
    assert "column 'odd 'name' has a text that is not UTF-8" in error.message

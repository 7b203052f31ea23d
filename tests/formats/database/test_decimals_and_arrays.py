"""Decimals into tables, and back, with all their digits; arrays as arrays, or as texts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.database.options import DatabaseWrite
from tests.execute import pipelines
from tests.formats.database.test_table_outputs import FILES
from tests.formats.database.test_unique_indexes import anywhere, maria_warehouse, postgres_warehouse, sqlite_warehouse

__all__ = ["anywhere", "maria_warehouse", "postgres_warehouse", "sqlite_warehouse"]

LARGE = "123456789012345678901234567890.1234567"


def numbers(warehouse: Any, column: str) -> list[Decimal | None]:
    found = warehouse.database.run(f"SELECT CAST({column} AS char(60)) FROM t ORDER BY id")
    return [None if text is None else Decimal(str(text if isinstance(text, str) else text.decode()).strip())
            for (text,) in found]  # fmt: skip


@pytest.mark.parametrize("uri", ["postgres", "maria"])
def test_decimals_keep_all_digits_or_are_dead_letters(uri: str, request: pytest.FixtureRequest) -> None:
    warehouse = request.getfixturevalue(f"{uri}_warehouse")
    warehouse.database.run("CREATE TABLE t (id int, v numeric(38,7), small numeric(5,2))")
    rows = [
        {"id": 1, "v": LARGE, "small": "1.5"}, {"id": 2, "v": f"-{LARGE}", "small": "-999.990"},
        {"id": 3, "v": "0.0000001", "small": "1.001"}, {"id": 4, "v": "0.0000001", "small": "1000"},
        {"id": 5, "v": "1e-7"}, {"id": 6, "small": "0"},
    ]  # fmt: skip
    warehouse.write(rows, "id: int, v: 'decimal(37,7)', small: 'decimal(12,3)'", code=2, files=FILES)
    assert numbers(warehouse, "v") == [Decimal(LARGE), Decimal(f"-{LARGE}"), Decimal("1e-7"), None]
    assert numbers(warehouse, "small") == [Decimal("1.5"), Decimal("-999.99"), None, Decimal(0)]
    first, second = warehouse.letters
    assert "1.001 has more than 2 digits after the point" in first
    assert "1000.000 has more than 3 digits before the point" in second


def test_other_columns_take_no_decimals(anywhere: Any) -> None:
    anywhere.database.run("CREATE TABLE t (id int, v date)")
    anywhere.write([{"id": 1, "v": "1.5"}], "id: int, v: 'decimal(12,3)'", code=4)
    assert "and the records have decimal128(12, 3)" in anywhere.error.message


def test_equal_decimals_are_one_value_of_an_index(anywhere: Any) -> None:
    anywhere.database.run("CREATE TABLE t (id int, v numeric(12,3) UNIQUE)")
    rows = [{"id": 1, "v": "1.5"}, {"id": 2, "v": "1.500"}, {"id": 3, "v": "1.501"}]
    anywhere.write(rows, "id: int, v: 'decimal(12,3)'", code=2)
    assert [row[0] for row in anywhere.database.run("SELECT id FROM t ORDER BY id")] == [1, 3]
    anywhere.write([{"id": 4, "v": "1.501"}, {"id": 5, "v": "-1.501"}], "id: int, v: 'decimal(12,3)'", code=2)
    assert "has a row with this value already" in anywhere.letters[0]


def test_sqlite_keeps_the_digits_that_a_number_has_and_texts_keep_all(sqlite_warehouse: Any) -> None:
    sqlite_warehouse.database.run("CREATE TABLE t (id INT, n DECIMAL(40,7), s TEXT, b)")
    rows = [{"id": 1, "n": "12.50", "s": LARGE, "b": "0.0000001"}, {"id": 2, "n": LARGE}]
    sqlite_warehouse.write(rows, "id: int, n: 'decimal(38,7)', s: 'decimal(38,7)', b: 'decimal(38,7)'", code=2)
    found = sqlite_warehouse.database.run("SELECT id, n, typeof(n), s, b FROM t")
    assert found == [(1, 12.5, "real", LARGE, "0.0000001")]
    assert "has more digits than a column of DECIMAL(40,7) keeps" in sqlite_warehouse.letters[0]


def test_a_scale_of_each_value_is_refused_before_the_run(anywhere: Any) -> None:
    options = DatabaseWrite("warehouse", "t")
    assert "Decimals have one scale in such a column" in str(options.type_problem(types.decimal_of(None, None)))
    assert options.type_problem(types.decimal_of(12, 2)) is None


SOURCE = """
pipeline: { name: p }
nodes:
  - type: source
    name: rows
    config:
      type: database
      options: { connection: warehouse, table: t }
      schema: { id: int, v: "decimal(38,7)" }
  - type: output
    name: f
    input: rows
    config: { type: json, path: out/rows.ndjson, options: { format: ndjson } }
"""


def test_declared_decimals_are_read_with_all_digits(anywhere: Any) -> None:
    kind = "TEXT" if "sqlite" in anywhere.database.uri else "numeric(38,7)"
    anywhere.database.run(f"CREATE TABLE t (id int, v {kind});\nINSERT INTO t VALUES (1, '{LARGE}'), (2, NULL)")
    pipelines.write(anywhere.folder, {"pipeline.yaml": SOURCE})
    outcome = pipelines.run(anywhere.folder, force=True)
    assert outcome.result.exit_code == 0, outcome.result.error
    assert (anywhere.folder / "out/rows.ndjson").read_text().splitlines()[0] == f'{{"id":1,"v":{LARGE}}}'


SPLIT = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config: {{ type: csv, path: in.csv, schema: {{ id: int, s: string }} }}
  - {{ type: transform, name: parts, input: rows, config: {{ cxl: 'emit v = s.split("|")' }} }}
  - type: output
    name: t
    input: parts
    config:
      type: database
      options: {{ connection: warehouse, table: {table}, mode: replace }}
      columns: [id, v]
"""


@pytest.mark.parametrize("kind", ["varchar(9)", "json", "text"])
def test_arrays_are_texts_of_json_where_there_are_no_arrays(kind: str, anywhere: Any) -> None:
    is_postgres = "postgresql" in anywhere.database.uri
    anywhere.database.run(f"CREATE TABLE t (id int, v {'text[]' if is_postgres else kind})")
    data = {"in.csv": 'id,s\n1,a|b\n2,"c""|d"\n', "pipeline.yaml": SPLIT.format(table="t")}
    pipelines.write(anywhere.folder, data)
    outcome = pipelines.run(anywhere.folder, force=True)
    is_cut = kind == "varchar(9)" and "mysql" in anywhere.database.uri
    assert outcome.result.exit_code == (2 if is_cut else 0), outcome.result.error
    kept = [text for (text,) in anywhere.database.run("SELECT v FROM t ORDER BY id")]
    if is_postgres:
        assert kept == [["a", "b"], ['c"', "d"]]
        return
    texts = [each.decode() if isinstance(each, bytes) else each for each in kept]
    assert texts == ['["a","b"]', '["c\\"","d"]'][: 1 if is_cut else 2]
    assert not is_cut or "the text has 11 characters, and 9 is the most" in anywhere.letters[0]

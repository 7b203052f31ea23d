"""Decimals and arrays of them in files that keep types: written, read again, and passed over by their statistics."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import orc
from pyarrow import parquet as pq

from spark_jobs.formats.parquet import read as parquet_read
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {g: string, amount: "nullable(decimal(12,2))"}}}
"""
ARRAYS = (
    SOURCE
    + """
  - type: aggregate
    name: a
    input: s
    config: {group_by: [g], cxl: "emit xs = collect(amount)\\nemit ys = collect(amount).map(it => it * 0.125d)"}
  - {type: output, name: o, input: a, config: {type: FORMAT, path: out/o, MORE}}
"""
)


def _rows(seed: int) -> list[tuple[str, Decimal | None]]:
    draw = random.Random(seed)
    return [
        (draw.choice("abcd"), None if draw.random() < 0.2 else Decimal(draw.randrange(-(10**12), 10**12)).scaleb(-2))
        for _ in range(60)
    ]


def _csv(rows: list[tuple[str, Decimal | None]]) -> str:
    return "g,amount\n" + "".join(f"{g},{'' if amount is None else amount}\n" for g, amount in rows)


def _read(form: str, path: Path) -> list[dict[str, Any]]:
    match form:
        case "parquet":
            return pq.read_table(path).to_pylist()
        case "orc":
            return orc.read_table(path).to_pylist()
        case "avro":
            with path.open("rb") as file:
                return list(fastavro.reader(file))  # type: ignore[arg-type]
        case _:
            return DeltaTable(path).to_pyarrow_table().to_pylist()


@pytest.mark.parametrize("size", [10**9, 300])
@pytest.mark.parametrize("more", ["", "sort_order: [g]"])
@pytest.mark.parametrize("form", ["parquet", "orc", "avro", "delta"])
def test_arrays_of_decimals_keep_all_digits(
    form: str, more: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, size)
    rows = _rows(size)
    text = ARRAYS.replace("FORMAT", form).replace(", MORE", f", {more}" if more else "")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": _csv(rows)})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    found = {row["g"]: row for row in _read(form, tmp_path / "out/o")}
    assert set(found) == {g for g, _ in rows}
    for g, row in found.items():
        mine = [amount for other, amount in rows if other == g]
        assert row["xs"] == mine
        assert row["ys"] == [None if amount is None else amount * Decimal("0.125") for amount in mine]


def test_delta_tables_know_the_bounds_of_decimals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    large = Decimal("12345678901234567890123456.78")
    text = (
        SOURCE.replace("12,2", "28,2") + "  - {type: output, name: o, input: s, config: {type: delta, path: out/o}}\n"
    )
    rows: list[tuple[str, Decimal | None]] = [("a", large), ("b", None), ("c", Decimal("-0.50"))]
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": _csv(rows)})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    (log,) = (tmp_path / "out/o/_delta_log").glob("0*.json")
    (added,) = (json.loads(line)["add"] for line in log.read_text().splitlines() if line.startswith('{"add"'))
    stats = json.loads(added["stats"], parse_float=Decimal)
    assert (stats["minValues"]["amount"], stats["maxValues"]["amount"]) == (Decimal("-0.50"), large)
    (known,) = pa.table(DeltaTable(tmp_path / "out/o").get_add_actions()).to_pylist()
    assert known["null_count"]["amount"] == 1


READ = """
pipeline: {name: r}
nodes:
  - {type: source, name: s, config: {type: delta, path: table, schema: {g: string, amount: "decimal(12,2)"}}}
  - {type: transform, name: t, input: s, config: {cxl: 'FILTER'}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv, if_exists: overwrite}}
"""


@pytest.mark.parametrize(
    ("program", "rows", "opened"),
    [
        ("filter amount == 20.50d", ["c,20.50"], 1),
        ("filter amount > 15", ["c,20.50", "d,30.50"], 2),
        ("filter amount < 0.3", ["a,-10.25"], 1),
        ("filter amount > 30.501d", [], 0),
    ],
)
def test_files_of_a_table_are_not_opened(
    program: str, rows: list[str], opened: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    text = SOURCE + "  - {type: output, name: o, input: s, config: {type: delta, path: table}}\n"
    for g, amount in (("a", "-10.25"), ("b", "10.50"), ("c", "20.50"), ("d", "30.50")):
        pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": _csv([(g, Decimal(amount))])})
        result = pipelines.run(tmp_path).result
        assert result.error is None, result.error
    real, names = parquet_read.OpenFile.__init__, set()

    def noted(self: Any, file: Any, *rest: Any) -> None:
        names.add(file.name)
        real(self, file, *rest)

    monkeypatch.setattr(parquet_read.OpenFile, "__init__", noted)
    pipelines.write(tmp_path, {"pipeline.yaml": READ.replace("FILTER", program)})
    result = pipelines.run(tmp_path).result
    assert result.error is None, result.error
    assert sorted((tmp_path / "out/o.csv").read_text().splitlines()[1:]) == rows
    assert len(names) == opened


def test_iceberg_tables_know_the_bounds_of_decimals() -> None:
    from spark_jobs.formats.iceberg import snapshots, write

    kind = pa.decimal128(38, 2)
    for text in ("0.00", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "9" * 36 + ".99", "-" + "9" * 36 + ".99"):
        found = write._bound(Decimal(text), kind, is_low=True)
        assert found is not None
        assert snapshots._value(found, kind) == int(text.replace(".", ""))
    assert write._bound(Decimal("1.27"), kind, is_low=True) == b"\x7f"
    assert write._bound(Decimal("1.28"), kind, is_low=True) == b"\x00\x80"

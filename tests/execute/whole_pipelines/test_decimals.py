"""Decimals from files to files: columns, keys, order, aggregates, windows, whatever the splits are."""

from __future__ import annotations

import csv
import io
import json
import random
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

_MODEL = Context(prec=200, rounding=ROUND_HALF_UP)
SIZES = pytest.mark.parametrize("size", [10**9, 1500, 300])
PIPELINE = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config:
      type: TYPE
      path: in.data
      options: OPTIONS
      schema: {g: string, amount: "decimal(20,2)", rate: "nullable(decimal(9,4))", n: int}
"""
CSV = PIPELINE.replace("TYPE", "csv").replace("OPTIONS", "{}")
NDJSON = PIPELINE.replace("TYPE", "json").replace("OPTIONS", "{format: ndjson}")


def _rows(seed: int, count: int = 200) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "g": draw.choice("abcde"),
            "amount": Decimal(draw.choice((draw.randrange(-500, 500), draw.randrange(-(10**19), 10**19)))).scaleb(-2),
            "rate": None if draw.random() < 0.1 else Decimal(draw.randrange(0, 10**5)).scaleb(-4),
            "n": draw.randrange(1, 9),
        }
        for _ in range(count)
    ]


def _csv(rows: list[dict[str, Any]]) -> str:
    cells = (",".join("" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)
                      for value in row.values()) for row in rows)  # fmt: skip
    return "g,amount,rate,n\n" + "".join(line + "\n" for line in cells)


def _ndjson(rows: list[dict[str, Any]]) -> str:
    def text(value: Any) -> str:
        return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)

    return "".join("{" + ",".join(f'"{k}":{text(v)}' for k, v in row.items()) + "}\n" for row in rows)


def _ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, files: dict[str, str]) -> dict[str, bytes]:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, size)
    pipelines.write(tmp_path, files)
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    return pipelines.outputs(tmp_path)


def _read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode())))


def _mean(numbers: list[Decimal]) -> str:
    mean = _MODEL.divide(_added(numbers), Decimal(len(numbers))).quantize(Decimal("0.000001"), context=_MODEL)
    return f"{abs(mean) if mean == 0 else mean:f}"


def _added(numbers: list[Decimal]) -> Decimal:
    total = Decimal(0)
    for number in numbers:
        total = _MODEL.add(total, number)
    return total


@SIZES
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_every_row_is_written_with_all_its_digits(
    form: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(1)
    tail = """
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        emit g = g
        emit amount = amount
        emit rate = rate
        emit due = (amount * (rate ?? 0)).round(2)
        emit share = amount / n
        emit text = amount.to_string()
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
  - {type: output, name: j, input: t, config: {type: json, path: out/o.ndjson, options: {format: ndjson}}}
  - {type: output, name: q, input: t, config: {type: parquet, path: out/o.parquet}}
  - {type: output, name: z, input: t, config: {type: parquet, path: out/z.parquet, sort_order: [amount]}}
"""
    text, head = (_csv(rows), CSV) if form == "csv" else (_ndjson(rows), NDJSON)
    out = _ran(tmp_path, monkeypatch, size, {"pipeline.yaml": head + tail, "in.data": text})
    found = _read(out["o.csv"])
    lines = [json.loads(line, parse_float=Decimal) for line in out["o.ndjson"].splitlines()]
    table = pq.read_table(tmp_path / "out/o.parquet")
    assert {one.name: str(one.type) for one in table.schema} == {
        "g": "string", "amount": "decimal128(20, 2)", "rate": "decimal128(9, 4)", "due": "decimal128(38, 2)",
        "share": "decimal128(38, 6)", "text": "string", "n": "int64",
    }  # fmt: skip
    for row, cells, line, stored in zip(rows, found, lines, table.to_pylist(), strict=True):
        due = _MODEL.multiply(row["amount"], row["rate"] or Decimal(0)).quantize(Decimal("0.01"), context=_MODEL)
        share = _MODEL.divide(row["amount"], Decimal(row["n"])).quantize(Decimal("0.000001"), context=_MODEL)
        wanted = {"amount": row["amount"], "rate": row["rate"], "due": abs(due) if due == 0 else due,
                  "share": abs(share) if share == 0 else share}  # fmt: skip
        texts = {name: "" if value is None else f"{value:f}" for name, value in wanted.items()}
        assert {name: cells[name] for name in texts} == texts
        assert cells["text"] == texts["amount"]
        assert {name: stored[name] for name in wanted} == wanted
        assert {name: line.get(name) for name in wanted} == wanted
        assert f'"amount":{texts["amount"]},'.encode() in out["o.ndjson"]
    assert pq.read_table(tmp_path / "out/z.parquet")["amount"].to_pylist() == sorted(row["amount"] for row in rows)


@SIZES
def test_aggregates_are_exact(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(2)
    tail = """
  - type: aggregate
    name: a
    input: s
    config:
      group_by: [g]
      cxl: |
        emit total = sum(amount)
        emit mean = avg(amount)
        emit low = min(amount)
        emit high = max(amount)
        emit first_one = first(amount)
        emit last_one = last(amount)
        emit some = any(rate)
        emit weighed = weighted_avg(amount, n)
        emit number = count(rate)
        emit products = sum(amount * n)
  - {type: output, name: o, input: a, config: {type: csv, path: out/o.csv, sort_order: [g]}}
"""
    out = _ran(tmp_path, monkeypatch, size, {"pipeline.yaml": CSV + tail, "in.data": _csv(rows)})
    for cells in _read(out["o.csv"]):
        mine = [row for row in rows if row["g"] == cells["g"]]
        amounts = [row["amount"] for row in mine]
        products = [_MODEL.multiply(row["amount"], Decimal(row["n"])) for row in mine]
        weights = Decimal(sum(row["n"] for row in mine))
        weighed = _MODEL.divide(_added(products), weights).quantize(Decimal("0.000001"), context=_MODEL)
        assert cells == {
            "g": cells["g"],
            "total": f"{_added(amounts):f}",
            "mean": _mean(amounts),
            "low": f"{min(amounts):f}",
            "high": f"{max(amounts):f}",
            "first_one": f"{amounts[0]:f}",
            "last_one": f"{amounts[-1]:f}",
            "some": f"{next(row['rate'] for row in mine if row['rate'] is not None):f}",
            "weighed": f"{weighed:f}",
            "number": str(sum(row["rate"] is not None for row in mine)),
            "products": f"{_added(products):f}",
        }


@SIZES
def test_windows_are_exact(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(3)
    tail = """
  - type: transform
    name: w
    input: s
    config:
      analytic_window: {group_by: [g], sort_by: [amount]}
      cxl: |
        emit amount = amount
        emit total = $window.sum(amount)
        emit mean = $window.avg(amount)
        emit low = $window.min(amount)
        emit high = $window.max(amount)
        emit before = $window.lag(amount)
        emit place = $window.row_number()
  - {type: output, name: o, input: w, config: {type: csv, path: out/o.csv}}
"""
    out = _ran(tmp_path, monkeypatch, size, {"pipeline.yaml": CSV + tail, "in.data": _csv(rows)})
    found = _read(out["o.csv"])
    for group in "abcde":
        # Sorting is stable.
        order = sorted((i for i, row in enumerate(rows) if row["g"] == group), key=lambda i: rows[i]["amount"])
        amounts = [rows[i]["amount"] for i in order]
        for place, number in enumerate(order):
            upto = amounts[: place + 1]
            cells = found[number]
            assert cells["total"] == f"{_added(upto):f}"
            assert cells["mean"] == _mean(upto)
            assert (cells["low"], cells["high"]) == (f"{upto[0]:f}", f"{upto[-1]:f}")
            assert cells["before"] == (f"{upto[-2]:f}" if place else "")
            assert cells["place"] == str(place + 1)


@SIZES
def test_equal_decimals_are_one_key(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "g,amount,rate,n\n" + "".join(
        f"{g},{a},,1\n" for g, a in [("a", "1.50"), ("b", "1.5"), ("c", "1"), ("d", "2.25")] * 30
    )
    tail = """
  - type: transform
    name: k
    input: s
    config: {cxl: "emit k = amount.round(g.length() + (if g == 'a' then 1 else 2))\\nemit g = g"}
  - {type: aggregate, name: a, input: k, config: {group_by: [k], cxl: "emit number = count(*)"}}
  - {type: output, name: o, input: a, config: {type: csv, path: out/o.csv}}
  - {type: transform, name: d, input: k, config: {cxl: "distinct by k\\nemit k = k"}}
  - {type: output, name: p, input: d, config: {type: csv, path: out/p.csv}}
  - {type: source, name: f, config: {type: csv, path: f.csv, schema: {x: float, i: int, w: string}}}
  - type: combine
    name: c
    input: {left: k, right: f}
    config:
      {where: "left.k == right.x", match: all, on_miss: skip, cxl: "emit g = left.g\\nemit w = right.w",
       propagate_ck: driver}
  - {type: output, name: q, input: c, config: {type: csv, path: out/q.csv}}
  - type: combine
    name: e
    input: {left: k, right: f}
    config:
      {where: "left.k == right.i", match: all, on_miss: skip, cxl: "emit g = left.g\\nemit w = right.w",
       propagate_ck: driver}
  - {type: output, name: r, input: e, config: {type: csv, path: out/r.csv}}
"""
    files = {"pipeline.yaml": CSV + tail, "in.data": text, "f.csv": "x,i,w\n1.5,1,half\n2.25,7,more\n"}
    out = _ran(tmp_path, monkeypatch, size, files)
    assert _read(out["o.csv"]) == [
        {"k": "1.50", "number": "60"}, {"k": "1.000", "number": "30"}, {"k": "2.250", "number": "30"}
    ]  # fmt: skip
    assert [row["k"] for row in _read(out["p.csv"])] == ["1.50", "1.000", "2.250"]
    assert [tuple(row.values()) for row in _read(out["q.csv"])] == [("a", "half"), ("b", "half"), ("d", "more")] * 30
    assert [tuple(row.values()) for row in _read(out["r.csv"])] == [("c", "half")] * 30


@SIZES
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_what_does_not_fit_its_column_is_a_dead_letter(
    form: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = ["1", "1.5", "-0.00", "1.500", "1e3", "+7.25", "007", "999999999999999999.99"]
    bad = ["1.505", "x", "1e18", "nan", "1,5", "9999999999999999999"]
    numbers = [*good, *bad] * 5
    if form == "csv":
        head = CSV
        text = "g,amount,rate,n\n" + "".join(f'a,"{number}",,1\n' for number in numbers)
    else:
        head = NDJSON
        text = "".join(f'{{"g":"a","amount":"{number}","n":1}}\n' for number in numbers)
    tail = """
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
error_handling: {strategy: continue, dlq: {path: dlq.csv}}
"""
    out = _ran(tmp_path, monkeypatch, size, {"pipeline.yaml": head + tail, "in.data": text})
    assert [row["amount"] for row in _read(out["o.csv"])] == [
        "1.00", "1.50", "0.00", "1.50", "1000.00", "7.25", "7.00", "999999999999999999.99"
    ] * 5  # fmt: skip
    letters = _read((tmp_path / "dlq.csv").read_bytes())
    assert [row["_cxl_dlq_triggering_value"] for row in letters] == bad * 5
    assert all("to Decimal(20,2)" in row["_cxl_dlq_error_detail"] for row in letters)


@SIZES
def test_decimals_match_the_floats_of_dynamic_columns(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = """
  - type: source
    name: f
    config: {type: json, path: f.ndjson, options: {format: ndjson}, schema: {k: any, w: string}}
  - type: combine
    name: c
    input: {left: s, right: f}
    config:
      {where: "left.amount == right.k", match: all, on_miss: skip, cxl: "emit g = left.g\\nemit w = right.w",
       propagate_ck: driver}
  - {type: output, name: o, input: c, config: {type: csv, path: out/o.csv}}
"""
    rows = "a,0.1,,1\nb,19.99,,1\nc,2,,1\nd,0.10,,1\n"
    others = '{"k":0.1,"w":"tenth"}\n{"k":19.99,"w":"price"}\n{"k":2,"w":"two"}\n{"k":"0.10","w":"text"}\n'
    files = {"pipeline.yaml": CSV + tail, "in.data": "g,amount,rate,n\n" + rows, "f.ndjson": others}
    found = _read(_ran(tmp_path, monkeypatch, size, files)["o.csv"])
    assert [tuple(row.values()) for row in found] == [("a", "tenth"), ("b", "price"), ("c", "two"), ("d", "tenth")]


def test_a_failing_record_is_shown_with_plain_decimals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    tail = """
  - {type: transform, name: t, input: s, config: {cxl: "emit q = amount / (n - 1)"}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
    pipelines.write(tmp_path, {"pipeline.yaml": CSV + tail, "in.data": "g,amount,rate,n\na,12.5,0.1,1\n"})
    assert "{g: a, amount: 12.50, rate: 0.1000, n: 1}" in str(pipelines.run(tmp_path).result.error)


def test_whole_decimals_are_ints_where_an_output_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = """
  - type: output
    name: o
    input: s
    config: {type: csv, path: out/o.csv, schema: {fields: [{name: amount, type: integer}]}}
error_handling: {strategy: continue, dlq: {path: dlq.csv}}
"""
    rows = "".join(f"a,{number},,1\n" for number in ("100", "-7.00", "0.50", "12345678901.00"))
    out = _ran(tmp_path, monkeypatch, 10**9, {"pipeline.yaml": CSV + tail, "in.data": "g,amount,rate,n\n" + rows})
    assert [row["amount"] for row in _read(out["o.csv"])] == ["100", "-7", "12345678901"]
    (letter,) = _read((tmp_path / "dlq.csv").read_bytes())
    assert "cannot convert '0.50' to Int" in letter["_cxl_dlq_error_detail"]


def test_decimals_of_no_known_scale_are_refused_where_a_file_has_one(tmp_path: Path) -> None:
    from tests.plan.pipelines import problems

    tail = """
  - {type: transform, name: t, input: s, config: {cxl: "emit a = g.to_decimal()"}}
  - {type: output, name: o, input: t, config: {type: parquet, path: out/o.parquet}}
"""
    (found,) = problems(tmp_path, CSV + tail)
    assert ".to_decimal(2)" in f"{found.message} {found.help}"


def test_columns_of_files_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet, ORC and XML files of an earlier run, and a column with a decimal comma."""
    rows = _rows(5, 60)
    tail = """
  - {type: output, name: q, input: s, config: {type: parquet, path: out/q}}
  - {type: output, name: r, input: s, config: {type: orc, path: out/r}}
  - {type: output, name: x, input: s, config: {type: xml, path: out/x}}
"""
    first = _ran(tmp_path / "one", monkeypatch, 10**9, {"pipeline.yaml": CSV + tail, "in.data": _csv(rows)})
    wanted = [f"{row['amount']:f}" for row in rows]
    for name, kind in (("q", "parquet"), ("r", "orc"), ("x", "xml")):
        options = "{record_path: Root/Record}" if kind == "xml" else "{}"
        head = PIPELINE.replace("TYPE", kind).replace("OPTIONS", options)
        end = "  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}\n"
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "in.data").write_bytes(first[name])
        out = _ran(folder, monkeypatch, 10**9, {"pipeline.yaml": head + end})
        assert [row["amount"] for row in _read(out["o.csv"])] == wanted, kind
    comma = CSV.replace('amount: "decimal(20,2)"', "amount: {type: 'decimal(20,2)', decimal_separator: ','}")
    end = "  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}\n"
    text = 'g,amount,rate,n\na,"1,5",,1\na,"-0,25",,1\n'
    out = _ran(tmp_path / "comma", monkeypatch, 10**9, {"pipeline.yaml": comma + end, "in.data": text})
    assert [row["amount"] for row in _read(out["o.csv"])] == ["1.50", "-0.25"]


def test_an_output_rounds_decimals_where_its_schema_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(6, 60)
    tail = """
  - type: output
    name: o
    input: s
    config:
      type: csv
      path: out/o.csv
      schema: {fields: [{name: amount, type: decimal, scale: 1}, {name: rate, type: decimal, precision: 5, scale: 4}]}
error_handling: {strategy: continue, dlq: {path: dlq.csv}}
"""
    out = _ran(tmp_path, monkeypatch, 10**9, {"pipeline.yaml": CSV + tail, "in.data": _csv(rows)})
    amounts = [row["amount"].quantize(Decimal("0.1"), context=_MODEL) for row in rows]
    assert [row["amount"] for row in _read(out["o.csv"])] == [f"{abs(a) if a == 0 else a:f}" for a in amounts]
    assert [row["rate"] for row in _read(out["o.csv"])] == [
        "" if row["rate"] is None else f"{row['rate']:f}" for row in rows
    ]


def test_decimal_alone_is_exact_where_the_workspace_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns have each the scale that was read, fields of a format schema their own."""
    pipeline = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.data, schema: {a: decimal}}}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
  - type: source
    name: f
    config:
      type: fixed_width
      path: in.txt
      format_schema: {fields: [{name: b, type: decimal, scale: 2, start: 0, width: 20}]}
  - {type: transform, name: t, input: f, config: {cxl: "emit c = b * 2"}}
  - {type: output, name: p, input: t, config: {type: parquet, path: out/p.parquet}}
"""
    files = {
        "clinker.toml": '[behavior]\ndecimal = "exact"\n',
        "pipeline.yaml": pipeline,
        "in.data": "a\n1.50\n2\n0.000000000000000000001\n",
        "in.txt": "00012345678901234567\n00000000000000000050\n",
    }
    out = _ran(tmp_path, monkeypatch, 10**9, files)
    assert out["o.csv"] == files["in.data"].encode()
    table = pq.read_table(tmp_path / "out/p.parquet")
    assert table["b"].to_pylist() == [Decimal("123456789012345.67"), Decimal("0.50")]
    assert table["c"].to_pylist() == [Decimal("246913578024691.34"), Decimal("1.00")]

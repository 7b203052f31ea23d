"""Variables that are Decimals: state nodes, defaults and overrides against Python's `decimal`, whatever the splits."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.execute import pipelines, without_spark
from tests.plan.pipelines import problems

if TYPE_CHECKING:
    from collections.abc import Callable

_MODEL = Context(prec=200, rounding=ROUND_HALF_UP)
_CENT = Decimal("0.01")


class Dead(Exception):
    """The record fails."""


@dataclass(frozen=True)
class Record:
    file: int
    id: int
    amount: Decimal | None
    rate: Decimal
    n: int


def _cents(number: Decimal) -> Decimal:
    found = number.quantize(_CENT, context=_MODEL)
    return found if found else abs(found)


def _plus(left: Decimal | None, right: Decimal | int | None) -> Decimal | None:
    return None if left is None or right is None else _MODEL.add(left, Decimal(right))


def _larger(own: Decimal | None, amount: Decimal | None) -> Decimal | None:
    if own is None or (amount is not None and amount > own):
        return amount
    return own


def _with_interest(own: Decimal | None, record: Record) -> Decimal | None:
    if own is None or record.amount is None:
        return None
    return _cents(_MODEL.add(own, _MODEL.multiply(record.amount, record.rate)))


def _quotient(record: Record) -> Decimal | None:
    if record.amount is not None and record.n == 0:
        raise Dead
    return None if record.amount is None else _cents(_MODEL.divide(record.amount, Decimal(record.n)))


#: What sets a variable for each record: a program, and its value by the variable's value before and the record.
RUNNING: dict[str, Callable[[Decimal | None, Record], Decimal | int | None]] = {
    "amount": lambda own, r: r.amount,
    "OWN + amount": lambda own, r: _plus(own, r.amount),
    "(OWN ?? 0) + amount": lambda own, r: _plus(own if own is not None else Decimal(0), r.amount),
    "(amount ?? 0.5d) + (OWN ?? 10.25d)": lambda own, r: _plus(
        own if own is not None else Decimal("10.25"), r.amount if r.amount is not None else Decimal("0.5")
    ),
    "(OWN ?? 0) + n": lambda own, r: _plus(own if own is not None else Decimal(0), r.n),
    "if n > 4 then OWN + amount else OWN": lambda own, r: _plus(own, r.amount) if r.n > 4 else own,
    "if n == 3 then amount else OWN": lambda own, r: r.amount if r.n == 3 else own,
    "amount ?? OWN": lambda own, r: own if r.amount is None else r.amount,
    "if OWN.is_null() or amount > OWN then amount else OWN": lambda own, r: _larger(own, r.amount),
    "(OWN + amount * rate).round(2)": _with_interest,
    "(amount / n).round(2)": lambda own, r: _quotient(r),
    "n": lambda own, r: r.n,
    "(amount * 1000).round(2)": lambda own, r: None if r.amount is None else _cents(r.amount * 1000),
}
#: What sets it when all records were seen.
TOTALS: dict[str, Callable[[list[Record], list[Decimal]], Decimal | None]] = {
    "sum(amount)": lambda records, known: sum(known, Decimal("0.00")) if known else None,
    "avg(amount).round(2)": lambda records, known: (
        _cents(_MODEL.divide(sum(known, Decimal(0)), Decimal(len(known)))) if known else None
    ),
    "max(amount)": lambda records, known: max(known, default=None),
    "last(amount)": lambda records, known: records[-1].amount,
}


def _declared(value: Decimal | int | None, digits: int) -> Decimal | None:
    """A value as `decimal(digits,2)` has it."""
    if value is None:
        return None
    found = Decimal(value).quantize(_CENT, context=_MODEL)
    if found != value or abs(found) >= Decimal(10) ** (digits - 2):
        raise Dead
    return found if found else abs(found)


def _records(draw: random.Random) -> list[Record]:
    most = draw.choice([500, 90_000, 10**7])
    found: list[Record] = []
    for file in range(draw.randint(1, 3)):
        for _ in range(draw.choice([0, 1, 4, 12])):
            amount = None if draw.random() < 0.1 else Decimal(draw.randint(-most // 3, most)).scaleb(-2)
            rate = Decimal(draw.randint(0, 20_000)).scaleb(-4)
            found.append(Record(file, len(found) + 1, amount, rate, draw.randint(0, 7)))
    return found


def _text(value: object) -> str:
    return "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _files(records: list[Record]) -> dict[str, str]:
    found = {f"in/{number}.csv": "id,amount,rate,n\n" for number in range(3)}
    for r in records:
        found[f"in/{r.file}.csv"] += f"{r.id},{_text(r.amount)},{_text(r.rate)},{r.n}\n"
    return found


def _pipeline(scope: str, program: str, digits: int, default: Decimal | None) -> str:
    variable: dict[str, object] = {"type": f"decimal({digits},2)"}
    if default is not None:
        variable["default"] = float(default)
    schema = {"id": "int", "amount": "nullable(decimal(12,2))", "rate": "decimal(9,4)", "n": "int"}
    own = f"${scope}.total"
    read = f"emit id = id\nemit total = {own}\nemit twice = {own} * 2\nemit is_large = {own} > 12.5d"
    nodes = [
        {"type": "source", "name": "s", "config": {"type": "csv", "glob": "in/*.csv", "schema": schema}},
        {
            "type": "state", "name": "n", "input": "s",
            "config": {"scope": scope, "set": [{"var": "total", "cxl": program.replace("OWN", own)}]},
        },
        {"type": "transform", "name": "t", "input": "n", "config": {"cxl": read}},
        {"type": "output", "name": "o", "input": "t", "config": {"type": "csv", "path": "out/o.csv"}},
    ]  # fmt: skip
    errors = {"strategy": "continue", "dlq": {"path": "out/dead.csv", "include_source_row": False}}
    declared = {scope: {"total": variable}}
    document = {"pipeline": {"name": "p", "vars": declared}, "nodes": nodes, "error_handling": errors}
    return yaml.safe_dump(document, sort_keys=False)


def _expected(
    records: list[Record], scope: str, program: str, digits: int, default: Decimal | None
) -> tuple[list[tuple[int, Decimal | None]], int]:
    """The records that live with the variable's value for each, and how many entries are dead."""
    cells: dict[object, Decimal | None] = {}
    alive, dead = [], 0

    def cell(record: Record) -> object:
        return {"pipeline": 0, "source": record.file, "record": record.id}[scope]

    for record in records:
        if program in RUNNING:
            before = cells.get(cell(record), default)
            try:
                cells[cell(record)] = _declared(RUNNING[program](before, record), digits)
            except Dead:
                dead += 1
                continue
        alive.append(record)
    if program in TOTALS:
        for key in dict.fromkeys(map(cell, alive)):
            mine = [record for record in alive if cell(record) == key]
            value = TOTALS[program](mine, [r.amount for r in mine if r.amount is not None])
            try:
                cells[key] = _declared(value, digits)
            except Dead:
                dead += 1
    return [(record.id, cells.get(cell(record), default)) for record in alive], dead


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("program", [*RUNNING, *TOTALS])
def test_state_nodes_keep_decimals_as_the_model_does(program: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(f"{program} {seed}")
    records = _records(draw)
    scope = draw.choice(["pipeline", "source"] if program in TOTALS else ["pipeline", "source", "record"])
    digits, default = draw.choice([5, 9, 20]), draw.choice([None, Decimal("1.50")])
    wanted, dead = _expected(records, scope, program, digits, default)
    without_spark.install(monkeypatch)
    for size in (10**9, 90, 20):
        pipelines.cut_by(monkeypatch, size)
        folder = Path(tempfile.mkdtemp(prefix="clinker-state-"))
        try:
            document = _pipeline(scope, program, digits, default)
            pipelines.write(folder, {**_files(records), "pipeline.yaml": document})
            result = pipelines.run(folder).result
            assert result.exit_code == (2 if dead else 0), (result.error, document)
            lines = (folder / "out/o.csv").read_text().splitlines()[1:]
            twice = [None if total is None else total * 2 for _, total in wanted]
            large = [None if total is None else str(total > Decimal("12.5")).lower() for _, total in wanted]
            found = [(line.split(",")[0], *line.split(",")[-3:]) for line in lines]
            assert found == [
                (str(id), _text(total), _text(double), _text(above))
                for (id, total), double, above in zip(wanted, twice, large, strict=True)
            ], (size, document)
            letters = (folder / "out/dead.csv").read_text().splitlines() if dead else [""]
            assert len(letters) - 1 == dead
        finally:
            shutil.rmtree(folder)


VARIABLES = """
pipeline:
  name: p
  vars:
    rate: {type: "decimal(9,4)", default: 0.1900}
    exact: {type: "decimal(38,10)", default: 1234567890123456789012345678.0123456789}
    pipeline: {limit: {type: "decimal(12,2)", default: 7}}
    source: {fee: {type: "decimal(6,2)", default: 0.5}}
    record: {extra: {type: "decimal(6,3)"}}
nodes:
  - {type: source, name: s, config: {type: csv, path: s.csv, schema: {id: int, amount: "decimal(12,2)"}}}
  - type: state
    name: n
    input: s
    config: {scope: record, set: [{var: extra, cxl: "if id > 1 then amount else $record.extra"}]}
  - type: transform
    name: t
    input: n
    config:
      cxl: |
        emit tax = (amount * $vars.rate).round(2)
        emit rate = $vars.rate
        emit exact = $vars.exact
        emit above = amount > $pipeline.limit
        emit rest = amount - $source.fee
        emit extra = $record.extra
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv, include_unmapped: false}}
"""


def _written(folder: Path, **options: object) -> list[str]:
    pipelines.write(folder, {"pipeline.yaml": VARIABLES, "s.csv": "id,amount\n1,10.05\n2,6.5\n"})
    outcome = pipelines.run(folder, **options)
    assert outcome.result.error is None, outcome.result.error
    return (folder / "out/o.csv").read_text().splitlines()


def test_defaults_have_all_their_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    exact = "1234567890123456789012345678.0123456789"
    assert _written(tmp_path) == [
        "tax,rate,exact,above,rest,extra",
        f"1.91,0.1900,{exact},true,9.55,",
        f"1.24,0.1900,{exact},false,6.00,6.500",
    ]


def test_values_are_given_on_the_command_line_and_by_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    channel = """
channel: {name: c, target: pipeline.yaml}
vars:
  static: {rate: 0.0700}
  pipeline: {limit: {type: "decimal(12,2)", default: 10.05}}
  source: {s: {fee: 0.25}}
"""
    (tmp_path / "c.channel.yaml").write_text(channel)
    lines = _written(tmp_path, channel=str(tmp_path / "c.channel.yaml"), given={"exact": "0.1"})
    assert lines[1:] == ["0.70,0.0700,0.1000000000,false,9.80,", "0.46,0.0700,0.1000000000,false,6.25,6.500"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "default: 0.1900",
            "default: 0.19001",
            "does not match declared type Decimal(9,4): found the number `0.19001`",
        ),
        ("default: 7", "default: '7'", "does not match declared type Decimal(12,2): found the text `7`"),
        ("default: 7", "default: true", "found `true`"),
        ("default: 0.5", "default: 12345.5", "does not match declared type Decimal(6,2)"),
        ("then amount", "then amount * 1.00d", "declared as Decimal(6,3), and this is Nullable(Decimal(38,4))"),
        ("then amount", "then 1.5", "declared as Decimal(6,3), and this is Nullable(Float)"),
    ],
)
def test_what_a_variable_would_round_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    found = problems(tmp_path, VARIABLES.replace(old, new))
    assert any(says in one.message for one in found), [one.message for one in found]


def test_the_command_line_has_to_fit(tmp_path: Path) -> None:
    for value in ("0.19001", "x", "123456.1", "1e40"):
        found = problems(tmp_path, VARIABLES, given={"rate": value})
        assert [one.message for one in found] == [f"--var rate: expected Decimal(9,4), found `{value}`"]


def test_a_channel_keeps_the_digits(tmp_path: Path) -> None:
    text = "channel: {name: c, target: pipeline.yaml}\nvars: {static: {rate: {type: 'decimal(9,2)', default: 0.5}}}\n"
    (tmp_path / "c.channel.yaml").write_text(text)
    found = problems(tmp_path, VARIABLES, channel=str(tmp_path / "c.channel.yaml"))
    assert "declared Decimal(9,4), override declared Decimal(9,2)" in found[0].message

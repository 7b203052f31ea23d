"""Rules about the values of columns say what a plain model says of the same records, however the input is cut."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs import plan
from spark_jobs.cli import run
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor
from spark_jobs.plan.options import RunOptions
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SCHEMA = {
    "n": "int", "g": "string", "i": "int", "f": "float", "d": "decimal(20,2)", "s": "string", "a": "any",
    "day": "date", "at": "date_time",
}  # fmt: skip
Record = dict[str, Any]
Values = list[Any]


def record(random_: random.Random, number: int) -> Record:
    def maybe(value: Any) -> Any:
        return None if random_.random() < 0.2 else value

    moment = datetime(2026, 1, 1) + timedelta(seconds=random_.randrange(10**7))
    return {
        "n": number,
        "g": maybe(random_.choice("xyzwvuts")),
        "i": maybe(random_.choice([random_.randrange(-5, 15), 2**63 - 1, -(2**63)])),
        "f": maybe(random_.choice([0.1, 1e300, -1e300, 1e-300, -0.0, 0.0, random_.random()])),
        "d": maybe(f"{random_.randrange(-(10**12), 10**12)}.{random_.randrange(100):02}"),
        "s": maybe(random_.choice(["", "a", "A", "ä", str(random_.randrange(40))])),
        "a": maybe(random_.choice([1, 1.0, "1", True, {"q": [1]}, {"q": [1.0]}, random_.randrange(40)])),
        "day": maybe(moment.date().isoformat()),
        "at": maybe(moment.isoformat()),
    }


def _read(name: str, value: Any) -> Any:
    """A value of a column as numbers, and what equals it."""
    if name == "d":
        return Fraction(Decimal(value))
    if name == "a":
        if isinstance(value, dict):
            return json.dumps(value).replace(".0", "")
        return (isinstance(value, bool), isinstance(value, str), value)
    return value


def _plain(name: str, value: Any) -> Any:
    """A number as metrics have it."""
    if value is None or name == "f":
        return value
    return int(value) if value == int(value) else float(value)


#: What each rule is about, of the values that are no nulls and the number of all.
MODELS: dict[str, Callable[[str, Values, int], Any]] = {
    "completeness": lambda name, found, count: _plain("i", Fraction(len(found), count)) if count else None,
    "distinct_count": lambda name, found, count: len({_read(name, each) for each in found}),
    "sum": lambda name, found, count: (
        math.fsum(found) if name == "f" else _plain(name, sum(_read(name, each) for each in found))
    ),
    "mean": lambda name, found, count: (
        None if not found else
        float(sum(map(Fraction, found)) / len(found)) if name == "f"
        else _plain(name, Fraction(sum(_read(name, each) for each in found)) / len(found))
    ),
    "min": lambda name, found, count: min((_read(name, each) for each in found), default=None),
    "max": lambda name, found, count: max((_read(name, each) for each in found), default=None),
    "freshness": lambda name, found, count: max(found, default=None),
}  # fmt: skip
COLUMNS = {
    "completeness": [*SCHEMA],
    "distinct_count": [*SCHEMA],
    "sum": ["i", "f", "d"],
    "mean": ["i", "f", "d"],
    "min": ["i", "f", "d", "day", "at"],
    "max": ["i", "f", "d", "day", "at"],
    "freshness": ["day", "at"],
}


@dataclass
class Setting:
    """A generated pipeline: a node with rules on generated records; a transform fails for records whose `i` is 0."""

    records: list[Record]
    node: str
    rules: list[tuple[str, str]]
    is_correlated: bool
    divides: bool
    is_sorted: bool

    @classmethod
    def of(cls, seed: int) -> Setting:
        random_ = random.Random(seed)
        records = [record(random_, number) for number in range(random_.choice([0, 5, 40, 90]))]
        every = [(kind, name) for kind, names in COLUMNS.items() for name in names]
        rules = random_.sample(every, random_.choice([1, 3, 9]))
        flags = [random_.random() < 0.5 for _ in range(3)]
        return cls(records, random_.choice(["source", "output"]), rules, *flags)

    @property
    def files(self) -> dict[str, str]:
        rules = {"validations": [_rule(kind, name) for kind, name in self.rules]}
        source = {"type": "json", "path": "in.ndjson", "options": {"format": "ndjson"}, "schema": SCHEMA}
        source |= {"correlation_key": ["g"]} if self.is_correlated else {}
        output = {"type": "json", "path": "out/o.ndjson", "options": {"format": "ndjson"}}
        output |= {"sort_order": ["s"]} if self.is_sorted else {}
        nodes = [
            {"type": "source", "name": "s", "config": source | (rules if self.node == "source" else {})},
            {"type": "transform", "name": "t", "input": "s", "config": {
                "cxl": "emit q = 1 / i" if self.divides else "emit q = i"}},
            {"type": "output", "name": "o", "input": "t", "config": output | (rules if self.node == "output" else {})},
        ]  # fmt: skip
        errors = {"strategy": "best_effort"}
        lines = [json.dumps(each) + "\n" for each in self.records]
        pipeline = {"pipeline": {"name": "rules"}, "nodes": nodes, "error_handling": errors}
        return {"in.ndjson": "".join(lines), "pipeline.yaml": yaml.safe_dump(pipeline, sort_keys=False)}

    def modelled(self) -> list[Any]:
        rows = self.records
        if self.node == "output":
            failed = [row for row in rows if self.divides and row["i"] == 0]
            rejected = {row["g"] for row in failed} - {None} if self.is_correlated else set()
            rows = [row for row in rows if row not in failed and row["g"] not in rejected]
        return [_shown(name, MODELS[kind](name, _values(rows, name), len(rows))) for kind, name in self.rules]


def _rule(kind: str, name: str) -> dict[str, Any]:
    """One that nothing breaks but what has no value to be fresh."""
    bounds: dict[str, Any] = {"min": 0}
    if kind == "freshness":
        bounds = {"max_age": "999999d"}
    elif kind in ("min", "max", "sum", "mean"):
        bounds = {"min": {"day": "0001-01-01", "at": "0001-01-01T00:00:00"}.get(name, -(10**310))}
    return {kind: {"column": name, **bounds}, "severity": "warn"}


def _values(rows: Sequence[Record], name: str) -> Values:
    return [row[name] for row in rows if row[name] is not None]


def _shown(name: str, value: Any) -> Any:
    return _plain(name, value) if isinstance(value, Fraction) else value


@pytest.mark.parametrize("seed", range(24))
def test_what_is_measured_is_exact_however_the_input_is_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    setting = Setting.of(seed)
    pipelines.write(tmp_path, setting.files)
    expected = setting.modelled()
    for split_bytes, partition_bytes in ((10**9, 10**9), (900, 1500)):
        pipelines.cut_by(monkeypatch, split_bytes, partition_bytes)
        outcome = pipelines.run(tmp_path)
        assert outcome.result.error is None, outcome.result.error
        found = [(each["rule"], each.get("value")) for each in outcome.result.rules]
        assert [value for _, value in found] == expected, found
        broken = [each["rule"] for each in outcome.result.rules if each["broken"]]
        assert all("freshness" in each for each in broken), broken
        for path in (tmp_path / "out").iterdir():
            path.unlink()


def _ran(folder: Path, started: datetime) -> list[dict[str, Any]]:
    options = RunOptions(threads=2)
    loaded = plan.load(folder / "pipeline.yaml", options)
    known = identity.Identity.new(None, None)
    outcome = executor.execute(loaded, options, identity.Identity(**{**vars(known), "started": started}))
    return list(outcome.result.rules)


@pytest.mark.parametrize(
    ("rule", "values", "is_broken"),
    [
        ("freshness: {column: at, max_age: 25h}", ["2026-03-01T11:00:00", "2026-02-01T00:00:00"], False),
        ("freshness: {column: at, max_age: 23h}", ["2026-03-01T12:00:00"], True),
        ("freshness: {column: at, max_age: 24h}", ["2026-03-01T12:00:00"], False),
        ("freshness: {column: at, max_age: 24h}", ["2026-03-01T11:59:59"], True),
        ("freshness: {column: at, max_age: 1s}", ["2027-01-01T00:00:00"], False),
        ("freshness: {column: at, max_age: 999d}", [""], True),
        ("max: {column: at, max: 2026-03-01}", ["2026-03-01T00:00:00"], False),
        ("max: {column: at, max: 2026-03-01}", ["2026-03-01T00:00:01"], True),
        ("min: {column: at, min: 2026-03-01}", [""], False),
        ("mean: {column: f, max: 0.1}", ["0.1", "0.1"], False),
        ("mean: {column: d, min: 0.1, max: 0.1}", ["0.1", "0.1"], False),
        ("sum: {column: d, max: 0.3}", ["0.1", "0.2", "0.01"], True),
        ("sum: {column: f, max: 5}", ["NaN"], True),
        ("max: {column: f, max: 5}", ["NaN", "4"], False),
        ("distinct_count: {column: f, max: 1}", ["NaN", "NaN", "0", "-0.0"], False),
        ("completeness: {column: f, min: 0.95}", ["1"] * 19 + [""], False),
        ("completeness: {column: f, min: 0.96}", ["1"] * 19 + [""], True),
        ("completeness: {column: f, min: 1}", [], False),
    ],
)
def test_bounds_are_kept_or_broken(
    rule: str, values: list[str], is_broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    column = rule.partition("column: ")[2].partition(",")[0].rstrip("}")
    kind = {"at": "date_time", "f": "float", "d": "'decimal(12,2)'"}[column]
    pipeline = f"""
        pipeline: {{name: p}}
        error_handling: {{strategy: best_effort}}
        nodes:
          - type: source
            name: rows
            config:
              type: csv
              path: in.csv
              schema: {{n: int, {column}: {kind}}}
              validations: [{{{rule}, severity: warn}}]
          - {{type: output, name: o, input: rows, config: {{type: csv, path: out/o.csv}}}}
    """
    lines = "".join(f"{number},{value}\n" for number, value in enumerate(values))
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.csv": f"n,{column}\n{lines}"})
    (found,) = _ran(tmp_path, datetime(2026, 3, 2, 12, tzinfo=UTC))
    assert bool(found["broken"]) is is_broken, found


@pytest.mark.parametrize(
    ("column", "values", "rule", "value", "said"),
    [
        (
            "date_time", ["2026-01-01T00:00:00.500001"], "max: {column: c, max: '2026-01-01T00:00:00.5'}",
            "2026-01-01T00:00:00.500001",
            "the value is 2026-01-01T00:00:00.500001, at most 2026-01-01T00:00:00.500000 is wanted",
        ),
        ("float", ["inf", "-inf", "1"], "sum: {column: c, max: 1}", "nan", "the value is nan, at most 1 is wanted"),
        ("string", ["", "a"], "completeness: {column: c, max: 0.5}", 1, "the value is 1, at most 0.5 is wanted"),
        (
            "{type: string, null_values: ['']}", ["", "a"], "completeness: {column: c, min: 0.6}", 0.5,
            "the value is 0.5, at least 0.6 is wanted",
        ),
        ("date", [""], "freshness: {column: c, max_age: 1d}", None, "there is no value, at most 1d before the run"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_broken_rules_say_exactly_what_is_there(
    column: str, values: list[str], rule: str, value: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    lines = "".join(f"{number},{each}\n" for number, each in enumerate(values))
    pipelines.write(tmp_path, {"pipeline.yaml": _of_one_column(column, rule), "in.csv": f"n,c\n{lines}"})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is not None
    assert outcome.result.error.code == "E350"
    assert said in outcome.result.error.message
    (found,) = outcome.result.rules
    assert found.get("value") == value
    (shown,) = (text for text, facts in run._summary(outcome) if facts.get("event") == "rule")
    assert shown.endswith("BROKEN (fail)")
    assert " record" not in shown


def test_records_that_do_not_convert_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    rules = "distinct_count: {column: c, max: 1}, severity: warn}, {row_count: {max: 1}, severity: warn"
    pipelines.write(tmp_path, {"pipeline.yaml": _of_one_column("string", rules), "in.csv": "n,c\n1,a\nx,b\n2,c\n"})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None, outcome.result.error
    assert [each["value"] for each in outcome.result.rules] == [2, 3]


def _of_one_column(column: str, rule: str) -> str:
    return f"""
        pipeline: {{name: p}}
        error_handling: {{strategy: best_effort}}
        nodes:
          - type: source
            name: rows
            config:
              type: csv
              path: in.csv
              schema: {{n: int, c: {column}}}
              validations: [{{{rule}}}]
          - {{type: output, name: o, input: rows, config: {{type: csv, path: out/o.csv}}}}
    """

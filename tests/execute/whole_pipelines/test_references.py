"""Records that refer to nothing are those that a plain model finds, however the inputs are cut."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from spark_jobs.execute.run.metrics import Outcome

SCHEMA = {"n": "int", "g": "string", "i": "int", "f": "float", "d": "decimal(12,2)", "s": "string", "a": "any"}
#: The columns of the two sources that records refer to, and which of them has values like a column of the records.
PARENTS = {"p": {"pi": "int", "pf": "float", "ps": "string"}, "q": {"pi": "int", "pd": "decimal(12,1)", "pa": "any"}}
MATCHES = {"p": [("i", "pi"), ("f", "pf"), ("i", "pf"), ("f", "pi"), ("s", "ps")], "q": [
    ("i", "pi"), ("d", "pd"), ("d", "pi"), ("a", "pa"), ("i", "pa"), ("s", "pa"),
]}  # fmt: skip
Record = dict[str, Any]


def is_large(row: Record) -> bool:
    return row["pi"] is not None and row["pi"] > 5


#: By what records are given that others refer to: its name, its nodes, and whether it passes a record on. All are made
#: for one source, `{}`, and have its columns.
GIVERS: dict[str, tuple[str, list[dict[str, Any]], Callable[[Record], bool]]] = {
    "source": ("{}", [], lambda _: True),
    "transform": (
        "t{}",
        [{"type": "transform", "name": "t{}", "input": "{}", "config": {"cxl": "filter pi > 5"}}],
        is_large,
    ),
    "route": (
        "s{}.large",
        [{"type": "route", "name": "s{}", "input": "{}", "config": {
            "mode": "exclusive", "conditions": {"large": "pi > 5"}, "default": "small"}}],
        is_large,
    ),
    "aggregate": (
        "a{}",
        [{"type": "aggregate", "name": "a{}", "input": "{}", "config": {
            "group_by": "[{columns}]", "cxl": "emit c = count(*)"}}],
        lambda _: True,
    ),
    "merge": (
        "m{}",
        [
            {"type": "transform", "name": "t{}", "input": "{}", "config": {"cxl": "filter pi > 5"}},
            {"type": "transform", "name": "u{}", "input": "{}", "config": {"cxl": "filter pi < 3"}},
            {"type": "merge", "name": "m{}", "inputs": ["t{}", "u{}"]},
        ],
        lambda row: is_large(row) or (row["pi"] is not None and row["pi"] < 3),
    ),
}  # fmt: skip
Rule = tuple[str, tuple[tuple[str, str], ...], str]


def value(random_: random.Random, kind: str) -> Any:
    if random_.random() < 0.15:
        return None
    number = random_.randrange(12)
    match kind:
        case "int":
            return number
        case "float":
            return random_.choice([float(number), -0.0, number / 2])
        case "string":
            return random_.choice(["", "a", "A", "ä", str(number)])
        case "any":
            return random_.choice([number, float(number), str(number), True, "a"])
        case _:
            return f"{number}.{random_.choice('05')}"


def same(found: Any, kind: str) -> Any:
    """A value that equals just those that are equal: `1` is no `true` and no text."""
    if kind.startswith("decimal"):
        found = float(found)  # a few digits
    return (isinstance(found, bool), isinstance(found, str), found)


@dataclass
class Modelled:
    """What a run gives: the numbers of written records, those of dead letters, and how often rules are broken."""

    written: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    correlated: set[int] = field(default_factory=set)
    broken: list[int] = field(default_factory=list)


@dataclass
class Setting:
    """A generated pipeline: an output with rules on generated records; a transform fails where `i` is 0."""

    records: list[Record]
    parents: Mapping[str, list[Record]]
    rules: list[Rule]
    is_correlated: bool
    divides: bool
    #: Whether the source has the rules, and not the output.
    are_of_source: bool
    #: The node that gives the records which are referred to, by source (see `GIVERS`).
    givers: Mapping[str, str]

    @classmethod
    def of(cls, seed: int) -> Setting:
        random_ = random.Random(seed)
        records = [
            {name: value(random_, kind) for name, kind in SCHEMA.items()}
            | {"n": number, "g": random_.choice("xyzwvut")}
            for number in range(random_.choice([6, 30, 60]))
        ]
        parents = {
            name: [
                {column: value(random_, kind) for column, kind in columns.items()}
                for _ in range(random_.choice([0, 8, 25]))
            ]
            for name, columns in PARENTS.items()
        }
        rules: dict[str, Rule] = {}
        for _ in range(random_.choice([1, 1, 2, 3])):
            source = random_.choice("pq")
            pairs = random_.sample(MATCHES[source], random_.choice([1, 1, 2]))
            if len({here for here, _ in pairs}) == len(pairs) == len({there for _, there in pairs}):
                severity = random_.choice(["error", "error", "warn"])
                rules[", ".join(here for here, _ in pairs)] = (source, tuple(pairs), severity)
        is_correlated, divides, are_of_source = (random_.random() < 0.5 for _ in range(3))
        givers = {name: random_.choice([*GIVERS]) for name in PARENTS}
        return cls(records, parents, list(rules.values()), is_correlated, divides, are_of_source, givers)

    @property
    def files(self) -> dict[str, str]:
        rules = [
            {"references": {
                "columns": [here for here, _ in pairs],
                "source": GIVERS[self.givers[source]][0].format(source),
                "to": [there for _, there in pairs],
             }, "severity": severity}
            for source, pairs, severity in self.rules
        ]  # fmt: skip
        ndjson = {"type": "json", "options": {"format": "ndjson"}}
        source = {**ndjson, "path": "in.ndjson", "schema": SCHEMA}
        source |= {"correlation_key": ["g"]} if self.is_correlated else {}
        source |= {"validations": rules} if self.are_of_source else {}
        cxl = "emit e = 60 / i" if self.divides else "emit e = i"
        output = {**ndjson, "path": "out/o.ndjson"} | ({} if self.are_of_source else {"validations": rules})
        nodes = [
            {"type": "source", "name": "r", "config": source},
            *(
                {"type": "source", "name": name, "config": {**ndjson, "path": f"{name}.ndjson", "schema": columns}}
                for name, columns in PARENTS.items()
                if name in self.referred
            ),
            *(node for name in self.referred for node in self._nodes(name)),
            {"type": "transform", "name": "t", "input": "r", "config": {"cxl": cxl}},
            {"type": "output", "name": "o", "input": "t", "config": output},
        ]
        errors = {"strategy": "continue", "dlq": {"path": "out/dead.csv"}}
        pipeline = {"pipeline": {"name": "rules"}, "nodes": nodes, "error_handling": errors}
        texts = {"in": self.records, **self.parents}
        return {
            **{f"{name}.ndjson": "".join(json.dumps(row) + "\n" for row in rows) for name, rows in texts.items()},
            "pipeline.yaml": yaml.safe_dump(pipeline, sort_keys=False),
        }

    @property
    def referred(self) -> list[str]:
        """The sources that rules refer to, through the nodes after them."""
        return [name for name in PARENTS if any(name == source for source, _, _ in self.rules)]

    def _nodes(self, source: str) -> list[dict[str, Any]]:
        """The nodes between a source and the rules."""
        text = json.dumps(GIVERS[self.givers[source]][1]).replace("{}", source)
        found: list[dict[str, Any]] = json.loads(text.replace('"[{columns}]"', json.dumps([*PARENTS[source]])))
        return found

    def modelled(self) -> Modelled:
        found = Modelled()
        rows = self.records if self.are_of_source else self._divided(self.records, found)
        rows = self._kept(rows, found)
        if self.are_of_source:
            rows = self._divided(rows, found)
        rejected = {self.records[number]["g"] for number in found.failed} if self.is_correlated else set()
        found.written = [row["n"] for row in rows if row["g"] not in rejected]
        found.correlated = {row["n"] for row in rows if row["g"] in rejected}
        return found

    def _divided(self, rows: list[Record], found: Modelled) -> list[Record]:
        """The records that pass the transform."""
        failing = [row for row in rows if self.divides and row["i"] == 0]
        found.failed |= {row["n"]: "type_coercion_failure" for row in failing}
        return [row for row in rows if row not in failing]

    def _kept(self, rows: list[Record], found: Modelled) -> list[Record]:
        """The records that keep the rules, or break only those that warn."""
        for source, pairs, severity in self.rules:
            known = self._known(source, [there for _, there in pairs])
            lost = [row for row in rows if not self._refers(row, [here for here, _ in pairs], known)]
            found.broken.append(len(lost))
            if severity == "error":
                found.failed |= {row["n"]: "validation_failure" for row in lost}
                rows = [row for row in rows if row["n"] not in found.failed]
        return rows

    def _known(self, source: str, names: Sequence[str]) -> set[Any]:
        passes = GIVERS[self.givers[source]][2]
        rows = [row for row in self.parents[source] if all(row[name] is not None for name in names) and passes(row)]
        return {tuple(same(row[name], PARENTS[source][name]) for name in names) for row in rows}

    @staticmethod
    def _refers(row: Record, names: Sequence[str], known: set[Any]) -> bool:
        if any(row[name] is None for name in names):
            return True
        return tuple(same(row[name], SCHEMA[name]) for name in names) in known


def ran(folder: Path) -> tuple[Modelled, Outcome]:
    outcome = pipelines.run(folder)
    assert outcome.result.error is None, outcome.result.error
    files = pipelines.outputs(folder)
    found = Modelled(
        written=[json.loads(line)["n"] for line in files["o.ndjson"].decode().splitlines()],
        broken=[each["broken"] for each in outcome.result.rules],
    )
    for row in csv.DictReader(io.StringIO(files.get("dead.csv", b"").decode())):
        if row["_cxl_dlq_error_category"] == "correlated":
            found.correlated.add(int(row["n"]))
        else:
            found.failed[int(row["n"])] = row["_cxl_dlq_error_category"]
    return found, outcome


@pytest.mark.parametrize("seed", range(40))
def test_records_that_refer_to_nothing_are_found_however_inputs_are_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    setting = Setting.of(seed)
    pipelines.write(tmp_path, setting.files)
    expected = setting.modelled()
    for split_bytes in (10**9, 900):
        pipelines.cut_by(monkeypatch, split_bytes)
        found, outcome = ran(tmp_path)
        if setting.is_correlated and expected.failed:
            # What is warned of is what the last pass has seen.
            found.broken = expected.broken
        assert found == expected
        assert outcome.result.exit_code == (2 if expected.failed else 0)
        for path in (tmp_path / "out").iterdir():
            path.unlink()

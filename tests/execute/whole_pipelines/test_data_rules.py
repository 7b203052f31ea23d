"""Rules on all records do what a plain model says: sets of values, in record order, however the input is cut."""

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
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.execute.run.metrics import Outcome

SCHEMA = {"n": "int", "g": "string", "i": "int", "f": "float", "s": "string", "a": "any"}
COLUMNS = ["i", "f", "s", "a"]
Record = dict[str, Any]


def record(random_: random.Random, number: int) -> Record:
    def maybe(value: Any) -> Any:
        return None if random_.random() < 0.2 else value

    return {
        "n": number,
        "g": maybe(random_.choice(["x", "y", "z", "ü", "w", "v"])),
        "i": maybe(random_.randrange(25)),
        "f": maybe(random_.choice([0.0, -0.0, 1.5, random_.randrange(30) / 4])),
        "s": maybe(random_.choice(["", "a", "A", "ä", str(random_.randrange(20))])),
        "a": maybe(random_.choice([1, 1.0, "1", True, {"q": [1]}, {"q": [1.0]}, [1], random_.randrange(12)])),
    }


def same(value: Any) -> Any:
    """A value that equals just those that are equal: `1` is no `true` and no text."""
    if isinstance(value, list | dict):
        return json.dumps(value).replace(".0", "")
    return (isinstance(value, bool), isinstance(value, str), value)


@dataclass
class Modelled:
    """What a run gives: the numbers of written records, those of dead letters by category, and broken rules."""

    written: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    correlated: set[int] = field(default_factory=set)
    firsts: dict[int, int] = field(default_factory=dict)
    broken: list[int] = field(default_factory=list)


@dataclass
class Setting:
    """A generated pipeline: a node with rules on generated records.

    `divides` has a transform fail for records whose `i` is 0.
    """

    records: list[Record]
    node: str
    rules: list[tuple[list[str], str]]
    is_correlated: bool
    divides: bool

    @classmethod
    def of(cls, seed: int) -> Setting:
        random_ = random.Random(seed)
        records = [record(random_, number) for number in range(random_.choice([7, 30, 60]))]
        rules = [
            (random_.sample(COLUMNS, random_.choice([1, 1, 2])), random_.choice(["error", "error", "warn"]))
            for _ in range(random_.choice([1, 1, 2, 3]))
        ]
        distinct = {", ".join(columns): (columns, severity) for columns, severity in rules}
        node = random_.choice(["source", "output"])
        return cls(records, node, list(distinct.values()), random_.random() < 0.5, random_.random() < 0.5)

    @property
    def files(self) -> dict[str, str]:
        rules = {"validations": [{"unique": columns, "severity": severity} for columns, severity in self.rules]}
        source = {"type": "json", "path": "in.ndjson", "options": {"format": "ndjson"}, "schema": SCHEMA}
        source |= {"correlation_key": ["g"]} if self.is_correlated else {}
        output = {"type": "json", "path": "out/o.ndjson", "options": {"format": "ndjson"}, "preserve_nulls": True}
        nodes = [
            {"type": "source", "name": "s", "config": source | (rules if self.node == "source" else {})},
            {"type": "transform", "name": "t", "input": "s", "config": {
                "cxl": "emit d = 60 / i" if self.divides else "emit d = i"}},
            {"type": "output", "name": "o", "input": "t", "config": output | (rules if self.node == "output" else {})},
        ]  # fmt: skip
        errors = {"strategy": "continue", "dlq": {"path": "out/dead.csv"}}
        lines = [json.dumps(each) + "\n" for each in self.records]
        pipeline = {"pipeline": {"name": "rules"}, "nodes": nodes, "error_handling": errors}
        return {"in.ndjson": "".join(lines), "pipeline.yaml": yaml.safe_dump(pipeline, sort_keys=False)}

    def modelled(self) -> Modelled:
        found = Modelled(broken=[0] * len(self.rules))
        rows = list(self.records)
        if self.node == "source":
            rows = self._checked(rows, found)
        if self.divides:
            for row in rows:
                if row["i"] == 0:
                    found.failed[row["n"]] = "type_coercion_failure"
            rows = [row for row in rows if row["n"] not in found.failed]
        if self.node == "output":
            rows = self._checked(rows, found)
        rejected = {self.records[number]["g"] for number in found.failed} - {None, ""} if self.is_correlated else set()
        found.written = [row["n"] for row in rows if row["g"] not in rejected]
        found.correlated = {row["n"] for row in rows if row["g"] in rejected}
        return found

    def _checked(self, rows: Sequence[Record], found: Modelled) -> list[Record]:
        left = list(rows)
        for number, (columns, severity) in enumerate(self.rules):
            firsts: dict[Any, int] = {}
            kept = []
            for row in left:
                key = tuple(same(row[name]) for name in columns)
                is_alone = any(row[name] is None for name in columns)
                if is_alone or firsts.setdefault(key, row["n"]) == row["n"]:
                    kept.append(row)
                    continue
                found.broken[number] += 1
                if severity == "error":
                    found.failed[row["n"]] = "validation_failure"
                    found.firsts[row["n"]] = firsts[key]
            left = kept if severity == "error" else left
        return left


def ran(folder: Path, setting: Setting) -> tuple[Modelled, Outcome]:
    outcome = pipelines.run(folder)
    assert outcome.result.error is None, outcome.result.error
    files = pipelines.outputs(folder)
    found = Modelled(
        written=[json.loads(line)["n"] for line in files["o.ndjson"].decode().splitlines()],
        broken=[each["broken"] for each in outcome.result.rules if each["kind"] == "unique"],
    )
    for row in csv.DictReader(io.StringIO(files.get("dead.csv", b"").decode())):
        number = int(row["n"])
        if row["_cxl_dlq_error_category"] == "correlated":
            found.correlated.add(number)
            continue
        found.failed[number] = row["_cxl_dlq_error_category"]
        if found.failed[number] == "validation_failure":
            assert row["_cxl_dlq_trigger"] in [f"unique: {', '.join(columns)}" for columns, _ in setting.rules]
            detail = row["_cxl_dlq_error_detail"]
            found.firsts[number] = int(detail.rpartition("(the first is in in.ndjson, row ")[2].rstrip(")")) - 1
    return found, outcome


@pytest.mark.parametrize("seed", range(10))
def test_equal_records_are_found_however_the_input_is_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    setting = Setting.of(seed)
    pipelines.write(tmp_path, setting.files)
    for split_bytes, partition_bytes in ((10**9, 10**9), (900, 1500), (10**9, 900)):
        pipelines.cut_by(monkeypatch, split_bytes, partition_bytes)
        found, outcome = ran(tmp_path, setting)
        expected = setting.modelled()
        if setting.is_correlated:
            # A rule is judged while groups fail: what is warned of is what the last pass has seen.
            for number, (_, severity) in enumerate(setting.rules):
                if severity == "warn" or expected.failed:
                    found.broken[number] = expected.broken[number]
        assert found == expected
        assert outcome.result.exit_code == (2 if expected.failed else 0)
        for path in (tmp_path / "out").iterdir():
            path.unlink()


def test_a_rule_that_fails_the_run_has_its_code_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    row = record(random.Random(1), 0) | {"i": 1}
    pipelines.write(tmp_path, Setting([row, row | {"n": 1}], "output", [(["i"], "fail")], False, False).files)
    error = pipelines.run(tmp_path).result.error
    assert error is not None
    assert (error.code, "1 record is not unique" in error.message) == ("E350", True)
    assert not (tmp_path / "out/o.ndjson").exists()


def test_a_run_that_stops_early_gives_no_verdict_on_rules_that_saw_some_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    row = record(random.Random(1), 0) | {"i": 1, "s": None}
    files = Setting([row, row | {"n": 1}], "source", [(["i"], "error"), (["s"], "error")], False, False).files
    pipeline = yaml.safe_load(files["pipeline.yaml"])
    pipeline["error_handling"] = {"strategy": "fail_fast"}
    for node in (0, -1):
        pipeline["nodes"][node]["config"].setdefault("validations", []).append({"row_count": {"max": 5}})
    pipelines.write(tmp_path, files | {"pipeline.yaml": yaml.safe_dump(pipeline)})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.exit_code == 3
    assert [(each["name"], each["broken"]) for each in outcome.result.rules] == [("unique: i", 1)]

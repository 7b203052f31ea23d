"""Windows over generated records are what a plain model says, however the input is cut, spread, spilled or blocked."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs.tuning import Tuning
from tests.execute import pipelines, window_model, without_spark
from tests.execute.window_model import Failed, Frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = {"id": "int", "g": "string", "h": "any", "a": "int", "f": "float", "s": "string", "d": "date", "b": "bool"}


def record(random_: random.Random, number: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if random_.random() < 0.15 else value

    return {
        "id": number,
        "g": maybe(random_.choice(["x", "y", "z", "ü", ""])),
        "h": maybe(random_.choice([1, 1.0, 2, "1", True])),
        "a": maybe(random_.choice([random_.randrange(-5, 6), random_.randrange(-(2**62), 2**62)])),
        "f": maybe(random_.choice([random_.randrange(20) / 10, random_.uniform(-1e9, 1e9), 1e300, -1e300, -0.0])),
        "s": maybe(random_.choice(["", "a", "B", "ab", "ä", "\U0001f600", "a\u0000"])),
        "d": maybe(random_.choice(["0001-01-01", "2024-02-29", "2024-03-01", "9999-12-31"])),
        "b": maybe(random_.random() < 0.5),
    }


def divided(row: dict[str, Any]) -> bool | None:
    if row["a"] is None:
        return None
    if row["a"] == 0:
        raise Failed
    return abs(60) // abs(row["a"]) * (1 if row["a"] > 0 else -1) > 20


def below(limit: str) -> Callable[[Frame], Any]:
    def some(frame: Frame) -> bool | None:
        bound = frame.own[limit]
        return frame.some(lambda row: None if row["a"] is None or bound is None else row["a"] < bound)

    return some


CALLS: dict[str, tuple[str, Callable[[Frame], Any]]] = {
    "rn": ("$window.row_number()", lambda frame: frame.position + 1),
    "n": ("$window.count()", lambda frame: frame.position + 1),
    "rank": ("$window.rank()", Frame.rank),
    "dense": ("$window.dense_rank()", Frame.dense_rank),
    "sum_a": ("$window.sum(a)", lambda frame: frame.total("a")),
    "sum_f": ("$window.cumulative_sum(f)", lambda frame: frame.total("f")),
    "avg_f": ("$window.avg(f)", lambda frame: frame.mean("f")),
    "min_a": ("$window.min(a)", lambda frame: frame.least("a")),
    "max_f": ("$window.max(f)", lambda frame: frame.most("f")),
    "min_s": ("$window.min(s)", lambda frame: frame.least("s")),
    "max_d": ("$window.max(d)", lambda frame: frame.most("d")),
    "max_b": ("$window.max(b)", lambda frame: frame.most("b")),
    "list_s": ("$window.collect(s)", lambda frame: frame.values("s")),
    "set_a": ("$window.distinct(a)", lambda frame: frame.distinct("a")),
    "set_d": ("$window.distinct(d)", lambda frame: frame.distinct("d")),
    "first": ("$window.first_value(s)", lambda frame: frame.members[0]["s"]),
    "head": ("$window.first().f", lambda frame: frame.members[0]["f"]),
    "last": ("$window.last(id)", lambda frame: frame.own["id"]),
    "before": ("$window.lag(2, id)", lambda frame: frame.reach(-2, "id")),
    "after": ("$window.lead(1).s", lambda frame: frame.reach(1, "s")),
    "beyond": ("$window.lead(3, id)", lambda frame: frame.reach(3, "id")),
    "some": ("$window.any(a > 3)", lambda frame: frame.some(lambda r: None if r["a"] is None else r["a"] > 3)),
    "all": ("$window.every(a > -3)", lambda frame: frame.every(lambda r: None if r["a"] is None else r["a"] > -3)),
    "none": (
        '$window.not_exists(s == "a")',
        lambda frame: frame.every(lambda r: None if r["s"] is None else r["s"] != "a"),
    ),
    "failing": ("$window.any(60 / a > 20)", lambda frame: frame.some(divided)),
    "reach": ("$window.lag(step, id)", lambda frame: frame.reach(-max(frame.own["id"] % 4 - 1, 0), "id")),
    "below": ("$window.any(a < limit)", below("a")),
    "twice": ("$window.sum(double)", lambda frame: frame.total("id") * 2),
    "behind": ("$window.max(number)", lambda frame: frame.position + 1),
}
LETS = "let step = id % 4 - 1\nlet limit = a\nlet double = id * 2\nlet number = $window.row_number()\n"


class Setting:
    """One generated window: records, how they are partitioned and sorted, and what is computed."""

    def __init__(self, seed: int, count: int) -> None:
        random_ = random.Random(seed)
        self.records = [record(random_, number) for number in range(count)]
        self.group_by = random_.sample(["g", "h"], random_.randrange(3))
        if "h" in self.group_by and not any(isinstance(each["h"], str | bool) for each in self.records):
            self.group_by.remove("h")
        fields = random_.sample(["a", "f", "s", "d", "b"], random_.randrange(3))
        self.sort_by = [(name, random_.random() < 0.5, random_.choice(["first", "last", "drop"])) for name in fields]
        self.calls = random_.sample(list(CALLS), 8)

    def files(self) -> dict[str, str]:
        cxl = LETS + "\n".join(f"emit {name} = {CALLS[name][0]}" for name in self.calls)
        sort_by = [
            {"field": name, "order": "desc" if descending else "asc", "null_order": nulls}
            for name, descending, nulls in self.sort_by
        ]
        window = {"group_by": self.group_by, "sort_by": sort_by}
        nodes = [
            {"type": "source", "name": "s", "config": {
                "name": "s", "type": "json", "path": "in.ndjson", "options": {"format": "ndjson"}, "schema": SCHEMA}},
            {"type": "transform", "name": "w", "input": "s", "config": {"cxl": cxl, "analytic_window": window}},
            {"type": "output", "name": "o", "input": "w", "config": {
                "name": "o", "type": "json", "path": "out/o.ndjson", "options": {"format": "ndjson"},
                "preserve_nulls": True}},
        ]  # fmt: skip
        errors = {"strategy": "continue", "dlq": {"path": "out/dead.csv"}}
        pipeline = {"pipeline": {"name": "p"}, "nodes": nodes, "error_handling": errors}
        lines = "".join(json.dumps(each) + "\n" for each in self.records)
        return {"pipeline.yaml": yaml.safe_dump(pipeline, sort_keys=False), "in.ndjson": lines}

    def expected(self) -> list[dict[str, Any]]:
        calls = {name: CALLS[name][1] for name in self.calls}
        found = window_model.windows(self.records, self.group_by, self.sort_by, calls)
        return [each for each in found if each is not None]


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out/o.ndjson").read_text().splitlines()]


def alike(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert [each["id"] for each in found] == [each["id"] for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one == {**other, "h": one["h"]}


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60))])
def test_windows_are_what_the_model_says(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    setting = Setting(seed, 60)
    pipelines.write(tmp_path, setting.files())
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None
    alike(told(tmp_path), setting.expected())
    whole = (tmp_path / "out/o.ndjson").read_bytes()
    for splits, strip in ((1, 1), (5, 7), (40, 3)):
        pipelines.with_splits(monkeypatch, tmp_path, "in.ndjson", splits)
        tuning = Tuning(strip_rows=strip, frame_pairs=5)
        assert pipelines.run(tmp_path, force=True, tuning=tuning).result.error is None
        assert (tmp_path / "out/o.ndjson").read_bytes() == whole


SMALL = 8 << 20
WIDE = """
pipeline: {name: p, concurrency: {threads: 2}}
nodes:
  - type: source
    name: s
    config: {name: s, type: csv, path: in.csv, schema: {id: int, g: string, v: float, text: string}}
  - type: transform
    name: w
    input: s
    config:
      analytic_window: {group_by: [GROUP], sort_by: [{field: v, order: desc}]}
      cxl: |
        emit n = $window.row_number()
        emit total = $window.sum(v)
        emit before = $window.lag(1, text)
        emit after = $window.lead(2, id)
        emit most = $window.max(text)
        emit rank = $window.rank()
        MORE
  - {type: output, name: o, input: w, config: {name: o, type: csv, path: out/o.csv}}
"""


def wide(folder: Path, rows_: int, group: str, more: str = "") -> None:
    random_ = random.Random(11)
    lines = (
        f"{i},k{random_.randrange(9)},{random_.randrange(500) / 10},{random_.getrandbits(400):x}" for i in range(rows_)
    )
    text = "id,g,v,text\n" + "\n".join(lines) + "\n"
    pipelines.write(folder, {"pipeline.yaml": WIDE.replace("GROUP", group).replace("MORE", more), "in.csv": text})


@pytest.mark.parametrize("group", ["", "g"])
def test_bytes_do_not_depend_on_memory(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    wide(tmp_path, 30_000, group)
    roomy = pipelines.run(tmp_path)
    assert roomy.result.error is None
    wanted = pipelines.outputs(tmp_path)
    tight = pipelines.run(tmp_path, memory_limit_bytes=SMALL, force=True)
    assert tight.result.error is None
    assert pipelines.outputs(tmp_path) == wanted
    assert roomy.nodes["w"]["spilled_bytes"] == 0
    assert tight.nodes["w"]["spilled_bytes"] > 0


def test_whole_partitions_come_back_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    wide(tmp_path, 12_000, "g", "let step = id % 3\n        emit far = $window.lead(step, id)")
    wanted = pipelines.run(tmp_path)
    assert wanted.result.error is None
    before = pipelines.outputs(tmp_path)
    tight = pipelines.run(tmp_path, memory_limit_bytes=SMALL, force=True)
    assert tight.result.error is None
    assert tight.nodes["w"]["spilled_bytes"] > 0
    assert pipelines.outputs(tmp_path) == before


def test_a_partition_that_must_be_whole_and_is_too_large_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    wide(tmp_path, 30_000, "", "let step = id % 3\n        emit far = $window.lead(step, id)")
    outcome = pipelines.run(tmp_path, memory_limit_bytes=SMALL)
    assert outcome.result.error is not None
    assert outcome.result.error.code == "E310"
    assert "give `lag` and `lead` a constant offset" in outcome.result.error.message


NTH = """
    _compose:
      name: nth
      inputs: {rows: {schema: [{name: id, type: int}, {name: g, type: string}]}}
      outputs: {done: counted}
    nodes:
      - type: transform
        name: counted
        input: rows
        config: {analytic_window: {group_by: [g]}, cxl: "emit nth = $window.row_number()"}
"""
TWICE = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int, g: string}}}
      - {type: composition, name: one, input: s, use: nth.comp.yaml, inputs: {rows: s}}
      - {type: composition, name: two, input: s, use: nth.comp.yaml, inputs: {rows: s}}
      - {type: merge, name: m, inputs: [two, one]}
      - {type: output, name: o, input: m, config: {name: o, type: csv, path: out/o.csv}}
"""


def test_a_composition_with_a_window_is_called_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    pipelines.write(tmp_path, {"pipeline.yaml": TWICE, "nth.comp.yaml": NTH, "in.csv": "id,g\n1,a\n2,b\n3,a\n"})
    assert pipelines.run(tmp_path).result.error is None
    assert pipelines.outputs(tmp_path) == {"o.csv": b"id,g,nth\n1,a,1\n2,b,1\n3,a,2\n" + b"1,a,1\n2,b,1\n3,a,2\n"}


ACROSS = """
    pipeline: {name: p}
    nodes:
      - type: source
        name: prices
        config:
          type: csv
          glob: price*.csv
          schema: {k: string, at: date_time}
          watermark: {column: at, delay: 0s}
      - type: source
        name: orders
        config:
          type: csv
          path: orders.csv
          schema: {id: int, k: string, at: date_time}
          watermark: {column: at, delay: 0s}
      - {type: transform, name: met, input: orders, config: {cxl: distinct}}
      - type: transform
        name: t
        input: INPUT
        config:
          analytic_window: {source: prices, group_by: [k]}
          cxl: |
            let row = $source.row
            let file = $source.file
            let at = $source.event_time
            let own = $window.collect(row)
            CALLS
      - type: output
        name: o
        input: t
        config: {type: json, path: out/o.ndjson, options: {format: ndjson}, preserve_nulls: true}
"""
PRICES = {
    "price1.csv": "k,at\na,2024-01-01T00:00:01\nb,2024-01-01T00:00:02\na,2024-01-01T00:00:03\n",
    "price2.csv": "k,at\na,2024-01-01T00:00:04\n",
}
ORDERS = "id,k,at\n1,c,2024-01-01T00:00:00\n2,a,2024-01-01T00:00:02\n3,b,2024-01-01T00:00:02\n"


def looked_up(
    folder: Path, source: str, calls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """What calls give for the records of `orders`, as they are read or behind an exchange."""
    without_spark.install(monkeypatch)
    lines = [f"emit {name} = {call}" for name, call in calls.items()]
    text = ACROSS.replace("INPUT", source).replace("CALLS", ("\n" + " " * 12).join(lines))
    pipelines.write(folder, {**PRICES, "orders.csv": ORDERS, "pipeline.yaml": text})
    assert pipelines.run(folder).result.error is None
    whole = (folder / "out/o.ndjson").read_bytes()
    pipelines.with_splits(monkeypatch, folder, "orders.csv", 3)
    assert pipelines.run(folder, force=True, tuning=Tuning(strip_rows=1, frame_pairs=2)).result.error is None
    assert (folder / "out/o.ndjson").read_bytes() == whole
    return [{name: row[name] for name in calls} for row in told(folder)]


@pytest.mark.parametrize("source", ["orders", "met"])
def test_what_a_let_knows_of_its_record_is_not_lost_in_a_window_over_another_source(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {
        "later": "$window.any(at > $source.event_time)",
        "row": '$window.every(row == if k == "a" then 2 else 3)',
        "rows": "own",
        "file": '$window.every(file == "orders.csv")',
    }
    assert looked_up(tmp_path, source, calls, monkeypatch) == [
        {"later": False, "row": True, "rows": [], "file": True},
        {"later": True, "row": True, "rows": [2, 2, 2], "file": True},
        {"later": False, "row": True, "rows": [3], "file": True},
    ]


@pytest.mark.parametrize("source", ["orders", "met"])
def test_rows_of_another_source_know_their_files(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {
        "rows": "$window.collect($source.row)",
        "files": "$window.distinct($source.file)",
        "name": "$window.first_value($source.name)",
        "last": "$window.max($source.event_time)",
        "place": "$window.max($pipeline.total_count)",
        "both": "$window.any($source.row == row)",
    }
    one, two = "2024-01-01T00:00:02", "2024-01-01T00:00:04"
    assert looked_up(tmp_path, source, calls, monkeypatch) == [
        {"rows": [], "files": [], "name": None, "last": None, "place": None, "both": False},
        {
            "rows": [1, 3, 1],
            "files": ["price1.csv", "price2.csv"],
            "name": "prices",
            "last": two,
            "place": 4,
            "both": False,
        },
        {"rows": [2], "files": ["price1.csv"], "name": "prices", "last": one, "place": 2, "both": False},
    ]

"""Engine columns: at each kind of node becomes of them what they declare, and one declaration is all that one needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs import plan
from spark_jobs.nodes import memory, node, operator
from spark_jobs.nodes.correlation import CorrelationHook
from spark_jobs.nodes.records import batches, columns, guarded, ledger
from spark_jobs.nodes.records.columns import Family, Fate, Fates
from spark_jobs.nodes.source.record_origin import Places, RecordOrigin
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.tuning import Tuning
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: a, config: {name: a, type: csv, path: a.csv, schema: {id: int, k: string}}}
  - {type: transform, name: transform, input: a, config: {cxl: "emit n = id + 1"}}
  - {type: route, name: route, input: a, config: {conditions: {low: id < 9}, default: high}}
  - {type: merge, name: merge, inputs: [a, route.low]}
  - {type: transform, name: meet, input: a, config: {cxl: distinct}}
  - {type: combine, name: combine, input: {d: a, b: a}, config: {where: d.id == b.id, cxl: "emit id = d.id"}}
  - {type: aggregate, name: aggregate, input: a, config: {group_by: [id], cxl: "emit c = count(*)"}}
  - {type: output, name: o1, input: merge, config: {name: o1, type: csv, path: o1.csv}}
  - {type: output, name: o2, input: transform, config: {name: o2, type: csv, path: o2.csv}}
  - {type: output, name: o3, input: meet, config: {name: o3, type: csv, path: o3.csv}}
  - {type: output, name: o4, input: combine, config: {name: o4, type: csv, path: o4.csv}}
  - {type: output, name: o5, input: aggregate, config: {name: o5, type: csv, path: o5.csv}}
  - {type: output, name: o6, input: route.high, config: {name: o6, type: csv, path: o6.csv}}
"""
KINDS = ("transform", "route", "merge", "meet", "combine", "aggregate")
#: What becomes of a column at run time, where its declaration says so; keys and the plan decide about the others.
STAYS = {
    Fate.KEPT: True, Fate.FILLED: True, Fate.OF_DRIVER: True, Fate.OF_FIRST: True, Fate.GONE: False, Fate.MADE: False
}  # fmt: skip
#: Those that are made and forgotten inside a node.
INSIDE = (
    columns.PLACE, columns.SLOT, columns.KEY, columns.RANGED, columns.OWN, columns.SORTED, columns.HASHED,
    columns.FILE, columns.MATCHED, columns.ARGUMENT, columns.RESULT, columns.WINDOW, columns.NONE,
)  # fmt: skip

#: What is known of the split that the record was read from.
PLACES = Places(np.array([0]), pa.array(["a.csv"]), pa.array(["a.csv"]), pa.array(["a"]), None, None)


class Desk:
    """What operators ask of a task, without one."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.memory_pool = memory.MemoryPool(64 << 20)
        self.running = None
        self.tuning = Tuning()
        self.correlation = CorrelationHook()
        self.guards: dict[str, guarded.Guard] = {}
        self.branches = ("", "low", "high")
        self.sent: list[pa.Table] = []
        self.exchanges = self.files = self
        self.counts: dict[str, ledger.Counters] = {}

    def counters(self, name: str, *, silent: bool = False) -> ledger.Counters:
        return self.counts.setdefault(name, ledger.Counters())

    def record_origin(self, number: int) -> batches.Origin:
        return RecordOrigin(number, PLACES)

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> None:
        self.sent.append(table)

    def materialized(self, rows: object, partition: int | None = None) -> pa.Table:
        return pa.table({
            "id": pa.array([1]), "k": ["x"], columns.MATCHED.of("0"): pa.array([1]),
            **{each.name: pa.array([0], each.type) for each in columns.ORIGIN},
        })  # fmt: skip


@dataclass
class Collector(operator.Operator):
    """Keeps what it gets."""

    def open(self) -> None:
        self.batches: list[batches.Batch] = []

    def process(self, batch: batches.Batch, port: int) -> None:
        self.batches.append(batch)


def names_behind(step: node.Step, kind: str, batch: batches.Batch) -> set[str]:
    """The engine columns of a record behind a node."""
    desk: Any = Desk()
    end = Collector(step, desk)
    wiring = operator.Wiring(desk, exchange=0)
    if kind in ("meet", "aggregate"):
        step = step.phases(1)[-1].step if kind == "aggregate" else step.phases(1)[1].step
        first = node.open_step(step, Role.PARTIAL, wiring)
        last = node.open_step(step, Role.FINAL, replace(wiring, exchange=None))
    else:
        first = last = node.open_step(step, Role.WHOLE, wiring)
    last.targets = {port: [(end, 0)] for port in ("", "low", "high")}
    first.process(batch, 0)
    first.finish()
    if first is not last:
        for table in desk.sent:
            last.receive(table)
        last.finish()
    (found,) = end.batches
    return {name for name in found.data.schema.names if columns.is_engine(name)}


def arriving(families: tuple[Family, ...]) -> batches.Batch:
    """A record that an exchange brought, with a column of each family, and keys as the parts of a `distinct` make."""
    data: dict[str, pa.Array] = {"id": pa.array([1]), "k": pa.array(["x"])}
    for each in families:
        name = each.of("x") if each.name.endswith(".") else each.name
        data[name] = pa.array([0], pa.int64()).cast(each.type) if each.arrow else pa.array(["x"])
    data |= {columns.KEY.of("0"): pa.array([1]), columns.KEY.of("1"): pa.array(["x"])}
    origin = RecordOrigin(0, PLACES)
    return batches.Batch(pa.RecordBatch.from_pydict(data), pa.array([0]), origin)


def check(step: node.Step, kind: str, families: tuple[Family, ...]) -> None:
    found = names_behind(step, kind, arriving(families))
    for each in families:
        fate = getattr(each.fates, kind)
        if fate in STAYS:
            assert any(name in each for name in found) == STAYS[fate], (each.name, kind, fate)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_meet_the_fates_that_they_declare(kind: str, tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE})
    step = plan.load(tmp_path / "pipeline.yaml").by_name[kind].step
    assert step is not None
    check(step, kind, tuple(each for each in columns.FAMILIES if each not in INSIDE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_declaration_is_all_that_a_new_column_needs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Say the pages that records were on, or the windows that a record is in."""
    page = Family("$page.", "a field", "sources", Fates(combine=Fate.OF_DRIVER), is_value=True)
    window = Family("$window", "a number", "time windows", Fates(route=Fate.MADE), "int64")
    monkeypatch.setattr(columns, "FAMILIES", (*columns.FAMILIES, page, window))
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE})
    step = plan.load(tmp_path / "pipeline.yaml").by_name[kind].step
    assert step is not None
    check(step, kind, (*columns.ORIGIN, page, window))
    assert columns.values(["id", "$page.x", "$window"]) == {"page.x": "$page.x"}
    assert columns.context_columns(["$page.x", "$window", "$origin.row"]) == ["$page.x", "$origin.row"]


def test_every_column_is_of_one_family() -> None:
    for each in columns.FAMILIES:
        name = each.of("x") if each.name.endswith(".") else each.name
        assert [other.name for other in columns.FAMILIES if name in other] == [each.name]
        assert columns.family(name) is each
    assert columns.family(columns.UNDECLARED_MAP) is columns.UNDECLARED
    with pytest.raises(KeyError):
        columns.family("$unheard.of")

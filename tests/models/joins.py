"""Combines in plain Python: chains of left joins, in the order of the driver and then of each input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.engine import EvaluationContext
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.interpreter import interpreter
from tests.models.rows import once, only

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.models.rows import Node, Row

#: The key fields of each build side.
Carried = list[tuple[str, ...]]
#: What a driver has met so far: rows, None where there was none, and all their fields.
Chain = tuple[tuple["Row | None", ...], dict[str, Any]]


def combine(
    node: Node,
    inputs: Mapping[str, list[Row]],
    propagate: Any,
    fields: Iterable[str],
    given: Mapping[str, Iterable[str]],
) -> Iterator[Row]:
    """The rows of a combine, with the fields of keys that its rows carry: `propagate` is `propagate_ck`."""
    step: Any = node.planned.step
    for made in _combined(node, inputs, propagate, [tuple(given[name]) for name in step.builds]):
        yield replace(made, keys={name: made.keys.get(name) for name in fields})


def _combined(node: Node, inputs: Mapping[str, list[Row]], propagate: Any, carried: Carried) -> Iterator[Row]:
    step: Any = node.planned.step
    body = interpreter.compile(step.body) if step.body else None
    sides = [_Side(step, name, inputs[name]) for name in step.builds]
    for side in sides:
        node.ended += side.rows
    for driver in inputs[step.driver]:
        left = _qualified(step.driver, driver)
        keyed = node.trying(driver, lambda left=left: [side.prepare(left) for side in sides[:1]])  # type: ignore[misc]
        if keyed is None:
            continue
        chains: list[Chain] = [((), left)]
        for side in sides:
            chains = [longer for chain in chains for longer in side.met(chain)]
        if body is None:
            matches = chains[0][0]
            yield _joined(step, driver, matches, driver.fields, (propagate, carried))
            continue
        complete = [chain for chain in chains if None not in chain[0]]
        if step.on_miss != "null_fields":
            chains = complete
        if step.match == "first" and chains:
            chains = [max(chains, key=lambda chain: sum(row is not None for row in chain[0]))]
        if not chains:
            node.ended.append(driver)
        yield from _pairs(node, driver, chains, body, (propagate, carried))


class _Side:
    """A build side and how its rows are found."""

    def __init__(self, step: Any, name: str, rows: list[Row]) -> None:
        self.rows, self.name = rows, name
        mine = [each for each in step.equalities if each.build_qualifier == name]
        self.keys = [(interpreter.compile(each.driver), interpreter.compile(each.build)) for each in mine]
        left = step.residuals if len(step.builds) > 1 else [(name, step.residual)] if step.residual else []
        self.residuals = [interpreter.compile(program) for at, program in left if at == name]
        self.found: dict[Any, list[tuple[Row, dict[str, Any]]]] = {}
        self.columns = next(columns for qualifier, columns in step.schemas if qualifier == name)
        for row in rows:
            seen = _qualified(name, row)
            key = tuple(_key(program, seen) for _, program in self.keys)
            if None not in key:
                self.found.setdefault(key, []).append((row, seen))

    def prepare(self, left: dict[str, Any]) -> tuple[Any, ...]:
        """The key by which rows are found."""
        return tuple(_key(program, left) for program, _ in self.keys)

    def met(self, chain: Chain) -> list[Chain]:
        """A chain with each row that it meets, or with none."""
        rows, left = chain
        key = self.prepare(left)
        pairs = [] if None in key else self.found.get(key, [])
        met = [(row, left | seen) for row, seen in pairs]
        met = [pair for pair in met if all(test(pair[1], EvaluationContext()).outputs for test in self.residuals)]
        return [((*rows, row), seen) for row, seen in met] or [((*rows, None), left)]


def _pairs(node: Node, driver: Row, chains: list[Chain], body: Any, keeps: tuple[Any, Carried]) -> list[Row]:
    """All rows of a driver, or none when one of them fails."""
    made: list[Row] = []
    troubled: list[tuple[tuple[Row | None, ...], Failure]] = []
    for builds, seen in chains:
        try:
            outputs = body(seen, EvaluationContext(node.system_values(driver))).outputs
        except Failure as error:
            troubled.append((builds, Failure(error.detail, Category.COMBINE_ROW)))
            continue
        made += [_joined(node.planned.step, driver, builds, emitted, keeps) for emitted in outputs]
    if troubled:
        builds, failure = troubled[0]
        node.fail(driver, failure, builds=tuple(row for row in builds if row is not None))
        return []
    return made


def _joined(
    step: Any, driver: Row, builds: tuple[Row | None, ...], emitted: dict[str, Any], keeps: tuple[Any, Carried]
) -> Row:
    """A combined row: in its driver's groups, and in those of the build rows where their keys are carried."""
    propagate, carried = keeps
    made = replace(driver, fields=dict(emitted), is_combined=True)
    there = [row for row in builds if row is not None]
    if propagate == "driver" or not there:
        return made if not isinstance(propagate, dict) else made.carrying(propagate["named"])
    keys, numbers, groups = dict(driver.keys), dict(driver.numbers), [*driver.groups]
    for build, fields in zip(builds, carried, strict=True):
        mine = dict.fromkeys(fields) if build is None else build.keys
        keys = mine | keys  # a field is that of the first input which has it, met or not
    joined = dict(driver.joined)
    for side, build in zip(step.builds, builds, strict=True):
        if build is None:
            continue
        way = (step.name, side)
        numbers = build.numbers | numbers
        groups += [
            replace(each, sources=each.domain, shared=frozenset(), is_joined=True, way=way + each.way)
            for each in build.groups
        ]
        mine = {way + further: known for further, known in {(): build.keys, **build.joined}.items()}
        joined |= mine if propagate == "all" else {way: only(known, propagate["named"]) for way, known in mine.items()}
    both = replace(made, keys=keys, groups=once(groups), joined=joined, numbers=numbers)
    return both if propagate == "all" else both.carrying(propagate["named"])


def _key(program: Any, record: dict[str, Any]) -> Any:
    value = program(record, EvaluationContext()).outputs[0]["$key"]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _qualified(qualifier: str, row: Row) -> dict[str, Any]:
    return {f"{qualifier}.{name}": value for name, value in row.fields.items()}

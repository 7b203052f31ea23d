"""State nodes record by record: what a pipeline of them gives, written down as plainly as possible.

A program is a CXL text with a function of the same meaning. What a record sees: its columns, the variables as they are
at that moment. A node is over before the next begins, so readers see what is left in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCOPES = ("pipeline", "source", "record")
NAMES = ("x", "y")
VARIABLES = [(scope, name) for scope in SCOPES for name in NAMES]
#: `y` has no default.
DEFAULTS = {"x": 5, "y": None}


class Dead(Exception):
    """The record fails."""


@dataclass(frozen=True)
class Record:
    file: str
    id: int
    v: int | None
    d: int


@dataclass(frozen=True)
class Formula:
    """An assignment of each record."""

    text: str
    value: Callable[[Record, Callable[[str, str], int | None]], int | None]

    @property
    def about(self) -> str:
        """The variable that it looks back at, if it does."""
        return "y" if ".y" in self.text else "x"

    def reads(self) -> set[tuple[str, str]]:
        """The variables that it reads."""
        return {(scope, name) for scope, name in VARIABLES if f"${scope}.{name}" in self.text}


@dataclass(frozen=True)
class Total:
    """An assignment of all records: an argument of each, and what is made of them."""

    text: str
    value: Callable[[list[int | None]], int | None]
    about: str = "x"
    argument: Callable[[Record], int | None] = lambda record: record.v


@dataclass(frozen=True)
class Node:
    scope: str
    assignments: tuple[tuple[str, Formula | Total], ...]


def _quotient(record: Record) -> int:
    if record.d == 0:
        raise Dead
    return 100 // record.d


def _whole(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise Dead
    return value


def _plus(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else _whole(left + right)


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def formulas(scope: str) -> list[Formula]:
    """Those of a node of a scope."""
    own = f"${scope}"
    return [
        Formula("v", lambda r, look: r.v),
        Formula("100 / d", lambda r, look: _quotient(r)),
        Formula(f"({own}.x ?? 0) + 1", lambda r, look: (look(scope, "x") or 0) + 1),
        Formula(f"({own}.y ?? 0) + d", lambda r, look: (look(scope, "y") or 0) + r.d),
        Formula(f"if d == 0 then id else {own}.y", lambda r, look: r.id if r.d == 0 else look(scope, "y")),
        Formula(f"{own}.x + {own}.y", lambda r, look: _plus(look(scope, "x"), look(scope, "y"))),
        Formula(f"{own}.x + 2", lambda r, look: _plus(look(scope, "x"), 2)),
        Formula(
            f"if d > 1 then 3 + {own}.x else {own}.x",
            lambda r, look: _plus(3, look(scope, "x")) if r.d > 1 else look(scope, "x"),
        ),
        Formula(f"{own}.x + v", lambda r, look: _plus(look(scope, "x"), r.v)),
        Formula(f"v + ({own}.y ?? 3)", lambda r, look: _plus(r.v, _or(look(scope, "y"), 3))),
        Formula(f"({own}.y ?? 7) + 100 / d", lambda r, look: _plus(_or(look(scope, "y"), 7), _quotient(r))),
        Formula(
            f"if d > 0 then {own}.x + (v ?? id) else {own}.x",
            lambda r, look: _plus(look(scope, "x"), _or(r.v, r.id)) if r.d > 0 else look(scope, "x"),
        ),
        Formula(
            f"{own}.x + (id - 4) * 1500000000000000000",
            lambda r, look: _plus(look(scope, "x"), _whole((r.id - 4) * 1500000000000000000)),
        ),
        Formula(
            f"if {own}.y == 3 then {own}.x + 1 else {own}.x",
            lambda r, look: _plus(look(scope, "x"), 1) if look(scope, "y") == 3 else look(scope, "x"),
        ),
        Formula(f"if d == 0 then v else {own}.x", lambda r, look: r.v if r.d == 0 else look(scope, "x")),
        Formula(f"if 10 / d > 4 then id else {own}.x", lambda r, look: r.id if _quotient(r) > 49 else look(scope, "x")),
        Formula(f"v ?? {own}.y", lambda r, look: look(scope, "y") if r.v is None else r.v),
        Formula(
            f"if {own}.y.is_null() or v > {own}.y then v else {own}.y",
            lambda r, look: max(_known([r.v, look(scope, "y")]), default=None),
        ),
        Formula(
            f"if {own}.x >= v then v else {own}.x",
            lambda r, look: None if look(scope, "x") is None else min(_known([r.v, look(scope, "x")])),
        ),
        Formula("$pipeline.x + id", lambda r, look: _plus(look("pipeline", "x"), r.id)),
        Formula("$source.y ?? id", lambda r, look: r.id if look("source", "y") is None else look("source", "y")),
    ]


def _known(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _spread(values: list[int | None]) -> int | None:
    known = _known(values)
    return max(known) - min(known) if known else None


TOTALS = [
    Total("count(*)", len),
    Total("sum(v)", lambda values: sum(_known(values)) if _known(values) else None),
    Total("max(v) - min(v)", _spread),
    Total("first(v)", lambda values: values[0]),
    Total("last(v) ?? -1", lambda values: -1 if values[-1] is None else values[-1]),
    Total("sum(100 / d)", lambda values: sum(_known(values)) if _known(values) else None, "y", _quotient),
]


@dataclass
class Run:
    """The variables of a run: one for all records, one for each file, one for each record."""

    run: dict[str, int | None] = field(default_factory=dict)
    files: dict[str, dict[str, int | None]] = field(default_factory=dict)
    records: dict[int, dict[str, int | None]] = field(default_factory=dict)

    def cells(self, scope: str, record: Record) -> dict[str, int | None]:
        if scope == "pipeline":
            return self.run
        return self.files.setdefault(record.file, {}) if scope == "source" else self.records.setdefault(record.id, {})

    def look(self, record: Record) -> Callable[[str, str], int | None]:
        def found(scope: str, name: str) -> int | None:
            cells = self.cells(scope, record)
            return cells[name] if name in cells else DEFAULTS[name]

        return found

    def read(self, record: Record, variables: list[tuple[str, str]]) -> tuple[int | None, ...]:
        """Some variables, as a reader sees them on a record."""
        return tuple(self.look(record)(scope, name) for scope, name in variables)

    def over(self, node: Node, records: list[Record]) -> tuple[list[Record], list[Record]]:
        """The records that go on and those that die, when a node has seen all."""
        alive, dead = [], []
        arguments: dict[tuple[int, int], tuple[Record, list[int | None]]] = {}
        for record in records:
            try:
                for number, (name, assigned) in enumerate(node.assignments):
                    if isinstance(assigned, Total):
                        given = assigned.argument(record)
                        cells = self.cells(node.scope, record)
                        arguments.setdefault((number, id(cells)), (record, []))[1].append(given)
                    else:
                        value = assigned.value(record, self.look(record))
                        self.cells(node.scope, record)[name] = value
                alive.append(record)
            except Dead:
                dead.append(record)
        for (number, _), (record, values) in sorted(arguments.items(), key=lambda item: item[0][0]):
            name, total = node.assignments[number]
            assert isinstance(total, Total)
            self.cells(node.scope, record)[name] = total.value(values)
        return alive, dead


def known_at(nodes: list[Node], number: int) -> list[tuple[str, str]]:
    """The variables that can be read behind a node of a chain: those that are not set further down alone (E171)."""
    setters = [{(node.scope, name) for name, _ in node.assignments} for node in nodes]
    above = set().union(*setters[: number + 1])
    below = set().union(*setters[number + 1 :])
    return [each for each in VARIABLES if each in above or each not in below]


def configuration(node: Node) -> dict[str, Any]:
    """`config:` of a node."""
    sets = [{"var": name, "cxl": assigned.text} for name, assigned in node.assignments]
    return {"scope": node.scope, "set": sets}

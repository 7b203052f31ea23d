"""Decomposes a combine's `where`: equalities between two inputs find candidates, and the rest is tested on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import fallibility, typed, types
from spark_jobs.nodes import program_reads
from spark_jobs.nodes.combine.step import KEY, Equality, Range

if TYPE_CHECKING:
    from collections.abc import Iterable

_RANGES = {
    typed.Operator.LESS,
    typed.Operator.LESS_EQUAL,
    typed.Operator.GREATER,
    typed.Operator.GREATER_EQUAL,
}
#: Kinds with a natural order.
_ORDERED = {types.Kind.INT, types.Kind.FLOAT, types.Kind.STRING, types.Kind.DATE, types.Kind.DATETIME}


@dataclass(frozen=True)
class Predicate:
    """A decomposed `where`.

    Args:
        order: the inputs, driver first. Each other input follows one that it is compared with.
        equalities: the equalities between two inputs.
        compared: the number of range comparisons between two inputs.
        ranges: the ranges that find candidates.
        residual: all conjuncts except the equalities.
        rest: `residual` without `ranges`; all of `residual` if one of these may fail.
        links: the pairs of inputs that a comparison connects.
        relates: at least one conjunct depends on two inputs.
        residuals: the parts of `rest`, each under the last input in the order that it reads.
    """

    order: tuple[str, ...]
    equalities: tuple[Equality, ...]
    compared: int
    ranges: tuple[Range, ...]
    residual: typed.Program | None
    rest: typed.Program | None
    links: frozenset[frozenset[str]]
    relates: bool
    residuals: tuple[tuple[str, typed.Program], ...]


def decompose(where: typed.Program, order: tuple[str, ...]) -> Predicate:
    """Decompose a predicate over the inputs named in `order` (driver first, build sides in declaration order).

    Inputs are reordered so that each is joined after one that it is compared with. An equality's build side is the
    later input in that order, its driver side the earlier one. Ranges come before the rest: a pair for which a range
    does not hold, or has a null operand, is no candidate.
    """
    equalities: list[Equality] = []
    ranges: list[typed.Expression] = []
    rest: list[typed.Expression] = []
    conjuncts = program_reads.conjuncts(_expression(where))
    links = frozenset(frozenset(side for side, _ in sides) for each in conjuncts if (sides := _sides(each)))
    order = _connected(order, links)
    for conjunct in conjuncts:
        sides = _sides(conjunct)
        if sides is None:
            rest.append(conjunct)
        elif isinstance(conjunct, typed.Binary) and conjunct.operator is typed.Operator.EQUAL:
            (_, earlier), (later, build) = sorted(sides, key=lambda side: order.index(side[0]))
            equalities.append(Equality(_key(where, earlier), later, _key(where, build)))
        else:
            ranges.append(conjunct)
    relates = any(len(_inputs(conjunct)) > 1 for conjunct in conjuncts)
    finding, tested = _finding(where, ranges, order)
    residual, left = ([*map(_certainly, kept), *rest] if rest else kept for kept in (ranges, tested))
    parts = []
    for qualifier in order[1:]:
        mine = [each for each in left if _last(each, order) == qualifier]
        if (program := _residual(where, mine)) is not None:
            parts.append((qualifier, program))
    return Predicate(
        order=order,
        equalities=tuple(equalities),
        compared=len(ranges),
        ranges=finding,
        residual=_residual(where, residual),
        rest=_residual(where, left),
        links=links,
        relates=relates,
        residuals=tuple(parts),
    )


def _finding(
    where: typed.Program, ranges: list[typed.Expression], order: tuple[str, ...]
) -> tuple[tuple[Range, ...], list[typed.Expression]]:
    """The ranges that find candidates, and the ranges that are tested on candidates, in evaluation order.

    A record for which a side fails is a candidate of all others, so that it fails as in a nested loop. So if a finding
    range may fail, all ranges are tested, those that cannot fail first. If a range that cannot find candidates may
    fail, only ranges that cannot fail find candidates: the pairs that they exclude would not have reached it.
    """
    found = [(each, _range(where, each, order)) for each in ranges]
    if any(made is None and fallibility.may_fail(each) for each, made in found):
        found = [(each, None if made is None or made.may_fail else made) for each, made in found]
    finding = tuple(made for _, made in found if made is not None)
    if any(made.may_fail for made in finding):
        return finding, sorted(ranges, key=fallibility.may_fail)
    return finding, [each for each, made in found if made is None]


def _range(where: typed.Program, conjunct: typed.Expression, order: tuple[str, ...]) -> Range | None:
    """A range that finds candidates. Its values have an order, and are evaluated once for each record of either side.

    So neither side may write log lines, or read system values.
    """
    sides = _sides(conjunct)
    assert sides is not None
    assert isinstance(conjunct, typed.Binary)
    kinds = {expression.type.kind for _, expression in sides}
    alone = [not (fallibility.logs(each) or program_reads.system(each)) for _, each in sides]
    if len(kinds) > 1 or not kinds <= _ORDERED or not all(alone):
        return None
    (_, earlier), (later, build) = sorted(sides, key=lambda side: order.index(side[0]))
    is_less = conjunct.operator in (typed.Operator.LESS, typed.Operator.LESS_EQUAL)
    return Range(
        driver=_key(where, earlier),
        build_qualifier=later,
        build=_key(where, build),
        is_upper=is_less == (build is conjunct.right),
        is_strict=conjunct.operator in (typed.Operator.LESS, typed.Operator.GREATER),
        may_fail=fallibility.may_fail(conjunct),
    )


def _connected(order: tuple[str, ...], links: frozenset[frozenset[str]]) -> tuple[str, ...]:
    """The inputs in order, but each after one that it is compared with, if there is one."""
    found, waiting = [order[0]], list(order[1:])
    while waiting:
        near = (name for name in waiting if any(frozenset((name, each)) in links for each in found))
        found.append(next(near, waiting[0]))
        waiting.remove(found[-1])
    return tuple(found)


def _certainly(comparison: typed.Expression) -> typed.Expression:
    """Make a comparison false where it is null, so that later operands of an `and` are not evaluated."""
    place, kind = comparison.place, types.Type(types.Kind.BOOL)
    return typed.Coalesce(kind, place, comparison, typed.Literal(kind, place, False))


def _last(conjunct: typed.Expression, order: tuple[str, ...]) -> str:
    """The first build side at which a chain of inputs has all columns that a part of the predicate reads."""
    return order[max([1, *(order.index(name) for name in _inputs(conjunct))])]


def _expression(where: typed.Program) -> typed.Expression:
    match where.statements[-1]:
        case typed.Filter(predicate=expression) | typed.Evaluate(value=expression) | typed.Emit(value=expression):
            return expression
        case other:
            raise AssertionError(f"a predicate ends in an expression, not in {type(other).__name__}")


def _sides(conjunct: typed.Expression) -> tuple[tuple[str, typed.Expression], tuple[str, typed.Expression]] | None:
    """The two inputs of a comparison and its operands; None if it does not compare one input with another."""
    if not isinstance(conjunct, typed.Binary) or conjunct.operator not in (typed.Operator.EQUAL, *_RANGES):
        return None
    left, right = _inputs(conjunct.left), _inputs(conjunct.right)
    if len(left) != 1 or len(right) != 1 or left == right:
        return None
    return (next(iter(left)), conjunct.left), (next(iter(right)), conjunct.right)


def _inputs(expression: typed.Expression) -> frozenset[str]:
    return frozenset(column.partition(".")[0] for column in program_reads.columns(expression))


def _key(where: typed.Program, expression: typed.Expression) -> typed.Program:
    emit = typed.Emit(expression.place, where.slots, KEY, expression)
    return typed.Program(
        text=where.text,
        statements=(emit,),
        slots=where.slots + 1,
        emits=((KEY, expression.type),),
        metas=(),
        columns=program_reads.columns(expression),
        system=program_reads.system(expression),
    )


def _residual(where: typed.Program, conjuncts: list[typed.Expression]) -> typed.Program | None:
    if not conjuncts:
        return None
    expression = _in_order(conjuncts)
    statement = where.statements[-1]
    key = next(name for name in ("predicate", "value") if hasattr(statement, name))
    changed: dict[str, Any] = {key: expression}
    return replace(
        where,
        statements=(replace(statement, **changed),),
        columns=program_reads.columns(expression),
        system=program_reads.system(expression),
    )


def _in_order(conjuncts: list[typed.Expression]) -> typed.Expression:
    """All conjuncts as one condition that evaluates a conjunct only if the ranges before it hold.

    A range with a null operand never matches, like an equality with a null key, and conjuncts after it are not
    evaluated. Ranges that cannot fail come first. The others stay after conjuncts that may guard them.
    """
    first = [each for each in conjuncts if _is_range(each) and not fallibility.may_fail(each)]
    *before, last = [*first, *(each for each in conjuncts if not any(each is one for one in first))]
    return reduce(
        lambda rest, each: _guarded(each, rest) if _is_range(each) else _both(each, rest), reversed(before), last
    )


def _is_range(conjunct: typed.Expression) -> bool:
    return isinstance(conjunct, typed.Binary) and conjunct.operator in _RANGES and _sides(conjunct) is not None


def _guarded(condition: typed.Expression, rest: typed.Expression) -> typed.Expression:
    place = (min(condition.place[0], rest.place[0]), max(condition.place[1], rest.place[1]))
    return typed.If(rest.type.or_null(), place, condition, rest, typed.Literal(types.BOOL, place, False))


def _both(left: typed.Expression, right: typed.Expression) -> typed.Expression:
    nullable = left.type.may_be_null or right.type.may_be_null
    return typed.And(
        types.Type(types.Kind.BOOL, nullable),
        (min(left.place[0], right.place[0]), max(left.place[1], right.place[1])),
        left,
        right,
    )


def is_connected(names: Iterable[str], links: frozenset[frozenset[str]]) -> bool:
    """True if comparisons connect all inputs with each other."""
    remaining = set(names)
    reached = {remaining.pop()}
    while reached:
        current = reached.pop()
        near = {name for link in links if current in link for name in link} & remaining
        remaining -= near
        reached |= near
    return not remaining

"""Folds: programs over earlier records that need not be evaluated one record after another.

A value that is carried forward, a counter, a sum or a running maximum has a closed form: its final value follows from
the last record with a value, from the number of records, from their sum, or from the largest value. Other programs are
evaluated in order. So are sums of Floats, which depend on the order of rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals, typed, types
from spark_jobs.cxl.types import Kind
from spark_jobs.nodes import program_reads

if TYPE_CHECKING:
    from decimal import Decimal

    from spark_jobs.nodes.state.step import Assignment

#: The emit that is true for records that count.
WHEN = "$when"
#: The largest increment of a counter.
_SMALL = 1 << 20
#: Whole numbers whose absolute values add up to at most this fit 64 bits at every record, in any order.
_SAFE = 1 << 62
#: Types with a total order in which equal values are identical.
_ORDERED = (Kind.INT, Kind.DATE, Kind.DATETIME)
_GREATER = (typed.Operator.GREATER, typed.Operator.GREATER_EQUAL)
_LESS = (typed.Operator.LESS, typed.Operator.LESS_EQUAL)
_TURNED = dict(zip((*_GREATER, *_LESS), (*_LESS, *_GREATER), strict=True))


class How(Enum):
    """The ways to compute the final value."""

    #: The value of the last record that has one.
    CARRIED = auto()
    #: The number of records that count.
    COUNTED = auto()
    #: The sum over the records that count.
    SUMMED = auto()
    LARGEST = auto()
    SMALLEST = auto()


@dataclass(frozen=True)
class Fold:
    """A program rewritten without its own earlier value.

    Args:
        how: the way to compute the final value.
        program: computes a value for each record, and under `WHEN` whether the record counts. Without `WHEN`, records
            with a null do not count.
        step: the amount that a counter adds for each record that counts.
        start: the initial value of a counter or a sum that is null.
        replaces_null: a variable that is null takes the largest or smallest value.
    """

    how: How
    program: typed.Program
    step: int = 0
    start: int | Decimal | None = None
    replaces_null: bool = False


def of(assignment: Assignment) -> Fold | None:
    """The fold that is equivalent to a program, if there is one."""
    program = assignment.value
    if isinstance(program, typed.AggregateProgram) or len(program.statements) != 1:
        return None
    emit = program.statements[0]
    assert isinstance(emit, typed.Emit)
    return _Finder(assignment, program, emit).fold()


@dataclass(frozen=True)
class _Finder:
    assignment: Assignment
    program: typed.Program
    emit: typed.Emit

    def fold(self) -> Fold | None:
        value = self.emit.value
        condition = None
        if isinstance(value, typed.If) and self.is_own(value.otherwise):
            largest = self._extreme(value)
            if largest is not None:
                return largest
            condition, value = value.condition, value.then
        elif isinstance(value, typed.Coalesce) and self.is_own(value.right) and not self.reads_own(value.left):
            return Fold(How.CARRIED, self._of(value.left, None))
        if condition is None or self.reads_own(condition):
            return None if condition is not None else self._counted(None, value) or self._summed(None, value)
        return self._counted(condition, value) or self._summed(condition, value) or self._carried(condition, value)

    def is_own(self, value: typed.Expression) -> bool:
        """True if an expression is the variable's own value."""
        return isinstance(value, typed.System) and value.path == self.assignment.path

    def reads_own(self, value: typed.Expression) -> bool:
        """True if an expression depends on the variable's own value."""
        return self.assignment.path in program_reads.system(value)

    def _carried(self, condition: typed.Expression, value: typed.Expression) -> Fold | None:
        if self.reads_own(value):
            return None
        return Fold(How.CARRIED, self._of(value, condition, says_when=True))

    def _counted(self, condition: typed.Expression | None, value: typed.Expression) -> Fold | None:
        """`$x + 1`, `($x ?? 0) + 1`, and the like; only for whole numbers, because Floats are rounded each time."""
        if self.assignment.type.kind is not Kind.INT:
            return None
        if not isinstance(value, typed.Binary) or value.operator is not typed.Operator.ADD:
            return None
        for counted, step in ((value.left, value.right), (value.right, value.left)):
            if (added := _small(step)) is None:
                continue
            is_own, start = self._beginning(counted)
            if is_own:
                return Fold(How.COUNTED, self._of(step, condition), added, start)
        return None

    def _beginning(self, value: typed.Expression) -> tuple[bool, int | Decimal | None]:
        """True if an expression is the variable's own value (`$x`, `($x ?? 0)`), and its replacement for null."""
        start: int | Decimal | None = None
        if isinstance(value, typed.Coalesce):
            start, value = _small_number(value.right), value.left
            if start is None:
                return False, None
        return self.is_own(value), start

    def _summed(self, condition: typed.Expression | None, value: typed.Expression) -> Fold | None:
        """`$x + v`, `($x ?? 0) + v`, and the like; for whole numbers, and for Decimals of one scale."""
        if not isinstance(value, typed.Binary) or value.operator is not typed.Operator.ADD:
            return None
        for summed, added in ((value.left, value.right), (value.right, value.left)):
            is_own, start = self._beginning(summed)
            if is_own and self._is_exact(added.type) and not self.reads_own(added):
                always = typed.Literal(types.BOOL, value.place, True)
                return Fold(How.SUMMED, self._of(added, condition or always, says_when=True), start=start)
        return None

    def _is_exact(self, added: types.Type) -> bool:
        """True if the sum of the variable and values of a type does not depend on the order of the terms."""
        declared = self.assignment.type
        if declared.kind is Kind.DECIMAL and declared.scale is not None:
            return added.kind is Kind.INT or (added.kind is Kind.DECIMAL and added.scale is not None)
        return added.kind is declared.kind is Kind.INT

    def _has_one_order(self, given: types.Type) -> bool:
        """True if the variable can take every value of a type, and equal values are identical."""
        declared = self.assignment.type
        if declared.kind is Kind.DECIMAL:
            digits, most = (one.precision or decimals.MAX_DIGITS for one in (given, declared))
            return given.kind is Kind.DECIMAL and given.scale == declared.scale is not None and digits <= most
        return given.kind is declared.kind and given.kind in _ORDERED

    def _extreme(self, value: typed.If) -> Fold | None:
        """`if $x.is_null() or v > $x then v else $x`, and the like."""
        condition, replaces = value.condition, False
        if isinstance(condition, typed.Or):
            test = condition.left
            if not self._is_null(test):
                return None
            condition, replaces = condition.right, True
        if not isinstance(condition, typed.Binary) or condition.operator not in _TURNED:
            return None
        given, own, operator = condition.left, condition.right, condition.operator
        if self.is_own(given):
            given, own, operator = own, given, _TURNED[operator]
        if not self.is_own(own) or self.reads_own(given) or self._text(given) != self._text(value.then):
            return None
        if not self._has_one_order(given.type):
            return None
        how = How.LARGEST if operator in _GREATER else How.SMALLEST
        return Fold(how, self._of(given, None), replaces_null=replaces)

    def _of(
        self, value: typed.Expression, condition: typed.Expression | None, *, says_when: bool = False
    ) -> typed.Program:
        """A program for a value that is null where a condition is not true, and optionally for the condition itself."""
        emits: list[typed.Emit] = [replace(self.emit, value=value)]
        if condition is not None:
            nothing = typed.Literal(types.NULL, value.place, None)
            chosen = typed.If(value.type.or_null(), self.emit.value.place, condition, value, nothing)
            emits = [replace(self.emit, value=chosen)]
            if says_when:
                emits.append(typed.Emit(self.emit.place, self.program.slots, WHEN, condition))
        statements = tuple(emits)
        parts = [part for part in program_reads.parts(statements) if isinstance(part, typed.System | typed.Column)]
        return replace(
            self.program,
            statements=statements,
            slots=self.program.slots + 1,
            emits=tuple((each.name, each.value.type) for each in emits),
            columns=frozenset(part.name for part in parts if isinstance(part, typed.Column)),
            system=frozenset(part.path for part in parts if isinstance(part, typed.System)),
        )

    def _is_null(self, test: typed.Expression) -> bool:
        if not isinstance(test, typed.Call) or test.builtin != "Any.is_null":
            return False
        (subject,) = test.arguments
        return isinstance(subject, typed.Expression) and self.is_own(subject)

    def _text(self, value: typed.Expression) -> str:
        start, end = value.place
        return "".join(self.program.text[start:end].split())


def _small(value: typed.Expression) -> int | None:
    """The value of a small whole number literal."""
    if not isinstance(value, typed.Literal) or value.type.kind is not Kind.INT or value.value is None:
        return None
    number: int = value.value
    return number if abs(number) <= _SMALL else None


def _small_number(value: typed.Expression) -> int | Decimal | None:
    """The value of a small whole number or Decimal literal."""
    if isinstance(value, typed.Widen) and value.type.kind is Kind.DECIMAL:
        value = value.operand
    if isinstance(value, typed.Literal) and value.type.kind is Kind.DECIMAL:
        number: Decimal | None = value.value
        return number
    return _small(value)


def after(fold: Fold, before: Any, found: Any) -> Any:
    """The value after all records, given the value before them; null means that they have not changed it.

    `found` is the number of records that count, their sum, or the largest or smallest value.
    """
    if fold.how is How.COUNTED:
        before = fold.start if before is None else before
        return None if before is None else before + fold.step * found
    if before is None:
        return found if fold.replaces_null else None
    return max(before, found) if fold.how is How.LARGEST else min(before, found)


def may_overflow(size: float, *others: int | None, most: int = _SAFE) -> bool:
    """True if a sum may exceed 64 bits, or a smaller range, at some record.

    Args:
        size: the sum of the absolute values of all terms.
        others: the possible initial values.
        most: the largest number of the range.
    """
    return size + sum(abs(other) for other in others if other is not None) > min(most, _SAFE)

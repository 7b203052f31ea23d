"""Operators of rules about column values: each task measures its records as they pass.

`Measure` is the last phase of a source. An output has its own `Meters` for the records that it writes. Tasks report
their measurements. Only values for `distinct_count` are sent to a single task, without duplicates within a few batches
(`distinct_values_run.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_units, decimals, types, values
from spark_jobs.nodes import keys, operator
from spark_jobs.nodes.aggregate import exact
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.rules.distinct_values_run import ABOUT, VALUE
from spark_jobs.nodes.rules.measurement import FLOAT_BITS, Measurement
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.records import batches
    from spark_jobs.nodes.rules.step import Measured, MeasureStep

#: The most values that are buffered before they are sent. Buffers are deduplicated first.
_MOST_WAITING = 1 << 16
_WIDE = Context(prec=4 * decimals.MAX_DIGITS)
_BITS = 32


@dataclass
class _Distinct:
    """Buffered values for `distinct_count`. The task may have sent some of them before."""

    arrays: list[pa.Array] = field(default_factory=list)
    count: int = 0


class Meters:
    """Measures the records of an operator for the rules of its node.

    Args:
        given: the operator.
        measured: the rules.
        exchange: the exchange for values of `distinct_count`; None if an earlier job has sent them.
    """

    def __init__(self, given: operator.Operator, measured: Sequence[Measured], exchange: int | None) -> None:
        self._operator, self._exchange = given, exchange
        self._rules = [(rule, Measurement()) for rule in measured]
        self._distinct = [_Distinct() for _ in measured]

    def add(self, batch: batches.Batch) -> None:
        """Add the values of a batch to the measurement of each rule."""
        for number, (rule, found) in enumerate(self._rules):
            column = batch.data.column(rule.column)
            found.records += batch.count
            found.values += batch.count - column.null_count
            match rule:
                case rules.DistinctCount():
                    self._add_distinct(number, rule, column)
                case rules.Sum() | rules.Mean():
                    total, special = totalled(column, rule.type)
                    found.total, found.special = found.total + total, found.special + special
                case rules.Min() | rules.Max() | rules.Freshness():
                    self._widen(found, column, rule.type)

    @staticmethod
    def _widen(found: Measurement, column: pa.Array, static: types.Type) -> None:
        least, most = bounds(column, static)
        if least is not None and most is not None:
            found.least = least if found.least is None else min(least, found.least)
            found.most = most if found.most is None else max(most, found.most)

    def _add_distinct(self, number: int, rule: Measured, column: pa.Array) -> None:
        if self._exchange is None:
            return
        waiting = self._distinct[number]
        waiting.arrays.append(pc.unique(keys.equal_column(column, rule.type)).drop_null())
        waiting.count += len(waiting.arrays[-1])
        if waiting.count > _MOST_WAITING:
            waiting.arrays = [pc.unique(pa.chunked_array(waiting.arrays))]
            waiting.count = len(waiting.arrays[0])
            if 2 * waiting.count > _MOST_WAITING:
                self._send(number)

    def _send(self, number: int) -> None:
        waiting, self._distinct[number] = self._distinct[number], _Distinct()
        assert self._exchange is not None
        if waiting.count:
            column = pc.unique(pa.chunked_array(waiting.arrays))
            table = pa.table({VALUE: column}).replace_schema_metadata({ABOUT: str(number).encode()})
            self._operator.context.exchanges.send(self._exchange, 0, 0, table)

    def finish(self) -> None:
        """Report the measurements, and send the buffered values."""
        for number, (rule, found) in enumerate(self._rules):
            if isinstance(rule, rules.DistinctCount):
                if self._exchange is not None:
                    self._send(number)
                continue
            found.is_hidden = self._operator.guard.hides(rule.column)
            if found.records:
                self._operator.context.observe(self._operator, rule.name, found)


def totalled(column: pa.Array, static: types.Type) -> tuple[int, float]:
    """The sum of a column's finite values in units of its type (see `Measurement`), and of its NaN and infinities."""
    if column.null_count == len(column):
        return 0, 0.0
    if static.kind is types.Kind.DECIMAL:
        return sum(_decimal_units(column)), 0.0
    if static.kind is types.Kind.INT:
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        high, low = numbers >> _BITS, numbers & ((1 << _BITS) - 1)
        return (int(high.sum()) << _BITS) + int(low.sum()), 0.0
    digits = exact.digits_of(column)
    special = digits.pop(exact.SPECIAL, None)
    total = sum(
        int(np.sum(each.fill_null(0).to_numpy(zero_copy_only=False))) << FLOAT_BITS + _BITS * place
        for place, each in digits.items()
    )
    if special is None:
        return total, 0.0
    with np.errstate(invalid="ignore"):  # infinities of both signs add up to NaN
        return total, float(np.sum(special.fill_null(0.0).to_numpy(zero_copy_only=False)))


def bounds(column: pa.Array, static: types.Type) -> tuple[float | None, float | None]:
    """The least and the largest value of a column, as a measurement stores them. NaN is ignored."""
    match static.kind:
        case types.Kind.DECIMAL:
            units = _decimal_units(column)
            return min(units, default=None), max(units, default=None)
        case types.Kind.FLOAT:
            column = column.filter(pc.invert(pc.is_nan(column)))
        case types.Kind.DATE:
            column = column.cast(pa.date32()).cast(pa.int32())
        case types.Kind.DATETIME:
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _decimal_units(column: pa.Array) -> list[int]:
    """Each Decimal of a column in units of the smallest scale, as a whole number."""
    if pa.types.is_decimal(column.type):
        unit = 10 ** (decimals.MAX_DIGITS - column.type.scale)
        return [number * unit for number in decimal_units.whole(column)]
    texts = column.drop_null().to_pylist()
    return [int(Decimal(values.decode(text)).scaleb(decimals.MAX_DIGITS, _WIDE)) for text in texts]


@dataclass
class Measure(operator.Operator):
    """Measures records, and pushes them unchanged."""

    step: MeasureStep
    #: The exchange for values of `distinct_count`.
    exchange: int | None = None

    def open(self) -> None:
        self.meters = Meters(self, self.step.rules, self.exchange)

    def process(self, batch: batches.Batch, port: int) -> None:
        self.enter(batch.count)
        self.meters.add(batch)
        self.push(batch)

    def finish(self) -> None:
        self.meters.finish()


#: The operators of a source's rules about values, by their roles.
OPERATORS = {shape.Role.WHOLE: Measure}

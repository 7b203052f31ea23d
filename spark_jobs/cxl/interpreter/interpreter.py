"""The meaning of CXL: a typed program as Python closures, run on one record at a time.

`compile(program)` turns the tree into closures once; when they run they look up only columns and slots. The Arrow
kernels must agree with this engine on every value and every failure, and hand it the rows that they cannot decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from spark_jobs.cxl import engine, failure, tracing, tree_walk, typed, values
from spark_jobs.cxl.interpreter import expressions
from spark_jobs.cxl.interpreter.expressions import Row
from spark_jobs.cxl.types import Kind


class Stop(Enum):
    """Why a record goes no further."""

    FILTERED = "filtered"
    DUPLICATE = "duplicate"


#: A statement compiled: it changes the row, and says so when the record stops there.
Step = Callable[[Row], "Stop | None"]


def compile(program: typed.Program) -> Interpreter:
    """A program ready to run on records, a `RecordProgram`."""
    if not tree_walk.is_deep(program):
        return Interpreter(program)
    with tree_walk.room():
        return DeepInterpreter(program)


class Interpreter:
    """A compiled program; see `RecordProgram`."""

    def __init__(self, program: typed.Program) -> None:
        self.steps = tuple(_statement(statement) for statement in program.statements)
        #: The statements for a row that has passed them before: no log lines, no second look at `distinct`.
        self.again = tuple(_statement_again(statement) for statement in program.statements)
        self._slots = program.slots

    def start(self, record: Mapping[str, Any], context: engine.EvaluationContext) -> Row:
        """The state of a record before the first statement."""
        return Row(record.get, context, self._slots)

    def __call__(self, record: Mapping[str, Any], context: engine.EvaluationContext) -> engine.RecordResult:
        """Run the program on a record; raises `Failure`."""
        row = Row(record.get, context, self._slots)
        for step in self.steps:
            stop = step(row)
            if stop is not None:
                return engine.RecordResult([], [], stop is Stop.FILTERED, stop is Stop.DUPLICATE)
        return result_of(row)


class DeepInterpreter(Interpreter):
    """A program so deeply nested that running it takes more stack than Python grants by default."""

    def __call__(self, record: Mapping[str, Any], context: engine.EvaluationContext) -> engine.RecordResult:
        """Run the program on a record; raises `Failure`."""
        with tree_walk.room():
            return super().__call__(record, context)


def records_of(row: Row) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The records that a row has become after the last statement: fields and metadata of each."""
    return [(row.fields, row.metas)] if row.children is None else row.children


def result_of(row: Row) -> engine.RecordResult:
    """The result of a row after the last statement."""
    records = records_of(row)
    return engine.RecordResult([fields for fields, _ in records], [metas for _, metas in records])


def _statement(statement: typed.Statement, inside_each: bool = False) -> Step:
    match statement:
        case typed.Let(slot=slot, value=value):
            return _let(slot, expressions.compile(value))
        case typed.Emit():
            return _emit(statement)
        case typed.EmitMeta(slot=slot, key=key, value=value):
            return _emit_meta(slot, key, expressions.compile(value))
        case typed.Filter() | typed.Distinct() if inside_each:
            return _misplaced(type(statement).__name__.lower())
        case typed.Filter(predicate=predicate):
            return _filter(expressions.compile(predicate))
        case typed.Distinct():
            return _distinct(statement)
        case typed.Trace():
            return _trace(statement)
        case typed.Each():
            return _each(statement)
        case typed.Evaluate(value=value):
            return _evaluate(expressions.compile(value))
        case _:
            raise TypeError(f"no statement: {statement!r}")


def _statement_again(statement: typed.Statement) -> Step:
    match statement:
        case typed.Distinct() | typed.Trace():
            return lambda row: None
        case _:
            return _statement(statement)


def _let(slot: int, value: Callable[[Row], Any]) -> Step:
    def step(row: Row) -> None:
        row.slots[slot] = value(row)

    return step


def _emit(statement: typed.Emit) -> Step:
    name, slot, value = statement.name, statement.slot, expressions.compile(statement.value)

    def plain(row: Row) -> None:
        try:
            row.fields[name] = row.slots[slot] = value(row)
        except failure.Failure as problem:
            problem.field = name
            raise

    def checked(row: Row) -> None:
        try:
            result = value(row)
            if not values.is_finite(result):
                raise failure.not_finite(result)
        except failure.Failure as problem:
            problem.field = name
            raise
        row.fields[name] = row.slots[slot] = result

    def unnamed(row: Row) -> None:
        row.fields[name] = row.slots[slot] = value(row)

    static = statement.value.type
    if name.startswith("$"):  # a value on its way to another part of the node, not a field
        return unnamed
    return checked if static.kind is Kind.FLOAT or static.is_dynamic or static.kind is Kind.ARRAY else plain


def _emit_meta(slot: int, key: str, value: Callable[[Row], Any]) -> Step:
    def step(row: Row) -> None:
        row.metas[key] = row.slots[slot] = value(row)

    return step


def _evaluate(value: Callable[[Row], Any]) -> Step:
    def step(row: Row) -> None:
        value(row)

    return step


def _filter(predicate: Callable[[Row], Any]) -> Step:
    def step(row: Row) -> Stop | None:
        return None if predicate(row) is True else Stop.FILTERED

    return step


def _misplaced(statement: str) -> Step:
    def step(row: Row) -> None:
        raise failure.type_mismatch("let / emit / trace / nested emit each inside emit each body", statement)

    return step


def distinct_key(statement: typed.Distinct) -> Callable[[Row], tuple[Any, ...]]:
    """The function that gives a row's key for a `distinct`; NaN, arrays and maps raise `Failure`."""
    parts = [expressions.compile(key) for key in statement.keys]

    def key(row: Row) -> tuple[Any, ...]:
        found = [part(row) for part in parts]
        try:
            return tuple(map(values.key_of, found))
        except TypeError:
            wrong = next(value for value in found if value.__class__ in (list, dict) or value != value)
            raise failure.type_mismatch("hashable value", values.kind_name(wrong)) from None

    return key


def _distinct(statement: typed.Distinct) -> Step:
    key_of_row, number = distinct_key(statement), statement.number

    def step(row: Row) -> Stop | None:
        key = key_of_row(row)
        seen = row.context.seen.setdefault(number, set())
        if key in seen:
            return Stop.DUPLICATE
        seen.add(key)
        return None

    return step


def _trace(statement: typed.Trace) -> Step:
    guard = expressions.compile(statement.guard) if statement.guard else None
    message, level = expressions.compile(statement.message), statement.level

    def step(row: Row) -> None:
        if guard is None or guard(row) is True:
            tracing.write(level, message(row))

    return step


def _each(statement: typed.Each) -> Step:
    source, slot, outer, limit = (
        expressions.compile(statement.source),
        statement.slot,
        statement.outer,
        statement.limit,
    )
    steps = [_statement(inner, inside_each=True) for inner in statement.body]
    nests = any(isinstance(inner, typed.Each) for inner in statement.body)

    def step(row: Row) -> None:
        items = source(row)
        if items is not None and items.__class__ is not list:
            raise failure.type_mismatch("Array", values.kind_name(items))
        if row.children is None:
            row.children = []
        fields, metas = row.fields, row.metas
        elements = items or ([None] if outer else [])
        # Before any of them is made: they may be long.
        if not nests and len(row.children) + len(elements) > limit:
            raise failure.expansion_limit(limit)
        for item in elements:
            row.slots[slot] = item
            row.fields, row.metas = dict(fields), dict(metas)
            for inner in steps:
                inner(row)
            if not nests:
                row.children.append((row.fields, row.metas))
        row.fields, row.metas = fields, metas

    return step

"""CXL on Arrow: a typed program as kernels over record batches.

Kernels are optimistic. Rows that they cannot decide (a failed conversion, an overflow) are deferred to the interpreter,
which finds the exact value or failure of each; the rest of the batch never runs again. Expressions without a kernel
run row by row, and are listed in `interpreted`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, tracing, tree_walk, typed, types, values
from spark_jobs.cxl.interpreter import interpreter
from spark_jobs.cxl.kernels import distinct, each, rejections
from spark_jobs.cxl.kernels.deferred import Deferred
from spark_jobs.cxl.kernels.expressions import ExpressionCompiler
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, as_array
from spark_jobs.cxl.kernels.state import Names, State, Step, concatenated
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def compile(program: typed.Program) -> engine.BatchProgram:
    """A program ready to run on batches, a `BatchProgram`."""
    has_each = any(isinstance(statement, typed.Each) for statement in program.statements)
    kind = RowProgram if has_each and not each.is_native(program) else KernelProgram
    if not tree_walk.is_deep(program):
        return kind(program)
    with tree_walk.room():
        return DeepProgram(kind(program))


class DeepProgram:
    """A program so deeply nested that running it takes more stack than Python grants by default."""

    def __init__(self, program: engine.BatchProgram) -> None:
        self._run = program
        self.interpreted = program.interpreted

    def __call__(self, batch: pa.RecordBatch, context: engine.EvaluationContext) -> engine.BatchResult:
        """Run the program on a batch."""
        with tree_walk.room():
            return self._run(batch, context)


class KernelProgram:
    """A program whose statements are kernels; see `BatchProgram`."""

    def __init__(self, program: typed.Program) -> None:
        compiler = ExpressionCompiler(program)
        compiler.repeated = _repeated(program, compiler)
        self._program = program
        self._interpreter = interpreter.compile(program)
        self._reads_clock = tree_walk.reads_clock(program)
        self._steps = [_step(program, number, compiler) for number in range(len(program.statements))]
        self.interpreted = tuple(compiler.interpreted)

    def __call__(self, batch: pa.RecordBatch, context: engine.EvaluationContext) -> engine.BatchResult:
        """Run the program on a batch."""
        frame = Frame.of(batch, context)
        clock = frame.clock if self._reads_clock else None
        state = State(frame, Deferred(self._program, self._interpreter, batch, context, clock))
        for number, step in enumerate(self._steps):
            step(state)
            state.defer_bad(number)
        return _result(self._program, state, batch.num_rows)


class RowProgram:
    """A program whose blocks have statements without kernels: the interpreter runs every row."""

    def __init__(self, program: typed.Program) -> None:
        self._program = program
        self._interpreter = interpreter.compile(program)
        self._reads_clock = tree_walk.reads_clock(program)
        start, end = next(s.place for s in program.statements if isinstance(s, typed.Each))
        self.interpreted: tuple[tuple[str, str], ...] = (
            (
                program.text[start:end].split("{")[0].strip(),
                "a block with `filter` or `distinct` fails record by record",
            ),
        )

    def __call__(self, batch: pa.RecordBatch, context: engine.EvaluationContext) -> engine.BatchResult:
        """Run the program on a batch."""
        frame = Frame.of(batch.slice(0, 0), context)
        clock = frame.clock if self._reads_clock else None
        deferred = Deferred(self._program, self._interpreter, batch, context, clock)
        deferred.add(list(range(batch.num_rows)), 0)
        state = State(frame, deferred)
        return _result(self._program, state, batch.num_rows)


def _repeated(program: typed.Program, compiler: ExpressionCompiler) -> set[Any]:
    """The signatures of computations that stand in several places."""
    counts: Counter[Any] = Counter()
    for statement in program.statements:
        for node in tree_walk.walk(statement):
            if isinstance(node, typed.Expression) and any(True for _ in tree_walk.parts(node)):
                counts[compiler.analysis.facts(node).key] += 1
        if isinstance(statement, typed.Let | typed.Emit | typed.EmitMeta):
            compiler.assigned(statement.slot, statement.value)
    compiler.analysis.versions.clear()
    compiler.constants.clear()
    return {key for key, count in counts.items() if count > 1}


def _step(program: typed.Program, number: int, compiler: ExpressionCompiler) -> Step:
    """The step of a statement; rows that fail for reasons which kernels know are rejected at once."""
    statement = program.statements[number]
    known = rejections.rejections_of(statement, program.expression(number), compiler)
    if isinstance(statement, typed.Filter):
        return _filter(number, compiler.condition(statement.predicate), known)
    step = _statement(statement, number, compiler, Names.of(program))
    return rejections.with_rejections(step, known) if known else step


def _statement(
    statement: typed.Statement, number: int, compiler: ExpressionCompiler, names: Names, *, in_block: bool = False
) -> Step:
    match statement:
        case typed.Let(slot=slot, value=value):
            step = _let(slot, compiler.compile(value))
            compiler.assigned(slot, value)
        case typed.Emit(slot=slot, value=value):
            step = _emit(statement, compiler.compile(value))
            compiler.assigned(slot, value)
        case typed.EmitMeta(slot=slot, value=value):
            step = _emit_meta(statement, compiler.compile(value))
            compiler.assigned(slot, value)
        case typed.Filter(predicate=predicate):
            step = _filter(number, compiler.condition(predicate), [])
        case typed.Distinct():
            step = _distinct(statement, number, [compiler.compile(key) for key in statement.keys])
        case typed.Trace():
            step = _traced(statement, compiler) if in_block else _trace(statement, compiler)
        case typed.Each(source=source, body=body):
            elements = compiler.compile(source)
            inner = [_statement(one, number, compiler, names, in_block=True) for one in body]
            step = each.each(statement, elements, inner, names)
        case typed.Evaluate(value=value):
            step = _evaluate(compiler.compile(value))
        case _:
            raise TypeError(f"no statement: {statement!r}")
    return step


def _let(slot: int, value: Evaluate) -> Step:
    def step(state: State) -> None:
        state.frame.set_slot(slot, as_array(value(state.frame), state.frame.count))

    return step


def _evaluate(value: Evaluate) -> Step:
    def step(state: State) -> None:
        value(state.frame)

    return step


def _emit(statement: typed.Emit, value: Evaluate) -> Step:
    name, slot, static = statement.name, statement.slot, statement.value.type
    # A name with a dollar sign is a value on its way to another part of the node, not a field.
    check = None if name.startswith("$") else _finiteness(static)

    def step(state: State) -> None:
        frame = state.frame
        array = as_array(value(frame), frame.count)
        if check is not None:
            frame.mark(check(array))
        frame.set_slot(slot, array)
        state.emits[name] = (array, static)

    return step


def _finiteness(static: types.Type) -> Callable[[pa.Array], pa.Array | None] | None:
    """A function that finds rows with a NaN or an infinity. It may find too many; the interpreter decides."""
    if static.is_dynamic:
        return lambda array: pc.fill_null(pc.match_substring(array, '"$float"'), False)
    if static.kind is Kind.FLOAT:
        return lambda array: pc.invert(pc.fill_null(pc.is_finite(array), True))
    if static.kind is Kind.ARRAY and static.element is not None and static.element.kind is Kind.FLOAT:

        def in_lists(array: pa.Array) -> pa.Array | None:
            odd = pc.invert(pc.fill_null(pc.is_finite(array.flatten()), True))
            bad = np.zeros(len(array), dtype=bool)
            bad[pc.list_parent_indices(array).filter(odd).to_numpy()] = True
            return pa.array(bad)

        return in_lists
    return None


def _emit_meta(statement: typed.EmitMeta, value: Evaluate) -> Step:
    key, slot, static = statement.key, statement.slot, statement.value.type

    def step(state: State) -> None:
        array = as_array(value(state.frame), state.frame.count)
        state.frame.set_slot(slot, array)
        state.metas[key] = (array, static)

    return step


def _filter(number: int, predicate: Evaluate, known: Sequence[rejections.Rejection]) -> Step:
    def step(state: State) -> None:
        passing = pc.fill_null(as_array(predicate(state.frame), state.frame.count), False)
        good = rejections.reject(state, known)
        if good is not None:
            passing = passing.filter(good)
        good = state.defer_bad(number)
        if good is not None:
            passing = passing.filter(good)
        state.filtered += len(passing) - pc.sum(passing, min_count=0).as_py()
        state.keep(passing)

    return step


def _distinct(statement: typed.Distinct, number: int, keys: list[Evaluate]) -> Step:
    kinds = [key.type for key in statement.keys]

    def step(state: State) -> None:
        found = [as_array(key(state.frame), state.frame.count) for key in keys]
        state.frame.mark(distinct.unhashable(found, kinds))
        good = state.defer_bad(number)
        if good is not None:
            found = [array.filter(good) for array in found]
        frame = state.frame
        rivals = state.deferred.keys_at(number, statement)
        seen = frame.context.seen.setdefault(statement.number, set())
        if rivals:
            first, duplicates = distinct.first_among(found, kinds, frame.positions(), rivals, seen)
            state.deferred.decide(duplicates)
        else:
            first = distinct.first_seen(found, kinds, frame.count, seen)
        state.duplicates += frame.count - pc.sum(first, min_count=0).as_py()
        state.keep(first)

    return step


def _trace(statement: typed.Trace, compiler: ExpressionCompiler) -> Step:
    guard = compiler.condition(statement.guard) if statement.guard is not None else None
    message = compiler.compile(statement.message)
    static, level = statement.message.type, statement.level

    def step(state: State) -> None:
        frame = state.frame
        wanted = (
            pc.fill_null(as_array(guard(frame), frame.count), False)
            if guard
            else pa.repeat(pa.scalar(True), frame.count)
        )
        if frame.bad is not None:
            wanted = pc.and_not(wanted, frame.bad)
        if not pc.any(wanted, min_count=0).as_py():
            return
        texts = frame.inside(wanted, message)
        if frame.bad is not None:
            logged = pc.and_not(wanted, frame.bad)
            texts, wanted = texts.filter(logged.filter(wanted)), logged
        if not tracing.is_enabled(level):
            return
        positions = frame.positions().filter(wanted).to_pylist()
        for text, position in zip(values.from_arrow(texts, static), positions, strict=True):
            tracing.write(level, text, position)

    return step


def _traced(statement: typed.Trace, compiler: ExpressionCompiler) -> Step:
    """A log line in a block. Rows that log are left to the interpreter, which logs for each element."""
    guard = compiler.condition(statement.guard) if statement.guard is not None else None
    message, level = compiler.compile(statement.message), statement.level

    def step(state: State) -> None:
        frame = state.frame
        logged = pc.fill_null(as_array(guard(frame), frame.count), False) if guard else None
        if logged is None:
            message(frame)
            logged = pa.repeat(pa.scalar(True), frame.count)
        else:
            frame.inside(logged, message)
        if tracing.is_enabled(level):
            frame.mark(logged)

    return step


def _exploded(program: typed.Program, state: State) -> engine.BatchResult:
    """The result of a program with blocks: the records that they have made."""
    finished = state.deferred.finish()
    records = concatenated(state.made, Names.of(program))
    result = engine.BatchResult(
        rows=state.frame.positions().take(pa.array(records.rows)),
        emits=records.emits,
        metas=records.metas,
        emitted=records.emitted,
        filtered=state.filtered + finished.filtered,
        duplicates=state.duplicates + finished.duplicates,
        failures=finished.all_failures(),
    )
    return finished.merged_into(result) if finished.rows else result


def _result(program: typed.Program, state: State, count: int) -> engine.BatchResult:
    """The batch's result: what kernels made, with the interpreter's records put in by row order."""
    if state.made:
        return _exploded(program, state)
    finished = state.deferred.finish()
    whole = state.frame.count == count and not finished.rows
    result = engine.BatchResult(
        rows=None if whole else state.frame.positions(),
        emits={name: _typed(state.emits.get(name), static, state.frame.count) for name, static in program.emits},
        metas={key: _typed(state.metas.get(key), static, state.frame.count) for key, static in program.metas},
        filtered=state.filtered + finished.filtered,
        duplicates=state.duplicates + finished.duplicates,
        failures=finished.all_failures(),
    )
    return finished.merged_into(result) if finished.rows else result


def _typed(found: tuple[pa.Array, types.Type] | None, wanted: types.Type, count: int) -> pa.Array:
    """An emitted column in the type that the program declares for it."""
    return pa.nulls(count, values.arrow_type(wanted)) if found is None else values.retyped(*found, wanted)

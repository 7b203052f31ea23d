"""Runs programs through both engines and says what became of every record, in a form that can be compared."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_jobs.cxl import compile as front
from spark_jobs.cxl import engine, typed, types, values
from spark_jobs.cxl.checking.scope import Scope
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.interpreter import interpreter
from spark_jobs.cxl.kernels import kernels
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics.source import Text

Record = Mapping[str, Any]


@dataclass
class Outcome:
    """What became of one record: its outputs with their metadata, or why there are none."""

    outputs: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    failure: tuple[str, str, str | None] | None = None


def program_of(text: str, columns: Mapping[str, types.Type] | None = None, **scope: Any) -> typed.Program:
    """The typed tree of a program over nullable columns of these types; pickled once, as it travels to executors."""
    row = Schema(tuple(Column(name, static.or_null()) for name, static in (columns or {}).items()))
    compiled = front.compile_program(Text.whole(text), Scope(row=row, **scope), "test")
    assert isinstance(compiled.program, typed.Program), [str(problem) for problem in compiled.diagnostics]
    return pickle.loads(pickle.dumps(compiled.program))


def _failed(failure: Failure) -> Outcome:
    return Outcome(failure=(str(failure.category), failure.detail, failure.field))


def by_interpreter(
    program: typed.Program, records: Sequence[Record], around: Mapping[str, Any] | None = None
) -> list[Outcome]:
    """Each record's outcome in the engine that defines the meaning."""
    run, context = interpreter.compile(program), engine.EvaluationContext(around or {})
    outcomes: list[Outcome] = []
    for record in records:
        try:
            result = run(record, context)
        except Failure as failure:
            outcomes.append(_failed(failure))
        else:
            outcomes.append(Outcome(list(zip(result.outputs, result.metas, strict=True))))
    return outcomes


def batch_of(columns: Mapping[str, types.Type], records: Sequence[Record]) -> pa.RecordBatch:
    """The records as a batch."""
    arrays = {
        name: values.to_arrow([record.get(name) for record in records], static) for name, static in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays or {"": pa.nulls(len(records))})


def by_kernels(
    program: typed.Program,
    columns: Mapping[str, types.Type],
    records: Sequence[Record],
    around: Mapping[str, Any] | None = None,
    batch_rows: int | None = None,
) -> list[Outcome]:
    """Each record's outcome in the Arrow engine; counts and positions of the result are checked on the way."""
    run, context = kernels.compile(program), engine.EvaluationContext(around or {})
    outcomes: list[Outcome] = []
    step = batch_rows or max(len(records), 1)
    for start in range(0, len(records), step):
        part = records[start : start + step]
        outcomes.extend(_outcomes(program, run(batch_of(columns, part), context), len(part)))
    return outcomes


def _outcomes(program: typed.Program, result: engine.BatchResult, count: int) -> list[Outcome]:
    outcomes = [Outcome() for _ in range(count)]
    rows = list(range(count)) if result.rows is None else result.rows.to_pylist()
    assert rows == sorted(rows)
    emits = {name: values.from_arrow(result.emits[name], static) for name, static in program.emits}
    metas = {key: values.from_arrow(result.metas[key], static) for key, static in program.metas}
    emitted = {name: mask.to_pylist() for name, mask in result.emitted.items()}
    for name, static in program.emits:
        assert result.emits[name].type == values.arrow_type(static)
        assert len(result.emits[name]) == len(rows)
    for index, row in enumerate(rows):
        fields = {name: items[index] for name, items in emits.items() if name not in emitted or emitted[name][index]}
        outcomes[row].outputs.append((fields, {key: items[index] for key, items in metas.items()}))
    for failing in result.failures:
        assert not outcomes[failing.row].outputs
        outcomes[failing.row] = _failed(failing.failure)
    silent = sum(not outcome.outputs and outcome.failure is None for outcome in outcomes)
    if not any(isinstance(statement, typed.Each) for statement in program.statements):
        assert silent == result.filtered + result.duplicates
    return outcomes


def same(left: Any, right: Any) -> bool:
    """Equality to the last bit and kind: 1 is not 1.0, 1.5d not 1.50d, NaN is NaN, the order of keys counts."""
    if left.__class__ is not right.__class__:
        return False
    if isinstance(left, Decimal):
        return bool(left.as_tuple() == right.as_tuple())
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right


def check_agreement(
    text: str,
    columns: Mapping[str, types.Type],
    records: Sequence[Record],
    batch_rows: int | None = None,
    around: Mapping[str, Any] | None = None,
    **scope: Any,
) -> list[Outcome]:
    """Asserts that both engines make the same of all records; gives the outcomes."""
    program = program_of(text, columns, **scope)
    wanted = by_interpreter(program, records, around)
    got = by_kernels(program, columns, records, around, batch_rows)
    for record, one, other in zip(records, wanted, got, strict=True):
        assert one.failure == other.failure, (text, record, one, other)
        found = [fields for fields, _ in other.outputs]
        order = [
            {name: fields[name] for name in dict(other_fields)}
            for (fields, _), other_fields in zip(one.outputs, found, strict=True)
        ]
        assert same(order, found), (text, record, order, found)
        assert all(
            same(metas.get(key), value)
            for (_, metas), (_, others) in zip(one.outputs, other.outputs, strict=True)
            for key, value in others.items()
        ), (text, record)
    return wanted

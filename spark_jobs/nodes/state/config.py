"""The configuration of state nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed
from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.cxl.schema import Column
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes import member_reads, program_reads
from spark_jobs.nodes.binding import BindScope, Bound, NodeType, Wiring, report
from spark_jobs.nodes.model import Config, Name, NodeConfig, Text, choice
from spark_jobs.nodes.records.columns import value as column_of
from spark_jobs.nodes.state import fitting
from spark_jobs.nodes.state.step import RECORD, SOURCE, Assignment, StateStep
from spark_jobs.nodes.terms.description import (
    ColumnDerivation,
    Description,
    Expression,
    PlanContext,
    no_files,
    passed_on,
    runs,
)
from spark_jobs.nodes.terms.required_columns import RequiredColumns
from spark_jobs.nodes.transform.config import Phase, VariableScope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl import types

#: The types of variables for which a method converts values.
_CONVERTED = (Kind.STRING, Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.BOOL, Kind.DATE, Kind.DATETIME)


class AssignmentConfig(Config):
    """An entry of `set`."""

    var: Name
    cxl: Text


class StateConfig(NodeConfig):
    """`config:` of a state node."""

    name: Name | None = None
    scope: choice(VariableScope)  # type: ignore[valid-type]
    phase: choice(Phase) = Phase.RUNTIME  # type: ignore[valid-type]
    set: list[AssignmentConfig]

    @property
    def is_init(self) -> bool:
        return self.phase is Phase.INIT

    @property
    def sets(self) -> tuple[str, ...]:
        return tuple(f"{self.scope}.{entry.var}" for entry in self.set)


def bind(config: StateConfig, scope: BindScope) -> Bound | None:
    """The step of a state node. Records pass unchanged, except for their own variables that the node sets."""
    feed = scope.feeds[0]
    declared = scope.variables(str(config.scope))
    assignments: list[Assignment] = []
    fits = True
    for index, entry in enumerate(config.set):
        program = scope.compile("config", "set", index, "cxl", mode=cxl_scope.Mode.STATE, flow=feed.flow)
        kind = declared.get(entry.var)
        if kind is None:
            fits = False
            message = f"state node '{scope.name}' sets `${config.scope}.{entry.var}`, which is not declared"
            hint = nearest.hint(entry.var, declared) or f"declare it under `pipeline.vars.{config.scope}`"
            report(scope, codes.E015, message, "config", "set", index, "var", help=hint)
        elif program is None:
            fits = False
        else:
            path = f"{config.scope}.{entry.var}"
            assignment = Assignment(path, kind.or_null(), _named(program, path))
            problem = _problem(assignment)
            if problem is None:
                assignments.append(assignment)
            else:
                fits = False
                remedy = _remedy(kind, fitting.given_type(assignment))
                report(scope, codes.E200, problem, "config", "set", index, "cxl", help=remedy)
    if not fits:
        return None
    step = StateStep(scope.name, str(config.scope), tuple(assignments), config.phase is Phase.INIT)
    added = [Column(column_of(each.path), each.type, scope.name) for each in assignments if config.scope == RECORD]
    row = feed.flow.schema.with_columns(*added)
    return Bound(step, {"": feed.flow.with_row(row, feed.flow.emitted)})


def _named(program: typed.Program | typed.AggregateProgram, path: str) -> typed.Program | typed.AggregateProgram:
    """The program with the variable's path as the name of its value, so that failures show it."""
    if isinstance(program, typed.AggregateProgram):
        after = _named(program.after, path)
        assert isinstance(after, typed.Program)
        return replace(program, after=after)
    *before, last = program.statements
    assert isinstance(last, typed.Emit)
    return replace(program, statements=(*before, replace(last, name=path)), emits=((path, program.emits[-1][1]),))


def _problem(assignment: Assignment) -> str | None:
    """The problem of an assignment's value; None if there is none."""
    if assignment.is_total and assignment.path.startswith(f"{RECORD}."):
        return f"`${assignment.path}` is of one record, and an aggregate function is of all"
    given = fitting.given_type(assignment)
    if not fitting.accepts(assignment.type, given) or fitting.has_more_digits(assignment.type, given):
        return f"`${assignment.path}` is declared as {assignment.type.non_null()}, and this is {given}"
    return None


def _remedy(kind: types.Type, given: types.Type) -> str | None:
    """The remedy for a value whose type is not the declared one."""
    if fitting.has_more_digits(kind, given):
        return f"round the value with `.round({kind.scale})`"
    if kind.kind is Kind.DECIMAL and kind.scale is not None:
        return f"convert the value with `.to_decimal({kind.scale})`"
    return f"convert the value with `.to_{str(kind.kind).lower()}()`" if kind.kind in _CONVERTED else None


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    """The columns that pass through, and the columns that assignments and their aggregate functions read."""
    for assignment in step.assignments:
        wanted |= member_reads.read(assignment.by_record)
        if isinstance(assignment.value, typed.AggregateProgram):
            given = {name for call in assignment.value.calls for name in call.arguments if not name.startswith("$")}
            wanted |= RequiredColumns(frozenset(given))
    return (wanted,)


def _facts(step: StateStep, context: PlanContext) -> dict[str, str]:
    phase = "init, over before anything else is read" if step.is_init else "runtime"
    return {"sets": ", ".join(f"${path}" for path in dict.fromkeys(step.member_properties.sets)), "phase": phase}


def _programs(step: StateStep) -> Iterator[Expression]:
    why = "records depend on those before them" if step.is_running else ""
    for assignment in step.assignments:
        value = assignment.value
        parts = (value.before, value.after) if isinstance(value, typed.AggregateProgram) else (value,)
        for number, part in enumerate(parts):
            yield Expression(assignment.path, part, None if number else assignment.path, why)


def _parallel(step: StateStep) -> str:
    if not step.is_running:
        return "record"
    return "file" if step.scope == SOURCE else "nothing"


def _trace(step: StateStep, column: str) -> ColumnDerivation:
    """The derivation of a variable from its assignments, and from its earlier value if that is read."""
    setting = [each for each in step.assignments if column_of(each.path) == column]
    if not setting:
        return passed_on(step, column)
    return ColumnDerivation(
        "set", tuple((0, name) for each in setting for name in program_reads.inputs_of(each.value, each.path))
    )


DESCRIPTION = Description(
    parallel=_parallel,
    facts=_facts,
    programs=_programs,
    trace=_trace,
    details=None,
    unready=runs,
    files=no_files,
)
NODE = NodeType("state", Wiring.ONE, StateConfig, bind, _reads, DESCRIPTION, is_end=True)

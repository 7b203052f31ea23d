"""State nodes as users write them (book: scoped variables)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.binding import BindScope, Bound, NodeType, Wiring, report
from spark_jobs.nodes.model import Config, Name, NodeConfig, Text, choice
from spark_jobs.nodes.state.step import Assignment, StateStep
from spark_jobs.nodes.terms.description import Description, Expression, no_facts, no_files, passed_on, runs
from spark_jobs.nodes.transform.config import Phase, VariableScope

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        """With `phase: init`."""
        return self.phase is Phase.INIT

    @property
    def sets(self) -> tuple[str, ...]:
        """Those under `set`."""
        return tuple(f"{self.scope}.{entry.var}" for entry in self.set)


def bind(config: StateConfig, scope: BindScope) -> Bound | None:
    """The step of a state node; records pass unchanged."""
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
        elif not _accepts(kind, (value := _value(program))):
            fits = False
            message = f"`${config.scope}.{entry.var}` is declared as {kind.kind}, and this is {value}"
            report(scope, codes.E200, message, "config", "set", index, "cxl")
        else:
            assignments.append(Assignment(f"{config.scope}.{entry.var}", kind, program))
    if not fits:
        return None
    step = StateStep(scope.name, str(config.scope), tuple(assignments), config.phase is Phase.INIT)
    return Bound(step, {"": feed.flow}, scope.pending("state nodes", "type"))


def _value(program: typed.Program | typed.AggregateProgram) -> types.Type:
    """The type of an assignment's value."""
    last = program.after if isinstance(program, typed.AggregateProgram) else program
    return last.emits[-1][1]


def _accepts(declared: types.Type, given: types.Type) -> bool:
    return types.unify(declared.non_null(), given.non_null()) is not None


def _reads(step: Any, wanted: frozenset[str]) -> tuple[frozenset[str], ...]:
    programs = [getattr(assignment.value, "before", assignment.value) for assignment in step.assignments]
    return (wanted.union(*(program.columns for program in programs)),)


def _programs(step: StateStep) -> Iterator[Expression]:
    for assignment in step.assignments:
        value = assignment.value
        parts = (value.before, value.after) if isinstance(value, typed.AggregateProgram) else (value,)
        for part in parts:
            yield Expression(assignment.path, part, assignment.path)


DESCRIPTION = Description(
    parallel="record",
    facts=no_facts,
    programs=_programs,
    trace=passed_on,
    details=None,
    unready=runs,
    files=no_files,
)
NODE = NodeType("state", Wiring.ONE, StateConfig, bind, _reads, DESCRIPTION, is_end=True)

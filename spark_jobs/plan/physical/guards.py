"""Tracks credentials through a plan: from columns with such names through expressions, renames and variables.

A value computed from a credential is as secret as the credential: `emit pin = password.substring(0, 4)` makes `pin`
one, and a node whose condition reads it shows no values where the condition fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs import credentials
from spark_jobs.cxl import tree_walk, typed
from spark_jobs.nodes import program_reads, registry
from spark_jobs.nodes.output.step import OutputStep
from spark_jobs.nodes.records import columns
from spark_jobs.nodes.records.guarded import OPEN, Guard
from spark_jobs.nodes.terms.required_columns import NOTHING
from spark_jobs.plan.plan import cached_on_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_jobs.plan.plan import Plan, PlannedNode

    #: The programs of a node, each with the names that it reads.
    Programs = list[tuple[typed.Program, frozenset[str]]]
    #: Columns and variables of each node that are derived from credentials, besides those with names of credentials.
    Found = Mapping[str, frozenset[str]]


@cached_on_plan
def of(plan: Plan) -> dict[str, Guard]:
    """The values that must not be shown at each node because they are computed from credentials, by node name."""
    programs = {planned.name: _programs(planned) for planned in plan.nodes}
    written = {column.source for step in plan.outputs.values() for column in step.columns if column.source}
    asked = {planned.name: _asked(planned) for planned in plan.nodes}
    read = frozenset(written).union(*asked.values(), *(names for each in programs.values() for _, names in each))
    if not any(map(credentials.is_secret, read)):
        return {}
    found: dict[str, frozenset[str]] = {planned.name: frozenset() for planned in plan.nodes}
    guards: dict[str, Guard] = {}
    before: Found = {}
    while before != found:  # a variable may be read by the node that sets another one
        before = dict(found)
        for planned in plan.nodes:
            coming = _variables(planned, found).union(*(found[edge.node] for edge in planned.inputs))
            reading = [program for program, names in programs[planned.name] if _has_secret(names, coming)]
            is_read = bool(reading) or _has_secret(asked[planned.name], coming)
            found[planned.name] = _made(planned, programs[planned.name], reading, coming, is_read=is_read)
            guards[planned.name] = Guard(coming | found[planned.name], is_read)
    return {name: guard for name, guard in guards.items() if guard != OPEN}


def _programs(planned: PlannedNode) -> Programs:
    if planned.step is None:
        return []
    programs = (each.program for each in registry.described(planned.kind).programs(planned.step))
    return [(program, _read(program)) for program in programs]


def _asked(planned: PlannedNode) -> frozenset[str]:
    """The columns that a node needs for itself, keys and arguments of aggregate functions included."""
    if planned.step is None:
        return frozenset()
    reads = registry.node_types()[planned.kind].reads(planned.step, NOTHING)
    return frozenset[str]().union(*(wanted.names for wanted in reads))


def _read(program: typed.Program) -> frozenset[str]:
    """The names of all that a program reads: columns, variables, members of maps."""
    return frozenset(name for statement in program.statements for name in _names(statement))


def _names(node: object) -> Iterator[str]:
    for part in tree_walk.walk(node):
        match part:
            case typed.Column(name=name) | typed.Index(index=typed.Literal(value=str() as name)):
                yield name
            case typed.WindowCall(field=str() as name):
                yield name
            case typed.System(path=path):
                yield columns.value(path)


def _has_secret(names: Iterable[str], coming: frozenset[str]) -> bool:
    """True if one of some names is a credential's, or of what one has gone into; inputs may stand before names."""
    return any(credentials.is_secret(name) or name in coming or name.partition(".")[2] in coming for name in names)


def _variables(planned: PlannedNode, found: Found) -> frozenset[str]:
    """The variables that a node reads and that credentials have gone into."""
    reads_variables = () if planned.step is None else planned.step.reads_variables
    return frozenset(
        columns.value(each.path)
        for each in reads_variables
        if any(columns.value(each.declared) in found[setter] for setter in each.setters)
    )


def _made(
    planned: PlannedNode, programs: Programs, reading: list[typed.Program], coming: frozenset[str], *, is_read: bool
) -> frozenset[str]:
    """The columns, fields and variables that a node computes from credentials.

    `reading` are its programs that read some; `is_read` says whether these programs or the node itself read any.
    """
    if planned.step is None or not (is_read or coming or isinstance(planned.step, OutputStep)):
        return frozenset()
    emitted = {name for program, _ in programs for name, _ in program.emits}
    found = set[str]().union(*(_emitted(program, coming) for program in reading))
    variables = {columns.value(path): path for path in planned.step.member_properties.sets}
    traced = set(variables)
    if isinstance(planned.step, OutputStep):
        traced |= {column.name for column in planned.step.columns}
    for row in planned.outputs.values():
        traced |= {column.name for column in row.user_columns}
    # The programs of a group do not show everything: its functions take values from one and give them to the other.
    is_whole = planned.step.record_properties.group_by is None or not is_read
    for name in traced - emitted if is_whole else traced:
        made = registry.described(planned.kind).trace(planned.step, name)
        if _has_secret((column for _, column in made.reads), coming):
            found |= {name, variables.get(name, name)}
    return frozenset(name for name in found if not credentials.is_secret(name))


def _emitted(program: typed.Program, coming: frozenset[str]) -> set[str]:
    """The fields that a program makes of credentials, through lets and earlier fields, in one go through the program.

    Where members of maps are credentials, all fields are.
    """
    if any(map(credentials.is_secret, _members(program))):
        return {name for name, _ in program.emits}
    waiting: list[tuple[int | None, str | None, set[int]]] = []
    slots: set[int] = set()
    found: set[str] = set()
    for slot, name, value in program_reads.values(program):
        if _has_secret(_names(value), coming):
            slots |= set() if slot is None else {slot}
            found |= set() if name is None else {name}
        else:
            local = {part.slot for part in tree_walk.walk(value) if isinstance(part, typed.Local)}
            waiting.append((slot, name, local))
    is_new = True
    while is_new:
        made = [each for each in waiting if not each[2].isdisjoint(slots)]
        found |= {name for _, name, _ in made if name is not None}
        more = {slot for slot, _, _ in made if slot is not None} - slots
        slots |= more
        is_new = bool(more)
    return found


def _members(program: typed.Program) -> Iterator[str]:
    for statement in program.statements:
        for part in tree_walk.walk(statement):
            if isinstance(part, typed.Index) and isinstance(part.index, typed.Literal):
                yield str(part.index.value)

"""Splits a transform with windows or `distinct` into phases.

For windows, the rows of a partition are exchanged first, and continue with the functions' results in engine columns
`$ranged.N`. A `distinct` divides a program into the part before it, the exchange of equal keys, and the part after it.

The results of the first part travel as engine columns: `$slot.N` for the values of lets and emits, `$key.N` for the
keys. The last part emits all fields, in the order of the program. Until then input columns keep their values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.cxl import typed
from spark_jobs.nodes import node
from spark_jobs.nodes.records.columns import KEY, SLOT
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.properties import MemberProperties
from spark_jobs.nodes.windows import decompose

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.cxl import types
    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.nodes.terms.sort import SortField
    from spark_jobs.nodes.transform.step import LogDirective, TransformStep
    from spark_jobs.nodes.windows.call import Call, Match


@dataclass(frozen=True)
class Window:
    """A bound `analytic_window`.

    Args:
        group_by: the partition's columns, among the columns of the rows that the window ranges over.
        sort_by: the order in a partition.
        source: the source whose rows the window ranges over; None for the node's own input.
        matches: with `source`: the columns of the record and of the source that must be equal.
        fields: the columns that window functions read.
        values: the system values that window functions read, by path.
        spare: the columns that only the window's fields and functions read.
        types: the column types of the rows that the window ranges over.
    """

    group_by: tuple[str, ...]
    sort_by: tuple[SortField, ...] = ()
    source: str | None = None
    matches: tuple[Match, ...] = ()
    fields: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    spare: frozenset[str] = frozenset()
    types: tuple[tuple[str, types.Type], ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads of the rows that it ranges over."""
        sorts = {field.name for field in self.sort_by}
        return frozenset({*self.group_by, *sorts, *(match.there for match in self.matches)}) | self.fields


@dataclass(frozen=True)
class WindowStep(node.Step):
    """All window functions of the transform `name`. Each record continues with their results as columns.

    Args:
        keys: the columns of `group_by`, with their types.
        fields: `sort_by`.
        calls: the functions, in the order in which they are computed.
        spare: the columns that nothing downstream reads.
        log: directives for records that belong to no partition, because they have no keys.
    """

    kind: ClassVar[str] = "transform"

    keys: tuple[tuple[str, types.Type], ...]
    fields: tuple[SortField, ...]
    calls: tuple[Call, ...]
    spare: frozenset[str] = frozenset()
    log: tuple[LogDirective, ...] = ()

    @property
    def module(self) -> str:
        """The module of the operators, next to the module of whole transforms."""
        return "window_run"


@dataclass(frozen=True)
class AcrossStep(node.Step):
    """All window functions of the transform `name`, over the rows of a source that an earlier job materialized.

    Args:
        rows: the rows.
        matches: the columns that must be equal. Without any, every record matches all rows.
        fields: `sort_by`.
        calls: the functions, in the order in which they are computed.
    """

    kind: ClassVar[str] = "transform"

    rows: Rows
    matches: tuple[Match, ...]
    fields: tuple[SortField, ...]
    calls: tuple[Call, ...]

    @property
    def member_properties(self) -> MemberProperties:
        """Arguments of functions may read the file or the row of the source's records."""
        read = {path for call in self.calls if call.argument is not None for path in call.argument.system}
        reads_origins = any(path.startswith("source.") or path == "pipeline.total_count" for path in read)
        return MemberProperties(reads_origins=reads_origins)

    @property
    def module(self) -> str:
        """The module of the operators, next to the module of whole transforms."""
        return "across_run"


@dataclass(frozen=True)
class DistinctStep(node.Step):
    """One `distinct` of the transform `name`: the first record in record order of each combination of keys continues.

    `keys` are columns that the part of the program before it has computed, with their types. `log` has directives for
    records without keys.
    """

    kind: ClassVar[str] = "transform"

    keys: tuple[tuple[str, types.Type], ...]
    log: tuple[LogDirective, ...] = ()

    @property
    def module(self) -> str:
        """The module of the operators, next to the module of whole transforms."""
        return "distinct_run"


def of(step: TransformStep, partitions: int) -> tuple[shape.Phase, ...]:
    """The phases of a transform for the physical plan."""
    found: list[shape.Phase] = []
    if step.looked_up is not None:
        across, step = _across(step, step.looked_up)
        found.append(shape.LocalPhase(across))
    elif step.window is not None:
        computed, step = windowed(step, step.window)
        found.append(_ranging(computed, partitions if computed.keys else 1))
    parts = steps(step)
    found += [
        _deduplication(part, partitions) if isinstance(part, DistinctStep) else shape.LocalPhase(part) for part in parts
    ]
    return tuple(found)


def windowed(step: TransformStep, window: Window) -> tuple[WindowStep, TransformStep]:
    """The phase that computes the windows, and the transform that reads their results."""
    kinds = dict(window.types)
    taken = decompose.decomposed(step.program, kinds)
    keys = tuple((name, kinds[name]) for name in window.group_by)
    computed = WindowStep(
        step.name,
        keys,
        window.sort_by,
        taken.calls,
        window.spare,
        step.log_of_failures,
        reads_variables=step.reads_variables,
    )
    return computed, replace(step, program=taken.program, window=None)


def _across(step: TransformStep, rows: Rows) -> tuple[AcrossStep, TransformStep]:
    """The phases of a window over another source."""
    window = step.window
    assert window is not None
    taken = decompose.decomposed(step.program, dict(window.types), in_frame=False)
    computed = AcrossStep(
        step.name, rows, window.matches, window.sort_by, taken.calls, reads_variables=step.reads_variables
    )
    return computed, replace(step, program=taken.program, window=None)


def _ranging(step: WindowStep, partitions: int) -> shape.ShufflePhase:
    by = "shuffled by the partition's fields" if step.keys else "together"
    meet = shape.ExchangeSpec(shape.ExchangeKind.HASH, shape.Role.FINAL, "windows", "records", by)
    arrival = shape.Arrival(shape.Passage.SHUFFLED, "rows of a partition meet", "transform")
    return shape.ShufflePhase(
        step, partitions, arrival, "keys", (meet, shape.restored_order("record")), aspect="window"
    )


def _deduplication(step: DistinctStep, partitions: int) -> shape.ShufflePhase:
    by = "shuffled by the distinct values"
    meet = shape.ExchangeSpec(shape.ExchangeKind.HASH, shape.Role.FINAL, "merged", "groups", by)
    arrival = shape.Arrival(shape.Passage.SHUFFLED, "equal values meet", "transform")
    return shape.ShufflePhase(step, partitions, arrival, "partial", (meet, shape.restored_order()), aspect="distinct")


def steps(step: TransformStep) -> list[node.Step]:
    """The transform itself, or its parts with a `distinct` between each two."""
    statements = step.program.statements
    places = [i for i, statement in enumerate(statements) if isinstance(statement, typed.Distinct)]
    found: list[node.Step] = []
    start = 0
    for place in places:
        distinct = statements[place]
        assert isinstance(distinct, typed.Distinct)
        earlier, here = statements[:start], statements[start:place]
        keys = [(KEY.of(str(i)), key) for i, key in enumerate(distinct.keys)]
        program = _part(
            step.program,
            [*_restored(earlier), *here, *_kept(statements[:place]), *_keys(distinct, step.program.slots, keys)],
        )
        found.append(replace(step, program=program, validations=(), log=step.log_of_failures))
        found.append(DistinctStep(step.name, tuple((name, key.type) for name, key in keys), step.log_of_failures))
        start = place + 1
    if not places:
        return [step]
    last = _part(step.program, [*_emitted(statements[:start]), *statements[start:]])
    return [*found, replace(step, program=replace(last, emits=step.program.emits, metas=step.program.metas))]


def _part(whole: typed.Program, statements: Iterable[typed.Statement]) -> typed.Program:
    """A program of some statements that reads the fields of the whole program and the results of earlier parts."""
    chosen = tuple(statements)
    kept = {s.value.name for s in chosen if isinstance(s, typed.Let | typed.Emit) and isinstance(s.value, typed.Column)}
    emits: dict[str, types.Type] = {s.name: s.value.type for s in chosen if isinstance(s, typed.Emit)}
    return replace(
        whole,
        statements=chosen,
        slots=whole.slots + len(chosen),
        emits=tuple(emits.items()),
        metas=(),
        columns=whole.columns | {name for name in kept if name in SLOT},
    )


def _assignments(statements: Iterable[typed.Statement]) -> list[typed.Let | typed.Emit | typed.EmitMeta]:
    return [s for s in statements if isinstance(s, typed.Let | typed.Emit | typed.EmitMeta)]


def _column(statement: typed.Let | typed.Emit | typed.EmitMeta) -> typed.Column:
    return typed.Column(statement.value.type, statement.place, SLOT.of(str(statement.slot)))


def _restored(statements: Iterable[typed.Statement]) -> list[typed.Statement]:
    """Statements that restore slots from the results of earlier parts."""
    return [typed.Let(s.place, s.slot, f"slot {s.slot}", _column(s)) for s in _assignments(statements)]


def _emitted(statements: Iterable[typed.Statement]) -> list[typed.Statement]:
    """The results of earlier phases, as the program defines them: lets, fields and metadata."""
    return [replace(s, value=_column(s)) for s in _assignments(statements)]


def _kept(statements: Iterable[typed.Statement]) -> list[typed.Statement]:
    """Statements that emit the values of all slots so far as engine columns."""
    kept: list[typed.Statement] = []
    for s in _assignments(statements):
        value = typed.Local(s.value.type, s.place, s.slot, getattr(s, "name", ""))
        kept.append(typed.Emit(s.place, s.slot, SLOT.of(str(s.slot)), value))
    return kept


def _keys(distinct: typed.Distinct, slot: int, keys: Iterable[tuple[str, typed.Expression]]) -> list[typed.Statement]:
    return [typed.Emit(distinct.place, slot + i, name, key) for i, (name, key) in enumerate(keys)]

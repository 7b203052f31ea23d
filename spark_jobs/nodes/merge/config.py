"""Merges as users write them."""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics import codes
from spark_jobs.nodes.binding import BindScope, Bound, NodeType, Wiring, report
from spark_jobs.nodes.merge.step import MergeStep
from spark_jobs.nodes.model import Name, NodeConfig, Seed, choice
from spark_jobs.nodes.records import columns as engine
from spark_jobs.nodes.records.columns import Fate
from spark_jobs.nodes.terms.description import (
    ColumnDerivation,
    Description,
    PlanContext,
    by_record,
    no_files,
    no_programs,
    runs,
)
from spark_jobs.nodes.terms.required_columns import RequiredColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.binding import Flow


class MergeMode(StrEnum):
    """The order of inputs: one after another, or in turns."""

    CONCAT = "concat"
    INTERLEAVE = "interleave"


class MergeConfig(NodeConfig):
    """`config:` of a merge, which may be left out."""

    name: Name | None = None
    mode: choice(MergeMode) = MergeMode.CONCAT  # type: ignore[valid-type]
    interleave_seed: Seed | None = None


def bind(config: MergeConfig, scope: BindScope) -> Bound | None:
    """The step of a merge. The first input decides names and order; the others must have the same names."""
    first, *others = scope.feeds
    names = [column.name for column in first.flow.schema.user_columns]
    fits = True
    for index, feed in enumerate(others, 1):
        other = [column.name for column in feed.flow.schema.user_columns]
        if set(other) != set(names):
            fits = False
            message = _difference(scope.name, first.node, names, feed.node, other)
            help_text = "emit the missing columns upstream of the merge, such as `emit name = null`"
            report(scope, codes.E314, message, "inputs", index, help=help_text)
        if feed.flow.on_unmapped is not first.flow.on_unmapped:
            fits = False
            message = (
                f"merge '{scope.name}': inputs '{first.node}' and '{feed.node}' disagree on undeclared columns: the "
                f"sources of one say `on_unmapped: {first.flow.on_unmapped}`, those of the other "
                f"`{feed.flow.on_unmapped}`"
            )
            report(scope, codes.E315, message, "inputs", index, help="give the sources the same `on_unmapped`")
    if not fits:
        return None
    _warn_of_keys(scope)
    row = _unified([feed.flow.schema for feed in scope.feeds])
    flow = first.flow.merged([feed.flow for feed in others], row, scope.name)
    step = MergeStep(
        name=scope.name,
        columns=tuple(names),
        conversions=tuple(_conversions(feed.flow.schema, row) + _of_documents(feed.flow, flow) for feed in scope.feeds),
        shared=tuple(engine.with_fate(Fate.SHARED, "merge", [column.name for column in row])),
        interleave=config.mode is MergeMode.INTERLEAVE,
        seed=config.interleave_seed,
    )
    return Bound(step, {"": flow})


def _warn_of_keys(scope: BindScope) -> None:
    """Warn (W007) of inputs whose correlation key is cut: rows keep only the key fields that all inputs have."""
    kept = [field for field in scope.feeds[0].flow.key if all(field in feed.flow.key for feed in scope.feeds)]
    left = f"rows belong to groups by {_listed(kept)} alone" if kept else "each row fails by itself"
    for index, feed in enumerate(scope.feeds):
        ended = [field for field in feed.flow.key if field not in kept]
        if ended:
            lacking = next(other for other in scope.feeds if not set(ended) <= set(other.flow.key))
            message = (
                f"merge '{scope.name}' ends the correlation key {_listed(ended)} of '{feed.node}', for "
                f"'{lacking.node}' lacks it: downstream of it, {left}"
            )
            help_text = (
                f"give the sources of '{lacking.node}' the same `correlation_key`, or check records before the merge"
            )
            report(scope, codes.W007, message, "inputs", index, help=help_text)


def _listed(fields: Sequence[str]) -> str:
    return ", ".join(f"`{field}`" for field in fields)


def _difference(name: str, first: str, names: list[str], other: str, others: list[str]) -> str:
    parts = []
    if missing := [f"`{column}`" for column in names if column not in others]:
        parts.append(f"'{other}' lacks {', '.join(missing)}")
    if extra := [f"`{column}`" for column in others if column not in names]:
        parts.append(f"'{other}' also has {', '.join(extra)}")
    return f"merge '{name}': the columns of '{other}' differ from those of '{first}': {'; '.join(parts)}"


def _unified(rows: list[Schema]) -> Schema:
    """The first input's columns in types that fit all inputs, correlation keys of all, and metadata of any input."""
    found: dict[str, list[Column]] = {}
    for row in rows:
        for column in row:
            found.setdefault(column.name, []).append(column)
    unified = []
    for name, columns in found.items():
        everywhere = len(columns) == len(rows)
        if everywhere or not engine.with_fate(Fate.SHARED, "merge", [name]):
            static = reduce(_both, (column.type for column in columns))
            unified.append(Column(name, static if everywhere else static.or_null(), columns[0].origin))
    return Schema(tuple(unified))


def _both(left: types.Type, right: types.Type) -> types.Type:
    return types.unify(left, right) or types.ANY


def _conversions(given: Schema, row: Schema) -> tuple[tuple[str, types.Type, types.Type], ...]:
    """The columns of the merged row that have another type in an input. Columns that the input lacks are null."""
    found = ((column, given.get(column.name)) for column in row)
    kinds = ((column, known.type if known else types.NULL) for column, known in found)
    return tuple((column.name, static, column.type) for column, static in kinds if static != column.type)


def _of_documents(given: Flow, merged: Flow) -> tuple[tuple[str, types.Type, types.Type], ...]:
    """The fields of `$doc` that have another type in an input."""
    return tuple(
        (engine.DOCUMENT.of(f"{section}.{name}"), kind, merged.documents[section][name])
        for section, fields in given.documents.items()
        for name, kind in fields.items()
        if kind != merged.documents[section][name]
    )


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    converted = {name for conversions in step.conversions for name, _, _ in conversions}
    return (wanted | RequiredColumns(wanted.names.intersection(converted)),)


def _facts(step: MergeStep, context: PlanContext) -> dict[str, str]:
    return {"mode": "interleave" if step.interleave else "concat"}


def _trace(step: MergeStep, column: str) -> ColumnDerivation:
    return ColumnDerivation("merged", tuple((number, column) for number in range(len(step.conversions))))


DESCRIPTION = Description(
    parallel=by_record,
    facts=_facts,
    programs=no_programs,
    trace=_trace,
    details=None,
    unready=runs,
    files=no_files,
)
NODE = NodeType("merge", Wiring.LIST, MergeConfig, bind, _reads, DESCRIPTION, needs_config=False)

"""Merges as users write them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics import codes
from spark_jobs.nodes.binding import CORRELATION, BindScope, Bound, Flow, NodeType, Wiring, report
from spark_jobs.nodes.merge.step import MergeStep
from spark_jobs.nodes.model import Config, Name, Natural, choice


class MergeMode(StrEnum):
    """One input after the other, or all in turn."""

    CONCAT = "concat"
    INTERLEAVE = "interleave"


class MergeConfig(Config):
    """`config:` of a merge, which may be left out."""

    name: Name | None = None
    mode: choice(MergeMode) = MergeMode.CONCAT  # type: ignore[valid-type]
    interleave_seed: Natural | None = None


def bind(config: MergeConfig, scope: BindScope) -> Bound | None:
    """The step of a merge: the first input gives names and order, the others must have the same names (decision 52)."""
    first, *others = scope.feeds
    names = [column.name for column in first.flow.schema.user_columns]
    fits = True
    for index, feed in enumerate(others, 1):
        other = [column.name for column in feed.flow.schema.user_columns]
        if set(other) != set(names):
            fits = False
            report(scope, codes.E314, _difference(scope.name, first.node, names, feed.node, other), "inputs", index)
        if feed.flow.widens != first.flow.widens:
            fits = False
            message = (
                f"merge '{scope.name}': inputs '{first.node}' and '{feed.node}' disagree on undeclared columns: one "
                "widens (`on_unmapped: auto_widen`), the other does not"
            )
            report(scope, codes.E315, message, "inputs", index, help="give the sources the same `on_unmapped`")
    if not fits:
        return None
    flow = Flow(
        _unified([feed.flow for feed in scope.feeds], scope.name),
        sources=tuple(dict.fromkeys(name for feed in scope.feeds for name in feed.flow.sources)),
        documents={key: value for feed in reversed(scope.feeds) for key, value in feed.flow.documents.items()},
        joined=scope.name,
        ordered_by=first.flow.ordered_by if len({feed.flow.ordered_by for feed in scope.feeds}) == 1 else (),
    )
    step = MergeStep(
        name=scope.name,
        columns=tuple(names),
        interleave=config.mode is MergeMode.INTERLEAVE,
        seed=config.interleave_seed,
    )
    return Bound(step, {"": flow})


def _difference(name: str, first: str, names: list[str], other: str, others: list[str]) -> str:
    parts = []
    if missing := [f"`{column}`" for column in names if column not in others]:
        parts.append(f"'{other}' lacks {', '.join(missing)}")
    if extra := [f"`{column}`" for column in others if column not in names]:
        parts.append(f"'{other}' also has {', '.join(extra)}")
    return f"merge '{name}': the columns of '{other}' differ from those of '{first}': {'; '.join(parts)}"


def _unified(flows: list[Flow], name: str) -> Schema:
    """The first input's columns with types for all inputs; correlation keys that all have, metadata that any has."""
    row: dict[str, Column] = {}
    for column in flows[0].schema:
        if column.name.startswith(CORRELATION) and not all(column.name in flow.schema for flow in flows):
            continue
        row[column.name] = column
    for flow in flows[1:]:
        for column in flow.schema:
            known = row.get(column.name)
            if known is not None:
                row[column.name] = Column(column.name, types.unify(known.type, column.type) or types.ANY, known.origin)
            elif column.is_engine and not column.name.startswith(CORRELATION):
                row[column.name] = column
    return Schema(tuple(row.values()))


def _reads(step: Any, wanted: frozenset[str]) -> tuple[frozenset[str], ...]:
    return (wanted,)


NODE = NodeType("merge", Wiring.LIST, MergeConfig, bind, _reads, needs_config=False)

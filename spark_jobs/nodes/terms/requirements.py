"""Requirements of downstream steps: columns and values that they read (projection pushdown), and more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.nodes.node import Step
    from spark_jobs.nodes.terms.required_columns import RequiredColumns


@dataclass(frozen=True)
class Upstream:
    """The nodes and sources upstream of a step.

    Args:
        nodes: the step's node and all above it, those included whose records are only looked up.
        sources: the sources among them.
        streams: the sources whose records go on to the step.
    """

    nodes: frozenset[str]
    sources: frozenset[str]
    streams: frozenset[str]


@dataclass(frozen=True)
class Requirements:
    """The requirements of the steps downstream of a step.

    Args:
        columns: the output columns that they read.
        values: the values of `$…` that they read on its records, by path.
        reader: the first step in file order that takes its records; None when none does.
        reads_undeclared: whether programs of the pipeline read undeclared columns.
        pushed_predicates: the predicates that records must pass first (see `ColumnProperties`), where a single step
            takes all of them.
        shown: the columns that its dead letters show, read or not: with correlation keys those of groups do, since no
            file has such rows.
        upstream: gives the nodes and sources that its records come from.
    """

    columns: RequiredColumns
    values: frozenset[str]
    reader: Step | None
    reads_undeclared: bool
    pushed_predicates: tuple[Test, ...]
    shown: frozenset[str]
    upstream: Callable[[], Upstream]

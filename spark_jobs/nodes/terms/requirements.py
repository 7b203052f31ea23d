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
        nodes: the step's node and all nodes upstream, including nodes whose records are only looked up.
        sources: the sources among them.
        streams: the sources whose records reach the step.
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
        reader: the first step in file order that takes its records; None if there is none.
        reads_undeclared: programs of the pipeline read undeclared columns.
        pushed_predicates: the predicates that records must pass first (see `ColumnProperties`), if a single step
            takes all of them.
        shown: the columns that its dead letters show, read or not. With correlation keys, dead letters of groups show
            them, because no file has such rows.
        upstream: returns the nodes and sources from which its records come.
    """

    columns: RequiredColumns
    values: frozenset[str]
    reader: Step | None
    reads_undeclared: bool
    pushed_predicates: tuple[Test, ...]
    shown: frozenset[str]
    upstream: Callable[[], Upstream]

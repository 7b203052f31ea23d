"""What is asked of a step by the steps behind it: the columns and values that anybody reads of what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.formats.typed.passing import Test
    from spark_jobs.nodes.node import Step
    from spark_jobs.nodes.terms.wanted import Wanted


@dataclass(frozen=True)
class Above:
    """What a step's records come from.

    Args:
        nodes: the step's node and all above it, those included whose records are only looked up.
        sources: the sources among them.
        streams: the sources whose records go on to the step.
    """

    nodes: frozenset[str]
    sources: frozenset[str]
    streams: frozenset[str]


@dataclass(frozen=True)
class Demand:
    """What is asked of a step.

    Args:
        columns: the columns that are read of what it gives.
        values: the values behind `$…` that are read on its records, by path.
        reader: the first step in the order of the file that takes its records; None when none does.
        lifts: whether programs of the pipeline read undeclared columns.
        opening: what its records have to pass before anything else happens to them (`Step.opening`), where one step
            takes them all.
        shown: the columns that its dead letters show, whether anything reads them or not: with correlation keys those
            of groups do, since no file has such rows.
        above: what the step's records come from, for those who have to know.
    """

    columns: Wanted
    values: frozenset[str]
    reader: Step | None
    lifts: bool
    opening: tuple[Test, ...]
    shown: frozenset[str]
    above: Callable[[], Above]

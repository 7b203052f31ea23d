"""Descriptions of node types: what `explain` and lineage show of their steps, and features that do not run yet.

All fields are required. A type without anything to describe uses one of the neutral values below, and a test lists
these types (`tests/nodes/test_descriptions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_jobs.cxl import typed
    from spark_jobs.stores.location import Location


@dataclass(frozen=True)
class PlanContext:
    """The position of a step in the plan, as far as descriptions may use it.

    Args:
        size: the bytes of the step's own files; None when that is not known before a run.
        feeds: the nodes that the inputs come from, by the names that the step gives them.
        readers: the nodes that read each port.
        found: facts from the search for the step's input, by name.
        base: the folder that relative paths start at, where it is in a store.
    """

    size: int | None
    feeds: Mapping[str, str]
    readers: Mapping[str, tuple[str, ...]]
    found: Mapping[str, str] = field(default_factory=dict)
    base: Location | None = None


@dataclass(frozen=True)
class Expression:
    """A program of a step, for `explain`.

    Args:
        label: what it is called in the form for programs.
        program: the program.
        title: what follows the node's name in the text; None: the program is not there at all.
        why: why it runs record by record where its node has it so; empty: by kernels, as far as there are.
    """

    label: str
    program: typed.Program
    title: str | None = ""
    why: str = ""


@dataclass(frozen=True)
class ColumnDerivation:
    """The derivation of a column in a step: a word, and the columns that it reads, each with its input's number."""

    how: str
    reads: tuple[tuple[int, str], ...] = ()


class Section(Enum):
    """The places in the text of `explain` for what only one type of node has."""

    OUTPUTS = auto()
    BRANCHES = auto()
    LOOKUPS = auto()


@dataclass(frozen=True)
class Details:
    """Lines of a section for a step."""

    section: Section
    lines: Callable[[Any, PlanContext], Iterable[str]]


@dataclass(frozen=True)
class Description:
    """The description of a node type's steps.

    Args:
        parallel: what the tasks of a step divide among them, in a word.
        facts: properties of a step, by their names.
        programs: the programs that run for each record or group.
        trace: how a column of a step's output comes about.
        details: lines of a section of the text.
        unready: what of a step does not run yet, although it binds. These lists may only shrink.
        files: the files that a step names.
        slug: the type in `explain`, where that is not the word under `type:`.
        stores: the schemes of the stores in which its files may be.
    """

    parallel: Callable[[Any], str]
    facts: Callable[[Any, PlanContext], Mapping[str, str]]
    programs: Callable[[Any], Iterable[Expression]]
    trace: Callable[[Any, str], ColumnDerivation]
    details: Details | None
    unready: Callable[[Any], Iterable[str]]
    files: Callable[[Any], Iterable[str | None]]
    slug: str = ""
    stores: frozenset[str] = frozenset()


def by_record(step: Any) -> str:
    """The mode of a node that treats each record by itself."""
    return "record"


def no_facts(step: Any, context: PlanContext) -> Mapping[str, str]:
    """No facts besides those of all nodes."""
    return {}


def no_programs(step: Any) -> Iterable[Expression]:
    """The programs of a node that has none."""
    return ()


def passed_on(step: Any, column: str) -> ColumnDerivation:
    """The column of the first input."""
    return ColumnDerivation("passed on", ((0, column),))


def runs(step: Any) -> Iterable[str]:
    """The parts of a step that no run executes: none."""
    return ()


def no_files(step: Any) -> Iterable[str | None]:
    """The files of a node that has none."""
    return ()

"""Descriptions of node types for `explain` and lineage, including features that do not run yet.

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
        size: the bytes of the step's own files; None if unknown before a run.
        feeds: the nodes of the inputs, by the names that the step gives them.
        readers: the nodes that read each port.
        found: facts from the search for the step's input, by name.
        base: the folder of relative paths, if it is in a store.
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
        label: its name in the JSON form of programs.
        program: the program.
        title: the text after the node's name in the text form; None leaves the program out.
        why: the reason why its node makes it run record by record; empty if it runs by kernels where possible.
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
    """The sections in the text of `explain` for a single type of node."""

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
        parallel: the unit of work that the tasks of a step share, in a word.
        facts: properties of a step, by name.
        programs: the programs that run for each record or group.
        trace: the derivation of a column of a step's output.
        details: lines of a section of the text.
        unready: features of a step that bind but do not run yet. These lists may only shrink.
        files: the files that a step names.
        slug: the type in `explain`, if it differs from the word under `type:`.
        stores: the schemes of the stores that its files may be in.
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
    """The mode of a node that processes each record by itself."""
    return "record"


def no_facts(step: Any, context: PlanContext) -> Mapping[str, str]:
    """No facts besides those of all nodes."""
    return {}


def no_programs(step: Any) -> Iterable[Expression]:
    """No programs."""
    return ()


def passed_on(step: Any, column: str) -> ColumnDerivation:
    """The column of the first input."""
    return ColumnDerivation("passed on", ((0, column),))


def runs(step: Any) -> Iterable[str]:
    """No unready features."""
    return ()


def no_files(step: Any) -> Iterable[str | None]:
    """No files."""
    return ()

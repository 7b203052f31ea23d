"""Rules on data beyond one record, as sources and outputs carry them, and the step that finds equal records.

A rule about records, such as `unique`, is a phase of the node's step: records meet others, and those that break the
rule fail, or are counted. A rule about all records of a node, such as `row_count`, is judged by the driver when the
jobs are done (`docs/semantics/data_rules.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.cxl import types


class Severity(StrEnum):
    """What happens where a rule is broken.

    The record becomes a dead letter, the run warns of it, or the run fails and publishes nothing.
    """

    ERROR = "error"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Rule:
    """A rule on the records of a node.

    Args:
        name: what metrics, messages and dead letters call it; no other rule of the node is called so.
        severity: what happens where it is broken.
        message: the user's words for that; empty where there are none.
    """

    kind: ClassVar[str]

    name: str
    severity: Severity
    message: str = ""

    @property
    def text(self) -> str:
        """The rule as plans show it."""
        raise NotImplementedError

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads of the node's records."""
        return frozenset()


@dataclass(frozen=True)
class Check(Rule):
    """A condition on each record, which transforms have; `condition` is its text."""

    kind: ClassVar[str] = "check"

    condition: str = field(default="", kw_only=True)

    @property
    def text(self) -> str:
        return self.condition


@dataclass(frozen=True)
class Unique(Rule):
    """No two records have the same values in `columns`, which stand with their types; a null equals nothing."""

    kind: ClassVar[str] = "unique"

    columns: tuple[tuple[str, types.Type], ...] = field(default=(), kw_only=True)

    @property
    def text(self) -> str:
        return f"unique: {', '.join(name for name, _ in self.columns)}"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.columns)


@dataclass(frozen=True)
class RowCount(Rule):
    """The node gives so many records: at least `least`, at most `most`."""

    kind: ClassVar[str] = "row_count"

    least: int | None = field(default=None, kw_only=True)
    most: int | None = field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        return f"row_count: {between(self.least, self.most)}"


def between(least: float | None, most: float | None) -> str:
    """Bounds in words.

    >>> between(1, None), between(None, 5), between(2, 2), between(1, 5)
    ('at least 1', 'at most 5', 'exactly 2', '1 to 5')
    """
    if least is not None and least == most:
        return f"exactly {least}"
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"


@dataclass(frozen=True)
class UniqueStep(node.Step):
    """A rule `unique` of the source or output `name`: the first of equal records in record order stays.

    Args:
        rule: the rule.
        of: the kind of the node.
    """

    kind: ClassVar[str] = "rules"

    rule: Unique
    of: str

    @property
    def stage(self) -> str:
        """That of the node."""
        return f"{self.of}:{self.name}"

    @property
    def module(self) -> str:
        """Each kind of rule has its own."""
        return "unique_run"


def phases(of: str, name: str, rules: Iterable[Rule], partitions: int) -> tuple[shape.Phase, ...]:
    """The parts of a node in which its records meet, in the order of its rules."""
    return tuple(
        _meeting(UniqueStep(name, rule, of), partitions if rule.columns else 1)
        for rule in rules
        if isinstance(rule, Unique)
    )


def partitions(name: str, rules: Iterable[Rule], sizes: shape.Sizes) -> int:
    """In how many partitions they meet: whole records wait there, and once more to be put into order."""
    return sizes.partitions(name, growth=2) if any(isinstance(rule, Unique) for rule in rules) else 1


def _meeting(step: UniqueStep, partitions: int) -> shape.ShufflePhase:
    meet = shape.Stop(shape.ExchangeKind.HASH, shape.Role.FINAL, "unique", "records", "shuffled by the unique values")
    arrival = shape.Arrival(shape.Passage.SHUFFLED, f"equal records meet (validation '{step.rule.name}')", step.of)
    stops = (meet, shape.restored_order("record"))
    return shape.ShufflePhase(step, partitions, arrival, "keys", stops, aspect=step.rule.text)


def facts(rules: Iterable[Rule]) -> dict[str, str]:
    """The rules as facts of their node, for `explain`."""
    shown = [f"{rule.text} ({rule.severity})" for rule in rules]
    return {"validations": "; ".join(shown)} if shown else {}


def of_records(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules about records, for runs that see only some of these."""
    return tuple(rule for rule in rules if isinstance(rule, Unique))

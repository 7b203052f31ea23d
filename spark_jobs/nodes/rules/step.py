"""Rules that go beyond one record, for sources and outputs, and the steps that check them.

A rule that compares records, such as `unique`, is a phase of the node's step: records that break it fail, or are
counted. A rule about all records of a node, such as `row_count`, is judged by the driver after the jobs. For rules
about column values, tasks measure the records that pass (`docs/semantics/data_rules.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from spark_jobs.nodes import node
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.needs import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from decimal import Decimal

    from spark_jobs.cxl import types
    from spark_jobs.nodes.windows.call import Match


#: A lower or upper bound of values: a number, a date or a moment.
Bound: TypeAlias = "int | float | Decimal | date"


class Severity(StrEnum):
    """The consequence of a broken rule.

    The record becomes a dead letter, the run warns of it, or the run fails and publishes nothing.
    """

    ERROR = "error"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Rule:
    """A rule on the records of a node.

    Args:
        name: the name in metrics, messages and dead letters, unique in the node.
        severity: the consequence of breaking it.
        message: the user's message for a broken rule; empty if there is none.
    """

    kind: ClassVar[str]

    name: str
    severity: Severity
    message: str = ""

    @property
    def text(self) -> str:
        """The rule in the form that plans show."""
        raise NotImplementedError

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the node's records that it reads."""
        return frozenset()


@dataclass(frozen=True)
class Check(Rule):
    """A condition on each record, from a transform. `condition` is its text."""

    kind: ClassVar[str] = "check"

    condition: str = field(default="", kw_only=True)

    @property
    def text(self) -> str:
        return self.condition


@dataclass(frozen=True)
class Unique(Rule):
    """No two records have the same values in `columns`, which are given with their types. A null equals nothing."""

    kind: ClassVar[str] = "unique"

    columns: tuple[tuple[str, types.Type], ...] = field(default=(), kw_only=True)

    @property
    def text(self) -> str:
        return f"unique: {', '.join(name for name, _ in self.columns)}"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.columns)


@dataclass(frozen=True)
class UniqueIndex(Unique):
    """A unique index of the table that an output writes: the table accepts one of several records with equal values.

    The table defines it, not the pipeline, so every record that breaks it fails.

    Args:
        index: the index (`formats/database/unique_indexes.py:RunIndex`).
        row_columns: the columns, with types, that identify the table's row of a record. Records of one row may share
            values.
    """

    kind: ClassVar[str] = "unique index"

    index: Any = field(kw_only=True)
    row_columns: tuple[tuple[str, types.Type], ...] = field(default=(), kw_only=True)

    @property
    def text(self) -> str:
        return f"unique index {self.name}: {', '.join(self.index.columns)}"

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | {name for name, _ in self.row_columns}


@dataclass(frozen=True)
class References(Rule):
    """The values of some columns must occur in a record of `source`, which is a node or a port; `matches` pairs them.

    A record with a null among them satisfies the rule, as with SQL's foreign keys.
    """

    kind: ClassVar[str] = "references"

    source: str = field(default="", kw_only=True)
    matches: tuple[Match, ...] = field(default=(), kw_only=True)

    @property
    def text(self) -> str:
        here, there = (", ".join(names) for names in zip(*((m.here, m.there) for m in self.matches), strict=True))
        return f"references: {here} in {self.source} ({there})"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(match.here for match in self.matches)


@dataclass(frozen=True)
class RowCount(Rule):
    """The number of the node's records is at least `least` and at most `most`."""

    kind: ClassVar[str] = "row_count"

    least: int | None = field(default=None, kw_only=True)
    most: int | None = field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        return f"row_count: {between(self.least, self.most)}"


@dataclass(frozen=True)
class Measured(Rule):
    """A rule about one value that is computed from all values of `column`, whose type is `type`.

    The value is at least `least`, and at most `most`.
    """

    column: str = field(default="", kw_only=True)
    type: types.Type = field(kw_only=True)
    least: Bound | None = field(default=None, kw_only=True)
    most: Bound | None = field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        return f"{self.kind}: {self.column} {between(self.least, self.most)}"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.column,))


class Sum(Measured):
    """The sum of the values is within the bounds."""

    kind: ClassVar[str] = "sum"


class Mean(Measured):
    """The mean of the values is within the bounds. Nulls do not count."""

    kind: ClassVar[str] = "mean"


class Min(Measured):
    """The least value is within the bounds."""

    kind: ClassVar[str] = "min"


class Max(Measured):
    """The largest value is within the bounds."""

    kind: ClassVar[str] = "max"


class Completeness(Measured):
    """The share of records with a value, from 0 to 1, is within the bounds."""

    kind: ClassVar[str] = "completeness"


class DistinctCount(Measured):
    """The number of distinct values is within the bounds."""

    kind: ClassVar[str] = "distinct_count"


@dataclass(frozen=True)
class Freshness(Measured):
    """The latest moment is at most `max_age_s` seconds old when the run begins."""

    kind: ClassVar[str] = "freshness"

    max_age_s: float = field(default=0.0, kw_only=True)

    @property
    def text(self) -> str:
        return f"freshness: {self.column} at most {age(self.max_age_s)} old"


def age(seconds: float) -> str:
    """A duration by its two largest units.

    >>> age(90), age(86400), age(90061.5), age(0.25)
    ('1m 30s', '1d', '1d 1h', '0.25s')
    """
    left, found = seconds, []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, size)
        found += [f"{count:.0f}{unit}"] if count else []
    found += [f"{left:g}s"] if left or not found else []
    return " ".join(found[:2])


def between(least: Bound | None, most: Bound | None) -> str:
    """Bounds in words.

    >>> between(1, None), between(None, 5), between(2, 2), between(1, 5)
    ('at least 1', 'at most 5', 'exactly 2', '1 to 5')
    """
    from_, to = _in_words(least), _in_words(most)
    if least is not None and least == most:
        return f"exactly {from_}"
    if least is None:
        return f"at most {to}"
    return f"at least {from_}" if most is None else f"{from_} to {to}"


def _in_words(bound: Bound | None) -> str:
    """A bound as people write it."""
    return bound.isoformat() if isinstance(bound, date) else str(bound)


@dataclass(frozen=True)
class RuleStep(node.Step):
    """A phase of the source or output `name` that checks some of its rules.

    Args:
        of: the kind of the node.
    """

    kind: ClassVar[str] = "rules"

    of: str

    @property
    def stage(self) -> str:
        return f"{self.of}:{self.name}"


@dataclass(frozen=True)
class MeasureStep(RuleStep):
    """Measures the records of the source `name` for its rules about column values.

    Args:
        rules: these rules.
    """

    module: ClassVar[str] = "measure_run"

    rules: tuple[Measured, ...]


@dataclass(frozen=True)
class DistinctValuesStep(RuleStep):
    """Counts the distinct values of columns of the source or output `name`.

    Args:
        rules: all rules of the node about values.
    """

    module: ClassVar[str] = "distinct_values_run"

    rules: tuple[Measured, ...]


@dataclass(frozen=True)
class UniqueStep(RuleStep):
    """Checks a rule `unique` of the source or output `name`: the first of equal records in record order satisfies it.

    Args:
        rule: the rule.
    """

    module: ClassVar[str] = "unique_run"

    rule: Unique


@dataclass(frozen=True)
class UniqueIndexStep(RuleStep):
    """Checks a unique index of the table that the output `name` writes.

    Args:
        rule: the index as a rule.
    """

    module: ClassVar[str] = "unique_index_run"

    rule: UniqueIndex


@dataclass(frozen=True)
class ReferencesStep(RuleStep):
    """Checks a rule `references` of the source or output `name`: records without a match among the rows break it.

    Args:
        rule: the rule.
        rows: the referenced rows, which an earlier job has materialized.
    """

    module: ClassVar[str] = "references_run"

    rule: References
    rows: Rows


def referenced(name: str, rules: Iterable[Rule]) -> tuple[Rows, ...]:
    """The records to which rules of a node refer, materialized by an earlier job, once for each node that has them."""
    sources = dict.fromkeys(rule.source for rule in rules if isinstance(rule, References))
    return tuple(Rows(name, source, "rows that a rule refers to, written down for every task") for source in sources)


def referenced_columns(rules: Iterable[Rule], source: str) -> frozenset[str]:
    """The columns of a node, or of its port, to which rules refer."""
    mine = (rule for rule in rules if isinstance(rule, References) and rule.source == source)
    return frozenset(match.there for rule in mine for match in rule.matches)


def phases(of: str, name: str, rules: Iterable[Rule], partitions: int) -> tuple[shape.Phase, ...]:
    """The phases of a node that compare its records with others, in the order of its rules."""
    found: list[shape.Phase] = []
    listed = tuple(rules)
    rows = {each.input: each for each in referenced(name, listed)}
    for rule in listed:
        if isinstance(rule, Unique):
            step = UniqueIndexStep(name, of, rule) if isinstance(rule, UniqueIndex) else UniqueStep(name, of, rule)
            found.append(_meeting(step, partitions if rule.columns else 1))
        elif isinstance(rule, References):
            found.append(shape.LocalPhase(ReferencesStep(name, of, rule, rows[rule.source])))
    return tuple(found)


def of_indexes(indexes: Iterable[Any], columns: Mapping[str, tuple[str, types.Type]]) -> tuple[UniqueIndex, ...]:
    """A rule for each unique index of a table.

    Args:
        indexes: the indexes (`formats/database/unique_indexes.py:RunIndex`).
        columns: the record's column for each column of the table, with its type.
    """
    return tuple(
        UniqueIndex(
            index.name,
            Severity.ERROR,
            columns=tuple(columns[name] for name in index.columns),
            index=index,
            row_columns=tuple(columns[name] for name in index.row_columns),
        )
        for index in indexes
    )


def measured(rules: Iterable[Rule]) -> tuple[Measured, ...]:
    """The rules about values that tasks measure."""
    return tuple(rule for rule in rules if isinstance(rule, Measured))


def measuring(of: str, name: str, rules: Iterable[Rule]) -> tuple[shape.Phase, ...]:
    """The phase of a node that measures its records; empty without rules about values."""
    found = measured(rules)
    values = distinct_values(of, name, found)
    return (shape.LocalPhase(MeasureStep(name, of, found), side_output=values),) if found else ()


def distinct_values(of: str, name: str, rules: Iterable[Rule]) -> shape.ExchangeSpec | None:
    """The exchange that sends the values of a node's `distinct_count` rules to one task; None without such rules."""
    found = measured(rules)
    if not any(isinstance(rule, DistinctCount) for rule in found):
        return None
    counting = DistinctValuesStep(name, of, found)
    kind, role = shape.ExchangeKind.HASH, shape.Role.FINAL
    return shape.ExchangeSpec(kind, role, "distinct values", "values", "together", step=counting)


def partitions(name: str, rules: Iterable[Rule], sizes: shape.Sizes) -> int:
    """The number of partitions for comparing records: whole records are buffered there, and again to restore order."""
    return sizes.partitions(name, growth=2) if any(isinstance(rule, Unique) for rule in rules) else 1


def _meeting(step: UniqueStep | UniqueIndexStep, partitions: int) -> shape.ShufflePhase:
    by = "shuffled by the unique values"
    meet = shape.ExchangeSpec(shape.ExchangeKind.HASH, shape.Role.FINAL, "unique", "records", by)
    what = "index" if isinstance(step.rule, UniqueIndex) else "validation"
    arrival = shape.Arrival(shape.Passage.SHUFFLED, f"equal records meet ({what} '{step.rule.name}')", step.of)
    exchanges = (meet, shape.restored_order("record"))
    return shape.ShufflePhase(step, partitions, arrival, "keys", exchanges, aspect=step.rule.text)


def facts(rules: Iterable[Rule]) -> dict[str, str]:
    """The rules as facts of their node, for `explain`."""
    shown = [f"{rule.text} ({rule.severity})" for rule in rules]
    return {"validations": "; ".join(shown)} if shown else {}


def of_records(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules about single records, for runs that see only some of the records."""
    return tuple(rule for rule in rules if isinstance(rule, Unique | References))

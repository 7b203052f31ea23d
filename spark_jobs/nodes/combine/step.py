"""The bound combine: keys of both sides, the rest of the predicate, and the body."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.cxl import schema
from spark_jobs.nodes import node
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.needs import Rows
from spark_jobs.nodes.terms.properties import ColumnProperties, RecordProperties

if TYPE_CHECKING:
    from spark_jobs.cxl import typed
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.nodes.terms.requirements import Requirements


#: The emit of a key program. A name with a dollar sign is no field: NaN is among its values, and matches nothing.
KEY = "$key"
#: The bytes that a lookup allocates for each build record and key. Arrow hashes the keys anew each time.
INDEX_BYTES = 64


class Match(StrEnum):
    """The matching build records that a driver record is joined with: the first, each, or all in a list."""

    FIRST = "first"
    ALL = "all"
    COLLECT = "collect"


class OnMiss(StrEnum):
    """The ways to treat a driver record without a match."""

    NULL_FIELDS = "null_fields"
    SKIP = "skip"
    ERROR = "error"


@dataclass(frozen=True)
class Equality:
    """`driver == build`: programs with one emit, the key, over qualified columns `q.column`."""

    driver: typed.Program
    build_qualifier: str
    build: typed.Program


@dataclass(frozen=True)
class Range:
    """A comparison that bounds a value of the build side by a value of an earlier input.

    Args:
        driver: the earlier input's side, a program with one emit, over qualified columns.
        build_qualifier: the build side.
        build: its side.
        is_upper: whether it is above the other; else below.
        is_strict: whether it cannot be equal.
        may_fail: whether a side may fail for some record: every record of the other side is a candidate then.
    """

    driver: typed.Program
    build_qualifier: str
    build: typed.Program
    is_upper: bool
    is_strict: bool
    may_fail: bool = False


@dataclass(frozen=True)
class CombineStep(node.Step):
    """A combine, bound.

    Args:
        driver: the driver's qualifier; `builds` are the others in declaration order, but each after an input that it
            is compared with.
        schemas: the input columns of each qualifier (unqualified names).
        equalities: the conjuncts that find candidates; empty for pure range predicates.
        ranges: the comparisons that find candidates, among those with equal keys where there are keys.
        residual: what equalities leave of `where`, a predicate over qualified columns; None when nothing is left.
        rest: what is left when ranges have found candidates, too; all of `residual` where one of them may fail.
        residuals: its parts, by the build side at which all that they read is there.
        body: the emits, over qualified columns; None with `collect`.
        output: the output columns in order.
        pass_through: columns that pass through unseen, such as correlation keys (`$ck.*`), as (output name, qualifier,
            column).
        undeclared: undeclared columns that programs read, as (qualifier, column).
        wants_shuffle: `strategy: grace_hash`: partitions by key even where the build side would fit into each task.
    """

    kind: ClassVar[str] = "combine"

    driver: str
    builds: tuple[str, ...]
    schemas: tuple[tuple[str, schema.Schema], ...]
    equalities: tuple[Equality, ...]
    ranges: tuple[Range, ...]
    residual: typed.Program | None
    rest: typed.Program | None
    residuals: tuple[tuple[str, typed.Program], ...]
    body: typed.Program | None
    match: Match
    on_miss: OnMiss
    output: schema.Schema
    pass_through: tuple[tuple[str, str, str], ...] = ()
    wants_shuffle: bool = False
    undeclared: tuple[tuple[str, str], ...] = ()
    #: The `pass_through` columns by which results also belong to groups of build records (`propagate_ck`).
    inherited_keys: tuple[tuple[str, str, str], ...] = ()
    #: With `match: collect`, the fields that anything reads of records in arrays, by build side; None where that may
    #: be all.
    members: tuple[tuple[str, frozenset[str] | None], ...] = ()

    @property
    def module(self) -> str:
        """The module with the operators of all phases."""
        return "operators"

    @property
    def is_keyed(self) -> bool:
        """Whether the first build side is found by keys of the driver: then both can be partitioned by them."""
        return any(equality.build_qualifier == self.builds[0] for equality in self.equalities)

    @property
    def is_chain_of_left_joins(self) -> bool:
        """Whether each of several build sides may be missing on its own; when collected, its array is empty."""
        return len(self.builds) > 1 and (self.on_miss is OnMiss.NULL_FIELDS or self.match is Match.COLLECT)

    def collected(self, qualifier: str) -> schema.Schema:
        """With `match: collect`, the columns that records of a build side have in arrays, if anything reads them."""
        known, members = dict(self.schemas)[qualifier].user_columns, dict(self.members).get(qualifier)
        return schema.Schema(tuple(each for each in known if members is None or each.name in members))

    def pruned(self, required: Requirements) -> CombineStep:
        """Records in arrays are made of the fields that anything reads of them."""
        if self.match is not Match.COLLECT:
            return self
        return replace(self, members=tuple((each, required.columns.members(each)) for each in self.builds))

    @property
    def needs(self) -> tuple[Need, ...]:
        """The build sides, materialized."""
        return (*super().needs, *(self.build(qualifier) for qualifier in self.builds))

    @property
    def record_properties(self) -> RecordProperties:
        """A driver record may have many matches."""
        return RecordProperties(inherited_keys=self.inherited_keys, may_multiply=True)

    @property
    def column_properties(self) -> ColumnProperties:
        """Programs may read undeclared columns."""
        is_undeclared = bool(self.undeclared)
        return ColumnProperties(names_undeclared=is_undeclared, reads_undeclared=is_undeclared)

    def build(self, qualifier: str) -> Rows:
        """A build side, as it is materialized."""
        return Rows(self.name, qualifier, "build side of the combine; shuffled by key where it is large")

    def partitions(self, sizes: shape.Sizes) -> int:
        """One if each task can hold the whole build side, unless `strategy` asks for more."""
        if not self.is_keyed:
            return 1
        # Texts with the names of all fields are larger than records.
        is_larger = self.match is Match.COLLECT and self.collected(self.builds[0]).columns
        keys = sum(equality.build_qualifier == self.builds[0] for equality in self.equalities)
        needed = sizes.materialized_partitions(self.build(self.builds[0]), 3 if is_larger else 1, INDEX_BYTES * keys)
        if needed == 1:
            return sizes.partitions(self.name) if self.wants_shuffle else 1
        return max(sizes.partitions(self.name), needed)

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """The driver's records meet the build sides in their task, or the first one in the partitions of its keys."""
        if partitions == 1 or not self.is_keyed:
            return (shape.LocalPhase(self),)
        meet = shape.ExchangeSpec(shape.ExchangeKind.HASH, shape.Role.FINAL, "probed", "drivers", "shuffled by key")
        why = "records with equal keys meet (strategy: grace_hash)"
        arrival = shape.Arrival(shape.Passage.SHUFFLED, why, "combine:grace_hash")
        exchanges = (meet, shape.restored_order("driver record"))
        return (
            shape.ShufflePhase(self, partitions, arrival, "keys", exchanges, co_partitioned=self.build(self.builds[0])),
        )

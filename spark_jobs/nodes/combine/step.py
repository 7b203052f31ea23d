"""The bound combine: the keys of both sides, the residual predicate, and the body."""

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


#: The emit of a key program. The dollar sign marks it as no field, so that it may be NaN, which matches nothing.
KEY = "$key"
#: The bytes that a lookup allocates for each build record and key. Arrow hashes the keys for each lookup.
INDEX_BYTES = 64


class Match(StrEnum):
    """The matching build records that a driver record is joined with: the first, all, or all in one array."""

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
        driver: the earlier input's operand, a program with one emit over qualified columns.
        build_qualifier: the build side.
        build: the build side's operand.
        is_upper: the build side's value is the greater one.
        is_strict: the two values must differ.
        may_fail: an operand may fail for some record. Such a record is a candidate of all records of the other side.
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
        driver: the driver's qualifier. `builds` are the other inputs in declaration order, but each after an input that
            it is compared with.
        schemas: the input columns of each qualifier (unqualified names).
        equalities: the conjuncts that find candidates; empty for pure range predicates.
        ranges: the comparisons that find candidates, among the records with equal keys if there are keys.
        residual: `where` without the equalities, over qualified columns; None if nothing remains.
        rest: `residual` without `ranges`; all of `residual` if one of these may fail.
        residuals: the parts of `rest`, each under the build side at which all its columns are available.
        body: the emits, over qualified columns; None with `collect`.
        output: the output columns in order.
        pass_through: columns that programs do not see, such as correlation keys (`$ck.*`), as (output name, qualifier,
            column).
        undeclared: undeclared columns that programs read, as (qualifier, column).
        wants_shuffle: `strategy: grace_hash`: partition by key even if the build side would fit into each task.
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
    #: The `pass_through` columns by which results also belong to the groups of build records (`propagate_ck`).
    inherited_keys: tuple[tuple[str, str, str], ...] = ()
    #: With `match: collect`, the fields of collected records that are read, by build side; None if all may be read.
    members: tuple[tuple[str, frozenset[str] | None], ...] = ()

    @property
    def module(self) -> str:
        """The module with the operators of all phases."""
        return "operators"

    @property
    def is_keyed(self) -> bool:
        """True if the driver's keys find records of the first build side, so that both can be partitioned by them."""
        return any(equality.build_qualifier == self.builds[0] for equality in self.equalities)

    @property
    def is_chain_of_left_joins(self) -> bool:
        """True if each of several build sides may miss on its own. A collected side then has an empty array."""
        return len(self.builds) > 1 and (self.on_miss is OnMiss.NULL_FIELDS or self.match is Match.COLLECT)

    def collected(self, qualifier: str) -> schema.Schema:
        """With `match: collect`, the columns of a build side's records in arrays that are read downstream."""
        known, members = dict(self.schemas)[qualifier].user_columns, dict(self.members).get(qualifier)
        return schema.Schema(tuple(each for each in known if members is None or each.name in members))

    def pruned(self, required: Requirements) -> CombineStep:
        """The step with collected records that have only the fields that are read downstream."""
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
        """A build side in materialized form."""
        return Rows(self.name, qualifier, "build side of the combine; shuffled by key where it is large")

    def partitions(self, sizes: shape.Sizes) -> int:
        """One if each task can hold the whole build side, unless `strategy` demands more."""
        if not self.is_keyed:
            return 1
        # Maps as texts contain the names of all fields, so they are larger than records.
        is_larger = self.match is Match.COLLECT and self.collected(self.builds[0]).columns
        keys = sum(equality.build_qualifier == self.builds[0] for equality in self.equalities)
        needed = sizes.materialized_partitions(self.build(self.builds[0]), 3 if is_larger else 1, INDEX_BYTES * keys)
        if needed == 1:
            return sizes.partitions(self.name) if self.wants_shuffle else 1
        return max(sizes.partitions(self.name), needed)

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Driver records are joined in their own task, or in the partition of their key for the first build side."""
        if partitions == 1 or not self.is_keyed:
            return (shape.LocalPhase(self),)
        meet = shape.ExchangeSpec(shape.ExchangeKind.HASH, shape.Role.FINAL, "probed", "drivers", "shuffled by key")
        why = "records with equal keys meet (strategy: grace_hash)"
        arrival = shape.Arrival(shape.Passage.SHUFFLED, why, "combine:grace_hash")
        exchanges = (meet, shape.restored_order("driver record"))
        return (
            shape.ShufflePhase(self, partitions, arrival, "keys", exchanges, co_partitioned=self.build(self.builds[0])),
        )

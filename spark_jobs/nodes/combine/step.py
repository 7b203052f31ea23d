"""What a combine is when it runs: keys of both sides, the rest of the predicate, and the body."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import schema, typed


#: The emit of a key program. A name with a dollar sign is no field: NaN is among its values, and matches nothing.
KEY = "$key"


class Match(StrEnum):
    """How many build records a driver record meets."""

    FIRST = "first"
    ALL = "all"
    COLLECT = "collect"


class OnMiss(StrEnum):
    """What becomes of a driver record without a match."""

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
class CombineStep(node.Step):
    """A combine, bound.

    Args:
        driver: the driver's qualifier; `builds` are the others in declaration order, but each behind an input that it
            is compared with.
        schemas: the input columns of each qualifier (unqualified names).
        equalities: the conjuncts that find candidates; empty for pure range predicates.
        residual: what is left of `where`, a predicate over qualified columns; None when nothing is left.
        residuals: its parts, by the build side at which all that they read is there.
        body: the emits, over qualified columns; None with `collect`.
        output: the output columns in order.
        carried: driver columns that ride along unseen (`$ck.*`), as (output name, qualifier, column).
        undeclared: undeclared columns that programs read, as (qualifier, column).
        wants_shuffle: `strategy: grace_hash`: partitions by key even where the build side would fit into each task.
    """

    kind: ClassVar[str] = "combine"

    driver: str
    builds: tuple[str, ...]
    schemas: tuple[tuple[str, schema.Schema], ...]
    equalities: tuple[Equality, ...]
    residual: typed.Program | None
    residuals: tuple[tuple[str, typed.Program], ...]
    body: typed.Program | None
    match: Match
    on_miss: OnMiss
    output: schema.Schema
    carried: tuple[tuple[str, str, str], ...] = ()
    wants_shuffle: bool = False
    undeclared: tuple[tuple[str, str], ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the first build side is found by keys of the driver: then both can be partitioned by them."""
        return any(equality.build_qualifier == self.builds[0] for equality in self.equalities)

    @property
    def is_chain_of_left_joins(self) -> bool:
        """Whether each of several build sides may be missing by itself (decision 83)."""
        return len(self.builds) > 1 and self.on_miss is OnMiss.NULL_FIELDS

    def build_box(self, qualifier: str) -> str:
        """The name under which a build side is written down."""
        return f"{self.name}#build:{qualifier}"

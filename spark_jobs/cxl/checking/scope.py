"""The names that a program may use: the planner passes them to the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.cxl.checking.modules import Library
from spark_jobs.cxl.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from spark_jobs.cxl import types


class Mode(StrEnum):
    """The context of a program, which decides which statements are allowed."""

    TRANSFORM = "transform"
    AGGREGATE = "aggregate"
    COMBINE = "combine"
    #: A single Bool expression, a route's condition or a combine's `where`: the program has one Filter statement.
    PREDICATE = "predicate"
    #: A single expression, a validation's `check` (whose nulls and falses differ): the program has one Emit statement,
    #: of the field `value`.
    VALUE = "value"
    #: A state node's assignment, a single expression in which `this.name` is the record's column. With
    #: aggregate functions it becomes an aggregate program of all records, else a program as of VALUE.
    STATE = "state"


@dataclass(frozen=True)
class WindowScope:
    """The rows that `$window` ranges over: the columns a window function may name."""

    row: Schema


@dataclass(frozen=True)
class Scope:
    """Everything visible to a program.

    Args:
        mode: where the program stands.
        row: the input columns that bare names reach. In a combine, the columns of all inputs by qualified name.
        inputs: in a combine, the qualifiers with their columns; bare names then resolve when they are unique.
        open_inputs: the qualifiers whose undeclared fields may be named too: of type `any`, with a warning.
        group_by: in an aggregate, the key columns.
        variables: declared variables by scope and name: `vars`, `pipeline`, `source`, `record`, `config`.
        documents: declared envelope sections: section to field to type.
        grouped_by: the aggregate whose rows the records are, which are of no document; None: they are read ones.
        metas: `$meta` keys that upstream nodes write; others are null, with a warning.
        window: set where `analytic_window` is configured.
        library: the modules that `use` finds.
        streams: the inputs and sources upstream whose variables `$source.<input>.<name>` can name.
        max_expansion: the cap of `emit each`.
        is_open: whether a bare name that nothing declares is a column of type `any` (`cxl check` without a schema).
        has_this: whether `this.name` is a column of the record.
        is_alone: whether the record was typed in by a user and belongs to no node (`cxl eval`).
        date_header: the names of months and weekdays that date formats use (`date_names.header`); empty for English.
        constants: in VALUE mode, names with the values that they stand for, like `let`s (the `args` of a check).
        expected: in VALUE mode, the type that the value must have (a validation's `check`: Bool); None for any.
    """

    mode: Mode = Mode.TRANSFORM
    row: Schema = Schema()  # noqa: RUF009 - frozen
    inputs: Mapping[str, Schema] = field(default_factory=dict)
    open_inputs: frozenset[str] = frozenset()
    group_by: tuple[str, ...] = ()
    variables: Mapping[str, Mapping[str, types.Type]] = field(default_factory=dict)
    documents: Mapping[str, Mapping[str, types.Type]] = field(default_factory=dict)
    grouped_by: str | None = None
    metas: Mapping[str, types.Type] = field(default_factory=dict)
    window: WindowScope | None = None
    library: Library = field(default_factory=Library)
    streams: Collection[str] = ()
    max_expansion: int = 10_000
    is_open: bool = False
    constants: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    expected: types.Type | None = None
    date_header: str = ""
    has_this: bool = False
    is_alone: bool = False

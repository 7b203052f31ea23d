"""A bound call of a window function, and the order of the rows that it ranges over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.records.columns import RANGED

if TYPE_CHECKING:
    from spark_jobs.cxl import typed, types


@dataclass(frozen=True)
class Match:
    """A column of a record and a column of another source that must be equal. Nulls are never equal."""

    here: str
    here_type: types.Type
    there: str
    there_type: types.Type


@dataclass(frozen=True)
class Call:
    """A call. Equal calls of a program are one.

    Args:
        function: the function's name.
        column: the column of its values.
        failure: the column of its failures.
        type: the type of its values.
        argument: its argument for a row of the frame, a program with one emit; None for a column, or no argument.
        field: the column that is its argument.
        argument_type: the type of its argument.
        offset: the distance in rows for `lag` and `lead`; a program with one emit if it differs between records.
        own: the values of the record itself that the argument reads: columns, each with a program that has one emit.
        text: the call's source text.
    """

    function: str
    column: str
    failure: str
    type: types.Type
    argument: typed.Program | None
    field: str | None
    argument_type: types.Type
    offset: int | typed.Program
    own: tuple[tuple[str, typed.Program], ...]
    text: str

    @property
    def needs_partition(self) -> bool:
        """True if it needs all rows of a partition at once."""
        return bool(self.own) or not isinstance(self.offset, int)

    @property
    def reads_results(self) -> bool:
        """True if its argument is computed from results of other calls."""
        return self.argument is not None and any(name in RANGED for name in self.argument.columns)

    @property
    def following(self) -> int:
        """The number of rows after a row that the call reads."""
        return max(self.offset, 0) if self.function == "lead" and isinstance(self.offset, int) else 0

    @property
    def gathers(self) -> bool:
        """True if each row gets an array of values of its frame."""
        return declare.windows()[self.function].gathers is not None

    @property
    def is_by_position(self) -> bool:
        """True if it counts from the row's position in its partition."""
        return declare.windows()[self.function].by_position

    @property
    def obstacle(self) -> str | None:
        """The reason why it runs row by row; None if it has a kernel."""
        if self.own:
            return "the value that it compares with differs from record to record"
        window = declare.windows()[self.function]
        if not window.is_by_row(self.argument_type):
            return None
        if window.running is None:
            return "the function has no kernel"
        return f"the values' type is known at run time only ({self.argument_type})"

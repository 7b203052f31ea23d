"""A call of a window function as a plan has it, and the order of the rows that it ranges over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.records.columns import RANGED

if TYPE_CHECKING:
    from spark_jobs.cxl import typed, types


@dataclass(frozen=True)
class Match:
    """A column of a record and one of another source that have to be equal; nulls never are."""

    here: str
    here_type: types.Type
    there: str
    there_type: types.Type


@dataclass(frozen=True)
class Call:
    """One call; equal ones of a program are one.

    Args:
        function: its name.
        column: the column of its values.
        failure: the column of its failures.
        type: the type of its values.
        argument: its argument for a row of the frame, a program with one emit; None for a column, or nothing.
        field: the column that is its argument.
        argument_type: the type of its argument.
        offset: how many rows away `lag` and `lead` look; a program with one emit where each record says it.
        own: what of the record itself the argument reads: columns, each with a program that has one emit.
        text: the call as it is written.
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
        """Whether all rows of a partition have to be at hand for it."""
        return bool(self.own) or not isinstance(self.offset, int)

    @property
    def reads_results(self) -> bool:
        """Whether its argument is computed from results of other calls."""
        return self.argument is not None and any(name in RANGED for name in self.argument.columns)

    @property
    def following(self) -> int:
        """The number of rows after a row that the call looks at."""
        return max(self.offset, 0) if self.function == "lead" and isinstance(self.offset, int) else 0

    @property
    def gathers(self) -> bool:
        """Whether each row gets an array of values of its frame."""
        return declare.windows()[self.function].gathers is not None

    @property
    def is_by_position(self) -> bool:
        """Whether it counts from the row's place in its partition."""
        return declare.windows()[self.function].by_position

    @property
    def obstacle(self) -> str | None:
        """Why it runs row by row; None where it has a kernel."""
        if self.own:
            return "the value that it compares with differs from record to record"
        window = declare.windows()[self.function]
        if not window.is_by_row(self.argument_type):
            return None
        if window.running is None:
            return "the function has no kernel"
        return f"the values' type is known at run time only ({self.argument_type})"

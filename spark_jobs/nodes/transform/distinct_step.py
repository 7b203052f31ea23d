"""What a `distinct` statement is when it runs: the columns of the record that hold its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import types


@dataclass(frozen=True)
class DistinctStep(node.Step):
    """One `distinct` of the transform `name`: the first record in record order of each combination of keys goes on.

    `keys` are columns that the part of the program before it has computed, with their types.
    """

    kind: ClassVar[str] = "transform"

    keys: tuple[tuple[str, types.Type], ...]

    @property
    def module(self) -> str:
        """Beside that of whole transforms."""
        return "distinct_run"

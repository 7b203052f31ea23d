"""What a `distinct` statement is when it runs: the columns of the record that hold its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.nodes.transform.step import LogDirective


@dataclass(frozen=True)
class DistinctStep(node.Step):
    """One `distinct` of the transform `name`: the first record in record order of each combination of keys goes on.

    `keys` are columns that the part of the program before it has computed, with their types; `log` tells of records
    that have no keys.
    """

    kind: ClassVar[str] = "transform"

    keys: tuple[tuple[str, types.Type], ...]
    log: tuple[LogDirective, ...] = ()

    @property
    def module(self) -> str:
        """Beside that of whole transforms."""
        return "distinct_run"

"""What a merge is when it runs: an order of inputs and the columns of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.cxl import types


@dataclass(frozen=True)
class MergeStep(node.Step):
    """A merge, bound. `columns` are the first input's names: the others are matched by name (decision 52).

    `conversions` are, for each input, the columns that have another type there than in the result, with both types;
    metadata that an input lacks is a null there.
    `interleave` is False for concat; with interleave, `seed` chooses the drawn order, None the round robin.
    """

    kind: ClassVar[str] = "merge"

    columns: tuple[str, ...]
    conversions: tuple[tuple[tuple[str, types.Type, types.Type], ...], ...]
    interleave: bool = False
    seed: int | None = None

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """The order of the result follows from the inputs."""
        return (shape.Local(self, lanes=True),)

"""What a merge is when it runs: an order of inputs and the columns of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_jobs.nodes import node


@dataclass(frozen=True)
class MergeStep(node.Step):
    """A merge, bound. `columns` are the first input's names: the others are matched by name (decision 52).

    `interleave` is False for concat; with interleave, `seed` chooses the drawn order, None the round robin.
    """

    kind: ClassVar[str] = "merge"

    columns: tuple[str, ...]
    interleave: bool = False
    seed: int | None = None

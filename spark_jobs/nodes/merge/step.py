"""The bound merge: an order of inputs, and the columns of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.needs import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_jobs.cxl import types


@dataclass(frozen=True)
class MergeStep(node.Step):
    """A merge, bound. `columns` are the first input's names; the others are matched by name.

    `conversions` are, for each input, the columns whose type differs from the result, with both types. Metadata that an
    input lacks is null. `shared` are engine columns that all inputs have and that the result keeps. `interleave` is
    False for concat. With interleave, `seed` chooses the drawn order; None is round robin.
    """

    kind: ClassVar[str] = "merge"

    columns: tuple[str, ...]
    conversions: tuple[tuple[tuple[str, types.Type, types.Type], ...], ...]
    shared: tuple[str, ...] = ()
    interleave: bool = False
    seed: int | None = None

    @property
    def module(self) -> str:
        """`interleave` if inputs take turns, for which they are materialized first."""
        return "interleave" if self.interleave else "run"

    @property
    def needs(self) -> tuple[Rows, ...]:
        """All inputs if they are interleaved, because the order depends on how many records arrive."""
        if not self.interleave:
            return ()
        why = "inputs are counted before their records are taken in turn (mode: interleave)"
        return tuple(Rows(self.name, str(number), why, go_on=True) for number in range(len(self.conversions)))

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Each input is a merge path of its own; interleaved inputs are one merge path."""
        return (shape.LocalPhase(self, merge_paths=not self.interleave),)

    def schedule(self, counts: Sequence[int], create: Callable[[], IO[bytes]]) -> bool:
        if self.seed is None:
            return False
        from spark_jobs.nodes.merge import turns

        with create() as file:
            turns.write_drawn(counts, self.seed, file)
        return True

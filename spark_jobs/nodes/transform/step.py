"""What a transform is when it runs: a checked program, then validations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.nodes import node, shape

if TYPE_CHECKING:
    from spark_jobs.cxl import typed


@dataclass(frozen=True)
class Validation:
    """A check on each output record; `name` is the rule's name for `_cxl_dlq_trigger` (decision 63)."""

    name: str
    check: typed.Program
    is_error: bool
    message: str


@dataclass(frozen=True)
class LogDirective:
    """A `log:` entry (book: transform, log directives)."""

    level: str
    when: str
    message: str
    condition: typed.Program | None = None
    fields: tuple[str, ...] = ()
    every: int = 1
    #: The external rule that the entry builds on.
    rule: str | None = None


@dataclass(frozen=True)
class TransformStep(node.Step):
    """A transform, bound. `window` is the bound analytic window, None for ordinary transforms."""

    kind: ClassVar[str] = "transform"

    program: typed.Program
    validations: tuple[Validation, ...] = ()
    log: tuple[LogDirective, ...] = ()
    max_expansion: int = 10_000
    window: Any = None

    def partitions(self, sizes: shape.Sizes) -> int:
        """As many as the records are worth that `distinct` compares."""
        return sizes.partitions(self.name) if len(self.phases(1)) > 1 else 1

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """What stands before a `distinct`, the meeting of equal values, what stands after it."""
        from spark_jobs.nodes.transform import phases

        return phases.of(self, partitions)

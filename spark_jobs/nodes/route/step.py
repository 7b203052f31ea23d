"""The bound route: a predicate for each branch, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import typed


@dataclass(frozen=True)
class RouteStep(node.Step):
    """A route, bound: its ports are the branch names and `default`."""

    kind: ClassVar[str] = "route"

    branches: tuple[tuple[str, typed.Program], ...]
    default: str
    inclusive: bool = False

    @property
    def stage(self) -> str:
        """The stage of route errors, which carries no node name."""
        return "route_eval"

"""What the windows of a transform are when they run: where rows meet, in what order, and what is computed of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.nodes.terms.sort import SortField
    from spark_jobs.nodes.transform.step import LogDirective
    from spark_jobs.nodes.windows.call import Call


@dataclass(frozen=True)
class WindowStep(node.Step):
    """All window functions of the transform `name`: each record goes on with the columns that they gave.

    Args:
        keys: the columns of `group_by`, with their types.
        fields: `sort_by`.
        calls: the functions, in the order in which they are computed.
        spare: the columns that nothing reads behind them.
        log: tells of records that are in no partition, because they have no keys.
    """

    kind: ClassVar[str] = "transform"

    keys: tuple[tuple[str, types.Type], ...]
    fields: tuple[SortField, ...]
    calls: tuple[Call, ...]
    spare: frozenset[str] = frozenset()
    log: tuple[LogDirective, ...] = ()

    @property
    def module(self) -> str:
        """Beside that of whole transforms."""
        return "window_run"

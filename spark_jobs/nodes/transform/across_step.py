"""What windows over another source are when they run: which of its rows belong to a record, and in what order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.nodes.terms.sort import SortField
    from spark_jobs.nodes.windows.call import Call, Match


@dataclass(frozen=True)
class AcrossStep(node.Step):
    """All window functions of the transform `name`, over the rows of a source that an earlier job wrote down.

    Args:
        rows: these rows.
        matches: what must be equal; without any all rows belong to every record.
        fields: `sort_by`.
        calls: the functions, in the order in which they are computed.
    """

    kind: ClassVar[str] = "transform"

    rows: Rows
    matches: tuple[Match, ...]
    fields: tuple[SortField, ...]
    calls: tuple[Call, ...]

    @property
    def module(self) -> str:
        """Beside that of whole transforms."""
        return "across_run"

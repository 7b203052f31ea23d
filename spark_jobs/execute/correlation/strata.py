"""Which of the failures of a pass count at once: those that no other failure of the pass can have caused.

What failed may have failed because of a record that counts as never read from now on: its total, its match, its frame
may be good without that one. So a failure waits for others where these are of records that it depends on, and where
these themselves depend on fewer (`spark_jobs/plan/physical/sway.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.execute.letters.marks import Holds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from spark_jobs.nodes.terms.correlation import GroupPlan


def first(facts: pa.Table, plan: GroupPlan, sources: Sequence[str]) -> np.ndarray:
    """Which of some failures, of records and of rows, wait for no others.

    Args:
        facts: what failed.
        plan: what records depend on.
        sources: the names of the sources by their numbers.
    """
    standings = list(plan.standings.values())
    node, source, holds = (facts.column(name).to_numpy() for name in ("node", "source", "holds"))
    causes: dict[int, set[str]] = {}
    for where, of, held in _combinations(node, source, holds):
        mine = standings[where].sources if held == Holds.ROW else {sources[of]}
        causes.setdefault(where, set()).update(mine)
    ready = [
        where
        for where in causes
        if not any(
            standings[other].depth < standings[where].depth and standings[where].swayed_by & those
            for other, those in causes.items()
        )
    ]
    found: np.ndarray = np.isin(node, ready)
    return found


def _combinations(*columns: np.ndarray) -> list[tuple[int, ...]]:
    """Which small numbers come together, in order."""
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    codes = np.ravel_multi_index([column.astype(np.int64) for column in columns], sizes)
    come = np.flatnonzero(np.bincount(codes, minlength=1))
    return list(zip(*(each.tolist() for each in np.unravel_index(come, sizes)), strict=True))

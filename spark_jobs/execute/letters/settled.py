"""The dead letters of a run whose passes were repeated: what each of them found that holds, each record once.

Entries of records count from the pass on that found them, those of rows that are no records only in the last. A record
may have failed in several places, or have reached several outputs that its group is rejected from: its first entry is
told (decision 108). What comes out looks as if one pass had found it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.letters import gather, runs
from spark_jobs.execute.letters.files import DRIVER_ENTRIES
from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks import report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.letters.marks import Holding
    from spark_jobs.execute.tasks.spec import RunSpec

#: Tasks that share a larger number of entries.
_TASKS = 64
_HELD_BYTES = 16 << 20
#: What tells one thing from another: a record or the row of an aggregate, and for a companion its driver.
_IDENTITY = ("split", "row", "group", "cause_split", "cause_row")


@dataclass(frozen=True)
class Found:
    """The dead letters of a pass that hold: the files, and which of their entries."""

    letters: tuple[report.Letters, ...]
    holding: Holding


def settle(spark: SparkSession, run: RunSpec, found: Sequence[Found]) -> list[report.Letters]:
    """The dead letters that hold, in files of their own."""
    letters = [(entry, one.holding) for one in found for entry in one.letters if entry.path]
    if not letters:
        return []
    holding = {str(entry.path): kept for entry, kept in letters}
    first = min(entry.splits[0] for entry, _ in letters)
    last = max(entry.splits[1] for entry, _ in letters)
    many = sum(entry.count for entry, _ in letters) > DRIVER_ENTRIES
    size = max(1, -(-(last - first + 1) // _TASKS)) if many else last - first + 1
    stretches = [(start, start + size - 1) for start in range(first, last + 1, size)]
    settling = partial(_settle_stretch, run, holding, {str(entry.path): entry.splits for entry, _ in letters})
    done = spread.spread(spark, settling, stretches) if many else [settling(stretch) for stretch in stretches]
    return [entry for entry in done if entry.count]


def _settle_stretch(
    run: RunSpec,
    holding: Mapping[str, Holding],
    splits_of: Mapping[str, tuple[int, int]],
    splits: tuple[int, int],
) -> report.Letters:
    """The entries that name some splits."""
    files = [path for path, (low, high) in splits_of.items() if low <= splits[1] and high >= splits[0]]
    gathered = gather.Gathered(f"{run.scratch}/settled-{uuid.uuid4().hex}.arrow", run.filed, run.named, _HELD_BYTES)
    merged = runs.Merged(files, splits, holding)
    once = _Once()
    for part in merged.parts():
        if (kept := once.first(part)).num_rows:
            gathered.take(kept, merged.whys)
    gathered.write()
    return report.letters(gathered)


class _Once:
    """Knows the entries of the last record, whose others may be in the next part."""

    def __init__(self) -> None:
        self._last = np.empty((0, len(_IDENTITY)), dtype=np.int64)

    def first(self, part: pa.Table) -> pa.Table:
        """The first entry of each thing; entries come by records."""
        whole = np.stack([part.column(name).to_numpy().astype(np.int64) for name in _IDENTITY], axis=1)
        known = len(self._last)
        everything = np.concatenate([self._last, whole])
        _, first = np.unique(everything, axis=0, return_index=True)
        rows = np.sort(first[first >= known]) - known
        self._last = everything[(everything[:, :2] == everything[-1, :2]).all(axis=1)]
        return part if len(rows) == part.num_rows else part.take(pa.array(rows))

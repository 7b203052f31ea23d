"""The names of undeclared columns that only records tell: looked for part by part, wherever that is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.formats import splits

if TYPE_CHECKING:
    from spark_jobs.formats.columns import ColumnTracker, FilePlan
    from spark_jobs.formats.reader import Reader
    from spark_jobs.formats.splits import Split


@dataclass(frozen=True)
class Part:
    """A part of a file whose names are looked for; `declared` are those that are known."""

    split: Split
    file_plan: FilePlan
    declared: tuple[str, ...]


#: Looks for the names of some parts as `names_of` does, wherever that is done, in any groups of neighbours.
Search = Callable[["Reader", Sequence[Part]], list[tuple[str, ...]]]


def names_of(reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """The undeclared names of each part's records in first-seen order; those of parts before it may be left out.

    Raises:
        FormatError: a file cannot be read, changed (E907), or is broken.
    """
    return [names for group in reader.groups(parts) for names in reader.names(group)]


def search_here(reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """Look for names in this process, several parts at a time: most of the work is Arrow's."""
    groups = reader.groups(parts)
    if len(groups) < 2:
        return names_of(reader, parts)
    with ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1)) as pool:
        return [names for found in pool.map(reader.names, groups) for names in found]


def note_undeclared(
    tracker: ColumnTracker, reader: Reader, plans: Sequence[FilePlan], declared: Sequence[str], search: Search
) -> None:
    """Note the undeclared names of all records, file by file.

    Raises:
        FormatError: see `names_of`; or one of them is rejected.
    """
    parts = [Part(split, plans[split.file], tuple(declared)) for split in splits.plan(plans)]
    for part, found in zip(parts, search(reader, parts), strict=True):
        for name in found:
            tracker.note_undeclared(part.file_plan.file.name, name)

"""Finds names of undeclared columns that only records show, part by part, on the driver or in tasks."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from spark_jobs.formats import splits
from spark_jobs.scan import files as input_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from spark_jobs.formats.columns import ColumnTracker, FilePlan
    from spark_jobs.formats.reader import Reader
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.files import InputFile


@dataclass(frozen=True)
class Part:
    """A part of a file that is searched for names.

    Args:
        split: where it is.
        file_plan: how the file is read.
        declared: the names that are known.
        most_records: how many of its first records are looked at; None for all.
    """

    split: Split
    file_plan: FilePlan
    declared: tuple[str, ...]
    most_records: int | None = None


class Search(Protocol):
    """Looks into files before a run reads them: in this process or by tasks."""

    def prefetched(self, files: Sequence[InputFile]) -> AbstractContextManager[None]:
        """Fetches the beginnings of files in stores ahead of their readers, while the context lasts."""

    def sample(self, reader: Reader, parts: Sequence[Part]) -> list[Part] | None:
        """The parts that are searched now, at most one of each file, where reading will report other names.

        None where all have to be looked at before.
        """

    def __call__(self, reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The names of some parts, as `names_of` finds them, in any groups of neighbours."""


def names_of(reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """The undeclared names of each part's records in first-seen order; names of earlier parts may be left out.

    Raises:
        FormatError: a file cannot be read, changed (E907), or is broken.
    """
    return [names for group in reader.groups(parts) for names in reader.names(group)]


class SearchHere:
    """Looks into all files in this process."""

    def prefetched(self, files: Sequence[InputFile]) -> AbstractContextManager[None]:
        """Threads fetch beginnings."""
        return input_files.prefetched(files)

    def sample(self, reader: Reader, parts: Sequence[Part]) -> None:
        """All parts are looked at."""

    def __call__(self, reader: Reader, parts: Sequence[Part], at_a_time: int | None = None) -> list[tuple[str, ...]]:
        """Look at several parts at a time, as many as there are processors or at most so many: the work is Arrow's."""
        groups = reader.groups(parts)
        if len(groups) < 2:
            return names_of(reader, parts)
        with ThreadPoolExecutor(min(len(groups), at_a_time or len(groups), os.cpu_count() or 1)) as pool:
            return [names for found in pool.map(reader.names, groups) for names in found]


search_here = SearchHere()


def note_undeclared(
    tracker: ColumnTracker, reader: Reader, plans: Sequence[FilePlan], declared: Sequence[str], search: Search
) -> tuple[FilePlan, ...]:
    """Note the undeclared names of all records, or of a sample of them, file by file.

    Returns:
        the plans; where a sample was taken, with the names that are known when a file is read. Names are in first-seen
        order as long as no file has others than those.

    Raises:
        FormatError: see `names_of`; or one of them is rejected.
    """
    parts = [Part(split, plans[split.file], tuple(declared)) for split in splits.plan(plans)]
    sample = search.sample(reader, parts)
    wanted = parts if sample is None else sample
    by_file: dict[int, tuple[str, ...]] = {}
    for part, found in zip(wanted, search(reader, wanted), strict=True):
        by_file[part.split.file] = found
        for name in found:
            tracker.note_undeclared(part.file_plan.file.name, name)
    if sample is None:
        return tuple(plans)
    known: dict[str, None] = {}
    made = []
    for number, plan in enumerate(plans):
        known.update(dict.fromkeys(by_file.get(number, ())))
        made.append(replace(plan, known=tuple(known)))
    return tuple(made)

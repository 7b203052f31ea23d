"""Finds undeclared columns that only records show: here in small inputs, by tasks in large ones.

If the format allows it, tasks notice them while they read. The first records nearly always have all names. If they did
not, the results without the other names are discarded, and tasks of their own search for the names.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.execute.spark import spread
from spark_jobs.formats import names
from spark_jobs.scan import files as input_files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from spark_jobs.formats.names import Part
    from spark_jobs.formats.reader import Reader
    from spark_jobs.scan.files import InputFile
    from spark_jobs.stores.refusals import StoreError
    from spark_jobs.tuning import Tuning

    _Item = TypeVar("_Item")

#: The first records of this many files are a sample.
_SAMPLE_FILES = 64


class NameSearch:
    """Looks into files by tasks where there is much to read; see `names.Search`.

    Args:
        session: gives the Spark session, once it is open.
        tuning: how much is read here, and how much by a task; how large a sample is.
        samples: whether a look at the first records is enough where reading reports others.
        threads: so many parts are held in memory here at a time; None: as many as there are processors.
    """

    def __init__(
        self, session: Callable[[], SparkSession], tuning: Tuning, *, samples: bool, threads: int | None = None
    ) -> None:
        self._session = session
        self._tuning = tuning
        self._samples = samples
        self._threads = threads

    def prefetched(self, files: Sequence[InputFile]) -> AbstractContextManager[None]:
        """Threads of the driver fetch the beginnings of objects, and tasks where there are very many."""
        objects = input_files.objects_of(files)
        if len(objects) <= self._tuning.driver_heads:
            return input_files.prefetched(files)
        batches = _packs(objects, input_files.beginning_bytes, self._tuning.head_batch_bytes, self._tuning.head_batch)
        return input_files.prefetched_in_batches(batches, self._beginnings)

    def _beginnings(self, files: Sequence[InputFile]) -> list[bytes | StoreError]:
        packs = _packs(files, input_files.beginning_bytes, self._tuning.head_batch_bytes, self._tuning.head_pack)
        found = spread.parallel_map(self._session(), input_files.beginnings, packs)
        return [answer for of_pack in found for answer in of_pack]

    def sample(self, reader: Reader, parts: Sequence[Part]) -> list[Part] | None:
        """The first records of the first files, where files are large and reading them reports other names."""
        first = {part.split.file: part for part in reversed(parts)}
        least = max(self._tuning.driver_name_bytes, len(first) * self._tuning.name_sample_bytes)
        if not self._samples or not reader.notices_names or _size(parts) <= least:
            return None
        if any(part.file_plan.file.is_compressed or part.file_plan.file.most_records for part in first.values()):
            return None
        count = self._tuning.name_sample_records
        return [replace(first[file], most_records=count) for file in sorted(first)[:_SAMPLE_FILES]]

    def __call__(self, reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The names of each part.

        Raises:
            FormatError: a part cannot be read.
        """
        if all(part.most_records for part in parts) or _size(parts) <= self._tuning.driver_name_bytes:
            return names.search_here(reader, parts, self._threads)
        # A file that cannot be read ends the run with these words; trying it again would not help.
        packs = _packs(parts, _part_bytes, self._tuning.name_pack_bytes)
        found = spread.parallel_map(self._session(), partial(names.names_of, reader), packs, reraised=(FormatError,))
        return [leaves for of_pack in found for leaves in of_pack]


def _size(parts: Sequence[Part]) -> int:
    return sum(map(_part_bytes, parts))


def _part_bytes(part: Part) -> int:
    return part.split.end - part.split.start


def _packs(
    items: Sequence[_Item], size: Callable[[_Item], int], most_bytes: int, most: int = sys.maxsize
) -> list[tuple[_Item, ...]]:
    """Items in groups: small neighbours together, until a group has so many bytes or items."""
    packs: list[list[_Item]] = []
    filled = most_bytes
    for item in items:
        if filled >= most_bytes or len(packs[-1]) >= most:
            packs.append([])
            filled = 0
        packs[-1].append(item)
        filled += size(item)
    return [tuple(pack) for pack in packs]

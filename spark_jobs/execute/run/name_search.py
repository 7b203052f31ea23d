"""Finds undeclared columns that only records tell: here in small inputs, by tasks in large ones.

Tasks notice them while they read records for good, where the format can do that: a look at the first records says which
there are nearly always, and where it did not, what was made without the others is dropped, and they are searched for by
tasks of their own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import spread
from spark_jobs.formats import names
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.formats.names import Part
    from spark_jobs.formats.reader import Reader
    from spark_jobs.tuning import Tuning

#: Of so many files the first records are a sample.
_SAMPLE_FILES = 64


class NameSearch:
    """Finds names by tasks where there is much to read; see `names.Search`.

    Args:
        session: gives the Spark session, once it is open.
        tuning: how many bytes are searched here, and by a task; what is a sample.
        samples: whether a look at the first records is enough where reading tells of others.
    """

    def __init__(self, session: Callable[[], SparkSession], tuning: Tuning, *, samples: bool) -> None:
        self._session = session
        self._tuning = tuning
        self._samples = samples

    def sample(self, reader: Reader, parts: Sequence[Part]) -> list[Part] | None:
        """The first records of the first files, where files are large and reading them tells of other names."""
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
            return names.search_here(reader, parts)
        # A file that cannot be read ends the run with these words; trying it again would not help.
        packs = _packs(parts, self._tuning.name_pack_bytes)
        found = spread.spread(self._session(), partial(names.names_of, reader), packs, told=(FormatError,))
        return [leaves for of_pack in found for leaves in of_pack]


def _size(parts: Sequence[Part]) -> int:
    return sum(part.split.end - part.split.start for part in parts)


def _packs(parts: Sequence[Part], most: int) -> list[tuple[Part, ...]]:
    """The parts by tasks: small neighbours together, until they have so many bytes."""
    packs: list[list[Part]] = []
    filled = most
    for part in parts:
        if filled >= most:
            packs.append([])
            filled = 0
        packs[-1].append(part)
        filled += part.split.end - part.split.start
    return [tuple(pack) for pack in packs]

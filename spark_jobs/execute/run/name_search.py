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

#: Up to this many bytes are looked at here: a job costs more than that.
DRIVER_BYTES = 32 << 20
_PACK_BYTES = 16 << 20
#: Of so many files the first records are a sample, where files have some megabytes; so many records of each.
_SAMPLE_FILES = 64
_SAMPLE_BYTES = 4 << 20
_SAMPLE_RECORDS = 512


class NameSearch:
    """Finds names by tasks where there is much to read; see `names.Search`.

    Args:
        session: gives the Spark session, once it is open.
        samples: whether a look at the first records is enough where reading tells of others.
    """

    def __init__(self, session: Callable[[], SparkSession], *, samples: bool) -> None:
        self._session = session
        self._samples = samples

    def sample(self, reader: Reader, parts: Sequence[Part]) -> list[Part] | None:
        """The first records of the first files, where files are large and reading them tells of other names."""
        first = {part.split.file: part for part in reversed(parts)}
        size = _size(parts)
        if not self._samples or not reader.notices_names or size <= max(DRIVER_BYTES, len(first) * _SAMPLE_BYTES):
            return None
        if any(part.file_plan.file.is_compressed or part.file_plan.file.most_records for part in first.values()):
            return None
        return [replace(first[file], most_records=_SAMPLE_RECORDS) for file in sorted(first)[:_SAMPLE_FILES]]

    def __call__(self, reader: Reader, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The names of each part.

        Raises:
            FormatError: a part cannot be read.
        """
        if all(part.most_records for part in parts) or _size(parts) <= DRIVER_BYTES:
            return names.search_here(reader, parts)
        # A file that cannot be read ends the run with these words; trying it again would not help.
        found = spread.spread(self._session(), partial(names.names_of, reader), _packs(parts), told=(FormatError,))
        return [leaves for of_pack in found for leaves in of_pack]


def _size(parts: Sequence[Part]) -> int:
    return sum(part.split.end - part.split.start for part in parts)


def _packs(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """The parts by tasks: small neighbours together."""
    packs: list[list[Part]] = []
    filled = _PACK_BYTES
    for part in parts:
        if filled >= _PACK_BYTES:
            packs.append([])
            filled = 0
        packs[-1].append(part)
        filled += part.split.end - part.split.start
    return [tuple(pack) for pack in packs]

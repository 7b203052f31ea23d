"""Inspects the files of a plan's sources for `explain`, as far as that is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.plan.explain.columns import SourceProbe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.scan.files import InputFile

#: The number of files of a source that are inspected.
MOST_FILES = 200
#: The bytes that are read of a source without a header, in which each record names its own columns.
MOST_BYTES = 8 << 20


def probe(step: SourceStep, source: Discovered) -> SourceProbe:
    """Probe the files of a source, or say why that is not possible."""
    if source.problem is not None:
        return SourceProbe(reason=str(source.problem))
    if source.is_network:
        asks = "fetches its files from a network" if step.file_format.has_files else "asks the database"
        return SourceProbe(reason=f"a run {asks}")
    files, reason = _within_bounds(step, source.files)
    if reason and not files:
        return SourceProbe(len(source.files), reason=reason)
    return _scanned(step, files, len(source.files), reason)


def _within_bounds(step: SourceStep, files: Sequence[InputFile]) -> tuple[list[InputFile], str | None]:
    """The first files, as many as may be opened, and why it is not all of them."""
    are_read = step.file_format.names_in_records and step.on_unmapped is not OnUnmapped.DROP
    left = MOST_BYTES if are_read else None
    for number, file in enumerate(files):
        if number == MOST_FILES:
            return list(files[:number]), f"explain opens {MOST_FILES} files of a source at most"
        if left is not None:
            left -= _plain_size(step, file)
            if left < 0:
                mib = MOST_BYTES >> 20
                return list(files[:number]), f"explain reads {mib} MiB of a {step.file_format.title} source at most"
    return list(files), None


def _plain_size(step: SourceStep, file: InputFile) -> int:
    """The unpacked size of a file in bytes, as far as its beginning shows."""
    # Here, not above, for the same reason as below.
    from spark_jobs.scan import unpacking
    from spark_jobs.scan.files import FormatError

    try:
        (known,) = unpacking.with_ratios([step.packed(file)])
    except FormatError:
        return file.size
    return known.plain_size


def _scanned(step: SourceStep, files: Sequence[InputFile], total: int, reason: str | None) -> SourceProbe:
    # Here, not above: this loads Arrow, which nothing else of a plan needs.
    from spark_jobs.scan.files import FormatError

    try:
        scan = step.scan(files, step.on_unmapped)
    except FormatError as error:
        return SourceProbe(total, reason=f"{error.code}: {error}" if error.code else str(error))
    return SourceProbe(total, len(files), scan.facts(), reason)

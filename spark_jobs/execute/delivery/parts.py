"""Outputs that are folders of parts: the part of each task becomes a file of its own, and nothing is joined.

The files are published like all others. Readers of the folder would read any other files too, so a run refuses these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.execute.delivery.destination import FileType
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import registry
from spark_jobs.scan import compression

if TYPE_CHECKING:
    from spark_jobs.execute.delivery.destination import Destination
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.stores.location import FilePath

_NAME = re.compile(r"part-\d{5,}\..*")


def part_path(folder: FilePath, step: OutputStep, number: int) -> FilePath:
    """The file of a part. Numbers begin with 0."""
    format = registry.named(step.format)
    ending = f"{format.ending or format.name}{compression.USUAL_ENDINGS[step.compression]}"
    return folder / f"part-{number:05}.{ending}"


def existing(there: Destination[FilePath], folder: FilePath) -> list[FilePath]:
    """The files in a folder that readers would read as records: names without a leading dot or underscore."""
    return [folder / name for name in there.names(folder) if not name.startswith((".", "_"))]


def refuse_others(there: Destination[FilePath], folder: FilePath, step: OutputStep) -> None:
    """Stop if a file has the folder's path, or the folder contains files that no run has written as parts.

    Raises:
        RunFailed: this is the case; no option allows it.
    """
    standing = there.standing(folder)
    if standing in (FileType.FILE, FileType.OTHER):
        raise RunFailed(ExitCode.IO, "E902", f"{folder} is {standing.value}: a folder of parts cannot be written there")
    others = [path.name for path in existing(there, folder) if not _NAME.fullmatch(path.name)]
    if others:
        text = f"{folder} has {', '.join(others[:3])}, which is not a part; readers of the folder would read it too"
        raise RunFailed(ExitCode.IO, "E902", f"{text}; write into another folder, or remove it")

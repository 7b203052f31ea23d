"""Fetches the pages of network sources into a folder of the run, several sources at a time, on the driver."""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.execute import scratch, verdict
from spark_jobs.formats.pages import Pages
from spark_jobs.scan.files import FormatError
from spark_jobs.scan.network import http, rest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan import plan as plans
    from spark_jobs.scan.files import InputFile
    from spark_jobs.scan.matching import Matched

#: Sources that are pulled at a time.
MOST_AT_A_TIME = 8
#: The time in seconds that abandoned pulls may take to notice it, before the run continues without them.
_TIMEOUT_S = 0.5
_COPIED_BYTES = 1 << 20


def fetch(
    plan: plans.Plan, steps: Mapping[str, SourceStep], folder: Path, most_records: int | None = None
) -> dict[str, Matched]:
    """The pages of some network sources.

    The pulls have threads of their own, and this one only waits: an interrupt must not be held up by a slow server.

    Args:
        plan: the plan, for the places of its nodes.
        steps: the sources by name.
        folder: where the pages go.
        most_records: how many records of each source are wanted at most; None for all.

    Raises:
        RunFailed: a source cannot be read; the others are given up.
    """
    cancellation = http.Cancellation()
    waiting: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[str, Matched | BaseException]] = queue.SimpleQueue()
    for number, name in enumerate(steps):
        waiting.put((number, name))

    def work() -> None:
        while True:
            try:
                number, name = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                wanted = _wanted(steps[name], most_records)
                ended.put((name, rest.pull(wanted, folder, f"pages-{number}", cancellation)))
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                ended.put((name, error))
                return

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(len(steps), MOST_AT_A_TIME))]
    found: dict[str, Matched] = {}
    try:
        with http.silenced():
            for worker in workers:
                worker.start()
            while len(found) < len(steps):
                name, result = ended.get()
                if isinstance(result, BaseException):
                    raise _as_run_error(plan, name, result)
                found[name] = result
    except BaseException:
        cancellation.stop()
        deadline = time.monotonic() + _TIMEOUT_S
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(deadline - time.monotonic(), 0))
        raise
    return {name: found[name] for name in steps}


def handed_over(pages: Mapping[str, Matched], room: Scratch) -> dict[str, Matched]:
    """The pages where tasks can read them: as they are, or in the scratch location where that is in a store.

    Raises:
        OSError: they cannot be written there.
    """
    if room.is_local:
        return {**pages}
    return {name: replace(each, files=tuple(_sent(file, room) for file in each.files)) for name, each in pages.items()}


def _sent(file: InputFile, room: Scratch) -> InputFile:
    path = room.file(os.path.basename(file.path))
    with open(file.path, "rb") as source, scratch.create(path) as target:
        shutil.copyfileobj(source, target, _COPIED_BYTES)
    made = room.described(path, file.name)
    return replace(made, source_file=file.source_file, most_records=file.most_records)


def _wanted(step: SourceStep, most_records: int | None) -> rest.Pull:
    endpoint: Any = step.endpoint
    return rest.Pull(step.name, endpoint, Pages(step.reader), most_records)


def _as_run_error(plan: plans.Plan, name: str, error: BaseException) -> BaseException:
    """A failed pull as the end of the run."""
    if isinstance(error, FormatError):
        return verdict.broken(plan, error.code or "E900", str(error), name)
    return error

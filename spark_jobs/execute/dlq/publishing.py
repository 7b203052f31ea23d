"""A dead-letter file after some of its entries are done: it, its ledger and files of a replay change together."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute import identity, interrupts
from spark_jobs.execute.delivery import places
from spark_jobs.execute.delivery.destination import Content, FileType, PartRange, whole
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.execute.dlq import work_list
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.execute.delivery.destination import Destination, Draft
    from spark_jobs.execute.dlq.work_list import Entry, WorkList
    from spark_jobs.stores.location import FilePath


def publish(
    before: WorkList,
    left: Sequence[Entry],
    events: Sequence[str],
    files: Mapping[FilePath, Content] | None = None,
    ledgers: Sequence[FilePath] = (),
    access: StorageAccess | None = None,
) -> None:
    """Leave some entries in a dead-letter file, note what became of the others, and publish files: all or nothing.

    Args:
        before: the file as it was read.
        left: the entries that stay in it.
        events: lines for its ledger.
        files: other files, local ones and objects.
        ledgers: further ledgers for the events, if this file may be a copy of theirs.
        access: access to stores.

    Raises:
        OSError: a file cannot be read or written; nothing has changed then.
        RunFailed: some of the files are published already, and others are not; see `joint.publish`.
    """
    access = access or StorageAccess()
    path = before.path.absolute() if isinstance(before.path, Path) else before.path
    there = places.destinations(access)
    noted = (work_list.ledger_of(path), *ledgers)
    folders = list(dict.fromkeys(target.parent for target in (path, *noted, *(files or {}))))
    for folder in folders:
        there.recover(folder)
    targets = {path: _list(before, left), **(files or {})}
    targets |= {ledger: _ledger(there, ledger, events, access) for ledger in noted}
    home = next((folder for folder in folders if isinstance(folder, Path)), Path(tempfile.gettempdir()))
    draft = there.open(identity.uuid7(), home, folders)
    done = False
    try:
        with draft.exclusive():
            for target, content in targets.items():
                if content is None:
                    draft.remove(target)
                else:
                    draft.assemble(target, content if isinstance(target, Path) else _in_store(draft, target, content))
            draft.finish(None)
            with interrupts.ignore_signals():
                draft.publish()
                done = True
    finally:
        with interrupts.ignore_signals():
            draft.close(failed=not done)


def _in_store(draft: Draft[FilePath], target: FilePath, content: Content) -> Content:
    """Move the ranges of a file into the store: local ranges become parts there."""
    ranges = []
    for part_range in content.ranges:
        if location.is_uri(part_range.path):
            ranges.append(part_range)
            continue
        part = f"{draft.parts(target)}/{uuid.uuid4().hex}"
        with draft.part_store.open(part_range.path) as local, draft.part_store.create(part) as file:
            local.seek(part_range.start)
            shutil.copyfileobj(local, file)
        ranges.append(PartRange(part, 0, part_range.size, part_range.before))
    return replace(content, ranges=tuple(ranges))


def _list(before: WorkList, left: Sequence[Entry]) -> Content | None:
    """The file with the entries that are left; none where all are done."""
    if not left:
        return None
    return Content(start=work_list.compressed_for(before.path, work_list.text_of(before.names, left)))


def _ledger(there: Destination[FilePath], ledger: FilePath, events: Sequence[str], access: StorageAccess) -> Content:
    text = "".join(events).encode()
    if there.standing(ledger) is FileType.NOTHING:
        return Content(start=text)
    return Content(ranges=(whole(str(ledger), places.files(access, ledger).size(str(ledger))),), end=text)

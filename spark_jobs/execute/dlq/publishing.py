"""A dead-letter file after some of its entries are done: it, its ledger and files of a replay change together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute import identity, interrupts
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.destination import Content, whole
from spark_jobs.execute.delivery.local.files import LocalFiles
from spark_jobs.execute.dlq import work_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.execute.dlq.work_list import Entry, WorkList


def publish(
    before: WorkList,
    left: Sequence[Entry],
    events: Sequence[str],
    files: Mapping[Path, Content] | None = None,
    ledgers: Sequence[Path] = (),
) -> None:
    """Leave some entries in a dead-letter file, note what became of the others, and publish files: all or nothing.

    Further `ledgers` get the events, too: those of the files that this one may be a copy of.

    Raises:
        OSError: a file cannot be read or written; nothing has changed then.
    """
    path = Path(before.path).absolute()
    targets = {path: _list(before, left), **(files or {})}
    targets |= {ledger: _ledger(ledger, events) for ledger in (work_list.ledger_of(path), *ledgers)}
    there = LocalFiles()
    folders = list(dict.fromkeys(target.parent for target in targets))
    for folder in folders:
        there.recover(folder)
    draft = there.open(identity.uuid7(), path.parent, folders)
    done = False
    try:
        with draft.alone():
            for target, content in targets.items():
                if content is None:
                    draft.remove(target)
                else:
                    draft.assemble(target, content)
            with interrupts.ignored():
                joint.publish([draft], draft)
                done = True
    finally:
        with interrupts.ignored():
            draft.close(failed=not done)


def _list(before: WorkList, left: Sequence[Entry]) -> Content | None:
    """The file with the entries that are left; none where all are done."""
    if not left:
        return None
    return Content(start=work_list.packed(before.path, work_list.text_of(before.names, left)))


def _ledger(ledger: Path, events: Sequence[str]) -> Content:
    text = "".join(events).encode()
    if not ledger.exists():
        return Content(start=text)
    return Content(pieces=(whole(str(ledger), ledger.stat().st_size),), end=text)

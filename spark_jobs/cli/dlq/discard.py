"""`clinker dlq discard`: removes entries from their file, with a reason in the ledger."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import clinker_toml
from spark_jobs.cli.dlq import opening
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from spark_jobs.execute.dlq.work_list import EntryFilter


def main(file: str, wanted: EntryFilter, *, reason: str, all_entries: bool) -> int:
    """Take entries out of a file, for a reason that the ledger keeps; all of them only if that is said."""
    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.execute.dlq import publishing, work_list
    from spark_jobs.execute.verdict import RunFailed
    from spark_jobs.stores.refusals import StoreError

    stores = clinker_toml.stores()
    found = opening.opened("discard", file, stores)
    if isinstance(found, int):
        return found
    if wanted == work_list.EntryFilter() and not all_entries:
        return opening.refused("discard", "say which entries: --id, --stage, --field or --category, or --all")
    chosen = [entry for entry in found.entries if wanted.takes(entry)]
    if unknown := wanted.ids - {entry.id for entry in found.entries}:
        return opening.refused("discard", f"{found.path} has no entry with the id {min(unknown)}")
    if not chosen:
        return opening.refused("discard", f"no entry of {found.path} is of that stage, field and category")
    taken = {entry.id for entry in chosen}
    left = [entry for entry in found.entries if entry.id not in taken]
    events = [work_list.event("discarded", entry, reason=reason) for entry in chosen]
    try:
        publishing.publish(found, left, events, access=StorageAccess(stores))
    except RunFailed as error:
        return opening.refused("discard", f"{error.code}: {error.message}", ExitCode.IO)
    except StoreError as error:
        return opening.refused("discard", f"{error.code}: {error}", ExitCode.IO)
    except OSError as error:
        return opening.refused("discard", f"{error.filename or found.path}: {error.strerror or error}", ExitCode.IO)
    sys.stdout.write(f"discarded {opening.letters(len(chosen))}; {len(left)} left in {printable(str(found.path))}\n")
    return ExitCode.SUCCESS

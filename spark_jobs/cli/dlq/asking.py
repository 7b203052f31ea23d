"""What the commands on dead letters share: the file, which of its entries are wanted, and words for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.execute.dlq import work_list
from spark_jobs.stores import location
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.stores.settings import StoreSettings


def opened(command: str, file: str, stores: StoreSettings, *, writes: bool = True) -> work_list.WorkList | int:
    """The entries of a file; an exit code when it has none that can be read, which is reported.

    Args:
        command: the command's name.
        file: a path or URI.
        stores: how stores are reached.
        writes: whether the file is going to be changed.
    """
    if writes and location.is_uri(file) and location.scheme_of(file) not in ("file", *location.WRITABLE):
        return refused(command, f"{location.without_credentials(file)} is in a store that is only read: copy it first")
    try:
        path = location.located(file)
    except location.BadLocation as error:
        return refused(command, f"{location.without_credentials(file)}: {error.message}; {error.remedy}")
    try:
        return work_list.read(path, stores)
    except StoreError as error:
        return refused(command, f"{error.code}: {error}", ExitCode.IO)
    except work_list.NotDeadLetters as error:
        return refused(command, str(error))
    except OSError as error:
        return refused(command, f"{error.filename or path}: {error.strerror or error}", ExitCode.IO)


def refused(command: str, message: str, code: ExitCode = ExitCode.CONFIG) -> int:
    """Say why nothing is done."""
    sys.stderr.write(f"clinker dlq {command} error: {printable(message)}\n")
    return code


def letters(count: int) -> str:
    """So many dead letters, in words."""
    return "1 dead letter" if count == 1 else f"{count} dead letters"


def left_out(found: work_list.WorkList) -> Iterator[str]:
    """Which entries are not looked at, for they are done."""
    if found.done_before:
        yield f"left out: {letters(found.done_before)} that the ledger knows as done"
    for ledger, count in found.done_elsewhere.items():
        path = printable(str(found.path))
        yield f"left out: {letters(count)} that {printable(str(ledger))} knows as done; {path} is a copy"

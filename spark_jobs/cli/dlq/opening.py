"""Opens the dead-letter file of a command, and prints why that is not possible."""

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


def opened(command: str, file: str, stores: StoreSettings) -> work_list.WorkList | int:
    """The entries of a dead-letter file; an exit code where they cannot be read, after the reason was printed.

    Args:
        command: the command's name.
        file: a path or URI.
        stores: how stores are reached.
    """
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
    """Print why the command does nothing; returns the exit code."""
    sys.stderr.write(f"clinker dlq {command} error: {printable(message)}\n")
    return code


def letters(count: int) -> str:
    """A number of dead letters, in words."""
    return "1 dead letter" if count == 1 else f"{count} dead letters"


def left_out(found: work_list.WorkList) -> Iterator[str]:
    """Lines about entries that are left out because they are done."""
    if found.done_before:
        yield f"left out: {letters(found.done_before)} that the ledger knows as done"
    for ledger, count in found.done_elsewhere.items():
        path = printable(str(found.path))
        yield f"left out: {letters(count)} that {printable(str(ledger))} knows as done; {path} is a copy"

"""What the commands on dead letters share: the file, which of its entries are wanted, and words for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.execute.dlq import work_list

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def opened(command: str, path: Path) -> work_list.WorkList | int:
    """The entries of a file; an exit code, when it has none that can be read, which is told."""
    try:
        return work_list.read(path)
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

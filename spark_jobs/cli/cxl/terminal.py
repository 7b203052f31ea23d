"""Shared by the subcommands of `cxl`: exit statuses, reading programs, reporting findings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli.cxl.input import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.checking.findings import Finding
    from spark_jobs.diagnostics.source import Text

OK, WRONG, UNREADABLE = 0, 1, 2


def say_error(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(text + "\n")


def read_program(file: str) -> Text:
    """The text of a file, of standard input for `-`."""
    from spark_jobs.diagnostics.source import Text

    try:
        data = sys.stdin.read() if file == "-" else Path(file).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read '{file}': {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read '{file}': it is not UTF-8 text") from None
    return Text.whole(data, "<stdin>" if file == "-" else file)


def say_findings(findings: Sequence[Finding], text: Text) -> None:
    """Print findings, each with its stage, place and help."""
    for finding in findings:
        span = (finding.text or text).span(*finding.place)
        severity = "error" if finding.is_error else "warning"
        say_error(f"{severity}[{finding.stage}]: {finding.message} (at {span.file.name}:{span.line})")
        if finding.help:
            say_error(f"  help: {finding.help}")

"""`cxl fmt`: files in canonical format, to standard output or in place."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli.cxl.input import InputError
from spark_jobs.cli.cxl.terminal import OK, WRONG, read_program, say_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.diagnostics.source import Text


def run(files: Sequence[str], how: str | None) -> int:
    """Format the files; exit status 1 when one does not parse, or would change and is only checked.

    Args:
        files: the programs; `-` is standard input.
        how: `check` prints the names of the files that would change, `diff` prints the changes, `write` rewrites the
            files; None prints the formatted programs.
    """
    status = OK
    for file in files:
        text = read_program(file)
        formatted = _formatted(text)
        if formatted is None:
            status = WRONG
        elif how in ("check", "diff"):
            if formatted != text.value:
                status = WRONG
                sys.stdout.write(_difference(text, formatted) if how == "diff" else f"{text.file.name}\n")
        elif how == "write" and file != "-":
            _replace(file, text.value, formatted)
        else:
            sys.stdout.write(formatted)
    return status


def _formatted(text: Text) -> str | None:
    """The canonical text, or None after printing why the program does not parse."""
    from spark_jobs.cxl import tree_walk
    from spark_jobs.cxl.checking.findings import Finding, Stage
    from spark_jobs.cxl.syntax import formatter, parser

    with tree_walk.room():
        parsed = parser.parse(text.value)
        if parsed.problems:
            found = [Finding(Stage.PARSE, one.message, one.place, one.help) for one in parsed.problems]
            say_findings(found, text)
            return None
        return formatter.format_program(text.value, parsed.tree)


def _difference(text: Text, formatted: str) -> str:
    name = text.file.name
    lines = difflib.unified_diff(
        text.value.splitlines(), formatted.splitlines(), name, f"{name} (formatted)", lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


def _replace(file: str, before: str, after: str) -> None:
    if before == after:
        return
    from spark_jobs.disk import durable

    try:
        durable.replace_text(Path(file), after, newline="\n")
    except OSError as error:
        raise InputError(f"cannot write {durable.describe(error)}") from None

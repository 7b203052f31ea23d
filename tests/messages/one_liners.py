"""Programs as people write them who know SQL, Python or spreadsheets, with all that is said of each, side by side.

    python -m tests.messages.one_liners          # writes `shown/one_liners.txt` anew

Read the difference before you keep it: it is what users see.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from spark_jobs.cli.cxl import command

SHOWN = Path(__file__).parent / "shown/one_liners.txt"
_RECORD = '{"name": "Ada", "price": 2.5, "qty": 3, "day": "2026-01-02"}'
_INDENT = "    "


def said(program: str) -> str:
    """What `cxl eval` prints of a program for one record, results first."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        command.main(["eval", "--record", _RECORD, "-e", program])
    return (out.getvalue() + err.getvalue()).replace(" (at <inline>:1)", "").strip()


def cases() -> dict[str, str]:
    """The programs, and what is expected of each."""
    found: dict[str, list[str]] = {}
    program = ""
    for line in SHOWN.read_text(encoding="utf-8").splitlines():
        if line.startswith(_INDENT):
            found[program].append(line.removeprefix(_INDENT))
        elif line:
            program = line
            found[program] = []
    return {program: "\n".join(lines) for program, lines in found.items()}


def shown(programs: list[str]) -> str:
    """The file of some programs."""
    parts = []
    for program in programs:
        answer = "".join(f"{_INDENT}{line}\n" for line in said(program).splitlines())
        parts.append(f"{program}\n{answer}")
    return "\n".join(parts)


if __name__ == "__main__":
    SHOWN.write_text(shown(list(cases())), encoding="utf-8")

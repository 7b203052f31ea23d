"""`clinker help`: a command's options, a diagnostic's page, a function of CXL, or a subject.

The pages of subjects are written by `docs/generate_topics.py` from the documentation.
"""

from __future__ import annotations

import argparse
import sys
from importlib import resources
from typing import TYPE_CHECKING

from spark_jobs.cli import functions
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import nearest, pages
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOPICS = """
topics:
  clinker help COMMAND    options of a command, such as `clinker help dlq replay`
  clinker help CODE       what a diagnostic means, such as `clinker help E200`
  clinker help FUNCTION   a function of CXL, such as `clinker help round_to`
  clinker help SUBJECT    a subject: SUBJECTS
"""
_PAGES = resources.files("spark_jobs.cli") / "topic_pages"
_SUFFIX = ".txt"


def main(words: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Show what there is to know about a topic; without one, the commands and the kinds of topics."""
    if not words:
        sys.stdout.write(parser.format_help() + _TOPICS.replace("SUBJECTS", ", ".join(_subjects())))
        return ExitCode.SUCCESS
    commands = _below(parser)
    text = _of_command(words, parser)
    if text is None and len(words) == 1:
        text = _of_code(words[0]) or functions.text(words[0]) or _of_subject(words[0])
    if text is not None:
        sys.stdout.write(text)
        return ExitCode.SUCCESS
    topic = " ".join(words)
    known = [*commands, *_subjects(), *pages.known(), *functions.names()]
    where = "`clinker help` lists commands, docs/reference/cxl.md functions, docs/reference/diagnostics.md codes"
    hint = nearest.hint(topic, known)
    sys.stderr.write(f"clinker help error: '{printable(topic)}' is no topic; {hint or where}\n")
    return ExitCode.CONFIG


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser."""
    return {
        name: command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, command in action.choices.items()
    }


def _of_command(words: Sequence[str], parser: argparse.ArgumentParser) -> str | None:
    for word in words:
        found = _below(parser).get(word)
        if found is None:
            return None
        parser = found
    return parser.format_help()


def _subjects() -> list[str]:
    """The subjects that have a page, in alphabetic order."""
    return sorted(page.name.removesuffix(_SUFFIX) for page in _PAGES.iterdir() if page.name.endswith(_SUFFIX))


def _of_subject(word: str) -> str | None:
    word = word.lower()
    return (_PAGES / f"{word}{_SUFFIX}").read_text(encoding="utf-8") if word in _subjects() else None


def _of_code(word: str) -> str | None:
    known = next((code for code in pages.known() if code.upper() == word.upper()), None)
    return None if known is None else pages.page(known)

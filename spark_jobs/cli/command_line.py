"""Wrong command lines of both commands: exit 1 with the usage, since 2 means dead letters."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NoReturn

from spark_jobs.diagnostics import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The messages of argparse for an invalid choice and for unknown arguments.
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)")


class WrongCommandLine(Exception):
    """The command line asks for something that there is not; the message says what."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.shown = f"{parser.format_usage()}{parser.prog}: error: {message}\n"


class Parser(argparse.ArgumentParser):
    """A parser that raises `WrongCommandLine` where argparse would end the process with 2."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        found = self._hint(message)
        raise WrongCommandLine(self, f"{message}; {found}" if found else message)

    def _hint(self, message: str) -> str | None:
        if choice := _CHOICE.search(message):
            flags = [flag for action in self._actions for flag in action.option_strings]
            return nearest.hint(choice[1], [*re.findall(r"[^\s',]+", choice[2]), *flags])
        if unknown := _UNKNOWN.match(message):
            flags = list(_flags(self))
            words = (word.partition("=")[0] for word in unknown[1].split() if word.startswith("-"))
            return next((hint for word in words if (hint := nearest.hint(word, flags))), None)
        return None


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The flags of a command and of those below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _flags(command)

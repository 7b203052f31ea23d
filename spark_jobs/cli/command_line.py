"""Wrong command lines of both commands: exit 1 with the usage, since 2 means dead letters."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from spark_jobs.diagnostics import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Commands that are installed beside each other.
_COMMANDS = ("clinker", "cxl")
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

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse a command line, and keep it for messages."""
        self._words = [*sys.argv[1:]] if args is None else [*args]
        found: tuple[Any, list[str]] = super().parse_known_args(self._words, namespace)
        return found

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        found = self._hint(message)
        raise WrongCommandLine(self, f"{message}; {found}" if found else message)

    def _hint(self, message: str) -> str | None:
        if choice := _CHOICE.search(message):
            if choice[1] in _COMMANDS:
                return f"`{choice[1]}` is a command of its own"
            flags = [flag for action in self._actions for flag in action.option_strings]
            return nearest.hint(choice[1], [*re.findall(r"[^\s',]+", choice[2]), *flags])
        if unknown := _UNKNOWN.match(message):
            flags = [flag for action in self._chosen()._actions for flag in action.option_strings]
            words = (word.partition("=")[0] for word in unknown[1].split() if word.startswith("-"))
            return next((hint for word in words if (hint := nearest.hint(word, flags))), None)
        return None

    def _chosen(self) -> argparse.ArgumentParser:
        """The parser of the command that the command line names."""
        chosen: argparse.ArgumentParser = self
        for word in self._words:
            commands = next((one for one in chosen._actions if isinstance(one, argparse._SubParsersAction)), None)
            if commands is None:
                break
            chosen = commands.choices.get(word, chosen)
        return chosen

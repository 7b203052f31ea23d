"""Wrong command lines of both commands: exit 1 with the usage, since 2 means dead letters."""

from __future__ import annotations

import argparse
from typing import NoReturn


class WrongCommandLine(Exception):
    """The command line asks for something that there is not; the message says what."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.shown = f"{parser.format_usage()}{parser.prog}: error: {message}\n"


class Parser(argparse.ArgumentParser):
    """A parser that raises `WrongCommandLine` where argparse would end the process with 2."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise WrongCommandLine(self, message)

"""How attacks run: rounds that follow from a seed, one line that sums them up, and how to repeat what was found.

A round is a function of its own source of chance, which follows from the seed and the round's number alone, and of an
empty folder. It gives a word for what became of it, which is counted; whatever it raises is a finding.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.memory_folder import memory_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: After so many findings there is enough to look at.
_MOST_FINDINGS = 10


@dataclass
class Tally:
    """What the rounds of an attack came to."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: int = 0

    def finding(self, what: str, repeat: str) -> None:
        """Tell of a finding at once."""
        self.findings += 1
        print(f"finding in {self.name}: {what}\n  repeat: python -m tests.attack.{self.name} {repeat}", flush=True)

    @property
    def is_full(self) -> bool:
        """Whether there are findings enough."""
        return self.findings >= _MOST_FINDINGS

    def close(self, began: float) -> int:
        """Print the line that sums up; gives the exit code."""
        told = ", ".join(f"{count} {word}" for word, count in sorted(self.outcomes.items()))
        seconds = time.monotonic() - began
        print(f"{self.name}: {self.outcomes.total()} rounds in {seconds:.0f} s: {told}; {self.findings} findings")
        return 1 if self.findings else 0


def parser(name: str, count: int, what: str) -> argparse.ArgumentParser:
    """The options that all attacks have."""
    found = argparse.ArgumentParser(prog=f"python -m tests.attack.{name}", description=what)
    found.add_argument("--seed", type=int, default=1, help="all chance follows from it")
    found.add_argument("--count", type=int, default=count, help=f"rounds (default {count})")
    found.add_argument("--first", type=int, default=0, help="the number of the first round, to repeat one")
    return found


def play(
    name: str, what: str, count: int, one: Callable[[random.Random, Path], str], arguments: Sequence[str] | None
) -> int:
    """Play all rounds of an attack; gives the exit code.

    Args:
        name: the attack's module.
        what: what it does, for its help.
        count: rounds where nothing else is asked for.
        one: a round.
        arguments: the command line.
    """
    return rounds(name, parser(name, count, what).parse_args(arguments), one)


def rounds(name: str, chosen: argparse.Namespace, one: Callable[[random.Random, Path], str]) -> int:
    """Play the rounds that a command line asks for, each in a folder of its own."""

    def of(root: Path) -> Callable[[random.Random], str]:
        def in_its_own(chance: random.Random) -> str:
            folder = Path(tempfile.mkdtemp(dir=root))
            try:
                return one(chance, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        return in_its_own

    return in_one_folder(name, chosen, of, memory_folder())


def in_one_folder(
    name: str,
    chosen: argparse.Namespace,
    of: Callable[[Path], Callable[[random.Random], str]],
    where: str | None = None,
) -> int:
    """Play the rounds that a command line asks for; `of` makes a round's function from the folder of all of them.

    Args:
        name: the attack's module.
        chosen: the command line.
        of: what makes a round's function.
        where: the folder of the folder of all rounds, where that is not the system's for temporary files.
    """
    logger = logging.getLogger("clinker")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    tally, began = Tally(name), time.monotonic()
    root = Path(tempfile.mkdtemp(prefix=f"clinker-attack-{name}-", dir=where))
    try:
        one = of(root)
        for number in range(chosen.first, chosen.first + chosen.count):
            try:
                tally.outcomes[one(random.Random(f"{name} {chosen.seed} {number}"))] += 1
            except Exception as error:  # noqa: BLE001 - a finding is whatever is raised
                tally.outcomes["broken"] += 1
                told = "".join(traceback.format_exception_only(error)).strip()[:2000]
                tally.finding(f"round {number}: {told}", f"--seed {chosen.seed} --first {number} --count 1")
                if chosen.count == 1:
                    traceback.print_exception(error, file=sys.stdout)
            if tally.is_full:
                break
    finally:
        shutil.rmtree(root, ignore_errors=True)
        logger.setLevel(level)
    return tally.close(began)

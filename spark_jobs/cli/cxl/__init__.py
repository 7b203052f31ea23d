"""The `cxl` command: check, evaluate and format CXL without a pipeline, and try it out.

Here: the subcommands.
Not here: anything about pipelines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    from spark_jobs.cli.cxl import command

    return command.main(argv)

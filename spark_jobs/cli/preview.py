"""`clinker preview`: the records at any node of a pipeline, as a table or as lines of JSON."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import observation, standard_streams, tables
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath


def main(
    path: FilePath,
    planning: PlanOptions,
    wanted: observation.Observed,
    *,
    most: int,
    diagnostics: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Show records of some nodes; returns the exit code of `contract.ExitCode`.

    Args:
        path: the pipeline's file.
        planning: how it is planned.
        wanted: which records.
        most: how many of each node are shown.
        diagnostics: how problems are shown.
        as_json: whether each record is a line of JSON instead of one of a table.
        quiet: whether nothing is said of where the records come from.
    """
    try:
        found = observation.observe(path, planning, wanted, diagnostics)
    except observation.NotObserved as problem:
        if problem.message is not None:
            sys.stderr.write(f"clinker preview error: {printable(problem.message)}\n")
        return problem.code
    with standard_streams.given_up("clinker preview", sys.stdout):
        for node in found.nodes:
            if as_json:
                _print_json(node.name if len(found.nodes) > 1 else None, node.lines[:most])
            else:
                _print_table(node, most)
    if not quiet:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in found.notes))
    return ExitCode.SUCCESS


def _print_json(node: str | None, lines: Sequence[str]) -> None:
    for line in lines:
        named = line if node is None else f'{{"node": {json.dumps(node, ensure_ascii=False)}, "record": {line}}}'
        sys.stdout.write(f"{named}\n")


def _print_table(node: observation.Node, most: int) -> None:
    count = f"{len(node.lines):,} record{'' if len(node.lines) == 1 else 's'}"
    first = f", the first {most}" if most < len(node.lines) else ""
    sys.stdout.write(f"{printable(node.name)}: {count}{first}\n")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    rows = node.records(most)
    sys.stdout.write("".join(f"{line}\n" for line in tables.of_records(rows, node.types, width)))

"""`clinker preview`: the records at any node of a pipeline, made from the first records of its sources.

It writes nothing, needs no Java, and runs in this process.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs import reasons
from spark_jobs.cli import pipeline, report, shown_nodes, standard_streams
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import nearest
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.printable import printable
from spark_jobs.plan import plan as plans
from spark_jobs.plan.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.execute.run.metrics import Outcome
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.plan.reading.document import Document

    Row = dict[str, Any]

#: What outputs are called that show the records of other nodes.
_SHOWN = "clinker_preview_{}"
#: A longer cell of a table is cut, which its last character says.
_WIDEST_CELL = 60
_CUT = "…"
_BETWEEN = "  "


class _Unknown(Exception):
    """The pipeline has no such node or port; the message names those it has."""


@dataclass(frozen=True)
class _Observed:
    """A pipeline with outputs for the nodes whose records are wanted.

    Args:
        plan: the plan, whose outputs all write lines of JSON.
        names: the nodes that were asked for, by the output that shows each.
    """

    plan: Plan
    names: Mapping[str, str]


@dataclass(frozen=True)
class Wanted:
    """Which records are shown.

    Args:
        nodes: the nodes, or branches of routes (`route.branch`); none: all outputs.
        shown: how many records of each.
        read: how many records of each source they are made from, the first ones.
    """

    nodes: tuple[str, ...]
    shown: int
    read: int


def main(path: Path, planning: PlanOptions, wanted: Wanted, *, diagnostics: str, as_json: bool, quiet: bool) -> int:
    """Show records of some nodes; gives the exit code of `contract.ExitCode`.

    Args:
        path: the pipeline's file.
        planning: how it is planned.
        wanted: which records are shown.
        diagnostics: how problems are shown.
        as_json: whether each record is a line of JSON instead of one of a table.
        quiet: whether nothing is said of where the records come from.
    """
    options = RunOptions(
        **vars(planning), threads=1, quiet=True, in_process=True, dry_run=True, preview=wanted.read, log_level="error"
    )
    with report.opened(diagnostics) as told:
        try:
            found, problems = _planned(path, wanted.nodes, options)
        except _Unknown as problem:
            sys.stderr.write(f"clinker preview error: {printable(str(problem))}\n")
            return ExitCode.CONFIG
        if found is not None:
            discover = pipeline.discovery(found.plan, options)
            problems += pipeline.unfit(found.plan, discover)
        told.tell(problems)
        if found is None or any(problem.is_error for problem in problems):
            return ExitCode.CONFIG
        outcome, texts = _executed(found, options)
        if outcome.result.error is not None:
            told.tell([report.of_run(outcome.result.error, found.plan)])
            return outcome.result.exit_code
    with standard_streams.given_up("clinker preview", sys.stdout):
        for output, name in found.names.items():
            lines = texts[output].splitlines()
            if as_json:
                _print_json(name if len(found.names) > 1 else None, lines[: wanted.shown])
            else:
                _print_table(name, lines, lines[: wanted.shown], _types(found.plan, output))
    if not quiet:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in _notes(outcome, found.plan, wanted)))
    return ExitCode.SUCCESS


def _planned(path: Path, nodes: Sequence[str], options: PlanOptions) -> tuple[_Observed | None, list[Diagnostic]]:
    """The plan of a pipeline with its nodes observed, and what planning found.

    Raises:
        _Unknown: it has no node, or no port, of one of the names.
    """
    from spark_jobs.plan import planner
    from spark_jobs.plan.reading import document

    found = Diagnostics()
    file = document.open_text(path, found)
    read = document.read(file, options.lookup, found) if file is not None else None
    if read is None:
        return None, found.sorted()
    outputs = shown_nodes.outputs(read)
    wanted = list(dict.fromkeys(nodes)) or outputs
    known = _ports(read)
    for name in wanted:
        if name not in outputs and name not in known:
            raise _Unknown(_no_node(name, [*outputs, *known]))
    names = {name if name in outputs else _SHOWN.format(at): name for at, name in enumerate(wanted)}
    added = {output: name for output, name in names.items() if name not in outputs}
    if added:
        read.nodes += shown_nodes.added(added)
    plan = planner.plan_document(read, path, options, found)
    if plan is None:
        return None, found.sorted()
    return _Observed(_observed(plan), names), found.sorted()


def _ports(read: Document) -> list[str]:
    """The nodes that have records beside outputs, and of routes each branch."""
    outputs, branches = shown_nodes.outputs(read), shown_nodes.branches(read)
    names = [node.name for node in read.nodes if node.name not in outputs]
    return [port for name in names for port in branches.get(name, [name])]


def _no_node(name: str, known: Sequence[str]) -> str:
    hint = nearest.hint(name, known)
    return f"the pipeline has no node '{name}'; {hint + ' ' if hint else ''}It has {', '.join(known)}"


def _observed(plan: Plan) -> Plan:
    """The plan with outputs that go nowhere, and such that a record that fails does not end the run."""
    steps: dict[str, Any] = {
        name: shown_nodes.as_lines(step, f"{number}.ndjson") for number, (name, step) in enumerate(plan.outputs.items())
    }
    nodes = tuple(replace(planned, step=steps.get(planned.name, planned.step)) for planned in plan.nodes)
    errors = replace(plan.errors, strategy=plans.Strategy.CONTINUE)
    return replace(plan, nodes=nodes, errors=errors, metrics_dir=None)


def _executed(observed: _Observed, options: RunOptions) -> tuple[Outcome, dict[str, str]]:
    """What became of the records, and the lines of each output."""
    from spark_jobs.execute import identity, logs
    from spark_jobs.execute.run import executor

    texts: dict[str, str] = {}
    with logs.shown(io.StringIO(), "error", "text", "", str, names_batch=False):
        outcome = executor.execute(observed.plan, options, identity.Identity.new(None, None), texts.__setitem__)
    return outcome, texts


def _types(plan: Plan, output: str) -> dict[str, str]:
    """The types of the columns that an output gets, without whether they may be null."""
    edge = plan.by_name[output].inputs[0]
    columns = plan.by_name[edge.node].outputs[edge.port]
    return {column.name: str(replace(column.type, nullable=False)) for column in columns}


def _print_json(node: str | None, lines: Sequence[str]) -> None:
    for line in lines:
        named = line if node is None else json.dumps({"node": node, "record": json.loads(line)}, ensure_ascii=False)
        sys.stdout.write(f"{named}\n")


def _print_table(name: str, lines: Sequence[str], chosen: Sequence[str], kinds: Mapping[str, str]) -> None:
    count = f"{len(lines):,} record{'' if len(lines) == 1 else 's'}"
    first = f", the first {len(chosen)}" if len(chosen) < len(lines) else ""
    sys.stdout.write(f"{printable(name)}: {count}{first}\n")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    sys.stdout.write("".join(f"{line}\n" for line in table([json.loads(line) for line in chosen], kinds, width)))


def _notes(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterable[str]:
    """What the records come from, and why some died."""
    read = []
    for name in plan.sources:
        count = outcome.nodes.get(name, {}).get("records_in", 0)
        read.append(f"{'the first ' if count >= wanted.read else ''}{count:,} of {name}")
    yield f"from {', '.join(read)}"
    if outcome.result.records_dlq:
        dead = outcome.result.records_dlq
        yield f"{dead:,} record{' is a dead letter' if dead == 1 else 's are dead letters'}"
        yield from reasons.lines(outcome.result)


def table(rows: Sequence[Row], kinds: Mapping[str, str], width: int | None = None) -> list[str]:
    """Records as lines of a table, a column for each name; as a list of members where the table is too wide.

    Args:
        rows: the records.
        kinds: the types of columns that are known, shown below their names.
        width: how many characters a line may have; None: any number.
    """
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(kinds)
    if not names:
        return []
    cells = [[_cell(row[name]) if name in row else "" for name in names] for row in rows]
    heads = [[printable(name) for name in names], [kinds.get(name, "") for name in names]]
    widths = [max(_width(line[at]) for line in [*heads, *cells]) for at in range(len(names))]
    if width is not None and sum(widths) + len(_BETWEEN) * (len(names) - 1) > width:
        return _listed(heads[0], cells)
    is_number = [all(_is_number(row.get(name)) for row in rows) for name in names]
    lines = [[_padded(text, size, right) for text, size, right in zip(line, widths, is_number, strict=True)]
             for line in [*heads, ["-" * size for size in widths], *cells]]  # fmt: skip
    return [_BETWEEN.join(line).rstrip() for line in lines]


def _listed(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    widest = max(map(_width, names))
    lines = []
    for number, line in enumerate(cells, 1):
        lines.append(f"-- {number}")
        lines += [f"{_padded(name, widest, False)}{_BETWEEN}{cell}" for name, cell in zip(names, line, strict=True)]
    return lines


def _cell(value: Any) -> str:
    """A value: texts as they are, unless that hides something; everything else as JSON."""
    if isinstance(value, str):
        is_plain = value != "" and value == value.strip() and value.isprintable() and value != "null"
        text = value if is_plain else json.dumps(value, ensure_ascii=False)
    else:
        text = json.dumps(value, ensure_ascii=False)
    text = printable(text)
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + _CUT


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _width(text: str) -> int:
    """How many places a terminal gives to a text."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, size: int, to_the_right: bool) -> str:
    space = " " * (size - _width(text))
    return space + text if to_the_right else text + space

"""The records at nodes of a pipeline, made in this process from the first records of its sources.

Nothing is written, and no Java is needed. Not here: how the records are shown.
"""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import reasons
from spark_jobs.cli import pipeline, report, shown_nodes
from spark_jobs.contract import ExitCode
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import nearest
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.plan import plan as plans
from spark_jobs.plan.options import RunOptions
from spark_jobs.stores import location, small_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_jobs.cli.guess.together import Answer
    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.execute.run.metrics import Outcome
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.plan.reading.document import Document
    from spark_jobs.stores.location import FilePath

#: The names of outputs that show the records of other nodes.
_SHOWN = "clinker_shown_{}"


class NotObserved(Exception):
    """There are no records. The message says why, unless the reason was reported already; `code` is the exit code."""

    def __init__(self, message: str | None, code: int) -> None:
        super().__init__(message or "")
        self.message = message
        self.code = code


@dataclass(frozen=True)
class Observed:
    """The records to observe.

    Args:
        nodes: the nodes, or branches of routes (`route.branch`); none: all outputs.
        read: how many records of each source they are made from, the first ones.
    """

    nodes: tuple[str, ...]
    read: int


@dataclass(frozen=True)
class Node:
    """The records of a node.

    Args:
        name: as it was asked for.
        lines: a JSON object for each record.
        types: the types of its columns that are known, without whether they may be null.
    """

    name: str
    lines: list[str]
    types: Mapping[str, str]

    def records(self, most: int | None = None) -> list[dict[str, Any]]:
        """The records, Decimals with all their digits; no more than so many."""
        decimals = [name for name, kind in self.types.items() if kind.partition("(")[0] == Kind.DECIMAL]
        return [shown_nodes.record(line, decimals) for line in self.lines[:most]]


@dataclass(frozen=True)
class Observation:
    """The records of some nodes, and the counts of source records that they were made from."""

    nodes: list[Node]
    notes: list[str]


@dataclass(frozen=True)
class _Observed:
    """A pipeline with outputs for the nodes whose records are wanted.

    Args:
        plan: the plan, whose outputs all write lines of JSON.
        names: the nodes that were asked for, by the output that shows each.
    """

    plan: Plan
    names: Mapping[str, str]


def observe(path: FilePath, planning: PlanOptions, wanted: Observed, diagnostics: str) -> Observation:
    """Run a pipeline for the records of some of its nodes; a record that fails does not end it.

    Args:
        path: the pipeline's file.
        planning: how it is planned.
        wanted: which records.
        diagnostics: how problems are shown.

    Raises:
        NotObserved: the pipeline cannot be planned or run, or has no such node.
    """
    from spark_jobs.plan import planner

    options = RunOptions(
        **vars(planning), threads=1, quiet=True, in_process=True, dry_run=True, preview=wanted.read, log_level="error"
    )
    with report.opened(diagnostics) as reporter:
        with planner.reaching(path, options):
            found, problems = _planned(path, wanted.nodes, options)
        if found is not None:
            problems += pipeline.unfit(found.plan, pipeline.discovery(found.plan, options))
        reporter.add(problems)
        if found is None or any(problem.is_error for problem in problems):
            raise NotObserved(None, ExitCode.CONFIG)
        outcome, texts = _executed(found, options)
        if outcome.result.error is not None:
            reporter.add([report.of_run(outcome.result.error, found.plan)])
            raise NotObserved(None, outcome.result.exit_code)
    nodes = [Node(name, _lines(texts[output]), _types(found.plan, output)) for output, name in found.names.items()]
    return Observation(nodes, list(_notes(outcome, found.plan, wanted)))


def is_pipeline(path: FilePath) -> bool:
    """Whether a file is a pipeline, and not data, as its name says."""
    return path.suffix in (".yaml", ".yml")


def of_file(path: FilePath, planning: PlanOptions, wanted: Observed, diagnostics: str) -> Observation:
    """The records of a file of data, read as `clinker guess` understands it.

    Raises:
        NotObserved: it cannot be read, or not be guessed.
    """
    from spark_jobs.cli import clinker_toml
    from spark_jobs.cli.guess import command
    from spark_jobs.scan.files import FormatError

    if wanted.nodes:
        raise NotObserved(f"{path} is no pipeline, so it has no node '{wanted.nodes[0]}'", ExitCode.CONFIG)
    with clinker_toml.reaching([path]):
        try:
            (answer,) = command.guessed([path], [str(location.absolute(path))])
        except (FormatError, command.NotGuessed) as problem:
            text = str(problem)
            raise NotObserved(text if text.startswith(str(path)) else f"{path}: {text}", ExitCode.IO) from None
        return _of_answer(answer, planning, wanted, diagnostics)


def _of_answer(answer: Answer, planning: PlanOptions, wanted: Observed, diagnostics: str) -> Observation:
    """The records that a guessed source reads."""
    from spark_jobs.cli.guess import source

    name = answer.guess.name
    text = f"pipeline: {{ name: observed }}\nnodes:\n{source.node(answer.guess, '  ')}"
    text += f"  - {{ type: output, name: {name}_out, input: {name}, config: {{ type: csv, path: out.csv }} }}\n"
    with tempfile.TemporaryDirectory(prefix="clinker-observed-") as folder:
        made = Path(folder, "observed.yaml")
        made.write_text(text, encoding="utf-8")
        options = replace(planning, base_dir=Path(folder), allow_absolute_paths=True)
        return observe(made, options, replace(wanted, nodes=(name,)), diagnostics)


def _planned(path: FilePath, nodes: Sequence[str], options: PlanOptions) -> tuple[_Observed | None, list[Diagnostic]]:
    """The plan of a pipeline with its nodes observed, and what planning found.

    Raises:
        NotObserved: it has no node, or no port, of one of the names.
    """
    from spark_jobs.plan import planner
    from spark_jobs.plan.reading import document

    found = Diagnostics()
    file = document.open_text(path, found)
    read = document.read(file, options.lookup, found) if file is not None else None
    if read is None:
        return None, found.sorted()
    outputs = shown_nodes.of_kind(read, "output")
    wanted = list(dict.fromkeys(nodes)) or outputs
    known = _ports(read)
    for name in wanted:
        if name not in outputs and name not in known:
            branches = shown_nodes.branches(read).get(name)
            error_text = _is_route(name, branches) if branches else _no_node(name, [*outputs, *known])
            raise NotObserved(error_text, ExitCode.CONFIG)
    names = {name if name in outputs else _SHOWN.format(at): name for at, name in enumerate(wanted)}
    added = {output: name for output, name in names.items() if name not in outputs}
    if added:
        read.nodes += shown_nodes.added(added)
    plan = planner.plan_document(read, path, options, found)
    if plan is None:
        return None, found.sorted()
    return _Observed(_observed(_with_stores(plan, options)), names), found.sorted()


def _with_stores(plan: Plan, options: PlanOptions) -> Plan:
    """The plan with settings of stores from the command's own folder, for what its base folder does not say."""
    if plan.storage is None:
        return plan
    stores = plan.storage.stores.completed(small_objects.settings())
    return replace(plan, storage=replace(plan.storage, stores=stores))


def _ports(read: Document) -> list[str]:
    """The nodes that have records beside outputs, and of routes each branch."""
    outputs, branches = shown_nodes.of_kind(read, "output"), shown_nodes.branches(read)
    names = [node.name for node in read.nodes if node.name not in outputs]
    return [port for name in names for port in branches.get(name, [name])]


def _is_route(name: str, branches: Sequence[str]) -> str:
    return f"'{name}' is a route, whose records are in its branches: name one of {', '.join(branches)}"


def _no_node(name: str, known: Sequence[str]) -> str:
    hint = nearest.hint(name, known)
    return f"the pipeline has no node '{name}'; {f'{hint} It' if hint else 'it'} has {', '.join(known)}"


def _observed(plan: Plan) -> Plan:
    """The plan with outputs that go nowhere, and such that a record that fails does not end the run."""
    steps: dict[str, Any] = {
        name: shown_nodes.as_lines(step, f"{number}.ndjson") for number, (name, step) in enumerate(plan.outputs.items())
    }
    nodes = tuple(replace(planned, step=steps.get(planned.name, planned.step)) for planned in plan.nodes)
    errors = replace(plan.errors, strategy=plans.Strategy.CONTINUE)
    return replace(plan, nodes=nodes, errors=errors, metrics_dir=None)


def _executed(observed: _Observed, options: RunOptions) -> tuple[Outcome, dict[str, str]]:
    """Execute the observed plan. Returns the outcome, and the lines of each output."""
    from spark_jobs.execute import identity, logs
    from spark_jobs.execute.run import executor

    texts: dict[str, str] = {}
    with logs.show_logs(io.StringIO(), "error", "text", "", str, names_batch=False):
        outcome = executor.execute(observed.plan, options, identity.Identity.new(None, None), texts.__setitem__)
    return outcome, texts


def _lines(text: str) -> list[str]:
    """The lines of a text of JSON objects, whose values may have other signs that end lines elsewhere."""
    return text.removesuffix("\n").split("\n") if text else []


def _types(plan: Plan, output: str) -> dict[str, str]:
    """The types of the columns that an output gets, without whether they may be null."""
    edge = plan.by_name[output].inputs[0]
    columns = plan.by_name[edge.node].outputs[edge.port]
    return {column.name: str(replace(column.type, nullable=False)) for column in columns.user_columns}


def _notes(outcome: Outcome, plan: Plan, wanted: Observed) -> Iterable[str]:
    """Notes about the origin of the records, and reasons of dead letters."""
    read = []
    for name in plan.sources:
        count = outcome.nodes.get(name, {}).get("records_in", 0)
        read.append(f"{'the first ' if count >= wanted.read else ''}{count:,} of {name}")
    yield f"from {', '.join(read)}"
    if outcome.result.records_dlq:
        dead = outcome.result.records_dlq
        yield f"{dead:,} record{' is a dead letter' if dead == 1 else 's are dead letters'}"
        yield from reasons.lines(outcome.result)

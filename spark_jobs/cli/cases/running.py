"""Runs a case in this process: its pipeline with the case's inputs, and with outputs that can be compared."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cli import shown_nodes
from spark_jobs.cli.cases.json_text import json_text
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.disk import small_files
from spark_jobs.execute import identity, logs
from spark_jobs.execute.dlq import work_list
from spark_jobs.execute.run import executor
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.plan import plan as plans
from spark_jobs.plan import planner
from spark_jobs.plan.options import PlanOptions, RunOptions
from spark_jobs.plan.reading import document, workspace_file
from spark_jobs.scan.compression import Compression
from spark_jobs.stores import location, small_objects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from spark_jobs.cli.cases import model
    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.result import RunError
    from spark_jobs.stores.location import FilePath

    Row = dict[str, Any]

#: The names of outputs that show records of other nodes.
_SHOWN = "clinker_test_{}"
_MEMORY = Path("/dev/shm")
#: Modules that runs load only when they first need them.
_LOADED_BY_RUNS = (
    "pyarrow.acero",
    "pyarrow.json",
    "spark_jobs.cxl.interpreter.interpreter",
    "spark_jobs.cxl.kernels.kernels",
    "spark_jobs.formats.json.read",
    "spark_jobs.formats.json.write",
)


@dataclass
class Ran:
    """The result of a case.

    Args:
        rows: the records of outputs and of other nodes that were asked for.
        dead: the dead letters, in order.
        diagnostics: the diagnostics of planning.
        error: the error that ended the run.
        nodes: the nodes that had records, and all that there are.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    dead: list[work_list.Entry] = field(default_factory=list)
    diagnostics: Sequence[Diagnostic] = ()
    error: RunError | None = None
    nodes: dict[str, bool] = field(default_factory=dict)
    is_planned: bool = False


@dataclass(frozen=True)
class Setup:
    """The setup of a case.

    Args:
        pipeline: the pipeline's file.
        folder: where files are that the case names.
        config: the case as it is written.
        shown: nodes whose records to return in addition to the outputs' records; None: every branch of every route.
    """

    pipeline: FilePath
    folder: FilePath
    config: model.Case
    shown: tuple[str, ...] = ()
    with_branches: bool = False


class Unknown(ValueError):
    """A case names what its pipeline does not have; `path` is where."""

    def __init__(self, message: str, path: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.path = path


def run(setup: Setup) -> Ran:
    """Run a case without Spark, and return its results.

    Raises:
        Unknown: it names a source or a node that the pipeline does not have.
        OSError: a file cannot be read or written.
    """
    with logs.show_logs(io.StringIO(), "error", "text", "", str, names_batch=False):
        return _run(setup)


def _run(setup: Setup) -> Ran:
    plan, found, shown = _planned_once(setup)
    ran = Ran(diagnostics=found.sorted())
    if plan is None:
        return ran
    ran.is_planned = True
    scratch = _scratch()
    try:
        _execute(plan, setup, shown, scratch, ran)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return ran


#: The folder of this process's cases by its id: a forked process needs one of its own.
_FOLDERS: dict[int, Path] = {}


def _scratch() -> Path:
    """A new folder, by the same name for all cases of a process, so that they can share plans with its paths."""
    known = _FOLDERS.get(os.getpid())
    if known is not None:
        with contextlib.suppress(FileExistsError):  # another's by now, or could not be removed
            known.mkdir(mode=0o700)
            return known
    made = Path(tempfile.mkdtemp(prefix="clinker-test-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))
    _FOLDERS[os.getpid()] = made
    return made


def _options(config: model.Case) -> PlanOptions:
    return PlanOptions(
        channel=config.channel,
        environment=config.env,
        variables={**os.environ, **config.environment},
        given=config.vars,
    )


@dataclass(frozen=True)
class _CachedPlan:
    """A plan, with the digests of all files that were read for it, by their paths."""

    planned: tuple[plans.Plan | None, Diagnostics, dict[str, str]]
    files: Mapping[Path, str]

    @property
    def is_current(self) -> bool:
        return self.files == _digests(self.files)


#: The plans of this process, for cases that differ in their records alone.
_PLANS: dict[str, _CachedPlan] = {}


def _planned_once(setup: Setup) -> tuple[plans.Plan | None, Diagnostics, dict[str, str]]:
    """The plan, or the plan of an earlier case if nothing that planning reads differs."""
    path = location.absolute(setup.pipeline)
    places = [str(setup.pipeline), str(path), os.getcwd(), workspace_file.find(path.parent)]
    options = _options(setup.config)
    layers = [options.channel, options.environment, sorted((options.variables or {}).items()), options.given]
    key = json.dumps([*places, *layers, setup.shown, setup.with_branches], default=str)
    kept = _PLANS.get(key)
    if kept is None or not kept.is_current:
        with small_files.recorded() as files:
            planned = _planned(setup)
        if planned[0] is None or files.has_objects:
            return planned  # it may lack a file that is there next time
        kept = _CachedPlan(planned, _digests([each for each in (*files.read, *files.absent) if isinstance(each, Path)]))
        _PLANS[key] = kept
    return kept.planned


def _digests(files: Iterable[Path]) -> dict[Path, str]:
    """Digests of the content of files; the digest of a file that cannot be read is empty."""
    found = {}
    for path in files:
        try:
            found[path] = hashlib.blake2b(path.read_bytes()).hexdigest()
        except OSError:
            found[path] = ""
    return found


def prepare(setups: Iterable[Setup]) -> None:
    """Load what runs need and plan the pipelines, for processes that are forked then and would all do the same.

    It opens no files of data and starts no threads.
    """
    for name in _LOADED_BY_RUNS:
        importlib.import_module(name)
    pa.array([0])  # pyarrow looks for pandas with the first array, where no command has settled that
    for setup in setups:
        with contextlib.suppress(Unknown, OSError):  # the case itself reports it
            _planned_once(setup)


def _planned(setup: Setup) -> tuple[plans.Plan | None, Diagnostics, dict[str, str]]:
    """The plan, with a node for each node whose records are shown; the last value maps these nodes to shown ones."""
    found = Diagnostics()
    file = document.open_text(setup.pipeline, found)
    options = _options(setup.config)
    read = document.read(file, options.lookup, found) if file else None
    if read is None:
        return None, found, {}
    outputs = shown_nodes.of_kind(read, "output")
    known = {node.name for node in read.nodes}
    shown = [name for name in setup.shown if name not in outputs]
    for name in shown:
        if name.partition(".")[0] not in known:
            raise Unknown(f"the pipeline has no node '{name}'", ("expect", name))
    if setup.with_branches:
        every = [name for names in shown_nodes.branches(read).values() for name in names]
        shown += [name for name in every if name not in shown]
    named = {_SHOWN.format(number): name for number, name in enumerate(shown)}
    if named:
        read.nodes += shown_nodes.added(named)
    return planner.plan_document(read, setup.pipeline, options, found), found, named


def _execute(plan: plans.Plan, setup: Setup, shown: Mapping[str, str], scratch: Path, ran: Ran) -> None:
    given = setup.config.given
    for name in given:
        if name not in plan.sources:
            raise Unknown(f"the pipeline has no source '{name}'", ("given", name))
    folders = {name: scratch / "in" / str(number) for number, name in enumerate(plan.sources)}
    forms = []
    for name, source in plan.sources.items():
        folders[name].mkdir(parents=True)
        forms.append(_provide(source, given.get(name), folders[name], setup.folder))
    names = [shown.get(name, name) for name in plan.outputs]
    paths = {name: scratch / "out" / f"{number}.ndjson" for number, name in enumerate(names)}
    ready = _ready(plan, tuple(forms), scratch)
    options = RunOptions(threads=1, quiet=True, in_process=True, allow_absolute_paths=True, log_level="error")
    outcome = executor.execute(ready, options, identity.Identity.new(None, None))
    ran.error = outcome.result.error
    hidden = set(shown)
    ran.nodes = {
        name: bool(node["records_in"] or node["records_out"] or node["dead"])
        for name, node in outcome.nodes.items()
        if name not in hidden
    }
    if ran.error is None:
        exact = (shown_nodes.decimals_of(output) for output in plan.outputs.values())
        ran.rows = {name: _rows(path, decimals) for (name, path), decimals in zip(paths.items(), exact, strict=True)}
        ran.dead = [entry for path in outcome.result.dlq_paths for entry in work_list.read(Path(path)).entries]


@plans.cached_on_plan
def _ready(plan: plans.Plan, forms: tuple[_Form, ...], scratch: Path) -> plans.Plan:
    """The plan with inputs and outputs in a case's folder; cases whose sources have the same forms share it."""
    steps: dict[str, Any] = {
        name: _source(source, form) for (name, source), form in zip(plan.sources.items(), forms, strict=True)
    }
    for number, (name, output) in enumerate(plan.outputs.items()):
        steps[name] = shown_nodes.as_lines(output, str(scratch / "out" / f"{number}.ndjson"))
    nodes = tuple(replace(planned, step=steps.get(planned.name, planned.step)) for planned in plan.nodes)
    errors = plan.errors
    if errors.strategy is not plans.Strategy.FAIL_FAST:
        errors = replace(errors, strategy=plans.Strategy.CONTINUE)
    target = plans.DeadLetterTarget(str(scratch / "dlq.csv"))
    errors = replace(errors, per_source={}, dead_letters=target, include_reason=True, include_source_row=True)
    storage = replace(
        plan.storage,
        staging=None,
        spill_dir=str(scratch),
        stores=plan.storage.stores.completed(small_objects.settings()),
    )
    return replace(plan, nodes=nodes, errors=errors, metrics_dir=None, storage=storage).whole


@dataclass(frozen=True)
class _Form:
    """The file in which a case provides the records of a source, and whether it has lines of JSON."""

    path: FilePath
    is_rows: bool


def _provide(step: SourceStep, given: model.Given | None, folder: Path, case_folder: FilePath) -> _Form:
    """Write the records that a case gives to a source, unless they are in a file already."""
    if given is not None and (given.text is not None or given.file is not None):
        if not step.file_format.has_files:
            text = f"source '{step.name}' reads a {step.format}, which has no file; give its records as `rows`"
            raise Unknown(text, ("given", step.name))
        if given.file is not None:
            return _Form(location.absolute(location.located(given.file, case_folder)), is_rows=False)
        path = folder / "text"
        path.write_text(given.text or "", encoding=step.options.encoding or "utf-8")
        return _Form(path, is_rows=False)
    path = folder / f"{step.name.replace('/', '%')}.ndjson"
    rows = given.rows or [] if given is not None else []
    path.write_text("".join(json_text(_nested(row)) + "\n" for row in rows), encoding="utf-8")
    return _Form(path, is_rows=True)


def _source(step: SourceStep, form: _Form) -> SourceStep:
    """A source that reads the records of a case."""
    match = FileMatch(path=str(form.path))
    if not form.is_rows:
        return replace(step, match=match, endpoint=None, passes=())
    columns = tuple(replace(column, alias=None) for column in step.columns)
    options = JsonRead(format=JsonLayout.NDJSON, compression=Compression.NONE)
    return replace(
        step, format="json", options=options, match=match, columns=columns, array_paths=(),
        sections=(), layout=None, typed_fields=(), endpoint=None, passes=(),
    )  # fmt: skip


def _nested(row: Row) -> Row:
    """A row whose dotted names are members of objects; a name stays whole where another value is in its way."""
    found = {name: value for name, value in row.items() if "." not in name}
    for name, value in row.items():
        if "." in name and not _put(found, name, value, frozenset(row)):
            found[name] = value
    return found


def _put(record: Row, name: str, value: Any, given: frozenset[str]) -> bool:
    """Put a value at the end of a dotted path; false if the case itself gives a value on the way or at the end."""
    parts = name.split(".")
    ways = [".".join(parts[:length]) for length in range(1, len(parts))]
    if not given.isdisjoint(ways):
        return False
    place = record
    for part in parts[:-1]:
        place = place.setdefault(part, {})
    if parts[-1] in place:
        return False
    place[parts[-1]] = value
    return True


def _rows(path: Path, decimals: Collection[str]) -> list[Row]:
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    return [shown_nodes.record(line, decimals) for line in lines if line]


def codes_of(found: Iterable[Diagnostic]) -> tuple[Counter[str], set[str]]:
    """The codes of errors, and of warnings."""
    errors = Counter(each.code.id for each in found if each.is_error)
    return errors, {each.code.id for each in found if not each.is_error}

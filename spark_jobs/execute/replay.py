"""Replaying dead letters: mended records, and only they, go through the pipeline that they came from.

The pipeline runs as it is, with other inputs and into a folder of its own: sources read the mended records, and those
that are only looked up their own files. Then outputs, the dead-letter file and its ledger change together, or nothing
does. A record that fails again stays in the file under its id, with the new reason and the count of its tries.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.types import Kind
from spark_jobs.execute import identity
from spark_jobs.execute.delivery import places
from spark_jobs.execute.delivery.destination import Content, FileType, PartRange
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.execute.dlq import publishing, reading_again, work_list
from spark_jobs.execute.run import executor
from spark_jobs.nodes.output.step import IfExists
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.terms.shape import ShufflePhase
from spark_jobs.plan import plan as plans
from spark_jobs.plan.physical import inputs as discovery
from spark_jobs.plan.physical import upstream
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_jobs.execute.delivery.destination import PartStore
    from spark_jobs.execute.dlq.work_list import Entry, WorkList
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.result import RunError
    from spark_jobs.stores.location import FilePath

    #: Source, file and row.
    Origin = tuple[str, str, str]

#: So many records, and so many bytes that are looked up, are worth no start of Spark.
_FEW_RECORDS, _FEW_BYTES = 200_000, 256 << 20
_MOST_HEADING = 1 << 20
_CONVERSIONS = (Category.TYPE_COERCION, Category.REQUIRED_CONVERSION, Category.MISSING_REQUIRED)
_AGGREGATE = "aggregate"
#: The reason why rows made by an aggregate are not replayed, and the remedy.
_MADE = (
    "rows that an aggregate made: such a row stands for all records of its group and cannot be replayed alone; correct "
    "the records of the group in their source file, or the pipeline, and run the whole pipeline again"
)
#: The beginning of a dead letter's detail.
_ROW = re.compile(r"row \d+: ")


class Refused(Exception):
    """A replay is refused: the message says why, and what to do."""


@dataclass
class Replayed:
    """The result of a replay: what became of each record.

    Args:
        done: how many are in the outputs, or were filtered.
        failed: how many failed again.
        left: entries that were not replayed, by why.
        waiting: the number of entries that remain in the file, including records that failed again.
        files: the files that were written or grew.
        error: why the run ended; nothing has changed then.
    """

    done: int = 0
    failed: int = 0
    left: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    files: tuple[str, ...] = ()
    error: RunError | None = None
    exit_code: ExitCode = ExitCode.SUCCESS


@dataclass(frozen=True)
class _Round:
    """Records that go to the same outputs."""

    outputs: frozenset[str]
    entries: tuple[Entry, ...]


def replay(
    plan: plans.Plan, found: WorkList, wanted: work_list.EntryFilter, options: RunOptions, into: Path | None
) -> Replayed:
    """Replay the chosen entries of a file; with `into`, outputs go there, otherwise records are added to the outputs.

    Raises:
        Refused: it cannot be done.
        OSError: a file cannot be read or written; nothing has changed then.
    """
    replayed = Replayed()
    _refuse_both(plan)
    for name, step in plan.outputs.items():
        if not step.has_path:
            raise Refused(
                f"output '{name}' is a table, to which no replay adds: correct the records in the files of their "
                "source (`clinker dlq show` has file and row), `clinker dlq discard` the entries, and run the pipeline "
                "again if its output replaces rows or updates them by keys, else on files with these records alone"
            )
    found.leave_out_done(_other_ledgers(plan, found))
    chosen = _chosen(found, wanted)
    drivers = found.drivers()
    entries = _replayable(plan, [entry for entry in chosen if entry.id not in drivers], replayed)
    rounds = _rounds(plan, entries)
    if into is None:
        _refuse_to_append(plan, rounds)
    scratch = Path(tempfile.mkdtemp(prefix="clinker-replay-"))
    try:
        after = _After(plan, scratch, into)
        for number, each in enumerate(rounds):
            error = after.run(each, number, options)
            if error is not None:
                replayed.error, replayed.exit_code = error
                return replayed
        _finish(found, chosen, entries, after, replayed, options)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return replayed


def _originals(plan: plans.Plan) -> list[Path]:
    """The dead-letter files that runs of the pipeline write on this machine."""
    targets = [plan.errors.dead_letters, *plan.errors.per_source.values()]
    named = {target.path for target in targets if target is not None and target.path}
    places = (
        location.absolute(location.located(path, plan.base_dir)) for path in sorted(named) if location.is_readable(path)
    )
    return [each for each in places if isinstance(each, Path)]


def _other_ledgers(plan: plans.Plan, found: WorkList) -> list[Path]:
    """Ledgers that may know entries of a file that was copied under another name."""
    here = _folder(found)
    folders = dict.fromkeys(path.parent for path in _originals(plan) if path.parent != here)
    return [ledger for folder in folders for ledger in work_list.ledgers_in(folder)]


def _folder(found: WorkList) -> Path | None:
    """The local folder of a file; None if it is in a store."""
    return found.path.absolute().parent if isinstance(found.path, Path) else None


def _ledgers_too(plan: plans.Plan, found: WorkList) -> list[FilePath]:
    """Other ledgers in which to note results: the file may be a copy of what runs of the pipeline have written."""
    originals = _originals(plan)
    if isinstance(found.path, Path) and found.path.absolute() in originals:
        return []
    here = _folder(found)
    return [work_list.ledger_of(path) for path in originals[:1] if path.parent != here and path.parent.is_dir()]


def _chosen(found: WorkList, wanted: work_list.EntryFilter) -> list[Entry]:
    """The wanted entries, with all others of their records and of their correlation groups.

    Records that a combine joined to a record go with it, and vice versa.
    """
    if unknown := wanted.ids - {entry.id for entry in found.entries}:
        raise Refused(f"{found.path} has no entry with the id {min(unknown)} that is still to do")
    mine = [entry for entry in found.entries if wanted.takes(entry)]
    drivers = found.drivers()
    mine = [drivers.get(entry.id, entry) for entry in mine]
    keys, origins = {entry.key for entry in mine} - {()}, {entry.origin for entry in mine}
    return [
        entry
        for entry in found.entries
        if entry.key in keys or entry.origin in origins or drivers.get(entry.id, entry).origin in origins
    ]


def _replayable(plan: plans.Plan, chosen: Sequence[Entry], replayed: Replayed) -> list[Entry]:
    """One entry for each record that can be replayed."""
    driving = _driving(plan)
    found: dict[Origin, Entry] = {}
    for entry in chosen:
        reason = _obstacle(plan, entry, driving)
        if reason:
            replayed.left[reason] = replayed.left.get(reason, 0) + 1
        else:
            found.setdefault(entry.origin, entry)
    return list(found.values())


def _obstacle(plan: plans.Plan, entry: Entry, driving: set[str]) -> str:
    if entry.is_made or _is_row(plan, entry):
        return "" if entry.key else _MADE
    if entry.source not in plan.sources:
        return f"records of '{entry.source}', which is not a source of the pipeline"
    if entry.source not in driving:
        return f"records of '{entry.source}', which is only looked up: correct its file, and run the pipeline again"
    if not any(entry.record.values()):
        return "records of which the file has no columns: fill them in"
    return ""


def _is_row(plan: plans.Plan, entry: Entry) -> bool:
    """True if an entry, though it shows the first record of a group, is about the row that an aggregate made of it."""
    node = plan.by_name.get(entry.stage.partition(":")[2])
    if node is None or entry.source not in plan.sources or entry.source not in _upstream(plan, node.name):
        return False
    if node.kind == _AGGREGATE:
        return entry.category == Category.AGGREGATE
    found = {node.name}
    for planned in reversed(plan.nodes):
        if planned.name in found and planned.kind != _AGGREGATE:
            found |= {edge.node for edge in upstream.streams(planned)}
    return entry.source not in found


def _refuse_both(plan: plans.Plan) -> None:
    for name in sorted(_driving(plan) & _looked_up(plan)):
        raise Refused(
            f"the records of source '{name}' go on to outputs and are looked up, too: run the whole pipeline again"
        )


def _looked_up(plan: plans.Plan) -> set[str]:
    """The nodes whose records are looked up, and all that these are made of."""
    found = {edge.node for node in plan.nodes for edge in node.inputs if edge not in upstream.streams(node)}
    for planned in reversed(plan.nodes):
        if planned.name in found:
            found |= {edge.node for edge in planned.inputs}
    return found


def _has_known_size(step: SourceStep) -> bool:
    """True if a plan knows how much a source has."""
    return step.endpoint is None and (step.file_format.has_files or step.file_format.is_table)


def _driving(plan: plans.Plan) -> set[str]:
    """The sources whose records go on to outputs, and are not only looked up."""
    found = set(plan.outputs)
    for planned in reversed(plan.nodes):
        if planned.name in found:
            found |= {edge.node for edge in upstream.streams(planned)}
    return found & set(plan.sources)


# ---- which outputs a record belongs to


def _rounds(plan: plans.Plan, entries: Iterable[Entry]) -> list[_Round]:
    """The records by the outputs that do not have them yet."""
    found: dict[frozenset[str], list[Entry]] = {}
    for entry in entries:
        if not entry.is_made:
            found.setdefault(frozenset(plan.outputs) - _served(plan, entry), []).append(entry)
    return [_Round(outputs, tuple(mine)) for outputs, mine in found.items()]


def _served(plan: plans.Plan, entry: Entry) -> frozenset[str]:
    """The outputs that already had a record when it failed, by branches other than the failing one.

    With correlation keys a dead record is in no output; and one with a value that does not convert came nowhere.
    """
    node = plan.by_name.get(entry.stage.partition(":")[2])
    if node is None or node.kind == "source" or any(step.correlation_key for step in plan.sources.values()):
        return frozenset()
    step = plan.sources[entry.source]
    types = {column.name: column.type for column in step.columns}
    declared = types.get(entry.field)
    is_unread = declared is not None and declared.kind is not Kind.STRING and entry.category in _CONVERSIONS
    if is_unread and node.name == step.failure_node:
        return frozenset()
    before = _upstream(plan, node.name)
    siblings: set[str] = set()
    for name in before - {node.name}:
        ports = {edge.port for planned, edge in _stream_edges(plan, name) if planned.name in before}
        for planned, edge in _stream_edges(plan, name):
            if planned.name not in before and (
                edge.port in ports or getattr(plan.by_name[name].step, "inclusive", False)
            ):
                siblings |= _outputs_of(plan, planned.name)
    both = siblings & _outputs_of(plan, node.name)
    if both:
        raise Refused(
            f"output '{min(both)}' has records of entry {entry.id} already by another branch, and would have them "
            "twice: run the whole pipeline again"
        )
    return frozenset(siblings)


def _stream_edges(plan: plans.Plan, name: str) -> list[tuple[plans.PlannedNode, plans.Input]]:
    return [(planned, edge) for planned, edge in plan.consumers[name] if edge in upstream.streams(planned)]


def _upstream(plan: plans.Plan, name: str) -> set[str]:
    """A node and all whose records come to it."""
    found = {name}
    for planned in reversed(plan.nodes):
        if planned.name in found:
            found |= {edge.node for edge in upstream.streams(planned)}
    return found


def _outputs_of(plan: plans.Plan, name: str) -> set[str]:
    found = {name}
    for planned in plan.nodes:
        if any(edge.node in found for edge in upstream.streams(planned)):
            found.add(planned.name)
    return found & set(plan.outputs)


# ---- existing contents of outputs


def _refuse_to_append(plan: plans.Plan, rounds: Sequence[_Round]) -> None:
    for name in sorted({name for each in rounds for name in each.outputs}):
        if by := _meets_all(plan, plan.outputs[name]):
            raise Refused(
                f"output '{name}' depends on all records, by {by}: correct the records in the files of their source, "
                "or the pipeline, and run all of it again with --force, which replaces outputs and dead letters; "
                "--into FOLDER computes the output of the replayed records alone"
            )
        reason = _why_not(plan, plan.outputs[name])
        if reason:
            raise Refused(f"output '{name}' {reason}: use --into FOLDER for files of the replayed records alone")


def _why_not(plan: plans.Plan, step: OutputStep) -> str:
    """Why records cannot be added at the end of an output's file."""
    if problem := step.options.no_appending:
        return str(problem)
    for wrong, reason in (
        ("//" in step.path.partition("://")[2], "has a key with an empty component"),
        (step.sort_order, "is sorted"),
        (step.split, "is split into files"),
        (step.by_file or step.parts, "is more than one file"),
        (step.write_meta, "has a file of facts beside it"),
        (step.compression.value != "none", "is compressed"),
        (step.if_exists is IfExists.UNIQUE_SUFFIX, "has another file for each run"),
    ):
        if wrong:
            return reason
    if _meets_records(plan.by_name[step.name]):
        return "has a rule on all its records (`unique`), and those that it has already are not read again"
    return ""


def _meets_all(plan: plans.Plan, step: OutputStep) -> str:
    """The node upstream of an output whose result depends on all records; empty if there is none."""
    for name in sorted(_upstream(plan, step.name) - {step.name}):
        planned = plan.by_name[name]
        if planned.kind != "combine" and _meets_records(planned):
            return f"{planned.kind} '{name}'"
    return ""


def _meets_records(planned: plans.PlannedNode) -> bool:
    """Whether a node shuffles records, because it compares them with others."""
    return planned.step is not None and any(isinstance(phase, ShufflePhase) for phase in planned.step.phases(2))


# ---- the run


class _After:
    """The results of the rounds so far.

    Args:
        plan: the pipeline.
        scratch: the folder for their files.
        into: where outputs go, None where they are added to their files.
    """

    def __init__(self, plan: plans.Plan, scratch: Path, into: Path | None) -> None:
        self.plan = plan
        self._scratch = scratch
        self.into = into
        self.origins: dict[tuple[str, str], Origin] = {}
        self.failed: dict[Origin, list[Entry]] = {}
        self.published: list[tuple[OutputStep, Path, FilePath]] = []
        self.access = StorageAccess(plan.stores, plan.connections, plan.catalogs)

    def run(self, wanted: _Round, number: int, options: RunOptions) -> tuple[RunError, ExitCode] | None:
        """Run the pipeline over the records of a round; gives what ended it."""
        folder = self._scratch / str(number)
        plan = self._planned(wanted, folder)
        sizes = discovery.discover(plan, allow_outside=True)
        looked_up = sum(source.bytes or 0 for source in sizes.values())
        is_small = len(wanted.entries) <= _FEW_RECORDS and looked_up <= _FEW_BYTES
        # The size of a network source or a database is unknown before the run.
        are_files = all(map(_has_known_size, plan.sources.values()))
        in_process = is_small and are_files and options.master is None
        chosen = replace(options, in_process=in_process, allow_absolute_paths=True, force=True, dry_run=False)
        outcome = executor.execute(plan, chosen, identity.Identity.new(None, options.batch_id))
        if outcome.result.error is not None:
            return outcome.result.error, ExitCode(outcome.result.exit_code)
        self._take(outcome.result.dlq_paths)
        out = folder / "out"
        for path in map(Path, outcome.result.output_files):
            name, *rest = path.relative_to(out).parts
            step = self.plan.outputs[sorted(self.plan.outputs)[int(name)]]
            for file in _files_of_table(path) if step.is_table else (path,):
                inside = file.relative_to(path)
                self.published.append((step, file, self._target(step, Path(*rest, inside))))
        return None

    def _target(self, step: OutputStep, name: Path) -> FilePath:
        """The final path of a file."""
        if self.into is None and location.scheme_of(step.path) in location.WRITABLE:
            return location.parse(f"{location.scheme_of(step.path)}://{name}")
        whole = Path(os.path.sep, *name.parts) if Path(step.path).is_absolute() else name
        if self.into is not None:
            return Path(os.path.abspath(self.into), *name.parts)
        return location.located(str(whole), self.plan.base_dir)

    def _planned(self, wanted: _Round, folder: Path) -> plans.Plan:
        """The pipeline with other inputs, and files in a folder."""
        driving = _driving(self.plan)
        steps: dict[str, Any] = {}
        for name, step in self.plan.sources.items():
            if name in driving:
                mine = [entry for entry in wanted.entries if entry.source == name]
                again = reading_again.write_replay_files(step, mine, folder / "in" / name.replace("/", "%"))
                self.origins |= again.origins
                steps[name] = replace(again.step, rules=rules.of_records(again.step.rules))
        for number, name in enumerate(sorted(self.plan.outputs)):
            output = self.plan.outputs[name]
            path = folder / "out" / str(number) / (output.path.partition("://")[2] or output.path).lstrip("/")
            mine_alone = rules.of_records(output.rules)
            steps[name] = replace(output, path=str(path), if_exists=IfExists.OVERWRITE, rules=mine_alone)
        unwanted = set(self.plan.outputs) - wanted.outputs
        nodes = tuple(
            replace(planned, step=steps.get(planned.name, planned.step))
            for planned in self.plan.nodes
            if planned.name not in unwanted
        )
        errors = replace(
            self.plan.errors, strategy=plans.Strategy.CONTINUE, per_source={}, type_error_threshold=None,
            dead_letters=plans.DeadLetterTarget(str(folder / "dlq.csv")), include_reason=True, include_source_row=True,
        )  # fmt: skip
        return replace(self.plan, nodes=nodes, errors=errors, metrics_dir=None).whole

    def place_before(self, file: str, row: str) -> tuple[str, str] | None:
        """The file and row where a replayed record was read first, by its place in the replay; None for others."""
        origin = reading_again.original(file, row, self.origins)
        return origin and origin[1:]

    def _take(self, paths: Iterable[str]) -> None:
        """The dead letters of a run, for the records that were replayed; others are known from before."""
        for path in paths:
            for entry in work_list.read(Path(path)).entries:
                origin = reading_again.original(*(entry.joined_to or (entry.file, entry.row)), self.origins)
                if origin is not None or entry.is_made:
                    self.failed.setdefault(origin or entry.origin, []).append(entry)


def _files_of_table(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _finish(
    found: WorkList,
    chosen: Sequence[Entry],
    entries: Sequence[Entry],
    after: _After,
    replayed: Replayed,
    options: RunOptions,
) -> None:
    """Publish the outputs with what is left of the file."""
    drivers, origins = found.drivers(), {entry.origin for entry in entries}
    mine = [entry for entry in chosen if drivers.get(entry.id, entry).origin in origins]
    taken = {entry.id for entry in mine}
    now = _failed_again(found, mine, after)
    ids = {entry.id for entry in now}
    again = {entry.id: entry for entry in now}
    left = [again.pop(entry.id, entry) for entry in found.entries if entry.id not in taken or entry.id in ids]
    left += again.values()
    events = []
    for entry in mine:
        has_failed = entry.id in ids or drivers.get(entry.id, entry).origin in after.failed
        kind = "failed" if entry.id in ids else "merged" if has_failed else "replayed"
        events.append(work_list.event(kind, entry))
    files = _contents(after, force=options.force) if mine else {}
    if mine and not options.dry_run:
        publishing.publish(found, left, events, files, _ledgers_too(after.plan, found), after.access)
    records = {entry.origin for entry in mine if not entry.is_made and entry.id not in drivers}
    replayed.failed = sum(origin in after.failed for origin in records)
    replayed.done = len(records) - replayed.failed
    replayed.waiting = len(left)
    replayed.files = tuple(map(str, files))
    replayed.exit_code = ExitCode.DEAD_LETTERS if left else ExitCode.SUCCESS


def _failed_again(found: WorkList, mine: Sequence[Entry], after: _After) -> list[Entry]:
    """The new entries of records that failed again, under the ids and places of the records' first ones."""
    drivers = found.drivers()
    known: dict[Origin, list[Entry]] = {}
    for entry in sorted(mine, key=_is_joined):
        known.setdefault(drivers.get(entry.id, entry).origin, []).append(entry)
    entries = []
    for origin, failed in after.failed.items():
        before = known.get(origin, [])
        tries = max((entry.tries for entry in before), default=0) + 1
        for number, entry in enumerate(sorted(failed, key=_is_joined)):
            cells = {name: entry.cells.get(name, "") for name in found.names}
            if number < len(before):
                cells[work_list.ID] = before[number].id
            source, file, row = origin
            detail = f"{work_list.PREFIX}error_detail"
            if entry.joined_to is not None:
                if detail in cells:
                    cells[detail] = work_list.with_driver_place(cells[detail], file, row)
            elif not entry.is_made:
                cells |= _named({"source_name": source, "source_file": file, "source_row": row}, found.names)
                if detail in cells:
                    cells[detail] = _ROW.sub(f"row {row}: ", cells[detail], count=1)
            if detail in cells:
                cells[detail] = work_list.with_equal_place(cells[detail], after.place_before)
            cells[work_list.TRIES] = str(tries)
            entries.append(work_list.Entry(cells))
    return entries


def _is_joined(entry: Entry) -> bool:
    return entry.joined_to is not None


def _named(cells: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {work_list.PREFIX + name: cell for name, cell in cells.items() if work_list.PREFIX + name in names}


def _contents(after: _After, *, force: bool) -> dict[FilePath, Content]:
    """The files with the replayed records; those that have records already keep them before the new ones."""
    files: dict[FilePath, Content] = {}
    there = places.destinations(after.access)
    for step, path, target in after.published:
        if step.is_table and there.standing(target) is not FileType.NOTHING:
            raise Refused(f"{target} is of a table that exists already: choose another folder for --into")
        size = path.stat().st_size
        earlier = files.get(target)
        if earlier is not None:
            if reason := _why_not(after.plan, step):
                raise Refused(
                    f"output '{step.name}' {reason}, and its records come from several branches: replay those of one "
                    "stage at a time (--stage)"
                )
            start = _heading_bytes(step, path)
            files[target] = replace(earlier, ranges=(*earlier.ranges, PartRange(str(path), start, size - start)))
        elif there.standing(target) is FileType.NOTHING or (after.into is not None and force):
            files[target] = Content(ranges=(PartRange(str(path), 0, size),))
        elif after.into is not None:
            raise Refused(f"{target} exists already: use --force to replace it")
        else:
            known = places.files(after.access, target)
            if content := _appended(step, path, target, known):
                files[target] = content
    return files


def _appended(step: OutputStep, path: Path, target: FilePath, known: PartStore) -> Content | None:
    size, start = path.stat().st_size, _heading_bytes(step, path)
    if size == start:
        return None
    length = known.size(str(target))
    with path.open("rb") as file, known.open(str(target)) as before:
        header = file.read(start)
        if before.read(start) != header:
            raise Refused(f"{target} begins with another header than the replayed records have: use --into FOLDER")
        file.seek(-1, os.SEEK_END)
        before.seek(max(length - 1, 0))
        # Somebody may have saved the file without its last line end.
        gap = b"\n" if file.read(1) == b"\n" and before.read(1) not in (b"\n", b"") else b""
    return Content(ranges=(PartRange(str(target), 0, length), PartRange(str(path), start, size - start, before=gap)))


def _heading_bytes(step: OutputStep, path: Path) -> int:
    """The bytes that stand before a file's records."""
    with path.open("rb") as file:
        return int(step.options.heading_bytes(file.read(_MOST_HEADING), include_header=step.include_header))

"""The inputs of a run: the files of each source, how their columns match the declared ones, and the splits."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.contract import MERGED, ExitCode
from spark_jobs.cxl import types
from spark_jobs.execute import verdict
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import columns, splits
from spark_jobs.formats.format import MOST_RECORD_BYTES
from spark_jobs.formats.names import search_here
from spark_jobs.nodes.source.split_origin import SplitInput
from spark_jobs.plan.physical import upstream
from spark_jobs.plan.physical.inputs import table_place
from spark_jobs.scan import bookmarks, changes, matching
from spark_jobs.scan.files import FormatError
from spark_jobs.scan.staging import staging

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan import plan as plans
    from spark_jobs.scan.files import InputFile


class Start(NamedTuple):
    """The number of records before a split, in its file and in its source."""

    in_file: int
    in_source: int


@dataclass(frozen=True)
class Inputs:
    """The sources of a run in the order they are declared, and their splits numbered over all of them."""

    steps: Mapping[str, SourceStep]
    numbers: Mapping[str, int]
    scans: Mapping[str, columns.ScanPlan]
    splits: tuple[tuple[str, SplitInput], ...]
    #: The bookmarks of incremental sources after the run has published, as `find` returns them.
    marks: Mapping[str, bookmarks.Mark] = field(default_factory=dict)

    @cached_property
    def by_number(self) -> dict[int, tuple[str, SplitInput]]:
        """The splits by their numbers (a preview reads only some of them)."""
        return {place.number: (name, place) for name, place in self.splits}

    def splits_of(self, names: Sequence[str]) -> tuple[tuple[str, SplitInput], ...]:
        """The splits of some sources."""
        return tuple(item for item in self.splits if item[0] in names)

    @property
    def on_network(self) -> dict[str, SourceStep]:
        """The sources whose records come from a network."""
        return {name: step for name, step in self.steps.items() if step.endpoint is not None}

    def file_name(self, split: int, source: int) -> str:
        """The name of the file of a split; `<merged>` for a row without a record."""
        if split < 0:
            return MERGED if source < 0 else f"<source:{self.source_name(source)}>"
        return self.by_number[split][1].file_plan.file.name

    @cached_property
    def _with_files(self) -> frozenset[str]:
        """The sources that have several files."""
        files = {(name, place.file_plan.file.name) for name, place in self.splits}
        return frozenset(name for name, count in Counter(name for name, _ in files).items() if count > 1)

    def one_of_several(self, split: int) -> str:
        """The name of the file that a split belongs to, where its source has several; else nothing."""
        name, place = self.by_number.get(split, ("", None))
        return place.file_plan.file.name if place is not None and name in self._with_files else ""

    def source_name(self, source: int) -> str:
        """A source's name by its number."""
        return next((name for name, number in self.numbers.items() if number == source), MERGED)

    def column_names(self, source: int) -> tuple[str, ...]:
        """A source's declared columns by its number."""
        return next((step.column_names for name, step in self.steps.items() if self.numbers[name] == source), ())

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The declared columns of all sources, each once."""
        return tuple(dict.fromkeys(name for step in self.steps.values() for name in step.column_names))

    @property
    def correlation_fields(self) -> tuple[str, ...]:
        """The fields of all correlation keys, each once."""
        return tuple(dict.fromkeys(name for step in self.steps.values() for name in step.correlation_key))

    def bytes_of(self, names: Sequence[str]) -> int:
        """The size of some sources' files; of compressed ones an estimate of their content."""
        return sum(plan.file.plain_size for name in names for plan in self.scans[name].files)

    def with_exact(self, wrong: set[int]) -> Inputs:
        """The inputs with exact record borders for the files of some splits."""
        broken = {(name, place.split.file) for name, place in self.splits if place.number in wrong}
        found = list(self.splits)
        for name, file in sorted(broken):
            mine = [i for i, (other, place) in enumerate(found) if other == name and place.split.file == file]
            file_plan = found[mine[0]][1].file_plan
            exact = self.steps[name].reader.exact_splits(file_plan, [found[i][1].split for i in mine])
            for i, split in zip(mine, exact, strict=True):
                found[i] = (name, replace(found[i][1], split=split))
        return replace(self, splits=tuple(found))

    def limited(self, records: int) -> Inputs:
        """The inputs with at most this many records of each source, as far as its splits here have them.

        Needs `with_rows` of the splits that are left.
        """
        found = [
            (name, replace(place, limit=max(records - (place.first_of_source or 0), 0)))
            for name, place in self.splits
            if (place.first_of_source or 0) < records or not place.first_of_source
        ]
        return replace(self, splits=tuple(found))

    def first_splits(self, most: int) -> Inputs:
        """The inputs with at most the first splits of each source."""
        counts: Counter[str] = Counter()
        found = []
        for name, place in self.splits:
            counts[name] += 1
            if counts[name] <= most:
                found.append((name, place))
        return replace(self, splits=tuple(found))

    def lacks(self, records: int, known: Mapping[int, int], whole: Inputs) -> bool:
        """True if some source has fewer records in its splits here than these, and further splits in `whole`.

        Args:
            records: how many each source is to have.
            known: the records of each split here.
            whole: all splits.
        """
        counts: Counter[str] = Counter()
        for name, place in self.splits:
            counts[name] += known[place.number]
        here, there = (Counter(name for name, _ in each.splits) for each in (self, whole))
        return any(counts[name] < records and here[name] < there[name] for name in there)

    def with_rows(self, records: Mapping[int, int]) -> Inputs:
        """Number the first record of each split; `records` has the number of records of each split."""
        starts = zip(self.splits, self.starts(records), strict=True)
        return replace(
            self,
            splits=tuple(
                (name, replace(place, first_row=start.in_file, first_of_source=start.in_source))
                for (name, place), (_, start) in starts
            ),
        )

    def starts(self, records: Mapping[int, int]) -> Iterator[tuple[int, Start]]:
        """The start of each split, by its number; `records` has the number of records of each split."""
        in_file: dict[tuple[str, int], int] = {}
        in_source: dict[str, int] = {}
        for name, place in self.splits:
            key = (name, place.split.file)
            start = Start(in_file.get(key, 0), in_source.get(name, 0))
            yield place.number, start
            in_file[key] = start.in_file + records[place.number]
            in_source[name] = start.in_source + records[place.number]


def find(
    plan: plans.Plan,
    split_bytes: int,
    *,
    copies: staging.SourceStaging | None = None,
    allow_outside: bool = False,
    search: Search = search_here,
    news: Mapping[str, bookmarks.IncrementalRead] | None = None,
    record_bytes: int = MOST_RECORD_BYTES,
) -> Inputs:
    """The file inputs of a plan. `with_pages` adds pages of network sources.

    Files are opened after all have been found, and staged if there are `copies`. `search` looks for undeclared names.
    `news` has the ranges to read of incremental sources; other sources are read whole. A record, header or footer of
    more than `record_bytes` ends the run here, too (E310).

    Raises:
        RunFailed: a file is missing or unreadable, cannot be staged, or its columns are refused.
    """
    sources = [planned for planned in plan.nodes if planned.name in plan.sources]
    sources.sort(key=lambda planned: planned.span.start if planned.span else 0)
    steps = {each.name: replace(plan.sources[each.name], record_bytes=record_bytes) for each in sources}
    found: dict[str, matching.Matched] = {}
    asked_of = news or {}
    for name, step in steps.items():
        if not step.file_format.has_files:
            with as_run_errors(plan, name):
                found[name] = _tables(step, table_place(plan, step, allow_outside=allow_outside), asked_of.get(name))
        elif step.endpoint is None:
            with as_run_errors(plan, name):
                found[name] = matching.match(
                    name,
                    step.match,
                    plan.base_dir,
                    allow_outside=allow_outside,
                    stores=plan.stores,
                    news=asked_of.get(name),
                )
    marks = {name: matched.mark for name, matched in found.items() if matched.mark is not None}
    if copies is not None:
        found = _staged(plan, found, copies)
    scans: dict[str, columns.ScanPlan] = {}
    asked = asked_for(plan)
    for name, matched in found.items():
        with as_run_errors(plan, name):
            scans[name] = _scan(steps[name], matched, search, is_asked=name in asked)
    return replace(with_splits(steps, scans, split_bytes), marks=marks)


def _tables(step: SourceStep, place: SourceContext, news: bookmarks.IncrementalRead | None) -> matching.Matched:
    """The parts of a source whose reader finds them, such as a table."""
    if news is None:
        return matching.Matched(step.reader.found(place))
    files, mark = step.reader.news(place, news)
    return matching.Matched(files, mark=mark)


def growth_warnings(plan: plans.Plan, found: Inputs) -> list[str]:
    """Look at all files once more, when all was read; gives warnings of those that have grown.

    Raises:
        RunFailed: a file has changed since it was read.
    """
    warnings: dict[str, None] = {}
    for name, scan in found.scans.items():
        with as_run_errors(plan, name):
            warnings |= dict.fromkeys(changes.grown(each.file for each in scan.files))
    return list(warnings)


def _staged(
    plan: plans.Plan, found: Mapping[str, matching.Matched], copies: staging.SourceStaging
) -> dict[str, matching.Matched]:
    """The files as they are read: each itself, or its staged copy."""
    files = [(name, number, file) for name, matched in found.items() for number, file in enumerate(matched.files)]
    read: dict[tuple[str, int], InputFile] = {}
    for name, number, file in sorted(files, key=lambda each: staging.turn(each[2])):
        with as_run_errors(plan, name):
            read[name, number] = file if file.table is not None else copies.stage(file)
    return {
        name: replace(matched, files=tuple(read[name, number] for number in range(len(matched.files))))
        for name, matched in found.items()
    }


def with_pages(
    plan: plans.Plan,
    found: Inputs,
    pages: Mapping[str, matching.Matched],
    split_bytes: int,
    search: Search = search_here,
) -> Inputs:
    """The inputs with the pages of the network sources.

    Raises:
        RunFailed: a page is broken, or its columns are refused.
    """
    scans = {**found.scans}
    asked = asked_for(plan)
    for name, matched in pages.items():
        with as_run_errors(plan, name):
            scans[name] = _scan(found.steps[name], matched, search, is_asked=name in asked)
    return with_splits(found.steps, {name: scans[name] for name in found.steps}, split_bytes)


def with_undeclared(
    plan: plans.Plan, found: Inputs, names: Collection[str], split_bytes: int, search: Search
) -> Inputs:
    """The inputs with all undeclared columns of some sources.

    Raises:
        RunFailed: a file is broken or has changed, or its columns are refused.
    """
    scans = {**found.scans}
    for name in names:
        before = scans[name]
        with as_run_errors(plan, name):
            files = [each.file for each in before.files]
            again = found.steps[name].scan(files, found.steps[name].on_unmapped, search)
        scans[name] = replace(again, skipped=before.skipped, warnings=before.warnings)
    return with_splits(found.steps, scans, split_bytes)


def with_splits(steps: Mapping[str, SourceStep], scans: Mapping[str, columns.ScanPlan], split_bytes: int) -> Inputs:
    """The inputs of some sources with their splits, numbered over all of them; `split_bytes` is for large inputs."""
    numbers = {name: number for number, name in enumerate(steps)}
    total = sum(file_plan.file.size for scan in scans.values() for file_plan in scan.files)
    share = splits.fair_bytes(total, split_bytes)
    found: list[tuple[str, SplitInput]] = []
    for name, scan in scans.items():
        for split in splits.plan(scan.files, share):
            found.append((name, SplitInput(numbers[name], len(found), scan.files[split.file], split)))
    return Inputs(steps, numbers, scans, tuple(found))


@contextmanager
def as_run_errors(plan: plans.Plan, name: str) -> Iterator[None]:
    """Within, errors about the files of a source become the error that ends the run."""
    try:
        yield
    except FormatError as error:
        raise verdict.broken(plan, error.code or "E900", str(error), name, error.unseen) from error
    except staging.Refused as error:
        place = plan.storage.places.get(f"staging.{error.setting}")
        message = f"source '{name}': {error.message}"
        raise RunFailed(ExitCode.CONFIG, error.code, message, str(place) if place else None) from error


def _scan(step: SourceStep, matched: matching.Matched, search: Search, *, is_asked: bool) -> columns.ScanPlan:
    """The files of a source with their columns. Undeclared columns are not searched for if nothing needs them."""
    on_unmapped = step.on_unmapped
    if on_unmapped is columns.OnUnmapped.AUTO_WIDEN and not is_asked:
        on_unmapped = columns.OnUnmapped.DROP
    found = step.scan(matched.files, on_unmapped, search)
    return replace(found, warnings=(*matched.warnings, *found.warnings))


def undeclared_type(found: Inputs) -> types.Type:
    """The type of undeclared columns: text if all sources have texts and no program reads any, else any value."""
    are_texts = all(step.undeclared_are_texts for step in found.steps.values())
    return types.STRING.or_null() if are_texts else types.ANY


def asked_for(plan: plans.Plan) -> frozenset[str]:
    """The nodes whose undeclared columns a node downstream writes or reads."""
    asked: set[str] = set()
    for planned in reversed(plan.nodes):
        step = upstream.step(planned)
        # A combine passes only its driver's undeclared columns on. Asking for the other inputs' only costs time.
        if step.column_properties.reads_undeclared or (
            step.record_properties.preserves_records and planned.name in asked
        ):
            asked.update(edge.node for edge in planned.inputs)
    return frozenset(asked)


def undeclared(plan: plans.Plan, inputs: Inputs) -> dict[str, tuple[str, ...]]:
    """The undeclared columns that records carry at each node, in first-seen order."""
    found: dict[str, tuple[str, ...]] = {}
    for planned in plan.nodes:
        if planned.is_source:
            found[planned.name] = inputs.scans[planned.name].undeclared
        elif not upstream.step(planned).record_properties.preserves_records:
            found[planned.name] = ()
        else:
            names = (name for edge in upstream.streams(planned) for name in found[edge.node])
            found[planned.name] = tuple(dict.fromkeys(names))
    return found

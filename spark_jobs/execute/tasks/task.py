"""A task: it runs splits, a materialized range or a partition of an exchange through a fragment of operators."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.disk import durable, shared_paths, system_errors
from spark_jobs.execute import logs, report, scratch
from spark_jobs.execute.tasks import block_codec, meter, task_failures, written_rows
from spark_jobs.execute.tasks import spill as disk
from spark_jobs.execute.tasks.exchanges import TaskExchanges
from spark_jobs.execute.tasks.files import TaskFiles
from spark_jobs.execute.tasks.shuffle_records import COUNTS, MESSAGE
from spark_jobs.formats import reading
from spark_jobs.nodes import memory, node, operator, spill
from spark_jobs.nodes.records import batches, ledger, order
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.scan.files import FormatError, prefetched_small_files
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.execute.tasks.task_inputs import MaterializedRange
    from spark_jobs.nodes.operator import Text
    from spark_jobs.nodes.rules.measurement import Measurement
    from spark_jobs.nodes.source.run import Source
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.plan.physical import fragments

#: The number of characters of a value that warnings show.
_MOST_SHOWN = 100


class Task(task_failures.TaskFailures):
    """The context of one task's operators."""

    def __init__(self, spec: JobSpec, stage: int, number: int, attempt: str) -> None:
        own_report = report.TaskReport(stage, number)
        super().__init__(spec, own_report, f"{spec.job.number}-{stage}-{number}-{attempt}")
        self.stage = stage
        self.attempt = attempt
        self.values = dict(spec.values)
        self.branches: Sequence[str] = spec.run.branches
        self.tuning = spec.run.tuning
        self.memory_pool = memory.MemoryPool(spec.run.memory_share)
        self.exchanges = TaskExchanges(spec, stage, self.memory_pool, lambda: self._disk)
        self.files = TaskFiles(spec, stage, number, attempt)
        self.running: batches.Batch | None = None
        #: The counts of operators that repeat the work of an earlier job.
        self._repeated: dict[str, ledger.Counters] = {}
        self._written_rows = written_rows.WrittenRows()
        self._meter = meter.of(spec.progress)
        #: Reports the progress of a task that reads files.
        self._pace: meter.Pace | None = None

    # ---- the context of operators

    def counters(self, name: str, *, silent: bool = False) -> ledger.Counters:
        """The counters of a node in this task."""
        counters = self._repeated if silent else self.report.counters
        return counters.setdefault(name, ledger.Counters())

    def unfold(self, node: str) -> None:
        """Ask the driver to repeat the pass with this node evaluated in order."""
        if node not in self.report.unfolded:
            self.report.unfolded.append(node)

    def log(
        self,
        level: str,
        line: Text | Callable[[], Text],
        about: tuple[batches.Batch, int] | None = None,
        *,
        shows_place: bool = False,
    ) -> None:
        """Add a line to the run's log. `line` is called only if the level is logged."""
        if logs.LEVELS[level] < self.spec.run.log_level:
            return
        if len(self.report.logs) >= logs.LINES_PER_TASK:
            self.report.logs_left_out += 1
            return
        known = {} if about is None else self.correlation.about(*about)
        made = line() if callable(line) else line
        text, *rest = (made,) if isinstance(made, str) else made
        if about is not None and (shows_place or rest):
            known |= _place(*about)
        self._log(report.LogLine(level, text, row_texts=tuple(rest), **known))

    def _traced(self, level: str, line: str, position: int | None) -> None:
        """Log a line that a program has written about a row of the running batch; repeated work logs nothing."""
        if self.running is None:
            return
        if position is None:
            self._log(report.LogLine(level, line))
        elif len(self.report.logs) < logs.LINES_PER_TASK:
            known = self.correlation.about(self.running, position) | _place(self.running, position)
            self._log(report.LogLine(level, line, **known))
        else:
            self.report.logs_left_out += 1

    def _log(self, line: report.LogLine) -> None:
        if len(self.report.logs) < logs.LINES_PER_TASK:
            self.report.logs.append(line)
        else:
            self.report.logs_left_out += 1

    def notice(self, operator_: operator.Operator, text: str, batch: batches.Batch, values: Mapping[int, str]) -> None:
        """Warn about values of a batch by one notice, which has the number of rows and the first of them."""
        if operator_.silent:
            return
        rows = np.array(list(values), dtype=np.int64)
        places = [column.to_numpy() for column in batch.origin.identify(batch, pa.array(rows))]
        first = int(np.lexsort(places[::-1])[0])
        source, split, row = (int(column[first]) for column in places)
        found = report.Notice(text, len(rows), source, split, row, values[int(rows[first])][:_MOST_SHOWN])
        known = next((each for each in self.report.notices if each.text == text), None)
        if known is None:
            self.report.notices.append(found)
        else:
            self.report.notices[self.report.notices.index(known)] = known.merged_with(found)

    def break_rule(
        self,
        operator_: operator.Operator,
        rule: str,
        batch: batches.Batch,
        values: pa.StringArray | None = None,
        equal_to: np.ndarray | None = None,
    ) -> None:
        """Count records that break a rule, and note the first of them."""
        if operator_.silent or not batch.count:
            return
        places = [column.to_numpy() for column in batch.origin.identify(batch, pa.array(np.arange(batch.count)))]
        first = int(np.lexsort(places[::-1])[0])
        source, split, row = (int(column[first]) for column in places)
        shown = None if values is None else values[first].as_py()
        found = report.BrokenRule(
            operator_.step.name,
            rule,
            batch.count,
            source,
            split,
            row,
            shown=shown and shown[:_MOST_SHOWN],
            equal_to=-1 if equal_to is None else int(equal_to[first]),
        )
        known = {each.key: number for number, each in enumerate(self.report.broken_rules)}
        if found.key in known:
            at = known[found.key]
            self.report.broken_rules[at] = self.report.broken_rules[at].merged_with(found)
        else:
            self.report.broken_rules.append(found)

    def observe(self, operator_: operator.Operator, rule: str, found: Measurement) -> None:
        """Report a measurement for a rule about values."""
        if not operator_.silent:
            self.report.measured.append(report.MeasuredRule(operator_.step.name, rule, found))

    def note_written(self, batch: batches.Batch) -> None:
        """Note the places of records that an output writes."""
        if batch.count:
            _, split, row = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
            self._written_rows.add(split, row)

    def spill(self, node: str, table: pa.Table) -> spill.Spilled:
        """Spill rows of a node to disk."""
        return self._disk.put_rows(node, table)

    @cached_property
    def _disk(self) -> disk.TaskSpill:
        return disk.TaskSpill(self.spec.run.spill)

    # ---- the work

    def read(self, name: str, places: Sequence[SplitInput]) -> None:
        """Push the records of some splits through the fragment of their source."""
        started = time.perf_counter()
        outcomes: list[reading.SplitOutcome] = []
        operators = self._open_fragment([name])
        root: Source = operators[0]  # type: ignore[assignment]
        self._pace = _pace(self._meter, places)
        with self._errors_reported(name), prefetched_small_files([place.file_plan.file for place in places]):
            root.read(places, root.reading(self.spec.run.undeclared.get(name, ()), self.spec.run.keep_texts), outcomes)
            self._finish(operators)
        self._pace.finish()
        self._report_splits(places, outcomes, root.watermarks)
        self.report.seconds += time.perf_counter() - started

    def pause(self) -> None:
        """Report progress after a range of input; end the task if a failure ends the run."""
        if self._pace is not None:
            self._pace.advance()
        super().pause()

    def read_materialized(self, load: MaterializedRange) -> None:
        """Push a range of records that an earlier job materialized through its fragment."""
        started = time.perf_counter()
        operators = self._open_fragment([load.op])
        root: Any = operators[0]
        with self._errors_reported(root.step.name), ExitStack() as stack:
            schedule = None if load.schedule is None else stack.enter_context(scratch.opened(load.schedule))
            root.read(load.start, load.end, schedule)
            self._finish(operators)
        self.report.seconds += time.perf_counter() - started

    def measure(self, name: str, places: Sequence[SplitInput]) -> None:
        """Count the records of splits, without evaluating them."""
        outcomes: list[reading.SplitOutcome] = []
        root: Source = self._open_fragment([name])[0]  # type: ignore[assignment]
        pace = _pace(self._meter, places)
        with self._errors_reported(name), prefetched_small_files([place.file_plan.file for place in places]):
            for place in places:
                outcomes.append(reading.SplitOutcome())
                root.count(place, outcomes[-1])
                pace.advance()
        pace.finish()
        self._report_splits(places, outcomes)

    def _report_splits(
        self,
        places: Sequence[SplitInput],
        outcomes: Sequence[reading.SplitOutcome],
        watermarks: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Report the measures of the splits that were read. The last one may have ended early."""
        for place, found in zip(places, outcomes, strict=False):
            size = max(found.end - found.start, 0)
            watermark = watermarks.get(place.number, 0)
            measure = report.Measure(place.number, found.records, size, found.is_consistent, watermark, found.has_news)
            self.report.splits.append(measure)
            self.report.notices += map(report.Notice, found.warnings)

    def receive(self, exchange: fragments.Exchange, records: Iterator[tuple[int, bytes]]) -> None:
        """Push a partition of an exchange through the fragment of its consumer."""
        started = time.perf_counter()
        operators = self._open_fragment([exchange.consumer])
        root: Any = operators[0]
        with self._errors_reported(operators[0].step.name):
            for ordinal, payload in records:
                if ordinal == COUNTS:
                    self.exchanges.add_counters(payload)
                elif ordinal == MESSAGE:
                    root.receive_message(payload)
                else:
                    root.receive(block_codec.decode(payload))
            self._finish(operators)
        self.report.seconds += time.perf_counter() - started

    @contextmanager
    def _errors_reported(self, root: str) -> Iterator[None]:
        """Report errors of data and surroundings instead of raising them: the driver judges them."""
        try:
            with logs.capture_traces(self._traced, self.spec.run.log_level):
                yield
        except operator.StopTask:
            self.exchanges.buffer.clear()
        except spill.ResourcesExhausted as error:
            self.exchanges.buffer.clear()
            self.report.broken = report.Broken(error.code, error.message, error.node)
        except FormatError as error:
            node = "" if system_errors.is_system_wide(error.__cause__) else error.node or root
            self.report.broken = report.Broken(error.code or "E900", str(error), node, error.unseen)
        except OSError as error:
            self._break(error, root)
        finally:
            # Its records are memory, or mapped: they would stay until somebody looks for garbage.
            self.running = None

    def _break(self, error: OSError, root: str = "") -> None:
        """Report an error of the system with the node whose part file it is about, unless one is reported already."""
        if isinstance(error, StoreError):
            node = self.files.node_of(error.uri, root)
            self.report.broken = self.report.broken or report.Broken(error.code, str(error), node)
            return
        node = self.files.node_of(str(error.filename), "" if system_errors.is_system_wide(error) else root)
        unseen = shared_paths.NotShared.of(error, is_new=True) if self.files.is_ours(str(error.filename)) else None
        self.report.broken = self.report.broken or report.Broken("E900", durable.describe(error), node, unseen)

    def _finish(self, operators: list[operator.Operator]) -> None:
        """Finish operators upstream first: each passes on its held records before the next one finishes."""
        for each in operators:
            each.finish()
            self.pause()

    def _broadcast_counts(self) -> None:
        """Send the counters of this task to later stages whose groups show them."""
        for exchange in self.spec.job.exchanges:
            totals = self.spec.job.totals(exchange)
            if totals is None or exchange.stage <= self.stage:
                continue
            everything = [*self.report.counters.items(), *self._repeated.items()]
            payload = report.encode_counters({name: c for name, c in everything if name in totals.nodes})
            self.exchanges.broadcast(exchange.id, payload, COUNTS)

    def close(self) -> None:
        """Close all files, write the dead letters and complete the report."""
        self._broadcast_counts()
        self.report.payload_bytes = self.exchanges.payload_bytes
        parts, problems = self.files.close()
        self.report.parts += parts
        for problem in problems:  # a full disk; or the run was stopped and has tidied up
            self._break(problem)
        try:
            self.write()
        except OSError as error:
            self._break(OSError(error.errno, error.strerror or str(error), error.filename))
        try:
            name = f"written-{self.spec.job.number}-{self.stage}-{self.report.number}-{self.attempt}.arrow"
            self.report.written_rows = self._written_rows.encoded(self.spec.run.scratch.file(name), self.tuning)
        except OSError as error:
            self._break(error)
        self._meter.add(stage=self.stage)
        self.report.spilled = dict(self._disk.spilled)
        self.report.peak_bytes = pa.default_memory_pool().max_memory() or 0

    def release(self) -> None:
        """Remove spilled rows, once all records were sent."""
        self._disk.close()

    def _open_fragment(self, roots: Sequence[str]) -> list[operator.Operator]:
        """Open the operators downstream of some roots, in the order of the plan, and connect them."""
        ops = self.spec.job.ops
        reached, waiting = set(), list(roots)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += [target.op for target in ops[name].targets]
        ordered = sorted((ops[name] for name in reached), key=lambda op: (op.id not in roots, op.number, op.id))
        opened = {op.id: self._operator(op) for op in ordered}
        for op in ordered:
            for target in op.targets:
                opened[op.id].targets.setdefault(target.port, []).append((opened[target.op], target.input))
        return list(opened.values())

    def _operator(self, op: fragments.PhysicalOperator) -> operator.Operator:
        """Open a physical operator for this task."""
        is_exchanged = op.exchange is not None and self.spec.job.exchanges[op.exchange].kind.gives_places
        wiring = operator.Wiring(
            context=self,
            silent=op.silent,
            number=op.number,
            first=op.first,
            last=op.last,
            exchange=op.exchange,
            partitions=op.partitions,
            provides=op.provides,
            reads=op.reads,
            arrivals=order.Arrivals(op.merge_paths, self.spec.departing if is_exchanged else self.spec.numbers),
            before=order.Arrivals(op.incoming_paths, self.spec.departing),
            number_of_partition=self.report.number,
            undeclared=self.spec.run.undeclared.get(op.step.name, ()),
            undeclared_type=self.spec.run.undeclared_type,
            shows_later=self.spec.run.keep_texts and self._only_materializes(op),
        )
        opened: operator.Operator = node.open_step(op.step, op.role, wiring)
        return opened

    def _only_materializes(self, op: fragments.PhysicalOperator) -> bool:
        """Whether the records of an operator are only materialized."""
        downstream = [self.spec.job.ops[target.op] for target in op.targets]
        return bool(downstream) and all(each.role is Role.MATERIALIZE for each in downstream)


def _pace(metered: meter.Meter, places: Sequence[SplitInput]) -> meter.Pace:
    return meter.Pace(metered, sum(place.split.end - place.split.start for place in places))


def _place(batch: batches.Batch, row: int) -> dict[str, int]:
    """The place at which a record was read; of an aggregate's row, the place of its first record."""
    places = batch.origin.identify(batch, pa.array([row], pa.int64()))
    return dict(zip(("source", "split", "row"), (column[0].as_py() for column in places), strict=True))

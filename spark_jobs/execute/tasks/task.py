"""A task: one split, or one partition of an exchange, through its region; what its operators ask for."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.disk import durable, refusals
from spark_jobs.execute import logs
from spark_jobs.execute.letters import failed_record, gather
from spark_jobs.execute.tasks import part_file, report
from spark_jobs.execute.tasks import spill as disk
from spark_jobs.execute.tasks.outbox import Outbox
from spark_jobs.execute.tasks.parcels import COUNTS
from spark_jobs.formats import reading
from spark_jobs.nodes import memory, node, operator, spill
from spark_jobs.nodes.records import ledger, order
from spark_jobs.nodes.source import record_origin as origins
from spark_jobs.plan import plan as plans
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.cxl.failures import Failures
    from spark_jobs.execute.letters.gather import Entries, Site
    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.nodes.source.run import Source
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.plan.physical import regions


#: The part of a task's share that dead letters may hold before they are written down.
_LETTERS_SHARE = 8
_MOST_LETTERS_BYTES = 16 << 20


class Task:
    """The context of one task's operators."""

    def __init__(self, spec: JobSpec, level: int, number: int, attempt: str) -> None:
        self.spec = spec
        self.level = level
        self.attempt = attempt
        self.values = dict(spec.values)
        self.branches: Sequence[str] = spec.run.branches
        self.report = report.TaskReport(level, number)
        self.account = memory.Account(spec.run.memory_share)
        #: What this task makes, and what it only passes on to later levels.
        self.outbox = Outbox(spec.job, level, self.account, lambda: self._disk)
        self.passing = Outbox(spec.job, level, self.account, lambda: self._disk)
        self.gathered = gather.Gathered(
            os.path.join(spec.run.scratch, f"letters-{spec.job.number}-{level}-{number}-{attempt}.arrow"),
            spec.run.filed,
            spec.run.named,
            min(spec.run.memory_share // _LETTERS_SHARE, _MOST_LETTERS_BYTES),
        )
        self._parts: list[tuple[report.Part, Any]] = []
        self.running: operator.Batch | None = None
        #: What operators count that repeat the work of an earlier job.
        self._repeated: dict[str, ledger.Counters] = {}
        #: What nodes counted at earlier levels and in earlier jobs.
        self._counted = {name: replace(counters) for name, counters in spec.counted.items()}
        #: Whose the part files are, those too that could not be opened.
        self._nodes: dict[str, str] = {}

    # ---- what operators ask for
    # ----------------------------------------------------------------------------------------

    def counters(self, name: str, *, silent: bool = False) -> ledger.Counters:
        """The counters of a node in this task."""
        counters = self._repeated if silent else self.report.counters
        return counters.setdefault(name, ledger.Counters())

    def counted(self) -> Mapping[str, ledger.Counters]:
        """What nodes counted at all levels before this one, as far as an aggregate of this level asks."""
        return self._counted

    def fail(
        self,
        operator_: operator.Operator,
        batch: operator.Batch,
        failing: Failures,
        trigger: str = "",
        cause: operator.Batch | None = None,
    ) -> None:
        """Send rows of a batch to the dead letters."""
        indices = pa.array(failing.rows)
        texts = batch.origin.texts(batch, indices) if self.spec.run.keep_texts else None
        places = batch.origin.identify(batch, indices)
        if cause is None:
            causes = gather.own(batch.places.take(indices))
        else:
            driver = cause.origin.identify(cause, pa.array(range(cause.count), pa.int64()))
            causes = (*driver, cause.places)
        entries = gather.Entries(failing, places, causes, batch.branches.take(indices), texts)
        stages = [operator_.step.stage] * len(failing.reasons)
        self._note(operator_, entries, gather.Site(stages, operator_.number, trigger), batch.data)

    def letters(
        self,
        operator_: operator.Operator,
        failing: Failures,
        places: gather.Places,
        texts: pa.RecordBatch | None,
        stages: Sequence[str],
    ) -> None:
        """Note dead letters by the places of their records; each reason has its stage."""
        entries = gather.Entries(failing, places, texts=texts)
        self._note(operator_, entries, gather.Site(stages, operator_.number))

    def _note(
        self, operator_: operator.Operator, entries: Entries, site: Site, data: pa.RecordBatch | None = None
    ) -> None:
        if operator_.silent:
            return
        self.gathered.add(entries, site)
        if self.spec.run.strategy is not plans.Strategy.FAIL_FAST:
            return
        at = np.zeros(len(entries.failing), dtype=np.int64) if entries.causes is None else entries.causes[-1].to_numpy()
        first = int(np.lexsort((at, *(column.to_numpy() for column in reversed(entries.places))))[0])
        source, split, row = (column[first].as_py() for column in entries.places)
        item, stage = entries.failing[first], site.stages[entries.failing.reason[first]]
        found, (expression, place) = item.failure, item.failure.expression or ("", "")
        failure = report.FirstFailure(
            source, split, row, stage, found.detail, found.field, found.category, expression, place,
            number=site.number, at=int(at[first]),
        )  # fmt: skip
        if self.report.failure is None or failure.precedes(self.report.failure):
            failure.record = None if data is None else failed_record.at_hand(data, item.row)
            self.report.failure = failure

    def pause(self) -> None:
        """Records are through: under fail_fast a failure among them ends the task, the earliest one told."""
        if self.report.failure is not None and self.spec.run.strategy is plans.Strategy.FAIL_FAST:
            raise operator.StopTask

    def abort(self, operator_: operator.Operator, code: str, message: str, batch: operator.Batch, row: int) -> None:
        """End the run because of a record."""
        self.pause()
        source, split, place = (column[0].as_py() for column in batch.origin.identify(batch, pa.array([row])))
        record = failed_record.at_hand(batch.data, row)
        step = operator_.step
        message = f"{step.kind} '{step.name}': {message}"
        self.report.failure = report.FirstFailure(source, split, place, step.stage, message, None, code, record=record)
        raise operator.StopTask

    def log(self, level: str, line: str) -> None:
        """Give a line to the run's log."""
        if logs.LEVELS[level] >= self.spec.run.log_level:
            self._log(report.LogLine(level, line))

    def _traced(self, level: str, line: str, position: int | None) -> None:
        """Take a line that a program wrote about a row of the batch it runs on; repeated work has none."""
        if self.running is None:
            return
        if position is None:
            self._log(report.LogLine(level, line))
        elif len(self.report.logs) < logs.LINES_PER_TASK:
            places = self.running.origin.identify(self.running, pa.array([position], pa.int64()))
            self._log(report.LogLine(level, line, *(column[0].as_py() for column in places)))
        else:
            self.report.logs_left_out += 1

    def _log(self, line: report.LogLine) -> None:
        if len(self.report.logs) < logs.LINES_PER_TASK:
            self.report.logs.append(line)
        else:
            self.report.logs_left_out += 1

    def record_origin(self, number: int) -> operator.Origin:
        """The origin of records that an exchange brought to a partition."""
        assert self.spec.places is not None, "only exchanges bring records whose split is another task's"
        return origins.RecordOrigin(number, self.spec.places)

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> None:
        """Give rows to an exchange."""
        self.report.payload_bytes += self.outbox.send(exchange, partition, ordinal, table)

    def spill(self, node: str, table: pa.Table) -> spill.Spilled:
        """Write rows down for this task."""
        return self._disk.put_rows(node, table)

    @cached_property
    def _disk(self) -> disk.Space:
        return disk.Space(self.spec.run.spill)

    def part(
        self,
        output: str,
        lane: tuple[int, ...],
        opener: Callable[[operator.Create, str], Any],
        source_file: str | None = None,
    ) -> Any:
        """A new part of an output."""
        parts = self.spec.run.parts
        folder = parts.folders.get(output, self.spec.run.scratch)
        file = self._opened(folder, output, output, partial(opener, parts.depot.create))
        self._parts.append((report.Part(output, lane, self.report.number, file.path, 0, 0, source_file), file))
        return file

    def materialize(self, rows: Rows, lane: tuple[int, ...], schema: pa.Schema) -> Any:
        """A new file of rows that a later job needs."""
        file = self._opened(self.spec.run.scratch, str(rows), rows.node, lambda path: pa.ipc.new_file(path, schema))
        self._parts.append((report.Part(rows, lane, self.report.number, file.path, 0, 0), file))
        return file

    def _opened(self, folder: str, what: str, node: str, opener: Callable[[str], Any]) -> part_file.PartFile:
        name = f"{uuid.uuid5(uuid.NAMESPACE_OID, what).hex[:8]}-{self.level}-{self.report.number}"
        path = os.path.join(folder, f"{name}-{len(self._parts)}-{self.attempt}.part")
        self._nodes[path] = node
        return part_file.PartFile(opener, path)

    def materialized(self, rows: Rows, partition: int | None = None) -> pa.Table:
        """The records that an earlier job wrote down, in order; mapped where the file system allows it.

        What the records of some lane or file lack is null there.
        """
        files = [part_file.mapped(path) for path in self.spec.materialized[rows]]
        if partition is None:
            tables = [file.read_all() for file in files]
        else:
            found = [file.get_batch_with_custom_metadata(i) for file in files for i in range(file.num_record_batches)]
            wanted = str(partition).encode()
            batches = [each.batch for each in found if each.custom_metadata[operator.PARTITION] == wanted]
            tables = [pa.Table.from_batches([batch]) for batch in batches]
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})

    # ---- the work
    # -------------------------------------------------------------------------------------------------------

    def read(self, name: str, places: Sequence[SplitInput]) -> None:
        """Push splits of a source through its region, one after the other."""
        started = time.perf_counter()
        outcomes: list[reading.SplitOutcome] = []
        operators = self._region([name])
        root: Source = operators[0]  # type: ignore[assignment]
        with self._stoppable(name):
            root.read(places, root.reading(self.spec.run.widened.get(name, ()), self.spec.run.keep_texts), outcomes)
            self._finish(operators)
        self._tell(places, outcomes)
        self.report.seconds += time.perf_counter() - started

    def measure(self, name: str, places: Sequence[SplitInput]) -> None:
        """Measure splits: their records are counted, and go nowhere."""
        outcomes: list[reading.SplitOutcome] = []
        root: Source = self._region([name])[0]  # type: ignore[assignment]
        with self._stoppable(name):
            for place in places:
                outcomes.append(reading.SplitOutcome())
                root.count(place, outcomes[-1])
        self._tell(places, outcomes)

    def _tell(self, places: Sequence[SplitInput], outcomes: Sequence[reading.SplitOutcome]) -> None:
        """What reading splits told; the last may have ended early, and others were not begun."""
        for place, found in zip(places, outcomes, strict=False):
            size = max(found.end - found.start, 0)
            self.report.splits.append(report.Measure(place.number, found.records, size, found.is_consistent))

    def receive(self, exchange: regions.Exchange, parcels: Iterator[tuple[int, bytes]]) -> None:
        """Push a partition of an exchange through its region."""
        started = time.perf_counter()
        operators = self._region([exchange.consumer])
        root: Any = operators[0]
        with self._stoppable(operators[0].step.name):
            for ordinal, payload in parcels:
                if ordinal == COUNTS:
                    for name, counters in report.decode_counters(payload).items():
                        self._counted.setdefault(name, ledger.Counters()).add(counters)
                else:
                    root.receive(pa.ipc.open_stream(payload).read_all())
            self._finish(operators)
        self.report.seconds += time.perf_counter() - started

    @contextmanager
    def _stoppable(self, root: str) -> Iterator[None]:
        """What ends a task without being a bug is reported; the driver gives the verdict."""
        try:
            with logs.captured(self._traced, self.spec.run.log_level):
                yield
        except operator.StopTask:
            self.outbox.clear()
        except spill.Exhausted as error:
            self.outbox.clear()
            self.report.broken = report.Broken(error.code, error.message, error.node)
        except FormatError as error:
            node = "" if refusals.is_of_no_file(error.__cause__) else root
            self.report.broken = report.Broken(error.code or "E900", str(error), node)
        except OSError as error:
            self._break(error, root)

    def _break(self, error: OSError, root: str = "") -> None:
        """Note what the system refused, with the node whose part file it is about; the first trouble counts."""
        node = self._nodes.get(str(error.filename), "" if refusals.is_of_no_file(error) else root)
        self.report.broken = self.report.broken or report.Broken("E900", durable.describe(error), node)

    def _finish(self, operators: list[operator.Operator]) -> None:
        """Upstream first: what one holds back reaches the next before that one finishes."""
        for each in operators:
            each.finish()
            self.pause()

    def _tell_counts(self) -> None:
        """Send what was counted here to later levels whose groups know of it."""
        for exchange in self.spec.job.exchanges:
            totals = self.spec.job.totals(exchange)
            if totals is None or exchange.level <= self.level:
                continue
            everything = [*self.report.counters.items(), *self._repeated.items()]
            payload = report.encode_counters({name: c for name, c in everything if name in totals.nodes})
            for partition in range(exchange.partitions):
                self.outbox.add(exchange.id, partition, COUNTS, payload)

    def close(self) -> None:
        """Close all files, write the dead letters, and tell what was counted."""
        self._tell_counts()
        for part, file in self._parts:
            part.records = file.records
            try:
                file.close()
                part.bytes = file.bytes
            except OSError as error:  # a full disk; or the run was stopped and has tidied up
                self._break(error)
            self.report.parts.append(part)
        if self.gathered.count:
            try:
                self.gathered.write()
            except OSError as error:
                self._break(OSError(error.errno, error.strerror or str(error), error.filename))
            self.report.letters = self._letters()
        self.report.spilled = dict(self._disk.spilled)
        self.report.peak_bytes = pa.default_memory_pool().max_memory() or 0

    def _letters(self) -> report.Letters:
        gathered = self.gathered
        found = report.Letters(gathered.count, gathered.per_source, gathered.per_category)
        if gathered.kept.splits:
            found.path, found.splits = gathered.kept.path, gathered.kept.splits
        if gathered.dropped.splits:
            found.dropped_path, found.dropped_splits = gathered.dropped.path, gathered.dropped.splits
        found.dropped = gathered.dropped_reasons
        return found

    def release(self) -> None:
        """Everything was sent: give the disk back."""
        self._disk.close()

    def _region(self, roots: Sequence[str]) -> list[operator.Operator]:
        """The operators that are reached from the roots, in the order of the plan, wired."""
        boxes = self.spec.job.boxes
        reached, waiting = set(), list(roots)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += [target.box for target in boxes[name].targets]
        ordered = sorted((boxes[name] for name in reached), key=lambda box: (box.id not in roots, box.number, box.id))
        made = {box.id: self._operator(box) for box in ordered}
        for box in ordered:
            for target in box.targets:
                made[box.id].targets.setdefault(target.port, []).append((made[target.box], target.input))
        return list(made.values())

    def _operator(self, box: regions.Box) -> operator.Operator:
        """The operator of a box."""
        departs = box.exchange is not None and self.spec.job.exchanges[box.exchange].kind.gives_places
        wiring = operator.Wiring(
            context=self,
            silent=box.silent,
            number=box.number,
            first=box.first,
            last=box.last,
            exchange=box.exchange,
            partitions=box.partitions,
            rows=box.rows,
            arrivals=order.Arrivals(box.lanes, self.spec.departing if departs else self.spec.numbers),
            before=order.Arrivals(box.incoming_lanes, self.spec.departing),
            number_of_partition=self.report.number,
            widened=self.spec.run.widened.get(box.step.name, ()),
            widened_type=self.spec.run.widened_type,
        )
        made: operator.Operator = node.open_step(box.step, box.role, wiring)
        return made

"""Operators: they push batches of records to one another inside a task.

A fragment is a tree of operators. The task pushes batches into the roots; each operator works on a batch and pushes the
result to its targets. No record can disappear unnoticed: `take` counts the records that come in, `push`, `drop` and
`fail` count the records that leave, and `become` counts a change of their number. The run checks that these add up
(`ledger.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from spark_jobs.cxl import engine, failure_columns, types
from spark_jobs.nodes import memory
from spark_jobs.nodes.final_values import FinalValues
from spark_jobs.nodes.records import batches, columns, guarded, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    import pyarrow as pa

    from spark_jobs.cxl import typed
    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.nodes import node, spill
    from spark_jobs.nodes.correlation import CorrelationHook
    from spark_jobs.nodes.records.batches import Batch
    from spark_jobs.nodes.records.ledger import Counters
    from spark_jobs.nodes.rules.measurement import Measurement
    from spark_jobs.nodes.terms.needs import Need, Rows
    from spark_jobs.tuning import Tuning

#: The text of a log line, or the two pieces between which the row of its record is inserted.
Text: TypeAlias = "str | tuple[str, ...]"
#: Creates a file at a path.
Create: TypeAlias = "Callable[[str], IO[bytes]]"


class Exchanges(Protocol):
    """Sends rows and messages from task to task."""

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> None:
        """Send rows to a partition of an exchange."""

    def broadcast(self, exchange: int, message: bytes) -> None:
        """Send a message to all partitions of an exchange. They receive the messages of all tasks before any rows."""

    def record_origin(self, number: int) -> batches.Origin:
        """The origin of records that an exchange brought to a partition; they still know their file and row."""

    def counted(self) -> Mapping[str, Counters]:
        """The counts of all tasks of earlier stages, by node (see `aggregate/totals.py`)."""


class Files(Protocol):
    """The files of a task: part files of outputs, records for later jobs, and records from earlier jobs."""

    def part(
        self,
        output: str,
        merge_path: order.MergePath,
        opener: Callable[[Create, str], Any],
        source_file: str | None = None,
    ) -> Any:
        """Open a new part of an output. The task closes it and reports it.

        Args:
            output: the output.
            merge_path: the merge path of its records.
            opener: makes the file from a `Create` of the output's destination and the part's path there.
            source_file: the input file of its records, if each input file has an output of its own.
        """

    def materialize(self, need: Need, merge_path: order.MergePath, schema: pa.Schema) -> Any:
        """Open a new file for the records of a need. The task closes it and reports it."""

    def materialized(self, need: Need, partition: int | None = None) -> pa.Table:
        """The records that an earlier job materialized, in order: all, or one partition."""

    def count(self, rows: Rows) -> int:
        """The number of records that an earlier job materialized."""

    def materialized_range(self, rows: Rows, start: int, end: int) -> Iterable[pa.Table]:
        """The materialized records `start` to `end`, in order, as consecutive tables."""


class Context(Protocol):
    """The services that the task provides to its operators."""

    #: The run-wide values of `$...`: `pipeline.name`, `vars.limit`, ….
    values: dict[str, Any]
    #: The memory pool of the task.
    memory_pool: memory.MemoryPool
    #: The batch that a program currently runs on, for its log lines; None in replays, which write no log.
    running: Batch | None
    #: The values that must not be shown, by the name of each node that uses credentials.
    guards: Mapping[str, guarded.Guard]
    #: The branches of all routes of the plan. The first stands for no branch.
    branches: Sequence[str]
    #: The tuning constants, such as batch sizes.
    tuning: Tuning

    @property
    def exchanges(self) -> Exchanges:
        """The exchanges to later stages and from earlier ones."""

    @property
    def files(self) -> Files:
        """The files of outputs, and records that jobs materialize."""

    @property
    def correlation(self) -> CorrelationHook:
        """The correlation hook; it does nothing in pipelines without keys."""

    def spill(self, node: str, table: pa.Table) -> spill.Spilled:
        """Spill rows to a file of this task (see `spill.py`)."""

    def counters(self, name: str, *, silent: bool = False) -> Counters:
        """The counters of a node in this task. `silent` counters are not reported: an earlier job reported them."""

    def unfold(self, node: str) -> None:
        """Ask for the pass to be repeated with a node evaluated in order: a fold cannot give its values."""

    def fail(
        self,
        operator: Operator,
        batch: Batch,
        failing: Failures,
        trigger: str,
        cause: Batch | None,
        stage: str | None = None,
        equal_to: np.ndarray | None = None,
    ) -> None:
        """Send rows of a batch to the dead letters, see `Operator.fail`."""

    def pause(self) -> None:
        """Called after each range of input. Raises `StopTask` when a failure ends the run."""

    def fail_read_records(
        self,
        operator: Operator,
        failing: Failures,
        places: tuple[pa.Array, pa.Array, pa.Array],
        texts: pa.RecordBatch | None,
        stages: Sequence[str],
        keys: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Write dead letters by the places of their records. Each reason has its stage.

        `keys` is their correlation key, field by field, as texts; empty if it is unknown.
        """

    def note_written(self, batch: Batch) -> None:
        """Note the places of records that an output writes."""

    def log(
        self,
        level: str,
        line: Text | Callable[[], Text],
        about: tuple[Batch, int] | None = None,
        *,
        shows_place: bool = False,
    ) -> None:
        """Add a line, or a function that makes it, to the run's log. The driver writes lines in the order of records.

        `about` is the row of a batch that the line is about, if that row fails or the line names its position. A line
        that shows its row consists of the two pieces between which `row N:` is inserted.
        """

    def notice(self, operator: Operator, text: str, batch: Batch, values: Mapping[int, str]) -> None:
        """Warn of values of some rows. The run writes one warning for each text; replays write none.

        Args:
            operator: the operator that warns.
            text: the beginning of the warning; the number of values follows it.
            batch: the records.
            values: the values, by their rows.
        """

    def break_rule(
        self,
        operator: Operator,
        rule: str,
        batch: Batch,
        values: pa.StringArray | None = None,
        equal_to: np.ndarray | None = None,
    ) -> None:
        """Count records that break a rule but continue. The run reports the earliest one; replays report none.

        Args:
            operator: the operator that checks the rule.
            rule: the rule's name.
            batch: the records.
            values: the offending value of each row, if the rule reports values.
            equal_to: see `Operator.fail`.
        """

    def observe(self, operator: Operator, rule: str, found: Measurement) -> None:
        """Report a measurement of this task's records for a rule about values. Replays report nothing.

        Args:
            operator: the operator that the records pass.
            rule: the rule's name.
            found: the measurement.
        """

    def abort(self, operator: Operator, code: str, message: str, batch: Batch, rows: np.ndarray) -> None:
        """End the run because of the earliest of some records, whatever the strategy. `pause` then ends the task."""


@dataclass(frozen=True)
class Wiring:
    """An operator's place in its fragment and its run. An operator receives the values that it has fields for.

    Args:
        context: the task.
        silent: this repeats work of an earlier job.
        number: the node's position in the plan.
        first: records enter the node here.
        last: records leave the node here.
        exchange: the exchange to which the operator sends records; None if it pushes them to other operators.
        partitions: the number of partitions that it sends or materializes.
        provides: the records that it materializes for a later job.
        reads: the materialized records that it reads as a root.
        arrivals: the inputs of the records that are pushed to it.
        before: the inputs of the records before an exchange joined their merge paths into one.
        number_of_partition: the number of this partition of an exchange.
        undeclared: the undeclared columns that reach the node, in first-seen order.
        undeclared_type: the type of the undeclared columns.
        shows_later: records are materialized here only for tasks that may have to write them as dead letters.
    """

    context: Context
    silent: bool = False
    number: int = 0
    first: bool = True
    last: bool = True
    exchange: int | None = None
    partitions: int = 1
    provides: Need | None = None
    reads: tuple[Rows, ...] = ()
    arrivals: order.Arrivals = order.ONE
    before: order.Arrivals = order.ONE
    number_of_partition: int = 0
    undeclared: tuple[str, ...] = ()
    undeclared_type: types.Type = types.STRING
    shows_later: bool = False

    def for_fields(self, opened: type[Operator]) -> dict[str, Any]:
        """The values for the fields of the operator class."""
        wanted = {each.name for each in fields(opened)}
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name in wanted}


class StopTask(Exception):
    """Ends the task at the first failure under fail_fast. The failure itself has already been recorded."""


@dataclass
class Operator:
    """A step in operation. Subclasses implement `process`, and `finish` if they buffer records."""

    step: node.Step
    context: Context
    #: Replays repeat work of an earlier job: they count and report nothing again.
    silent: bool = False
    targets: dict[str, list[tuple[Operator, int]]] = field(default_factory=dict)
    #: The position in the plan, which orders the dead letters of one record.
    number: int = 0
    #: Records enter and leave the node here. A node may consist of several operators.
    first: bool = True
    last: bool = True
    #: The inputs of the records that are pushed here.
    arrivals: order.Arrivals = order.ONE

    def __post_init__(self) -> None:
        self.counters = self.context.counters(self.step.name, silent=self.silent)
        self.stream = order.Stream(self.arrivals)
        self.open()

    @property
    def guard(self) -> guarded.Guard:
        """The values that the operator must not show."""
        return self.context.guards.get(self.step.name, guarded.OPEN)

    def open(self) -> None:
        """Compile programs and prepare other state, once per task."""

    def process(self, batch: Batch, port: int) -> None:
        """Process a batch from the input number `port`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Flush buffers, after all batches of this task have been processed."""

    def take(self, batch: Batch) -> Batch:
        """Accept records: count them, and give them places in the operator's stream."""
        self.enter(batch.count)
        return self.placed(batch)

    def placed(self, batch: Batch) -> Batch:
        """The records with their places."""
        return replace(batch, at=self.stream.places(batch))

    def enter(self, count: int) -> None:
        """Count records that come in, from another node or from an operator of the same node."""
        if self.first:
            self.counters.records_in += count
        else:
            self.counters.received += count

    def leave(self, count: int) -> None:
        """Count records that are pushed, to other nodes or to an operator of the same node."""
        if self.last:
            self.counters.records_out += count
        else:
            self.counters.sent += count

    def count_replaced(self, count: int, others: int) -> None:
        """Count records that become `others`, or a different number of records: children, copies, matches, groups."""
        if others > count:
            self.counters.made += others - count
        else:
            self.counters.absorbed += count - others

    def drop(self, *, filtered: int = 0, duplicates: int = 0) -> None:
        """Count records that end here without failing."""
        self.counters.filtered += filtered
        self.counters.duplicates += duplicates

    def push(self, batch: Batch, port: str = "") -> None:
        """Push records to the consumers of a port."""
        self.leave(batch.count)
        if batch.count:
            for target, target_port in self.targets.get(port, ()):
                target.process(batch, target_port)

    @property
    def can_pass_over(self) -> bool:
        """True if records that fail the step's `pushed_predicates` need not be read, only counted."""
        return False

    def pass_over(self, count: int) -> None:
        """Count records that were not read because they fail the step's `pushed_predicates`."""
        self.enter(count)
        self.drop(filtered=count)

    def slices(self, batch: Batch) -> Iterable[Batch]:
        """Slices of a batch that are small in records and in bytes, compared with the task's memory."""
        most = memory.step_bytes(self.context.memory_pool.share)
        return batch.slices(max(1, min(batches.BATCH_ROWS, batch.count * most // max(batch.data.nbytes, 1))))

    def fail(
        self,
        batch: Batch,
        failing: Sequence[engine.RowFailure] | Failures,
        trigger: str = "",
        cause: Batch | None = None,
        stage: str | None = None,
        equal_to: np.ndarray | None = None,
    ) -> None:
        """Send rows of a batch to the dead letters.

        Args:
            batch: the records.
            failing: the failing rows, with their failures.
            trigger: the rule that they break.
            cause: the driver record of each build record of a combine.
            stage: the stage of the failure, if it is not the step's stage.
            equal_to: the numbers of the records that they duplicate (see `records/identity.py`).
        """
        if len(failing):
            self.counters.dead += len(failing)
            self.context.fail(self, batch, failure_columns.of(failing), trigger, cause, stage, equal_to)

    def log(
        self, level: str, line: Text | Callable[[], Text], about: tuple[Batch, int] | None = None, **how: bool
    ) -> None:
        """Add a line to the run's log, like `Context.log`. Replays add none, because an earlier job did."""
        if not self.silent:
            self.context.log(level, line, about, **how)

    def run(self, program: engine.BatchProgram, batch: Batch, state: engine.EvaluationContext) -> engine.BatchResult:
        """Run a program on a batch with its system values."""
        self.context.running = None if self.silent else batch
        return program(batch.data, engine.EvaluationContext(self.system_values(batch), state.seen))

    def system_values(self, batch: Batch) -> dict[str, Any]:
        """The system values (`$...`) of a batch by path: a value, or one for each record."""
        values = dict(self.context.values)
        values.update(batch.origin.source_values(batch))
        for path, name in columns.values(batch.data.schema.names).items():
            values[path] = batch.data.column(name)
        if self.step.reads_variables:
            values.update(self.final_values.of_batch(values))
        return values

    @cached_property
    def final_values(self) -> FinalValues:
        """The variables that the step reads and that state nodes set."""
        return FinalValues(self.step.reads_variables, self.context)


def compiled(program: typed.Program) -> engine.BatchProgram:
    """The program as kernels, compiled once per worker process, however many tasks run it."""
    found = _COMPILED.pop(id(program), None)
    if found is None or found[0] is not program:
        from spark_jobs.cxl.kernels import kernels

        found = (program, kernels.compile(program))
    _COMPILED[id(program)] = found
    while len(_COMPILED) > MOST_COMPILED:
        del _COMPILED[next(iter(_COMPILED))]
    return found[1]


#: Programs by their identity, in the order of last use: each job unpickles its own, and workers outlive jobs.
_COMPILED: dict[int, tuple[typed.Program, engine.BatchProgram]] = {}
MOST_COMPILED = 256

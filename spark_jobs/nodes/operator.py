"""Operators: they push batches of records to one another inside a task.

A fragment is a tree of operators. The task pushes batches into the roots; each operator works on a batch and pushes the
result to its targets. Nothing can make a record disappear unseen: records come in through `take` and leave
through `push`, `drop` and `fail`, which count them, `become` says how many others are made of them, and the run checks
that these add up (`ledger.py`).
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

#: The text of a log line, or the pieces of one between which the row of its record is to stand.
Text: TypeAlias = "str | tuple[str, ...]"
#: Begins a file under a path.
Create: TypeAlias = "Callable[[str], IO[bytes]]"


class Exchanges(Protocol):
    """Sends rows and messages from task to task."""

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> None:
        """Give rows to an exchange."""

    def broadcast(self, exchange: int, message: bytes) -> None:
        """Send a message to all partitions of an exchange. They receive the messages of all tasks before any rows."""

    def record_origin(self, number: int) -> batches.Origin:
        """The origin of records that an exchange brought to a partition, which still have their file and row."""

    def counted(self) -> Mapping[str, Counters]:
        """The counts of all tasks of earlier stages, by node (see `aggregate/totals.py`)."""


class Files(Protocol):
    """Part files of outputs and records for later jobs, written by the task, and records from earlier jobs."""

    def part(
        self,
        output: str,
        merge_path: order.MergePath,
        opener: Callable[[Create, str], Any],
        source_file: str | None = None,
    ) -> Any:
        """A new part of an output. The task closes it and reports it.

        Args:
            output: whose part it is.
            merge_path: where its records come.
            opener: makes a file by what begins files at the output's destination, and the part's path there.
            source_file: the input file that the part is about, where each has an output of its own.
        """

    def materialize(self, need: Need, merge_path: order.MergePath, schema: pa.Schema) -> Any:
        """Open a new file for the records of a need. The task closes it and reports it."""

    def materialized(self, need: Need, partition: int | None = None) -> pa.Table:
        """The records that an earlier job materialized, in order: all, or one partition."""

    def count(self, rows: Rows) -> int:
        """The number of records that an earlier job materialized."""

    def materialized_range(self, rows: Rows, start: int, end: int) -> Iterable[pa.Table]:
        """Some of them by their numbers, in order, in tables one after another."""


class Context(Protocol):
    """The services that the task provides to its operators."""

    #: The run-wide values of `$...`: `pipeline.name`, `vars.limit`, ….
    values: dict[str, Any]
    #: The memory pool of the task.
    memory_pool: memory.MemoryPool
    #: The batch that a program runs on, for its log lines; None in replays, which log nothing.
    running: Batch | None
    #: The values that must not be shown, by the name of each node that credentials have gone into.
    guards: Mapping[str, guarded.Guard]
    #: The branches of all routes of the plan; the first is none.
    branches: Sequence[str]
    #: The sizes that work is cut into.
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
        """Write rows down for this task (see `spill.py`)."""

    def counters(self, name: str, *, silent: bool = False) -> Counters:
        """The counters of a node in this task; `silent` ones are not reported, for an earlier job did."""

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
        """Note dead letters by the places of their records; each reason has its stage.

        `keys` is their correlation key, field by field, as texts; empty where it is not known.
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
        """Give a line, or what writes it, to the run's log; the driver writes lines in the order of the records.

        `about` is the row of a batch that the line is about, where that one fails, or is to be named by its place. A
        line that shows its row in its midst comes in the pieces between which `row N:` is to stand.
        """

    def notice(self, operator: Operator, text: str, batch: Batch, values: Mapping[int, str]) -> None:
        """Have the run warn of values of some rows, as one with all others of the same text; replays warn of nothing.

        Args:
            operator: the operator that warns.
            text: what is to be said, to stand before the number of all tasks' values.
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
        """Count records that break a rule and go on; the run tells the first of all, replays tell of none.

        Args:
            operator: where they do.
            rule: the rule's name.
            batch: the records.
            values: what is wrong with each, where the rule says that of values.
            equal_to: see `Operator.fail`.
        """

    def observe(self, operator: Operator, rule: str, found: Measurement) -> None:
        """Report what records of this task amount to for a rule about values; repeated work reports nothing.

        Args:
            operator: where they pass.
            rule: the rule's name.
            found: the measurement.
        """

    def abort(self, operator: Operator, code: str, message: str, batch: Batch, rows: np.ndarray) -> None:
        """Have the run end because of the earliest of some records, whatever the strategy; `pause` ends the task."""


@dataclass(frozen=True)
class Wiring:
    """An operator's place in its fragment and its run. An operator receives the values that it has fields for.

    Args:
        context: the task.
        silent: whether this is repeated work of an earlier job.
        number: the node's position in the plan.
        first: whether records enter the node here.
        last: whether they leave it here.
        exchange: where the operator sends records; None when it pushes them on.
        partitions: in how many partitions it sends them, or writes them down.
        provides: the records that it materializes for a later job.
        reads: the materialized records that it reads as a root.
        arrivals: where the records come from that are pushed to it.
        before: where the records downstream of an exchange came from, before it joined their merge paths into one.
        number_of_partition: which partition of an exchange this is.
        undeclared: the undeclared columns that reach the node, in first-seen order.
        undeclared_type: their type.
        shows_later: whether records are only materialized here, for tasks that may have to show them as dead letters.
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
        """The values of those fields that the operator class has."""
        wanted = {each.name for each in fields(opened)}
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name in wanted}


class StopTask(Exception):
    """Under fail_fast the first failure ends the task; the failure itself is already noted."""


@dataclass
class Operator:
    """A step at work. Subclasses implement `process`, and `finish` when they hold something back."""

    step: node.Step
    context: Context
    #: Replays are repeated work of an earlier job: they count and report nothing again.
    silent: bool = False
    targets: dict[str, list[tuple[Operator, int]]] = field(default_factory=dict)
    #: Position in the plan, the order of dead letters of one record.
    number: int = 0
    #: Whether records enter and leave the node here: a node may be several operators.
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
        """The values of the operator that must not be shown."""
        return self.context.guards.get(self.step.name, guarded.OPEN)

    def open(self) -> None:
        """Compile programs and the like, once per task."""

    def process(self, batch: Batch, port: int) -> None:
        """Take a batch from the input number `port`."""
        raise NotImplementedError

    def finish(self) -> None:
        """All batches of this task have been processed."""

    def take(self, batch: Batch) -> Batch:
        """Records come in; they get their places in the operator's stream."""
        self.enter(batch.count)
        return self.placed(batch)

    def placed(self, batch: Batch) -> Batch:
        """The records with their places."""
        return replace(batch, at=self.stream.places(batch))

    def enter(self, count: int) -> None:
        """Count records that come in: from another node, or from an operator of the same."""
        if self.first:
            self.counters.records_in += count
        else:
            self.counters.received += count

    def leave(self, count: int) -> None:
        """Count records that go on: to other nodes, or to an operator of the same."""
        if self.last:
            self.counters.records_out += count
        else:
            self.counters.sent += count

    def become(self, count: int, others: int) -> None:
        """Records are others from here on, or one and the same in some number: children, copies, matches, groups."""
        if others > count:
            self.counters.made += others - count
        else:
            self.counters.absorbed += count - others

    def drop(self, *, filtered: int = 0, duplicates: int = 0) -> None:
        """Records end here, as they should."""
        self.counters.filtered += filtered
        self.counters.duplicates += duplicates

    def push(self, batch: Batch, port: str = "") -> None:
        """Give records to the consumers of a port."""
        self.leave(batch.count)
        if batch.count:
            for target, target_port in self.targets.get(port, ()):
                target.process(batch, target_port)

    @property
    def can_pass_over(self) -> bool:
        """Whether records that do not pass the step's `pushed_predicates` need not come, but be counted alone."""
        return False

    def pass_over(self, count: int) -> None:
        """Count records that do not come, because they would not pass the step's `pushed_predicates`."""
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
            failing: those that fail, and why.
            trigger: the rule that they break.
            cause: the driver of each build record of a combine.
            stage: where they fail, unless it is the step's stage.
            equal_to: the numbers of the records that they equal and should not (see `records/identity.py`).
        """
        if len(failing):
            self.counters.dead += len(failing)
            self.context.fail(self, batch, failure_columns.of(failing), trigger, cause, stage, equal_to)

    def log(
        self, level: str, line: Text | Callable[[], Text], about: tuple[Batch, int] | None = None, **how: bool
    ) -> None:
        """Give a line to the run's log as `Context.log` does; repeated work gives none, for an earlier job did."""
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
        """The variables that the step reads, of those that state nodes set."""
        return FinalValues(self.step.reads_variables, self.context)


def compiled(program: typed.Program) -> engine.BatchProgram:
    """The program as kernels; once per worker process, however many tasks run it."""
    found = _COMPILED.pop(id(program), None)
    if found is None or found[0] is not program:
        from spark_jobs.cxl.kernels import kernels

        found = (program, kernels.compile(program))
    _COMPILED[id(program)] = found
    while len(_COMPILED) > MOST_COMPILED:
        del _COMPILED[next(iter(_COMPILED))]
    return found[1]


#: Programs by their identity, the one used last at the end: each job unpickles its own, and workers outlive jobs.
_COMPILED: dict[int, tuple[typed.Program, engine.BatchProgram]] = {}
MOST_COMPILED = 256

"""Steps at work: batches of records pushed from operator to operator inside one task.

A region is a tree of operators. The task pushes batches into the roots; each operator works on a batch and pushes the
result to its targets. Nothing can make a record disappear unseen: records come in through `take` and leave
through `push`, `drop` and `fail`, which count them, `become` says how many others are made of them, and the run checks
that these add up (`ledger.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from spark_jobs.contract import MERGED
from spark_jobs.cxl import engine, failures, types, values
from spark_jobs.nodes import memory
from spark_jobs.nodes.records import columns, order
from spark_jobs.nodes.records.columns import IS_GROUP, ORIGIN_NAMES, ROUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_jobs.cxl import typed
    from spark_jobs.cxl.failures import Failures
    from spark_jobs.nodes import node, spill
    from spark_jobs.nodes.records.ledger import Counters
    from spark_jobs.nodes.terms.needs import Rows

#: Begins a file under a path.
Create: TypeAlias = "Callable[[str], IO[bytes]]"
#: Records per batch that operators cut larger inputs into; small enough for a batch's columns to stay in cache.
BATCH_ROWS = 65_536
#: The metadata of a written batch that says whose it is, where a node's records are written in partitions.
PARTITION = "partition"


class Origin(Protocol):
    """Where a batch's records come from: what dead letters and `$source.*` need to know."""

    @property
    def number(self) -> int:
        """The number of the split or partition, for the places of its rows."""

    def identify(self, batch: Batch, indices: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(source number, split number, 0-based row in the split) of these rows of the batch."""

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The same for rows of the task's input, where that is enough to know."""

    def texts(self, batch: Batch, indices: pa.Array) -> pa.RecordBatch | None:
        """The declared columns of these rows' records as they were read; None when they are not at hand."""

    def surroundings(self, batch: Batch) -> dict[str, Any]:
        """The `source.*` values for the batch."""


@dataclass
class Batch:
    """Records on their way.

    `data` has the columns; `rows` the row of each record in the task's input (a split's or a home partition's),
    ascending, the same number for all children of an `emit each`. `lane` is the path through merges: the inputs
    taken, outermost first. `branch` is that of the last route, as its number in `Context.branches`; where the records
    differ, they have a column for it. `at` has their places in the stream that the operator takes (`order.py`).
    """

    data: pa.RecordBatch
    rows: pa.Array
    origin: Origin
    lane: order.Lane = ()
    branch: int = 0
    at: pa.Array | None = None

    @property
    def branches(self) -> pa.Array:
        """The branch of each record's last route (decision 94)."""
        if ROUTE.name in self.data.schema.names:
            return self.data.column(ROUTE.name)
        return pa.repeat(pa.scalar(self.branch, ROUTE.type), self.count)

    @property
    def places(self) -> pa.Array:
        """The records' places, which an operator gives them when it takes them."""
        assert self.at is not None
        return self.at

    @property
    def count(self) -> int:
        """How many records."""
        return int(self.data.num_rows)

    def take(self, indices: pa.Array) -> Batch:
        """These records, in this order."""
        at = None if self.at is None else self.at.take(indices)
        return replace(self, data=self.data.take(indices), rows=self.rows.take(indices), at=at)

    def slice(self, start: int, count: int) -> Batch:
        """Some of its records that stand together."""
        at = None if self.at is None else self.at.slice(start, count)
        return replace(self, data=self.data.slice(start, count), rows=self.rows.slice(start, count), at=at)

    def slices(self, size: int = BATCH_ROWS) -> Iterable[Batch]:
        """The batch in pieces of at most `size` records."""
        if self.count <= size:
            yield self
            return
        for start in range(0, self.count, size):
            yield self.slice(start, size)


@dataclass(frozen=True)
class GroupOrigin:
    """Records that an exchange brought: their first records are named by the `$origin.*` columns."""

    #: The number of the partition, for the places of its rows.
    number: int

    def identify(self, batch: Batch, indices: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The first records' source, split and row."""
        source, split, row = (batch.data.column(name).take(indices) for name in ORIGIN_NAMES)
        return source, split, row

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Not known from a row number alone."""
        raise NotImplementedError("records of an exchange carry their origin")

    def texts(self, batch: Batch, indices: pa.Array) -> pa.RecordBatch | None:
        """The first records are read again when dead letters are written."""
        return None

    def surroundings(self, batch: Batch) -> dict[str, Any]:
        """A group has no file or row of its own (spec/exec.md 12.7)."""
        return {"source.file": MERGED, "source.name": MERGED, "source.path": MERGED}


class Context(Protocol):
    """What the task gives to its operators."""

    #: Run-wide values behind `$...`: `pipeline.name`, `vars.limit`, ….
    values: dict[str, Any]
    #: What this task may hold, and who holds what (decision 41).
    account: memory.Account
    #: What a program runs on, for its log lines; None where it is repeated work, which writes none.
    running: Batch | None
    #: The branches of all routes of the plan; the first is none.
    branches: Sequence[str]

    def spill(self, node: str, table: pa.Table) -> spill.Spilled:
        """Write rows down for this task (see `spill.py`)."""

    def counters(self, name: str, *, silent: bool = False) -> Counters:
        """The counters of a node in this task; `silent` ones are not reported, for an earlier job did."""

    def counted(self) -> Mapping[str, Counters]:
        """What the tasks of all levels before this one counted, by node (see `aggregate/totals.py`)."""

    def fail(
        self,
        operator: Operator,
        batch: Batch,
        failing: Failures,
        trigger: str,
        cause: Batch | None,
    ) -> None:
        """Send rows of a batch to the dead letters, see `Operator.fail`."""

    def pause(self) -> None:
        """Said after each stretch of input. Raises `StopTask` when a failure ends the run."""

    def record_origin(self, number: int) -> Origin:
        """The origin of records that an exchange brought to a partition, which still have their file and row."""

    def letters(
        self,
        operator: Operator,
        failing: Failures,
        places: tuple[pa.Array, pa.Array, pa.Array],
        texts: pa.RecordBatch | None,
        stages: Sequence[str],
    ) -> None:
        """Note dead letters by the places of their records; each reason has its stage."""

    def log(self, level: str, line: str) -> None:
        """Give a line to the run's log; the driver writes it, in the order of the records."""

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> None:
        """Give rows to an exchange."""

    def part(
        self, output: str, lane: order.Lane, opener: Callable[[Create, str], Any], source_file: str | None = None
    ) -> Any:
        """A new part of an output. The task closes it and reports it.

        Args:
            output: whose part it is.
            lane: where its records come.
            opener: makes a file by what begins files at the output's destination, and the part's path there.
            source_file: the input file that the part is about, where each has an output of its own.
        """

    def materialize(self, rows: Rows, lane: order.Lane, schema: pa.Schema) -> Any:
        """A new file of rows that a later job needs. The task closes it and reports it."""

    def abort(self, operator: Operator, code: str, message: str, batch: Batch, row: int) -> None:
        """End the run because of a record, whatever the strategy. Raises `StopTask`."""

    def materialized(self, rows: Rows, partition: int | None = None) -> pa.Table:
        """Records that an earlier job wrote down, in order; of one partition when they have such."""


@dataclass(frozen=True)
class Wiring:
    """Where an operator stands in its region and its run. An operator is given what it has fields for.

    Args:
        context: the task.
        silent: whether this is repeated work of an earlier job.
        number: the node's position in the plan.
        first: whether records enter the node here.
        last: whether they leave it here.
        exchange: where the operator sends records; None when it pushes them on.
        partitions: in how many partitions it sends them, or writes them down.
        rows: what it writes down for a later job.
        arrivals: where the records come from that are pushed to it.
        before: where the records behind an exchange came from, before it made one lane of several.
        number_of_partition: which partition of an exchange this is.
        widened: the undeclared columns that reach the node, in first-seen order.
        widened_type: what they hold.
    """

    context: Context
    silent: bool = False
    number: int = 0
    first: bool = True
    last: bool = True
    exchange: int | None = None
    partitions: int = 1
    rows: Rows | None = None
    arrivals: order.Arrivals = order.ONE
    before: order.Arrivals = order.ONE
    number_of_partition: int = 0
    widened: tuple[str, ...] = ()
    widened_type: types.Type = types.STRING

    def for_fields(self, opened: type[Operator]) -> dict[str, Any]:
        """What an operator has fields for."""
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
    #: Where the records come from that are pushed here.
    arrivals: order.Arrivals = order.ONE

    def __post_init__(self) -> None:
        self.counters = self.context.counters(self.step.name, silent=self.silent)
        self.stream = order.Stream(self.arrivals)
        self.open()

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

    def portions(self, batch: Batch) -> Iterable[Batch]:
        """A batch in pieces that are small in records and for the task's memory."""
        most = memory.step_bytes(self.context.account.share)
        return batch.slices(max(1, min(BATCH_ROWS, batch.count * most // max(batch.data.nbytes, 1))))

    def fail(
        self,
        batch: Batch,
        failing: Sequence[engine.RowFailure] | Failures,
        trigger: str = "",
        cause: Batch | None = None,
    ) -> None:
        """Send rows of a batch to the dead letters; `cause` has the driver of each build record of a combine."""
        if len(failing):
            self.counters.dead += len(failing)
            self.context.fail(self, batch, failures.of(failing), trigger, cause)

    def run(self, program: engine.BatchProgram, batch: Batch, state: engine.Surroundings) -> engine.BatchResult:
        """Run a program on a batch with everything `$` around it."""
        self.context.running = None if self.silent else batch
        return program(batch.data, engine.Surroundings(self.around(batch), state.seen))

    def around(self, batch: Batch) -> dict[str, Any]:
        """Everything `$` around a batch, by path: a value, or one for each record."""
        values = dict(self.context.values)
        values.update(batch.origin.surroundings(batch))
        for path, name in columns.values(batch.data.schema.names).items():
            values[path] = batch.data.column(name)
        return values


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


def overlay(data: pa.RecordBatch, laid: dict[str, pa.Array]) -> pa.RecordBatch:
    """The batch with these columns laid over: known names in place, new ones behind (decision 25)."""
    if not laid:
        return data
    merged = dict(zip(data.schema.names, data.columns, strict=True))
    merged.update(laid)
    return pa.RecordBatch.from_arrays(list(merged.values()), names=list(merged))


def undeclared(data: pa.RecordBatch, name: str) -> pa.Array:
    """A column that the pipeline does not declare, as values of any kind; null where no file has it."""
    import pyarrow as pa

    position = data.schema.get_field_index(columns.WIDENED.of(name))
    return data.column(position) if position >= 0 else pa.nulls(data.num_rows, pa.string())


def indices_except(count: int, excluded: Sequence[int]) -> pa.Array:
    """0 … count-1 without some, as int64."""
    import numpy as np

    keep = np.ones(count, dtype=bool)
    keep[list(excluded)] = False
    return pa.array(np.flatnonzero(keep))


def gather(table: pa.Table) -> pa.RecordBatch:
    """A table's rows as one batch."""
    combined = table.combine_chunks()
    if combined.num_rows == 0:
        return pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in combined.schema], schema=combined.schema)
    return combined.to_batches(max_chunksize=None)[0]


def value_at(batch: Batch, name: str, row: int, static: types.Type) -> Any:
    """One value of a batch as Python has it."""
    return values.from_arrow(batch.data.column(name).slice(row, 1), static)[0]


def with_origin(batch: Batch, data: pa.RecordBatch, branches: Sequence[str]) -> pa.RecordBatch:
    """Some columns of a batch's records, and the columns that say where the records were read, and which way they took.

    Args:
        batch: the records.
        data: the columns.
        branches: those of the plan's routes (see `Context`).
    """
    import numpy as np

    origin = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
    known = dict(zip(ORIGIN_NAMES, origin, strict=True))
    if len(branches) > 1:
        known[ROUTE.name] = batch.branches
    if IS_GROUP.name in batch.data.schema.names:
        known[IS_GROUP.name] = batch.data.column(IS_GROUP.name)
    elif type(batch.origin) is GroupOrigin:
        known[IS_GROUP.name] = pa.array(np.ones(batch.count, dtype=bool))
    return overlay(data, known)

"""Dead letters inside a task: columns that go to an Arrow file in sorted runs, whatever their number."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute import scratch
from spark_jobs.execute.dlq.reasons import Reasons
from spark_jobs.nodes import sorted_runs
from spark_jobs.nodes.records import guarded
from spark_jobs.nodes.records.identity import record_numbers
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.cxl.failure_columns import Failures, Reason, Rows
    from spark_jobs.tuning import Tuning

    Places = tuple[pa.Array, pa.Array, pa.Array]
    Causes = tuple[pa.Array, pa.Array, pa.Array, pa.Array, pa.Array]

#: The columns of a dead letter without its row number. `number` orders the entries of one record by the place of their
#: operator in the plan. The `cause` columns name the driver record with which a combine refused a build record; they
#: are -1 for a record's own failures, which come first. If the driver is a row of an aggregate, which may have no first
#: record or share it with others, `cause_group` is its group. `at` is the place of the failing record at the node, or
#: of the driver: several may have one row (see `nodes/records/order.py`). `branch` is a number among the branches of
#: all routes, `reason` an index in the block's list of `ReasonKey`. `record` has the texts of the source's declared
#: columns, null if they must be read again. With correlation keys (see `GroupColumns`), `kind` decides in which passes
#: the entry counts, `group` is the number of a failed row of an aggregate, with the columns of all sources, `node` is
#: the place of its node in the plan, and `key` is the correlation key. `equal_to` is the number of the record that it
#: duplicates (see `nodes/records/identity.py`), -1 if it fails for another reason.
SCHEMA = pa.schema([
    ("source", pa.int32()), ("split", pa.int32()), ("row", pa.int64()), ("number", pa.int32()),
    ("cause_source", pa.int32()), ("cause_split", pa.int32()), ("cause_row", pa.int64()), ("cause_group", pa.int64()),
    ("at", pa.int64()), ("branch", pa.int16()), ("reason", pa.int32()), ("detail", pa.string()), ("value", pa.string()),
    ("record", pa.list_(pa.string())), ("kind", pa.int8()), ("group", pa.int64()), ("node", pa.int16()),
    ("key", pa.list_(pa.string())), ("equal_to", pa.int64()),
])  # fmt: skip
#: The sort key of entries.
ORDERED = ("source", "split", "row", "number", "cause_source", "cause_split", "cause_row", "at")
#: Stands for the source of aggregated rows, which have no single source.
AGGREGATED = -2
#: The suffix of the index of a file of entries.
INDEX = ".index"
#: The number of dropped records that are named one by one.
NAMED = 100
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class ReasonKey:
    """Properties that many entries share: where records failed, and their `Reason` (see `cxl/failure_columns.py`)."""

    stage: str
    trigger: str
    category: str
    field: str | None
    before: str | None
    after: str | None
    #: True if values, and words that have them, are shown in the dead-letter file alone; of records that are rejected
    #: with others: whether the others may be such.
    is_hidden: bool = False

    @classmethod
    def of(cls, reason: Reason, stage: str, trigger: str, guard: guarded.Guard) -> ReasonKey:
        """A reason at a stage."""
        is_hidden = guard.hides(reason.field)
        return cls(stage, trigger, str(reason.category), reason.field, reason.before, reason.after, is_hidden)


@dataclass(frozen=True)
class Site:
    """A place where records fail: the stage of each reason, the node's number, the broken rule, secret columns."""

    stages: Sequence[str]
    number: int
    trigger: str = ""
    guard: guarded.Guard = guarded.OPEN


@dataclass(frozen=True)
class GroupColumns:
    """The columns of entries that are about correlation groups.

    Args:
        kinds: in which passes they count, as `execute/correlation/facts.py` numbers kinds.
        groups: the number of the aggregate's row that each is; 0 for records.
        node: where they failed, by the node's position in the plan.
        keys: the correlation key, field by field.
        shown: the columns of those that are no records; None if there are none, or nobody wants them.
    """

    kinds: pa.Array
    groups: pa.Array
    node: int
    keys: Sequence[pa.Array]
    shown: pa.RecordBatch | None = None


@dataclass(frozen=True)
class DlqEntries:
    """Failing rows with the facts about their records.

    Args:
        failing: why.
        places: where the records were read: source, split, row.
        causes: what caused them; None if they themselves did.
        branches: the branch of each record's last route; None if they have met none.
        texts: the records as they were read, where they are at hand.
        correlation: what they say of correlation groups; None if there are none.
        equal_to: the numbers of the records that they equal and should not; None if they fail for other reasons.
    """

    failing: Failures
    places: Places
    causes: Causes | None = None
    branches: pa.Array | None = None
    texts: pa.RecordBatch | None = None
    correlation: GroupColumns | None = None
    equal_to: Rows | None = None


class DlqBuffer:
    """The dead letters of a task.

    Args:
        path: the file for entries that are kept.
        filed: the sources whose dead letters have a file, and are kept; None: all. Of the others the first few are
            kept in a file of their own, to be named in the log.
        named: how many these are.
        limit: bytes of entries that are held in memory.
        tuning: how many entries are made, written and read at once.
    """

    def __init__(
        self, path: str, filed: frozenset[int] | None, named: int, limit: int, tuning: Tuning = DEFAULT
    ) -> None:
        self._tuning = tuning
        self._filed = filed
        self._named = named
        self._whys: dict[ReasonKey, int] = {}
        self.kept = Runs(path, self._whys, limit, tuning)
        self.dropped = Runs(f"{path}.dropped", self._whys, limit, tuning)
        self.count = 0
        self.per_source: dict[int, int] = {}
        self._per_why: dict[int, int] = {}
        self._dropped_per_why: dict[int, int] = {}
        self.reasons = Reasons()

    def add(self, entries: DlqEntries, site: Site) -> None:
        """Add failing rows."""
        failing, places = entries.failing, entries.places
        numbers = np.array(
            [
                self._whys.setdefault(ReasonKey.of(reason, stage, site.trigger, site.guard), len(self._whys))
                for reason, stage in zip(failing.reasons, site.stages, strict=True)
            ],
            dtype=np.int64,
        )
        reason = numbers[failing.reason]
        self.count += len(failing)
        sources = _of_sources(places[0], None if entries.correlation is None else entries.correlation.groups)
        count(sources, self.per_source)
        count(reason, self._per_why)
        self._note(entries, reason)
        is_filed = np.full(len(failing), True) if self._filed is None else np.isin(sources, list(self._filed))
        if is_filed.all():
            rows, dropped = None, np.empty(0, dtype=np.int64)
        else:
            rows, dropped = np.flatnonzero(is_filed), np.flatnonzero(~is_filed)
            count(reason[dropped], self._dropped_per_why)
        size = self._tuning.dlq_slice_rows
        for start in range(0, len(failing) if rows is None else len(rows), size):
            part = slice(start, start + size)
            self.kept.add(_table(entries, reason, site.number, part if rows is None else rows[part]))
        if self._named and len(dropped):
            source, split, row = (column.to_numpy()[dropped] for column in places)
            first = np.sort(dropped[np.lexsort((row, split, source))[: self._named]])
            self.dropped.add(_table(entries, reason, site.number, first))
            self.dropped.cut(self._named)

    def _note(self, entries: DlqEntries, reason: Rows) -> None:
        source, split, row = entries.places
        failing = entries.failing
        details = pa.nulls(len(failing), pa.string()) if failing.details is None else failing.details
        columns = {"source": source, "split": split, "row": row, "detail": details, "value": failing.values}
        if entries.correlation is not None:
            columns["group"] = entries.correlation.groups
        self.reasons.note(columns, reason, list(self._whys))

    def take(self, table: pa.Table, whys: Sequence[ReasonKey]) -> None:
        """Add entries that were collected before, with the counts of their reasons in `whys`."""
        numbers = np.array([self._whys.setdefault(why, len(self._whys)) for why in whys], dtype=np.int32)
        reason = numbers[table.column("reason").to_numpy()]
        table = table.set_column(table.schema.get_field_index("reason"), SCHEMA.field("reason"), pa.array(reason))
        self.count += table.num_rows
        sources = sources_of(table)
        count(sources, self.per_source)
        count(reason, self._per_why)
        self.reasons.note(reason_columns(table), reason, list(self._whys))
        if self._filed is None:
            self.kept.add(table)
            return
        is_filed = np.isin(sources, list(self._filed))
        if is_filed.any():
            self.kept.add(table.filter(pa.array(is_filed)))
        if not is_filed.all():
            count(reason[~is_filed], self._dropped_per_why)
            if self._named:
                self.dropped.add(table.filter(pa.array(~is_filed)))
                self.dropped.cut(self._named)

    def write(self) -> None:
        """Write the buffered entries to the file."""
        self.kept.close()
        self.dropped.close()

    @property
    def per_category(self) -> dict[str, int]:
        """The number of entries in each category."""
        return counts(list(self._whys), self._per_why, "category")

    @property
    def per_stage(self) -> dict[str, int]:
        """The number of entries that name each stage."""
        return counts(list(self._whys), self._per_why, "stage")

    @property
    def per_rule(self) -> list[tuple[str, str, int]]:
        """The rules that were broken: stage, rule, and how many entries name it."""
        return rule_counts(list(self._whys), self._per_why)

    @property
    def dropped_reasons(self) -> list[tuple[str, str, str, int]]:
        """Stage, category, field and number of records without a file."""
        names = list(self._whys)
        found: dict[tuple[str, str, str], int] = {}
        for number, count in self._dropped_per_why.items():
            key = (names[number].stage, names[number].category, names[number].field or "")
            found[key] = found.get(key, 0) + count
        return [(*key, count) for key, count in found.items()]


def reason_columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns of entries by which their reasons are noted."""
    return {name: table.column(name) for name in ("source", "split", "row", "detail", "value", "group")}


def counts(whys: Sequence[ReasonKey], per_why: Mapping[int, int], what: str) -> dict[str, int]:
    """The number of entries for each category, stage or the like, from the number for each reason."""
    found: dict[str, int] = {}
    for number, count in per_why.items():
        name = getattr(whys[number], what)
        found[name] = found.get(name, 0) + count
    return found


def rule_counts(whys: Sequence[ReasonKey], per_why: Mapping[int, int]) -> list[tuple[str, str, int]]:
    """The number of entries for each broken rule at each stage: stage, rule, count."""
    found: dict[tuple[str, str], int] = {}
    for number, count in per_why.items():
        if whys[number].trigger:
            key = (whys[number].stage, whys[number].trigger)
            found[key] = found.get(key, 0) + count
    return [(*key, count) for key, count in found.items()]


class Runs:
    """Entries in a file: sorted runs, each in blocks. Entries that come in their order make a single run."""

    def __init__(self, path: str, whys: dict[ReasonKey, int], limit: int, tuning: Tuning) -> None:
        self.path = path
        self._tuning = tuning
        #: The lowest and the highest split that an entry names.
        self.splits: tuple[int, int] | None = None
        self._whys = whys
        self._limit = limit
        self._tables: list[pa.Table] = []
        self._held = 0
        self._file: Any = None
        self._blocks: list[dict[str, Any]] = []
        self._run = 0
        self._last: sorted_runs.Key | None = None

    def add(self, table: pa.Table) -> None:
        """Add entries to the file of sorted runs."""
        self._tables.append(table)
        self._held += table.nbytes
        if self._held > self._limit or len(self._tables) >= self._tuning.dlq_tables:
            self._flush()

    def cut(self, count: int) -> None:
        """Keep the first entries alone, as soon as there are some more."""
        if sum(table.num_rows for table in self._tables) > 8 * count:
            self._tables = [in_order(pa.concat_tables(self._tables)).slice(0, count)]

    def close(self) -> None:
        """Write the rest, and the index of the file."""
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None
            with scratch.create(self.path + INDEX) as file:
                file.write(json.dumps(self._blocks).encode())

    def _flush(self) -> None:
        if not self._tables:
            return
        table = in_order(pa.concat_tables(self._tables))
        self._tables, self._held = [], 0
        splits = table.column("split").to_numpy()
        lowest, highest = int(splits.min()), int(splits.max())
        known = self.splits or (lowest, highest)
        self.splits = (min(known[0], lowest), max(known[1], highest))
        if self._last is not None and sorted_runs.key_at(table, ORDERED, 0) < self._last:
            self._run += 1
        self._last = sorted_runs.key_at(table, ORDERED, table.num_rows - 1)
        if self._file is None:
            self._file = scratch.ArrowFile(self.path, SCHEMA, _LZ4)
        size = self._tuning.dlq_block_rows
        for start in range(0, table.num_rows, size):
            self._write(table.slice(start, size).combine_chunks())

    def _write(self, block: pa.Table) -> None:
        names = list(self._whys)
        reason = _single(block.column("reason")).dictionary_encode()
        splits = block.column("split").to_numpy()
        self._blocks.append({
            "run": self._run,
            "first": sorted_runs.key_at(block, ORDERED, 0),
            "splits": (int(splits.min()), int(splits.max())),
            "whys": [asdict(names[number]) for number in reason.dictionary.to_pylist()],
        })  # fmt: skip
        self._file.write_table(block.set_column(block.schema.get_field_index("reason"), "reason", reason.indices))


def in_order(table: pa.Table) -> pa.Table:
    """Entries in their order; mostly they are."""
    if sorted_runs.is_sorted(table, ORDERED):
        return table
    # Mostly a record has one entry, and its place alone decides: a split is of one source.
    numbers = record_numbers(table.column("split"), table.column("row"))
    rows = np.argsort(numbers, kind="stable")
    sources = table.column("source").to_numpy()[rows]
    if (numbers[rows][1:] == numbers[rows][:-1]).any() or (sources[1:] < sources[:-1]).any():
        rows = np.lexsort([table.column(name).to_numpy() for name in reversed(ORDERED)])
    return table.take(pa.array(rows))


def sources_of(table: pa.Table) -> np.ndarray:
    """The sources of entries, as they are counted and filed."""
    return _of_sources(table.column("source"), table.column("group"))


def _of_sources(source: pa.Array | pa.ChunkedArray, group: pa.Array | pa.ChunkedArray | None) -> np.ndarray:
    known: np.ndarray = source.to_numpy()
    return known if group is None else np.where(group.to_numpy() == 0, known, AGGREGATED)


def count(keys: Rows, counts: dict[int, int]) -> None:
    """Add the counts of numbers to earlier counts."""
    for entry in pc.value_counts(pa.array(keys)).to_pylist():
        counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]


def _table(entries: DlqEntries, reason: Rows, number: int, rows: slice | Rows) -> pa.Table:
    failing = entries.failing

    def part(column: Any) -> Any:
        if isinstance(rows, slice):
            return column.slice(rows.start, rows.stop - rows.start)
        return column.take(pa.array(rows, pa.int64()))

    reason = reason[rows]
    count = len(reason)
    zero = pa.array(np.zeros(count, dtype=np.int64))
    columns = [
        *(part(column) for column in entries.places),
        pa.array(np.full(count, number, dtype=np.int32)),
        *(own(zero) if entries.causes is None else map(part, entries.causes)),
        zero if entries.branches is None else pc.fill_null(part(entries.branches), 0),
        pa.array(reason),
        pa.nulls(count, pa.string()) if failing.details is None else part(failing.details),
        part(failing.values),
        _shown(entries, part, count),
        *_group_columns(entries.correlation, part, zero),
        pa.array(np.full(count, -1)) if entries.equal_to is None else part(pa.array(entries.equal_to, pa.int64())),
    ]
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _shown(entries: DlqEntries, part: Callable[[Any], Any], count: int) -> pa.Array:
    nothing = pa.nulls(count, SCHEMA.field("record").type)
    record = nothing if entries.texts is None else _records(part(entries.texts))
    if entries.correlation is None or entries.correlation.shown is None:
        return record
    is_group: pa.Array = pc.not_equal(part(entries.correlation.groups), 0)
    return pc.if_else(is_group, _records(part(entries.correlation.shown)), record)


def _group_columns(said: GroupColumns | None, part: Callable[[Any], Any], zero: pa.Array) -> list[pa.Array]:
    if said is None:
        return [zero, zero, zero, pa.nulls(len(zero), SCHEMA.field("key").type)]
    keys = pa.RecordBatch.from_arrays(list(said.keys), names=[str(i) for i in range(len(said.keys))])
    return [part(said.kinds), part(said.groups), pa.array(np.full(len(zero), said.node)), _records(part(keys))]


def own(at: pa.Array) -> Causes:
    """The causes of records that fail by themselves, by their places."""
    none = pa.array(np.full(len(at), -1))
    return none.cast(pa.int32()), none.cast(pa.int32()), none, pa.array(np.zeros(len(at), dtype=np.int64)), at


def _records(texts: pa.RecordBatch) -> pa.ListArray:
    """A list of texts per row from a column of texts each."""
    width, count = texts.num_columns, texts.num_rows
    if not width:
        return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, dtype=np.int32)), pa.array([], pa.string()))
    flat = pa.concat_arrays([_single(column) for column in texts.columns])
    order = np.arange(count * width).reshape(width, count).T.reshape(-1)
    offsets = np.arange(0, count * width + 1, width, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat.take(pa.array(order)))


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

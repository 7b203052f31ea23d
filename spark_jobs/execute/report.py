"""The reports of tasks to the driver: counts and file names, never records."""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_jobs.disk import shared_paths
from spark_jobs.execute.dlq.reasons import Reason
from spark_jobs.execute.tasks.written_rows import Bits
from spark_jobs.nodes.records.ledger import Counters
from spark_jobs.nodes.rules.measurement import Measurement
from spark_jobs.nodes.terms.needs import Rows, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from spark_jobs.execute.dlq.buffer import DlqBuffer
    from spark_jobs.nodes.terms.needs import Need

#: The compression level of reports: there is little to gain.
_LEVEL = 1


@dataclass(slots=True)
class Part:
    """A part file. `op` is the name of the output or the need; ordered by merge path, then number.

    `source_file` is the input file of its records, if each input file has an output of its own. `note` has the facts
    that the frame of its format needs (`formats.frame.Frame`).
    """

    op: str | Need
    merge_path: tuple[int, ...]
    number: int
    path: str
    bytes: int
    records: int = 0
    source_file: str | None = None
    note: str = ""


@dataclass(slots=True)
class Measure:
    """The measure of a split: its number over all sources, its records, and whether its borders are right.

    `watermark` is the event time that its records have reached: the latest one less the delay, in microseconds since
    the first moment, counted from 1; 0 if no record has one. `has_news` is True if undeclared names were found that
    were not known.
    """

    number: int
    records: int
    bytes: int
    is_consistent: bool
    watermark: int = 0
    has_news: bool = False


@dataclass
class FirstFailure:
    """The failure that ended a task, and the place of its record.

    `expression` is the failing statement, `place` its place, and `record` the node's input, column by column (None: it
    must be read again), as far as they are known.
    """

    source: int
    split: int
    row: int
    stage: str
    detail: str
    field: str | None
    code: str | None = None
    expression: str = ""
    place: str = ""
    record: list[tuple[str, str | None]] | None = None
    #: The job's stage whose task it ended.
    job_stage: int = 0
    #: The operator's number, and the record's place there: of one record's children at a node the first is reported.
    number: int = 0
    at: int = 0

    def precedes(self, other: FirstFailure) -> bool:
        """True if it is reported instead of one that was met before."""
        mine, its = (self.source, self.split, self.row), (other.source, other.split, other.row)
        if mine != its:
            return mine < its
        return self.number == other.number and self.at < other.at


@dataclass
class DlqReport:
    """Dead letters of a task.

    `path` is the file of entries for a dead-letter file, `dropped_path` the file of the first entries without one
    (None: there are none), each with the splits that its entries name. `dropped` has stage, category, field and number
    of the entries without a file. If passes were repeated, `counts` selects the entries that count (None: all do).
    """

    count: int
    per_source: dict[int, int]
    per_category: dict[str, int]
    per_stage: dict[str, int]
    path: str | None = None
    splits: tuple[int, int] = (-1, -1)
    counts: Callable[[pa.Table], np.ndarray] | None = None
    dropped_path: str | None = None
    dropped_splits: tuple[int, int] = (-1, -1)
    dropped: list[tuple[str, str, str, int]] = field(default_factory=list)
    #: Why the records died, with examples.
    reasons: list[Reason] = field(default_factory=list)
    #: The rules that were broken: stage, rule, number.
    per_rule: list[tuple[str, str, int]] = field(default_factory=list)


def dlq_report(buffer: DlqBuffer) -> DlqReport:
    """The report about the dead letters of a buffer, which has been written."""
    found = DlqReport(buffer.count, buffer.per_source, buffer.per_category, buffer.per_stage)
    if buffer.kept.splits:
        found.path, found.splits = buffer.kept.path, buffer.kept.splits
    if buffer.dropped.splits:
        found.dropped_path, found.dropped_splits = buffer.dropped.path, buffer.dropped.splits
    found.dropped = buffer.dropped_reasons
    found.reasons = [*buffer.reasons.known.values()]
    found.per_rule = buffer.per_rule
    return found


@dataclass
class Broken:
    """An error of a task that is no record's fault: a file that cannot be read or written (exit 4).

    `node` is the source or output of the file, if known. `unseen` is a path that the task's machine cannot find.
    """

    code: str
    message: str
    node: str = ""
    unseen: shared_paths.NotShared | None = None


def encode_counters(counters: Mapping[str, Counters]) -> bytes:
    """The counters of nodes, as JSON."""
    return json.dumps({name: asdict(each) for name, each in counters.items()}, separators=(",", ":")).encode()


def decode_counters(data: bytes) -> dict[str, Counters]:
    """Decode the counters of `encode_counters`."""
    return {name: Counters(**counters) for name, counters in json.loads(data).items()}


@dataclass
class LogLine:
    """A line for the run's log. A line about a record has its source, split and row if it shows them.

    It begins with them, unless it shows the row in its midst: `row_texts` has the texts that follow each `row N:`.

    With correlation keys, `record` is the number of the record that the line is about, or `group` the number of the
    aggregate's row. Passes that count these as never read have no such line.
    """

    level: str
    text: str
    source: int = -1
    split: int = -1
    row: int = -1
    record: int = -1
    group: int = 0
    row_texts: tuple[str, ...] = ()


@dataclass(slots=True)
class Notice:
    """A warning for the user while the run continues, about a file or about some values of its records.

    Args:
        text: the warning; with values, the text before their number.
        count: the number of values; 0 if it is about no values.
        source: the source of the record with the first value.
        split: the split of that record.
        row: the row of that record in the split.
        shown: the first value.
    """

    text: str
    count: int = 0
    source: int = -1
    split: int = -1
    row: int = -1
    shown: str = ""

    def merged_with(self, other: Notice) -> Notice:
        """Both as one, where they are about the same."""
        places = [(each.source, each.split, each.row) for each in (self, other)]
        first = self if places[0] <= places[1] else other
        return replace(first, count=self.count + other.count)


@dataclass(slots=True)
class BrokenRule:
    """Records that break a rule and continue.

    Args:
        node: the node at which they break it.
        rule: the rule's name.
        count: the number of these records.
        source: the source of the first record.
        split: the split of the first record.
        row: the row of the first record in the split.
        shown: its offending value; None if the rule is about no value, or the value must not be shown.
        equal_to: the number of the record that it duplicates; -1 if there is none.
    """

    node: str
    rule: str
    count: int
    source: int = -1
    split: int = -1
    row: int = -1
    shown: str | None = None
    equal_to: int = -1

    @property
    def key(self) -> tuple[str, str]:
        """The node and the name of the rule."""
        return self.node, self.rule

    def merged_with(self, other: BrokenRule) -> BrokenRule:
        """Both as one, where they are about the same rule."""
        places = [(each.source, each.split, each.row) for each in (self, other)]
        first = self if places[0] <= places[1] else other
        return replace(first, count=self.count + other.count)


@dataclass(slots=True)
class MeasuredRule:
    """A task's measurement for a rule about values.

    Args:
        node: the rule's node.
        rule: its name.
        found: what was measured.
    """

    node: str
    rule: str
    found: Measurement


@dataclass
class TaskReport:
    """The report of a task: counters, parts, measures, dead letters, facts, log lines."""

    stage: int
    number: int
    seconds: float = 0.0
    counters: dict[str, Counters] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    splits: list[Measure] = field(default_factory=list)
    dlq: DlqReport | None = None
    failure: FirstFailure | None = None
    broken: Broken | None = None
    logs: list[LogLine] = field(default_factory=list)
    logs_left_out: int = 0
    notices: list[Notice] = field(default_factory=list)
    broken_rules: list[BrokenRule] = field(default_factory=list)
    measured: list[MeasuredRule] = field(default_factory=list)
    #: The records that came to outputs.
    written_rows: Bits | None = None
    #: Files with facts about correlation groups.
    fact_files: list[str] = field(default_factory=list)
    #: The file that says of which groups it read records (`execute/correlation/reuse.py`).
    group_bitmap: str | None = None
    #: Nodes whose shortcut does not apply to the records of this task.
    unfolded: list[str] = field(default_factory=list)
    payload_bytes: int = 0
    #: Bytes on local disk by node.
    spilled: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0

    @classmethod
    def of(cls, fields: dict[str, Any]) -> TaskReport:
        """A report from what JSON has of it."""
        fields["counters"] = {name: Counters(**counters) for name, counters in fields["counters"].items()}
        fields["parts"] = [_part(part) for part in fields["parts"]]
        fields["splits"] = [Measure(**split) for split in fields["splits"]]
        if fields["dlq"]:
            dlq = fields["dlq"]
            dlq |= {name: tuple(dlq[name]) for name in ("splits", "dropped_splits")}
            dlq["dropped"] = [tuple(entry) for entry in dlq["dropped"]]
            dlq["reasons"] = [Reason(**entry) for entry in dlq["reasons"]]
            dlq["per_rule"] = [tuple(entry) for entry in dlq["per_rule"]]
            dlq["per_source"] = {int(number): count for number, count in dlq["per_source"].items()}
            fields["dlq"] = DlqReport(**dlq)
        fields["logs"] = [LogLine(**line) for line in fields["logs"]]
        fields["notices"] = [Notice(**notice) for notice in fields["notices"]]
        fields["broken_rules"] = [BrokenRule(**each) for each in fields["broken_rules"]]
        fields["measured"] = [
            MeasuredRule(each["node"], each["rule"], Measurement(**each["found"])) for each in fields["measured"]
        ]
        if fields["failure"]:
            failure = fields["failure"]
            failure["record"] = failure["record"] and [tuple(pair) for pair in failure["record"]]
            fields["failure"] = FirstFailure(**failure)
        if fields["written_rows"]:
            fields["written_rows"] = Bits(
                **{**fields["written_rows"], "splits": tuple(fields["written_rows"]["splits"])}
            )
        if fields["broken"]:
            unseen = fields["broken"]["unseen"]
            fields["broken"] = Broken(**{**fields["broken"], "unseen": unseen and shared_paths.NotShared(**unseen)})
        return cls(**fields)


def _part(fields: dict[str, Any]) -> Part:
    op = fields["op"]
    if isinstance(op, str):
        op = sys.intern(op)  # once for all parts of an output
    else:
        op = Rows(**op) if "input" in op else Values(**op)
    return Part(**{**fields, "merge_path": tuple(fields["merge_path"]), "op": op})


def _members(of: Any) -> dict[str, Any]:
    """The fields of a dataclass, for JSON: `asdict` would copy everything that they contain."""
    return {name: getattr(of, name) for name in of.__dataclass_fields__}


def encode(reports: Sequence[TaskReport]) -> bytes:
    """Some reports as JSON, compressed: they are much alike."""
    return zlib.compress(json.dumps(list(reports), separators=(",", ":"), default=_members).encode(), _LEVEL)


def decode(data: bytes) -> list[TaskReport]:
    """The reports that `encode` wrote."""
    return [TaskReport.of(fields) for fields in json.loads(zlib.decompress(data))]


class Reports:
    """The reports of a job as its tasks wrote them: each is decoded where it is looked at, for there may be very many.

    Args:
        stage: of the first report of each piece.
        number: its number.
        payload: the pieces.
    """

    def __init__(self, stage: pa.Array, number: pa.Array, payload: pa.Array) -> None:
        self._order = np.lexsort((number.to_numpy(), stage.to_numpy()))
        self._payload = payload

    def __iter__(self) -> Iterator[TaskReport]:
        """By stage and number."""
        for place in self._order.tolist():
            yield from decode(self._payload[place].as_py())

"""The bound transform: a checked program, then validations."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.cxl import typed
from spark_jobs.nodes import member_reads, node
from spark_jobs.nodes.rules.step import Check, Severity
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.needs import Rows
from spark_jobs.nodes.terms.properties import ColumnProperties, MemberProperties, RecordProperties
from spark_jobs.nodes.terms.required_columns import RequiredColumns

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.nodes.rules.step import Rule
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.nodes.terms.requirements import Requirements
    from spark_jobs.nodes.transform.phases import Window


#: The system values that log messages can show, by their placeholders.
SHOWN = {
    "_source_file": "source.file",
    "_source_row": "source.row",
    "_source_count": "source.count",
    "_pipeline_total_count": "pipeline.total_count",
    "_pipeline_ok_count": "pipeline.ok_count",
    "_pipeline_dlq_count": "pipeline.dlq_count",
    "pipeline.name": "pipeline.name",
    "pipeline.execution_id": "pipeline.execution_id",
}
PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.]*)\}")
BEFORE, AFTER, PER_RECORD, ON_ERROR = "before_transform", "after_transform", "per_record", "on_error"


@dataclass(frozen=True)
class Validation:
    """A check on each output record; `name` is the rule's name for `_cxl_dlq_trigger`."""

    name: str
    check: typed.Program
    is_error: bool
    message: str


@dataclass(frozen=True)
class LogDirective:
    """A `log:` entry.

    `came` and `made` are the types of the columns that its lines show, on input records and on output records.
    """

    level: str
    when: str
    message: str
    condition: typed.Program | None = None
    fields: tuple[str, ...] = ()
    every: int = 1
    came: tuple[tuple[str, types.Type], ...] = ()
    made: tuple[tuple[str, types.Type], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names in its lines: columns, and other placeholders."""
        return frozenset(PLACEHOLDER.findall(self.message)) | frozenset(self.fields)


@dataclass(frozen=True)
class TransformStep(node.Step):
    """A transform, bound. `window` is the bound analytic window, None for ordinary transforms."""

    kind: ClassVar[str] = "transform"

    program: typed.Program
    validations: tuple[Validation, ...] = ()
    log: tuple[LogDirective, ...] = ()
    max_expansion: int = 10_000
    window: Window | None = None

    def reads(self, wanted: RequiredColumns) -> RequiredColumns:
        """The columns that the step reads, without the columns of its window.

        Args:
            wanted: the columns of its records that downstream nodes read.
        """
        emits = frozenset(name for name, _ in self.program.emits)
        overwritten = frozenset() if any(isinstance(s, typed.Each) for s in self.program.statements) else emits
        for validation in self.validations:
            wanted |= member_reads.read(validation.check)
        failing = RequiredColumns()
        for directive in self.log:
            if directive.when == ON_ERROR:
                failing |= RequiredColumns(directive.names)
                continue
            wanted |= RequiredColumns(directive.names)
            if directive.condition:
                wanted |= member_reads.read(directive.condition)
        return wanted.without(overwritten) | member_reads.read(self.program, wanted) | failing

    def pruned(self, required: Requirements) -> TransformStep:
        """The step with windowed rows that lack columns which nothing downstream reads and no dead letter shows."""
        if self.window is None or self.window.source is not None:
            return self
        from spark_jobs.nodes.transform import phases

        remaining = phases.windowed(self, self.window)[1].reads(required.columns)
        return replace(self, window=replace(self.window, spare=self.window.reads - remaining.names - required.shown))

    @property
    def log_of_failures(self) -> tuple[LogDirective, ...]:
        """The directives about failing records, for phases before the last one."""
        return tuple(entry for entry in self.log if entry.when == ON_ERROR)

    @property
    def record_properties(self) -> RecordProperties:
        """Windows are computed over partitions of the input or of a source; `emit each` multiplies records."""
        window = self.window
        return RecordProperties(
            partition_by=window.group_by if window is not None and window.source is None else None,
            looked_up=() if window is None or window.source is None else (window.source,),
            may_multiply=any(isinstance(each, typed.Each) for each in self.program.statements),
        )

    @property
    def column_properties(self) -> ColumnProperties:
        """Emits are added. Filters at the beginning of the program are pushed down, unless there is a window."""
        from spark_jobs.nodes.transform import pushdown

        predicates = () if self.window is not None else pushdown.predicates(self.program)
        return ColumnProperties(added=tuple(name for name, _ in self.program.emits), pushed_predicates=predicates)

    @property
    def member_properties(self) -> MemberProperties:
        """Log lines show members of records."""
        about_records = [entry.names for entry in self.log if entry.when in (PER_RECORD, ON_ERROR)]
        return MemberProperties(
            reads=frozenset(SHOWN[name] for names in about_records for name in names if name in SHOWN)
        )

    @property
    def checked_rules(self) -> tuple[Rule, ...]:
        """Its `validations`."""
        return tuple(
            Check(
                each.name,
                Severity.ERROR if each.is_error else Severity.WARN,
                each.message,
                condition=each.check.text.strip(),
            )
            for each in self.validations
        )

    @property
    def looked_up(self) -> Rows | None:
        """The rows of another source that the window ranges over."""
        if self.window is None or self.window.source is None:
            return None
        return Rows(self.name, self.window.source, "rows that the window ranges over, written down for every task")

    @property
    def needs(self) -> tuple[Need, ...]:
        """The values that programs read, and the rows that are looked up."""
        return super().needs if self.looked_up is None else (*super().needs, self.looked_up)

    @property
    def module(self) -> str:
        """`across_rows` if the step looks up rows of another source, which that module materializes."""
        return "run" if self.looked_up is None else "across_rows"

    def partitions(self, sizes: shape.Sizes) -> int:
        """The number of partitions for windows or `distinct`, by the size of their records.

        Windows buffer whole records, and so does the restoring of order, so a task has memory for half as many records.
        """
        if not any(isinstance(phase, shape.ShufflePhase) for phase in self.phases(1)):
            return 1
        return sizes.partitions(self.name, growth=2 if self.record_properties.partition_by else 1)

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """The phases before, at and after each `distinct`."""
        from spark_jobs.nodes.transform import phases

        return phases.of(self, partitions)

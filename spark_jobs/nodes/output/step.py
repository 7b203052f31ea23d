"""The bound output: columns of the record under the names of the file, a format, a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats import options, registry
from spark_jobs.nodes import node
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.properties import ColumnProperties, MemberProperties, RecordProperties

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.cxl import types
    from spark_jobs.formats.frame import Frame
    from spark_jobs.nodes.output.shape import Shape
    from spark_jobs.nodes.rules.step import Rule
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.nodes.terms.sort import Field, SortField
    from spark_jobs.scan.compression import Compression


class IfExists(StrEnum):
    """The policy for output files that already exist. `--force` overrides ERROR."""

    ERROR = "error"
    OVERWRITE = "overwrite"
    UNIQUE_SUFFIX = "unique_suffix"


@dataclass(frozen=True)
class OutputColumn:
    """A column of the file: the record's column and the name it is written under.

    If a format schema shapes it, `type` is the type in the file, and `read` the type of the record's column.
    """

    source: str
    name: str
    type: types.Type
    shape: Shape | None = None
    read: types.Type | None = None


class Oversize(StrEnum):
    """The policy for a group that is larger than a split's limit."""

    WARN = "warn"
    ERROR = "error"
    ALLOW = "allow"


#: The suffix of an output's `write_meta` file.
SIDECAR = ".meta.json"


@dataclass(frozen=True)
class ChunkRule:
    """The rule that splits an output into numbered files.

    `naming` has `{stem}`, `{ext}` and `{seq}` or `{seq:0N}`.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    group_key: Field | None = None
    naming: str = "{stem}_{seq:04}.{ext}"
    repeat_header: bool = True
    oversize_group: Oversize = Oversize.WARN


@dataclass(frozen=True)
class OutputStep(node.Step):
    """An output, bound.

    Args:
        path: the path template, relative to the base directory. Tokens that are known at plan time are filled in.
        format: `csv`, `json`, …; `options` are the format's write options.
        columns: the columns to write, after `include_unmapped`, `exclude` and `mapping`; undeclared columns follow.
        writes_undeclared: undeclared columns are written. `exclude` and `mapping` (output name to source name) apply to
            them too.
    """

    kind: ClassVar[str] = "output"

    path: str
    format: str
    options: Any
    columns: tuple[OutputColumn, ...]
    writes_undeclared: bool = True
    exclude: frozenset[str] = frozenset()
    mapping: tuple[tuple[str, str], ...] = ()
    if_exists: IfExists = IfExists.ERROR
    unique_suffix_width: int = 0
    sort_order: tuple[SortField, ...] = ()
    split: ChunkRule | None = None
    #: `path` is a folder that receives the part files of tasks as they are.
    parts: bool = False
    #: The source if each of its files has an output file of its own.
    by_file: str | None = None
    write_meta: bool = False
    label: str | None = None
    #: CSV: write the header row.
    include_header: bool = True
    #: Write nulls in formats that would leave them out: `null` in JSON, an empty element in XML.
    preserve_nulls: bool = False
    #: The format schema of fixed-width files, as plain nested tuples; None in other formats.
    layout: Any = None
    #: The fields of the format schema, which select the columns; None without a format schema.
    shapes: tuple[Shape, ...] | None = None
    #: The names in `mapping` and `exclude` that no schema declares, but files may contain.
    undeclared: tuple[str, ...] = ()
    #: The paths and types of the header values. They come from the document of the first record.
    header: tuple[tuple[str, types.Type], ...] = ()
    #: Overrides the pipeline's `correlation_fanout_policy` for this output.
    correlation_fanout_policy: str | None = None
    #: The rules on all its records.
    rules: tuple[Rule, ...] = ()

    @property
    def compression(self) -> Compression:
        """The compression of the files."""
        found: Compression = self.options.packing(self.path)
        return found

    @property
    def has_path(self) -> bool:
        """True if `path` decides where its records go; False for a table that a database or a catalog locates."""
        found = registry.named(self.format)
        return found.has_files or found.is_in_folder

    @property
    def place(self) -> str:
        """The path or table of its records, for messages."""
        return self.path if self.has_path else str(self.options.place)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields by which the output is sorted and split."""
        group = (self.split.group_key,) if self.split and self.split.group_key else ()
        return (*self.sort_order, *group)

    @property
    def is_table(self) -> bool:
        """True if its records go into files of a table, which become visible when they are committed."""
        return registry.named(self.format).is_table

    @property
    def is_in_database(self) -> bool:
        """True if its records go into a table of a database."""
        return registry.named(self.format).has_staging

    @property
    def is_indexed(self) -> bool:
        """True if records move after they have been written, so that parts need an index."""
        return bool(self.sort_order) or self.split is not None

    @property
    def begins_parts(self) -> bool:
        """True if each part begins with the text before its records, so that it can become a file without a copy."""
        format = registry.named(self.format)
        return self.parts and not (self.is_indexed or format.is_typed or format.is_framed)

    @property
    def module(self) -> str:
        """The module of the operators: parts with an index have their own, and so have parts with a frame."""
        if self.is_indexed:
            return "indexed"
        return "framed" if registry.named(self.format).is_framed else "run"

    @property
    def frame(self) -> Frame | None:
        """The frame around the records of its files, if its text depends on them. Loads Arrow."""
        return registry.named(self.format).frame(self.options)

    @property
    def column_properties(self) -> ColumnProperties:
        """Undeclared columns that `mapping` and `exclude` name, that are written, or that sort or split the output."""
        reads = self.writes_undeclared or any(each.type is None for each in self.fields)
        return ColumnProperties(names_undeclared=bool(self.undeclared), reads_undeclared=reads)

    @property
    def member_properties(self) -> MemberProperties:
        """Headers may read envelopes of sources."""
        return MemberProperties(reads=frozenset(path for path, _ in self.header))

    @property
    def checked_rules(self) -> tuple[Rule, ...]:
        """The rules of its `validations`."""
        return tuple(rule for rule in self.rules if not isinstance(rule, rules.UniqueIndex))

    @property
    def record_properties(self) -> RecordProperties:
        """Rules may refer to records of other nodes."""
        return RecordProperties(looked_up=tuple(rows.input for rows in rules.referenced(self.name, self.rules)))

    @property
    def needs(self) -> tuple[Need, ...]:
        """The records to which its rules refer."""
        return (*super().needs, *rules.referenced(self.name, self.rules))

    def partitions(self, sizes: shape.Sizes) -> int:
        """The number of partitions for rules that compare records, by the size of the records."""
        return rules.partitions(self.name, self.rules, sizes)

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Records are written where they are. Sorted outputs write runs, which tasks merge later."""
        before = rules.phases(self.kind, self.name, self.checked_rules, partitions)
        indexes = [rule for rule in self.rules if isinstance(rule, rules.UniqueIndex)]
        if indexes:
            # A record that the table rejects on its own must not count as the first of the records with its values.
            options = replace(self.options, is_checked_upstream=False)
            check = shape.LocalPhase(CheckStep(self.name, self.kind, replace(self, options=options, rules=())))
            before = (*before, check, *rules.phases(self.kind, self.name, indexes, partitions))
        values = rules.distinct_values(self.kind, self.name, self.rules)
        if not self.sort_order:
            return (*before, shape.LocalPhase(self, side_output=values))
        why = "records are written in the order of `sort_order`"
        arrival = shape.Arrival(shape.Passage.SORTED, why, "sort")
        return (*before, shape.LocalPhase(self, arrival, side_output=values))

    def unwritable(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The columns whose names the files should contain but cannot, each with the reason."""
        if not self.options.writes_names(include_header=self.include_header):
            return
        encoding = self.options.encoding
        for name in names:
            if (problem := self.options.name_problem(name)) is not None:
                yield name, f"column '{name}': {problem}"
                continue
            if encoding and (character := options.missing_character(name, encoding)) is not None:
                yield name, f"column '{name}': {options.unwritable(character, encoding)}"


@dataclass(frozen=True)
class CheckStep(rules.RuleStep):
    """The part of the output `name` that rejects single records before records are compared with one another.

    Args:
        output: the output.
    """

    kind: ClassVar[str] = "output"
    module: ClassVar[str] = "check_run"

    output: OutputStep

"""The bound source: files of a format, or pages of a network source, with declared columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.cxl import types
from spark_jobs.formats import registry
from spark_jobs.formats.columns import OnUnmapped, ScanPlan, refuse_taken
from spark_jobs.formats.format import DOCUMENT, MOST_RECORD_BYTES, RAW
from spark_jobs.formats.names import search_here
from spark_jobs.nodes import node
from spark_jobs.nodes.records.columns import META
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.properties import RecordProperties
from spark_jobs.scan import unpacking
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.format import ArrayPath, Format, Section, SourceColumn
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reader import Reader
    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.nodes.rules.step import Rule
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.nodes.terms.requirements import Requirements
    from spark_jobs.scan.bookmarks import Incremental
    from spark_jobs.scan.files import InputFile
    from spark_jobs.scan.network.endpoint import Endpoint


#: The metadata that `include_provenance: true` adds to every record: the place where it was read.
PROVENANCE = ("source_name", "source_file", "source_row")


@dataclass(frozen=True)
class FileMatch:
    """Selects the files of a source: exactly one of `path`, `glob`, `regex` and `paths`, plus filters and order.

    Patterns are as users write them: relative ones start at the pipeline's base directory. Sizes are in bytes, times
    are POSIX
    seconds.
    """

    path: str | None = None
    glob: str | None = None
    regex: str | None = None
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    modified_after: float | None = None
    modified_before: float | None = None
    min_size: int | None = None
    max_size: int | None = None
    sort_by: str = "name"
    sort_order: str = "asc"
    take_first: int | None = None
    take_last: int | None = None
    recursive: bool = True
    on_no_match: str = "error"

    @property
    def named(self) -> tuple[str, ...]:
        """The paths, and the pattern of paths, as users write them."""
        return tuple(path for path in (self.path, self.glob, *self.paths) if path is not None)


@dataclass(frozen=True)
class SourceStep(node.Step):
    """A source, bound.

    Args:
        label: `config.name` if it differs from the node's name (messages show both).
        format: `csv`, `json`, …; `options` are the format's read options.
        columns: the declared columns in order.
        live: names of the columns that are read or written downstream; other columns are checked but not carried.
        failure_stage: the stage at which values that do not convert fail: the first node downstream.
        failure_node: the node of that stage.
    """

    kind: ClassVar[str] = "source"

    format: str
    options: Any
    match: FileMatch
    columns: tuple[SourceColumn, ...]
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN
    live: frozenset[str] = frozenset()
    label: str | None = None
    failure_stage: str = ""
    failure_node: str = ""
    date_formats: tuple[str, ...] = ()
    correlation_key: tuple[str, ...] = ()
    watermark_column: str | None = None
    #: The metadata of `include_provenance` that is read or written downstream (see `PROVENANCE`).
    provenance: frozenset[str] = frozenset()
    #: The `$source.*` members that downstream programs read, such as `row`, `file`, `count`.
    reads_source: frozenset[str] = field(default_factory=frozenset)
    #: The time, in seconds, by which events may be late before the watermark passes them, and the time after which a
    #: silent file no longer holds it back.
    watermark_delay_s: float = 0.0
    idle_timeout_s: float | None = None
    #: Arrays to explode or join.
    array_paths: tuple[ArrayPath, ...] = ()
    #: The declared envelope sections.
    sections: tuple[Section, ...] = ()
    #: The envelope values that programs read, by path, with their types.
    documents: tuple[tuple[str, types.Type], ...] = ()
    #: The format schema of fixed-width files, as plain nested tuples of (key, value); None in other formats.
    layout: Any = None
    #: The types of its undeclared fields that are not text, if they are carried.
    typed_fields: tuple[SourceColumn, ...] = ()
    #: The location of a network source's pages; None for files, and on executors.
    endpoint: Endpoint | None = None
    #: How the source grows, if each run reads only new data; None if it reads everything.
    incremental: Incremental | None = None
    #: The predicates that records must pass first. Parts of files in which no record passes are not read.
    passes: tuple[Test, ...] = ()
    #: Programs of the pipeline read undeclared columns, which are then dynamic values.
    reads_undeclared: bool = False
    #: The rules on all its records.
    rules: tuple[Rule, ...] = ()
    #: The longest record or header in bytes while files are inspected (`Reader.record_bytes`); tasks use their share.
    record_bytes: int = MOST_RECORD_BYTES

    def __getstate__(self) -> dict[str, Any]:
        """The state without the endpoint, which has credentials and stays on the driver. Tasks only read files."""
        return {**self.__dict__, "endpoint": None}

    def pruned(self, required: Requirements) -> SourceStep:
        """The source without unread columns. Values that do not convert fail at the first step downstream."""
        ruled = frozenset[str]().union(*(rule.reads for rule in self.rules))
        live = required.columns.names & set(self.column_names) | frozenset(self.correlation_key) | ruled
        reader = required.reader or self
        return replace(
            self,
            live=live | {self.watermark_column} if self.watermark_column else live,
            provenance=frozenset(
                key for key in PROVENANCE if META.of(key) in required.columns or f"meta.{key}" in required.values
            ),
            reads_source=frozenset(_source_members(required.values)),
            documents=tuple((path, kind) for path, kind in self._known_documents() if path in required.values),
            failure_stage=reader.stage,
            failure_node=reader.name,
            reads_undeclared=required.reads_undeclared,
            passes=self._passes(required),
        )

    def _passes(self, required: Requirements) -> tuple[Test, ...]:
        """The predicates that may skip parts of files; none if every record counts, even one that a filter drops."""
        is_free = not self.correlation_key and self.watermark_column is None and not self.rules
        if not (self.file_format.has_statistics and is_free) or any(column.rules for column in self.columns):
            return ()
        known = set(self.column_names)
        return tuple(test for test in required.pushed_predicates if test.column in known)

    @property
    def checked_rules(self) -> tuple[Rule, ...]:
        """The rules of its `validations`."""
        return self.rules

    @property
    def record_properties(self) -> RecordProperties:
        """Rules may refer to records of other nodes."""
        return RecordProperties(looked_up=tuple(rows.input for rows in rules.referenced(self.name, self.rules)))

    @property
    def needs(self) -> tuple[Need, ...]:
        """The records that rules refer to."""
        return (*super().needs, *rules.referenced(self.name, self.rules))

    def partitions(self, sizes: shape.Sizes) -> int:
        """The number of partitions for rules that compare records, by the size of the records."""
        return rules.partitions(self.name, self.rules, sizes)

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Reading, then the phases of rules that compare records, then the measurement of the remaining records."""
        together = rules.phases(self.kind, self.name, self.rules, partitions)
        return (shape.LocalPhase(self), *together, *rules.measuring(self.kind, self.name, self.rules))

    def _known_documents(self) -> Iterator[tuple[str, types.Type]]:
        """The envelope values that files can provide: fields of sections, elements of levels, whole segments."""
        levels = dict(self.file_format.documents)
        for section in self.sections:
            if section.name not in levels:
                yield from ((section.path(name), kind) for name, kind in section.fields)
            yield section.path(RAW), types.STRING
        for level, names in levels.items():
            yield from ((f"{DOCUMENT}{level}.{name}", types.STRING) for name in names)

    @property
    def file_format(self) -> Format:
        """The format of the source's files."""
        return registry.named(self.format)

    @property
    def undeclared_are_texts(self) -> bool:
        """True if undeclared columns hold only texts, and no program reads them as dynamic values."""
        return self.file_format.values_are_text and not self.reads_undeclared and not self.typed_fields

    @property
    def reader(self) -> Reader:
        """The reader of the source's files. Loads Arrow."""
        found = self.file_format.reader(self.options, self.array_paths, self.layout)
        return replace(found, record_bytes=self.record_bytes).knowing(self.columns)

    def scan(self, files: Sequence[InputFile], on_unmapped: OnUnmapped, search: Search = search_here) -> ScanPlan:
        """Match the columns of the source's files with the declared ones (see `Reader.plan`).

        Raises:
            FormatError: a file cannot be read, or its columns are refused.
        """
        with search.prefetched(files):
            if self.endpoint is None:
                files = unpacking.with_ratios([self.packed(file) for file in files])
            found = self.reader.plan(self.keys, files, on_unmapped, search)
        refuse_taken(found, self.renamed)
        return found

    def packed(self, file: InputFile) -> InputFile:
        """A file with its detected compression.

        Raises:
            FormatError: the file is empty, which no compressed file is.
        """
        packing = self.options.packing(file.name)
        if packing is not Compression.NONE and not file.size:
            raise FormatError(f"is not a complete {packing} file: it is empty", file.name)
        return replace(file, compression=packing)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The declared columns' names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the declared columns in the files, in order."""
        return tuple(column.key for column in self.columns)

    @property
    def renamed(self) -> frozenset[str]:
        """The declared columns that have another name in the files, if no column of the files has the declared name."""
        return frozenset(self.column_names).difference(self.keys)


def _source_members(values: frozenset[str]) -> set[str]:
    """The `$source` members that programs read. The record's row belongs to the source, too."""
    found = {path.removeprefix("source.") for path in values if path.startswith("source.")}
    return found | ({"total_count"} if "pipeline.total_count" in values else set())

"""Base classes of readers: the `read.py` of each format has one.

A reader plans files (`plan`) and reads splits of them (`blocks`). Planning looks into each file, matches its columns
with the declared ones, and makes a plan of it. If the head of a file names its fields, `HeadReader` does all this, and
a format only reads heads. If each record has its own names, as in JSON, a format implements `look` itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from spark_jobs.cxl import types
from spark_jobs.formats import splits
from spark_jobs.formats.columns import ColumnTracker, FilePlan, OnUnmapped
from spark_jobs.formats.format import MOST_RECORD_BYTES, FileColumns, Reading
from spark_jobs.formats.names import search_here
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.stores.settings import StoreSettings
from spark_jobs.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.format import ArrayPath, Block, SourceColumn
    from spark_jobs.formats.names import Part, Search
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark
    from spark_jobs.scan.files import InputFile


@dataclass(frozen=True)
class SourceContext:
    """The location that a reader searches, for formats whose files are not chosen by their names.

    Args:
        base: the folder that relative paths start at.
        path: the source's `path` as written; empty without one.
        connections: the URIs of connections by their names.
        stores: how stores are reached, resolved.
        allow_outside: whether files outside of the base folder may be read.
        catalogs: the properties of catalogues of tables by their names.
    """

    base: Path
    path: str = ""
    connections: Mapping[str, str] = field(default_factory=dict)
    stores: StoreSettings = field(default_factory=StoreSettings)
    allow_outside: bool = False
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reader(ABC):
    """Reads the files of one source. It is a value without state: it travels to tasks pickled.

    Args:
        options: the read options of the format.
        arrays: arrays to explode or join, in formats that have them.
        layout: the format schema, in formats that have one.
        tuning: how much is read at once.
        record_bytes: how long a record, a header or a footer may be while files are looked into and counted; a longer
            one ends the run (E310). Records that are read for good are bounded by `Reading.record_bytes`.
    """

    options: Any
    arrays: tuple[ArrayPath, ...] = ()
    layout: Any = None
    tuning: Tuning = field(default=DEFAULT, kw_only=True)
    record_bytes: int = field(default=MOST_RECORD_BYTES, kw_only=True)

    #: Whether an empty text is nothing, so that a default stands for it.
    blank_is_nothing: ClassVar[bool] = False
    #: The type of undeclared columns: texts, or values of any kind.
    undeclared_type: ClassVar[types.Type] = types.STRING.or_null()

    @property
    def notices_names(self) -> bool:
        """Whether reading records reports undeclared names that the file plan does not have."""
        return False

    def knowing(self, declared: Sequence[SourceColumn]) -> Reader:
        """The reader with the types of the declared columns, where undeclared names depend on them."""
        return self

    def found(self, place: SourceContext) -> tuple[InputFile, ...]:
        """The inputs of a source, for formats whose files are not found by their names.

        Raises:
            FormatError: it is not there, or cannot be reached.
        """
        raise AssertionError("files are found by their names")

    def about(
        self, files: Sequence[InputFile], columns: Sequence[SourceColumn], passes: Sequence[Test]
    ) -> Mapping[str, str]:
        """Facts about the inputs for plans, by name.

        Args:
            files: the files that were found.
            columns: the declared columns.
            passes: the tests that a record has to pass first.
        """
        return {}

    def news(self, place: SourceContext, wanted: IncrementalRead) -> tuple[tuple[InputFile, ...], Mark | None]:
        """The new inputs of an incremental source, for formats that find their inputs; and the mark once they are read.

        The mark is None where it stays as it is.

        Args:
            place: where to look.
            wanted: the marks of earlier runs, and the range that the command line asks for.

        Raises:
            FormatError: see `found`; or the mark does not fit (E913).
        """
        raise AssertionError("new files are found by their names")

    def release(self) -> None:  # noqa: B027  # most hold nothing
        """Release resources that the driver holds open for tasks, at the end of the run."""

    def plan(
        self,
        declared: Sequence[str],
        inputs: Iterable[InputFile],
        on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
        search: Search = search_here,
    ) -> ScanPlan:
        """Match the columns of the files with the declared ones.

        Args:
            declared: the names of the declared columns in the files, in order.
            inputs: the files in reading order.
            on_unmapped: the policy for undeclared columns.
            search: looks for the names that only records tell.

        Raises:
            FormatError: a file cannot be read, or its columns are refused.
        """
        tracker = ColumnTracker(declared, on_unmapped)
        plans, skipped = self.look(inputs, declared, tracker)
        if on_unmapped is not OnUnmapped.DROP:
            plans = self.note_undeclared(tracker, plans, declared, search)
        return tracker.plan(tuple(plans), skipped, self.undeclared_type)

    @abstractmethod
    def look(
        self, inputs: Iterable[InputFile], declared: Sequence[str], tracker: ColumnTracker
    ) -> tuple[list[FilePlan], list[str]]:
        """Look into the files of a source, and give their columns to the tracker.

        Returns:
            a plan for each file that has something to read, and the names of the others.

        Raises:
            FormatError: a file cannot be read, or its columns are refused.
        """

    def note_undeclared(
        self, tracker: ColumnTracker, plans: list[FilePlan], declared: Sequence[str], search: Search
    ) -> list[FilePlan]:
        """Give the tracker the names that only records show; returns the plans with them.

        Raises:
            FormatError: see `names_of`; or one of them is rejected.
        """
        return plans

    def unpacked(self, file_plan: FilePlan, file: InputFile) -> FilePlan:
        """The plan of a compressed file whose bytes have been unpacked into another file.

        Raises:
            FormatError: the plain file is broken.
        """
        return replace(file_plan, file=file)

    @abstractmethod
    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """All blocks of a split; see `read`. Every record is in a block's batch or among its failures."""

    def read(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split of a file; `outcome` is complete once all blocks were taken.

        Raises:
            FormatError: the file cannot be opened, changed (E907), its container is broken, or it has a record that is
                too long for a task (E310), or a section of its envelope has a value that does not convert.
        """
        most = file_plan.file.most_records
        if most is not None:
            wanted = replace(wanted, passes=())
        blocks = self.blocks(split, file_plan, wanted, outcome)
        if most is not None:
            blocks = _first(blocks, most, outcome)
        blocks = self.ruled(blocks, wanted)
        return self._around(blocks, file_plan, wanted) if wanted.sections else blocks

    def ruled(self, blocks: Iterable[Block], wanted: Reading) -> Iterator[Block]:
        """Blocks with the defaults of their columns; records that break a rule of a column are failures."""
        if not any(column.rules for column in wanted.columns):
            return iter(blocks)
        from spark_jobs.formats.rules import applied

        return (applied.checked(block, wanted, blanks=self.blank_is_nothing) for block in blocks)

    def _around(self, blocks: Iterator[Block], file_plan: FilePlan, wanted: Reading) -> Iterator[Block]:
        """Blocks with the values of the file's envelope, which are known before its first record."""
        found = self.document(file_plan, wanted)
        carried = {path: value for path, value in found.items() if path in wanted.documents}
        for block in blocks:
            block.documents = {**carried, **block.documents}
            yield block

    def document(self, file_plan: FilePlan, wanted: Reading) -> Mapping[str, Any]:
        """The envelope values that hold for all records of a file, by path, without absent ones.

        Wherever they stand in the file: a trailer is read before the first record.

        Raises:
            FormatError: the file cannot be read, is broken, or has a value there that does not convert.
        """
        return {}

    def count(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> None:
        """Count the records of a split without converting them; only `outcome` is filled in.

        Raises:
            FormatError: the file cannot be opened, changed (E907), or its container is broken.
        """
        if self.counts(split, file_plan, outcome):
            if file_plan.file.most_records is not None:
                outcome.records = min(outcome.records, file_plan.file.most_records)
            return
        # Without columns all names would be new, and new names may end the reading; names are not needed here.
        bare = replace(file_plan, columns=FileColumns(file_plan.columns.width, ()), known=None)
        for _ in self.read(split, bare, Reading((), record_bytes=self.record_bytes), outcome):
            # The blocks themselves are not wanted: reading them on counts the records.
            continue

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """Count the records of a split without reading them; false where that cannot be done."""
        return False

    def records_of(self, file: InputFile) -> int:
        """The number of records of a file, good and bad.

        Raises:
            FormatError: the file cannot be opened, or its container is broken.
        """
        scan = self.plan((), [file], OnUnmapped.DROP)
        found = 0
        for split in splits.plan(scan.files, max(file.size, 1)):
            outcome = SplitOutcome()
            self.count(split, scan.files[split.file], outcome)
            found += outcome.records
        return found

    def exact_splits(self, file_plan: FilePlan, cut: Sequence[Split]) -> list[Split]:
        """The splits of a file with true record borders, where reading one of them has shown that a guess was wrong."""
        raise AssertionError("only splits whose borders were guessed are not consistent")

    def is_small(self, split: Split, file_plan: FilePlan) -> bool:
        """Whether a split is a whole file that may be read with others."""
        return False

    def read_together(self, file_plans: Sequence[FilePlan], wanted: Reading) -> tuple[list[Block], list[int]] | None:
        """The records of small files with the same columns, as if they were one file, and how many each has.

        A block of records costs the same for one file as for hundreds. None where some file cannot be read so: nothing
        is lost by reading them one by one then.

        Raises:
            FormatError: a file cannot be read, or changed (E907).
        """
        return None

    def groups(self, parts: Sequence[Part]) -> list[list[Part]]:
        """The parts to search for names, in order; parts that are searched together are one group."""
        return [[part] for part in parts]

    def names(self, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The undeclared names in each part of a group. Names of earlier parts may be left out.

        Raises:
            FormatError: a file cannot be read, changed (E907), or is broken.
        """
        raise AssertionError("only formats whose records bring their names along are searched for them")


@dataclass(frozen=True, kw_only=True)
class Head:
    """The facts about a file that are known before its records are read, from its beginning or its end.

    Args:
        file: the file, with a digest of its edges where splits compare them.
        names: its fields, in order.
        data_start: where its records begin, in bytes of the file as UTF-8.
        is_splittable: whether parts of it can be read on their own.
        header: the record that names the fields, as text; empty where none does.
    """

    file: InputFile
    names: tuple[str, ...]
    data_start: int
    is_splittable: bool = True
    header: str = ""


#: A format's own head.
AnyHead = TypeVar("AnyHead", bound=Head)


@dataclass(frozen=True)
class HeadReader(Reader, Generic[AnyHead]):
    """A reader of files whose heads name their fields. A format implements the heads."""

    @abstractmethod
    def head(self, file: InputFile, declared: Sequence[str]) -> AnyHead | None:
        """The head of a file; None where it has nothing to read.

        Raises:
            FormatError: the file cannot be read, or is refused.
        """

    def heads(self, inputs: Iterable[InputFile], declared: Sequence[str]) -> Iterator[tuple[InputFile, AnyHead | None]]:
        """The files with their heads, in order."""
        return ((file, self.head(file, declared)) for file in inputs)

    def file_plan(self, head: AnyHead, columns: FileColumns) -> FilePlan:
        """The plan of a file with matched columns, once the heads of all files were seen.

        Raises:
            FormatError: one of the columns cannot be read.
        """
        return FilePlan(head.file, columns, head.data_start, head.is_splittable)

    def look(
        self, inputs: Iterable[InputFile], declared: Sequence[str], tracker: ColumnTracker
    ) -> tuple[list[FilePlan], list[str]]:
        """Match the fields that the heads name."""
        heads: list[AnyHead] = []
        skipped: list[str] = []
        for file, head in self.heads(inputs, declared):
            if head is None:
                skipped.append(file.name)
                continue
            tracker.see(file.name, head.names, head.header)
            heads.append(head)
        # Thousands of files may have the same columns: they share one value.
        shared = {names: tracker.columns(names) for names in dict.fromkeys(head.names for head in heads)}
        return [self.file_plan(head, shared[head.names]) for head in heads], skipped


def _first(blocks: Iterator[Block], most: int, outcome: SplitOutcome) -> Iterator[Block]:
    """The first records of a file that counts for no more of them."""
    for block in blocks:
        is_last = block.first_row + block.count >= most
        outcome.records = min(outcome.records, most)
        yield block.until(most)
        if is_last:
            return

"""The interface of formats: bytes in, blocks of records out; batches in, bytes out.

A *block* is what comes of one range of a file, a few megabytes: the good records as an Arrow batch, typed as
declared, and the bad ones beside it. Every record of the file is either in the batch or among the failures, and both
know their place in the file, so that row numbers hold whatever goes wrong. This module has no pyarrow of its own:
plans import it.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Protocol

from spark_jobs.formats import date_forms
from spark_jobs.formats.spelling import USUAL
from spark_jobs.scan.bookmarks import Growth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    import pyarrow as pa

    from spark_jobs.cxl import types
    from spark_jobs.cxl.engine import RowFailure
    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.cxl.schema import Schema
    from spark_jobs.diagnostics.diagnostic import Code
    from spark_jobs.formats.frame import Frame
    from spark_jobs.formats.options import Options
    from spark_jobs.formats.reader import Reader
    from spark_jobs.formats.rules.declared import Rules
    from spark_jobs.formats.spelling import Spelling
    from spark_jobs.formats.staging import Loader
    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.scan.connections import Connection

#: Undeclared columns travel under this prefix, so that CXL's bare names and emits never meet them.
UNDECLARED_PREFIX = "$widened."

#: The bytes of input in a block: kernels work in the cache, and a task holds little.
BLOCK_BYTES = 4 << 20
#: A longer record is malformed; its line end does not count.
MOST_RECORD_BYTES = 64 << 20
#: The characters of a malformed record's text that its dead letter keeps.
RAW_TEXT_LIMIT = 1000


@dataclass(frozen=True)
class ArrayPath:
    """An array that makes several records of one (`explode`), or one text of several values.

    Args:
        path: where it is: a key, or keys joined by dots.
        explode: whether each element makes a record; else the elements are joined.
        separator: what stands between joined elements.
    """

    path: str
    explode: bool = True
    separator: str = ","


@dataclass(frozen=True)
class SourceColumn:
    """A column that a source declares.

    `required` turns absence into an error of the record; `formats` are forms of its dates and date-times, which are
    tried before the forms of the pipeline; texts with an offset are converted to the local time of `zone`
    (`cxl/dates/zones.py`); `alias` is its name in the files, if that differs; `rules` are the format schema's rules for
    its values; `spelling` says how its texts are written, if that is unusual.
    """

    name: str
    type: types.Type
    required: bool = False
    formats: tuple[str, ...] = ()
    alias: str | None = None
    rules: Rules | None = None
    zone: str | None = None
    spelling: Spelling = USUAL

    @property
    def key(self) -> str:
        """Its name in the files."""
        return self.name if self.alias is None else self.alias


#: The namespace of envelope values in programs, by section and field.
DOCUMENT = "doc."
#: The field of a section that has all elements of its segment, as a JSON array: outputs write them again.
RAW = "$raw"


@dataclass(frozen=True)
class Section:
    """A section of the envelope of a source's files.

    Args:
        name: its name in programs.
        key: by which key of `extract:` it is found.
        where: the value of that.
        fields: names and types.
    """

    name: str
    key: str
    where: str
    fields: tuple[tuple[str, types.Type], ...] = ()

    def path(self, field: str) -> str:
        """The `$…` path of a field in programs."""
        return f"{DOCUMENT}{self.name}.{field}"


def forms(column: SourceColumn, date_formats: tuple[str, ...]) -> tuple[str, ...]:
    """The further formats of a column's dates and date-times, beside the built-in ones."""
    found = (*column.formats, *date_formats)
    return found if column.zone is None else date_forms.zoned(column.zone, found)


@dataclass(frozen=True)
class Reading:
    """The requirements for reading a source's files; the same for all of them.

    Args:
        columns: the declared columns, in order. All of them are checked in every record, so `live` does not change
            results.
        undeclared: the undeclared columns to carry, as `$widened.<name>`, in first-seen order: all of the scan plan,
            or none.
        live: the declared columns that batches carry; None carries all.
        failure_texts: whether failing records must be shown, that is, whether the dead-letter file has source columns.
        date_formats: further formats for dates and date-times, tried in order after ISO and before the other built-in
            ones.
        block_bytes: how much input makes a block.
        record_bytes: how long a record may be for the memory of a task; a longer one ends the run.
        sections: the declared sections of the files' envelopes; all of them are checked, like columns.
        documents: the paths of the envelope's values that blocks carry.
        passes: the tests that a record has to pass first; ranges in which no record passes may be skipped.
        null_values: the texts that are null in undeclared columns.
    """

    columns: tuple[SourceColumn, ...]
    undeclared: tuple[str, ...] = ()
    live: frozenset[str] | None = None
    failure_texts: bool = False
    date_formats: tuple[str, ...] = ()
    block_bytes: int = BLOCK_BYTES
    record_bytes: int = MOST_RECORD_BYTES
    sections: tuple[Section, ...] = ()
    documents: frozenset[str] = frozenset()
    passes: tuple[Test, ...] = ()
    null_values: tuple[str, ...] = ()

    def forms(self, column: SourceColumn) -> tuple[str, ...]:
        """The further formats of a column's dates and date-times, beside the built-in ones."""
        return forms(column, self.date_formats)

    def carries(self, name: str) -> bool:
        """Whether batches have this declared column."""
        return self.live is None or name in self.live


@dataclass(frozen=True)
class FileColumns:
    """Maps the fields of a file's records to the columns of its source, by position in the record.

    Args:
        width: the number of fields that every record of the file must have.
        declared: for each declared column its field, or None where the file lacks it (null in every record).
        undeclared: for each undeclared column of the source its field, or None where the file lacks it.
    """

    width: int
    declared: tuple[int | None, ...]
    undeclared: tuple[int | None, ...] = ()


def _no_failures() -> Failures:
    from spark_jobs.cxl import failure_columns

    return failure_columns.none()


@dataclass
class Affected:
    """Records that a warning is about: their positions in the split, and an example text of the first."""

    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    first: str

    def until(self, row: int) -> Affected | None:
        """The affected records before a position."""
        rows = self.rows[self.rows < row]
        return replace(self, rows=rows) if len(rows) else None


@dataclass
class Block:
    """The records of a range of a file.

    Args:
        first_row: the place of the first record, counted from 0 in the split.
        count: how many records there are, good and bad.
        batch: the good records: live declared columns by name, then `$widened.<name>` as text.
        rows: the place in the split of each record of `batch`; None when they are `first_row`, `first_row + 1`, ...
        failures: the bad records by their place in the split, ascending: unconvertible values, absent required ones,
            and malformed records (category `malformed_record`, their raw text as the value, cut at `RAW_TEXT_LIMIT`).
        failed_rows: one row per failure with the texts of all declared columns, as the dead-letter file shows them: a
            converted value in its own text form, a failed one as read; nulls for malformed records.
            None unless the reading asks for it.
        documents: the values of `Reading.documents` for the good records, by path: an array, or a value that all of
            them share.
        passed_over: how many pieces of the file the records are, when none of them passes and they were not read.
        surplus: the cells that records lost because they had more cells than their file has columns.
        repaired: records with quotes that nobody escaped, and the first of them.
        doubled: records with several values for one column, of which one is read, and the column of the first of them.
    """

    first_row: int
    count: int
    batch: pa.RecordBatch
    rows: pa.Int64Array | None = None
    failures: Failures = field(default_factory=_no_failures)
    failed_rows: pa.RecordBatch | None = None
    documents: Mapping[str, Any] = field(default_factory=dict)
    passed_over: int = 0
    surplus: Affected | None = None
    repaired: Affected | None = None
    doubled: Affected | None = None

    def until(self, row: int) -> Block:
        """The records before a position in the split."""
        if self.first_row + self.count <= row:
            return self
        count = max(row - self.first_row, 0)
        failures = self.failures.slice(0, int((self.failures.rows < row).sum()))
        good = count - len(failures)
        return Block(
            first_row=self.first_row,
            count=count,
            batch=self.batch.slice(0, good),
            rows=None if self.rows is None else self.rows.slice(0, good),
            failures=failures,
            failed_rows=None if self.failed_rows is None else self.failed_rows.slice(0, len(failures)),
            documents={
                path: found.slice(0, good) if hasattr(found, "slice") else found
                for path, found in self.documents.items()
            },
            surplus=None if self.surplus is None else self.surplus.until(row),
            repaired=None if self.repaired is None else self.repaired.until(row),
            doubled=None if self.doubled is None else self.doubled.until(row),
        )


@dataclass
class Encoded:
    """A batch as a writer has encoded it.

    Args:
        data: the bytes of the records that could be written; empty when there are none.
        rows: how many they are.
        failures: the records that could not, by their index in the batch, ascending.
        ends: where each record ends in `data`, the separator after it included (also the last one's, which `data`
            lacks); int64. None unless it was asked for.
        marks: a value for each record that the format's frame needs, of the type `Frame.marks`; None without a frame.
        unfit: the records with a value that the format cannot hold, likewise: the run ends, unless the output says that
            they are failures.
        cuts: the values that were cut to fit, of records that are written.
    """

    data: bytes | memoryview
    rows: int
    failures: list[RowFailure] = field(default_factory=list)
    ends: np.ndarray | None = field(default=None, compare=False)
    marks: pa.Array | None = field(default=None, compare=False)
    unfit: list[RowFailure] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)


@dataclass(frozen=True)
class Cut:
    """Texts that were cut because they are longer than their field.

    Args:
        field: the field.
        text: what to say of them, to stand before their number.
        values: the whole texts, by their rows in the batch.
    """

    field: str
    text: str
    values: Mapping[int, str]


def concatenated(first: Encoded, second: Encoded, start: int, separator: bytes = b"") -> Encoded:
    """Combine the encodings of a batch's two parts; `start` is the first row of the second one."""
    failures, unfit = (
        mine + [replace(failed, row=failed.row + start) for failed in its]
        for mine, its in ((first.failures, second.failures), (first.unfit, second.unfit))
    )
    cuts = list(first.cuts)
    cuts += (replace(cut, values={row + start: text for row, text in cut.values.items()}) for cut in second.cuts)
    if not first.rows or not second.rows:
        return replace(first if first.rows else second, failures=failures, unfit=unfit, cuts=cuts)
    data = b"".join((first.data, separator, second.data))
    ends = None
    if first.ends is not None and second.ends is not None:
        import numpy as np

        ends = np.concatenate([first.ends, second.ends + len(first.data) + len(separator)])
    return Encoded(data, first.rows + second.rows, failures, ends, unfit=unfit, cuts=cuts)


class UnwritableFile(Exception):
    """A file that cannot be written, whatever its records: the run ends."""


class Writer(Protocol):
    """Records of one output to bytes.

    A file is `start`, the non-empty pieces that `encode` gave with `separator` between them, and `end`; without any
    record it is `empty`. One that goes on from another begins with `continued`, which has no header. Pieces are
    independent of each other, so that tasks can write parts of one file at the same time.
    """

    start: bytes
    continued: bytes
    separator: bytes
    end: bytes
    empty: bytes

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> Encoded:
        """The bytes of a batch that has the writer's columns, in their order; with `ends` where its records end.

        Raises:
            Unfit: the file cannot be written.
        """


class ColumnWriter(Writer, Protocol):
    """A writer of files that are made once all their records are collected.

    The bytes of `Writer` are an intermediate form here; `convert` makes the file from them.
    """

    def convert(self, source: IO[bytes], sink: IO[bytes], *, moved: bool = False) -> None:
        """Write a file of what would be one: `start`, pieces, `end`; of records that `moved` alone it is them only."""

    def show(self, source: IO[bytes], *, moved: bool = False) -> bytes:
        """The output of `convert` as text for people."""


@dataclass(frozen=True)
class SectionPlace:
    """The key of `extract:` by which envelope sections are found, with a fixed value if `only` has one.

    `problem` says why a value of the key is wrong; None where it is right.
    """

    key: str
    only: str | None = None
    problem: Callable[[str], str | None] = lambda _: None


@dataclass(frozen=True)
class Format:
    """A format of sources and outputs: what plans know of it, and the way to its reader and its writer.

    Its package has a `read.py` if it is read, and a `write.py` if it is written; only these load Arrow.

    Args:
        name: the word under `type:`, and the name of its package.
        title: its name in messages.
        chapter: its place in lists of formats.
        read_options: the options of a source.
        write_options: the options of an output.
        values_are_text: whether undeclared values are texts, and no numbers or objects.
        names_in_records: whether records bring the names of their values along, so that each has to be read to know
            the columns of a file.
        has_arrays: whether values can be arrays, which `array_paths` explode or join.
        comes_in_pages: whether network sources have it.
        layout: gives the problems of a format schema (plain nested tuples), in formats that need one to find the
            fields; with `is_written` as a schema of outputs.
        sections: where the sections of its envelope are; None where it has none.
        documents: the sections of `$doc` that every file has, with their fields, which are texts.
        is_one_file: the diagnostic of an output that is split, in formats whose files cannot be cut.
        ending: what names of its files end with, where they are not the author's.
        is_typed: whether its files hold columns or blocks, so that they are made when all records have come together.
        has_statistics: whether readers know of ranges of a file where no record passes (`Reading.passes`).
        has_files: whether records are in files. Otherwise its reader finds the inputs (`found`), and file matchers have
            no meaning.
        is_in_folder: whether `path` names a folder that is a table, whose files the reader finds.
        is_in_catalog: whether the reader finds the files of a table that a catalogue knows by its name.
        growth: how incremental sources of it grow: by files, rows or table versions; None if none can be incremental.
        is_framed: whether its files have more than the bytes of each record (see `Frame`).
        known_as: its name in other tools.
    """

    name: str
    title: str
    chapter: float
    read_options: type[Options]
    write_options: type[Options]
    values_are_text: bool = False
    names_in_records: bool = False
    has_arrays: bool = False
    comes_in_pages: bool = False
    layout: Callable[..., Iterable[str]] | None = None
    sections: SectionPlace | None = None
    documents: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_one_file: Code | None = None
    ending: str = ""
    is_typed: bool = False
    is_framed: bool = False
    has_statistics: bool = False
    has_files: bool = True
    is_in_folder: bool = False
    is_in_catalog: bool = False
    known_as: tuple[str, ...] = ()
    growth: Growth | None = Growth.FILES

    @property
    def can_read(self) -> bool:
        """Whether files of the format are read; else sources of it bind and explain only."""
        return importlib.util.find_spec(self._module("read")) is not None

    @property
    def can_write(self) -> bool:
        """Whether files of the format are written; else outputs of it bind and explain only."""
        return importlib.util.find_spec(self._module("write")) is not None

    @property
    def article(self) -> str:
        """The indefinite article for its name."""
        return "an" if self.name[0] in "aeiou" else "a"

    @property
    def is_table(self) -> bool:
        """Whether it reads and writes tables of files, whose records are visible once they are committed."""
        return self.is_in_folder or self.is_in_catalog

    @property
    def has_staging(self) -> bool:
        """Whether its outputs are tables, whose records wait in staging tables."""
        return importlib.util.find_spec(self._module("loading")) is not None

    def loader(self, connection: Connection) -> Loader:
        """The functions that put records into tables of a connection; see `staging.py`."""
        found: Loader = importlib.import_module(self._module("loading")).of(connection)
        return found

    def reader(self, options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> Reader:
        """The class that reads the files of a source; see `Reader` for its arguments."""
        reader: Reader = importlib.import_module(self._module("read")).open_reader(options, arrays, layout)
        return reader

    def writer(
        self,
        schema: Schema,
        options: Any,
        *,
        include_header: bool = True,
        preserve_nulls: bool = False,
        layout: Any = None,
    ) -> Writer:
        """The writer for an output's columns, named as they are written.

        Args:
            schema: the columns.
            options: the format's write options.
            include_header: whether files begin with the names, in formats that have a header.
            preserve_nulls: whether nulls are written, in formats that can leave them out.
            layout: the format schema, in formats that have one.
        """
        module = importlib.import_module(self._module("write"))
        writer: Writer = module.open_writer(
            schema, options, include_header=include_header, preserve_nulls=preserve_nulls, layout=layout
        )
        return writer

    def frame(self, options: Any) -> Frame | None:
        """The frame around the records of an output's files; None where it does not depend on them."""
        if not self.is_framed:
            return None
        frame: Frame = importlib.import_module(self._module("write")).open_frame(options)
        return frame

    def load(self) -> None:
        """Import what reads and writes it ahead of its first use."""
        for name, is_there in (("read", self.can_read), ("write", self.can_write)):
            if is_there:
                importlib.import_module(self._module(name))

    def _module(self, name: str) -> str:
        return f"spark_jobs.formats.{self.name}.{name}"

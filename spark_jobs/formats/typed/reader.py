"""Reads files of columns with types, as ORC, Parquet and Avro are: a format adds how its bytes are decoded.

`TypedReader` matches columns, refuses types without counterpart, and makes blocks of decoded columns. `FooterReader`
does the rest for formats whose footers describe Arrow columns: such a format only opens a file, as a `FileOfBatches`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import pyarrow as pa

from spark_jobs import limits
from spark_jobs.cxl import types
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import reader
from spark_jobs.formats.columns import MISFIT
from spark_jobs.formats.format import Block
from spark_jobs.formats.typed import natural
from spark_jobs.formats.typed.records import TypedShape
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import FileColumns, Reading, SourceColumn
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.typed.records import Found
    from spark_jobs.scan.files import InputFile

_NOTHING = pa.RecordBatch.from_arrays([], names=[])


@dataclass(frozen=True)
class Unknown:
    """A type that nothing stands for.

    Args:
        title: its name in the file.
        hint: what else can be done than to leave the column out, to follow that.
    """

    title: str
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class TypedHead(reader.Head):
    """The head of a file whose columns have types.

    Args:
        unknown: the types that nothing stands for, by the names of the columns that have them.
    """

    unknown: Mapping[str, Unknown] = field(default_factory=dict)


@dataclass(frozen=True)
class Records:
    """Some neighbouring records of a file.

    Args:
        count: how many there are.
        found: the columns that are needed, by their positions.
        passed_over: how many pieces of the file they are, where none of them passes and nothing was decoded.
    """

    count: int
    found: Mapping[int, Found] = field(default_factory=dict)
    passed_over: int = 0


@dataclass(frozen=True)
class TypedReader(reader.HeadReader[TypedHead]):
    """Reads files of columns with types.

    Args:
        declared: the names of the declared columns in the files: structures among them are read as a whole.
    """

    declared: frozenset[str] = frozenset()

    undeclared_type: ClassVar[types.Type] = types.ANY
    #: The name of the format in messages.
    title: ClassVar[str]

    def knowing(self, declared: Sequence[SourceColumn]) -> Self:
        """The reader that knows which structures are columns."""
        return replace(self, declared=frozenset(column.key for column in declared))

    def file_plan(self, head: TypedHead, columns: FileColumns) -> FilePlan:
        """The plan of a file; columns that are read must be of types that something stands for (E217)."""
        for at in sorted({at for at in (*columns.declared, *columns.undeclared) if at is not None}):
            name = head.names[at]
            if (unknown := head.unknown.get(name)) is not None:
                message = (
                    f"column '{name}' is of the {self.title} type {unknown.title}, which is not supported; "
                    "leave it out (`on_unmapped: drop`, and no declaration), or write the file with another type"
                    f"{unknown.hint}"
                )
                raise FormatError(message, head.file.name, MISFIT)
        return super().file_plan(head, columns)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split. All declared columns are checked in every record, so all of them are decoded."""
        shape = TypedShape(wanted, file_plan.columns)
        for records in self.decoded(split, file_plan, wanted, outcome, needed(wanted, file_plan)):
            first, outcome.records = outcome.records, outcome.records + records.count
            if records.passed_over:
                yield Block(first, records.count, _NOTHING, passed_over=records.passed_over)
            else:
                yield shape.block(first, records.count, records.found)

    @abstractmethod
    def decoded(
        self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome, needed: Sequence[int]
    ) -> Iterator[Records]:
        """All records of a split, some at a time, with the columns at some positions.

        Notes in `outcome` where the split begins and ends, and whether it is consistent.

        Raises:
            FormatError: see `Reader.read`.
        """


def needed(wanted: Reading, file_plan: FilePlan) -> list[int]:
    """The positions of the columns of a file that must be read: all declared ones are checked in every record."""
    undeclared = file_plan.columns.undeclared if wanted.undeclared else ()
    declared = file_plan.columns.declared[: len(wanted.columns)]
    return sorted({at for at in (*declared, *undeclared) if at is not None})


def refuse_doubles(names: Iterable[str], file: InputFile, where: str) -> None:
    """Refuse two columns with one name.

    Args:
        names: the names of all columns.
        file: the file.
        where: what names them: "the footer".

    Raises:
        FormatError: there are two (E217).
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise FormatError(f"{where} names column '{name}' twice", file.name, MISFIT)
        seen.add(name)


@dataclass(frozen=True)
class PassedOver:
    """Records none of which passes the filter, from so many pieces of a file."""

    count: int
    pieces: int


class FileOfBatches(Protocol):
    """An open file whose footer describes its columns, and whose records Arrow reads as batches."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file, as Arrow has them."""

    @property
    def pieces(self) -> int:
        """The number of pieces that can be read on their own: stripes, row groups."""

    def rows(self, split: Split | None = None) -> int:
        """The number of records of the file or of a split."""

    def batches(
        self, split: Split, fields: Sequence[pa.Field], file_plan: FilePlan, wanted: Reading
    ) -> Iterator[pa.RecordBatch | PassedOver]:
        """All records of a split, with some of the columns."""


@dataclass(frozen=True)
class FooterReader(TypedReader):
    """Reads files whose footers give Arrow's types of their columns.

    Args:
        texts: the columns that are declared as texts: bytes among them are texts, as old writers do not say.
    """

    texts: frozenset[str] = frozenset()

    #: The number of bytes at the beginning of a file that identify the format.
    magic_bytes: ClassVar[int]

    @abstractmethod
    def opened(self, file: InputFile, wanted: Reading | None = None) -> AbstractContextManager[FileOfBatches]:
        """A file with its footer read; `wanted` is given where records will be.

        Raises:
            FormatError: it cannot be read, changed (E907), or is broken.
        """

    def knowing(self, declared: Sequence[SourceColumn]) -> Self:
        """The reader that knows which structures and texts are columns."""
        texts = frozenset(column.key for column in declared if column.type.kind is Kind.STRING)
        return replace(super().knowing(declared), texts=texts)

    def head(self, file: InputFile, declared: Sequence[str]) -> TypedHead | None:
        """The columns in the footer."""
        if not file.size:
            return None
        with self.opened(file) as found:
            _refuse_nothing(file, found.rows())
            kinds = _kinds(found.schema, file, self.declared)
            is_splittable = found.pieces > 1
        unknown = {name: unknown for name, kind in kinds.items() if (unknown := self._unknown(name, kind)) is not None}
        return TypedHead(
            file=file, names=tuple(kinds), data_start=self.magic_bytes, is_splittable=is_splittable, unknown=unknown
        )

    def _unknown(self, name: str, kind: pa.DataType) -> Unknown | None:
        """The problem of a column's type if it has no counterpart; otherwise None."""
        if natural.type_of(kind) is not None:
            return None
        if not natural.is_bytes(kind):
            return Unknown(str(kind))
        return None if name in self.texts else Unknown(str(kind), "; declare it as string if its bytes are texts")

    def decoded(
        self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome, needed: Sequence[int]
    ) -> Iterator[Records]:
        """The records of a split; of structures all is decoded, though some members may not be needed."""
        outcome.start, outcome.end = split.start, split.end
        with self.opened(file_plan.file, wanted) as file:
            tops = [field.name for field in file.schema for _ in natural.leaves([field], self.declared)]
            is_needed = frozenset(needed).__contains__
            chosen = {tops[at] for at in needed}
            fields = [field for field in file.schema if field.name in chosen]
            places = [at for at, top in enumerate(tops) if top in chosen]
            for batch in file.batches(split, fields, file_plan, wanted):
                if isinstance(batch, PassedOver):
                    yield Records(batch.count, passed_over=batch.pieces)
                    continue
                arrays = natural.arrays(batch.columns, fields, self.declared)
                found = {at: natural.natural(array) for at, array in zip(places, arrays, strict=True) if is_needed(at)}
                yield Records(batch.num_rows, found)

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """The footer has the numbers."""
        outcome.start, outcome.end = split.start, split.end
        with self.opened(file_plan.file) as file:
            outcome.records = file.rows(split)
        return True


def _kinds(schema: pa.Schema, file: InputFile, declared: Collection[str]) -> dict[str, pa.DataType]:
    """The Arrow types of a file's columns by their dotted names.

    Raises:
        FormatError: two columns have one name (E217), or a name is no UTF-8 text.
    """
    try:
        leaves = list(natural.leaves(schema, declared))
    except UnicodeDecodeError as error:
        raise FormatError(
            "the footer names a column in bytes that are not UTF-8: the file is broken", file.name
        ) from error
    refuse_doubles((name for name, _ in leaves), file, "the footer")
    return dict(leaves)


def _refuse_nothing(file: InputFile, rows: int) -> None:
    """A few bytes can stand for billions of records that have nothing in them, each of which takes time.

    Raises:
        FormatError: they do (E310).
    """
    most = max(limits.EMPTY_RECORDS, limits.EMPTY_RECORDS_PER_BYTE * file.size)
    if rows > most:
        text = f"it has {rows} records in {file.size} bytes, and more than {most} are not read; write several files"
        raise FormatError(text, file.name, "E310")

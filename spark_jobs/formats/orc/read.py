"""The ORC files of a source: footers give their columns, stripes are read in parallel.

A split has the stripes whose middle lies in its bytes. Only columns that somebody needs are read. Files are decoded in
a process of their own, because the library ends the process where some bytes are wrong (`decoding.py`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_jobs.formats.isolated import process
from spark_jobs.formats.typed import reader
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import ArrayPath, Reading
    from spark_jobs.formats.isolated.process import Session
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.files import InputFile

_DECODER = "spark_jobs.formats.orc.decoding"
#: A batch has so many records at most; where they take too much memory, it is tried with so many times fewer.
_MOST_ROWS = 1 << 16
_FEWER = 32
#: With less memory the library ends the process.
_LEAST_MEMORY = 64 << 20


@dataclass(frozen=True)
class _Stripe:
    number: int
    offset: int
    size: int
    rows: int


class _OrcFile:
    """A file that is open in a process of its own."""

    def __init__(self, session: Session, file: InputFile) -> None:
        self._session = session
        self._file = file
        self._stripes = [_Stripe(number, *found) for number, found in enumerate(session.about["stripes"])]

    @property
    def schema(self) -> pa.Schema:
        return self._session.schema

    @property
    def pieces(self) -> int:
        return len(self._stripes)

    def rows(self, split: Split | None = None) -> int:
        return sum(stripe.rows for stripe in self._of(split))

    def _of(self, split: Split | None) -> list[_Stripe]:
        return [stripe for stripe in self._stripes if split is None or split.takes(stripe.offset + stripe.size // 2)]

    def batches(
        self, split: Split, fields: Sequence[pa.Field], _file_plan: FilePlan, wanted: Reading
    ) -> Iterator[pa.RecordBatch]:
        yield from _batches(self._session, self._of(split), fields, wanted, self._file)


@dataclass(frozen=True)
class OrcReader(reader.FooterReader):
    """Reads ORC files."""

    title: ClassVar[str] = "ORC"
    magic_bytes: ClassVar[int] = 3

    @contextmanager
    def opened(self, file: InputFile, wanted: Reading | None = None) -> Iterator[_OrcFile]:
        """Open a file in a process of its own, with the memory of a task."""
        memory = max(_LEAST_MEMORY, 3 * (self.record_bytes if wanted is None else wanted.record_bytes))
        try:
            with changes.opened(file) as stream, process.opened(stream, file.name, _DECODER, memory) as session:
                yield _OrcFile(session, file)
        except process.TooLarge:
            text = (
                f"its footer takes more memory than memory.limit leaves to each task, {memory} bytes; raise "
                "memory.limit, use fewer threads, or write the file with larger stripes"
            )
            raise FormatError(text, file.name, "E310") from None


def _batches(
    session: Session, chosen: Sequence[_Stripe], fields: Sequence[pa.Field], wanted: Reading, file: InputFile
) -> Iterator[pa.RecordBatch]:
    """Some columns of some stripes, as many records at a time as there is memory for.

    Raises:
        FormatError: a stripe is broken or has other columns or records than the footer says, or a record is too long.
    """
    columns, kinds = [field.name for field in fields], [field.type for field in fields]
    for stripe in chosen:
        if not columns:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * stripe.rows, pa.struct([])))
            continue
        rows = max(1, min(_MOST_ROWS, stripe.rows * wanted.block_bytes // max(stripe.size, 1)))
        done = 0
        while done < stripe.rows:
            try:
                for batch in session.batches(stripes=[stripe.number], columns=columns, rows=rows, skip=done):
                    if batch.schema.names != columns or batch.schema.types != kinds:
                        text = "is not a readable ORC file: its columns differ from its footer"
                        raise FormatError(text, file.name)
                    done += batch.num_rows
                    yield batch
            except (process.TooLarge, process.Ended) as problem:
                if rows == 1:
                    if isinstance(problem, process.Ended):
                        raise
                    raise FormatError(_too_large(stripe, wanted), file.name, "E310") from None
                session.open()
                rows = max(1, rows // _FEWER)
            else:
                break
        if done != stripe.rows:
            text = (
                f"is not a readable ORC file: its footer tells of {stripe.rows} records in "
                f"stripe {stripe.number + 1}, and there are {done}"
            )
            raise FormatError(text, file.name)


def _too_large(stripe: _Stripe, wanted: Reading) -> str:
    return (
        f"a record in the stripe at byte {stripe.offset} takes more memory than memory.limit leaves to each task, "
        f"{3 * wanted.record_bytes} bytes; raise memory.limit, or use fewer threads"
    )


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> OrcReader:
    """The reader of a source's files."""
    return OrcReader(options, arrays, layout)

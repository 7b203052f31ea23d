"""The ORC files of a source: their columns told by their footers, stripes read in parallel.

A split has the stripes whose middle lies in its bytes. Only columns that somebody needs are read. Files are decoded in
a process of their own, because the library ends the process where some bytes are wrong (`decoding.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import types
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import names, reader
from spark_jobs.formats.columns import ColumnTracker, FilePlan, OnUnmapped
from spark_jobs.formats.isolated import process
from spark_jobs.formats.typed import arrow_files, natural
from spark_jobs.formats.typed.records import TypedShape
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.format import ArrayPath, Block, Reading, SourceColumn
    from spark_jobs.formats.isolated.process import Session
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.files import InputFile

_DECODER = "spark_jobs.formats.orc.decoding"
#: A file begins with three letters that say what it is.
_START = 3
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


def _stripes(session: Session) -> list[_Stripe]:
    return [_Stripe(number, *found) for number, found in enumerate(session.about["stripes"])]


@dataclass(frozen=True)
class OrcReader(reader.Reader):
    """Reads ORC files.

    Args:
        declared: what the declared columns are called in the files: structures among them are read as a whole.
        texts: those that are declared as texts: bytes among them are texts.
    """

    declared: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def knowing(self, declared: Sequence[SourceColumn]) -> OrcReader:
        """The reader that knows which structures and texts are columns."""
        texts = frozenset(column.key for column in declared if column.type.kind is Kind.STRING)
        return replace(self, declared=frozenset(column.key for column in declared), texts=texts)

    def plan(
        self,
        declared: Sequence[str],
        inputs: Iterable[InputFile],
        on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
        search: Search = names.search_here,
    ) -> ScanPlan:
        """Match the columns in the footers with the declared ones.

        Raises:
            FormatError: a file cannot be read, an undeclared column is rejected, or nothing stands for the type of one
                that is read.
        """
        tracker = ColumnTracker(declared, on_unmapped)
        seen: list[tuple[InputFile, dict[str, pa.DataType], bool]] = []
        skipped: list[str] = []
        for file in inputs:
            if not file.size:
                skipped.append(file.name)
                continue
            with changes.opened(file) as stream, process.opened(stream, file.name, _DECODER) as session:
                stripes = _stripes(session)
                arrow_files.refuse_nothing(file, sum(stripe.rows for stripe in stripes))
                kinds = arrow_files.kinds(session.schema, file, self.declared)
            seen.append((file, kinds, len(stripes) > 1))
            tracker.see(file.name, list(kinds))
        plans = []
        for file, kinds, is_splittable in seen:
            columns = tracker.columns(list(kinds))
            arrow_files.refuse_unknown("ORC", file, kinds, {*columns.declared, *columns.widened} - {None}, self.texts)
            plans.append(FilePlan(file, columns, _START, is_splittable))
        return tracker.plan(tuple(plans), skipped, types.ANY)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split's stripes."""
        outcome.start, outcome.end = split.start, split.end
        shape = TypedShape(wanted, file_plan.columns)
        needed = arrow_files.needed(wanted, file_plan)
        file = file_plan.file
        memory = max(_LEAST_MEMORY, 3 * wanted.record_bytes)
        with (
            changes.opened(file) as stream,
            process.opened(stream, file.name, _DECODER, memory) as session,
        ):
            chosen = _of_split(split, _stripes(session))
            leaves = arrow_files.with_tops(session.schema, self.declared)
            tops = {top for at, (top, _) in enumerate(leaves) if at in needed}
            fields = [field for field in session.schema if field.name in tops]
            places = [at for at, (top, _) in enumerate(leaves) if top in tops]
            for batch in _batches(session, chosen, fields, wanted, file):
                arrays = natural.arrays(batch.columns, fields, self.declared)
                found = {at: natural.natural(array) for at, array in zip(places, arrays, strict=True) if at in needed}
                first, outcome.records = outcome.records, outcome.records + batch.num_rows
                yield shape.block(first, batch.num_rows, found)

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """The footer has the numbers."""
        outcome.start, outcome.end = split.start, split.end
        file = file_plan.file
        with changes.opened(file) as stream, process.opened(stream, file.name, _DECODER) as session:
            outcome.records = sum(stripe.rows for stripe in _of_split(split, _stripes(session)))
        return True


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


def _of_split(split: Split, stripes: Sequence[_Stripe]) -> list[_Stripe]:
    """The stripes of a split: those whose middle lies in it."""
    if split.index == 0 and split.is_last:
        return [*stripes]
    found = []
    for stripe in stripes:
        middle = stripe.offset + stripe.size // 2
        if (split.start <= middle or split.index == 0) and (middle < split.end or split.is_last):
            found.append(stripe)
    return found


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> OrcReader:
    """The reader of a source's files."""
    return OrcReader(options, arrays, layout)

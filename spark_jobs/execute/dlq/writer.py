"""The dead-letter files: entries become rows with ids, row numbers and the record as read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import schema, types
from spark_jobs.cxl.failure import Category
from spark_jobs.execute import identity
from spark_jobs.execute.dlq import display, merge, reread
from spark_jobs.formats import cell_text, coerce
from spark_jobs.formats.csv.options import CsvWrite
from spark_jobs.formats.csv.write import CsvWriter
from spark_jobs.nodes.records.columns import CORRELATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.execute.dlq.buffer import ReasonKey
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.report import DlqReport
    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.formats import format
    from spark_jobs.nodes.output.packed import PackedFile
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan import plan as plans

#: The source number of an entry without any record: the row of a global aggregate.
NO_SOURCE = -1
#: The first columns of a dead-letter file, before the columns of the record; the values are in `DlqWriter._rows`.
COLUMNS = (
    "_cxl_dlq_id",
    "_cxl_dlq_timestamp",
    "_cxl_dlq_source_file",
    "_cxl_dlq_source_name",
    "_cxl_dlq_source_row",
    "_cxl_dlq_triggering_field",
    "_cxl_dlq_triggering_value",
    "_cxl_dlq_error_category",
    "_cxl_dlq_error_detail",
    "_cxl_dlq_stage",
    "_cxl_dlq_route",
    "_cxl_dlq_trigger",
)
#: The columns that `include_reason: false` leaves out.
REASON_COLUMNS = frozenset({"_cxl_dlq_error_category", "_cxl_dlq_error_detail"})


@dataclass(frozen=True)
class DlqFile:
    """One dead-letter file: its path, the sources whose entries it takes (None: all), and its source columns.

    `key` are the fields of correlation keys that it shows. `is_common`: rows of aggregates, which belong to no single
    source, go here.
    """

    path: str
    sources: frozenset[int] | None
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    is_common: bool = False

    def takes(self, part: pa.Table) -> np.ndarray:
        """A mask of the entries that belong to this file."""
        if self.sources is None:
            return np.ones(part.num_rows, dtype=bool)
        is_row = part.column("group").to_numpy() != 0
        mine: np.ndarray = np.isin(part.column("source").to_numpy(), list(self.sources))
        taken: np.ndarray = mine | is_row if self.is_common else mine & ~is_row
        return taken


def dlq_files_of(errors: plans.ErrorHandling, inputs: Inputs, paths: Mapping[str, str]) -> list[DlqFile]:
    """The dead-letter files of a run; `paths` has each source's own file, and the common one under `""`."""
    files = []
    taken: set[int] = set()
    for name in errors.per_source:
        if name in paths and name in inputs.numbers:
            number = inputs.numbers[name]
            taken.add(number)
            step = inputs.steps[name]
            files.append(DlqFile(paths[name], frozenset([number]), step.column_names, step.correlation_key))
    if "" in paths:
        columns = dict.fromkeys(name for step in inputs.steps.values() for name in step.column_names)
        others = frozenset([NO_SOURCE, *inputs.numbers.values()]) - taken
        key = dict.fromkeys(name for step in inputs.steps.values() for name in step.correlation_key)
        files.append(DlqFile(paths[""], others if taken else None, tuple(columns), tuple(key), is_common=True))
    return files


@dataclass(frozen=True)
class DlqWriter:
    """Turns gathered entries into dead-letter files. Travels to executors.

    Args:
        errors: what the files have.
        inputs: the run's inputs, for names and for reading records again.
        rows_before: the records of a split's file before it, by the split's number.
        branches: the branches of all routes, as entries count them.
        scratch: where the gathered entries are.
        written: when the files are written.
    """

    errors: plans.ErrorHandling
    inputs: Inputs
    rows_before: Mapping[int, int]
    branches: tuple[str, ...]
    scratch: Scratch
    written: datetime = field(default_factory=lambda: datetime.now(UTC))

    def header(self, file: DlqFile) -> bytes:
        """The first line of a file."""
        names = self._names(file)
        return bytes(self._writer(file).encode(_batch([pa.array([name]) for name in names])).data)

    def write(
        self, file: DlqFile, reports: Sequence[DlqReport], splits: tuple[int, int], out: PackedFile, series: int = 0
    ) -> None:
        """Write the rows of the entries that name some splits, in the order of their records.

        Args:
            file: its entries are written.
            reports: the reports of the tasks that have entries.
            splits: the first and the last split.
            out: gets the rows, without header.
            series: which part of the file they are: ids of later parts come later.
        """
        writer = self._writer(file)
        again = reread.Rereader(self.inputs)
        merged = merge.of_reports(reports, splits)
        ids = identity.Series(int(self.written.timestamp() * 1000), series)
        for part in merged.parts():
            part = part.filter(pa.array(file.takes(part)))
            if part.num_rows:
                out.write(writer.encode(_batch(self._rows(file, part, merged.whys, again, ids))).data)

    def shown(self, part: pa.Table, whys: Sequence[ReasonKey]) -> display.Shown:
        """The texts of some entries, for people."""
        return display.Shown(part, whys, self.inputs, self.rows_before)

    def _writer(self, file: DlqFile) -> format.Writer:
        count = len(self._names(file))
        columns = schema.Schema(tuple(schema.Column(str(i), types.STRING.or_null()) for i in range(count)))
        return CsvWriter(columns, CsvWrite(), include_header=False)

    def _names(self, file: DlqFile) -> list[str]:
        names = [name for name in COLUMNS if self.errors.include_reason or name not in REASON_COLUMNS]
        keys = (CORRELATION.of(name) for name in file.key)
        return [*names, *file.columns, *keys] if self.errors.include_source_row else names

    def _rows(
        self, file: DlqFile, part: pa.Table, whys: Sequence[ReasonKey], again: reread.Rereader, ids: identity.Series
    ) -> list[pa.Array]:
        count = part.num_rows
        shown = self.shown(part, whys)
        moment = self.written.isoformat(timespec="microseconds")
        columns: list[pa.Array] = [
            ids.take(count),
            pa.repeat(pa.scalar(moment), count),
            shown.files,
            shown.sources,
            shown.row_texts,
            shown.each("field"),
            shown.values,
        ]
        if self.errors.include_reason:
            columns += [shown.each("category"), shown.details(with_places=False)]
        branches = pa.array(self.branches, pa.string()).take(display.single(part.column("branch")))
        columns += [shown.each("stage"), branches, shown.each("trigger")]
        if self.errors.include_source_row:
            records = display.records(part, file.columns, again)
            columns += records
            columns += self._keys(file, part, shown, dict(zip(file.columns, records, strict=True)))
        return columns

    def _keys(
        self, file: DlqFile, part: pa.Table, shown: display.Shown, records: Mapping[str, pa.Array]
    ) -> list[pa.Array]:
        """The correlation keys; if there is none, the key of the record that the entry shows.

        This applies to late records, and to a group whose own result fails: its entry shows its first record.
        """
        keys = display.keys(part, file.key, self.inputs.correlation_fields)
        category = shown.each("category")
        is_result = pc.and_(pc.equal(category, Category.AGGREGATE), pc.equal(display.single(part.column("group")), 0))
        is_late = pc.equal(category, Category.LATE_RECORD)
        if not pc.any(pc.or_(is_late, is_result)).as_py():
            return keys
        source = display.single(part.column("source"))
        for place, name in enumerate(file.key):
            is_without = pc.or_(is_late, pc.and_(is_result, pc.equal(pc.fill_null(keys[place], ""), "")))
            for step in self.inputs.steps.values():
                if name in step.correlation_key:
                    is_mine = pc.and_(is_without, pc.equal(source, self.inputs.numbers[step.name]))
                    if pc.any(is_mine).as_py():
                        keys[place] = pc.if_else(is_mine, _key_of(step, name, records[name]), keys[place])
        return keys


def _key_of(step: SourceStep, name: str, texts: pa.Array) -> pa.Array:
    """A field of the key of records by what was read of it, as the texts of its values: of `007` in an Int 7."""
    column = next(each for each in step.columns if each.name == name)
    if column.type.kind is not types.Kind.STRING and not column.type.is_dynamic:
        forms = (*column.formats, *step.date_formats)
        values = coerce.convert(texts.cast(pa.string()), column.type, forms).array
        return pc.fill_null(pc.coalesce(cell_text.texts(values, column.type), texts), "")
    return pc.fill_null(texts, "")


def _batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[str(i) for i in range(len(columns))])

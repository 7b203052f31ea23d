"""A format of columns needs its decoding alone: the skeletons of readers have the rest."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest
from pyarrow import ipc

from spark_jobs.cxl import types
from spark_jobs.formats import splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.formats.typed import reader
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from spark_jobs.formats.columns import FilePlan, ScanPlan
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.files import InputFile

DECLARED = (SourceColumn("id", types.INT), SourceColumn("note", types.STRING, required=True))


class ArrowFile:
    """Arrow's own file: its batches are as long as each other, or nearly so."""

    def __init__(self, file: ipc.RecordBatchFileReader, size: int) -> None:
        self._file, self._size = file, size

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema

    @property
    def pieces(self) -> int:
        return self._file.num_record_batches

    def _of(self, split: Split | None) -> list[int]:
        step = self._size // self.pieces
        return [at for at in range(self.pieces) if split is None or split.takes(at * step + step // 2)]

    def rows(self, split: Split | None = None) -> int:
        return sum(self._file.get_batch(at).num_rows for at in self._of(split))

    def batches(
        self, split: Split, fields: Sequence[pa.Field], _file_plan: FilePlan, _wanted: Reading
    ) -> Iterator[pa.RecordBatch | reader.PassedOver]:
        for at in self._of(split):
            batch = self._file.get_batch(at)
            yield reader.PassedOver(batch.num_rows, 1) if at == 2 else batch.select([field.name for field in fields])


@dataclass(frozen=True)
class ArrowReader(reader.FooterReader):
    """Reads such files."""

    title: ClassVar[str] = "Arrow"
    magic_bytes: ClassVar[int] = 8

    @contextmanager
    def opened(self, file: InputFile, _wanted: Reading | None = None) -> Iterator[ArrowFile]:
        with changes.opened(file) as stream:
            yield ArrowFile(ipc.open_file(pa.BufferReader(stream.read(file.size))), file.size)


def planned(
    path: Path, table: pa.Table, on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN
) -> tuple[ArrowReader, ScanPlan]:
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=100)
    found = ArrowReader(None).knowing(DECLARED)
    return found, found.plan(("id", "note"), [files.describe(str(path), path.name)], on_unmapped)


@pytest.mark.parametrize("split_bytes", [300, 1 << 20])
def test_records_of_a_format_that_has_decoding_alone(tmp_path: Path, split_bytes: int) -> None:
    notes = ["x" if row % 250 else None for row in range(500)]
    table = pa.table({"note": notes, "id": [float(row) for row in range(500)], "more": [[row] for row in range(500)]})
    found, scan = planned(tmp_path / "in.arrow", table)
    assert scan.undeclared == ("more",)
    wanted = Reading(DECLARED, scan.undeclared, failure_texts=True)
    good, bad, passed_over, counts = [], [], 0, [0, 0]
    for split in splits.plan(scan.files, split_bytes):
        outcome, counted = SplitOutcome(), SplitOutcome()
        for block in found.read(split, scan.files[0], wanted, outcome):
            passed_over += block.passed_over
            if not block.passed_over:
                good += block.batch.column("id").to_pylist()
            if block.failed_rows is not None:
                bad += block.failed_rows.to_pylist()
        found.count(split, scan.files[0], counted)
        counts = [counts[0] + outcome.records, counts[1] + counted.records]
    assert counts == [500, 500]
    assert passed_over == 1
    assert good == [row for row in range(500) if row % 250 and not 200 <= row < 300]
    assert bad == [{"id": "0", "note": None}]


def test_a_type_that_nothing_stands_for_is_refused_where_it_is_read(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "note": ["x"], "bytes": pa.array([b"x"])})
    _, scan = planned(tmp_path / "in.arrow", table, OnUnmapped.DROP)
    assert scan.dropped == ("bytes",)
    with pytest.raises(FormatError, match=r"'bytes' is of the Arrow type binary.* declare it as string"):
        planned(tmp_path / "in.arrow", table)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(FormatError, match="the footer names column 'id' twice"):
        planned(tmp_path / "in.arrow", twice)

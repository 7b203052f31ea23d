"""The dead-letter files: entries become rows with ids, row numbers and the record as read (decisions 35, 62, 64)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure, schema, types
from spark_jobs.execute import identity, letters, reread
from spark_jobs.formats import options as format_options
from spark_jobs.formats import writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.formats import format
    from spark_jobs.plan import plan as plans

#: The number of the source of what comes of no record at all: the row of a global aggregate.
NO_SOURCE = -1
#: Entries that are turned into rows at once.
_CHUNK_ROWS = 16_384


@dataclass(frozen=True)
class Letterbox:
    """One dead-letter file: its path, the sources whose entries it takes (None: all others), and its source columns."""

    path: str
    sources: frozenset[int] | None
    columns: tuple[str, ...]


def letterboxes(errors: plans.ErrorHandling, inputs: Inputs, paths: Mapping[str, str]) -> list[Letterbox]:
    """The dead-letter files of a run; `paths` has each source's own file, and the common one under `""`."""
    boxes = []
    taken: set[int] = set()
    for name in errors.per_source:
        if name in paths and name in inputs.numbers:
            number = inputs.numbers[name]
            taken.add(number)
            boxes.append(Letterbox(paths[name], frozenset([number]), tuple(inputs.steps[name].column_names)))
    if "" in paths:
        columns = dict.fromkeys(name for step in inputs.steps.values() for name in step.column_names)
        others = frozenset([NO_SOURCE, *inputs.numbers.values()]) - taken
        boxes.append(Letterbox(paths[""], others if taken else None, tuple(columns)))
    return boxes


@dataclass(frozen=True)
class Assembly:
    """Turns gathered entries into dead-letter files. Travels to executors.

    Args:
        errors: what the files have.
        inputs: the run's inputs, for names and for reading records again.
        rows_before: the records of a split's file before it, by the split's number.
    """

    errors: plans.ErrorHandling
    inputs: Inputs
    rows_before: Mapping[int, int]

    def header(self, box: Letterbox) -> bytes:
        """The first line of a file."""
        names = self._names(box)
        return bytes(self._writer(box).encode(_batch([pa.array([name]) for name in names])).data)

    def write(self, box: Letterbox, files: Sequence[str], splits: tuple[int, int], path: str) -> int:
        """Write the rows of the entries that name some splits, in the order of their records; gives their bytes.

        Args:
            box: whose entries are wanted.
            files: the files that tasks left.
            splits: the first and the last split.
            path: where the rows go, without header.
        """
        table = pa.concat_tables(letters.read(name) for name in files)
        split, source = (table.column(name).to_numpy() for name in ("split", "source"))
        mine = (split >= splits[0]) & (split <= splits[1])
        if box.sources is not None:
            mine &= np.isin(source, list(box.sources))
        keys = table.select([name for name, _ in letters.ORDER])
        chosen = pa.array(np.flatnonzero(mine))
        chosen = chosen.take(pc.sort_indices(keys.take(chosen), sort_keys=letters.ORDER))
        writer = self._writer(box)
        with open(path, "wb") as file:
            for start in range(0, len(chosen), _CHUNK_ROWS):
                part = table.take(chosen.slice(start, _CHUNK_ROWS)).combine_chunks()
                file.write(writer.encode(_batch(self._rows(box, part))).data)
            return file.tell()

    def _writer(self, box: Letterbox) -> format.Writer:
        count = len(self._names(box))
        columns = schema.Schema(tuple(schema.Column(str(i), types.STRING.or_null()) for i in range(count)))
        return writing.open_writer("csv", columns, format_options.CsvOptions(), include_header=False)

    def _names(self, box: Letterbox) -> list[str]:
        names = ["id", "timestamp", "source_file", "source_name", "source_row", "triggering_field", "triggering_value"]
        if self.errors.include_reason:
            names += ["error_category", "error_detail"]
        names = [f"_cxl_dlq_{name}" for name in [*names, "stage", "route", "trigger"]]
        return [*names, *box.columns] if self.errors.include_source_row else names

    def _rows(self, box: Letterbox, part: pa.Table) -> list[pa.Array]:
        count = part.num_rows
        splits = part.column("split").to_numpy()
        before = np.array([self.rows_before.get(int(split), 0) for split in splits])
        numbers = before + part.column("row").to_numpy() + 1
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        files = [
            self.inputs.file_name(split, source)
            for split, source in zip(splits, part.column("source").to_pylist(), strict=True)
        ]
        source_names = [self.inputs.source_name(source) for source in part.column("source").to_pylist()]
        rows = pa.array([str(number) if number > 0 else "" for number in numbers])
        columns: list[pa.Array] = [
            pa.array([identity.uuid7() for _ in range(count)]),
            pa.array([moment] * count),
            pa.array(files),
            pa.array(source_names),
            rows,
            _array(part, "field"),
            _array(part, "value"),
        ]
        if self.errors.include_reason:
            columns += [_array(part, "category"), self._details(part, numbers)]
        columns += [_array(part, name) for name in ("stage", "route", "trigger")]
        if self.errors.include_source_row:
            columns += self._records(box, part)
        return columns

    def _details(self, part: pa.Table, numbers: np.ndarray) -> pa.Array:
        """`row N: field 'f': detail`, as spec/exec.md 2.9 words it."""
        details = []
        entries = (part.column(name).to_pylist() for name in ("category", "field", "detail"))
        for number, category, name, detail in zip(numbers, *entries, strict=True):
            if category == failure.Category.VALIDATION:  # the rule's own words (decision 63)
                details.append(detail)
                continue
            place = f"row {number}: " if number > 0 else ""
            details.append(f"{place}field '{name}': {detail}" if name else f"{place}{detail}")
        return pa.array(details, pa.string())

    def _records(self, box: Letterbox, part: pa.Table) -> list[pa.Array]:
        """The source columns: each record's own columns by name."""
        again = self._read_again(part)
        texts: list[dict[str, str | None]] = []
        for i, (source, record) in enumerate(
            zip(part.column("source").to_pylist(), part.column("record").to_pylist(), strict=True)
        ):
            values: Sequence[Any] = record if record is not None else again.get(i, [])
            names = self.inputs.column_names(source)
            texts.append(dict(zip(names, values, strict=False)))
        return [pa.array([record.get(name) for record in texts], pa.string()) for name in box.columns]

    def _read_again(self, part: pa.Table) -> dict[int, list[str | None]]:
        """Texts of the records whose entries were made after an exchange, by position in the part."""
        unknown = np.flatnonzero(part.column("record").is_null().to_numpy())
        wanted: dict[int, list[tuple[int, int]]] = {}
        for i in unknown:
            split, row = part.column("split")[i].as_py(), part.column("row")[i].as_py()
            if split >= 0:
                wanted.setdefault(split, []).append((row, int(i)))
        found: dict[int, list[str | None]] = {}
        again = reread.Rereader(self.inputs)
        for split, places in wanted.items():
            texts = again.texts(split, sorted({row for row, _ in places}))
            found |= {i: texts[row] for row, i in places if row in texts}
        return found


def _batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[str(i) for i in range(len(columns))])


def _array(part: pa.Table, name: str) -> pa.Array:
    column = part.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

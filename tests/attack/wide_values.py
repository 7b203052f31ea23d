"""Values that are too wide for fixed-width files: what is written is read again, what is cut or left out is told."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import registry, splits
from spark_jobs.formats.fixed_width.options import FixedWidthRead, FixedWidthWrite
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files

if TYPE_CHECKING:
    import random
    from pathlib import Path

_VALUES: dict[types.Type, list[Any]] = {
    types.STRING: ["a", "ab", "abc", "abcdef", "é", "日本", "a\nb", "x y", "12345"],
    types.INT: [0, 1, -1, 42, 12345, -(2**63), 2**63 - 1],
    types.FLOAT: [0.5, -1.25, 1e22, 123456.789],
    types.DATE: [date(2024, 2, 29), date(1, 1, 1)],
    types.DATETIME: [datetime(2024, 2, 29, 23, 59, 59), datetime(2024, 2, 29, 0, 0, 0, 5)],
    types.BOOL: [True, False],
}


def hold(chance: random.Random, folder: Path) -> str:
    """Write values into fields of any width, and read them again.

    Raises:
        AssertionError: a value is another one, and nobody was told.
    """
    encoding = chance.choice(["utf-8", "latin-1", "cp949"])
    kinds = [chance.choice(list(_VALUES)) for _ in range(chance.randint(1, 4))]
    fields, start = [], 0
    for number in range(len(kinds)):
        fields.append(_field(chance, f"c{number}", start))
        start += fields[-1]["width"]
    rows = [[chance.choice([None, *_VALUES[kind]]) for kind in kinds] for _ in range(chance.randint(1, 12))]
    names = [field["name"] for field in fields]
    layout = (("fields_", tuple(tuple(field.items()) for field in fields)),)
    known = registry.named("fixed_width")
    schema = Schema(tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True)))
    writer = known.writer(schema, FixedWidthWrite(encoding=encoding), layout=layout)
    arrays = [values.to_arrow([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    encoded = writer.encode(pa.RecordBatch.from_arrays(arrays, names=names), ends=chance.random() < 0.5)
    gone = [each.row for each in (*encoded.failures, *encoded.unfit)]
    assert len(gone) == len(set(gone)), f"{rows} {fields}: {gone}"
    left = [row for row in range(len(rows)) if row not in gone]
    assert encoded.rows == len(left), f"{rows} {fields}: {encoded}"
    told = {(cut.text.split("'")[1], row) for cut in encoded.cuts for row in cut.values}
    silent = {field["name"] for field in fields if field.get("truncation") == "silent"}
    assert not silent & {name for name, _ in told}, f"{rows} {fields}: {told}"
    path = folder / "wide"
    path.write_bytes(bytes(encoded.data))
    file = files.describe(str(path), path.name)
    declared = tuple(SourceColumn(name, kind) for name, kind in zip(names, kinds, strict=True))
    reader = known.reader(FixedWidthRead(encoding=encoding), layout=layout)
    scan = reader.plan(tuple(names), [file])
    found: dict[int, dict[str, Any]] = {}
    before = 0
    for split in splits.plan(scan.files, chance.randint(1, 60)):
        outcome = SplitOutcome()
        for block in reader.read(split, scan.files[split.file], Reading(declared), outcome):
            first = block.first_row
            places = range(first, first + block.count) if block.rows is None else block.rows.to_pylist()
            found |= {before + at: record for at, record in zip(places, block.batch.to_pylist(), strict=True)}
        before += outcome.records
    changed = 0
    for at, row in enumerate(left):
        for name, kind, value in zip(names, kinds, rows[row], strict=True):
            if name in silent or (name, row) in told:
                changed += 1
                continue
            expected = ("" if value is None else value) if kind is types.STRING else value
            if at in found:  # where another field was cut, its record may be none
                assert found[at][name] == expected, f"{rows} {fields} {encoding}: {found[at]} for {rows[row]}"
            else:
                assert silent or told, f"{rows} {fields} {encoding}: no record for {rows[row]}"
    return "cut" if changed else "left out" if gone else "whole"


def _field(chance: random.Random, name: str, start: int) -> dict[str, Any]:
    """A field at a place."""
    field: dict[str, Any] = {"name": name, "start": start, "width": chance.choice([1, 2, 3, 5, 10, 20, 30])}
    if chance.random() < 0.4:
        field["truncation"] = chance.choice(["error", "warn", "silent"])
    return field

"""Reads JSON in all ways that there are, for tests that these give the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
from spark_jobs.formats.json.fast import bisection
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.scan import files
from spark_jobs.tuning import DEFAULT, Tuning
from tests.formats.json import generated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = generated.COLUMNS
NDJSON = JsonRead(JsonLayout.NDJSON)
ARRAY = JsonRead(JsonLayout.ARRAY)


@dataclass
class Records:
    """The good records, the failures with their texts, and how many there were."""

    good: list[dict[str, Any]] = field(default_factory=list)
    bad: list[tuple[Any, ...]] = field(default_factory=list)
    undeclared: tuple[str, ...] = ()
    count: int = 0


def read(
    path: Path,
    text: str,
    columns: Sequence[SourceColumn] = generated.COLUMNS,
    *,
    options: JsonRead = NDJSON,
    split_bytes: int = splits.SPLIT_BYTES,
    undeclared: tuple[str, ...] | None = None,
    arrays: Sequence[ArrayPath] = (),
    tuning: Tuning = DEFAULT,
) -> Records:
    """The records of a file, with all its undeclared columns or with these."""
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    unmapped = OnUnmapped.AUTO_WIDEN if undeclared is None else OnUnmapped.DROP
    declared = [column.name for column in columns]
    reader = JsonReader(options, tuple(arrays), tuning=tuning)
    scan = reader.plan(declared, [files.describe(str(path), path.name)], unmapped)
    wanted = Reading(tuple(columns), scan.undeclared if undeclared is None else undeclared, failure_texts=True)
    found = Records(undeclared=wanted.undeclared)
    for split in splits.plan(scan.files, split_bytes):
        outcome = reading.SplitOutcome()
        for block in reader.read(split, scan.files[split.file], wanted, outcome):
            rows = (
                range(block.first_row, block.first_row + block.count) if block.rows is None else block.rows.to_pylist()
            )
            found.good += [
                {"row": found.count + row} | record
                for row, record in zip(rows, block.batch.to_pylist(), strict=True)
            ]  # fmt: skip
            shown = block.failed_rows.to_pylist() if block.failed_rows is not None else []
            for failed, texts in zip(block.failures, shown, strict=True):
                why = failed.failure
                place = found.count + failed.row
                found.bad.append((place, why.field, why.value, str(why.category), why.detail, texts))
        found.count += outcome.records
        if scan.files[split.file].layout is JsonLayout.NDJSON and not arrays:
            counted = reading.SplitOutcome()
            reader.count(split, scan.files[split.file], counted)
            assert counted == outcome
    return found


def are_same(left: Records, right: Records) -> bool:
    """Whether all values are the same: NaN is, -0.0 is not 0.0."""
    return repr(left) == repr(right)


def one_by_one(path: Path, lines: Sequence[str], undeclared: tuple[str, ...], **how: Any) -> Records:
    """The same as each line in a file of its own, read in the exact way."""
    found = Records(undeclared=undeclared)
    for line in lines:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(bisection.Bisection, "read", lambda *_: bisection.Taken())
            alone = read(path, line, undeclared=undeclared, **how)
        found.good += [record | {"row": found.count + record["row"]} for record in alone.good]
        found.bad += [(found.count + row, *rest) for row, *rest in alone.bad]
        found.count += alone.count
    return found


#: Some of the columns, all of them required or none.
columns = st.lists(st.sampled_from(generated.COLUMNS), min_size=1, unique=True).map(
    lambda chosen: [replace(column, required=len(chosen) % 3 == 0) for column in chosen]
)

"""The records of sources as the model reads them."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.models.rows import Record


@dataclass(frozen=True)
class Given:
    """A record as it was read: its file, its row there, and its cells."""

    file: str
    row: int
    cells: dict[str, str]


@dataclass
class Inputs:
    """All records of all sources; `broken` are those with a value that does not convert."""

    given: dict[Record, Given] = field(default_factory=dict)
    fields: dict[Record, dict[str, Any]] = field(default_factory=dict)
    broken: set[Record] = field(default_factory=set)


def read(folder: Path, name: str, step: Any, inputs: Inputs) -> None:
    """All records of a source of CSV files with columns of strings and ints."""
    number = 0
    for file in _files(folder, step):
        with file.open(newline="") as text:
            for row, cells in enumerate(csv.DictReader(text), 1):
                record = (name, number)
                number += 1
                inputs.given[record] = Given(file.name, row, dict(cells))
                inputs.fields[record] = {}
                for column in step.columns:
                    value, is_broken = _converted(cells.get(column.name), str(column.type))
                    inputs.fields[record][column.name] = value
                    if is_broken:
                        inputs.broken.add(record)


def _files(folder: Path, step: Any) -> Iterator[Path]:
    match = step.match
    if match.path:
        yield folder / match.path
    else:
        yield from sorted(folder.glob(match.glob))


def _converted(cell: str | None, kind: str) -> tuple[Any, bool]:
    if "DateTime" in kind:
        return datetime.fromisoformat(cell) if cell else None, False
    if "Int" not in kind:
        return cell or "", False
    if not cell:
        return None, False
    try:
        return int(cell), False
    except ValueError:
        return None, True

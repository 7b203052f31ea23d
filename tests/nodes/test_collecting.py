"""Arrays of matches, made by columns, are the tagged texts of the arrays that Python makes of the same records."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.nodes.combine import collecting

COLUMNS: dict[str, tuple[types.Type, list[Any]]] = {
    "n": (types.INT, [1, None, -(2**63), 2**63 - 1]),
    "f": (types.FLOAT, [1.0, 1e-7, None, -0.0]),
    "odd": (types.FLOAT, [float("inf"), 1e16, None, 0.1]),
    'a "text"': (types.STRING, ["", 'é"\\\n', None, "𝄞"]),
    "day": (types.DATE, [date(1, 1, 1), None, date(9999, 12, 31), date(2024, 2, 29)]),
    "at": (types.DATETIME, [datetime(2024, 1, 2, 3, 4, 5, 6), None, datetime(1, 1, 1), datetime(2024, 1, 1, 0, 0, 1)]),
    "is": (types.BOOL, [True, False, None, True]),
    "list": (types.array_of(types.STRING), [["a", None], [], None, ['"']]),
    "any": (types.ANY, [{"$x": date(2024, 1, 1)}, None, [1, 2.0], "t"]),
}  # fmt: skip


def _records() -> tuple[pa.RecordBatch, Schema]:
    arrays = [values.to_arrow(items, kind) for kind, items in COLUMNS.values()]
    schema = Schema(tuple(Column(name, kind, "") for name, (kind, _) in COLUMNS.items()))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS)), schema


def test_a_record_is_the_map_of_its_fields() -> None:
    rows = [3, 0, 0, 2, 1]
    found = collecting.texts(*_records(), pa.array(rows)).to_pylist()
    for row, text in zip(rows, found, strict=True):
        assert repr(values.decode(text)) == repr({name: items[row] for name, (_, items) in COLUMNS.items()})


def test_a_record_without_fields_is_an_empty_map() -> None:
    assert collecting.texts(_records()[0], Schema(()), pa.array([0, 3, 3])).to_pylist() == ["{}"] * 3
    assert collecting.texts(_records()[0], Schema(()), pa.array([], pa.int64())).to_pylist() == []


def test_drivers_without_matches_have_empty_arrays() -> None:
    chosen = np.array([1, 1, 3], dtype=np.int64)
    found = collecting.arrays(5, chosen, pa.array(["{}", '{"a":1}', "{}"]))
    assert found.to_pylist() == ["[]", '[{},{"a":1}]', "[]", "[{}]", "[]"]
    assert collecting.arrays(2, chosen[:0], pa.array([], pa.string())).to_pylist() == ["[]", "[]"]


def test_the_first_matches_of_each_driver_are_taken() -> None:
    chosen = np.repeat([0, 2], [collecting.LIMIT + 2, 3])
    taken, cut = collecting.first_matches(chosen)
    assert cut == 1
    assert np.bincount(chosen[taken]).tolist() == [collecting.LIMIT, 0, 3]
    assert taken[collecting.LIMIT - 1] == collecting.LIMIT - 1

"""Small JSON documents whose arrays become far more records than they have bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.formats.format import ArrayPath
from spark_jobs.formats.json.fast import columnar_explode


@pytest.mark.parametrize("is_object", [False, True])
def test_an_array_is_not_copied_for_each_of_its_elements(is_object: bool) -> None:
    """30,000 copies of 30,000 elements would be 7 GB."""
    count = 30_000
    kinds = {("x",) if is_object else ("a",): pa.int64(), ("b",): pa.int64()}
    spread = columnar_explode.ColumnarExplode([ArrayPath("a")], list(kinds))
    if not is_object:
        spread.learn([{"a": [0], "b": 1}], may_change=True)
    elements = [{"x": 7} if is_object else 7] * count
    rows = pa.array([{"a": elements, "b": 1}], columnar_explode.structure(spread.fields(kinds)))
    before = pa.default_memory_pool().max_memory()
    made = spread.of(rows, kinds, b"{}", np.zeros(1, dtype=np.bool_))
    assert len(made.rows) == count
    assert made.rows[count - 1].as_py() == {"x" if is_object else "a": 7, "b": 1}
    assert pa.default_memory_pool().max_memory() < before + (100 << 20)

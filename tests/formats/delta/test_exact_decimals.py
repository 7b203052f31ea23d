"""Numbers on their way into the decimals of a table: all digits, or an error."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from spark_jobs.formats.format import UnwritableFile
from spark_jobs.formats.tables.write import cast

LARGE = 2**63 - 1


def _cast(array: pa.Array, wanted: pa.DataType) -> list[Decimal]:
    found = cast(pa.table({"x": array}), pa.schema([("x", wanted)]))
    return found.column("x").to_pylist()


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (pa.array([1, None, -2]), pa.decimal128(3, 2)),
        (pa.array([LARGE, -LARGE - 1]), pa.decimal128(38, 10)),
        (pa.array([Decimal("1.5"), None], pa.decimal128(38, 1)), pa.decimal128(38, 37)),
        (pa.array(["1.5", None, "-3e2", "0.25E1", "0" * 50 + "7"]), pa.decimal128(6, 2)),
        (pa.array(["9" * 38]), pa.decimal128(38, 0)),
    ],
)
def test_digits_stay(array: pa.Array, wanted: pa.DataType) -> None:
    exact = [None if each is None else Decimal(each) for each in array.to_pylist()]
    assert _cast(array, wanted) == exact


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        # Arrow gives 46826544.8… for the first three.
        (pa.array([LARGE]), pa.decimal128(38, 30)),
        (pa.array([Decimal(LARGE)], pa.decimal128(38, 0)), pa.decimal128(38, 30)),
        (pa.array([str(LARGE)]), pa.decimal128(38, 30)),
        (pa.array(["9" * 60]), pa.decimal128(38, 38)),
        (pa.array(["1e60"]), pa.decimal128(38, 38)),
        (pa.array(["1e999999999"]), pa.decimal128(38, 38)),
        (pa.array(["1.001"]), pa.decimal128(10, 2)),
        (pa.array(["nan"]), pa.decimal128(10, 2)),
        (pa.array(["e"]), pa.decimal128(10, 2)),
        (pa.array([1000]), pa.decimal128(5, 2)),
    ],
)
def test_what_does_not_fit_is_refused(array: pa.Array, wanted: pa.DataType) -> None:
    with pytest.raises(UnwritableFile, match="column 'x' has a value that is no"):
        _cast(array, wanted)

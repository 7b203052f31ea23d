"""Columns of ours as columns of Arrow, for files that keep the types of their columns.

| here | in the file |
|---|---|
| Bool, Int, Float, String, Date | bool, int64, float64, string, date32 |
| DateTime | a timestamp in microseconds without a zone |
| Decimal | a decimal of 38 digits, or as many as are declared, with the scale of the column |
| Numeric | float64; an int that has no float is an error of its record |
| Array of a kind that is known | a list |
| Any | texts, as CSV cells have them |

Maps, and arrays of unknown things, have no column that is known before all records are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import decimals, values
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.cxl.types import Type


def problem(static: Type) -> str | None:
    """Why a file has no column for a type; None when it has. Loads no Arrow."""
    if static.kind is Kind.DECIMAL and static.scale is None:
        help_text = "say `.round(2)` or `.to_decimal(2)`"
        return f"Decimals have one scale in such a column, and here each may have its own; {help_text}"
    if static.kind in (Kind.MAP, Kind.ARRAY) and static.is_dynamic:
        what = "a map" if static.kind is Kind.MAP else "an array of values that may be anything"
        return f"{what} has no type in such a column"
    return None


def of(static: Type) -> pa.DataType:
    """The Arrow type of a column in the file."""
    import pyarrow as pa

    if static.kind is Kind.NUMERIC:
        return pa.float64()
    if static.kind is Kind.DECIMAL:
        assert static.scale is not None
        return pa.decimal128(static.precision or decimals.MAX_DIGITS, static.scale)
    return values.arrow_type(static)

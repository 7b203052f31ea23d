"""Helpers of Arrow kernels: constants, distinct values, masks. pyarrow is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa


def constant(argument: pa.Array | pa.Scalar) -> Any:
    """The Python value of a constant argument; `NoKernel` when it differs from row to row."""
    import pyarrow as pa

    if isinstance(argument, pa.Scalar):
        return argument.as_py()
    raise declare.NoKernel


def is_constant(argument: pa.Array | pa.Scalar) -> bool:
    """True if an argument is the same on all rows."""
    import pyarrow as pa

    return isinstance(argument, pa.Scalar)


def filled(count: int, value: Any, static: types.Type) -> pa.Array:
    """An array of one value repeated."""
    return repeated(scalar(value, static), count)


def repeated(value: pa.Scalar, count: int) -> pa.Array:
    """An array of one Arrow scalar repeated."""
    import pyarrow as pa

    # Arrow cannot repeat a list zero times.
    return pa.repeat(value, count) if count else pa.nulls(0, value.type)


def scalar(value: Any, static: types.Type) -> pa.Scalar:
    """A value as an Arrow scalar of its column type."""
    import pyarrow as pa

    return pa.scalar(values.encode(value) if static.is_dynamic else value, values.arrow_type(static))


def floats(numbers: pa.Array) -> pa.Array:
    """Ints, Floats or Decimals as the nearest Floats."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_decimal(numbers.type):
        return pc.cast(numbers, pa.float64(), safe=False)
    from spark_jobs.cxl import decimal_units

    return decimal_units.floats(numbers)


def with_failures(found: pa.Array, failed: Any) -> tuple[pa.Array, pa.Array | None]:
    """A result and the mask of the rows that fail, from a NumPy array; None if none does."""
    import pyarrow as pa

    return found, None if failed is None else pa.array(failed)


def by_rows(
    body: Callable[..., Any], rows: Iterable[tuple[Any, ...]], static: types.Type
) -> tuple[pa.Array, pa.Array | None]:
    """The body on each row's arguments: its results, and the mask of rows where it raised `Failure`."""
    import pyarrow as pa

    results: list[Any] = []
    failing: list[int] = []
    for position, row in enumerate(rows):
        try:
            results.append(body(*row))
        except Failure:
            failing.append(position)
            results.append(None)
    array = values.to_arrow(results, static)
    if not failing:
        return array, None
    mask = [False] * len(results)
    for position in failing:
        mask[position] = True
    return array, pa.array(mask, pa.bool_())


def by_value(body: Callable[[Any], Any], array: pa.Array, static: types.Type) -> tuple[pa.Array, pa.Array | None]:
    """The body on each distinct non-null value of an array, laid out over its rows; with the mask of failing rows."""
    import pyarrow as pa

    if pa.types.is_nested(array.type):
        return by_rows(
            lambda value: None if value is None else body(value), ((item,) for item in array.to_pylist()), static
        )
    encoded = array.dictionary_encode()
    results, bad = by_rows(body, ((value,) for value in encoded.dictionary.to_pylist()), static)
    found = results.take(encoded.indices)
    return found, None if bad is None else bad.take(encoded.indices).fill_null(False)


def has_byte(text: pa.Array, wanted: bytes) -> bool:
    """True if any of some bytes occurs in the texts of an array: a search at memory speed, for rare bytes."""
    import numpy as np

    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return False
    ends = np.frombuffer(offsets, dtype=np.int32)
    piece = data[int(ends[text.offset]) : int(ends[text.offset + len(text)])].to_pybytes()
    return any(byte in piece for byte in wanted)


def like(template: pa.Array, numbers: Any) -> pa.Array:
    """A NumPy array as an Arrow array, null where the template is."""
    import pyarrow as pa

    mask = template.is_null().to_numpy(zero_copy_only=False) if template.null_count else None
    return pa.array(numbers, mask=mask)


def where(mask: pa.Array, chosen: Callable[[pa.Array], pa.Array], array: pa.Array, otherwise: pa.Array) -> pa.Array:
    """`otherwise`, with the rows of a mask (no nulls) replaced by what `chosen` makes of the array's values there."""
    import pyarrow.compute as pc

    return pc.replace_with_mask(otherwise, mask, chosen(array.filter(mask)))

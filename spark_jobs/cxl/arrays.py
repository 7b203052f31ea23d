"""What Arrow kernels of builtins share: constants, values seen once, masks. pyarrow is imported on first use."""

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
    """Whether an argument is the same on all rows."""
    import pyarrow as pa

    return isinstance(argument, pa.Scalar)


def filled(count: int, value: Any, static: types.Type) -> pa.Array:
    """An array of one value repeated."""
    import pyarrow as pa

    return pa.repeat(scalar(value, static), count)


def scalar(value: Any, static: types.Type) -> pa.Scalar:
    """A value as an Arrow scalar of its column type."""
    import pyarrow as pa

    return pa.scalar(values.encode(value) if static.is_dynamic else value, values.arrow_type(static))


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
    encoded = array.dictionary_encode()
    results, bad = by_rows(body, ((value,) for value in encoded.dictionary.to_pylist()), static)
    found = results.take(encoded.indices)
    return found, None if bad is None else bad.take(encoded.indices).fill_null(False)


def where(mask: pa.Array, chosen: Callable[[pa.Array], pa.Array], array: pa.Array, otherwise: pa.Array) -> pa.Array:
    """`otherwise`, with the rows of a mask (no nulls) replaced by what `chosen` makes of the array's values there."""
    import pyarrow.compute as pc

    return pc.replace_with_mask(otherwise, mask, chosen(array.filter(mask)))

"""Columns of values as texts, by one rule for CSV cells, dead-letter files and all other text formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, values
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from spark_jobs.cxl.types import Type


#: The beginning of arrays and maps among dynamic values: dates and moments have one `$`, keys of maps none or two.
_A_CONTAINER = r'^(\[|\{("\$\$|"[^$]|\}))'
#: A date among dynamic values, and where its text begins and ends.
_A_DATE = r'^\{"\$date":"[0-9]{4}-[0-9]{2}-[0-9]{2}"\}$'
_DATE_AT = (len('{"$date":"'), len('{"$date":"2024-01-31'))
#: A Decimal among dynamic values, and where its text begins; two characters follow it.
_A_DECIMAL = r'^\{"\$decimal":"-?[0-9]+(\.[0-9]+)?"\}$'
_DECIMAL_MARK = b'{"$decimal":"'
#: After the last character of any text.
_END = 1 << 31


def texts(array: pa.Array, static: Type) -> pa.StringArray:
    """The text of each value of a column; null stays null. Containers are compact JSON."""
    if static.is_dynamic:
        return _of_any_kind(cast("pa.StringArray", array))
    if static.kind is Kind.ARRAY:
        return pa.array(
            [None if value is None else values.text_of(value) for value in values.from_arrow(array, static)],
            pa.string(),
        )
    match static.kind:
        case Kind.FLOAT:
            return _floats(array)
        case Kind.DECIMAL:
            return decimal_columns.texts(array)
        case Kind.DATETIME:
            return _moments(array)
        case _:
            return pc.cast(array, pa.string())


def of_bytes(data: bytes, ends: np.ndarray) -> pa.StringArray:
    """The texts that stand one after the other in some UTF-8 bytes, by where each of them ends."""
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))


def are_containers(column: pa.Array) -> pa.Array:
    """A mask of the dynamic values that are arrays or maps; null stays null."""
    return pc.match_substring_regex(column, _A_CONTAINER)


def containers(array: pa.Array, static: Type) -> dict[int, list[Any] | dict[str, Any]]:
    """The arrays and maps of a column of values of any kind, or of a column of arrays, by their rows."""
    begins = are_containers(array) if static.is_dynamic else array.is_valid()
    rows = pc.indices_nonzero(begins)
    return dict(zip(rows.to_pylist(), values.from_arrow(array.take(rows), static), strict=True))


def _of_any_kind(column: pa.StringArray) -> pa.StringArray:
    """Dynamic values, which are tagged JSON: texts lose their quotes, floats are spelled in another way."""
    data = characters(column)
    if b"\\" in data:
        is_text = pc.match_substring_regex(column, r'^"[^\\]*$')
    else:
        is_text = pc.starts_with(column, '"')
    is_text = pc.fill_null(is_text, False)
    found = column
    if pc.any(is_text, min_count=0).as_py():
        found = pc.if_else(
            is_text, pc.binary_replace_slice(pc.binary_replace_slice(column, -1, _END, ""), 0, 1, ""), column
        )
    if pc.all(pc.or_(is_text, pc.fill_null(pc.ascii_is_decimal(column), True)), min_count=0).as_py():
        return found
    is_same = pc.or_(is_text, pc.fill_null(pc.match_substring_regex(column, r"^(-?[0-9]+|true|false)$"), True))
    is_float = pc.fill_null(pc.match_substring_regex(column, r"^-?[0-9]+\.[0-9]+$"), False)
    if pc.any(is_float, min_count=0).as_py():
        found = pc.replace_with_mask(found, is_float, _floats(pc.cast(column.filter(is_float), pa.float64())))
    is_date = pc.fill_null(pc.match_substring_regex(column, _A_DATE), False)
    if pc.any(is_date, min_count=0).as_py():
        found = pc.replace_with_mask(found, is_date, pc.utf8_slice_codeunits(column.filter(is_date), *_DATE_AT))
    is_known = pc.or_(pc.or_(is_same, is_float), is_date)
    if _DECIMAL_MARK in data:
        is_decimal = pc.fill_null(pc.match_substring_regex(column, _A_DECIMAL), False)
        digits = pc.utf8_slice_codeunits(column.filter(is_decimal), len(_DECIMAL_MARK), -2)
        found = pc.replace_with_mask(found, is_decimal, digits)
        is_known = pc.or_(is_known, is_decimal)
    others = pc.invert(is_known)
    if pc.any(others, min_count=0).as_py():
        exact = [values.text_of(values.decode(text)) for text in column.filter(others).to_pylist()]
        found = pc.replace_with_mask(found, others, pa.array(exact, pa.string()))
    return found


def view(column: pa.StringArray) -> memoryview:
    """All characters of a text column as UTF-8, one text after the other, where they are: nothing is copied."""
    if len(column) == 0 or column.buffers()[2] is None:
        return memoryview(b"")
    offsets = memoryview(column.buffers()[1]).cast("i")
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    return memoryview(column.buffers()[2]).cast("B")[first:last]


def ends(column: pa.StringArray) -> np.ndarray:
    """The end of each text in the result of `view`."""
    if len(column) == 0:
        return np.zeros(0, dtype=np.int64)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    found: np.ndarray = offsets[1:].astype(np.int64) - offsets[0]
    return found


def characters(column: pa.StringArray) -> bytes:
    """A copy of what `view` gives, to search in."""
    return view(column).tobytes()


def _floats(array: pa.Array) -> pa.StringArray:
    """Arrow's texts have the same shortest digits; only exponents and NaN are written in another way."""
    column = pc.cast(array, pa.string())
    data = characters(column)
    if data.find(b"e") < 0 and data.find(b"n") < 0:
        return column
    others = pc.fill_null(pc.match_substring_regex(column, "e|nan"), False)
    numbers = array.filter(others)
    exact = whole_texts(numbers)
    if exact is None:
        exact = pa.array(map(values.float_text, numbers.to_pylist()), pa.string())
    return pc.replace_with_mask(column, others, exact)


def whole_texts(numbers: pa.Array) -> pa.StringArray | None:
    """The digits of numbers that are all whole, and small enough for all digits to count; None for others."""
    is_exact = pc.and_(pc.equal(pc.trunc(numbers), numbers), pc.less(pc.abs(numbers), float(1 << 53)))
    if not pc.all(is_exact, min_count=0).as_py():
        return None
    return pc.cast(pc.cast(numbers, pa.int64()), pa.string())


def _moments(array: pa.Array) -> pa.StringArray:
    try:
        whole = pc.cast(array, pa.timestamp("s"))
    except pa.ArrowInvalid:
        return pa.array(
            [None if moment is None else values.datetime_text(moment) for moment in array.to_pylist()], pa.string()
        )
    return pc.binary_replace_slice(pc.cast(whole, pa.string()), 10, 11, "T")

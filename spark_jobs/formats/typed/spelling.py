"""Columns of texts and numbers as JSON writes them, by Arrow kernels; the few odd values by the exact rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, values
from spark_jobs.formats import cell_text

if TYPE_CHECKING:
    from collections.abc import Callable

_MUST_ESCAPE = '["\\\\\\x00-\\x1f]'
#: Days and moments, by what marks them: inside of a text there is a backslash between a brace and a quote. Of fractions
#: three digits are left where the others are zeros.
_TAGGED = [
    (b'{"$date":"', r'\{"\$date":"([^"]*)"\}'),
    (b'{"$datetime":"', r'\{"\$datetime":"([^".]*\.[0-9]{3})000"\}'),
    (b'{"$datetime":"', r'\{"\$datetime":"([^"]*)"\}'),
]
#: Decimals, which are numbers.
_DECIMAL = (b'{"$decimal":"', r'\{"\$decimal":"([^"]*)"\}')
#: Values with a spelling of their own: keys that begin with a dollar sign, NaN and infinities, and small floats.
_ODD = [(b"$", r'"\$\$|\{"\$float":'), (b"e-0", "[0-9]e-0")]
#: From here on Arrow writes floats with an exponent and JSON does not, up to 1e16.
_LARGE = 1e10


def escaped(column: pa.StringArray) -> pa.StringArray:
    """Escape texts as between the quotes of JSON."""
    data = cell_text.characters(column)
    if data.find(b'"') < 0 and data.find(b"\\") < 0 and (not data or np.frombuffer(data, np.uint8).min() >= ord(" ")):
        return column
    special = pc.fill_null(pc.match_substring_regex(column, _MUST_ESCAPE), False)
    exact = [values.json_text(text)[1:-1] for text in column.filter(special).to_pylist()]
    return pc.replace_with_mask(column, special, pa.array(exact, pa.string()))


def floats(array: pa.Array, smallest: float, exact: Callable[[float], str | None]) -> pa.StringArray:
    """Numbers with a decimal point; `exact` spells the numbers that Arrow would spell in another way.

    Args:
        array: the numbers.
        smallest: the smallest number that is written without exponent.
        exact: the rule.
    """
    size = pc.abs(array)
    text = pc.cast(array, pa.string())
    whole = pc.binary_join_element_wise(text, ".0", "")
    text = pc.if_else(pc.equal(pc.trunc(array), array), whole, text)
    usual = pc.and_(pc.less(size, _LARGE), pc.or_(pc.greater_equal(size, smallest), pc.equal(size, 0.0)))
    others = pc.fill_null(pc.invert(usual), False)
    if not pc.any(others).as_py():
        return text
    numbers = array.filter(others)
    digits = cell_text.whole_texts(numbers)
    if digits is not None:
        return pc.replace_with_mask(text, others, pc.binary_join_element_wise(digits, ".0", ""))
    return pc.replace_with_mask(text, others, pa.array(map(exact, numbers.to_pylist()), pa.string()))


def of_tagged(column: pa.StringArray) -> pa.StringArray:
    """Dynamic values, which are tagged JSON, as plain JSON: that is the same but for tags and small floats."""
    data = cell_text.characters(column)
    found = column
    if b"$" in data:
        for mark, pattern in _TAGGED:
            if mark in data:
                found = pc.replace_substring_regex(found, pattern=pattern, replacement=r'"\1"')
        if _DECIMAL[0] in data:
            found = pc.replace_substring_regex(found, pattern=_DECIMAL[1], replacement=r"\1")
        data = cell_text.characters(found)
    odd = [pattern for mark, pattern in _ODD if mark in data]
    if not odd:
        return found
    special = pc.fill_null(pc.match_substring_regex(column, "|".join(odd)), False)
    exact = [values.json_text(values.decode(text)) for text in column.filter(special).to_pylist()]
    return pc.replace_with_mask(found, special, pa.array(exact, pa.string()))


def tagged(array: pa.Array) -> pa.StringArray:
    """Texts, numbers, Decimals, bools, dates or moments as values of any kind (`values.encode`); null stays null."""
    if isinstance(array, pa.StringArray):
        return pc.binary_join_element_wise('"', escaped(array), '"', "")
    if pa.types.is_floating(array.type):
        # From here on Python's `repr` has no exponent.
        return floats(array, 1e-4, values.encode)
    if pa.types.is_decimal(array.type):
        return pc.binary_join_element_wise('{"$decimal":"', decimal_columns.texts(array), '"}', "")
    if pa.types.is_date(array.type):
        return pc.binary_join_element_wise('{"$date":"', pc.cast(array, pa.string()), '"}', "")
    if pa.types.is_timestamp(array.type):
        text = pc.binary_replace_slice(pc.cast(array, pa.string()), 10, 11, "T")
        if (pc.cast(array, pa.int64()).drop_null().to_numpy() % 1_000_000 == 0).any():
            text = pc.replace_substring_regex(text, pattern=r"\.000000$", replacement="")
        return pc.binary_join_element_wise('{"$datetime":"', text, '"}', "")
    return pc.cast(array, pa.string())

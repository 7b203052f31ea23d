"""Converts columns of records as a format schema demands: types, date formats, defaults, rounded numbers."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, decimals, types, values
from spark_jobs.cxl.dates import strftime
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.failure_columns import Reason
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, coerce
from spark_jobs.formats.blocks import Problems
from spark_jobs.formats.format import SourceColumn
from spark_jobs.formats.rules import applied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.cxl.types import Type
    from spark_jobs.nodes.output.shape import Shape, Written

#: More digits than any float has.
_DIGITS = 400
_DATES = (Kind.DATE, Kind.DATETIME)


def shaped(columns: Sequence[Written], arrays: list[pa.Array], count: int) -> tuple[list[pa.Array], Failures]:
    """The converted columns, and the failures of records whose values do not convert, do not fit, or are missing.

    Args:
        columns: the columns of the file.
        arrays: the records' values for these columns.
        count: the number of records.
    """
    problems = Problems(count)
    texts: dict[int, pa.StringArray] = {}
    found = []
    for number, (column, array) in enumerate(zip(columns, arrays, strict=True)):
        if column.shape is not None:
            array, texts[number] = _column(column, column.shape, array, problems, number)
        found.append(array)
    return found, problems.failures(texts, np.arange(count, dtype=np.int64))


def _column(
    column: Written, shape: Shape, array: pa.Array, problems: Problems, number: int
) -> tuple[pa.Array, pa.StringArray]:
    """A converted column, and its values as texts for messages. Failures are added to `problems`."""
    static = shape.value_type(column.read)
    texts = cell_text.texts(array, column.read)
    named = SourceColumn(column.name, static, shape.is_required)
    if static.kind is not column.read.kind or (static.kind is Kind.DECIMAL and not _has_digits(column.read, static)):
        array, failed = _converted(array, texts, column.read, static)
        problems.note(failed, coerce.no_conversion(named), number)
    if shape.rules is not None:
        array = applied.filled(array, shape.rules, static, blanks=False)
    if shape.is_required and array.null_count:
        missing = pc.indices_nonzero(pc.is_null(array)).to_numpy().astype(np.int64)
        problems.note(missing, coerce.absence(named), None)
    if shape.scale is not None and static.kind is Kind.FLOAT:
        array = _rounded(array, shape.scale)
    if shape.rules is not None and (not static.is_dynamic or static.kind is Kind.DECIMAL):
        for rule in applied.broken(array, shape.rules, static):
            category = Category.REQUIRED_CONVERSION if shape.is_required else Category.TYPE_COERCION
            reason = Reason(category, column.name, "'", f"' {rule.says}")
            problems.note(applied.rows_of(rule), reason, number)
    if shape.form is not None and static.kind in _DATES:
        array = _dates(array, shape.form)
    return array, texts


def _has_digits(read: Type, static: Type) -> bool:
    """True if all Decimals of the type `read` fit the digits that the type `static` declares."""
    scale = static.scale is None or read.scale == static.scale
    return scale and (static.precision is None or read.precision == static.precision)


def _converted(array: pa.Array, texts: pa.StringArray, read: Type, static: Type) -> tuple[pa.Array, np.ndarray]:
    """A column converted to another type. Dates become moments, moments become dates; others are read as text."""
    if static.kind is Kind.STRING:
        return texts, coerce.NO_ROWS
    if {read.kind, static.kind} == set(_DATES):
        target = pa.date32() if static.kind is Kind.DATE else pa.timestamp("us")
        return pc.cast(array, target, safe=False), coerce.NO_ROWS
    if read.kind is static.kind is Kind.DECIMAL:
        return _of_scale(array, read, static)
    if read.kind is Kind.DECIMAL and static.kind is Kind.INT:
        texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    # An empty text becomes null, like an empty cell that is read.
    given: pa.StringArray = pc.replace_with_mask(texts, pc.equal(texts, ""), pa.scalar(None, pa.string()))
    done = coerce.convert(given, static)
    return done.array, done.failed


def _of_scale(array: pa.Array, read: Type, static: Type) -> tuple[pa.Array, np.ndarray]:
    """Decimals rounded half away from zero to the scale of a type. Decimals that then have too many digits fail."""
    assert static.scale is not None
    if not read.is_dynamic:
        rounded, failed = decimal_columns.rescaled(array, static.scale)
        return rounded, coerce.NO_ROWS if failed is None else np.flatnonzero(failed)
    encoded = pc.dictionary_encode(array)
    numbers = values.from_arrow(encoded.dictionary, read)
    found = [decimals.rounded(number, static.scale) for number in numbers]
    done = values.to_arrow(found, static).take(encoded.indices)
    return done, pc.indices_nonzero(pc.and_(pc.is_null(done), pc.is_valid(array))).to_numpy().astype(np.int64)


def _rounded(array: pa.Array, scale: int) -> pa.Array:
    """Numbers rounded to `scale` digits after the decimal point, halves away from zero, through their decimal text."""
    texts = cell_text.texts(array, types.FLOAT)
    is_long = pc.fill_null(pc.match_substring_regex(texts, rf"\.[0-9]{{{scale + 1},}}$"), False)
    if not pc.any(is_long, min_count=0).as_py():
        return array
    encoded = pc.dictionary_encode(texts.filter(is_long))
    step = Decimal(1).scaleb(-scale)
    with localcontext(prec=_DIGITS):
        exact = [float(Decimal(text).quantize(step, ROUND_HALF_UP)) for text in encoded.dictionary.to_pylist()]
    return pc.replace_with_mask(array, is_long, pa.array(exact, pa.float64()).take(encoded.indices))


def _dates(array: pa.Array, form: str) -> pa.StringArray:
    """Dates and moments in a date format. Each distinct value is formatted once."""
    encoded = pc.dictionary_encode(array)
    written = [None if one is None else strftime.write(one, form) for one in encoded.dictionary.to_pylist()]
    return pa.array(written, pa.string()).take(encoded.indices)

"""Converts text columns to the declared types of a source.

One Arrow cast converts a whole column in the usual spelling. If the cast fails, only rows with another spelling
are converted by the exact rule of `text_to`, each distinct text once. Nothing is trimmed, and null stays null.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, decimals, values, written_numbers
from spark_jobs.cxl import hints as hinting
from spark_jobs.cxl.dates import zones
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.failure_columns import Reason, hints_of
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, date_forms, hints
from spark_jobs.formats.spelling import NUMBERS, USUAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from decimal import Decimal

    from spark_jobs.cxl.failure_columns import Rows
    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.format import Section, SourceColumn
    from spark_jobs.formats.spelling import Spelling

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_TRUE = ("true", "yes", "1", "on")
_FALSE = ("false", "no", "0", "off")
#: No row fails.
NO_ROWS = np.empty(0, dtype=np.int64)
_FIRST_DATE, _FIRST_MOMENT = date.min, datetime.min

#: Spellings that Arrow's cast reads as we do; other spellings go to the exact rule.
_USUAL = {
    Kind.INT: r"^-?[0-9]{1,18}$",
    Kind.FLOAT: r"^-?[0-9]+(\.[0-9]+)?$",
    Kind.DATE: r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$",
    Kind.DATETIME: (
        r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])[T ]"
        r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$"
    ),
}


@dataclass
class Converted:
    """A column of a declared type, and the rows whose text did not convert (null in `array`), ascending."""

    array: pa.Array
    failed: Rows


def convert(
    column: pa.StringArray, static: Type, date_formats: tuple[str, ...] = (), spelling: Spelling = USUAL
) -> Converted:
    """The values of a text column. Null stays null; a text that does not convert is null and listed.

    Containers are dynamic: a source cannot declare the types of their elements.
    """
    if spelling.is_usual:
        return _convert_usual(column, static, date_formats)
    return _convert_spelled(column, static, date_formats, spelling)


def _convert_spelled(
    column: pa.StringArray, static: Type, date_formats: tuple[str, ...], spelling: Spelling
) -> Converted:
    """The values of texts that are turned into the usual spelling first."""
    if static.kind is Kind.BOOL and spelling.spells_truth:
        column = _usual_truths(column, spelling)
    if static.kind not in NUMBERS or not spelling.spells_numbers:
        return _convert_usual(column, static, date_formats)
    numbers, odd = _usual_numbers(column, spelling)
    done = _convert_usual(numbers, static, date_formats)
    if not len(odd):
        return done
    return Converted(done.array, np.union1d(done.failed, odd))


def without_nulls(column: pa.StringArray, words: tuple[str, ...]) -> pa.StringArray:
    """Texts, with null in place of the words that stand for null."""
    if not words:
        return column
    is_null = pc.is_in(column, value_set=pa.array(words, pa.string()))
    if not pc.any(is_null, min_count=0).as_py():
        return column
    return cast("pa.StringArray", pc.if_else(is_null, pa.scalar(None, pa.string()), column))


def _usual_truths(column: pa.StringArray, spelling: Spelling) -> pa.StringArray:
    words = pa.array(list(spelling.truths), pa.string())
    usual = pa.array(["true" if truth else "false" for truth in spelling.truths.values()], pa.string())
    written = pc.index_in(pc.ascii_lower(column), value_set=words)
    return pc.coalesce(usual.take(written), column)


def _usual_numbers(column: pa.StringArray, spelling: Spelling) -> tuple[pa.StringArray, Rows]:
    """Numbers in the usual spelling, and the rows with texts that are no numbers of this one, which are null."""
    fits = pc.match_substring_regex(column, spelling.number)
    odd = pc.fill_null(pc.invert(fits), False)
    has_odd = pc.any(odd, min_count=0).as_py()
    if has_odd:
        column = cast("pa.StringArray", pc.if_else(fits, column, pa.scalar(None, pa.string())))
    data = cell_text.characters(column)
    for mark in spelling.grouping:
        if mark.encode() in data:
            column = pc.replace_substring(column, mark, "")
    if spelling.decimal_separator.encode() in data:
        column = pc.replace_substring(column, spelling.decimal_separator, ".")
    return column, _rows(odd) if has_odd else NO_ROWS


def _convert_usual(column: pa.StringArray, static: Type, date_formats: tuple[str, ...]) -> Converted:
    if static.kind is Kind.STRING:
        return Converted(column, NO_ROWS)
    if static.kind is Kind.BOOL:
        return _convert_bool(column)
    usual = _cast_all(column, static) if column.null_count < len(column) else None
    if usual is not None:
        return Converted(usual, NO_ROWS)
    return _convert_some(column, static, date_formats)


def no_conversion(column: SourceColumn, hint: str = "") -> Reason:
    """The reason of failures for texts that do not convert to a column's type."""
    category = Category.REQUIRED_CONVERSION if column.required else Category.TYPE_COERCION
    return Reason(category, column.name, "conversion failed: cannot convert '", f"' to {_named(column.type)}{hint}")


def _named(static: Type) -> str:
    """The kind of a type, with the digits that Decimals are declared with: a number may have too many."""
    digits = "" if static.precision is None else f"({static.precision},{static.scale})"
    return f"{static.kind}{digits}"


def no_conversions(column: SourceColumn, found: pa.Array, failed: Rows) -> Iterator[tuple[Rows, Reason]]:
    """Rows whose value does not convert, with the reason; known misspellings get a more helpful reason."""
    known = hinting.of_kind(hints.of_column(column), column.type.kind)
    if not known or not len(failed) or not isinstance(found, pa.StringArray):
        yield failed, no_conversion(column)
        return
    for chosen, words in hints_of(found.take(pa.array(failed)), known, column.type.kind):
        yield failed[chosen.to_numpy(zero_copy_only=False)], no_conversion(column, words)


def absence(column: SourceColumn) -> Reason:
    """The reason of failures for records without a value in a required column."""
    return Reason(Category.MISSING_REQUIRED, column.name, f"missing required field '{column.name}'")


def failure_of(column: SourceColumn, text: str) -> Failure:
    """The failure of a text that does not convert to a column's type."""
    reason = no_conversion(column, hinting.of_text(hints.of_column(column), column.type.kind, text))
    return Failure(f"{reason.before}{text}{reason.after}", reason.category, text, column.name)


def absence_of(column: SourceColumn) -> Failure:
    """The failure of a record without a value in a required column."""
    reason = absence(column)
    return Failure(reason.before or "", reason.category, None, column.name)


def text_to(text: str, kind: Kind, date_formats: tuple[str, ...] = ()) -> Any:
    """The value of a text under a declared kind.

    Raises:
        ValueError: the text does not convert.
    """
    return _RULES[kind](text, date_formats)


# ---- values of envelope sections: one that does not convert ends the run ---------------------------


class UnfitSection(Exception):
    """A value of a section does not convert; the message says which."""


def section_of_texts(section: Section, texts: Mapping[str, str | None], forms: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a section's fields by their paths, without absent and empty ones.

    Args:
        section: the section.
        texts: the file's values, by field.
        forms: the forms of dates that the pipeline knows.

    Raises:
        UnfitSection: a text does not convert.
    """
    found = {name: text for name, text in texts.items() if text}
    return section_of(section, found, lambda text, kind: text_to(text, kind, forms), str)


def section_of(
    section: Section,
    found: Mapping[str, Any],
    convert: Callable[[Any, Kind], Any],
    shown: Callable[[Any], str],
) -> dict[str, Any]:
    """The fields of a section that holds values of any kind.

    Args:
        section: the section.
        found: the file's values, by field.
        convert: converts a value; raises `ValueError` where it does not.
        shown: formats a value for messages.

    Raises:
        UnfitSection: a value does not convert.
    """
    values: dict[str, Any] = {}
    for name, static in section.fields:
        value = found.get(name)
        if value is None:
            continue
        try:
            values[section.path(name)] = _as_declared(convert(value, static.kind), static)
        except ValueError:
            kind = static.non_null()
            text = f"section '{section.name}': field '{name}': cannot convert '{shown(value)}' to {kind}"
            raise UnfitSection(text) from None
    return values


def _as_declared(value: Any, static: Type) -> Any:
    """A value with the digits of its type. Raises `ValueError` where it would have to be rounded or cut."""
    if static.kind is not Kind.DECIMAL:
        return value
    found = decimals.declared(value, static.precision, static.scale)
    if found is None:
        raise ValueError(value)
    return found


# ---- whole columns -------------------------------------------------------------------------------


def _cast_all(column: pa.StringArray, static: Type) -> pa.Array | None:
    """The whole column by one cast, or None when some row needs the exact rule."""
    try:
        match static.kind:
            case Kind.DECIMAL if static.scale is not None:
                return decimal_columns.of_texts(column, static.precision, static.scale)
            case Kind.INT:
                return None if _has_any(column, b"xX") else pc.cast(column, pa.int64())
            case Kind.FLOAT:
                return None if _has_any(column, b"(") else pc.cast(column, pa.float64())
            case Kind.DATE:
                return _in_range(pc.cast(column, pa.date32()), _FIRST_DATE)
            case Kind.DATETIME:
                lengths = pc.min_max(pc.binary_length(column)).as_py()
                if lengths["min"] != 19 or lengths["max"] != 19:
                    return None
                return _in_range(pc.cast(column, pa.timestamp("us")), _FIRST_MOMENT)
            case _:
                return None
    except pa.ArrowInvalid:
        return None


def _has_any(column: pa.StringArray, characters: bytes) -> bool:
    """Whether a character stands in the column that Arrow's cast understands and we do not: `0x1F`, `nan(ind)`."""
    data = cell_text.characters(column)
    return any(data.find(character) >= 0 for character in characters)


def _in_range(array: pa.Array, first: date) -> pa.Array | None:
    """The array, unless it reaches before year 1; later than 9999 cannot be spelled."""
    is_too_early = pc.less(pc.min(array), pa.scalar(first, array.type))
    return None if is_too_early.as_py() else array


def _convert_bool(column: pa.StringArray) -> Converted:
    spelling = pc.index_in(pc.ascii_lower(column), value_set=pa.array(_TRUE + _FALSE))
    array = pc.less(spelling, pa.scalar(len(_TRUE), pa.int32()))
    if array.null_count == column.null_count:
        return Converted(array, NO_ROWS)
    return Converted(array, _rows(pc.and_(pc.is_valid(column), pc.is_null(array))))


def _rows(mask: pa.BooleanArray) -> Rows:
    rows: Rows = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return rows


# ---- rows that are spelled in another way --------------------------------------------------------


def _convert_some(column: pa.StringArray, static: Type, date_formats: tuple[str, ...]) -> Converted:
    """The usually spelled rows by a cast, the others by the exact rule, each distinct text once."""
    target = values.arrow_type(static)
    pattern = _USUAL.get(static.kind)
    usual: pa.Array
    if static.kind is Kind.DECIMAL:
        is_usual = pc.fill_null(_usual_decimals(column, static), False)
        digits = pc.if_else(is_usual, column, None)
        if static.is_dynamic:
            usual = pc.binary_join_element_wise('{"$decimal":"', digits, '"}', "")
        else:
            usual = pc.cast(digits, target)
        others = pc.and_(pc.is_valid(column), pc.is_null(usual))
    elif pattern is None:
        usual = pa.nulls(len(column), target)
        others = pc.is_valid(column)
    else:
        is_usual = pc.fill_null(pc.match_substring_regex(column, pattern), False)
        usual = pc.cast(pc.if_else(is_usual, column, None), target)
        if static.kind in (Kind.DATE, Kind.DATETIME):
            first = pa.scalar(_FIRST_DATE if static.kind is Kind.DATE else _FIRST_MOMENT, target)
            usual = pc.if_else(pc.less(usual, first), None, usual)
        usual = _with_offsets(column, usual, static, date_formats)
        others = pc.and_(pc.is_valid(column), pc.is_null(usual))
    if not pc.any(others).as_py():
        return Converted(usual, NO_ROWS)
    encoded = pc.dictionary_encode(column.filter(others))
    rule = _declared(static) if static.kind is Kind.DECIMAL else _rule(static.kind, date_formats)
    converted = values.to_arrow([rule(text) for text in encoded.dictionary.to_pylist()], static)
    array = pc.replace_with_mask(usual, others, converted.take(encoded.indices))
    return Converted(array, _rows(pc.and_(others, pc.is_null(array))))


def _usual_decimals(column: pa.StringArray, static: Type) -> pa.Array:
    """A mask of texts that are Decimals in canonical form: all digits of the scale, no leading zeros, no minus zero."""
    if static.scale is None:
        digits = r"(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?"
    else:
        room = (static.precision or decimals.MAX_DIGITS) - static.scale
        whole = f"(0|[1-9][0-9]{{0,{room - 1}}})" if room else "0"
        digits = whole + (rf"\.[0-9]{{{static.scale}}}" if static.scale else "")
    return pc.and_not(pc.match_substring_regex(column, rf"^-?{digits}$"), pc.match_substring_regex(column, r"^-[0.]+$"))


def _declared(static: Type) -> Callable[[str], Decimal | None]:
    """The exact rule for Decimals of a declared type."""

    def convert(text: str) -> Decimal | None:
        return decimals.of_declared(text, static.precision, static.scale)

    return convert


def _with_offsets(column: pa.StringArray, usual: pa.Array, static: Type, date_formats: tuple[str, ...]) -> pa.Array:
    """The values, completed by the texts whose offset the first format reads in the local time of its zone."""
    found = date_forms.usual_offset(date_formats) if static.kind in (Kind.DATE, Kind.DATETIME) else None
    if found is None:
        return usual
    pattern, zone = found
    has_offset = pc.and_(pc.is_null(usual), pc.fill_null(pc.match_substring_regex(column, pattern), False))
    if not pc.any(has_offset, min_count=0).as_py():
        return usual
    moments = pc.cast(column.filter(has_offset), pa.timestamp("us", "UTC"))
    return pc.replace_with_mask(usual, has_offset, pc.cast(_local(moments, zone), usual.type, safe=False))


#: Within so many microseconds a zone changes its time once at most.
_QUARTER = 900_000_000


def _local(moments: pa.Array, zone: str) -> pa.Array:
    """Moments in the local time of a zone; null outside the years 1 to 9999, here or in UTC, as single texts are."""
    utc = moments.cast(pa.int64()).to_numpy()
    quarters, places = np.unique(utc // _QUARTER, return_inverse=True)
    offsets = np.zeros(len(quarters), dtype=np.int64)
    uneven: set[int] = set()
    for place, quarter in enumerate(quarters.tolist()):
        offsets[place] = _utc_offset(quarter * _QUARTER, zone)
        if _utc_offset(quarter * _QUARTER + _QUARTER - 1, zone) != offsets[place]:
            uneven.add(place)
    there = utc + offsets[places]
    for row in np.flatnonzero(np.isin(places, list(uneven))).tolist() if uneven else ():
        there[row] = utc[row] + _utc_offset(int(utc[row]), zone)
    outside = (np.minimum(utc, there) < _MOMENTS[0]) | (np.maximum(utc, there) > _MOMENTS[1])
    return pa.array(there, pa.int64(), mask=outside).cast(pa.timestamp("us"))


_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
#: The first and the last moment that there is.
_MOMENTS = (datetime.min - _EPOCH) // _MICROSECOND, (datetime.max - _EPOCH) // _MICROSECOND


def _utc_offset(utc: int, zone: str) -> int:
    """The offset of a zone from UTC in microseconds."""
    inside = min(max(utc, _MOMENTS[0]), _MOMENTS[1])
    return zones.offset(_EPOCH + timedelta(microseconds=inside), zone) // _MICROSECOND


@lru_cache(maxsize=64)
def _rule(kind: Kind, date_formats: tuple[str, ...]) -> Callable[[str], Any]:
    return partial(_value_or_none, kind=kind, date_formats=date_formats)


def _value_or_none(text: str, kind: Kind, date_formats: tuple[str, ...]) -> Any:
    try:
        return text_to(text, kind, date_formats)
    except ValueError:
        return None


# ---- the exact rules -----------------------------------------------------------------------------


def _to_int(text: str, _: tuple[str, ...]) -> int:
    if not _INT.fullmatch(text) or len(text) > 1000:
        raise ValueError(text)
    number = int(text)
    if not values.MIN_INT <= number <= values.MAX_INT:
        raise ValueError(text)
    return number


def _to_float(text: str, _: tuple[str, ...]) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _to_decimal(text: str, _: tuple[str, ...]) -> Decimal:
    number = decimals.of_text(text)
    if number is None:
        raise ValueError(text)
    return number


def _to_numeric(text: str, formats: tuple[str, ...]) -> int | float:
    try:
        return _to_int(text, formats)
    except ValueError:
        return _to_float(text, formats)


def _to_bool(text: str, _: tuple[str, ...]) -> bool:
    spelling = text.lower() if text.isascii() else text
    if spelling in _TRUE:
        return True
    if spelling in _FALSE:
        return False
    raise ValueError(text)


def _to_json(text: str, _: tuple[str, ...], kind: type) -> Any:
    """A container in a text cell is plain JSON, as our own writers put it there."""
    try:
        number = written_numbers.number_of
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=number, parse_float=number)
    except RecursionError:
        raise ValueError(text) from None
    if not isinstance(value, kind):
        raise ValueError(text)
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _to_string(text: str, _: tuple[str, ...]) -> str:
    return text


def _to_null(text: str, _: tuple[str, ...]) -> Any:
    raise ValueError(text)


_RULES: dict[Kind, Callable[[str, tuple[str, ...]], Any]] = {
    Kind.NULL: _to_null,
    Kind.BOOL: _to_bool,
    Kind.INT: _to_int,
    Kind.FLOAT: _to_float,
    Kind.DECIMAL: _to_decimal,
    Kind.STRING: _to_string,
    Kind.DATE: date_forms.to_date,
    Kind.DATETIME: date_forms.to_datetime,
    Kind.ARRAY: partial(_to_json, kind=list),
    Kind.MAP: partial(_to_json, kind=dict),
    Kind.NUMERIC: _to_numeric,
    Kind.ANY: _to_string,
}

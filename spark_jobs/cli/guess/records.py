"""The source that would read JSON: where its records are, and the types of their members."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.guess import source, values
from spark_jobs.cli.guess.source import Guess
from spark_jobs.cxl import values as cxl_values
from spark_jobs.cxl import written_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Objects within objects become dotted columns, so far down.
_MOST_LEVELS = 4
_MOST_RECORDS = 200_000
#: A text that is a number whose leading zeros say nothing.
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)

#: How an array begins: an array of objects, of arrays, or an empty one; and an array of other values.
_ARRAY, _VALUES = re.compile(r"\[\s*[\[{\]]"), re.compile(r'\[\s*(?:["0-9-]|true|false|null)')
#: Explanations of the decoder's messages.
_BROKEN = {
    "Extra data": "something follows the value: write one array, or each value on a line of its own",
    "Expecting value": "a value is missing, perhaps after a comma",
    "Expecting property name enclosed in double quotes": "a name in double quotes is missing, perhaps after a comma",
    "Expecting ',' delimiter": "a comma is missing",
    "Expecting ':' delimiter": "a colon is missing",
    "Invalid control character at": "a text has a line end or another control character",
    "Invalid \\escape": "a backslash begins no escape",
    "Unterminated string starting at": "a text is never closed",
}

#: A number that surely fits an Int.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@dataclass
class _Member:
    """Observations about a member.

    Args:
        kinds: the kinds of its values with their counts.
        texts: its texts with their counts.
        others: its numbers, to recognise keys.
        numbers: the texts of its fractions.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    numbers: set[str] = field(default_factory=set)


class _Fraction(float):
    """A number with a point or an exponent that remembers its text."""

    text: str


def _fraction(text: str) -> _Fraction:
    found = _Fraction(text)
    found.text = text
    return found


class NoRecords(Exception):
    """A text is no JSON, or has no records that a source could read; the message says why."""


def seems_json(text: str) -> bool:
    """Whether a text begins as JSON does."""
    return text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") and bool(text.strip())


def is_json(text: str) -> bool:
    """Whether a text that begins as JSON does is JSON, though it may be broken."""
    start = text.lstrip("\ufeff \t\r\n")
    return start.startswith("{") or bool(_ARRAY.match(start) or (_VALUES.match(start) and start.rstrip()[-1] == "]"))


def guess(text: str, pieces: Iterable[str], *, is_whole: bool) -> tuple[Guess, int]:
    """The source that reads a text, and how many records were looked at.

    Args:
        text: the beginning of the file, or all of it.
        pieces: ranges from the rest of it.
        is_whole: whether the text is all of the file.

    Raises:
        NoRecords: it has no records.
    """
    options, records, remarks = _records(text, list(pieces), is_whole=is_whole)
    members: dict[str, _Member] = {}
    count = 0
    for record in records[:_MOST_RECORDS]:
        count += 1
        _note(record, members, "", 1)
    if not count:
        raise NoRecords("it has no records")
    if not members:
        raise NoRecords("its objects have no members with names")
    if any(not key.strip() for record in records[:_MOST_RECORDS] for key in record):
        remarks = [*remarks, "members without a name are left out"]
    # An object that is null in some records has its members as columns, and none of its own.
    objects = {name.rpartition(".")[0] for name in members if "." in name}
    columns = [
        _column(name, member, count)
        for name, member in members.items()
        if name not in objects or set(member.kinds) - {"null"}
    ]
    made = Guess("", [], "json", options, columns)
    made.remarks += [*values.column_notes(columns), *remarks]
    for column in columns:
        made.doubts += [f"column {values.shown(column.name)}: {one.text}" for one in column.remarks if one.is_doubt]
    return made, count


def _records(text: str, pieces: list[str], *, is_whole: bool) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The options, the records, and remarks about them."""
    start = text.lstrip("\ufeff \t\r\n")
    by_line = list(_of_lines([start], is_whole=is_whole))
    if start[0] == "{" and by_line and (len(by_line) > 1 or not _path(by_line[0][1])):
        by_line += list(_of_lines(pieces, is_whole=False))
        broken = [number for number, record in by_line if record is None]
        remarks = [f"{len(broken)} lines are no JSON object, such as line {broken[0]}"] if broken else []
        records = [record for _, record in by_line if record is not None]
        if records:
            return {"format": "ndjson"}, records, remarks
    if not is_whole:
        return _of_large_array(start)
    try:
        value = json.loads(start, parse_float=_fraction)
    except json.JSONDecodeError as error:
        said = _BROKEN.get(error.msg, error.msg)
        raise NoRecords(f"it is broken JSON, line {error.lineno}, column {error.colno}: {said}") from None
    except RecursionError:
        raise NoRecords("its values are nested too deeply") from None
    except ValueError as error:  # a number of very many digits
        raise NoRecords(f"it is broken JSON: {error}") from None
    if isinstance(value, list):
        return {"format": "array"}, _objects(value), []
    path = _path(value)
    if path is None:
        return {}, [value], []
    found = value
    for key in path:
        found = found[key]
    options = {"format": "object", "record_path": "$." + ".".join(path)}
    return options, _objects(found), [f"what stands beside `{options['record_path']}` is not read"] * (len(value) > 1)


def _objects(found: list[Any]) -> list[dict[str, Any]]:
    objects = [one for one in found if isinstance(one, dict)]
    if not objects:
        raise NoRecords("its array has no objects")
    return objects


def _of_lines(texts: Iterable[str], *, is_whole: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The object of each line; None for other lines. The first and the last line of a range may be cut."""
    for text in texts:
        lines = text.split("\n")
        if not is_whole:
            lines = lines[:-1]
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line, parse_float=_fraction)
            except (ValueError, RecursionError):
                if number == 1 and not line.startswith("{"):
                    continue
                value = None
            if number <= 3 and value is None and len(lines) > number:
                return  # an object over several lines
            yield number, value if isinstance(value, dict) else None


def _of_large_array(start: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The first elements of an array that was not read whole."""
    if not start.startswith("["):
        raise NoRecords("it is one object of more than 16 MiB; say `record_path` yourself")
    decoder, at, records = json.JSONDecoder(parse_float=_fraction), 1, []
    while True:
        while at < len(start) and start[at] in ", \t\r\n":
            at += 1
        try:
            value, at = decoder.raw_decode(start, at)
        except (ValueError, RecursionError):
            break
        if isinstance(value, dict):
            records.append(value)
    if not records:
        raise NoRecords("its array has no objects")
    return {"format": "array"}, records, ["an array: its first records were looked at alone"]


def _path(value: Any, before: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """The path to the longest array of objects within an object."""
    best: tuple[int, tuple[str, ...]] | None = None
    waiting = [(before, value)]
    while waiting:
        path, one = waiting.pop()
        if not isinstance(one, dict) or len(path) > 3:
            continue
        for key, member in one.items():
            if isinstance(member, list) and member and isinstance(member[0], dict) and "." not in key:
                if best is None or len(member) > best[0]:
                    best = len(member), (*path, key)
            elif isinstance(member, dict) and "." not in key:
                waiting.append(((*path, key), member))
    return best[1] if best else None


def _note(record: dict[str, Any], members: dict[str, _Member], before: str, level: int) -> None:
    for key, value in record.items():
        if not key.strip():
            continue  # no column is called so
        name = before + key
        if isinstance(value, dict) and value and level < _MOST_LEVELS and "." not in key:
            _note(value, members, name + ".", level + 1)
            continue
        member = members.setdefault(name, _Member())
        kind = _kind(value)
        member.kinds[kind] += 1
        if kind == "string":
            member.texts[value] += 1
        elif kind == "int":
            member.others[str(value)] += 1
        elif kind == "float" and value.__class__ is _Fraction:
            member.numbers.add(value.text)


def _keep_digits(column: values.Column, written: Sequence[str]) -> None:
    """Have a column of Floats be exact if one of its numbers is no Float."""
    longest = next(filter(_is_rounded, written), None)
    if column.type == "float" and longest is not None:
        values.exact(column, written, longest)


def _is_rounded(text: str) -> bool:
    """Whether a Float does not keep the digits of a number."""
    is_short = len(text) <= sys.float_info.dig and "e" not in text.lower()
    return not is_short and not written_numbers.is_spelled(float(text), text)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int" if cxl_values.MIN_INT <= value <= cxl_values.MAX_INT else "large"
        case float():
            return "float"
        case str():
            return "string"
        case list():
            return "array"
    return "map"


def _numbers_as_texts(column: values.Column, texts: Counter[str], *, is_unique: bool) -> Iterator[values.Remark]:
    """How a column of texts is declared if programs compute with them: all are numbers, or words for nothing.

    Whole numbers that are all different are taken for keys.
    """
    nulls = sorted(text for text in texts if values.is_null_word(text) or not text.strip())
    numbers = [text for text in texts if text not in nulls]
    is_whole = all(map(_WHOLE.fullmatch, numbers))
    is_key = is_whole and is_unique and len(texts) == texts.total()
    if column.type != "string" or not numbers or is_key or not all(map(_NUMBER.fullmatch, numbers)):
        return
    keys = f"type: {'int' if is_whole else 'float'}"
    if nulls:
        keys += f", null_values: {source.value(nulls)}"
    yield values.Remark(f"numbers written as texts: to compute with them, {keys}")


def _column(name: str, member: _Member, records: int) -> values.Column:
    kinds = set(member.kinds) - {"null"}
    column = values.Column(name)
    if not kinds:
        column.remarks.append(values.Remark("null everywhere"))
    elif kinds == {"string"}:
        column = values.moments_or_days(name, member.texts)
        column.remarks += _numbers_as_texts(column, member.texts, is_unique=member.texts.total() == records)
    elif kinds <= {"int", "float"}:
        column.type = "float" if "float" in kinds else "int"
        _keep_digits(column, [*member.numbers, *member.others])
    elif "large" in kinds and kinds <= {"int", "float", "large", "string"}:
        column.remarks.append(values.Remark("text: some numbers are beyond 64 bits"))
    elif len(kinds) == 1:
        column.type = kinds.pop()
    elif kinds <= {"int", "float", "string"} and all(map(_NUMBER.fullmatch, member.texts)):
        is_whole = "float" not in kinds and all(map(_WHOLE.fullmatch, member.texts))
        column.type = "int" if is_whole else "float"
        _keep_digits(column, [*member.numbers, *member.others, *member.texts])
        column.notes.append(f"texts such as {values.shown(next(iter(member.texts)))} are read as numbers")
    else:
        column.type = "any"
        said = "values of several kinds: " + ", ".join(sorted(kinds))
        column.remarks.append(values.Remark(said, is_doubt=bool(kinds & {"int", "float"})))
    found = member.texts if member.texts else member.others
    column.is_unique = records > 1 and len(found) == found.total() == records
    return column

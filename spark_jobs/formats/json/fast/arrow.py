"""Arrow's JSON reader with everything refused that it would read in another way than the exact reader.

It takes several objects on a line and one object on several, stops at a NUL, knows NaN and infinities, does not look at
encodings, lets objects nest without end, and can crash on a null between objects. All of that is looked for in the
bytes first, by scans that cost little beside the parsing. It refuses by itself: half surrogates, control
characters in texts, a column that stands in an object twice, values of another kind than the column's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import json

from spark_jobs.cxl import values
from spark_jobs.formats.json.fast import uniform
from spark_jobs.formats.json.texts import decoding
from spark_jobs.formats.json.texts.portions import count_of
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from spark_jobs.formats.json.texts.portions import Portion
    from spark_jobs.tuning import Tuning

_NOT_A_NUMBER = re.compile(rb"[:\[,\s-](?:NaN|Inf(?:inity)?)\s*[,\]}]")
_NULL_AFTER_OBJECT = re.compile(rb"\}\s*n")
#: A key that is written with an escape. Keys are followed by a colon, texts never are.
ESCAPED_KEY = re.compile(rb'\\[^"]*"\s*:')
_ROW = re.compile(r" in row (\d+)")
_NO_INT = re.compile(r"to int64, couldn't parse:(\S+)")
_OTHER_KIND = re.compile(r"Column\(.*/(.*)\) changed from \w+ to (\w+)")
#: How values of each kind begin.
_BEGINNINGS = {"string": b'"', "number": b"[-0-9]", "boolean": b"[tf]", "object": b"\\{", "array": b"\\["}


class Refused(Exception):
    """A text that is not read in the quick way.

    Args:
        row: which object is the reason, counted from 0, if that is known.
        spelling: how such values stand in the text, if that is known; others may look like it.
    """

    def __init__(self, row: int | None = None, spelling: re.Pattern[bytes] | None = None) -> None:
        super().__init__(row, spelling)
        self.row = row
        self.spelling = spelling


class NoInt(Exception):
    """A text that has another number in a column of ints.

    Args:
        number: how it is written.
    """

    def __init__(self, number: str) -> None:
        super().__init__(number)
        self.number = number


def traps(lines: Portion) -> set[int]:
    """Which of the likely objects Arrow's reader must not see, by their rows; some others too."""
    text = lines.objects
    found: set[int] = set()
    # A single byte is found many times faster than several. Each object ends with its line.
    if count_of(text, b"}") > len(lines.places):
        found.update(lines.row(match.start() + 1) for match in _NULL_AFTER_OBJECT.finditer(text))
    if (b"N" in text and b"NaN" in text) or (b"I" in text and b"Inf" in text):
        found.update(lines.row(match.start() + 1) for match in _NOT_A_NUMBER.finditer(text))
    brackets = text.count(b"[") if b"[" in text else 0
    if count_of(text, b"{") + brackets - len(lines.places) >= decoding.MAX_DEPTH:
        found.update(row for row, line in enumerate(text.splitlines()) if decoding.may_be_deep(line, b"[", b"{"))
    if b"\0" in text or not _is_text(text):
        found.update(row for row, line in enumerate(text.splitlines()) if b"\0" in line or not _is_text(line))
    return found


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read(
    text: bytes,
    count: int,
    schema: pa.Schema,
    unexpected: str = "ignore",
    tuning: Tuning = DEFAULT,
    written: uniform.Written | None = None,
) -> pa.Table:
    """The values of some objects.

    Args:
        text: one likely object a line, with LF between them and without traps.
        count: how many they are.
        schema: the columns to read.
        unexpected: the treatment of members that the schema lacks: `ignore`, `infer` or `error`.
        tuning: how many objects are read as arrays of bytes.
        written: is told how doubles are written, where that is seen.

    Raises:
        Refused: at least one object needs the exact way.
        NoInt: the same because of its number.
    """
    if unexpected == "ignore":
        found = uniform.read(text, count, schema, tuning.json_uniform_objects, written=written)
        if found is not None:
            return found
    try:
        table = json.read_json(
            pa.BufferReader(text),
            # Of one block, so that rows in messages count from its beginning.
            read_options=json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise _refusal(str(problem)) from None
    if table.num_rows != count:
        raise Refused
    return table


def member(name: str, value: bytes) -> re.Pattern[bytes]:
    """Make a pattern that finds a member of objects in a text, if its name is written without escapes."""
    return re.compile(re.escape(values.json_text(name).encode()) + rb"\s*:\s*" + value)


def may_have(name: str, value: bytes, text: bytes) -> bool:
    """Whether some object may have such a member; false only if none has."""
    if '"' in name or "\\" in name or (b"\\" in text and ESCAPED_KEY.search(text)):
        return True
    return member(name, value).search(text) is not None


def _refusal(message: str) -> Refused | NoInt:
    if found := _NO_INT.search(message):
        return NoInt(found[1])
    row = int(found[1]) if (found := _ROW.search(message)) else None
    if (found := _OTHER_KIND.search(message)) and found[2] in _BEGINNINGS:
        return Refused(row, member(found[1], _BEGINNINGS[found[2]]))
    return Refused(row)

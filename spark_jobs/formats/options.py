"""The options of each format, as sources and outputs write them under `options:`.

Plain frozen dataclasses without any import of their own: plans hold them, and they travel to executors pickled.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written down (spec/formats.md 3; decisions 54 and 55).

    Args:
        delimiter: the character between fields.
        quote_char: the character around fields; it is doubled inside them.
        has_header: whether the first record names the columns (sources only).
        encoding: an encoding by its Python name. A UTF-8 byte order mark is always skipped on reading.
    """

    delimiter: str = ","
    quote_char: str = '"'
    has_header: bool = True
    encoding: str = "utf-8"


class JsonLayout(StrEnum):
    """How records stand in a JSON file: elements of one array, one per line, or somewhere inside one object."""

    ARRAY = "array"
    NDJSON = "ndjson"
    OBJECT = "object"


@dataclass(frozen=True)
class JsonOptions:
    """How a JSON file is written down (spec/formats.md 4).

    Args:
        format: the layout; None finds it out from the first character on reading, and is an array on writing.
        record_path: where the array of records is, as `$.a.b`, `a.b` or `/a/b` (sources only).
        pretty: whether objects are written over several lines with two blanks of indentation (outputs only).
        encoding: an encoding by its Python name.
    """

    format: JsonLayout | None = None
    record_path: str | None = None
    pretty: bool = False
    encoding: str = "utf-8"


#: What Python has for names of hosts and for texts inside programs: they encode a text as a whole, or not its lines.
_NOT_FOR_FILES = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})


def encoding_problem(encoding: str) -> str | None:
    """Why an encoding cannot be used, or None when it can (decision 55)."""
    try:
        info = codecs.lookup(encoding)
    except (LookupError, ValueError):
        return f"unknown encoding '{encoding}'"
    if not info._is_text_encoding or info.name in _NOT_FOR_FILES:
        return f"'{encoding}' is no encoding of text files"
    return None


def missing_character(text: str, encoding: str) -> str | None:
    """The first character of a text that an encoding lacks, or None when it has all."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        return text[error.start]
    return None


def unwritable(character: str, encoding: str) -> str:
    """What is wrong with a character that an encoding lacks."""
    return f"character '{character}' (U+{ord(character):04X}) cannot be written as {encoding}"


def character_problem(text: str) -> str | None:
    """Why a text cannot be a delimiter or a quote character, or None when it can."""
    if len(text) != 1:
        return f"expected one character, found {len(text)}"
    if text in "\r\n\0" or not text.isascii():
        return "expected one ASCII character that is neither a line end nor U+0000"
    return None


def csv_problems(options: CsvOptions) -> list[tuple[str, str]]:
    """What is wrong with CSV options: pairs of an option's key and a message."""
    problems = []
    for key, value in (("delimiter", options.delimiter), ("quote_char", options.quote_char)):
        if (problem := character_problem(value)) is not None:
            problems.append((key, problem))
    if not problems and options.delimiter == options.quote_char:
        problems.append(("quote_char", "the quote character must differ from the delimiter"))
    if (problem := encoding_problem(options.encoding)) is not None:
        problems.append(("encoding", problem))
    return problems


def json_problems(options: JsonOptions) -> list[tuple[str, str]]:
    """What is wrong with JSON options: pairs of an option's key and a message."""
    problems = []
    if options.format is JsonLayout.OBJECT and options.record_path is None:
        problems.append(("format", "format: object requires record_path"))
    if (problem := encoding_problem(options.encoding)) is not None:
        problems.append(("encoding", problem))
    return problems

"""What is wrong with the texts of options: encodings, characters."""

from __future__ import annotations

import codecs

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

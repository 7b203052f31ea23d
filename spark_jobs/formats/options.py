"""Declares the `options:` of formats and checks their texts.

Options are frozen dataclasses: plans hold them, and they travel to executors pickled, where there is no pydantic. The
models that check the configuration are generated from them (`nodes/formats.py`): the type of a field determines the
accepted values, and its line under `Args:` is its line in the reference. No field has the name of a method.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from spark_jobs.cxl.types import Kind
from spark_jobs.formats.spelling import USUAL, Spelling
from spark_jobs.formats.spelling import problems as spelling_problems
from spark_jobs.scan import compression
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.cxl.types import Type


@dataclass(frozen=True)
class Between:
    """Marks a number that has bounds, which it may reach."""

    minimum: int
    maximum: int


@dataclass(frozen=True)
class NotEmpty:
    """Marks a text that must not be empty."""


@dataclass(frozen=True)
class OneOrMore:
    """Marks an option that is a list of texts or a single one."""


class OnUnwritable(StrEnum):
    """The policy for a record with a value that the format of an output cannot hold."""

    ERROR = "error"
    DLQ = "dlq"


@dataclass(frozen=True)
class Words:
    """Marks an enumeration that accepts only some words, or further spellings of them.

    Args:
        among: the words; None allows all.
        spellings: pairs of a spelling and its word.
    """

    among: tuple[str, ...] | None = None
    spellings: tuple[tuple[str, str], ...] = ()


Packing = Annotated[Compression, Words(spellings=compression.SPELLINGS)]
Name = Annotated[str, NotEmpty()]
Listed = Annotated[tuple[str, ...], OneOrMore()]


class Options:
    """Options of one format for one direction; a frozen dataclass, with an `encoding` among its fields for texts.

    Where files may be compressed as a whole it has a `compression` too, and where a text can have no place in a file,
    `on_unwritable`.
    """

    encoding: Any = None
    compression: Compression | None = None
    #: For formats that cannot hold every text.
    on_unwritable: OnUnwritable = OnUnwritable.ERROR

    @classmethod
    def has_encoding(cls) -> bool:
        """Whether files are text, in an encoding that may be chosen."""
        return "encoding" in {one.name for one in fields(cls)}  # type: ignore[arg-type]  # subclasses are dataclasses

    @property
    def packs(self) -> bool:
        """Whether files may be compressed as a whole."""
        return "compression" in {one.name for one in fields(self)}  # type: ignore[arg-type]  # subclasses are dataclasses

    def packing(self, name: str) -> Compression:
        """The compression of a file: from the options, otherwise from its name."""
        if not self.packs:
            return Compression.NONE
        return self.compression or compression.of_name(name)

    @property
    def spelling(self) -> Spelling:
        """The spelling of texts in all columns, unless a column overrides it."""
        return USUAL

    @property
    def reads_whole(self) -> bool:
        """Whether files are surely read by one task each, from the first byte on."""
        return False

    @property
    def no_appending(self) -> str | None:
        """The reason why records cannot be appended to a finished file; None where they can."""
        return "is in a format whose files cannot be appended to"

    def heading_bytes(self, start: bytes, *, include_header: bool) -> int:
        """The number of bytes before the records of a file that can be appended to, from its beginning."""
        return 0

    def problems(self) -> list[tuple[str, str]]:
        """The problems of the options: pairs of an option's key and a message."""
        problem = encoding_problem(self.encoding) if self.encoding else None
        return [("encoding", problem)] if problem else []

    @property
    def header_section(self) -> str | None:
        """The section of `$doc` from which the header of a file is written again; None if there is none."""
        return None

    def writes_names(self, *, include_header: bool) -> bool:
        """Whether a file that is written has the names of its columns, so that its encoding must have them."""
        return False

    def takes_all(self, kinds: Iterable[Type]) -> bool:
        """Whether columns of some types are surely written, whatever their values: no record fails for them."""
        return False

    def type_problem(self, static: Type) -> str | None:
        """Why a column of some type cannot be written, whatever its values; None when it can."""
        return None

    def column_problems(self, names: Sequence[str]) -> Iterator[tuple[str | None, str]]:
        """The problems of a file's columns together: an option to blame, or None, and a message."""
        return iter(())

    def name_problem(self, name: str) -> str | None:
        """Why a column cannot be written under a name, whatever the encoding; None when it can."""
        return None


class SpelledOptions(Options):
    """Options of formats whose values are texts; they have the fields of a `Spelling`."""

    @property
    def spelling(self) -> Spelling:
        """The spelling of texts in all columns, unless a column overrides it."""
        return Spelling(**{one.name: getattr(self, one.name) for one in fields(Spelling)})

    def problems(self) -> list[tuple[str, str]]:
        """The problems of the options and of the spelling."""
        return super().problems() + spelling_problems(self.spelling)


#: Python's codecs for host names and for texts inside programs. They encode a text as a whole, or not its lines.
_NOT_FOR_FILES = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})


def encoding_problem(encoding: str) -> str | None:
    """Why an encoding cannot be used, or None when it can; encodings go by Python's names."""
    try:
        info = codecs.lookup(encoding)
    except (LookupError, ValueError):
        return f"unknown encoding '{encoding}'"
    if not info._is_text_encoding or info.name in _NOT_FOR_FILES:
        return f"'{encoding}' is not an encoding of text files"
    return None


#: Encodings that have all characters.
_COMPLETE = frozenset({"utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"})
#: Kinds that every text format can write.
_SCALARS = frozenset({Kind.NULL, Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STRING, Kind.DATE, Kind.DATETIME})


def are_plain(kinds: Iterable[Type], encoding: str) -> bool:
    """Whether values of some types are scalars, and their texts can be written in an encoding."""
    return codecs.lookup(encoding).name in _COMPLETE and all(each.kind in _SCALARS for each in kinds)


def missing_character(text: str, encoding: str) -> str | None:
    """The first character of a text that an encoding lacks, or None when it has all."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        return text[error.start]
    return None


def unwritable(character: str, encoding: str) -> str:
    """The problem of a character that an encoding lacks."""
    return f"character '{character}' (U+{ord(character):04X}) cannot be written as {encoding}"


def character_problem(text: str) -> str | None:
    """Why a text cannot be a delimiter or a quote character, or None when it can."""
    if text == r"\t":
        return 'expected one character, found 2: YAML takes "\\t" for a tab in double quotes alone'
    if len(text) != 1:
        return f"expected one character, found {len(text)}"
    if text in "\r\n\0" or not text.isascii():
        return "expected one ASCII character that is neither a line end nor U+0000"
    return None


def no_lines(charset: str) -> str | None:
    """The reason why lines of an encoding cannot be appended to one another; None where they can."""
    is_wide = charset.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    return "is in an encoding whose files begin with a mark" if is_wide else None

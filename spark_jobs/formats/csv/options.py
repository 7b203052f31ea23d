"""The options of CSV."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import (
    Between,
    Listed,
    Options,
    Packing,
    SpelledOptions,
    are_plain,
    character_problem,
    no_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.cxl.types import Type


#: The most lines that sources leave out before and after their records.
MOST_SKIPPED, MOST_FOOTER = 1_000_000, 10_000


class Ragged(StrEnum):
    """The policy for records with fewer or more fields than their file."""

    ERROR = "error"
    PAD = "pad"
    CUT = "cut"
    BOTH = "both"

    @property
    def pads(self) -> bool:
        """Whether records get the cells that they lack."""
        return self in (Ragged.PAD, Ragged.BOTH)

    @property
    def cuts(self) -> bool:
        """Whether records lose the cells that they have too many."""
        return self in (Ragged.CUT, Ragged.BOTH)


class Quoting(StrEnum):
    """The policy for quotes in places where no quote belongs."""

    LENIENT = "lenient"
    STRICT = "strict"
    REPAIR = "repair"


class Duplicates(StrEnum):
    """The policy for a header that names a column twice."""

    ERROR = "error"
    NUMBER = "number"


#: The maximal length of a delimiter or quote.
_MOST_CHARACTERS = 16
_ESCAPED = {r"\t": "a tab", r"\n": "a newline", r"\r": "a return", r"\r\n": "a return and a newline", r"\0": "U+0000"}

_WORDS = {"tab": r"\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", "blank": " ", "colon": ":"}


def _sign_problem(key: str, value: str) -> str | None:
    """Why a text cannot be one of the signs of a file that is read, or None when it can."""
    if value in _ESCAPED:
        return f'expected a sign, found a backslash: YAML takes "{value}" for {_ESCAPED[value]} in double quotes alone'
    if key == "delimiter" and value.lower() in _WORDS:
        return f'expected a sign, found its name: write `{key}: "{_WORDS[value.lower()]}"`'
    if key == "delimiter" and not value:
        return "expected at least one character"
    most = 1 if key in ("quote_char", "escape_char") else _MOST_CHARACTERS
    if len(value) > most:
        return f"expected {'one character' if most == 1 else f'at most {most} characters'}, found {len(value)}"
    if key != "record_separator" and ("\n" in value or "\r" in value):
        return "a line end ends a record"
    if key == "escape_char" and value.isalnum():
        return "expected a sign, found a letter or a digit"
    return None


@dataclass(frozen=True)
class CsvRead(SpelledOptions):
    """`options:` of a CSV source.

    Args:
        delimiter: The text between fields: one character, or several (`||`).
        quote_char: The character around fields; doubled inside them. `''` if quotes are ordinary text.
        escape_char: The character that makes a following delimiter, quote, line end or escape character plain text;
            before anything else it is dropped. None when absent.
        record_separator: The text that ends records, such as `~` or a return alone; line ends are then text. When
            absent, newlines, returns, and both together end records.
        comment: The text that begins comment lines, such as `#`; none when absent.
        trim: Whether blanks and tabs around a field are removed; inside quotes they are kept.
        has_header: Whether the first record names the columns; otherwise they follow `schema`.
        header_rows: The number of records in the header; the names of a column are joined with `_`.
        skip_repeated_header: Whether records that repeat the header are left out.
        columns: The names of the first columns, instead of those in the header.
        skip_rows: The number of lines to skip before the header, or before the first record.
        skip_footer: The number of lines to skip at the end of each file.
        duplicate_columns: Whether a header that contains a name twice is an `error`, or its names are numbered
            (`number`): `n`, `n_2`, `n_3`.
        ragged: What happens to records with fewer or more cells than the file has columns: they are an `error`; `pad`
            adds empty cells to short ones, `cut` removes the last cells of long ones, `both` does both.
        quotes: With `strict`, a quote within an unquoted cell, or text after a closing quote, makes a record malformed;
            `lenient` takes them as text. `repair` also reads quotes within quoted fields that are not doubled as text,
            and warns with the number of records; one task then reads the whole file.
        decimal_separator: The decimal separator of numbers, `.` or `,`. A column may override it, like the next four
            options.
        thousands_separator: The separator between groups of digits; none when absent.
        null_values: Texts that mean null. Empty cells mean null as well, except in columns of texts, where they are
            the empty text.
        true_values: Texts that mean true, besides `true`, `yes`, `on` and `1`, in any case of ASCII letters.
        false_values: Texts that mean false, besides `false`, `no`, `off` and `0`, likewise.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    delimiter: str = ","
    quote_char: str = '"'
    escape_char: str = ""
    record_separator: str = ""
    comment: str = ""
    trim: bool = False
    has_header: bool = True
    header_rows: Annotated[int, Between(1, 100)] = 1
    skip_repeated_header: bool = False
    columns: Listed = ()
    skip_rows: Annotated[int, Between(0, MOST_SKIPPED)] = 0
    skip_footer: Annotated[int, Between(0, MOST_FOOTER)] = 0
    duplicate_columns: Duplicates = Duplicates.ERROR
    ragged: Ragged = Ragged.ERROR
    quotes: Quoting = Quoting.LENIENT
    decimal_separator: str = "."
    thousands_separator: str = ""
    null_values: Listed = ()
    true_values: Listed = ()
    false_values: Listed = ()
    encoding: str = "utf-8"
    compression: Packing | None = None

    def problems(self) -> list[tuple[str, str]]:
        """Problems of the options: signs must differ, and keys about the header need one."""
        keys = ("delimiter", "quote_char", "escape_char", "record_separator", "comment")
        signs = {key: getattr(self, key) for key in keys}
        found = [(key, problem) for key, value in signs.items() if (problem := _sign_problem(key, value)) is not None]
        if not found:
            found += self._mixed_up(signs)
        if not self.has_header:
            said = ("header_rows", self.header_rows > 1), ("skip_repeated_header", self.skip_repeated_header)
            found += [(key, "there is no header: `has_header: false`") for key, is_said in said if is_said]
        if len(set(self.columns)) < len(self.columns) or "" in self.columns:
            found.append(("columns", "a name is empty, or occurs twice"))
        if self.quotes is Quoting.REPAIR and not self.quote_char:
            found.append(("quotes", "there is no quote to repair: `quote_char: ''`"))
        return found + super().problems()

    def _mixed_up(self, signs: dict[str, str]) -> list[tuple[str, str]]:
        """Signs that others have in them."""
        quote, escape = self.quote_char, self.escape_char
        if self.delimiter == quote:
            return [("quote_char", "the quote character must differ from the delimiter")]
        found = []
        for key, value in signs.items():
            if key not in ("quote_char", "escape_char") and quote and quote in value:
                found.append((key, f"it has the quote character {quote!r} in it"))
            if key not in ("quote_char", "escape_char") and escape and escape != quote and escape in value:
                found.append((key, f"it has the escape character {escape!r} in it"))
        if self.record_separator and self.record_separator == self.delimiter:
            found.append(("record_separator", "it must differ from the delimiter"))
        if self.comment and (self.delimiter in self.comment or self.comment[0] in " \t"):
            found.append(("comment", "it has the delimiter in it, or begins with a space"))
        return found


@dataclass(frozen=True)
class CsvWrite(Options):
    """`options:` of a CSV output.

    Args:
        delimiter: The character between fields.
        quote_char: The character around fields that need it.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    delimiter: str = ","
    quote_char: str = '"'
    encoding: str = "utf-8"
    compression: Packing | None = None

    def problems(self) -> list[tuple[str, str]]:
        """Delimiter and quote are different single characters."""
        problems = []
        for key, value in (("delimiter", self.delimiter), ("quote_char", self.quote_char)):
            if (problem := character_problem(value)) is not None:
                problems.append((key, problem))
        if not problems and self.delimiter == self.quote_char:
            problems.append(("quote_char", "the quote character must differ from the delimiter"))
        return problems + super().problems()

    @property
    def no_appending(self) -> str | None:
        """Lines can be followed by lines."""
        return no_lines(self.encoding)

    def heading_bytes(self, start: bytes, *, include_header: bool) -> int:
        """The header's line, line ends inside quotes included."""
        quote, size = self.quote_char.encode(self.encoding), 0
        for line in start.splitlines(keepends=True) if include_header else ():
            size += len(line)
            if start[:size].count(quote) % 2 == 0:
                break
        return size

    def writes_names(self, *, include_header: bool) -> bool:
        return include_header

    def takes_all(self, kinds: Iterable[Type]) -> bool:
        return are_plain(kinds, self.encoding)


FORMAT = Format(
    "csv",
    "CSV",
    chapter=3,
    read_options=CsvRead,
    write_options=CsvWrite,
    values_are_text=True,
    known_as=("tsv", "txt", "delimited"),
)

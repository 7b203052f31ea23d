"""CSV: what its options are."""

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


class Ragged(StrEnum):
    """What becomes of records with fewer or more fields than their file."""

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
    """What becomes of quotes in places where no quote belongs."""

    LENIENT = "lenient"
    STRICT = "strict"


class Duplicates(StrEnum):
    """What becomes of a header that names a column twice."""

    ERROR = "error"
    NUMBER = "number"


class _CsvOptions(Options):
    delimiter: str
    quote_char: str

    def problems(self) -> list[tuple[str, str]]:
        """Delimiter and quote are different single characters."""
        problems = []
        for key, value in (("delimiter", self.delimiter), ("quote_char", self.quote_char)):
            if (problem := character_problem(value)) is not None:
                problems.append((key, problem))
        if not problems and self.delimiter == self.quote_char:
            problems.append(("quote_char", "the quote character must differ from the delimiter"))
        return problems + super().problems()


@dataclass(frozen=True)
class CsvRead(_CsvOptions, SpelledOptions):
    """`options:` of a CSV source.

    Args:
        delimiter: The character between fields.
        quote_char: The character around fields; doubled inside them.
        has_header: Whether the first record has the names; else columns follow `schema`.
        skip_rows: How many lines of each file stand before the header, or before the first record.
        duplicate_columns: A header that names a column twice is an `error`, or its names are numbered (`number`): `n`,
            `n_2`, `n_3`.
        ragged: Records with fewer or more cells than the file has columns are an `error`; with `pad` they get the empty
            cells that they lack, with `cut` they lose the cells that are too many, with `both` they do either.
        quotes: With `strict` a quote within a cell that is not quoted, and text behind a closing quote, make a record
            malformed; `lenient` takes them as text.
        decimal_separator: What stands before the fraction of numbers, `.` or `,`; a column may say otherwise, as with
            the next four.
        thousands_separator: What may stand between groups of digits; nothing when absent.
        null_values: Texts that are null, beside empty cells.
        true_values: Texts that are true, beside `true`, `yes`, `on` and `1`, in any case of ASCII letters.
        false_values: Texts that are false, beside `false`, `no`, `off` and `0`, likewise.
        encoding: An encoding by its Python name.
        compression: How files are compressed; as their names end when absent.
    """

    delimiter: str = ","
    quote_char: str = '"'
    has_header: bool = True
    skip_rows: Annotated[int, Between(0, 1_000_000)] = 0
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


@dataclass(frozen=True)
class CsvWrite(_CsvOptions):
    """`options:` of a CSV output.

    Args:
        delimiter: The character between fields.
        quote_char: The character around fields that need it.
        encoding: An encoding by its Python name.
        compression: How files are compressed; as their names end when absent.
    """

    delimiter: str = ","
    quote_char: str = '"'
    encoding: str = "utf-8"
    compression: Packing | None = None

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
        """The header has them."""
        return include_header

    def takes_all(self, kinds: Iterable[Type]) -> bool:
        """Scalars have texts."""
        return are_plain(kinds, self.encoding)


FORMAT = Format("csv", "CSV", chapter=3, read_options=CsvRead, write_options=CsvWrite, values_are_text=True)

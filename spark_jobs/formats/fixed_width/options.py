"""The options of Fixed width."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from spark_jobs.formats.fixed_width import layout
from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Listed, OnUnwritable, Options, Packing, SpelledOptions, Words, no_lines

#: Characters of several scripts: an encoding that has letters beyond ASCII has one of them, as a rule.
_SAMPLES = "éяبא日の가"


class LineSeparator(StrEnum):
    """The separator between fixed-width records."""

    LF = "lf"
    CR_LF = "cr_lf"
    NONE = "none"


class _FixedWidthOptions(Options):
    def problems(self) -> list[tuple[str, str]]:
        """Places count bytes, so that line ends and fillers have to be the same bytes everywhere."""
        problems = super().problems()
        if not problems and "\r\n 0".encode(self.encoding) not in (b"\r\n 0", b"\xef\xbb\xbf\r\n 0"):
            problems.append(("encoding", f"fixed-width files have ASCII line ends and blanks: not '{self.encoding}'"))
        elif not problems and _depends_on_others(self.encoding):
            what = f"in '{self.encoding}' bytes depend on those before them, so fields cannot be read separately"
            problems.append(("encoding", what))
        return problems


def _depends_on_others(encoding: str) -> bool:
    """Whether two characters are other bytes together than one after the other."""
    for character in _SAMPLES:
        try:
            alone, together = (
                text.encode(encoding).removeprefix(codecs.BOM_UTF8) for text in (character, 2 * character)
            )
        except UnicodeEncodeError:
            continue
        if together != 2 * alone:
            return True
    return False


@dataclass(frozen=True)
class FixedWidthRead(_FixedWidthOptions, SpelledOptions):
    """`options:` of a fixed-width source.

    Args:
        line_separator: The line end between records.
        skip_rows: The number of lines to skip before the first record.
        skip_footer: The number of lines to skip at the end of each file.
        decimal_separator: The decimal separator of numbers, `.` or `,`. A column may override it, like the next four
            options.
        thousands_separator: The separator between groups of digits; none when absent.
        null_values: Texts that mean null. Blank fields mean null as well, except in columns of texts, where they are
            the empty text.
        true_values: Texts that mean true, besides `true`, `yes`, `on` and `1`, in any case of ASCII letters.
        false_values: Texts that mean false, besides `false`, `no`, `off` and `0`, likewise.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    line_separator: Annotated[LineSeparator, Words(spellings=(("crlf", "cr_lf"),))] = LineSeparator.LF
    skip_rows: Annotated[int, Between(0, 1_000_000)] = 0
    skip_footer: Annotated[int, Between(0, 10_000)] = 0
    decimal_separator: str = "."
    thousands_separator: str = ""
    null_values: Listed = ()
    true_values: Listed = ()
    false_values: Listed = ()
    encoding: str = "utf-8"
    compression: Packing | None = None

    def problems(self) -> list[tuple[str, str]]:
        """Lines can be skipped only where there are lines, too."""
        found = super().problems()
        if self.line_separator is LineSeparator.NONE:
            keys = (key for key in ("skip_rows", "skip_footer") if getattr(self, key))
            found += [(key, "there are no lines: `line_separator: none`") for key in keys]
        return found


@dataclass(frozen=True)
class FixedWidthWrite(_FixedWidthOptions):
    """`options:` of a fixed-width output.

    Args:
        line_separator: The line end between records.
        on_unwritable: Whether a value that the format cannot hold ends the run, or makes its record a dead letter.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    line_separator: Annotated[LineSeparator, Words(spellings=(("crlf", "cr_lf"),))] = LineSeparator.LF
    on_unwritable: OnUnwritable = OnUnwritable.ERROR
    encoding: str = "utf-8"
    compression: Packing | None = None

    @property
    def no_appending(self) -> str | None:
        """Records can be followed by records."""
        return no_lines(self.encoding)


FORMAT = Format(
    "fixed_width",
    "fixed-width",
    chapter=6,
    read_options=FixedWidthRead,
    write_options=FixedWidthWrite,
    values_are_text=True,
    ending="txt",
    layout=layout.problems,
    known_as=("fixed", "fwf", "fixedwidth"),
)

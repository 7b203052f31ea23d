"""The options that EDIFACT and X12 share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar

from spark_jobs.formats.options import Between, Name, OnUnwritable, Options, Packing, missing_character, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The column with the tag of a segment.
TAG = "seg_id"
#: The name of an element's column, with its number.
ELEMENT = re.compile("e([0-9]+)")
#: No segment has more elements; a column beyond is a mistake.
MOST_ELEMENTS = 9999

#: Neither option says the header.
NO_HEADER = (
    "there is no interchange header: the option interchange has its elements, or interchange_from_doc the section of "
    "`$doc` that does"
)


class Trailers(StrEnum):
    """The policy for a count or a reference in a trailer that does not fit."""

    ERROR = "error"
    WARN = "warn"


@dataclass(frozen=True)
class InterchangeRead(Options):
    """`options:` of a source of interchanges.

    Args:
        max_elements: The number of element columns of a segment.
        trailers: Whether a wrong count or control number ends the run, or is a warning.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    max_elements: Annotated[int, Between(1, MOST_ELEMENTS)] = 32
    trailers: Trailers = Trailers.ERROR
    encoding: str = "utf-8"
    compression: Packing | None = None

    @property
    def reads_whole(self) -> bool:
        """Counts are known at the end."""
        return True


@dataclass(frozen=True)
class InterchangeWrite(Options):
    """`options:` of an output of interchanges.

    Args:
        interchange: The elements of the header, the UNB or ISA segment.
        interchange_from_doc: The `$doc` section that becomes the header, as in the first record.
        segment_newline: Whether a line end follows each segment.
        on_unwritable: Whether a value that the format cannot hold ends the run, or makes its record a dead letter.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    interchange: tuple[str, ...] | None = None
    interchange_from_doc: Name | None = None
    segment_newline: bool = True
    on_unwritable: OnUnwritable = OnUnwritable.ERROR
    encoding: str = "utf-8"
    compression: Packing | None = None

    #: The columns of a message's reference and type, and what messages call the format.
    reference: ClassVar[str]
    kind: ClassVar[str]
    title: ClassVar[str]
    #: The option that has the type of messages whose records have none; delimiters that cannot be escaped.
    default_kind: ClassVar[str]
    delimiters: ClassVar[str] = ""

    @property
    def known(self) -> tuple[str, ...]:
        """The columns that are not elements: tag, reference and type."""
        return TAG, self.reference, self.kind

    @property
    def _segments(self) -> Iterator[tuple[str, str]]:
        """The texts that options put into segments around the records, each with its option."""
        yield from (("interchange", text) for text in self.interchange or ())
        if (kind := getattr(self, self.default_kind)) is not None:
            yield self.default_kind, kind

    def problems(self) -> list[tuple[str, str]]:
        """A file needs a header, and a header that can be written."""
        found = super().problems()
        if self.interchange is None and self.interchange_from_doc is None:
            found.append(("interchange", NO_HEADER))
        elif self.interchange is not None and not any(self.interchange):
            found.append(("interchange", "the header has no elements"))
        wrong = dict(found)
        for key, text in self._segments:
            sign = next((sign for sign in self.delimiters if sign in text), None)
            if sign is not None:
                wrong.setdefault(key, f"'{text}' has the delimiter '{sign}', which {self.title} cannot escape")
            elif "encoding" not in wrong and (character := missing_character(text, self.encoding)) is not None:
                wrong.setdefault(key, unwritable(character, self.encoding))
        return list(wrong.items())

    def column_problems(self, names: Sequence[str]) -> Iterator[tuple[str | None, str]]:
        """Segments have a tag, elements by their numbers, and a type of their messages."""
        if TAG not in names:
            yield None, f"{self.title} segments need a tag, and there is no column '{TAG}'"
        if self.kind not in names and getattr(self, self.default_kind) is None:
            yield self.default_kind, f"there is no column '{self.kind}', and no type of messages in the options either"
        numbers: set[int] = set()
        for name in names:
            if name in self.known or name.startswith("$"):
                continue
            if (problem := self.element_problem(name)) is not None:
                yield None, problem
                continue
            number = int(name[1:])
            if number in numbers:
                yield None, f"column '{name}' is element {number}, and so is another column"
            numbers.add(number)

    def element_problem(self, name: str) -> str | None:
        """Why a column is no element of a segment, or None when it is one."""
        found = ELEMENT.fullmatch(name)
        if found is not None and 1 <= int(found[1][:5]) <= MOST_ELEMENTS and len(found[1].lstrip("0")) <= 4:
            return None
        text = f"column '{name}' has no place in {self.title}, which has {', '.join(self.known)}, e01, e02, …"
        return f"{text}; leave it out by `exclude`, or name it under `mapping`"

    @property
    def header_section(self) -> str | None:
        return self.interchange_from_doc if self.interchange is None else None

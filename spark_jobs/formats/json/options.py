"""The options of JSON sources and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from spark_jobs.formats.format import Format, SectionPlace
from spark_jobs.formats.options import Options, Packing, Words, are_plain, no_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.cxl.types import Type


class JsonLayout(StrEnum):
    """The place of records in a JSON file: elements of one array, one per line, or somewhere inside one object."""

    ARRAY = "array"
    NDJSON = "ndjson"
    OBJECT = "object"


@dataclass(frozen=True)
class JsonRead(Options):
    """`options:` of a JSON source.

    Args:
        format: How records are arranged in the file; when absent, its first character decides.
        record_path: The path to the array of records, as `$.a.b`, `a.b` or `/a/b`.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    format: JsonLayout | None = None
    record_path: str | None = None
    encoding: str = "utf-8"
    compression: Packing | None = None

    @property
    def reads_whole(self) -> bool:
        """Lines alone can be read on their own."""
        return self.record_path is not None or self.format in (JsonLayout.ARRAY, JsonLayout.OBJECT)

    def problems(self) -> list[tuple[str, str]]:
        """Records inside an object need a path."""
        problems = []
        if self.format is JsonLayout.OBJECT and self.record_path is None:
            problems.append(("format", "format: object requires record_path"))
        return problems + super().problems()


@dataclass(frozen=True)
class JsonWrite(Options):
    """`options:` of a JSON output.

    Args:
        format: One array (the default), or one object per line.
        pretty: Whether objects are written over several lines.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    format: Annotated[JsonLayout | None, Words(among=("array", "ndjson"))] = None
    pretty: bool = False
    encoding: str = "utf-8"
    compression: Packing | None = None

    @property
    def no_appending(self) -> str | None:
        """An array ends with a bracket; lines can be followed by lines."""
        if self.format is not JsonLayout.NDJSON:
            return "is a JSON array, which ends with a bracket"
        return no_lines(self.encoding)

    def writes_names(self, *, include_header: bool) -> bool:
        return True

    def takes_all(self, kinds: Iterable[Type]) -> bool:
        return are_plain(kinds, self.encoding)


def _pointer_problem(pointer: str) -> str | None:
    return "a JSON pointer begins with `/`" if pointer and not pointer.startswith("/") else None


FORMAT = Format(
    "json",
    "JSON",
    chapter=4,
    read_options=JsonRead,
    write_options=JsonWrite,
    names_in_records=True,
    has_arrays=True,
    comes_in_pages=True,
    sections=SectionPlace("json_pointer", problem=_pointer_problem),
    known_as=("ndjson", "jsonl", "json_lines", "jsonlines"),
)

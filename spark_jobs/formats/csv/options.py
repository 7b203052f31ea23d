"""CSV: what its options are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Options, Packing, are_plain, character_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.cxl.types import Type


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
class CsvRead(_CsvOptions):
    """`options:` of a CSV source.

    Args:
        delimiter: The character between fields.
        quote_char: The character around fields; doubled inside them.
        has_header: Whether the first record has the names; else columns follow `schema`.
        encoding: An encoding by its Python name.
        compression: How files are compressed; as their names end when absent.
    """

    delimiter: str = ","
    quote_char: str = '"'
    has_header: bool = True
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

    def writes_names(self, *, include_header: bool) -> bool:
        """The header has them."""
        return include_header

    def takes_all(self, kinds: Iterable[Type]) -> bool:
        """Scalars have texts."""
        return are_plain(kinds, self.encoding)


FORMAT = Format("csv", "CSV", chapter=3, read_options=CsvRead, write_options=CsvWrite, values_are_text=True)

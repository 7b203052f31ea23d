"""CSV: what its options are."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.formats import options as checks
from spark_jobs.formats.format import Format


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


def csv_problems(options: CsvOptions) -> list[tuple[str, str]]:
    """What is wrong with CSV options: pairs of an option's key and a message."""
    problems = []
    for key, value in (("delimiter", options.delimiter), ("quote_char", options.quote_char)):
        if (problem := checks.character_problem(value)) is not None:
            problems.append((key, problem))
    if not problems and options.delimiter == options.quote_char:
        problems.append(("quote_char", "the quote character must differ from the delimiter"))
    if (problem := checks.encoding_problem(options.encoding)) is not None:
        problems.append(("encoding", problem))
    return problems


FORMAT = Format("csv", "CSV", chapter=3, values_are_text=True)

"""JSON: what its options are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.formats import options as checks
from spark_jobs.formats.format import Format


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


def json_problems(options: JsonOptions) -> list[tuple[str, str]]:
    """What is wrong with JSON options: pairs of an option's key and a message."""
    problems = []
    if options.format is JsonLayout.OBJECT and options.record_path is None:
        problems.append(("format", "format: object requires record_path"))
    if (problem := checks.encoding_problem(options.encoding)) is not None:
        problems.append(("encoding", problem))
    return problems


FORMAT = Format("json", "JSON", chapter=4, names_in_records=True)

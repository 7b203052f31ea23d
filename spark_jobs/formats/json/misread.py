"""JSON files whose records have no declared column, and the options that would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics import nearest
from spark_jobs.formats.json.exact import objects
from spark_jobs.formats.misread import MISSING, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def foreign_records(file: str, more: int, record: dict[str, Any], declared: Sequence[str]) -> str:
    """Make the message for JSON files whose records have none of the declared columns.

    Args:
        file: the first such file.
        more: the number of further files like it.
        record: the file's first record.
        declared: the declared columns.
    """
    files = f"{file} and {more} more" if more else file
    names = [name for name, _ in objects.Undeclared(()).leaves(record)]
    proposal = next(_record_proposals(record, names, declared), "check the path and `schema`")
    return (
        f"{MISSING}: no record of {files} has any of the declared columns ({', '.join(declared)}); "
        f"the first record has {shown(', '.join(names)) if names else 'no member'}; {proposal}"
    )


def _record_proposals(record: dict[str, Any], names: Sequence[str], declared: Sequence[str]) -> Iterator[str]:
    """Settings or names under which the records would have declared columns."""
    for name in names:
        found = objects.find(record, name)
        if isinstance(found, list) and any(
            isinstance(item, dict) and objects.has(item, column) for item in found[:1] for column in declared
        ):
            yield f"the array '{name}' fits: `options.record_path: {name}`"
    for column in declared:
        if near := nearest.nearest(column, names):
            yield f"did you mean `{near}` by `{column}`?"

"""Write modes of tables, and the checks of merge keys and delete flags. No Arrow here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Mode(StrEnum):
    """The ways to write records to a table: append, overwrite all or some partitions, or merge by key."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    MERGE = "merge"


def problems(mode: Mode, key: Collection[str], delete_flag: str, written: Collection[str]) -> list[tuple[str, str]]:
    """Check the merge keys and the delete flag of an output; returns pairs of the option to blame and a message.

    Args:
        mode: its mode.
        key: the columns that tell records apart.
        delete_flag: the column that marks rows to delete; empty where there is none.
        written: columns that are surely written.
    """
    found = []
    if (mode is Mode.MERGE) != bool(key):
        found.append(("key", "`mode: merge` and `key` go together"))
    if delete_flag and mode is not Mode.MERGE:
        found.append(("delete_flag", "`delete_flag` needs `mode: merge`"))
    if delete_flag and delete_flag in (*key, *written):
        found.append(("delete_flag", f"'{delete_flag}' is written, and a flag is not"))
    return found


def column_problems(names: Collection[str], key: Collection[str], delete_flag: str) -> Iterator[tuple[str, str]]:
    """Find keys and flags that are no columns of the records; yields pairs of the option to blame and a message."""
    for name in key:
        if name not in names:
            yield "key", f"there is no column '{name}' to tell records apart"
    if delete_flag and delete_flag not in names:
        yield "delete_flag", f"there is no column '{delete_flag}'"

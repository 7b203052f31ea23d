"""What becomes of the records that are in a table, and by which keys records are merged into it. No Arrow here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Mode(StrEnum):
    """What becomes of the records that are in a table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    MERGE = "merge"


def problems(mode: Mode, key: Collection[str], delete_flag: str, written: Collection[str]) -> list[tuple[str, str]]:
    """What is wrong with the keys of an output: options to blame, with messages.

    Args:
        mode: its mode.
        key: the columns that tell records apart.
        delete_flag: the column that says of rows that they go; empty where none does.
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
    """What is wrong with keys and flags of records that have some columns."""
    for name in key:
        if name not in names:
            yield "key", f"there is no column '{name}' to tell records apart"
    if delete_flag and delete_flag not in names:
        yield "delete_flag", f"there is no column '{delete_flag}'"

"""The columns of a table that an output makes, as plans check them. No Arrow here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def problems(names: Sequence[str]) -> Iterator[tuple[None, str]]:
    """Find the column names that differ in letter case alone; yields None, as no option is to blame, and a message."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            text = f"columns '{other}' and '{name}' differ in letter case alone, which tables do not tell apart"
            yield None, text

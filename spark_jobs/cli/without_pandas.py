"""Keeps Arrow from importing pandas in commands that never use it: the import takes a good part of their start.

Arrow looks for pandas once in a process, with the first value that it converts, and remembers what it found.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def settle() -> None:
    """Have Arrow find no pandas, for as long as this process lives; other imports of pandas work as ever."""
    import pyarrow as pa  # commands that read no data do without

    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_Hidden)


class _Hidden:
    """A finder by which there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuse pandas, and leave all other modules to the finders that follow."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)
        return None

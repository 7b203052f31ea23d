"""Keeps Arrow from importing pandas in our processes, which never use it. The import takes a good part of their start.

Arrow looks for pandas once in a process, with the first value that it converts, and remembers what it found.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def hide_pandas() -> None:
    """Have Arrow find no pandas; other imports of pandas work as ever, and Arrow's `to_pandas`, too.

    A Series that somebody gives to Arrow is not known as such afterwards, so this is for processes that nobody shares.
    Nothing changes where pandas has been imported already.
    """
    import pyarrow as pa  # commands that read no data do without

    if "pandas" in sys.modules:
        return
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

"""Modules that are imported when a test uses them: collecting the fast tests must not load Airflow."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module; the first look at one of its names imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # pytest asks everything it meets whether it is a test
        return getattr(importlib.import_module(self._name), name)

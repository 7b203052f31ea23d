"""Finds modules by their place: every module of a package is imported, so that its decorators register.

Works from a folder and from the zip that travels to executors.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


@cache
def load(package: ModuleType) -> tuple[ModuleType, ...]:
    """Import the direct modules of a package, in name order; once per process."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(importlib.import_module(f"{package.__name__}.{name}") for name in names)

"""User functions that operators call."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def problem(callback: Callable[..., Any] | str | None) -> str | None:
    """The reason why an import path cannot name a function, as far as is known without importing its module."""
    if not isinstance(callback, str):
        return None
    module, _, name = callback.rpartition(".")
    if not module or not name:
        return f"{callback!r} is no import path of the form package.module.function"
    try:
        is_there = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a package above it is not there
        is_there = False
    return None if is_there else f"there is no module {module!r}, where {callback!r} should be"


def resolve_callback(callback: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    """The function itself, or the one that an import path `package.module.function` names.

    Raises:
        ImportError: when the module cannot be imported.
        AttributeError: when the module has no such function.
        ValueError: when the text is no import path, or has the path of a module that does not exist.
    """
    if not isinstance(callback, str):
        return callback
    if reason := problem(callback):
        raise ValueError(reason)
    module, _, name = callback.rpartition(".")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function

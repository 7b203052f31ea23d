"""Functions of users that operators call."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def resolve_callback(callback: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    """The function itself, or the one that an import path `package.module.function` names.

    Raises:
        ImportError: when the module is not there.
        AttributeError: when the module has no such function.
        ValueError: when the text is no import path.
    """
    if not isinstance(callback, str):
        return callback
    module, _, name = callback.rpartition(".")
    if not module:
        raise ValueError(f"{callback!r} is no import path of the form package.module.function")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function

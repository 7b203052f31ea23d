"""The formats, found by their place: every package beside this module has its `FORMAT` in `options.py`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

import spark_jobs.formats

if TYPE_CHECKING:
    from spark_jobs.formats.format import Format


@cache
def formats() -> dict[str, Format]:
    """All formats by the word under `type:`, in the order of the book."""
    found: list[Format] = [
        importlib.import_module(f"spark_jobs.formats.{module.name}.options").FORMAT
        for module in pkgutil.iter_modules(spark_jobs.formats.__path__)
        if module.ispkg
    ]
    return {one.name: one for one in sorted(found, key=lambda one: one.chapter)}


def named(name: str) -> Format:
    """A format by its name."""
    return formats()[name]

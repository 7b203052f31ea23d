"""Finds the formats: packages beside this module whose `options.py` has a `FORMAT`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

import spark_jobs.formats

if TYPE_CHECKING:
    from spark_jobs.formats.format import Format


@cache
def formats() -> dict[str, Format]:
    """All formats by the word under `type:`, in the order of their chapters."""
    found: list[Format] = [
        importlib.import_module(f"spark_jobs.formats.{module.name}.options").FORMAT
        for module in pkgutil.iter_modules(spark_jobs.formats.__path__)
        if module.ispkg and importlib.util.find_spec(f"spark_jobs.formats.{module.name}.options")
    ]
    return {one.name: one for one in sorted(found, key=lambda one: one.chapter)}


def named(name: str) -> Format:
    """A format by its name."""
    return formats()[name]

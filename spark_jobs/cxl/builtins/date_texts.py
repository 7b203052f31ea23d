"""Formats dates and date-times as an Arrow kernel, each distinct value once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from spark_jobs.cxl import types
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.dates import strftime

#: Dates come again in the next batch.
_written = lru_cache(maxsize=32_768)(strftime.write)


def kernel(pc: Any, value: Any, form: Any) -> Any:
    """The texts, and the mask of rows that fail."""
    text = arrays.constant(form)
    is_moment = str(value.type) != "date32[day]"
    if is_moment and strftime.complaint(text) is None and not strftime.compiled(text).uses_time:
        value = pc.cast(pc.floor_temporal(value, unit="day"), "date32")
    return arrays.by_value(lambda one: _written(one, text), value, types.STRING)

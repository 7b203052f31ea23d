"""A cache of a worker: expensive values that one task makes and the next task of the same work uses again.

A worker runs one task after another. Work is a job together with the operator where its records enter. When other work
begins, all values are dropped, so the cache never holds more than the next task would make itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

    from spark_jobs.nodes.node import Step

_work: tuple[object, Hashable] = (None, None)
_values: dict[tuple[int, str], tuple[Step, Any]] = {}


def begin(job: object, root: Hashable) -> None:
    """Begin a task, and drop the values of other work.

    Args:
        job: what the task belongs to; another object is another job, even if both are equal.
        root: the operator of the job where the task's records enter.
    """
    global _work
    if _work[0] is not job or _work[1] != root:
        drop()
        _work = job, root


def drop() -> None:
    """Drop all values: the job is over."""
    global _work
    _work = None, None
    _values.clear()


def take(step: Step, name: str) -> Any:
    """Remove and return the value of an earlier task; None if there is none."""
    found = _values.pop((id(step), name), None)
    return found[1] if found is not None and found[0] is step else None


def put(step: Step, name: str, value: Any) -> None:
    """Cache a value for the next task.

    Args:
        step: the step whose operator has made it.
        name: its name among the values of that step.
        value: the value. It depends on the job alone, and a task has room for it.
    """
    _values[id(step), name] = step, value

"""Jobs without what some nodes do, for passes that ask for other things."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.nodes.terms.shape import Role

if TYPE_CHECKING:
    from collections.abc import Container

    from spark_jobs.plan.physical.regions import Box, Job


def without(job: Job, unwanted: Container[str]) -> Job:
    """The job without what some nodes do at the ends of its regions: no records come to them.

    What is sent from there, or written down, stays: who gets it waits for messages of all tasks.
    """
    idle: dict[str, bool] = {}

    def is_idle(name: str) -> bool:
        if name not in idle:
            box = job.boxes[name]
            is_local = box.role is Role.WHOLE and box.exchange is None and box.tells is None
            idle[name] = is_local and box.step.name in unwanted and all(is_idle(each.box) for each in box.targets)
        return idle[name]

    def trimmed(box: Box) -> Box:
        return replace(box, targets=tuple(each for each in box.targets if not is_idle(each.box)))

    return replace(job, boxes={name: trimmed(box) for name, box in job.boxes.items()})


def short(job: Job, silent: Container[str]) -> Job:
    """The job without its exchanges, where nobody sends to them but nodes that keep silent; else as it is."""
    if not all(box.step.name in silent for box in job.boxes.values() if box.exchange is not None):
        return job
    boxes = {name: replace(box, exchange=None) for name, box in job.boxes.items()}
    return replace(job, boxes=boxes, exchanges=())

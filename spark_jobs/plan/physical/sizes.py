"""The sizes of inputs, as far as they are known before reading: files that a pipeline names by their paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.formats import splits
from spark_jobs.nodes.combine.step import CombineStep
from spark_jobs.nodes.source.step import SourceStep
from spark_jobs.plan import plan as plans
from spark_jobs.plan.reading import reader
from spark_jobs.stores.location import Location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.graph import Graph
    from spark_jobs.stores.location import FilePath


#: In how many files as large as the largest one a source has tasks enough.
_ENOUGH_FILES = 4


def is_worth_spreading(size: int, others: Sequence[int], unit: int) -> bool:
    """True if the input of one task is large enough to be redistributed to others.

    Args:
        size: the bytes of it.
        others: the bytes of everything that is read of the source. With many pieces of that size there are enough
            tasks, and moving records would gain nothing.
        unit: the bytes that are usual for a task.
    """
    return size >= 2 * unit and size * _ENOUGH_FILES >= sum(others)


def source_bytes(step: SourceStep, base_dir: FilePath) -> int | None:
    """The size of a source's literal files, None when it is a pattern or a file is missing."""
    if isinstance(base_dir, Location):
        return None  # planning asks no store for sizes
    names = [step.match.path] if step.match.path else list(step.match.paths)
    try:
        return sum(os.path.getsize(os.path.join(base_dir, name)) for name in names) if names else None
    except OSError:
        return None


def check(
    nodes: Sequence[plans.PlannedNode], wiring: Graph, base_dir: FilePath, memory_limit_bytes: int, found: Diagnostics
) -> None:
    """Report combines that ask for partitions although their inputs fill only one (W302)."""
    by_name = {planned.name: planned for planned in nodes}
    limit = plans.partition_bytes(memory_limit_bytes)
    for name, node in wiring.nodes.items():
        step = by_name[name].step
        if not isinstance(step, CombineStep) or not step.wants_shuffle or not step.is_keyed:
            continue
        size = _upstream_bytes(name, wiring, by_name, base_dir)
        if size is not None and size <= splits.fair_bytes(size, limit):
            message = f'combine "{name}": all inputs together have {size} bytes, which fill one partition'
            place = reader.value_span(node.tree, ("config", "strategy"))
            found.add(codes.W302.at(place, message, help="leave `strategy` out"))


def _upstream_bytes(name: str, wiring: Graph, by_name: dict[str, plans.PlannedNode], base_dir: FilePath) -> int | None:
    """The bytes of all sources above a node; None if they are not known, or records may become more on their way."""
    total = 0
    for producer in wiring.ancestors(name):
        planned = by_name[producer]
        step = planned.step
        if isinstance(step, SourceStep):
            size = source_bytes(step, base_dir)
            if size is None:
                return None
            total += size
        elif step is None or step.record_properties.may_multiply:
            return None
    return total

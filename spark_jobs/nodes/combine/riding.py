"""What rides along with the results of a combine unseen: columns of the driver, correlation keys of either side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes.combine.pairs import Pairs
from spark_jobs.nodes.records.columns import JOINED, Fate, with_fate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.nodes.combine.step import CombineStep

    Carried = tuple[tuple[str, str, str], ...]


def columns(
    step: CombineStep, driver: pa.RecordBatch, builds: Mapping[str, pa.RecordBatch], pairs: Pairs
) -> dict[str, pa.Array]:
    """The columns of results that nobody emits.

    Args:
        step: the combine.
        driver: the driver's records.
        builds: the records of each build side.
        pairs: the results: positions among both.
    """
    found = {}
    for name, qualifier, column in step.carried:
        if qualifier == step.driver:
            found[name] = pairs.of_drivers(driver.column(column))
        else:
            matched = pairs.builds[qualifier]
            found[name] = builds[qualifier].column(column).take(pa.array(matched, mask=matched < 0))
    for name in with_fate(Fate.OF_DRIVER, "combine", driver.schema.names):
        found[name] = pairs.of_drivers(driver.column(name))
    return found


def joined(count: int) -> dict[str, pa.Array]:
    """What says of results that a combine made them."""
    return {JOINED.name: pa.repeat(pa.scalar(value=True), count)}


def firsts(pairs: Pairs, drivers: int) -> Pairs:
    """The first match of each of some driver records, or none."""
    places = np.searchsorted(pairs.driver, np.arange(drivers))
    is_there = np.isin(np.arange(drivers), pairs.driver)
    found = {}
    for name, rows in pairs.builds.items():
        found[name] = np.full(drivers, -1)
        found[name][is_there] = rows[places[is_there]]
    return Pairs(np.arange(drivers), found)

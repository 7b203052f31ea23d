"""The operators of a combine: for broadcast build sides, for a shuffled one, and for materializing build sides."""

from __future__ import annotations

from spark_jobs.nodes import shuffle
from spark_jobs.nodes.combine import build, run, shuffled
from spark_jobs.nodes.terms import shape

#: The operators of a combine by their roles.
OPERATORS = {
    shape.Role.WHOLE: run.Combine,
    shape.Role.PARTIAL: shuffled.Spread,
    shape.Role.FINAL: shuffled.Probe,
    shape.Role.ORDERED: shuffle.RestoreOrder,
    shape.Role.BUILD: build.MaterializeBuildSide,
}

"""Checks the columns that compositions declare to produce against their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from spark_jobs.plan.binder import Bindings


def check(bindings: Bindings) -> None:
    """E102 for columns of `produces` that the output port lacks, or has with another type; once for each file."""
    reported = set()
    for path, instance in bindings.expansion.instances.items():
        flows = bindings.flows.get(instance.gives[0]) if instance.gives else None
        if flows is None or instance.gives is None or instance.gives[1] not in flows:
            continue
        row = flows[instance.gives[1]].schema
        for column, place in instance.composition.produces:
            given = row.get(column.name)
            what = f'composition "{"/".join(path)}" says that it produces column "{column.name}"'
            if (instance.composition.path, column.name) in reported:
                continue
            if given is None:
                reported.add((instance.composition.path, column.name))
                hint = nearest.hint(column.name, [one.name for one in row.user_columns])
                message = f"{what}, and its last node does not"
                bindings.found.add(codes.E102.at(place, message, help=hint or "emit it, or leave it out here"))
            elif types.unify(column.type.non_null(), given.type.non_null()) is None:
                reported.add((instance.composition.path, column.name))
                bindings.found.add(codes.E102.at(place, f"{what} as {column.type}, and it is {given.type}"))

"""The node types: every package next to this module that has a `config.py` with a `NODE`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

import spark_jobs.nodes

if TYPE_CHECKING:
    from spark_jobs.nodes.binding import NodeType
    from spark_jobs.nodes.terms.description import Description


@cache
def node_types() -> dict[str, NodeType]:
    """All node types by the word under `type:`, in name order."""
    found: dict[str, NodeType] = {}
    for module in sorted(pkgutil.iter_modules(spark_jobs.nodes.__path__), key=lambda module: module.name):
        name = f"spark_jobs.nodes.{module.name}.config"
        # Packages without configuration are steps that the planner adds by itself.
        if module.ispkg and importlib.util.find_spec(name) is not None:
            declared = importlib.import_module(name).NODE
            found[declared.kind] = declared
    return found


def runners() -> list[str]:
    """The names of the modules that run the types of nodes, in name order."""
    packages = (module.name for module in pkgutil.iter_modules(spark_jobs.nodes.__path__) if module.ispkg)
    names = (f"spark_jobs.nodes.{name}.run" for name in sorted(packages))
    return [name for name in names if importlib.util.find_spec(name) is not None]


def described(kind: str) -> Description:
    """The description of a step type."""
    found = node_types()[kind].description
    assert found is not None, f"a {kind} is no step of a plan"
    return found

"""Composition calls as users write them. `plan/expanding/expand.py` replaces them by their bodies."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from spark_jobs.nodes.binding import BindScope, Bound, NodeType, Wiring, passes_through
from spark_jobs.nodes.model import NodeConfig


class CompositionConfig(NodeConfig):
    """`config:` of a call: values of the composition's parameters, by their names."""

    model_config = ConfigDict(extra="allow")


def bind(config: Any, scope: BindScope) -> Bound | None:
    """None: calls are expanded before binding."""
    raise AssertionError("compositions are expanded before binding")


NODE = NodeType("composition", Wiring.CALL, CompositionConfig, bind, passes_through, None, needs_config=False)

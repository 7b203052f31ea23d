"""What is legal and probably not meant: settings without effect, nodes that lead nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.plan.reading import reader

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.graph import Graph
    from spark_jobs.plan.reading.document import Document

#: Settings of the original engine that Spark has its own ways for, with what to say.
_WITHOUT_EFFECT = {
    ("memory", "backpressure"): "Spark manages memory pressure itself",
    ("concurrency", "chunk_size"): "tasks follow the sizes of files",
    ("batch_size",): "batches follow the memory limit",
}


def check(read: Document, wiring: Graph, found: Diagnostics) -> None:
    """Note settings without effect (W003) and nodes that lead to no output (W004)."""
    for path, why in _WITHOUT_EFFECT.items():
        where = ("pipeline", *path)
        _, key, depth = reader.locate(read.tree, where)
        if depth == len(where):
            found.add(codes.W003.at(key, f"`{'.'.join(path)}` has no effect: {why}"))
    windowed = {node.config.ranges_over for node in wiring.nodes.values() if node.config is not None}
    consumers = wiring.consumers()
    for name, node in wiring.nodes.items():
        ends = node.type.is_end or node.instance or name in windowed
        if not ends and not consumers[name]:
            message = f"nothing reads '{name}': its records are written nowhere"
            found.add(codes.W004.at(node.span, message, help="write them to an output, or remove the node"))

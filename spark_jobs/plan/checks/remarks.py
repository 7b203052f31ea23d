"""Warnings about legal configuration that is probably a mistake: settings without effect, nodes that lead nowhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.plan.reading import reader
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.graph import Graph
    from spark_jobs.plan.reading.document import Document
    from spark_jobs.plan.reading.yaml_tree import Node

#: Settings of the original engine that Spark handles in its own way, with a remedy.
_WITHOUT_EFFECT = {
    ("memory", "backpressure"): "Spark manages memory pressure itself",
    ("concurrency", "chunk_size"): "tasks follow the sizes of files",
    ("batch_size",): "batches follow the memory limit",
}


#: The keys under which types are written.
_SCHEMAS = frozenset({"schema", "schema_overrides", "format_schema", "fields", "vars"})
_DECIMAL = re.compile(r"(?:nullable\(\s*)?decimal\s*\)?")


def check_decimals(read: Document, found: Diagnostics) -> None:
    """Tell once that `decimal` is a word for `float`, which the next release changes (W008)."""
    places = [scalar.span for scalar in _types(read.tree, within=False) if _DECIMAL.fullmatch(scalar.text)]
    if places:
        more = f" here and in {len(places) - 1} more places" if len(places) > 1 else ""
        message = f"`decimal` is a word for `float`{more}; with the next release it is an exact type"
        help_text = (
            "write `decimal(12,2)` for exact numbers or `float` for others, or say in clinker.toml what it means: "
            '`[behavior]` with `decimal = "exact"` or `"float"`'
        )
        found.add(codes.W008.at(places[0], message, help=help_text))


def _types(node: Node, *, within: bool) -> Iterator[Scalar]:
    """The scalars in schemas that may be types."""
    match node:
        case Mapping():
            for key, entry in node.entries.items():
                if isinstance(entry.value, Scalar):
                    if within and key not in _NO_TYPES:
                        yield entry.value
                else:
                    yield from _types(entry.value, within=within or key in _SCHEMAS)
        case Sequence():
            for item in node.items:
                yield from _types(item, within=within)


#: Keys of columns that hold other texts.
_NO_TYPES = frozenset({"name", "alias", "description", "format", "default", "path", "inherits"})


def check(read: Document, wiring: Graph, found: Diagnostics) -> None:
    """Note settings without effect (W003) and nodes that lead to no output (W004)."""
    for path, why in _WITHOUT_EFFECT.items():
        where = ("pipeline", *path)
        _, key, depth = reader.locate(read.tree, where)
        if depth == len(where):
            found.add(codes.W003.at(key, f"`{'.'.join(path)}` has no effect: {why}"))
    looked_up = {name for names in wiring.lookups.values() for name in names}
    consumers = wiring.consumers()
    for name, node in wiring.nodes.items():
        ends = node.type.is_end or node.instance or name in looked_up
        if not ends and not consumers[name]:
            message = f"nothing reads '{name}': its records are written nowhere"
            found.add(codes.W004.at(node.span, message, help="write them to an output, or remove the node"))

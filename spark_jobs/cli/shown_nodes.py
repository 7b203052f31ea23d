"""Adds outputs with the records of any nodes to a pipeline, for tests and previews."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.types import Kind
from spark_jobs.cxl.written_numbers import number_of
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import SourceFile
from spark_jobs.formats.json.options import JsonLayout, JsonWrite
from spark_jobs.nodes.output.step import IfExists
from spark_jobs.plan.reading import document
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.plan.reading.document import Document


def of_kind(read: Document, kind: str) -> list[str]:
    """The nodes of one kind in a document, by name: `source`, `output`."""
    return [node.name for node in read.nodes if node.kind == kind]


def branches(read: Document) -> dict[str, list[str]]:
    """The branches of each route of a document, as inputs name them."""
    found = {}
    for node in read.nodes:
        config: Any = node.config
        if node.kind == "route" and config is not None:
            names = dict.fromkeys((*config.conditions, config.default))
            found[node.name] = [f"{node.name}.{branch}" for branch in names]
    return found


def added(named: Mapping[str, str]) -> Iterable[Any]:
    """Nodes of a document that write the records of others as lines of JSON, nulls included.

    Args:
        named: by the name of each new node, the node that it shows, or the port of one (`split.large`).
    """
    nodes = [
        {
            "type": "output",
            "name": name,
            "input": of,
            "config": {
                "type": "json",
                "path": f"{name}.ndjson",
                "preserve_nulls": True,
                "options": {"format": "ndjson"},
            },
        }
        for name, of in named.items()
    ]
    text = json.dumps({"pipeline": {"name": "shown"}, "nodes": nodes})
    read = document.read(SourceFile("<shown>", text), {}, Diagnostics())
    return read.nodes if read else []


def record(line: str, decimals: Collection[str] = ()) -> dict[str, Any]:
    """The record of a JSON line. Its numbers keep their digits; the numbers of `decimals` become Decimals."""
    found: dict[str, Any] = json.loads(line, parse_int=number_of, parse_float=number_of)
    if decimals:
        exact = json.loads(line, parse_float=Decimal, parse_int=Decimal)
        found.update({name: exact[name] for name in decimals if isinstance(exact.get(name), Decimal)})
    return found


def decimals_of(step: OutputStep) -> frozenset[str]:
    """The columns of an output that are Decimals."""
    return frozenset(column.name for column in step.columns if column.type.kind is Kind.DECIMAL)


def as_lines(step: OutputStep, path: str) -> OutputStep:
    """An output as one file of lines of JSON, with nulls; names and columns are as they would be in its own file."""
    return replace(
        step, path=path, format="json", options=JsonWrite(format=JsonLayout.NDJSON, compression=Compression.NONE),
        if_exists=IfExists.OVERWRITE, split=None, by_file=None, parts=False, write_meta=False, preserve_nulls=True,
        layout=None, header=(),
    )  # fmt: skip

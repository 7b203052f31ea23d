"""Pipelines whose records are on a network, for tests: a shop that serves orders in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.execute import pipelines
from tests.scan import web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "marzipan-4711"
ORDERS = [{"id": number, "amount": number * 1.5, "item": {"name": f"n{number}"}} for number in range(1, 8)]
SCHEMA = {"id": "int", "amount": "float"}


def source(name: str, url: str, *, pagination: Any = None, **config: Any) -> dict[str, Any]:
    transport = {"kind": "rest", "url": url, "max_pages": 20, "retries": 0, "timeout_secs": 20}
    transport |= {"pagination": pagination} if pagination else {}
    transport |= config.pop("transport", {})
    return {
        "name": name,
        "type": "source",
        "config": {"type": "json", "schema": SCHEMA, "transport": transport, **config},
    }


def write(folder: Path, *nodes: dict[str, Any], output: str = "orders", **errors: Any) -> None:
    out = {"type": "output", "name": "copy", "input": output, "config": {"type": "csv", "path": "out/copy.csv"}}
    document = {"pipeline": {"name": "shop"}, "nodes": [*nodes, out]}
    if errors:
        document["error_handling"] = errors
    pipelines.write(folder, {"pipeline.yaml": yaml.safe_dump(document, sort_keys=False)})


def merged(*names: str) -> dict[str, Any]:
    return {"type": "merge", "name": "all", "inputs": list(names), "config": {"mode": "concat"}}


def by_offset(records: list[Any]) -> Callable[[web.Request], web.Answer]:
    def answer(request: web.Request) -> web.Answer:
        start = int(request.query["offset"])
        return web.page(*records[start : start + int(request.query["limit"])])

    return answer


OFFSET = {"strategy": "offset", "limit": 3}


def everything(folder: Path) -> str:
    """All names and contents of a folder."""
    return "\n".join(
        f"{path}\n{path.read_bytes().decode('utf-8', 'replace') if path.is_file() else ''}"
        for path in sorted(folder.rglob("*"))
    )

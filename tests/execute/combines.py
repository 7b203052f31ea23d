"""Combines of many shapes, with their inputs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
    pipeline: {name: p, concurrency: {threads: 2}}
    error_handling: {strategy: STRATEGY, dlq: {path: out/dead.csv}}
    nodes:
      - type: source
        name: orders
        config: {name: orders, type: csv, path: orders.csv, on_unmapped: {mode: auto_widen}, schema: KEYED}
      - {type: source, name: more, config: {name: more, type: csv, path: more.csv, schema: KEYED}}
      - type: source
        name: parts
        config: {name: parts, type: csv, path: parts.csv, schema: {key: float, f: int, w: string}}
""".replace("KEYED", "{id: int, key: int, amount: int}")
TAIL = """
      - {type: output, name: o, input: LAST, config: {name: o, type: csv, path: out/o.csv}}
"""
COMBINE = """
      - type: combine
        name: c
        input: {o: DRIVER, p: BUILD}
        config:
          where: WHERE
          match: MATCH
          on_miss: MISS
          propagate_ck: driver
          STRATEGY
          cxl: |
            emit id = o.id
            emit w = p.w
            emit part = 100 / p.f
            emit file = $source.file
            emit row = $source.row
"""
MERGED = "      - {type: merge, name: both, inputs: [orders, more], config: {}}\n"
GROUPS = """
      - type: aggregate
        name: groups
        input: BUILDS
        config: {group_by: [key], cxl: "emit w = last(w)\\nemit f = max(f)"}
"""


def combine(
    driver: str = "orders", build: str = "parts", where: str = "o.key == p.key", match: str = "all",
    miss: str = "null_fields", strategy: str = "",
) -> str:  # fmt: skip
    text = COMBINE.replace("DRIVER", driver).replace("BUILD", build).replace("WHERE", f'"{where}"')
    return text.replace("MATCH", match).replace("MISS", miss).replace("STRATEGY", strategy)


SHAPES = {
    "all": combine(),
    "first": combine(match="first", miss="skip"),
    "a range beside the key": combine(where="o.key == p.key and o.amount > p.f"),
    "two keys": combine(where="o.key == p.key and o.amount % 3 == p.f % 3"),
    "keys that fail": combine(where="100 / o.key == p.key"),
    "merged drivers": MERGED + combine(driver="both"),
    "a build side of groups": GROUPS.replace("BUILDS", "parts") + combine(build="groups"),
    "groups that drive": """
      - type: aggregate
        name: totals
        input: orders
        config: {group_by: [key], cxl: "emit id = min(id)\\nemit amount = sum(amount)"}
"""
    + combine(driver="totals"),
}
COLLECT = """
      - type: combine
        name: c
        input: {o: orders, p: parts}
        config: {where: "o.key == p.key", match: collect, propagate_ck: driver}
      - {type: transform, name: t, input: c, config: {cxl: "emit id = id\\nemit n = p.length()"}}
"""
SHAPES["collect"] = COLLECT
THREE = """
      - type: combine
        name: c
        input: {o: orders, p: parts, m: more}
        config:
          where: "o.key == p.key and p.f == m.amount"
          match: all
          propagate_ck: driver
          drive: o
          cxl: |
            emit id = o.id
            emit w = p.w
            emit other = m.id
"""
SHAPES["three inputs"] = THREE


def write(folder: Path, body: str, strategy: str = "continue", more_rows: int = 100, last: str | None = None) -> None:
    random_ = random.Random(3)
    orders = (f"{i},{random_.choice(['', *range(60)])},{random_.randrange(50)},x{i % 7}" for i in range(400))
    more = (f"{i},{random_.randrange(60)},{random_.randrange(9)}" for i in range(more_rows))
    parts = (f"{random_.choice(['', *range(50)])},{random_.randrange(9)},w{i}" for i in range(150))
    last = last or ("t" if body == COLLECT else "c")
    pipelines.write(folder, {
        "pipeline.yaml": (HEAD + body + TAIL).replace("STRATEGY", strategy).replace("LAST", last),
        "orders.csv": ("id,key,amount,extra\n" + "\n".join(orders) + "\n").encode(),
        "more.csv": ("id,key,amount\n" + "\n".join(more) + "\n").encode(),
        "parts.csv": ("key,f,w\n" + "\n".join(parts) + "\n").encode(),
    })  # fmt: skip


def dead(text: bytes) -> list[list[str]]:
    """Dead letters without their ids and times."""
    return [line.split(",")[2:] for line in text.decode().splitlines()]

"""The plan as a picture: for Graphviz, for Mermaid, and as SVG or a page that needs neither of them nor a network."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics.printable import printable
from spark_jobs.nodes.terms.shape import Passage
from spark_jobs.plan.physical import edges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.plan.physical.edges import Edge
    from spark_jobs.plan.plan import Plan, PlannedNode

#: In pixels: a letter, a box, and the space between boxes beside and below each other.
_LETTER, _HEIGHT, _COLUMN_GAP, _ROW_GAP, _MARGIN = 7.6, 46, 28, 64, 12
_NARROWEST = 110
#: A longer name is cut in the box; the whole one is its tooltip.
_LONGEST_NAME = 32
#: The number of passes that improve the order of boxes in a row by the places of their neighbours.
_SWEEPS = 8
#: The labels of edges that do more than pass records on.
_WORDS = {
    Passage.SHUFFLED: "shuffled",
    Passage.SORTED: "sorted",
    Passage.BROADCAST: "broadcast",
    Passage.WRITTEN: "materialized",
}

_STYLE = """
svg { font: 13px ui-sans-serif, system-ui, sans-serif; }
.node rect { fill: #fff; stroke: #6b7280; rx: 6px; }
.node .kind { fill: #6b7280; font-size: 11px; }
.node .name { fill: #111827; font-weight: 600; }
.source rect { fill: #ecfdf5; stroke: #059669; }
.output rect { fill: #eff6ff; stroke: #2563eb; }
.edge { fill: none; stroke: #9ca3af; stroke-width: 1.5; }
.shuffled, .sorted { stroke: #d97706; stroke-width: 3; }
.broadcast, .materialized { stroke: #7c3aed; stroke-width: 2; stroke-dasharray: 6 4; }
.label { fill: #4b5563; font-size: 11px; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
@media (prefers-color-scheme: dark) {
  .node rect { fill: #1f2937; stroke: #9ca3af; }
  .node .kind { fill: #9ca3af; }
  .node .name { fill: #f3f4f6; }
  .source rect { fill: #064e3b; stroke: #34d399; }
  .output rect { fill: #1e3a8a; stroke: #93c5fd; }
  .edge { stroke: #6b7280; }
  .shuffled, .sorted { stroke: #fbbf24; }
  .broadcast, .materialized { stroke: #c4b5fd; }
  .label { fill: #d1d5db; stroke: #111827; }
}
"""
_PAGE_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; background: light-dark(#fff, #111827); }
figure { margin: 0 0 2rem; overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #8886; padding: .25rem 1rem .25rem 0; text-align: left; }
"""


def dot(plan: Plan, parallel: Mapping[str, str]) -> str:
    """The plan for Graphviz; `parallel` says how the work of each node is divided."""
    numbers = _numbers(plan)
    lines = ["digraph {"]
    for planned in plan.nodes:
        label = _quoted(f"[{planned.kind}] {planned.name}\nparallel: {parallel[planned.name]}")
        lines.append(f"    {numbers[planned.name]} [ shape=box label={label} ]")
    for edge in edges.edges(plan):
        style = "" if edge.passage is Passage.PIPELINED else " style=bold"
        label = _quoted(_label(edge) or "data")
        lines.append(f"    {numbers[edge.producer]} -> {numbers[edge.consumer]} [ label={label}{style} ]")
    return "\n".join([*map(printable, lines), "}"]) + "\n"


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def mermaid(plan: Plan) -> str:
    """The plan for Mermaid, which pages of Markdown draw: shuffles are thick, broadcasts dotted."""
    numbers = _numbers(plan)
    lines = ["flowchart TD"]
    for planned in plan.nodes:
        text = _entity(f"{planned.name}\n{planned.kind}").replace("\n", "<br>")
        lines.append(f'    n{numbers[planned.name]}["{text}"]')
    arrows = {Passage.SHUFFLED: "==>", Passage.SORTED: "==>", Passage.BROADCAST: "-.->", Passage.WRITTEN: "-.->"}
    for edge in edges.edges(plan):
        label = _edge_text(edge)
        shown = f'|"{_entity(label)}"|' if label else ""
        arrow = arrows.get(edge.passage, "-->")
        lines.append(f"    n{numbers[edge.producer]} {arrow}{shown} n{numbers[edge.consumer]}")
    return "\n".join(map(printable, lines)) + "\n"


def _entity(text: str) -> str:
    """A text between quotes of Mermaid, which knows no other way out of them than entities."""
    return "".join(f"#{ord(sign)};" if sign in '"#<>&;|[]{}()`' else sign for sign in text)


def svg(plan: Plan) -> str:
    """The plan as a file that browsers show, in the colours of light and dark screens."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_drawn(plan)}\n'


def drawing(plan: Plan, records: Mapping[Edge, int]) -> str:
    """The plan as an element of a page, with the numbers of records that passed along its edges."""
    return _drawn(plan, records)


def page(plan: Plan) -> str:
    """The picture with the columns of each node below it."""
    title = html.escape(printable(plan.name))
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_PAGE_STYLE}</style></head><body><h1>{title}</h1><figure>{_drawn(plan)}</figure>",
        "<p>Thick lines: shuffled by key or sorted. Dashed lines: read whole by every task.</p>",
    ]
    for planned in plan.nodes:
        parts += _columns(planned)
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _columns(planned: PlannedNode) -> Iterator[str]:
    for port, schema in planned.outputs.items():
        name = f"{planned.name}.{port}" if port else planned.name
        columns = [*schema.user_columns]
        if columns:
            yield f"<h2>{html.escape(printable(name))}</h2><table><tr><th>column</th><th>type</th></tr>"
            for column in columns:
                yield f"<tr><td>{html.escape(printable(column.name))}</td><td>{html.escape(str(column.type))}</td></tr>"
            yield "</table>"


@dataclass
class _Box:
    """A node in the picture: its row, and where its middle and top are."""

    planned: PlannedNode
    row: int
    width: float
    middle: float = 0.0
    top: float = 0.0


def _drawn(plan: Plan, records: Mapping[Edge, int] | None = None) -> str:
    passing = edges.edges(plan)
    boxes = _placed(plan, passing)
    wide = max((box.middle + box.width / 2 for box in boxes.values()), default=0.0) + _MARGIN
    high = max((box.top + _HEIGHT for box in boxes.values()), default=0.0) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" '
        f'height="{high:.0f}" role="img" aria-label="{html.escape(printable(plan.name))}"><style>{_STYLE}</style>'
    ]
    labels = []
    leaving = Counter(edge.producer for edge in passing)
    for edge in passing:
        is_alone = leaving[edge.producer] == 1
        count = records.get(edge) if records else None
        path, label = _line(boxes[edge.producer], boxes[edge.consumer], edge, count, is_alone=is_alone)
        parts.append(path)
        labels.append(label)
    parts += [_box(box) for box in boxes.values()]
    return "\n".join([*parts, *filter(None, labels), "</svg>"])


def _placed(plan: Plan, passing: Sequence[Edge]) -> dict[str, _Box]:
    """The boxes of nodes: each below all that it reads, in rows whose order leaves few lines crossed."""
    boxes: dict[str, _Box] = {}
    upstream: dict[str, list[str]] = {planned.name: [] for planned in plan.nodes}
    downstream: dict[str, list[str]] = {planned.name: [] for planned in plan.nodes}
    for edge in passing:
        upstream[edge.consumer].append(edge.producer)
        downstream[edge.producer].append(edge.consumer)
    for planned in plan.nodes:  # in topological order
        below = 1 + max((boxes[name].row for name in upstream[planned.name]), default=-1)
        letters = max(_width(_cut(planned.name)), len(planned.kind))
        boxes[planned.name] = _Box(planned, below, max(_NARROWEST, letters * _LETTER + 24))
    for name in reversed([*boxes]):
        # A source stands right above its first reader.
        if not upstream[name] and downstream[name]:
            boxes[name].row = min(boxes[consumer].row for consumer in downstream[name]) - 1
    rows: list[list[_Box]] = [[] for _ in range(1 + max((box.row for box in boxes.values()), default=-1))]
    for box in boxes.values():
        rows[box.row].append(box)
    for sweep in range(_SWEEPS):
        neighbours = upstream if sweep % 2 == 0 else downstream
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _spread(rows)
            wanted = {
                box.planned.name: _mean([boxes[name].middle for name in neighbours[box.planned.name]], box.middle)
                for box in row
            }
            row.sort(key=lambda box: wanted[box.planned.name])
    _spread(rows)
    return boxes


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spread(rows: Sequence[Sequence[_Box]]) -> None:
    """Give the boxes of each row their places, rows centred below each other."""
    widths = [sum(box.width for box in row) + _COLUMN_GAP * (len(row) - 1) for row in rows]
    widest = max(widths, default=0.0)
    for number, (row, width) in enumerate(zip(rows, widths, strict=True)):
        left = _MARGIN + (widest - width) / 2
        for box in row:
            box.middle, box.top = left + box.width / 2, _MARGIN + number * (_HEIGHT + _ROW_GAP)
            left += box.width + _COLUMN_GAP


def _box(box: _Box) -> str:
    planned = box.planned
    kind = planned.kind if planned.kind in ("source", "output") else ""
    title = html.escape(printable(planned.name))
    return (
        f'<g class="node {kind}"><title>{title}</title>'
        f'<rect x="{box.middle - box.width / 2:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{_HEIGHT}"/>'
        f'<text class="name" text-anchor="middle" x="{box.middle:.1f}" y="{box.top + 20:.1f}">'
        f"{html.escape(printable(_cut(planned.name)))}</text>"
        f'<text class="kind" text-anchor="middle" x="{box.middle:.1f}" y="{box.top + 36:.1f}">'
        f"{html.escape(planned.kind)}</text></g>"
    )


def _line(producer: _Box, consumer: _Box, edge: Edge, count: int | None, *, is_alone: bool) -> tuple[str, str]:
    """The line of an edge, and its label, at that end of it where fewer lines meet.

    Args:
        producer: where it begins.
        consumer: where it ends.
        edge: the edge.
        count: how many records passed along it; None if that is not known.
        is_alone: whether the producer has no other one.
    """
    x1, y1, x2, y2 = producer.middle, producer.top + _HEIGHT, consumer.middle, consumer.top
    half = (y2 - y1) / 2
    word = _WORDS.get(edge.passage, "")
    path = (
        f'<path class="edge {word}" d="M {x1:.1f} {y1:.1f} C {x1:.1f} {y1 + half:.1f}, {x2:.1f} {y2 - half:.1f}, '
        f'{x2:.1f} {y2:.1f}"><title>{html.escape(printable(edge.passage))}</title></path>'
    )
    text = _label(edge) or word
    if count is not None:
        text = f"{text}: {count:,}" if text else f"{count:,}"
    if not text:
        return path, ""
    t = 0.3 if is_alone else 0.7
    # The curve's point: its inner points are half way down, right below its first and right above its last.
    x = x1 * (1 - t) ** 2 * (1 + 2 * t) + x2 * t**2 * (3 - 2 * t)
    y = y1 * (1 - t) ** 3 + 3 * (y1 + half) * t * (1 - t) + y2 * t**3
    return path, (
        f'<text class="label" text-anchor="middle" x="{x:.1f}" y="{y + 4:.1f}">{html.escape(printable(text))}</text>'
    )


def _label(edge: Edge) -> str:
    return edge.port or edge.qualifier or ""


def _edge_text(edge: Edge) -> str:
    return ", ".join(filter(None, (_label(edge), _WORDS.get(edge.passage, ""))))


def _width(text: str) -> int:
    """The width of a text, in Latin letters."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _numbers(plan: Plan) -> dict[str, int]:
    return {planned.name: number for number, planned in enumerate(plan.nodes)}

"""Pictures of plans: every node and edge is there, nothing of a pipeline's text is markup, boxes do not overlap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from spark_jobs.plan import planner
from spark_jobs.plan.explain import explain, pictures
from spark_jobs.plan.options import PlanOptions

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

SVG = "{http://www.w3.org/2000/svg}"
PIPELINE = """
pipeline: { name: "a <b> & 'c'" }
nodes:
  - { type: source, name: orders, config: { type: csv, path: o.csv, schema: { id: int, n: int } } }
  - { type: source, name: prices, config: { type: csv, path: p.csv, schema: { id: int, price: float } } }
  - type: combine
    name: "with \\"price\\" <x>"
    input: { o: orders, p: prices }
    config: { where: o.id == p.id, cxl: "emit id = o.id\\nemit price = p.price" }
  - type: route
    name: size
    input: "with \\"price\\" <x>"
    config: { conditions: { big: price > 10.0 }, default: small }
  - { type: aggregate, name: sums, input: size.big, config: { group_by: [id], cxl: "emit total = sum(price)" } }
  - { type: output, name: totals, input: sums, config: { type: csv, path: totals.csv } }
  - { type: output, name: rest, input: size.small, config: { type: csv, path: rest.csv } }
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE)
    found, problems = planner.plan(path, PlanOptions())
    assert found is not None, problems.sorted()
    return found


def test_a_picture_has_every_node_and_edge(plan: Plan) -> None:
    root = ElementTree.fromstring(explain.show(plan, "svg"))
    titles = [group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    assert titles == ["orders", "prices", 'with "price" <x>', "size", "sums", "totals", "rest"]
    kinds = [path.get("class") for path in root.iter(f"{SVG}path")]
    assert sorted(kinds) == ["edge ", "edge ", "edge ", "edge ", "edge broadcast", "edge shuffled"]
    labels = {text.text for text in root.iter(f"{SVG}text") if text.get("class") == "label"}
    assert labels == {"o", "p", "big", "small"}
    ends = {path.findtext(f"{SVG}title") for path in root.iter(f"{SVG}path")}
    assert "materialized (shuffled by key)" in ends


def test_boxes_lie_below_what_they_read_and_beside_each_other(plan: Plan) -> None:
    root = ElementTree.fromstring(pictures.svg(plan))
    view = [float(number) for number in str(root.get("viewBox")).split()]
    boxes = {}
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(str(rect.get(name))) for name in ("x", "y", "width", "height"))
        boxes[str(group.findtext(f"{SVG}title"))] = (x, y, x + width, y + height)
        assert x >= 0
        assert x + width <= view[2]
        assert y + height <= view[3]
    placed = list(boxes.values())
    for number, one in enumerate(placed):
        for other in placed[number + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for upstream, downstream in [
        ("orders", 'with "price" <x>'),
        ("size", "sums"),
        ("sums", "totals"),
        ("size", "rest"),
    ]:
        assert boxes[upstream][3] < boxes[downstream][1]


def test_a_page_needs_no_network_and_shows_columns(plan: Plan) -> None:
    page = explain.show(plan, "html")
    assert "<b>" not in page
    assert not re.search(r"""(?:src|href)\s*=|url\(|@import|<script""", page)
    assert "<h2>size.big</h2>" in page
    assert "<td>price</td><td>Nullable(Float)</td>" in page or "<td>price</td><td>Float</td>" in page


def test_mermaid_gets_no_sign_of_its_own_out_of_names(plan: Plan) -> None:
    lines = explain.show(plan, "mermaid").splitlines()
    assert lines[0] == "flowchart TD"
    assert lines[3] == '    n2["with #34;price#34; #60;x#62;<br>combine"]'
    assert '    n0 -->|"o"| n2' in lines
    assert '    n1 -.->|"p, broadcast"| n2' in lines
    assert '    n3 ==>|"big, shuffled"| n4' in lines


def test_a_pipeline_of_one_source_has_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "pipeline: {name: p}\nnodes:\n"
        "  - {type: source, name: s, config: {type: csv, path: a.csv, schema: {a: int}}}\n"
        f"  - {{type: output, name: {'long' * 20}, input: s, config: {{type: csv, path: b.csv}}}}\n"
    )
    found, _ = planner.plan(path, PlanOptions())
    assert found is not None
    root = ElementTree.fromstring(pictures.svg(found))
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == ["s", "long" * 7 + "lon…"]

"""What is wrong with format schemas of fixed width is said before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan import pipelines as plans

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
    pipeline: {{ name: p }}
    nodes:
      - type: source
        name: s
        config: {{ type: fixed_width, path: in.txt, schema: [{{ name: id, type: int }}], format_schema: {layout} }}
      - type: output
        name: o
        input: s
        config: {{ type: fixed_width, path: out.txt, schema: {layout} }}
"""


@pytest.mark.parametrize(
    ("layout", "code", "says"),
    [
        ("{ fields: [] }", "E007", "the format schema has no fields"),
        ("{ fields: [{ name: id, start: 0 }] }", "E007", "field `id`: `width` is missing"),
        (
            "{ fields: [{ name: id, start: 0, width: 1, type: integer, precision: 0 }] }",
            "E224",
            "`precision` counts all digits",
        ),
        (
            "{ fields: [{ name: id, start: 0, width: 1, type: integer, enum: [1, x] }] }",
            "E224",
            "`x` under `enum` is no Int",
        ),
        (
            "{ discriminator: { start: 0, width: 1 }, records: [{ id: a, tag: A, fields: [{ name: id, start: 0 }] }] }",
            "E007",
            "`width` is missing",
        ),
        (
            "{ discriminator: { field: k }, records: [{ id: a, tag: A, fields: [{ name: id, start: 1, width: 1 }] }] }",
            "E007",
            "the field `k` is not in all kinds of records at the same place",
        ),
        (
            "{ discriminator: { start: 0, width: 1 }, records: [{ id: a, tag: AB, fields: "
            "[{ name: id, start: 0, width: 1 }] }] }",
            "E007",
            "the tag `AB` is longer than",
        ),
        (
            "{ discriminator: { start: 0, width: 1 }, structure: [{ record: a }], records: [{ id: a, tag: A, fields: "
            "[{ name: id, start: 0, width: 1 }] }] }",
            "E224",
            "a source reads each independently",
        ),
    ],
)
def test_layouts_are_checked_in_both_directions(layout: str, code: str, says: str, tmp_path: Path) -> None:
    text = PIPELINE.format(layout=layout)
    found = plans.problems(tmp_path, text)
    assert [item.code.id for item in found] == [code, code]
    assert all(says in item.message for item in found)

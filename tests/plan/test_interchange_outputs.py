"""Outputs of interchanges: what is missing or cannot be in their options and columns is known before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import planned, problems

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      type: json
      path: in.json
      on_unmapped: drop
      options: {{ record_path: rows }}
      envelope: {{ sections: {{ head: {{ extract: {{ json_pointer: /Head }}, fields: {{ e01: string }} }} }} }}
      schema: {schema}
  - type: output
    name: out
    input: rows
    config: {{ type: {kind}, path: out.edi, options: {options} }}
"""
ISA = "['00', '', '00', '', ZZ, ME, ZZ, YOU, '240301', '0800', U, '00401', '000000901', '0', P, ':']"
SCHEMA = "{ seg_id: string, e01: string }"


def text(kind: str, options: str, schema: str = SCHEMA) -> str:
    return TEXT.format(kind=kind, options=options, schema=schema)


@pytest.mark.parametrize(
    ("kind", "options", "schema", "says"),
    [
        ("edifact", "{ message_type: T }", SCHEMA, "there is no interchange header"),
        ("edifact", "{ interchange: [], message_type: T }", SCHEMA, "the header has no elements"),
        ("edifact", "{ interchange: [UNOA:1] }", SCHEMA, "no column 'msg_type', and no type of messages"),
        ("edifact", "{ interchange: [Ü], message_type: T, encoding: ascii }", SCHEMA, "character 'Ü' (U+00DC)"),
        ("edifact", "{ interchange: [a], message_type: Ü, encoding: ascii }", SCHEMA, "`message_type`: character 'Ü'"),
        ("edifact", "{ interchange_from_doc: haed, message_type: T }", SCHEMA, "has a section 'haed'"),
        ("edifact", "{ interchange: [a], message_type: T }", "{ e01: string }", "need a tag, and there is no column"),
        (
            "edifact",
            "{ interchange: [a], message_type: T }",
            "{ seg_id: string, price: float }",
            "column 'price' has no place in EDIFACT, which has seg_id, msg_ref, msg_type, e01",
        ),
        (
            "edifact",
            "{ interchange: [a], message_type: T }",
            "{ seg_id: string, e1: string, e01: string }",
            "column 'e01' is element 1, and so is another column",
        ),
        (
            "edifact",
            "{ interchange: [a], message_type: T }",
            "{ seg_id: string, e10000: string }",
            "column 'e10000' has no place",
        ),
        ("x12", f"{{ interchange: {ISA}, set_type: T }}", SCHEMA, "there is no functional group"),
        ("x12", f"{{ interchange: {ISA}, group_header: [PO] }}", SCHEMA, "no column 'set_type'"),
        ("x12", f"{{ interchange: {ISA}, group_header: [P*O], set_type: T }}", SCHEMA, "'P*O' has the delimiter '*'"),
        ("x12", f"{{ interchange: {ISA}, group_header: [PO], set_type: ~ }}", SCHEMA, "no column 'set_type'"),
        ("x12", f"{{ interchange: {ISA}, group_header: [PO], set_type: 'a~' }}", SCHEMA, "has the delimiter '~'"),
        ("x12", "{ interchange: [a], group_header: [PO], set_type: T }", SCHEMA, "an ISA segment has 16 elements"),
    ],
)
def test_what_an_interchange_lacks_is_known_before_a_run(
    kind: str, options: str, schema: str, says: str, tmp_path: Path
) -> None:
    (item,) = problems(tmp_path, text(kind, options, schema))
    assert item.code.id == "E007"
    assert says in item.message
    assert item.span


@pytest.mark.parametrize(
    ("kind", "options", "schema"),
    [
        ("edifact", "{ interchange: [UNOA+1], message_type: T }", SCHEMA),
        ("edifact", "{ interchange_from_doc: head }", "{ seg_id: string, msg_type: string, e9999: string }"),
        ("x12", f"{{ interchange: {ISA}, group_header: [PO] }}", "{ seg_id: string, set_type: string }"),
    ],
)
def test_whole_headers_are_fine(kind: str, options: str, schema: str, tmp_path: Path) -> None:
    assert problems(tmp_path, text(kind, options, schema)) == []
    assert planned(tmp_path, text(kind, options, schema))

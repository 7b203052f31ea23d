"""`envelope:` of a source that has no sections to find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import output, problems

if TYPE_CHECKING:
    from pathlib import Path

_REST = "transport: { kind: rest, url: 'https://a.example/x', max_pages: 1 }"


def source(config: str, extract: str) -> str:
    sections = f"sections: {{ head: {{ extract: {{ {extract} }}, fields: {{ day: date }} }} }}"
    return (
        "pipeline: { name: p }\nnodes:\n  - type: source\n    name: s\n"
        f"    config: {{ {config}, schema: {{ id: int }}, envelope: {{ {sections} }} }}\n" + output("s")
    )


@pytest.mark.parametrize(
    ("config", "extract", "says"),
    [
        ("type: csv, path: a.csv", "xml_path: /a/b", "CSV files have no sections"),
        ("type: parquet, path: a.parquet", "json_pointer: /a", "Parquet files have no sections"),
        (
            "type: fixed_width, path: a.txt, format_schema: { fields: [{ name: id, start: 0, width: 2 }] }",
            "xml_path: /a/b",
            "fixed-width files have no sections",
        ),
        (f"type: json, {_REST}", "json_pointer: /head", "pages of a network have no sections"),
        (f"type: xml, {_REST}", "xml_path: /a/head", "pages of a network have no sections"),
    ],
)
def test_sections_that_nothing_has_are_told(config: str, extract: str, says: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, source(config, extract))
    assert problem.code.id == "W003"
    assert says in problem.message
    assert problem.span is not None
    assert problem.span.file.text[problem.span.start : problem.span.end] == "envelope"


@pytest.mark.parametrize(
    ("config", "extract"),
    [
        ("type: json, path: a.json", "json_pointer: /head"),
        ("type: xml, path: a.xml", "xml_path: /a/head"),
        ("type: x12, path: a.x12", "segment: ISA"),
        ("type: edifact, path: a.edi", "segment: UNB"),
    ],
)
def test_sections_that_files_have_are_fine(config: str, extract: str, tmp_path: Path) -> None:
    assert not problems(tmp_path, source(config, extract))

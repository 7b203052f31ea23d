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


_FILE = (
    "pipeline: { name: p }\nnodes:\n  - type: source\n    name: s\n"
    "    config: { type: json, path: a.json, schema: { id: int }, "
    "envelope: { sections: { head: { extract: { json_pointer: /head }, fields: { day: date, size: int } } } } }\n"
)


def transform(name: str, given: str, program: str) -> str:
    return f"  - {{ type: transform, name: {name}, input: {given}, config: {{ cxl: '{program}' }} }}\n"


@pytest.mark.parametrize(
    ("program", "says", "help_text"),
    [
        ("emit a = $doc.head.day", "", ""),
        ("emit a = $doc.head.dya", "the section `head` declares no field `dya`", "did you mean `$doc.head.day`?"),
        ("emit a = $doc.head.zip", "the section `head` declares no field `zip`", "fields here: day, size"),
        ("filter $doc.haed.day == id", "no source of these records has a section", "did you mean `$doc.head.day`?"),
        ("emit a = $doc.other.day", "no source of these records has a section", "declare it under `envelope`"),
    ],
)
def test_document_values_that_nothing_declares_are_told(
    program: str, says: str, help_text: str, tmp_path: Path
) -> None:
    found = problems(tmp_path, _FILE + transform("t", "s", program) + output("t"))
    assert [item.code.id for item in found] == (["W214"] if says else [])
    for item in found:
        assert f"is always null: {says}" in item.message
        assert help_text in str(item.help)


def test_rows_of_aggregates_are_of_no_document(tmp_path: Path) -> None:
    """Also behind a merge and a combine."""
    grouped = _FILE + "  - { type: aggregate, name: g, input: s, config: { group_by: [id], cxl: emit n = count(*) } }\n"
    (item,) = problems(tmp_path, grouped + transform("t", "g", "emit a = $doc.head.day") + output("t"))
    assert item.code.id == "W214"
    assert "downstream of the aggregate 'g' rows belong to no document" in item.message
    assert "emit it as a field upstream of the aggregate" in str(item.help)
    inner = "emit n = count(*)\\nemit d = max($doc.head.size)"
    fine = _FILE + f'  - {{ type: aggregate, name: g, input: s, config: {{ group_by: [id], cxl: "{inner}" }} }}\n'
    assert not problems(tmp_path, fine + output("g"))

"""Reading pipeline files: strict keys, hoisting, spellings, everything reported at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan
from tests.plan.pipelines import ORDERS, found, planned, problems

if TYPE_CHECKING:
    from pathlib import Path


def source(config: str, schema: str = "{ id: int }") -> str:
    return f"""
pipeline: {{ name: p }}
nodes:
  - type: source
    name: s
    config: {{ type: csv, path: a.csv, schema: {schema}{config} }}
  - {{ type: output, name: o, input: s, config: {{ type: csv, path: o.csv }} }}
"""


def test_problems_of_all_nodes_and_blocks_come_together(tmp_path: Path) -> None:
    text = """
    pipeline: { nam: p }
    nodes:
      - { type: source, name: s, config: { type: cvs, path: a.csv, schema: { id: strng } } }
      - { type: transform, name: t, input: s, config: { max_expansion: 0 } }
      - { type: output, name: o, input: t, config: { type: csv, path: o.csv, options: { delimeter: ";" } } }
    error_handling: { strategy: continu }
    """
    assert found(tmp_path, text) == [
        ("E006", 1),
        ("E005", 1),
        ("E007", 3),
        ("E007", 3),
        ("E006", 4),
        ("E007", 4),
        ("E005", 5),
        ("E007", 6),
    ]


def test_unknown_keys_come_with_a_proposal_and_the_allowed_ones(tmp_path: Path) -> None:
    (item,) = problems(tmp_path, source(", on_unmaped: drop"))
    assert "did you mean `on_unmapped`?" in item.message
    assert item.help
    assert "watermark" in item.help


def test_options_are_checked_although_the_rest_of_the_configuration_is_wrong(tmp_path: Path) -> None:
    codes = [code for code, _ in found(tmp_path, source(", options: { delimeter: x }, min_size: much"))]
    assert codes == ["E005", "E215"]


@pytest.mark.parametrize("written", ["drop", "{ mode: drop }"])
def test_on_unmapped_has_two_spellings(written: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, source(f", on_unmapped: {written}"))
    assert plan.by_name["s"].step.on_unmapped == "drop"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "schema",
    [
        "{ id: int, at: nullable(date_time) }",
        "[{ name: id, type: int }, { name: at, type: { nullable: datetime } }]",
        "{ id: { type: integer }, at: timestamp }",
    ],
)
def test_schemas_have_several_spellings(schema: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, source("", schema))
    assert [str(column.type.non_null()) for column in plan.by_name["s"].outputs[""].user_columns] == ["Int", "DateTime"]


def test_configuration_keys_may_stand_on_the_node(tmp_path: Path) -> None:
    flat = """
    pipeline: { name: p }
    nodes:
      - { type: source, name: s, format: csv, path: a.csv, schema: { id: int } }
      - { type: transform, name: t, input: s, cxl: emit twice = id * 2 }
      - { type: output, name: o, input: t, config: { type: csv }, path: o.csv }
    """
    plan = planned(tmp_path, flat)
    assert plan.by_name["t"].outputs[""].names[:2] == ("id", "$widened")
    assert plan.by_name["o"].step.path == "o.csv"  # type: ignore[union-attr]


def test_the_same_key_on_the_node_and_below_it_is_an_error_with_both_places(tmp_path: Path) -> None:
    text = """
    pipeline: { name: p }
    nodes:
      - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
      - type: transform
        name: t
        input: s
        cxl: emit a = id
        config:
          cxl: emit b = id
      - { type: output, name: o, input: t, config: { type: csv, path: o.csv } }
    """
    (item,) = problems(tmp_path, text)
    assert (item.code.id, item.span.line if item.span else 0) == ("E008", 9)
    assert [label.span.line for label in item.labels] == [7]


def test_numbers_and_words_may_be_texts_but_texts_are_no_numbers(tmp_path: Path) -> None:
    text = (
        ORDERS
        + "  - { type: output, name: 5, input: orders, config: { type: csv, path: no, unique_suffix_width: '3' } }\n"
    )
    assert [code for code, _ in found(tmp_path, text)] == ["E007"]
    text = text.replace("'3'", "3")
    plan = planned(tmp_path, text)
    assert plan.by_name["5"].step.path == "no"  # type: ignore[union-attr]


def test_notes_and_descriptions_are_ignored_anywhere(tmp_path: Path) -> None:
    text = """
    _notes: { a: 1 }
    pipeline: { name: p, _notes: x, description: d }
    nodes:
      - type: source
        name: s
        description: |
          two
          lines
        _notes: [1]
        config: { type: csv, path: a.csv, schema: { id: int }, _notes: x, description: d }
      - { type: output, name: o, input: s, config: { type: csv, path: o.csv } }
    """
    assert found(tmp_path, text) == []


@pytest.mark.parametrize("text", ["[1, 2]", "just a text", "pipeline: { name: p }", "nodes: []", "pipeline:\nnodes:\n"])
def test_files_that_are_no_pipelines_are_diagnosed(text: str, tmp_path: Path) -> None:
    assert any(item.is_error for item in problems(tmp_path, text))


def test_a_missing_file_and_one_that_is_not_utf_8_are_diagnosed(tmp_path: Path) -> None:
    from spark_jobs import plan

    (missing,) = plan.validate(tmp_path / "gone.yaml")
    assert (missing.code.id, missing.span) == ("E000", None)
    (tmp_path / "latin.yaml").write_bytes(b"pipeline:\n  name: caf\xe9\n")
    (encoded,) = plan.validate(tmp_path / "latin.yaml")
    assert encoded.span is not None
    assert (encoded.span.line, encoded.span.column) == (2, 12)


FIXED = """
pipeline: { name: p }
nodes:
  - type: source
    name: s
    config: { type: fixed_width, path: a.txt, format_schema: layouts/a.yaml, schema: { id: int } }
  - { type: output, name: o, input: s, config: { type: csv, path: o.csv } }
"""


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("fields: [{ name: id, start: 0, width: 5 }]", []),
        ("fields: [{ name: id, strat: 0 }]", [("E005", 1)]),
        ("records: [{ id: a, tag: A, fields: [] }]", [("E007", 1)]),
        ("[1]", [("E007", 1)]),
        (None, [("E000", 5)]),
    ],
)
def test_format_schemas_may_stand_in_files(layout: str | None, expected: list[tuple[str, int]], tmp_path: Path) -> None:
    if layout is not None:
        (tmp_path / "layouts").mkdir()
        (tmp_path / "layouts" / "a.yaml").write_text(layout)
    assert found(tmp_path, FIXED) == expected


def test_numbers_beyond_all_floats_are_refused(tmp_path: Path) -> None:
    output = "  - { type: output, name: out, input: orders, config: { type: csv, path: out.csv } }\n"
    number = "9" * 390
    errors = f"error_handling:\n  type_error_threshold: {number}\n  dlq: {{ path: d.csv, max_rate: {number} }}\n"
    assert found(tmp_path, ORDERS + output + errors) == [("E318", 15), ("E007", 16)]


ROUTE = """
pipeline: { name: p }
error_handling: { strategy: dead_letter_queue, dlq: { path: dead.csv } }
nodes:
  - { type: source, name: s, config: { type: csv, path: s.csv, schema: { id: int } } }
  - type: route
    name: r
    input: s
    config:
      routes: { low: id < 3 }
      default: high
  - { type: output, name: o, input: r.low, config: { type: csv, path: o.csv } }
  - { type: output, name: q, input: r.high, config: { type: csv, path: q.csv } }
"""


def test_spellings_of_other_chapters_are_accepted(tmp_path: Path) -> None:
    plan = planned(tmp_path, ROUTE)
    assert str(plan.errors.strategy) == "continue"
    assert list(plan.by_name["r"].outputs) == ["low", "high"]
    on_the_node = ROUTE.replace(
        "    config:\n      routes: { low: id < 3 }\n      default: high",
        "    routes: { low: id < 3 }\n    default: high",
    )
    assert list(planned(tmp_path, on_the_node).by_name["r"].outputs) == ["low", "high"]


def test_mistakes_below_another_spelling_have_their_place(tmp_path: Path) -> None:
    (item,) = problems(tmp_path, ROUTE.replace("id < 3", "idd < 3"))
    assert (item.code.id, item.span.line if item.span else 0) == ("E200", 9)
    both = ROUTE.replace("      default: high", "      conditions: { low: id < 4 }\n      default: high")
    assert [code for code, _ in found(tmp_path, both)] == ["E008"]


@pytest.mark.parametrize(
    "written", ["strategy: continue", "error_handling: { strategy: continue }", "config: { strategy: continue }"]
)
def test_a_strategy_of_a_node_is_refused_with_what_to_write(written: str, tmp_path: Path) -> None:
    if written.startswith("config"):
        text = ROUTE.replace(
            "config: { type: csv, path: o.csv }", "config: { strategy: continue, type: csv, path: o.csv }"
        )
    else:
        text = ROUTE.replace("input: r.low,", f"input: r.low, {written},")
    (item,) = problems(tmp_path, text)
    assert item.code.id == "E005"
    assert "write `error_handling: {strategy: …" in str(item.help)


def test_fuzzy_match_is_refused_with_what_to_write(tmp_path: Path) -> None:
    (item,) = problems(tmp_path, ROUTE.replace("id < 3", "'fuzzy_match(id, 3)'"))
    assert (item.code.id, "write `id.trim().lower() == other.trim().lower()`") == ("E200", item.help)


@pytest.mark.parametrize("kind", ["pipeline", "schema"])
def test_a_file_without_end_is_not_read_to_its_end(kind: str, tmp_path: Path) -> None:
    endless = tmp_path / "endless.yaml"
    with endless.open("wb") as file:
        file.truncate(1 << 36)  # takes no room
    text = source(", format_schema: endless.yaml")
    told = problems(tmp_path, text) if kind == "schema" else plan.validate(endless)
    (problem,) = [each for each in told if each.code.id == "E000"]
    assert "endless.yaml`: the file is larger than 32 MiB" in problem.message

"""Columns from format schemas and their patches: what binds, what is refused, and what `explain` says of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.plan import pending
from spark_jobs.plan.explain import explain, lineage
from tests.plan.pipelines import planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

LAYOUT = """
    defs:
      money: { type: decimal, required: true, width: 9 }
    fields:
      - { name: id, type: integer }
      - { name: amount, inherits: money }
      - { name: day, type: date, format: "%d/%m/%y" }
      - { name: note, type: string }
    """
PLAIN = "fields: [{ name: id, type: integer }, { name: day, type: date }, { name: note }]"
RECORDS = """
    discriminator: { start: 0, width: 1 }
    records:
      - { id: header, tag: H, fields: [{ name: day, type: date, start: 1, end: 9 }] }
      - id: item
        tag: I
        fields: [{ name: sku, type: string, start: 1, width: 4 }, { name: day, type: date, start: 5, width: 8 }]
    """


def pipeline(overrides: str = "[]", more: str = "", kind: str = "csv") -> str:
    return f"""
pipeline: {{ name: shop }}
nodes:
  - type: source
    name: orders
    config:
      type: {kind}
      path: orders.txt
      {more}
      format_schema: layout.yaml
      schema_overrides: {overrides}
  - type: output
    name: result
    input: orders
    config: {{ type: csv, path: result.csv }}
"""


def bound(folder: Path, overrides: str = "[]", more: str = "", kind: str = "csv", layout: str = LAYOUT) -> Plan:
    write(folder, layout, "layout.yaml")
    return planned(folder, pipeline(overrides, more, kind))


def columns(plan: Plan) -> list[str]:
    found = plan.by_name["orders"].step.columns  # type: ignore[union-attr]
    return [f"{c.name}: {c.type}{' required' * c.required}{''.join(f' {form}' for form in c.formats)}" for c in found]


def test_without_a_schema_the_columns_are_the_fields_of_the_format_schema(tmp_path: Path) -> None:
    assert columns(bound(tmp_path)) == ["id: Int", "amount: Float required", "day: Date %d/%m/%y", "note: String"]


def test_patches_drop_change_and_append(tmp_path: Path) -> None:
    overrides = """
        - { name: note, drop: true }
        - { name: id, type: string, required: true }
        - { name: day, format: "%Y%m%d" }
        - { name: region }
        - { name: tip, inherits: money, required: false }"""
    assert columns(bound(tmp_path, overrides)) == [
        "id: String required", "amount: Float required", "day: Date %Y%m%d", "region: String", "tip: Float",
    ]  # fmt: skip


def test_a_field_may_have_another_name_in_the_files(tmp_path: Path) -> None:
    overrides = """[{ name: id, alias: Order ID }, { name: note, alias: day }, { name: day, alias: $on }]"""
    plan = bound(tmp_path, overrides, "schema: { id: int, day: date, note: string }", layout=PLAIN)
    found = plan.by_name["orders"].step
    assert found.column_names == ("id", "day", "note")  # type: ignore[union-attr]
    assert found.keys == ("Order ID", "$on", "day")  # type: ignore[union-attr]
    assert found.renamed == {"id", "note"}  # type: ignore[union-attr]
    assert pending.pending(plan) == []


def test_two_columns_are_not_read_from_one(tmp_path: Path) -> None:
    write(tmp_path, LAYOUT, "layout.yaml")
    (problem,) = problems(tmp_path, pipeline("[{ name: region, alias: note }]"))
    assert problem.code.id == "E007"
    assert problem.message == "the columns `note` and `region` are both read from `note`"


def test_a_field_that_was_dropped_comes_back_at_the_end(tmp_path: Path) -> None:
    overrides = "[{ name: id, drop: true }, { name: id, type: string }]"
    assert columns(bound(tmp_path, overrides))[-2:] == ["note: String", "id: String"]


def test_patches_have_the_last_word_over_the_schema_of_the_source(tmp_path: Path) -> None:
    declared = "schema: [{ name: id, type: string }, { name: amount, type: int }, { name: own, type: int }]"
    overrides = "[{ name: amount, type: float }, { name: own, drop: true }, { name: region, type: string }]"
    plan = bound(tmp_path, overrides, declared)
    assert columns(plan) == ["id: String", "amount: Float required", "region: String"]
    assert [column.name for column in plan.by_name["orders"].outputs[""].user_columns] == ["id", "amount", "region"]


def test_a_schema_alone_decides_which_fields_are_columns(tmp_path: Path) -> None:
    declared = "schema: { id: string, day: date }"
    assert columns(bound(tmp_path, "[{ name: note, width: 4 }]", declared)) == ["id: String", "day: Date %d/%m/%y"]


@pytest.mark.parametrize("kind", ["edifact", "x12"])
def test_formats_with_columns_of_their_own_bind_their_merged_columns(tmp_path: Path, kind: str) -> None:
    plan = bound(tmp_path, "[{ name: note, drop: true }, { name: tip, type: float }]", kind=kind)
    assert columns(plan) == ["id: Int", "amount: Float required", "day: Date %d/%m/%y", "tip: Float"]
    assert pending.pending(plan) == []
    assert "tip: Nullable(Float), from schema_overrides, line:10" in explain.text(plan)


def test_kinds_of_records_are_patched_by_their_tags(tmp_path: Path) -> None:
    overrides = """
        - { name: day, record: H, drop: true }
        - { name: name, record: H, start: 1, width: 9 }
        - { name: sku, record: I, type: integer }"""
    plan = bound(tmp_path, overrides, kind="fixed_width", layout=RECORDS)
    assert columns(plan) == ["name: String", "sku: Int", "day: Date"]
    assert pending.pending(plan) == []


def test_a_width_takes_the_place_of_an_end(tmp_path: Path) -> None:
    plan = bound(tmp_path, "[{ name: day, record: H, width: 6 }]", kind="fixed_width", layout=RECORDS)
    assert "('width', 6)" in str(plan.by_name["orders"].step.layout)  # type: ignore[union-attr]
    assert "'end'" not in str(plan.by_name["orders"].step.layout)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("overrides", "layout", "message", "place"),
    [
        ("[{ name: x, drop: true }]", LAYOUT, "cannot drop field 'x' — not found in schema", "{ name: x"),
        ("[{ name: id, record: H }]", LAYOUT, "`record` is for format schemas with `records`", "record: H"),
        ("[{ name: sku }]", RECORDS, "several kinds of records, and `record` says which", "{ name: sku"),
        ("[{ name: sku, record: X }]", RECORDS, "no record has the tag `X`", "record: X"),
        ("[{ name: sku, record: H, drop: true }]", RECORDS, "cannot drop field 'sku'", "{ name: sku"),
        ("[{ name: id, inherits: mony }]", LAYOUT, "inherits `mony`, which is not among `defs`", "inherits: mony"),
        ("[{ name: id, type: text }]", LAYOUT, "field `id`: `text` is none of string, integer", "{ name: id"),
        ("[{ name: id, width: 1, end: 2 }]", LAYOUT, "field `id`: width and end exclude each other", "{ name: id"),
        ("[{ name: id, widht: 1 }]", LAYOUT, "unknown key `widht`; did you mean `width`?", "widht"),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused_at_its_place(
    tmp_path: Path, overrides: str, layout: str, message: str, place: str
) -> None:
    write(tmp_path, layout, "layout.yaml")
    kind = "fixed_width" if layout == RECORDS else "csv"
    (problem,) = problems(tmp_path, pipeline(overrides, kind=kind))
    assert message in problem.message
    assert problem.code.id in ("E005", "E007")
    assert problem.span
    line = problem.span.file.line(problem.span.line)
    assert line.find(place) <= problem.span.column - 1 <= line.find(place) + len(place)


@pytest.mark.parametrize("form", ["%d.%m", "day", "%Q"])
def test_a_form_that_gives_no_date_is_refused_whoever_declares_it(tmp_path: Path, form: str) -> None:
    write(tmp_path, f'fields: [{{ name: first, type: date, format: "{form}" }}]\n', "layout.yaml")
    overrides = f'[{{ name: second, type: datetime, format: "{form}" }}, {{ name: free, format: "{form}" }}]'
    lines = [(item.code.id, item.span.line if item.span else 0) for item in problems(tmp_path, pipeline(overrides))]
    assert lines == [("E007", 9), ("E007", 10)]
    text = pipeline().replace("format_schema: layout.yaml", f'schema: [{{ name: day, type: date, format: "{form}" }}]')
    (problem,) = problems(tmp_path, text)
    assert "`format` of `day`: " in problem.message


def test_columns_of_format_schemas_have_no_names_of_the_engine(tmp_path: Path) -> None:
    write(tmp_path, "fields: [{ name: $ck.a }]\n", "layout.yaml")
    messages = [item.message for item in problems(tmp_path, pipeline("[{ name: $widened }]"))]
    assert messages == [f"`{name}`: names with `$` belong to the engine" for name in ("$ck.a", "$widened")]


@pytest.mark.parametrize(
    ("schema", "message"),
    [("", "but there is none"), ("format_schema: { fields: [{ name: id }] }", "cannot use both inline")],
)
def test_patches_need_a_format_schema_in_a_file_of_its_own(tmp_path: Path, schema: str, message: str) -> None:
    text = pipeline("[{ name: id, drop: true }]", "schema: { id: int }").replace("format_schema: layout.yaml", schema)
    (problem,) = problems(tmp_path, text)
    assert message in problem.message
    assert problem.code.id == "E007"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("{ name: id, drop: true }", "`drop` and `record` are for `schema_overrides`"),
        ("{ name: id, inherits: gone }", "inherits `gone`, which is not among `defs`"),
        ("{ name: id }\ndefs: { a: { inherits: b }, b: { type: int } }", "inherits chains are not allowed"),
        ("{ name: id }\ndefs: { a: { wide: 3 } }", "unknown key `wide`"),
    ],
)
def test_a_broken_format_schema_is_told_with_its_own_place_and_nothing_else(
    tmp_path: Path, field: str, message: str
) -> None:
    write(tmp_path, f"fields:\n      - {field}\n", "layout.yaml")
    (problem,) = problems(tmp_path, pipeline("[{ name: id, type: string }]", "correlation_key: id"))
    assert message in problem.message
    assert problem.span
    assert problem.span.file.name == "layout.yaml"


def test_a_dropped_column_is_no_correlation_key(tmp_path: Path) -> None:
    write(tmp_path, LAYOUT, "layout.yaml")
    found = problems(tmp_path, pipeline("[{ name: id, drop: true }]", "correlation_key: id"))
    assert [item.code.id for item in found] == ["E153"]


def test_a_default_correlation_key_finds_its_column_in_the_format_schema(tmp_path: Path) -> None:
    write(tmp_path, LAYOUT, "layout.yaml")
    plan = planned(tmp_path, pipeline() + "error_handling: { strategy: continue, correlation_key: id }\n")
    assert plan.by_name["orders"].step.correlation_key == ("id",)  # type: ignore[union-attr]


def test_explain_says_where_columns_come_from(tmp_path: Path) -> None:
    plan = bound(tmp_path, "[{ name: id, type: string }, { name: note, drop: true }]")
    text = explain.text(plan)
    assert "  column id: Nullable(String), from schema_overrides, line:10\n" in text
    assert "  column note: dropped by schema_overrides, line:10\n" in text
    assert "  column day: Nullable(Date), from format_schema, line:9\n" in text
    assert "source.orders: id: Nullable(String), amount: Nullable(Float), day: Nullable(Date)" in text
    source = json.loads(explain.as_json(plan))["nodes"][0]
    place = {"key": "schema_overrides", "file": str(plan.path), "line": 10}
    assert {"column": "id", "dropped": False, **place} in source["columns_from"]
    assert {"column": "note", "dropped": True, **place} in source["columns_from"]
    origin = lineage.of_column(plan, "result", "id")
    assert origin
    told = f"orders.id (read; this comes from schema_overrides at {plan.path}:10:26)"
    assert told in lineage.text("result.id", origin)

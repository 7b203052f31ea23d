"""Small files that stand for very much: each is refused with a place before it is built.

Texts are long enough for anything quadratic to take hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import limits
from spark_jobs.plan import planner
from tests.plan.pipelines import ORDERS, options, problems, write

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostic

OUTPUT = "  - { type: output, name: out, input: %s, config: { type: csv, path: out.csv } }\n"
TRANSFORM = "  - { type: transform, name: %s, input: %s, config: { cxl: %s } }\n"
LONG = 50_000


def only(folder: Path, text: str, code: str, **others: object) -> Diagnostic:
    """The only problem that is found, which has this code and a place."""
    (item,) = [each for each in problems(folder, text, **others) if each.is_error]
    assert item.code.id == code
    assert item.span is not None
    return item


def body(folder: Path, name: str, outputs: str, nodes: str) -> None:
    write(
        folder,
        f"_compose:\n  name: b\n  inputs: {{ rows: {{}} }}\n  outputs: {{ out: {outputs} }}\n"
        f"  config_schema: {{ p: {{ type: string, default: a }} }}\nnodes:\n{nodes}",
        f"{name}.comp.yaml",
    )


@pytest.mark.parametrize("style", ['"%s"', "'%s'"])
@pytest.mark.parametrize("sign", ["${A:-", "$", "${", "{{ p", "$$", "${A:-}", "}"])
def test_signs_of_variables_by_the_thousand(tmp_path: Path, sign: str, style: str) -> None:
    written = ORDERS.replace("name: shop", "name: shop, description: " + style % (sign * (LONG // len(sign))))
    assert not [each for each in problems(tmp_path, written + OUTPUT % "orders") if each.is_error]


@pytest.mark.parametrize("url", ["/" * LONG, "//@" * LONG, "a@" * LONG, "?#" * LONG, "http:" + "/" * LONG + "@"])
def test_addresses_that_are_none(tmp_path: Path, url: str) -> None:
    text = (
        "pipeline: { name: p }\nnodes:\n  - { type: source, name: s, config: { type: json, schema: { id: int }, "
        f"transport: {{ kind: rest, max_pages: 1, url: '{url}' }} }} }}\n" + OUTPUT % "s"
    )
    assert [each.code.id for each in problems(tmp_path, text)] == ["E007"]


@pytest.mark.parametrize("blank", [" ", "\t", "\n      "])
def test_blanks_in_a_quoted_program(tmp_path: Path, blank: str) -> None:
    text = ORDERS + TRANSFORM % ("t", "orders", '"emit a = 1%s+ nosuch"' % (blank * LONG)) + OUTPUT % "t"
    item = only(tmp_path, text, "E200")
    assert item.span is not None
    assert item.span.file.text[item.span.start : item.span.end] == "nosuch"


def test_blank_lines_in_the_workspace_file(tmp_path: Path) -> None:
    write(tmp_path, "\n" * LONG + '[storage.spill]\ndirr = "a"\n', "clinker.toml")
    assert [each.code.id for each in problems(tmp_path, ORDERS + OUTPUT % "orders")] == ["E340"]


def test_a_long_literal_and_comments_behind_outer(tmp_path: Path) -> None:
    long = TRANSFORM % ("t", "orders", f"'emit a = \"{'x' * LONG}\"'")
    assert not [each for each in problems(tmp_path, ORDERS + long + OUTPUT % "t") if each.is_error]
    outer = TRANSFORM % ("t", "orders", f'"emit each x in note.split(note) outer {"# " * LONG}"')
    assert {each.code.id for each in problems(tmp_path, ORDERS + outer + OUTPUT % "t")} == {"E200"}


def test_a_long_chain_of_nodes_is_planned(tmp_path: Path) -> None:
    chain = "".join(TRANSFORM % (f"t{i}", f"t{i - 1}" if i else "orders", f"emit z{i} = id") for i in range(300))
    plan, _ = planner.plan(write(tmp_path, ORDERS + chain + OUTPUT % "t299"), options())
    assert plan is not None
    assert len(plan.by_name["out"].inputs) == 1


def test_too_many_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODES", 3)
    chain = "".join(TRANSFORM % (f"t{i}", f"t{i - 1}" if i else "orders", "emit z = id") for i in range(3))
    item = only(tmp_path, ORDERS + chain + OUTPUT % "t2", "E017")
    assert item.span is not None
    assert item.span.file.text[item.span.start :].startswith("t2,")


def test_too_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODE_COLUMNS", 20)
    chain = "".join(TRANSFORM % (f"t{i}", f"t{i - 1}" if i else "orders", f"emit z{i} = id") for i in range(9))
    assert "columns" in only(tmp_path, ORDERS + chain + OUTPUT % "t8", "E017").message


def test_calls_of_large_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODES", 500)
    body(tmp_path, "b", "t0", "".join(TRANSFORM % (f"t{i}", "rows", "emit z = 1") for i in range(100)))
    calls = "".join(f"  - {{ type: composition, name: c{i}, input: orders, use: b.comp.yaml }}\n" for i in range(98))
    assert '"c4"' in only(tmp_path, ORDERS + calls + OUTPUT % "c0", "E017").message


def test_values_of_bodies_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FOLLOWED_VALUES", 300)
    body(tmp_path, "b", "t0", "".join(TRANSFORM % (f"t{i}", "rows", "emit z = 1") for i in range(20)))
    calls = "".join(f"  - {{ type: composition, name: c{i}, input: orders, use: b.comp.yaml }}\n" for i in range(2))
    assert "300 values" in only(tmp_path, ORDERS + calls + OUTPUT % "c0", "E017").message


def test_parameters_that_double_from_call_to_call(tmp_path: Path) -> None:
    call = "  - { type: composition, name: c, input: rows, use: l%d.comp.yaml, config: { p: '{{ p }}{{ p }}' } }\n"
    for level in range(40):
        body(tmp_path, f"l{level}", "c", call % (level + 1))
    body(tmp_path, "l40", "c", TRANSFORM % ("c", "rows", "emit z = 1"))
    first = "  - { type: composition, name: c, input: orders, use: l0.comp.yaml, config: { p: xxxxxxxx } }\n"
    found = problems(tmp_path, ORDERS + first + OUTPUT % "c")
    assert {item.code.id for item in found} == {"E105"}
    assert "131072 characters" in found[0].message


def test_a_parameter_that_is_filled_in_very_often(tmp_path: Path) -> None:
    body(tmp_path, "b", "t", TRANSFORM % ("t", "rows", "'emit z = \"" + "{{ p }}" * 100 + "\"'"))
    call = "  - { type: composition, name: c, input: orders, use: b.comp.yaml, config: { p: %s } }\n"
    assert "parameters add" in only(tmp_path, ORDERS + call % ("x" * 60_000) + OUTPUT % "c", "E017").message


def test_variables_that_are_filled_in_very_often(tmp_path: Path) -> None:
    text = ORDERS.replace("name: shop", "name: shop, description: '" + "${LONG}" * 10_000 + "'") + OUTPUT % "orders"
    assert "variables add" in only(tmp_path, text, "E017", variables={"LONG": "x" * 10_000}).message


@pytest.mark.parametrize(
    ("first", "other"), [("let a0 = 1", "let a{} = a{} + a{}"), ("fn a0() = 1", "fn a{}() = a{}() + a{}()")]
)
def test_members_of_modules_that_double(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, other: str
) -> None:
    monkeypatch.setattr(limits, "INLINED_EXPRESSIONS", 5_000)
    (tmp_path / "rules").mkdir()
    members = [first, *(other.format(i, i - 1, i - 1) for i in range(1, 40))]
    (tmp_path / "rules" / "m.cxl").write_text("\n".join(members))
    call = "m::a39" if first.startswith("let") else "m::a39()"
    text = ORDERS + TRANSFORM % ("t", "orders", f'"use m\\nemit z = {call}"') + OUTPUT % "t"
    assert any("expressions into programs" in each.message for each in problems(tmp_path, text))


def test_the_programs_of_a_pipeline_share_what_modules_may_put_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INLINED_EXPRESSIONS", 60)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "m.cxl").write_text("fn f(a) = a + a + a + a\n")
    use = '"use m\\nemit z = m::f(id)"'
    one = ORDERS + TRANSFORM % ("t0", "orders", use) + OUTPUT % "t0"
    assert not [each for each in problems(tmp_path, one) if each.is_error]
    chain = "".join(TRANSFORM % (f"t{i}", f"t{i - 1}" if i else "orders", use) for i in range(20))
    assert "60 expressions" in only(tmp_path, ORDERS + chain + OUTPUT % "t19", "E200").message


def test_modules_that_each_import_the_next_twice_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for level in range(40):
        (tmp_path / "rules" / f"m{level}.cxl").write_text(
            f"use m{level + 1} as a\nuse m{level + 1} as b\nlet q = a::q\n"
        )
    (tmp_path / "rules" / "m40.cxl").write_text("let q = 1\n")
    text = ORDERS + TRANSFORM % ("t", "orders", '"use m0 as m\\nemit z = m::q"') + OUTPUT % "t"
    assert not [each for each in problems(tmp_path, text) if each.is_error]
    # A mistake at the bottom is told once, not along each of a trillion ways.
    (tmp_path / "rules" / "m40.cxl").write_text("let q = nosuch\n")
    assert len([each for each in problems(tmp_path, text) if "nosuch" in each.message]) == 1


def test_imports_do_not_lead_on_without_end(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for level in range(200):
        (tmp_path / "rules" / f"m{level}.cxl").write_text(f"use m{level + 1} as a\nlet q = 1\n")
    text = ORDERS + TRANSFORM % ("t", "orders", '"use m0 as m\\nemit z = m::q"') + OUTPUT % "t"
    assert "more than 50 modules" in only(tmp_path, text, "E200").message

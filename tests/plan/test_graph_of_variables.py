"""Scoped variables: forms of declarations, defaults, and what the graph allows."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cxl import typed
from spark_jobs.cxl.builtin_members import MEMBERS
from tests.plan.pipelines import ORDERS, found, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostic

NODES = """
nodes:
  - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
  - { type: output, name: o, input: s, config: { type: csv, path: o.csv } }
"""


def with_vars(block: str) -> str:
    return f"pipeline:\n  name: p\n  vars: {block}\n" + NODES.lstrip("\n")


def test_every_form_of_declaration(tmp_path: Path) -> None:
    block = """{ limit: 5, rate: 0.5, on: yes, shown: true, fee: { type: float, default: 3 },
      day: { type: date, default: 2026-01-31 }, at: { type: date_time, default: "2026-01-31T10:00:00+02:00" },
      static: { shop: { type: string, default: Quay } }, pipeline: { cap: { type: int } },
      source: { label: till }, record: { grade: { type: string, default: new } } }"""
    assert planned(tmp_path, with_vars(block)).variables == {
        "vars.limit": 5,
        "vars.rate": 0.5,
        "vars.on": "yes",
        "vars.shown": True,
        "vars.fee": 3.0,
        "vars.day": date(2026, 1, 31),
        "vars.at": datetime(2026, 1, 31, 8),
        "vars.shop": "Quay",
        "pipeline.cap": None,
        "source.label": "till",
        "record.grade": "new",
    }


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("{ a: { type: int, default: 1.5 } }", "E015"),
        ("{ a: { type: int, default: '5' } }", "E015"),
        ("{ a: { type: int, default: true } }", "E015"),
        ("{ a: { type: date, default: soon } }", "E015"),
        ("{ a: { type: int, default: ~ } }", "E015"),
        ("{ a: ~ }", "E015"),
        ("{ a: [1] }", "E015"),
        ("{ a: { type: array } }", "E007"),
        ("{ a: { type: itn } }", "E007"),
        ("{ a: { default: 1 } }", "E006"),
        ("{ a: { type: int, defualt: 1 } }", "E005"),
        ("{ a b: 5 }", "E015"),
        ("{ pipeline: { name: x } }", "E015"),
        ("{ source: { row: { type: int } } }", "E015"),
    ],
)
def test_declarations_that_make_no_sense(block: str, code: str, tmp_path: Path) -> None:
    assert [item for item, _ in found(tmp_path, with_vars(block))] == [code]


def test_a_variable_may_be_called_like_a_namespace(tmp_path: Path) -> None:
    plan = planned(tmp_path, with_vars("{ source: { type: string, default: x } }"))
    assert plan.variables == {"vars.source": "x"}


def test_one_name_is_declared_once(tmp_path: Path) -> None:
    text = """
    pipeline: { name: p, vars: { record: { tier: a } } }
    nodes:
      - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
      - type: transform
        name: t
        input: s
        config: { cxl: emit a = id, declares: [{ name: tier, scope: record, type: string }] }
      - { type: output, name: o, input: t, config: { type: csv, path: o.csv } }
    """
    assert found(tmp_path, text) == [("E015", 7)]


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        ("99999999999999999999999999999999", ["E015"]),
        ("{ type: int, default: -9223372036854775809 }", ["E015"]),
        ("-9223372036854775808", []),
        ("9223372036854775807", []),
        ("{ type: float, default: 99999999999999999999999999999999 }", []),
        ("{ type: float, default: " + "9" * 390 + " }", ["E015"]),
    ],
)
def test_numbers_of_variables_fit_their_type(written: str, codes: list[str], tmp_path: Path) -> None:
    text = ORDERS.replace("name: shop", f"name: shop, vars: {{ x: {written} }}") + (
        "  - { type: transform, name: t, input: orders, config: { cxl: emit y = $vars.x } }\n"
        "  - { type: output, name: out, input: t, config: { type: csv, path: out.csv } }\n"
    )
    items = problems(tmp_path, text)
    assert [item.code.id for item in items] == codes
    assert all("is outside the range of" in item.message and item.span for item in items)


@pytest.mark.parametrize(("namespace", "name"), [(space, name) for space, known in MEMBERS.items() for name in known])
def test_built_in_members_are_reserved(namespace: str, name: str, tmp_path: Path) -> None:
    block = f"{{ {namespace}: {{ {name}: {{ type: string }} }} }}"
    assert [code for code, _ in found(tmp_path, with_vars(block))] == ["E015"]
    write(tmp_path, with_vars("{}"))
    channel = {
        "pipeline": f"vars: {{ pipeline: {{ {name}: {{ type: string, default: x }} }} }}",
        "source": f"vars: {{ source: {{ s: {{ {name}: {{ type: string, default: x }} }} }} }}",
    }
    write(tmp_path, f"channel: {{ name: k, target: pipeline.yaml }}\n{channel[namespace]}\n", "k.channel.yaml")
    over = found(tmp_path, with_vars("{}"), channel=str(tmp_path / "k.channel.yaml"))
    assert [code for code, _ in over] == ["E110"]


TWO_SOURCES = """
pipeline: { name: p, vars: { source: { label: { type: string, default: none }, size: { type: int } } } }
nodes:
  - { type: source, name: left, config: { type: csv, path: l.csv, schema: { id: int } } }
  - { type: source, name: right, config: { type: csv, path: r.csv, schema: { id: int } } }
  - { type: source, name: names, config: { type: csv, path: n.csv, schema: { id: int, name: string } } }
  - { type: source, name: elsewhere, config: { type: csv, path: e.csv, schema: { id: int } } }
  - { type: transform, name: first, input: left, config: { cxl: "emit a = $source.left.label" } }
  - { type: transform, name: second, input: right, config: { cxl: "emit a = $source.label" } }
  - { type: merge, name: both, inputs: [first, second] }
  - type: combine
    name: named
    input: { b: both, n: names }
    config: { where: b.id == n.id, cxl: "emit id = b.id\\nemit own = $source.n.label" }
  - { type: transform, name: t, input: named, config: { cxl: "READ" } }
  - { type: output, name: o, input: t, config: { type: csv, path: o.csv } }
  - { type: output, name: q, input: elsewhere, config: { type: csv, path: q.csv } }
"""
CHANNEL = """
channel: { name: k, target: pipeline.yaml }
vars:
  source:
    left: { label: { type: string, default: L } }
    names: { label: { type: string, default: N } }
"""


def _reads(folder: Path, expression: str) -> list[Diagnostic]:
    write(folder, CHANNEL, "k.channel.yaml")
    text = TWO_SOURCES.replace("READ", f"emit x = {expression}")
    return [item for item in problems(folder, text, channel=str(folder / "k.channel.yaml")) if item.is_error]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$source.first.label", "L"),
        ("$source.left.label", "L"),
        ("$source.second.label", "none"),
        ("$source.n.label", "N"),
        ("$source.names.label", "N"),
        ("$source.b.size", None),
    ],
)
def test_a_variable_of_an_input_is_that_inputs_value(expression: str, value: str | None, tmp_path: Path) -> None:
    write(tmp_path, CHANNEL, "k.channel.yaml")
    text = TWO_SOURCES.replace("READ", f"emit x = {expression}")
    plan = planned(tmp_path, text, channel=str(tmp_path / "k.channel.yaml"))
    (emit,) = plan.by_name["t"].step.program.statements  # type: ignore[union-attr]
    assert isinstance(emit.value, typed.Literal)
    assert emit.value.value == value


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        ("$source.fisrt.label", "E200", "unknown input 'fisrt' in `$source.fisrt.label`"),
        ("$source.fisrt.label", "E200", "did you mean 'first'"),
        ("$source.elsewhere.label", "E200", "inputs here: b, first, left, n, names, right, second"),
        ("$source.left.labl", "E200", "did you mean '$source.left.label'"),
        ("$source.left.file", "E200", "each record knows its own: `$source.file`"),
        ("$source.lable", "E200", "did you mean '$source.label'"),
        ("$source.left", "E200", "`$source.left` is no value by itself"),
        ("$source.label", "E172", "name the input"),
        ("$source.b.label", "E172", "name one of them: `$source.<source>.label`"),
    ],
)
def test_what_no_input_has_is_refused(expression: str, code: str, words: str, tmp_path: Path) -> None:
    (item,) = _reads(tmp_path, expression)
    assert item.code.id == code
    assert words in f"{item.message} {item.help}"


def test_an_aggregate_emits_variables_of_inputs(tmp_path: Path) -> None:
    """They are the same for all records, so there is nothing to aggregate."""
    node = '{ type: aggregate, name: t, input: named, config: { group_by: [], cxl: "READ" } }'
    text = TWO_SOURCES.replace('{ type: transform, name: t, input: named, config: { cxl: "READ" } }', node)
    step = planned(tmp_path, text.replace("READ", "emit x = $source.n.label")).by_name["t"].step
    (emit,) = step.program.after.statements  # type: ignore[union-attr]
    assert emit.value.value == "none"
    refused = text.replace("READ", "emit x = $source.file")
    assert [code for code, _ in found(tmp_path, refused)] == ["E200"]


INIT = """
nodes:
  - { type: source, name: a, config: { type: csv, path: a.csv, schema: { id: int } } }
  - { type: source, name: b, config: { type: csv, path: b.csv, schema: { id: int } } }
  - { type: state, name: one, input: a, config: { scope: pipeline, phase: init, set: [{ var: cap, cxl: id }] } }
  - { type: state, name: two, input: %s, config: { scope: pipeline, phase: init, set: [{ var: top, cxl: "%s" }] } }
  - { type: transform, name: t, input: b, config: { cxl: "emit x = $pipeline.top" } }
  - { type: output, name: o, input: t, config: { type: csv, path: o.csv } }
"""
CAP_AND_TOP = "{ pipeline: { cap: { type: int }, top: { type: int } } }"


@pytest.mark.parametrize(
    ("above", "value", "codes"),
    [("b", "id", []), ("b", "$pipeline.cap", ["E171"]), ("a", "$pipeline.cap", ["E171"]), ("one", "$pipeline.cap", [])],
)
def test_nodes_of_the_init_phase_read_what_is_set_above_them(
    above: str, value: str, codes: list[str], tmp_path: Path
) -> None:
    text = f"pipeline:\n  name: p\n  vars: {CAP_AND_TOP}\n" + (INIT % (above, value)).lstrip("\n")
    assert [item.code.id for item in problems(tmp_path, text) if item.code.id.startswith("E")] == codes


BODY = """
_compose:
  name: body
  inputs: { one: { schema: [{ name: id, type: int }] }, two: { schema: [{ name: id, type: int }] } }
  outputs: { out: passed, both: merged }
  scoped_vars: { source: { label: { type: string } } }
nodes:
  - { type: transform, name: passed, input: one, config: { cxl: "emit a = id" } }
  - { type: merge, name: merged, inputs: [one, two] }
  - { type: transform, name: read, input: merged, config: { cxl: "emit x = INNER" } }
"""
CALLS = """
pipeline: { name: p, vars: { source: { label: { type: string, default: none } } } }
nodes:
  - { type: source, name: left, config: { type: csv, path: l.csv, schema: { id: int } } }
  - { type: source, name: right, config: { type: csv, path: r.csv, schema: { id: int } } }
  - { type: composition, name: first, use: body.comp.yaml, inputs: { one: left, two: right } }
  - { type: composition, name: second, use: body.comp.yaml, inputs: { one: right, two: left } }
  - { type: merge, name: calls, inputs: [first, second] }
  - { type: transform, name: t, input: calls, config: { cxl: "emit x = OUTER" } }
  - { type: output, name: o, input: t, config: { type: csv, path: o.csv } }
"""


@pytest.mark.parametrize(
    ("inner", "outer", "values"),
    [
        ("$source.one.label", "$source.first.label", ["L", "none", "L"]),
        ("$source.two.label", "$source.second.label", ["none", "L", "none"]),
        ("$source.one.label", "$source.left.label", ["L", "none", "L"]),
    ],
)
def test_an_input_may_be_a_call_or_a_port(inner: str, outer: str, values: list[str], tmp_path: Path) -> None:
    """Behind the merge of two calls, and in a body behind the merge of its ports: as the file names them."""
    write(tmp_path, BODY.replace("INNER", inner), "body.comp.yaml")
    write(tmp_path, CHANNEL.replace("names", "elsewhere").partition("    elsewhere")[0], "k.channel.yaml")
    plan = planned(tmp_path, CALLS.replace("OUTER", outer), channel=str(tmp_path / "k.channel.yaml"))
    steps = [plan.by_name[name].step for name in ("first/read", "second/read", "t")]
    assert [step.program.statements[0].value.value for step in steps] == values  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("inner", "outer", "words"),
    [
        ("$source.one.label", "$source.merged.label", "inputs here: first, left, right, second"),
        ("$source.first.label", "$source.first.label", "inputs here: left, one, right, two"),
    ],
)
def test_inputs_of_other_files_are_not_known_by_their_short_names(
    inner: str, outer: str, words: str, tmp_path: Path
) -> None:
    write(tmp_path, BODY.replace("INNER", inner), "body.comp.yaml")
    items = [item for item in problems(tmp_path, CALLS.replace("OUTER", outer)) if item.is_error]
    assert {item.code.id for item in items} == {"E200"}
    assert all(words in str(item.help) for item in items)

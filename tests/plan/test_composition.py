"""Compositions in place, with parameters and channels laid over them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from spark_jobs import limits
from spark_jobs.cxl import typed, types
from spark_jobs.nodes import program_reads
from spark_jobs.plan.explain import explain
from tests.plan.pipelines import ORDERS, found, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

RATED = """
_compose:
  name: rated
  inputs:
    rows: { schema: [{ name: amount, type: float }] }
  outputs:
    all: rate
    high: split.high
  config_schema:
    percent: { type: float, default: 2.5, range: [0, 100] }
    column: { type: string, default: id }
nodes:
  - type: transform
    name: rate
    input: rows
    config: { cxl: emit fee = amount * $config.percent }
  - type: route
    name: split
    input: rate
    config: { conditions: { high: fee > 10.0 }, default: low }
  - type: aggregate
    name: count
    input: rate
    config: { group_by: ["{{ column }}"], cxl: "emit n = count(*)" }
"""
CALL = """
  - type: composition
    name: fees
    input: orders
    use: rated.comp.yaml
    config: { percent: 5.0, column: note }
  - { type: output, name: all, input: fees, config: { type: csv, path: all.csv } }
  - { type: output, name: high, input: fees.high, config: { type: csv, path: high.csv } }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, RATED, "rated.comp.yaml")
    return tmp_path


def test_calls_become_nodes_with_names_of_their_own(folder: Path) -> None:
    plan = planned(folder, ORDERS + CALL)
    assert [node.name for node in plan.nodes] == ["orders", "fees/rate", "fees/split", "fees/count", "all", "high"]
    assert plan.by_name["high"].inputs[0].node == "fees/split"
    assert plan.by_name["high"].inputs[0].port == "high"
    assert plan.by_name["fees/rate"].span.file.name == "rated.comp.yaml"  # type: ignore[union-attr]


def test_columns_that_the_port_does_not_name_pass_through(folder: Path) -> None:
    row = planned(folder, ORDERS + CALL).by_name["fees/rate"].outputs[""]
    assert [column.name for column in row.user_columns] == ["id", "customer", "amount", "note", "fee"]


def test_parameters_are_constants_in_programs_and_values_in_settings(folder: Path) -> None:
    plan = planned(folder, ORDERS + CALL)
    program = plan.by_name["fees/rate"].step.program  # type: ignore[union-attr]
    assert 5.0 in [part.value for part in program_reads.parts(program) if isinstance(part, typed.Literal)]
    assert program.system == frozenset()
    assert plan.by_name["fees/count"].step.group_by == ("note",)  # type: ignore[union-attr]


def test_two_calls_do_not_share_names_or_parameters(folder: Path) -> None:
    second = (
        CALL.replace("fees", "more").replace("5.0", "7.0").replace("name: all", "name: b").replace("all.csv", "b.csv")
    )
    second = second.replace("name: high", "name: c").replace("high.csv", "c.csv")
    plan = planned(folder, ORDERS + CALL + second)
    assert plan.parameters["fees"]["percent"].value == 5.0
    assert plan.parameters["more"]["percent"].value == 7.0
    assert {"fees/rate", "more/rate"} <= set(plan.by_name)


def test_an_alias_names_the_nodes_and_the_channels_keys(folder: Path) -> None:
    channel = write(folder, CHANNEL.replace("percent: 9.0", "percent: 9.0, rates.column: id"), "acme.channel.yaml")
    text = ORDERS.replace("name: shop", "name: shop, vars: { limit: 10 }") + CALL.replace(
        "use:", "alias: rates\n    use:"
    )
    plan = planned(folder, text, channel=str(channel))
    assert [node.name for node in plan.nodes] == ["orders", "rates/rate", "rates/split", "rates/count", "all", "high"]
    assert plan.by_name["high"].inputs[0].node == "rates/split"
    assert {name: known.value for name, known in plan.parameters["rates"].items()} == {"percent": 9.0, "column": "id"}


def test_two_calls_cannot_share_an_alias(folder: Path) -> None:
    second = (
        CALL.replace("name: fees", "name: other").replace("name: all,", "name: rest,").replace("all.csv", "rest.csv")
    )
    second = (
        second.replace("name: high,", "name: top,")
        .replace("high.csv", "top.csv")
        .replace("input: fees", "input: other")
    )
    assert found(folder, ORDERS + CALL + second) == []
    assert [code for code, _ in found(folder, ORDERS + CALL + second.replace("use:", "alias: fees\n    use:"))] == [
        "E106"
    ]


def test_outputs_lead_ports_to_the_nodes_that_read_the_call(folder: Path) -> None:
    bound = CALL.replace("use:", "outputs: { high: all }\n    use:")
    inputs = {name: node.inputs[0] for name, node in planned(folder, ORDERS + bound).by_name.items() if node.inputs}
    assert (inputs["all"].node, inputs["all"].port) == ("fees/split", "high")
    assert (inputs["high"].node, inputs["high"].port) == ("fees/split", "high")


@pytest.mark.parametrize(
    ("outputs", "code"),
    [
        ("{ hihg: all }", "E103"),
        ("{ high: al }", "E004"),
        ("{ high: orders }", "E102"),
        ("{ all: high }", "E102"),
        ("{ all: all, high: all }", "E102"),
        ("{ high: [all] }", "E007"),
        ("high", "E007"),
    ],
)
def test_wrong_outputs_are_errors(outputs: str, code: str, folder: Path) -> None:
    text = CALL.replace("use:", f"outputs: {outputs}\n    use:")
    assert [item for item, _ in found(folder, ORDERS + text)] == [code]


LOOKED_UP = """
_compose:
  name: looked_up
  inputs: { rows: {} }
  outputs: { out: named }
  resources_schema: { lookup: { kind: file, required: true } }
nodes:
  - type: source
    name: names
    config: { type: csv, path: "{{ lookup }}", schema: { id: int, name: string } }
  - type: combine
    name: named
    input: { row: rows, name: names }
    config: { where: row.id == name.id, cxl: "emit id = row.id\nemit name = name.name" }
"""
LOOK = """
  - { type: composition, name: named, input: orders, use: looked_up.comp.yaml, resources: { lookup: names.csv } }
  - { type: output, name: all, input: named, config: { type: csv, path: all.csv } }
"""


def test_resources_stand_for_values_of_settings(folder: Path) -> None:
    write(folder, LOOKED_UP, "looked_up.comp.yaml")
    assert planned(folder, ORDERS + LOOK).by_name["named/names"].step.match.path == "names.csv"  # type: ignore[union-attr]


def test_a_composition_without_declared_resources_takes_any(folder: Path) -> None:
    write(
        folder,
        LOOKED_UP.replace("  resources_schema: { lookup: { kind: file, required: true } }\n", ""),
        "looked_up.comp.yaml",
    )
    assert found(folder, ORDERS + LOOK) == []


@pytest.mark.parametrize(
    ("resources", "code"),
    [
        ("{ lokup: names.csv, lookup: names.csv }", "E103"),
        ("{}", "E104"),
        ("{ lookup: ../names.csv }", "E-SEC-001"),
        ("{ lookup: 7 }", "E105"),
        ("names.csv", "E007"),
    ],
)
def test_wrong_resources_are_errors(resources: str, code: str, folder: Path) -> None:
    write(folder, LOOKED_UP, "looked_up.comp.yaml")
    assert code in [item for item, _ in found(folder, ORDERS + LOOK.replace("{ lookup: names.csv }", resources))]


def test_a_channel_hands_over_resources(folder: Path) -> None:
    write(folder, LOOKED_UP, "looked_up.comp.yaml")
    text = "channel: { name: acme, target: pipeline.yaml }\nresources: { fixed: { named.lookup: acme.csv } }\n"
    channel = write(folder, text, "acme.channel.yaml")
    plan = planned(folder, ORDERS + LOOK, channel=str(channel))
    assert plan.by_name["named/names"].step.match.path == "acme.csv"  # type: ignore[union-attr]


INTERFACE = """
composition:
  name: rated
  requires: [{ name: amount, type: float }]
  produces: [{ name: fee, type: float }]
nodes:
  - { type: transform, name: rate, input: input, config: { cxl: emit fee = amount * 2.0 } }
"""
RATE = """
  - { type: composition, name: fees, input: orders, use: rated.comp.yaml }
  - { type: composition, name: again, input: fees, use: rated.comp.yaml }
  - { type: output, name: all, input: again, config: { type: csv, path: all.csv } }
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", []),
        ("emit fee", "emit fees", ['produces column "fee"']),
        ("fee, type: float", "fee, type: string", ["is Nullable(Float)"]),
    ],
)
def test_what_a_composition_says_that_it_produces_is_checked(old: str, new: str, told: list[str], folder: Path) -> None:
    write(folder, INTERFACE.replace(old, new, 1), "rated.comp.yaml")
    items = [item for item in problems(folder, ORDERS + RATE) if item.is_error]
    assert [item.code.id for item in items] == ["E102"] * len(told)
    for item, text in zip(items, told, strict=True):
        assert text in item.message
        assert item.span is not None
        assert item.span.line == 4


def test_nested_calls_expand_to_paths(folder: Path) -> None:
    outer = """
    _compose: { name: outer, inputs: { data: {} }, outputs: { out: inner.high } }
    nodes:
      - { type: composition, name: inner, input: data, use: rated.comp.yaml }
    """
    write(folder, outer, "outer.comp.yaml")
    text = ORDERS + CALL.replace("rated.comp", "outer.comp").replace("    config: { percent: 5.0, column: note }\n", "")
    text = text.replace("fees.high", "fees.out")
    plan = planned(folder, text)
    assert "fees/inner/rate" in plan.by_name
    assert plan.by_name["all"].inputs[0] == plan.by_name["high"].inputs[0]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("use: rated", "use: rates", "E103"),
        ("percent: 5.0", "precent: 5.0", "E103"),
        ("percent: 5.0", "percent: 500.0", "E105"),
        ("percent: 5.0", "percent: much", "E105"),
        ("percent: 5.0", f"percent: {'9' * 390}", "E105"),
        ("fees.high", "fees.hihg", "E102"),
        ("use: rated.comp.yaml", "use: ../rated.comp.yaml", "E-SEC-001"),
        ("input: orders\n    use", "inputs: { row: orders }\n    use", "E104"),
        ("input: orders\n    use", "inputs: { row: orders }\n    use", "E103"),
    ],
)
def test_wrong_calls_are_errors(old: str, new: str, code: str, folder: Path) -> None:
    assert code in [item for item, _ in found(folder, ORDERS + CALL.replace(old, new, 1))]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("input: rows", "input: orders", "E108"),
        ("input: rows", "input: rwos", "E102"),
        ("name: amount, type: float", "name: total, type: float", "E102"),
        ("name: amount, type: float", "name: amount, type: string", "E102"),
        ("_compose:", "_componse:", "E101"),
        ("outputs:", "outptus:", "E101"),
        ("amount * $config", "amuont * $config", "E200"),
    ],
)
def test_wrong_bodies_are_errors_in_their_file(old: str, new: str, code: str, folder: Path) -> None:
    write(folder, RATED.replace(old, new, 1), "rated.comp.yaml")
    items = [item for item in problems(folder, ORDERS + CALL) if item.is_error]
    assert code in [item.code.id for item in items]


CHANNEL = """
channel: { name: acme, target: pipeline.yaml }
config:
  default: { fees.percent: 7.0, fees.column: id }
  fixed: { fees.percent: 9.0 }
vars:
  static:
    limit: { type: int, default: 50 }
"""


def test_layers_of_parameters(folder: Path) -> None:
    channel = write(folder, CHANNEL, "acme.channel.yaml")
    text = ORDERS.replace("name: shop", "name: shop, vars: { limit: 10 }") + CALL
    plan = planned(folder, text, channel=str(channel))
    percent = plan.parameters["fees"]["percent"]
    assert [(layer.kind, layer.value) for layer in percent.layers] == [
        ("ChannelFixed", 9.0),
        ("Call", 5.0),
        ("ChannelDefault", 7.0),
        ("CompositionDefault", 2.5),
    ]
    assert percent.layers[0].span.line == 4
    assert plan.parameters["fees"]["column"].value == "note"
    assert plan.variables["vars.limit"] == 50


def test_a_channel_is_found_by_its_name(folder: Path) -> None:
    (folder / "channels").mkdir()
    write(folder / "channels", CHANNEL, "acme.channel.yaml")
    text = ORDERS + CALL.replace("path: all.csv", 'path: "{channel}/all.csv"')
    plan = planned(folder, text, channel="acme")
    assert plan.by_name["all"].step.path == "acme/all.csv"  # type: ignore[union-attr]


def test_entries_apply_to_the_environment_they_name(folder: Path) -> None:
    entry = "limit: { type: int, default: 50, when: [prod, stage] }"
    channel = write(folder, CHANNEL.replace("limit: { type: int, default: 50 }", entry), "acme.channel.yaml")
    text = ORDERS.replace("name: shop", "name: shop, vars: { limit: 10 }") + CALL
    for environment, limit in (("prod", 50), ("test", 10), (None, 10)):
        plan = planned(folder, text, channel=str(channel), environment=environment)
        assert plan.variables["vars.limit"] == limit


def test_a_channels_default_for_one_source_is_a_constant_below_it(tmp_path: Path) -> None:
    text = """
    pipeline: { name: p, vars: { source: { label: shop } } }
    nodes:
      - { type: source, name: a, config: { type: csv, path: a.csv, schema: { id: int } } }
      - { type: source, name: b, config: { type: csv, path: b.csv, schema: { id: int } } }
      - { type: transform, name: ta, input: a, config: { cxl: emit from = $source.label } }
      - { type: transform, name: tb, input: b, config: { cxl: emit from = $source.label } }
      - { type: merge, name: m, inputs: [ta, tb] }
      - { type: output, name: o, input: m, config: { type: csv, path: o.csv } }
    """
    entry = "vars: { source: { a: { label: { type: string, default: till } } } }"
    channel = write(tmp_path, f"channel: {{ name: c, target: pipeline.yaml }}\n{entry}\n", "c.channel.yaml")
    plan = planned(tmp_path, text, channel=str(channel))
    (overridden,) = plan.by_name["ta"].step.program.statements  # type: ignore[union-attr]
    assert overridden.value.value == "till"  # type: ignore[attr-defined]
    assert plan.by_name["tb"].step.program.system == {"source.label"}  # type: ignore[union-attr]
    assert plan.variables["source.label"] == "shop"


def test_explain_names_the_file_of_a_node_that_stands_in_another(folder: Path) -> None:
    plan = planned(folder, ORDERS + CALL)
    text = explain.text(plan)
    assert "orders (Source, parallel: file-split, line:4)\n" in text
    assert "fees/rate (Transform, parallel: record, rated.comp.yaml:13)\n" in text
    nodes = {node["name"]: (node["file"], node["line"]) for node in json.loads(explain.as_json(plan))["nodes"]}
    assert nodes["orders"] == (str(plan.path), 4)
    assert nodes["fees/rate"] == ("rated.comp.yaml", 13)


def test_errors_after_a_parameter_stand_in_their_line(folder: Path) -> None:
    body = """
    _compose:
      name: labelled
      inputs: { rows: {} }
      config_schema: { label: { type: string, default: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa } }
    nodes:
      - type: transform
        name: t
        input: rows
        config:
          cxl: |
            emit l = '{{ label }}${TAIL}'
            emit k = '{{ label }}' + nosuch
            emit m = nosuch
    """
    write(folder, body, "rated.comp.yaml")
    call = (
        "  - { type: composition, name: c, input: orders, use: rated.comp.yaml }\n"
        "  - { type: output, name: out, input: c, config: { type: csv, path: out.csv } }\n"
    )
    items = problems(folder, ORDERS + call, variables={"TAIL": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"})
    places = [
        (item.span.line, item.span.file.line(item.span.line)[item.span.column - 1 :]) for item in items if item.span
    ]
    assert places == [(12, "nosuch"), (13, "nosuch")]


def test_too_many_calls_are_an_error_at_the_first_beyond(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITION_CALLS", 1)
    more = CALL.replace("fees", "more").replace("name: all", "name: b").replace("name: high", "name: c")
    items = problems(folder, ORDERS + CALL + more)
    assert [item.code.id for item in items] == ["E107"]
    assert '"more"' in items[0].message


DECIMALS = """
_compose:
  name: rated
  inputs: { rows: {} }
  config_schema:
    rate: { type: 'decimal(6,4)', default: 0.1, range: [0.1, 0.2] }
nodes:
  - type: transform
    name: t
    input: rows
    config: { cxl: "emit fee = $config.rate * 3\\nemit said = '{{ rate }}'" }
"""
CALLED = """
  - { type: composition, name: c, input: orders, use: rated.comp.yaml%s }
  - { type: output, name: out, input: c, config: { type: csv, path: out.csv } }
"""


def test_parameters_are_decimals_with_the_digits_that_are_written(folder: Path) -> None:
    write(folder, DECIMALS, "rated.comp.yaml")
    for given, said in (("", "0.1000"), (", config: { rate: 0.2 }", "0.2000")):
        plan = planned(folder, ORDERS + CALLED % given)
        made, text = plan.by_name["c/t"].step.program.statements  # type: ignore[union-attr]
        assert made.value.type.non_null().kind is types.Kind.DECIMAL  # type: ignore[attr-defined]
        read = [each.value for each in (made.value.left, made.value.right)]  # type: ignore[attr-defined]
        assert said in [str(each) for each in read if isinstance(each, Decimal)]
        assert text.value.value == said  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        ("'decimal(6,4)'", "0.12345", "expected decimal(6,4), found"),
        ("'decimal(6,4)'", "123.5", "expected decimal(6,4), found"),
        ("'decimal(6,4)'", "'0.1'", "expected decimal(6,4), found"),
        ("'decimal(6,4)'", "true", "expected decimal(6,4), found"),
        ("'decimal(6,4)'", "0.3", "out of range [0.1, 0.2]"),
        ("'decimal(6,4)', enum: [0.1, 0.2]", "0.15", "`0.1500` is none of `0.1`, `0.2`"),
        ("decimal", "0.1", "a parameter's type is one of string, int, float, bool, path, decimal(12,2)"),
        ("'decimal(60,4)'", "0.1", "a Decimal has 1 to 38 digits"),
        ("date", "0.1", "a parameter's type is one of"),
    ],
)
def test_values_that_no_decimal_parameter_has_are_errors(type_: str, value: str, said: str, folder: Path) -> None:
    write(folder, DECIMALS.replace("'decimal(6,4)'", type_), "rated.comp.yaml")
    items = problems(folder, ORDERS + CALLED % f", config: {{ rate: {value} }}")
    assert any(said in item.message for item in items), [item.message for item in items]

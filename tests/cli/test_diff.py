"""`clinker diff`: what differs between two versions of a pipeline, and what that means for its outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, schema: {id: int, n: int, price: float}}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        filter n > 0
        let gross = n * price
        emit net = gross * 0.8
        emit twice = n * 2
  - {type: route, name: r, input: t, config: {conditions: {big: "net > 100"}, default: small}}
  - {type: output, name: big, input: r.big, config: {type: csv, path: big.csv}}
  - {type: output, name: small, input: r.small, config: {type: csv, path: small.csv}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yaml").write_text(PIPELINE)
    return tmp_path


def diff(here: Path, capsys: pytest.CaptureFixture[str], text: str, *arguments: str, code: int = 0) -> list[str]:
    (here / "new.yaml").write_text(text)
    assert clinker.main(["diff", "old.yaml", "new.yaml", *arguments]) == code
    found = capsys.readouterr()
    assert found.err == ""
    return found.out.splitlines()


def replaced(*pairs: tuple[str, str]) -> str:
    text = PIPELINE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_layout_comments_and_remarks_are_no_difference(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = replaced(
        ("emit twice = n * 2", "emit twice = n*2   # both"),
        ("name: t\n", "name: t\n    description: doubled\n"),
        ('{conditions: {big: "net > 100"}, default: small}', "{default: small, conditions: {big: 'net > 100'}}"),
    )
    assert diff(here, capsys, text, "--exit-code") == ["the pipelines do not differ"]


def test_what_a_let_feeds_is_followed_to_the_outputs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = replaced(("let gross = n * price", "let gross = n * price + 1.0"))
    assert diff(here, capsys, text, "--exit-code", code=1) == [
        "~ transform t",
        "    - let gross = n * price",
        "    + let gross = n * price + 1.0",
        "what this may change in outputs that both have:",
        "  big: the values of net and which records it gets",
        "  small: the values of net and which records it gets",
    ]


def test_a_filter_changes_records_and_no_values(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(here, capsys, replaced(("filter n > 0", "filter n > 1")))[-2:] == [
        "  big: which records it gets",
        "  small: which records it gets",
    ]
    assert diff(here, capsys, replaced(("net > 100", "net > 99"))) == [
        "~ route r",
        "    config.conditions.big: net > 100 -> net > 99",
        "what this may change in outputs that both have:",
        "  big: which records it gets",
        "  small: which records it gets",
    ]


def test_types_settings_and_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = replaced(
        ("price: float}", "price: int}"), ("emit twice = n * 2", "emit third = n"), ("name: p}", "name: q}"),
        ("path: big.csv", "path: large.csv, if_exists: error"),
    )  # fmt: skip
    assert diff(here, capsys, text) == [
        "~ pipeline.name: p -> q",
        "~ source s",
        "    config.schema.price: float -> int",
        "    ~ column price: Nullable(Float) -> Nullable(Int)",
        "~ transform t",
        "    - emit twice = n * 2",
        "    + emit third = n",
        "    ~ column price: Nullable(Float) -> Nullable(Int)",
        "    - column twice Nullable(Int)",
        "    + column third Nullable(Int)",
        "~ output big",
        "    config.path: big.csv -> large.csv",
        "    config.if_exists: error is new",
        "    ~ column price: Nullable(Float) -> Nullable(Int)",
        "    - column twice Nullable(Int)",
        "    + column third Nullable(Int)",
        "~ output small",
        "    ~ column price: Nullable(Float) -> Nullable(Int)",
        "    - column twice Nullable(Int)",
        "    + column third Nullable(Int)",
        "what this may change in outputs that both have:",
        "  big: the values of price, net and which records it gets",
        "  small: the values of price, net and which records it gets",
    ]


def test_nodes_come_and_go(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    between = '  - {type: transform, name: u, input: t, config: {cxl: "emit net = net + 1.0"}}\n  - {type: route,'
    text = replaced(("  - {type: route,", between), ("name: r, input: t", "name: r, input: u"))
    assert diff(here, capsys, text) == [
        "+ transform u",
        "~ route r",
        "    input: t -> u",
        "what this may change in outputs that both have:",
        "  big: the values of net and which records it gets",
        "  small: the values of net and which records it gets",
    ]
    (here / "old.yaml").write_text(text)
    assert diff(here, capsys, PIPELINE)[0] == "- transform u"


def test_an_output_that_changes_its_file_alone_gets_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(here, capsys, replaced(("big.csv", "other.csv"))) == [
        "~ output big",
        "    config.path: big.csv -> other.csv",
        "no output that both have gets other records or values",
    ]


EFFECTS = """
pipeline: {name: p, vars: {rate: 2.0}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, n: int, k: string}}}
  - {type: source, name: b, config: {type: csv, path: b.csv, schema: {id: int, m: int}}}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        let large = n > 1
        emit x = n * 2
        filter large
      validations: [{name: v, check: n > 0, args: {least: 2}}, {name: v, check: n > 1}]
  - {type: transform, name: u, input: t, config: {cxl: "filter x > 3"}}
  - {type: output, name: few, input: u, config: {type: csv, path: few.csv, columns: [id]}}
  - {type: route, name: r, input: t, config: {conditions: {big: n > 10, mid: n > 5}, default: rest}}
  - {type: output, name: mid, input: r.mid, config: {type: csv, path: mid.csv, columns: [k]}}
  - {type: aggregate, name: g, input: t, config: {group_by: [k], cxl: "emit number = count(*)"}}
  - {type: output, name: groups, input: g, config: {type: csv, path: groups.csv}}
  - type: combine
    name: c
    input: {l: s, r: b}
    config: {where: l.id == r.id, cxl: "emit id = l.id\\nemit y = r.m * $vars.rate"}
  - {type: output, name: joined, input: c, config: {type: csv, path: joined.csv}}
"""


@pytest.mark.parametrize(
    ("old", "new", "shown", "effects"),
    [
        (
            "large = n > 1",
            "large = n > 2",
            "    + let large = n > 2",
            ["few: which records it gets", "mid: which records it gets",
             "groups: the values of number and which records it gets"],
        ),
        ("n * 2", "n * 3", "    + emit x = n * 3", ["few: which records it gets"]),
        (
            "{big: n > 10, mid: n > 5}",
            "{mid: n > 5, big: n > 10}",
            "    config.conditions: big, mid -> mid, big",
            ["mid: which records it gets"],
        ),
        ("{l: s, r: b}", "{r: b, l: s}", "    input: l, r -> r, l", ["joined: which records it gets"]),
        ("rate: 2.0", "rate: 3.0", "~ pipeline.vars.rate: 2.0 -> 3.0",
         ["joined: the values of id, y and which records it gets"]),
        ("least: 2", 'least: "2"', '    config.validations.1.args.least: 2 -> "2"', None),
        ("check: n > 0", "check: n > 9", "    config.validations.1.check: n > 0 -> n > 9", None),
        ("path: few.csv", "path: few.csv, sort_order: [id]", "    config.sort_order.1: id is new",
         ["few: which records it gets"]),
    ],
)  # fmt: skip
def test_what_a_change_means_is_followed_to_records_and_values(
    here: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, shown: str, effects: list[str] | None
) -> None:
    (here / "old.yaml").write_text(EFFECTS)
    assert old in EFFECTS
    found = diff(here, capsys, EFFECTS.replace(old, new))
    assert shown in found
    told = [line.strip() for line in found[found.index("what this may change in outputs that both have:") + 1 :]]
    if effects is not None:
        assert told == effects


def test_the_same_statements_in_another_order_are_a_change(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = replaced(("        filter n > 0\n", ""), ("emit twice = n * 2", "emit n = n * 2\n        filter n > 0"))
    (here / "old.yaml").write_text(text)
    other = text.replace("emit n = n * 2\n        filter n > 0", "filter n > 0\n        emit n = n * 2")
    found = diff(here, capsys, other)
    assert found[-1] == "  small: the values of n, net and which records it gets"


def test_bodies_of_compositions_are_compared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = """
_compose:
  name: doubled
  inputs: {{data: {{schema: [{{name: n, type: int}}]}}}}
  outputs: {{data: inner}}
nodes:
  - {{type: transform, name: inner, input: data, config: {{cxl: "emit n = n * {factor}"}}}}
"""
    pipeline = """
pipeline: {{name: p}}
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {{id: int, n: int}}}}}}
  - {{type: composition, name: c, input: s, use: {use}, inputs: {{data: s}}}}
  - {{type: output, name: out, input: c, config: {{type: csv, path: out.csv}}}}
"""
    for use, factor in (("a.comp.yaml", 2), ("b.comp.yaml", 3)):
        (here / use).write_text(body.format(factor=factor))
    (here / "old.yaml").write_text(pipeline.format(use="a.comp.yaml"))
    found = diff(here, capsys, pipeline.format(use="b.comp.yaml"), "--format", "json")
    document = json.loads("\n".join(found))
    (changed,) = [node for node in document["changed"] if node["statements"]]
    assert changed["name"].endswith("inner")
    assert changed["statements"] == ["- emit n = n * 2", "+ emit n = n * 3"]
    assert document["outputs"] == [{"name": "out", "columns": ["n"], "records": False}]


def test_no_secret_is_shown(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
pipeline: {{name: p}}
nodes:
  - type: source
    name: s
    config:
      type: json
      transport: {{kind: rest, url: "http://localhost/x", max_pages: 1, auth: {{scheme: bearer, token: "{value}"}}}}
      schema: {{id: int}}
  - {{type: output, name: out, input: s, config: {{type: csv, path: out.csv}}}}
"""
    monkeypatch.setenv("API_TOKEN", "marked-in-the-environment")
    (here / "old.yaml").write_text(source.format(value="marked-in-the-file"))
    found = "\n".join(diff(here, capsys, source.format(value="${API_TOKEN}")))
    assert "config.transport.auth.token: *** -> ***" in found
    assert "marked" not in found


def test_a_version_with_errors_is_not_compared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "new.yaml").write_text(replaced(("emit twice = n * 2", "emit twice = m * 2")))
    assert clinker.main(["diff", "old.yaml", "new.yaml"]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert "new.yaml" in found.err
    assert "`m`" in found.err or "'m'" in found.err

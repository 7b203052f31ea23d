"""Channel files: what is misspelt in them is an error, never ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import ORDERS, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "channel: { name: k, target: pipeline.yaml }\n"
PIPELINE = ORDERS + "  - { type: output, name: out, input: orders, config: { type: csv, path: out.csv } }\n"


def said(folder: Path, channel: str) -> list[tuple[str, int, str]]:
    """Codes, lines and messages about a channel laid over a pipeline."""
    write(folder, channel, "k.channel.yaml")
    items = problems(folder, PIPELINE, channel=str(folder / "k.channel.yaml"))
    return [(item.code.id, item.span.line if item.span else 0, f"{item.message} {item.help}") for item in items]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("config: { fixd: { c.n: 4 } }", 2, "did you mean `fixed`"),
        ("config: { defualt: {} }", 2, "did you mean `default`"),
        ("config: 5", 2, "expected a mapping, found the number `5`"),
        ("config:\n  fixed: 5", 3, "`fixed`: expected a mapping"),
        ("vars: [1]", 2, "expected a mapping, found a list"),
        ("vars: { statik: {} }", 2, "did you mean `static`"),
        ("vars:\n  static: 5", 3, "`static`: expected a mapping, found the number `5`"),
        ("vars:\n  source:\n    orders: 5", 4, "`orders`: expected a mapping"),
        ("resources: { nonsense: 1 }", 2, "unknown key `nonsense`"),
        ("resuorces: {}", 2, "did you mean `resources`"),
    ],
)
def test_what_is_misspelt_is_an_error(text: str, line: int, words: str, tmp_path: Path) -> None:
    ((code, at, message),) = said(tmp_path, HEAD + text + "\n")
    assert (code, at) == ("E112", line)
    assert words in message


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("{ environment: prod }", "unknown key `environment`"),
        ("{ env: prod, region: eu }", "unknown key `region`"),
        ("{ env: { is: prod } }", "expected a text"),
        ("[]", "must not be empty"),
        ("", "expected a text"),
    ],
)
def test_conditions_that_mean_nothing_are_errors(when: str, words: str, tmp_path: Path) -> None:
    text = f"{HEAD}vars:\n  static:\n    limit:\n      type: int\n      default: 1\n      when: {when}\n"
    codes = said(tmp_path, text)
    assert {(code, at) for code, at, _ in codes} == {("E112", 7)}
    assert any(words in message for _, _, message in codes)


@pytest.mark.parametrize("when", ["prod", "[stage, prod]", "{ env: prod }", "{ env: [prod] }"])
def test_conditions_name_environments(when: str, tmp_path: Path) -> None:
    write(tmp_path, f"{HEAD}vars: {{ static: {{ n: {{ type: int, default: 2, when: {when} }} }} }}\n", "k.channel.yaml")
    text = PIPELINE.replace("name: shop", "name: shop, vars: { n: 1 }")
    channel = str(tmp_path / "k.channel.yaml")
    assert planned(tmp_path, text, channel=channel, environment="prod").variables["vars.n"] == 2
    assert planned(tmp_path, text, channel=channel, environment="test").variables["vars.n"] == 1


@pytest.mark.parametrize(
    ("when", "environment", "warned"),
    [
        ("prdo", "prod", "did you mean `prod`?"),
        ("{ env: [stage, Prod] }", "prod", "did you mean `prod`?"),
        ("[prod, prdo]", None, "did you mean `prod`?"),
        ("prdo", None, ""),
        ("dev1", "dev2", ""),
        ("stage", "prod", ""),
    ],
)
def test_a_condition_that_misspells_an_environment_is_a_warning(
    when: str, environment: str | None, warned: str, tmp_path: Path
) -> None:
    """It names the active environment, or one that is named before, but for a letter."""
    write(tmp_path, f"{HEAD}vars: {{ static: {{ n: {{ type: int, default: 2, when: {when} }} }} }}\n", "k.channel.yaml")
    text = PIPELINE.replace("name: shop", "name: shop, vars: { n: 1 }")
    found = problems(tmp_path, text, channel=str(tmp_path / "k.channel.yaml"), environment=environment)
    assert [item.code.id for item in found] == (["W106"] if warned else [])
    assert all(warned in f"{item.message} {item.help}" for item in found)


def test_blocks_may_be_empty_and_have_notes(tmp_path: Path) -> None:
    assert not said(tmp_path, HEAD + "config:\n  fixed:\n  _notes: none\nvars:\n  static: { _notes: later }\n")


def _warned(folder: Path, channel: str, program: str) -> list[tuple[str, int, str | None]]:
    write(folder, HEAD + channel, "k.channel.yaml")
    head = ORDERS.replace("name: shop", "name: shop, vars: { limit: 5, unread: 1 }")
    text = head + "  - { type: transform, name: t, input: orders, config: { cxl: '" + program + "' } }\n"
    text += "  - { type: output, name: out, input: t, config: { type: csv, path: out.csv } }\n"
    items = problems(folder, text, channel=str(folder / "k.channel.yaml"))
    return [(item.code.id, item.span.line if item.span else 0, item.help) for item in items]


@pytest.mark.parametrize(
    ("channel", "read", "warned"),
    [
        ("vars: { static: { limt: 7 } }", "$vars.limit", [("W105", 2, "did you mean `limit`?")]),
        ("vars: { static: { limit: 7, unread: 2, added: 3 } }", "$vars.added", []),
        ("vars: { pipeline: { ad: { type: int, default: 3 } } }", "$vars.limit", [("W105", 2, None)]),
        (
            "vars: { source: { orders: { lable: x, label: y } } }",
            "$source.label",
            [("W105", 2, "did you mean `label`?")],
        ),
        ("vars: { static: { later: { type: int, default: 3, when: prod } } }", "$vars.limit", []),
    ],
)
def test_a_variable_that_nothing_reads_is_a_warning(
    channel: str, read: str, warned: list[tuple[str, int, str | None]], tmp_path: Path
) -> None:
    """One that the pipeline declares is there to be set, read or not."""
    assert _warned(tmp_path, channel + "\n", f"emit a = {read}") == warned


def test_variables_at_the_top_are_those_of_the_pipeline(tmp_path: Path) -> None:
    channel = "vars: { limit: 7, fee: { type: float, default: 0.5 }, pipeline: { cap: { type: int, default: 3 } } }\n"
    write(tmp_path, HEAD + channel, "k.channel.yaml")
    text = PIPELINE.replace("name: shop", "name: shop, vars: { limit: 5 }")
    found = planned(tmp_path, text, channel=str(tmp_path / "k.channel.yaml")).variables
    assert found == {"vars.limit": 7, "vars.fee": 0.5, "pipeline.cap": 3}


@pytest.mark.parametrize(
    ("block", "is_refused"),
    [
        ("", False),
        ("vars: {}", False),
        ("vars: { static: {}, source: {} }", False),
        ("vars: { limit: 3 }", True),
        ("vars: { static: { limit: { type: int, default: 3 } } }", True),
        ("vars: { source: { orders: { label: { type: string, default: a } } } }", True),
    ],
)
def test_the_channel_of_a_composition_has_no_variables(block: str, is_refused: bool, tmp_path: Path) -> None:
    found = said(tmp_path, f"channel: {{ name: k, target: rated.comp.yaml }}\n{block}\n")
    assert [code for code, _, _ in found] == ["E109"] * is_refused


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("acmee", ["did you mean `acme`?", "there is no acmee.channel.yaml in"]),
        ("globex", ["there is no globex.channel.yaml in", "channels`"]),
        ("initech", ["a channel's file ends with .channel.yaml: rename `", "initech.yaml`"]),
        ("channels/none.channel.yaml", ["the path starts at"]),
    ],
)
def test_a_channel_that_is_not_found_says_where_it_was_looked_for(named: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "channels").mkdir()
    write(tmp_path / "channels", HEAD, "acme.channel.yaml")
    write(tmp_path / "channels", HEAD, "initech.yaml")
    (item,) = problems(tmp_path, PIPELINE, channel=named)
    assert (item.code.id, item.message) == ("E112", f"channel '{named}': no such file")
    assert [word for word in words if word not in (item.help or "")] == []

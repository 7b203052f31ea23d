"""Variables that are called like secrets are filled in as credentials alone, and shown by their names at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.diagnostics import render
from spark_jobs.nodes.source.step import SourceStep
from tests.plan.pipelines import ORDERS, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = [
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW_CONN_SHOP",
    "AIRFLOW_VAR_X",
    "MY_SECRET",
    "DB_PASSWORD",
    "PASSWD_FILE",
    "TOKENS",
    "PRIVATE_NOTE",
    "SHOP_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "CREDENTIALS",
]
VALUES = dict.fromkeys([*SECRETS, "REGION"], "VALUE-THAT-NOBODY-SEES")
OUTPUT = "  - { type: output, name: out, input: orders, config: { type: csv, path: out.csv } }\n"
PULLED = """
pipeline: { name: p }
nodes:
  - type: source
    name: orders
    config: %s
      type: json
      schema: { id: int }
      transport: %s
        kind: rest
        url: "%s"
        max_pages: 1
        auth: { scheme: "%s", token: "%s" }
"""


def refused(folder: Path, text: str) -> list[int]:
    """The lines of the refusals, which are the only errors; no message shows a value."""
    found = problems(folder, text, variables=VALUES)
    assert "NOBODY-SEES" not in render.full(found)
    assert {item.code.id for item in found if item.is_error} <= {"E016"}
    return [item.span.line for item in found if item.is_error and item.span]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("reference", ["${%s}", "x${%s:-default}y"])
def test_a_secret_is_refused_wherever_it_would_be_seen(tmp_path: Path, name: str, reference: str) -> None:
    text = ORDERS.replace("name: shop", f'name: shop, description: "{reference % name}"') + OUTPUT
    assert len(refused(tmp_path, text)) == 1
    program = f"'emit a = \"{reference}\"'"
    transform = f"  - {{ type: transform, name: t, input: orders, config: {{ cxl: {program} }} }}\n"
    assert len(refused(tmp_path, ORDERS + transform % name + OUTPUT)) == 1


def test_other_names_are_filled_in(tmp_path: Path) -> None:
    for name in ("REGION", "KEYS", "AIRFLOW_HOME", "PASS", "API", "MONKEY"):
        text = ORDERS.replace("name: shop", f'name: shop, description: "${{{name}}}"') + OUTPUT
        assert [item.code.id for item in problems(tmp_path, text, variables={name: "x"})] == []


@pytest.mark.parametrize("name", SECRETS)
def test_credentials_take_secrets(tmp_path: Path, name: str) -> None:
    text = PULLED % ("", "", "https://shop.example/a", "bearer", f"${{{name}}}") + OUTPUT
    step = planned(tmp_path, text, variables=VALUES).by_name["orders"].step
    assert isinstance(step, SourceStep)
    assert step.endpoint is not None
    assert step.endpoint.credential is not None
    assert step.endpoint.credential.value == "Bearer VALUE-THAT-NOBODY-SEES"


def test_an_address_and_a_scheme_are_no_credentials(tmp_path: Path) -> None:
    for address, scheme in (("a?k=${MY_SECRET}", "bearer"), ("a", "${MY_SECRET:-bearer}")):
        text = PULLED % ("", "", f"https://shop.example/{address}", scheme, "x") + OUTPUT
        found = problems(tmp_path, text, variables=VALUES)
        assert "E016" in {item.code.id for item in found}
        assert "NOBODY-SEES" not in render.full(found)


def test_what_is_called_transport_elsewhere_is_none(tmp_path: Path) -> None:
    text = ORDERS.replace("name: shop", 'name: shop, vars: { transport: { type: string, default: "${MY_SECRET}" } }')
    assert len(refused(tmp_path, text + OUTPUT)) == 1
    nested = ORDERS + OUTPUT + "_notes: { nodes: { transport: { auth: { token: '${MY_SECRET}' } } } }\n"
    assert len(refused(tmp_path, nested)) == 1


def test_an_alias_carries_no_secret_out_of_the_credentials(tmp_path: Path) -> None:
    pulled = PULLED % ("", "&all", "https://shop.example/a", "bearer", "${MY_SECRET}")
    more = "  - { type: source, name: more, config: { type: json, schema: { id: int }, transport: *all } }\n"
    output = OUTPUT + "  - { type: output, name: second, input: more, config: { type: csv, path: more.csv } }\n"
    assert refused(tmp_path, pulled + more + output) == []
    assert len(refused(tmp_path, pulled + OUTPUT + "_notes: *all\n")) == 1
    token = pulled.replace('token: "', 'token: &t "')
    assert len(refused(tmp_path, token + OUTPUT + "_notes: { a: *t }\n")) == 1


def test_a_merge_key_stands_where_its_mapping_does(tmp_path: Path) -> None:
    pulled = PULLED % ("&all", "", "https://shop.example/a", "bearer", "${MY_SECRET}")
    more = "  - { type: source, name: more, config: { <<: *all } }\n"
    output = OUTPUT + "  - { type: output, name: second, input: more, config: { type: csv, path: more.csv } }\n"
    assert refused(tmp_path, pulled + more + output) == []
    assert len(refused(tmp_path, pulled + OUTPUT + "_notes: { <<: *all }\n")) == 1


def test_compositions_channels_and_parameters_take_none(tmp_path: Path) -> None:
    body = (
        "_compose:\n  name: b\n  inputs: { rows: {} }\n  outputs: { out: t }\n"
        "  config_schema: { p: { type: string, default: a } }\n"
        "nodes:\n  - { type: transform, name: t, input: rows, config: { cxl: 'emit a = \"%s\"' } }\n"
    )
    call = "  - { type: composition, name: orders2, input: orders, use: b.comp.yaml, config: { p: '%s' } }\n"
    write(tmp_path, body % "{{ p }}", "b.comp.yaml")
    assert len(refused(tmp_path, ORDERS + call % "${MY_SECRET}" + OUTPUT)) == 1
    write(tmp_path, body % "${MY_SECRET}", "b.comp.yaml")
    found = problems(tmp_path, ORDERS + call % "x" + OUTPUT, variables=VALUES)
    assert any("`MY_SECRET` has a secret name" in item.message for item in found)
    write(tmp_path, body % "{{ p }}", "b.comp.yaml")
    channel = "channel: { name: acme, target: pipeline.yaml }\nconfig: { fixed: { orders2.p: '${MY_SECRET}' } }\n"
    path = write(tmp_path, channel, "acme.channel.yaml")
    found = problems(tmp_path, ORDERS + call % "x" + OUTPUT, variables=VALUES, channel=str(path))
    assert any("`MY_SECRET` has a secret name" in item.message for item in found)


def test_proposals_name_no_secrets(tmp_path: Path) -> None:
    text = (
        ORDERS.replace("name: shop", 'name: shop, description: "${MY_SECRETS_}"'.replace("SECRETS_", "SEKRET")) + OUTPUT
    )
    (item,) = problems(tmp_path, text, variables=VALUES)
    assert item.code.id == "E009"
    assert "MY_SECRET" not in (item.help or "")

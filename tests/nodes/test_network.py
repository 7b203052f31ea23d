"""`transport:` of a source: what is wrong with it is found without asking anybody, and shown without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs.diagnostics import render
from spark_jobs.scan.network.endpoint import Credential, Endpoint, Pagination, Strategy

if TYPE_CHECKING:
    from pathlib import Path

KEY = "marzipan-4711"
PIPELINE = """pipeline: {{ name: shop }}
nodes:
  - type: source
    name: orders
    config:
      type: json
      schema: {{ id: int }}
{config}
  - {{ type: output, name: out, input: orders, config: {{ type: csv, path: out.csv }} }}
"""
REST = "transport: { kind: rest, max_pages: 3, url: http://h/a"


def written(folder: Path, config: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE.format(config="\n".join("      " + line for line in config.splitlines())))
    return path


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("transport: { kind: rest, url: ftp://h/a, max_pages: 3 }", "E007 `url`: the address must begin with"),
        ("transport: { kind: rest, url: '', max_pages: 3 }", "E007 `url`: the address must begin with"),
        ("transport: { kind: rest, url: http://h/a }", "E006 the key `max_pages` is required here"),
        ("transport: { kind: rest, max_pages: 3 }", "E006 the key `url` is required here"),
        ("transport: { kind: rest, url: http://h/a, max_pages: 0 }", "E007 `max_pages`: must be at least 1"),
        ("transport: { kind: file, url: http://h/a }\npath: a", "E005 the key `url` has no meaning with `kind: file`"),
        (REST + ", pagination: { strategy: offset } }", "E006 the key `limit` is required here"),
        (REST + ", pagination: { limit: 3 } }", "E005 the key `limit` has no meaning with `strategy: none`"),
        (
            REST + ", pagination: { strategy: link_header, cursor_param: a } }",
            "E005 the key `cursor_param` has no meaning with `strategy: link_header`",
        ),
        (
            REST + ", pagination: { strategy: cursor_token, cursor_param: a, next_token_pointer: meta.next } }",
            "E007 `next_token_pointer`: a JSON pointer begins with `/`",
        ),
        (REST + ", timeout_secs: 86401 }", "E007 `timeout_secs`: must be at most 86400"),
        (REST + f", timeout_secs: {10**30} }}", "E007 `timeout_secs`: must be at most 86400"),
        (REST + ", auth: { scheme: bearer } }", "E006 the key `token` is required here"),
        (REST + ", auth: { scheme: bearer, token: a, name: b } }", "E005 the key `name` has no meaning"),
        (REST + ", auth: { scheme: header, name: 'a b', value: c } }", "E007 `name`: is not a header name"),
        (REST + " }\nmin_size: 5", "E219 source 'orders': `min_size` chooses among files"),
        (REST + " }\noptions: { compression: gzip }", "E007 source 'orders': `compression` says how files are packed"),
        (REST + " }\npath: a.json", "E219 source 'orders': rest transport declares file matcher(s) (path)"),
    ],
)
def test_what_does_not_fit_is_found(config: str, expected: str, tmp_path: Path) -> None:
    found = planning.validate(written(tmp_path, config))
    assert [f"{item.code.id} {item.message}"[: len(expected)] for item in found] == [expected]


@pytest.mark.parametrize(
    "config",
    [
        "transport:\n  kind: rest\n  max_pages: 3\n  url: 'http://me:{key}@h/a'",
        "transport:\n  kind: rest\n  max_pages: 3\n  url: 'http://h/a b?key={key}'",
        REST + ', auth: {{ scheme: bearer, token: "{key}\\n" }} }}',
        REST + ", auth: {{ scheme: header, name: X, value: '{key}ü' }} }}",
        REST + ", auth: '{key}' }}",
        REST + ", auth: ['{key}'] }}",
    ],
)
def test_messages_do_not_show_the_secret(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one from the environment, nor a password in an address that the pipeline itself has."""
    is_written = "http://me:" in config
    monkeypatch.setenv("KEY", KEY + "\n" if "\\n" in config else KEY)
    text = config.replace("{{", "{").replace("}}", "}").replace("\\n", "")
    found = planning.validate(written(tmp_path, text.replace("{key}", KEY if is_written else "${KEY}")))
    assert [item.code.id for item in found] == ["E007"]
    assert KEY not in render.full(found)


WRONG = "transport: { kind: rest, max_pages: 0, url: http://h/a"


@pytest.mark.parametrize(
    "config",
    [
        f'transport: {{ kind: rest, max_pages: 1, url: "http://me:{KEY}@h/x" }}',
        f'transport: {{ kind: rest, max_pages: 0, url: "http://h/x?mail=a@b&api_key={KEY}" }}',
        f"transport: {{ kind: rest, max_pages: 1, url: 'me:{KEY}@h/x' }}",
        WRONG + f", auth: {{ scheme: bearer, token: {KEY} }} }}",
        WRONG + f', auth: {{ scheme: bearer, token: "${{NOT_SET_HERE:-{KEY}}}" }} }}',
        REST + f", auth: {{ scheme: header, token: {KEY}, name: a, value: b }} }}",
        REST + f", auth: {{ scheme: header, name: 'X: {KEY}', value: b }} }}",
        REST + f", auth: {{ scheme: bearer, token: a, token: {KEY} }} }}",
        REST + f", auth: {{ scheme: bearer, token: a, password: {KEY} }} }}",
        REST + f", auth: {KEY} }}",
        REST + f", auth: [{KEY}] }}",
        REST + f", password: {KEY} }}",
        f"transport: http://me:{KEY}@h/x",
        REST + f", auth: !secret {KEY} }}",
        WRONG + f", _notes: &n {{ scheme: bearer, token: {KEY} }}, auth: *n }}",
        REST + f", pagination: {{ a: ], auth: {{ scheme: bearer, token: {KEY} }} }}",
        f"transport:\n  kind: rest\n  auth:\n    token: {KEY}: x",
        f"transport:\n  kind: rest\n  auth:\n    scheme: bearer\n    token: |\n      {KEY}\n      ü\n  url: http://h/a\n"
        "  max_pages: 1",
    ],
)
def test_excerpts_do_not_show_what_is_written_in_the_pipeline(config: str, tmp_path: Path) -> None:
    found = planning.validate(written(tmp_path, config))
    assert found
    for style in render.Style:
        assert KEY not in render.render(found, style)


def test_excerpts_show_the_rest_of_the_line(tmp_path: Path) -> None:
    config = 'transport: { kind: rest, url: "http://me:pw@h/x?y=1", auth: { token: "${NAME:-pw}" }, max_pages: 0 }'
    (line,) = {
        line for line in render.full(planning.validate(written(tmp_path, config))).splitlines() if "kind" in line
    }
    assert line.endswith(
        'transport: { kind: rest, url: "http://******h/x*****, auth: { token: *${NAME:-**** }, max_pages: 0 }'
    )


def test_a_file_that_is_no_text_shows_no_secret(tmp_path: Path) -> None:
    path = written(tmp_path, REST + f", auth: {{ scheme: bearer, token: {KEY}ü }} }}")
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xff"))
    assert KEY not in render.full(planning.validate(path))


def test_the_endpoint_has_what_was_written(tmp_path: Path) -> None:
    config = """transport:
  kind: rest
  url: https://h/a
  max_pages: 7
  max_records: 100
  retries: 0
  timeout_secs: 5
  pagination: { strategy: offset, limit: 20, offset_param: skip }
  auth: { scheme: bearer, token: t }"""
    step = planning.load(written(tmp_path, config)).by_name["orders"].step
    assert step.endpoint == Endpoint(  # type: ignore[union-attr]
        url="https://h/a",
        max_pages=7,
        max_records=100,
        retries=0,
        timeout_s=5.0,
        pagination=Pagination(Strategy.OFFSET, offset_param="skip", limit=20),
        credential=Credential("Authorization", "Bearer t"),
    )


def test_a_file_has_no_endpoint(tmp_path: Path) -> None:
    for config in ("path: a.json", "path: a.json\ntransport: file", "path: a.json\ntransport: { kind: file }"):
        assert planning.load(written(tmp_path, config)).by_name["orders"].step.endpoint is None  # type: ignore[union-attr]

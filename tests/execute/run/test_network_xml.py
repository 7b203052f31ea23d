"""Sources whose pages are XML: options, envelopes of pages, arrays, and pages that are broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import plan
from tests.execute import pipelines
from tests.execute.network_runs import source, write
from tests.scan import web

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {"_id": "int", "name": "string"}
OPTIONS = {"record_path": "//o", "attribute_prefix": "_", "namespace_handling": "strip"}


def page(*rows: str, next: str = "", encoding: str = "utf-8") -> web.Answer:
    text = f"<?xml version='1.0' encoding='{encoding}'?><s:all xmlns:s='urn:s'>{''.join(rows)}</s:all>"
    links = {"Link": f'<{next}>; rel="next"'} if next else {}
    return web.Answer(text.encode(encoding), headers={"Content-Type": "application/xml", **links})


def order(number: Any, name: str) -> str:
    return f"<s:o id='{number}'><s:name>{name}</s:name></s:o>"


def orders(url: str, **config: Any) -> dict[str, Any]:
    paging = {"strategy": "link_header"}
    more = {"type": "xml", "schema": SCHEMA, "options": OPTIONS, **config}
    return source("orders", url, pagination=paging, **more)


@pytest.mark.parametrize("split_bytes", [10**9, 16], ids=["one split", "many splits"])
def test_pages_are_read_with_the_options_of_the_source(
    split_bytes: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
    """One that has no bytes at all has no records."""
    answers = (
        page(order(1, "Zoë"), order(2, "<![CDATA[<b>]]>"), next="/?p=2", encoding="utf-16"),
        page(next="/?p=3"),
        web.Answer(b"", headers={"Link": '</?p=4>; rel="next"'}),
        page(order(3, "x &amp; y"), encoding="latin-1"),
    )
    with web.serving(web.in_turn(*answers)) as server:
        write(here, orders(server.url))
        outcome = pipelines.run(here).result
    assert (outcome.exit_code, outcome.records_total) == (0, 3)
    assert pipelines.outputs(here) == {"copy.csv": "_id,name\n1,Zoë\n2,<b>\n3,x & y\n".encode()}


def test_pages_by_offset_end_with_one_that_has_fewer_records(here: Path) -> None:
    rows = [order(number, f"n{number}") for number in range(5)]

    def answer(request: web.Request) -> web.Answer:
        start = int(request.query["offset"])
        return page(*rows[start : start + 2])

    with web.serving(answer) as server:
        write(here, source("orders", server.url, pagination={"strategy": "offset", "limit": 2},
                           type="xml", schema=SCHEMA, options=OPTIONS))  # fmt: skip
        assert pipelines.run(here).result.records_total == 5
        assert len(server.requests) == 3


def test_repeated_elements_make_records(here: Path) -> None:
    body = "<s:o id='1'><s:name>a</s:name><s:name>b</s:name></s:o>" + order(2, "c")
    with web.serving(web.in_turn(page(body))) as server:
        write(here, orders(server.url, array_paths=[{"path": "name", "mode": "join", "separator": "+"}]))
        assert pipelines.run(here).result.exit_code == 0
    assert pipelines.outputs(here) == {"copy.csv": b"_id,name\n1,a+b\n2,c\n"}


def test_a_value_that_does_not_convert_is_a_dead_letter_of_its_page(here: Path) -> None:
    with web.serving(web.in_turn(page(order(1, "a"), next="/?p=2"), page(order("x", "b")))) as server:
        write(here, orders(server.url), strategy="continue", dlq={"path": "out/dead.csv"})
        outcome = pipelines.run(here).result
    assert (outcome.exit_code, outcome.records_dlq) == (2, 1)
    assert b"#page=2" in pipelines.outputs(here)["dead.csv"]


@pytest.mark.parametrize(
    "body",
    [
        b"<all><o id='1'>",
        b"<all><o id='1'></all>",
        b"{}",
        b"\xff\xff",
        b"\0\0",
        b"<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><all><o id='1'>&e;</o></all>",
        b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><all><o>&b;</o></all>",
    ],
)
def test_a_broken_page_ends_the_run_and_names_its_page(body: bytes, here: Path) -> None:
    with web.serving(web.in_turn(page(order(1, "a"), next="/?p=2"), web.Answer(body))) as server:
        write(here, orders(server.url), strategy="continue", dlq={"path": "out/dead.csv"})
        outcome = pipelines.run(here).result
    assert outcome.exit_code == 4
    assert outcome.error is not None
    assert "page=2" in outcome.error.message or "p=2" in outcome.error.message
    assert pipelines.outputs(here) == {}


@pytest.mark.parametrize("kind", ["csv", "fixed_width", "edifact", "x12", "parquet"])
def test_no_response_has_another_format(kind: str, here: Path) -> None:
    write(here, source("orders", "https://shop.example", type=kind, schema=SCHEMA))
    assert "E220" in [item.code.id for item in plan.validate(here / "pipeline.yaml", base_dir=here)]

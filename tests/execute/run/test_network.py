"""Runs whose records are on a network: what comes out of them."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import network
from tests.execute import pipelines
from tests.execute.network_runs import KEY, OFFSET, ORDERS, merged, source, write
from tests.scan import web

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("split_bytes", [10**9, 16], ids=["one split", "many splits"])
@pytest.mark.parametrize("layout", ["array", "lines", "object"])
def test_records_come_in_the_order_of_the_pages(
    layout: str, split_bytes: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: web.Request) -> web.Answer:
        at = int(request.query.get("at", "0"))
        rows = ORDERS[at : at + 3]
        match layout:
            case "array":
                body = json.dumps(rows)
            case "lines":
                body = "".join(json.dumps(row) + "\n" for row in rows)
            case _:
                body = json.dumps({"found": {"rows": rows}})
        links = {"Link": f'</orders?at={at + 3}>; rel="next"'} if at + 3 < len(ORDERS) else {}
        return web.Answer(body.encode(), headers=links)

    monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
    options = {"record_path": "$.found.rows"} if layout == "object" else {}
    with web.serving(answer) as server:
        write(here, source("orders", server.url, pagination={"strategy": "link_header"}, options=options))
        outcome = pipelines.run(here)
    assert (outcome.result.exit_code, outcome.result.records_total) == (0, 7)
    rows = "".join(f"{row['id']},{row['amount']:g},{row['item']['name']}\n" for row in ORDERS)  # type: ignore[index]
    assert pipelines.outputs(here) == {"copy.csv": f"id,amount,item.name\n{rows}".encode()}


def test_a_record_knows_its_source_and_page(here: Path, shop: web.Server) -> None:
    cxl = "emit file = $source.file\nemit path = $source.path\nemit n = $source.row\nemit all = $pipeline.total_count"
    more = {"type": "transform", "name": "more", "input": "orders", "config": {"cxl": cxl}}
    write(here, source("orders", f"{shop.url}/?key={KEY}", pagination=OFFSET, on_unmapped="drop"), more, output="more")
    assert pipelines.run(here).result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(pipelines.outputs(here)["copy.csv"].decode())))
    assert {row["file"] for row in rows} == {"<source:orders>"}
    assert [row["path"] for row in rows] == [
        f"{shop.url}/?key=***&offset={3 * at}&limit=3#page={at + 1}" for at in (0, 0, 0, 1, 1, 1, 2)
    ]
    assert [(row["n"], row["all"]) for row in rows] == [
        ("1", "1"), ("2", "2"), ("3", "3"), ("1", "4"), ("2", "5"), ("3", "6"), ("1", "7"),
    ]  # fmt: skip


def test_a_record_behind_an_exchange_knows_its_source_and_page(here: Path, shop: web.Server) -> None:
    cxl = "distinct by amount\nemit file = $source.file\nemit path = $source.path"
    more = {"type": "transform", "name": "more", "input": "orders", "config": {"cxl": cxl}}
    write(here, source("orders", shop.url, pagination={**OFFSET, "limit": 50}, on_unmapped="drop"), more, output="more")
    assert pipelines.run(here).result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(pipelines.outputs(here)["copy.csv"].decode())))
    assert {(row["file"], row["path"]) for row in rows} == {("<source:orders>", f"{shop.url}?offset=0&limit=50#page=1")}


def test_dead_letters_name_the_page(here: Path) -> None:
    lines = b'{"id":3,"amount":1}\n{"id":4,\n{"id":5,"amount":"x"}\n'
    with web.serving(web.in_turn(web.page(*ORDERS[:2], Link='</?token=t>; rel="next"'), web.Answer(lines))) as server:
        paging = {"strategy": "link_header"}
        write(here, source("orders", server.url, pagination=paging), strategy="continue", dlq={"path": "out/dead.csv"})
        outcome = pipelines.run(here).result
    assert (outcome.exit_code, outcome.records_dlq) == (2, 2)
    letters = list(csv.DictReader(io.StringIO(pipelines.outputs(here)["dead.csv"].decode())))
    page = f"{server.url}/?token=***#page=2"
    told = [
        (row["_cxl_dlq_source_file"], row["_cxl_dlq_source_row"], row["_cxl_dlq_error_category"]) for row in letters
    ]
    assert told == [(page, "2", "malformed_record"), (page, "3", "type_coercion_failure")]


def test_undeclared_columns_are_those_of_the_records_that_count(here: Path) -> None:
    answer = web.page({"id": 1, "a": 1}, {"id": 2}, {"id": 3, "b": 1})
    with web.serving(lambda request: answer) as server:
        write(here, source("orders", server.url, transport={"max_records": 2}))
        assert pipelines.run(here).result.records_total == 2
    assert pipelines.outputs(here) == {"copy.csv": b"id,amount,a\n1,,1\n2,,\n"}


def test_network_and_files_meet(here: Path, shop: web.Server) -> None:
    """The build side is on a network too; splits are numbered over all of them."""
    names = {
        "type": "source",
        "name": "names",
        "config": {"type": "csv", "path": "names.csv", "schema": {"id": "int", "name": "string"}},
    }
    joined = {
        "type": "combine", "name": "joined", "input": {"names": "names", "orders": "orders"},
        "config": {"drive": "names", "where": "names.id == orders.id", "match": "first", "on_miss": "skip",
                   "cxl": "emit name = names.name\nemit amount = orders.amount", "propagate_ck": "driver"},
    }  # fmt: skip
    write(here, names, source("orders", shop.url, pagination=OFFSET), joined, output="joined")
    pipelines.write(here, {"names.csv": "id,name\n7,g\n1,a\n9,z\n"})
    outcome = pipelines.run(here)
    assert outcome.result.exit_code == 0, outcome.result.error
    rows = list(csv.DictReader(io.StringIO(pipelines.outputs(here)["copy.csv"].decode())))
    assert [(row["name"], row["amount"]) for row in rows] == [("g", "10.5"), ("a", "1.5")]


# ---- several sources -----------------------------------------------------------------------------------------------


def test_sources_are_pulled_at_the_same_time(here: Path) -> None:
    both = threading.Barrier(2, timeout=10)

    def answer(request: web.Request) -> web.Answer:
        both.wait()
        return web.page({"id": int(request.path[1:])})

    with web.serving(answer) as server:
        sources = [source(f"s{number}", f"{server.url}/{number}") for number in (1, 2)]
        write(here, *sources, merged("s1", "s2"), output="all")
        assert pipelines.run(here).result.exit_code == 0
    assert pipelines.outputs(here) == {"copy.csv": b"id,amount\n1,\n2,\n"}


def test_sources_that_must_wait_come_later(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_AT_A_TIME", 1)
    with web.serving(lambda request: web.page({"id": int(request.path[1:])})) as server:
        sources = [source(f"s{number}", f"{server.url}/{number}") for number in (1, 2, 3)]
        write(here, *sources, merged("s3", "s1", "s2"), output="all")
        assert pipelines.run(here).result.exit_code == 0
    assert server.targets == ["/1", "/2", "/3"]
    assert pipelines.outputs(here) == {"copy.csv": b"id,amount\n3,\n1,\n2,\n"}


@pytest.mark.slow
def test_one_that_fails_ends_the_others(here: Path) -> None:
    held = threading.Event()

    def answer(request: web.Request) -> web.Answer:
        if request.path == "/2":
            return web.Answer(b"gone", 410)
        held.wait(20)
        return web.page()

    with web.serving(answer) as server:
        write(here, source("s1", f"{server.url}/1"), source("s2", f"{server.url}/2"), merged("s1", "s2"), output="all")
        started = time.monotonic()
        outcome = pipelines.run(here).result
        assert time.monotonic() - started < 10
        held.set()
    assert outcome.error is not None
    assert (outcome.exit_code, outcome.error.code) == (4, "E221")
    assert outcome.error.message == f"source 's2': {server.url}/2: HTTP 410: gone"
    assert outcome.error.span is not None
    assert outcome.error.span.startswith(f"{here / 'pipeline.yaml'}:")

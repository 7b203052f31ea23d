"""Runs whose records are on a network: what comes out, what is left behind, and what nobody gets to see."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import pickle
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs import plan as planning
from spark_jobs.cli import clinker
from spark_jobs.execute import network
from tests.execute import pipelines, without_spark
from tests.scan import web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = "marzipan-4711"
ORDERS = [{"id": number, "amount": number * 1.5, "item": {"name": f"n{number}"}} for number in range(1, 8)]
SCHEMA = {"id": "int", "amount": "float"}


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    web.without_proxies(monkeypatch)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(name: str, url: str, *, pagination: Any = None, **config: Any) -> dict[str, Any]:
    transport = {"kind": "rest", "url": url, "max_pages": 20, "retries": 0, "timeout_secs": 20}
    transport |= {"pagination": pagination} if pagination else {}
    transport |= config.pop("transport", {})
    return {
        "name": name,
        "type": "source",
        "config": {"type": "json", "schema": SCHEMA, "transport": transport, **config},
    }


def write(folder: Path, *nodes: dict[str, Any], output: str = "orders", **errors: Any) -> None:
    out = {"type": "output", "name": "copy", "input": output, "config": {"type": "csv", "path": "out/copy.csv"}}
    document = {"pipeline": {"name": "shop"}, "nodes": [*nodes, out]}
    if errors:
        document["error_handling"] = errors
    pipelines.write(folder, {"pipeline.yaml": yaml.safe_dump(document, sort_keys=False)})


def by_offset(records: list[Any]) -> Callable[[web.Request], web.Answer]:
    def answer(request: web.Request) -> web.Answer:
        start = int(request.query["offset"])
        return web.page(*records[start : start + int(request.query["limit"])])

    return answer


OFFSET = {"strategy": "offset", "limit": 3}


@pytest.fixture
def shop() -> Iterator[web.Server]:
    with web.serving(by_offset(ORDERS)) as server:
        yield server


def everything(folder: Path) -> str:
    """All names and contents of a folder."""
    return "\n".join(
        f"{path}\n{path.read_bytes().decode('utf-8', 'replace') if path.is_file() else ''}"
        for path in sorted(folder.rglob("*"))
    )


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


def merged(*names: str) -> dict[str, Any]:
    return {"type": "merge", "name": "all", "inputs": list(names), "config": {"mode": "concat"}}


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


# ---- failures ------------------------------------------------------------------------------------------------------


def test_nothing_is_published_after_a_failure(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = web.in_turn(web.page(*ORDERS[:3]), web.Answer(b"boom", 500))
    with web.serving(answers) as server:
        write(here, source("orders", server.url, pagination=OFFSET))
        pipelines.write(here, {"out/copy.csv": "old\n"})
        before = everything(here)
        assert clinker.main(["run", "pipeline.yaml", "--force"]) == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"error[E221]: source 'orders': {server.url}?offset=3&limit=3#page=2: HTTP 500: boom, after 0 retries\n"
        "  --> pipeline.yaml:6:3\n"
    )
    assert everything(here) == before


@pytest.mark.parametrize("strategy", ["fail_fast", "continue"])
@pytest.mark.parametrize("body", [b"[1, 2", b"<html>", b'[{"id":1}] x', b'{"a":1'], ids=str)
def test_a_page_that_cannot_be_decoded_is_like_such_a_file(body: bytes, strategy: str, here: Path) -> None:
    with web.serving(lambda request: web.Answer(body)) as server:
        write(here, source("api", server.url), output="api", strategy=strategy, dlq={"path": "out/dead.csv"})
        fetched = pipelines.run(here).result
    pipelines.write(here, {"page.json": body})
    text = (here / "pipeline.yaml").read_text()
    document = yaml.safe_load(text)
    config = document["nodes"][0]["config"]
    del config["transport"]
    config["path"] = "page.json"
    pipelines.write(here, {"pipeline.yaml": yaml.safe_dump(document, sort_keys=False)})
    read = pipelines.run(here, force=True).result
    assert fetched.exit_code == read.exit_code
    told = [item.error.message if item.error else "" for item in (fetched, read)]
    assert told[0].replace(server.url, "page.json") == told[1]


def test_a_full_disk_ends_the_run_in_words(here: Path, shop: web.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "pages-0-000001.page")

    monkeypatch.setattr(network.rest, "pull", full)
    write(here, source("orders", shop.url, pagination=OFFSET))
    outcome = pipelines.run(here).result
    assert outcome.error is not None
    assert (outcome.exit_code, outcome.error.code) == (4, "E900")
    assert outcome.error.message == "pages-0-000001.page: No space left on device"


def test_local_files_are_looked_at_before_any_request(here: Path, shop: web.Server) -> None:
    missing = {"type": "source", "name": "names", "config": {"type": "csv", "path": "gone.csv", "schema": SCHEMA}}
    write(here, source("orders", shop.url, pagination=OFFSET), missing, merged("orders", "names"), output="all")
    outcome = pipelines.run(here).result
    assert outcome.error is not None
    assert (outcome.exit_code, outcome.error.code, shop.requests) == (4, "E216", [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_wait_for_the_server(
    number: int, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_PATIENCE_S", 0.2)
    held = threading.Event()

    def answer(request: web.Request) -> web.Answer:
        if request.query["offset"] == "0":
            return web.page(*ORDERS[:3])
        os.kill(os.getpid(), number)
        held.wait(20)
        return web.page()

    with web.serving(answer) as server:
        write(here, source("orders", server.url, pagination=OFFSET))
        before = everything(here)
        started = time.monotonic()
        assert clinker.main(["run", "pipeline.yaml"]) == 130
        assert time.monotonic() - started < 5
        held.set()
    assert "interrupted" in capsys.readouterr().err
    assert everything(here) == before


# ---- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fine", [True, False])
@pytest.mark.parametrize(
    "auth",
    [{"scheme": "bearer", "token": "${SHOP_KEY}"}, {"scheme": "header", "name": "X-Key", "value": "${SHOP_KEY}"}],
)
def test_nobody_sees_the_secret(
    auth: dict[str, str],
    is_fine: bool,
    here: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_KEY", KEY)
    caplog.set_level(1)  # what libraries say to whoever listens

    def answer(request: web.Request) -> web.Answer:
        if not is_fine:
            return web.Answer(str(request.headers).encode(), 403)
        rows = [{"id": "x", "amount": 1}, *ORDERS]
        links = {"Link": f'</2?token={KEY}>; rel="next"'} if request.path != "/2" else {}
        return web.page(*rows, **links)

    with web.serving(answer) as server:
        url = f"{server.url}/1?api_key={KEY}"
        paging = {"strategy": "link_header"}
        node = source("orders", url, pagination=paging, transport={"auth": auth})
        more = {"type": "transform", "name": "more", "input": "orders", "config": {"cxl": "emit p = $source.path"}}
        write(here, node, more, output="more", strategy="continue", dlq={"path": "out/dead.csv"})
        text = (here / "pipeline.yaml").read_text().replace(KEY, "${SHOP_KEY}")
        (here / "pipeline.yaml").write_text(text)
        words = ["run", "pipeline.yaml", "--log-level", "trace", "--metrics-spool-dir", "metrics", "--work-dir", "work"]
        assert clinker.main(words) == (2 if is_fine else 4)
    sent = server.requests[0].headers
    assert KEY in (sent["Authorization"] or sent["X-Key"])
    told = capfd.readouterr()
    seen = told.out + told.err + caplog.text + everything(here)
    assert "api_key=***" in seen
    assert KEY not in seen
    plan = planning.load("pipeline.yaml")
    step = plan.by_name["orders"].step
    assert KEY not in repr(plan)
    assert KEY in str(step.endpoint.credential.value)  # type: ignore[union-attr]
    assert KEY.encode() not in pickle.dumps(step)


# ---- without a run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    ["run pipeline.yaml --dry-run", "validate pipeline.yaml", "run pipeline.yaml --explain", "lineage pipeline.yaml"],
)
def test_only_runs_ask_the_server(words: str, here: Path, shop: web.Server, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, source("orders", shop.url, pagination=OFFSET))
    assert clinker.main(words.split()) == 0, capsys.readouterr()
    assert shop.requests == []


def test_the_plan_shows_what_is_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, source("orders", f"http://h/a?api_key={KEY}"))
    assert clinker.main(["run", "pipeline.yaml", "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "  pages: http://h/a?api_key=***, at most 20, fetched by the driver\n" in shown
    assert KEY not in shown


@pytest.mark.parametrize(("records", "pages"), [(1, 1), (3, 1), (4, 2), (100, 3)])
def test_a_preview_asks_for_the_pages_that_it_shows(
    records: int, pages: int, here: Path, shop: web.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here, source("orders", shop.url, pagination=OFFSET, on_unmapped="drop"))
    assert clinker.main(["run", "pipeline.yaml", "-n", str(records)]) == 0
    rows = [f"{row['id']},{row['amount']:g}" for row in ORDERS]
    assert capsys.readouterr().out.splitlines() == ["id,amount", *rows[:records]]
    assert len(shop.requests) == pages
    assert [path.name for path in here.iterdir()] == ["pipeline.yaml"]


# ---- with Spark ----------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_run_on_spark_gives_the_same_bytes_on_any_number_of_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"id": number, "amount": number / 7, "kind": f"k{number % 5}"} for number in range(500)]
    given = []
    with web.serving(by_offset(records)) as server:
        monkeypatch.setattr(server, "answer", _failing_first(server.answer))
        for threads in (1, 2):
            folder = tmp_path / str(threads)
            folder.mkdir()
            schema = {**SCHEMA, "kind": "string"}
            transport = {"retries": 1, "auth": {"scheme": "bearer", "token": KEY}}
            paging = {"strategy": "offset", "limit": 60}
            node = source("orders", server.url, pagination=paging, schema=schema, transport=transport)
            sums = {"type": "aggregate", "name": "sums", "input": "orders",
                    "config": {"group_by": ["kind"], "cxl": "emit n = count(*)\nemit total = sum(amount)"}}  # fmt: skip
            write(folder, node, sums, output="sums")
            outcome = pipelines.run(folder, threads=threads).result
            assert (outcome.exit_code, outcome.records_total) == (0, 500), outcome.error
            given.append(pipelines.outputs(folder))
    assert given[0] == given[1]
    assert given[0]["copy.csv"].decode().splitlines()[0] == "kind,n,total"
    assert [line.split(",")[:2] for line in given[0]["copy.csv"].decode().splitlines()[1:]] == [
        [f"k{number}", "100"] for number in range(5)
    ]


def _failing_first(answer: Callable[[web.Request], web.Answer]) -> Callable[[web.Request], web.Answer]:
    """The first request of all is refused for now."""
    refused: list[web.Request] = []

    def sometimes(request: web.Request) -> web.Answer:
        if not refused:
            refused.append(request)
            return web.Answer(b"", 503, {"Retry-After": "0"})
        return answer(request)

    return sometimes


@pytest.mark.spark
def test_a_run_on_spark_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with web.serving(web.in_turn(web.page(*ORDERS[:3]), web.Answer(b'[{"id":1}, x]'))) as server:
        write(tmp_path, source("orders", server.url, pagination={"strategy": "offset", "limit": 3}))
        outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 4
    assert outcome.error is not None
    assert "#page=2: broken JSON" in outcome.error.message
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.yaml"]

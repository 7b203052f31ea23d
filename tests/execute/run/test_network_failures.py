"""Runs whose records are on a network: what is left behind, what nobody gets to see, and when nobody is asked."""

from __future__ import annotations

import errno
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
from spark_jobs.execute.run import network
from tests.execute import pipelines
from tests.execute.network_runs import KEY, OFFSET, ORDERS, SCHEMA, by_offset, everything, merged, source, write
from tests.scan import web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow


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
    assert told.err.startswith(
        f"error[E221]: source 'orders': {server.url}?offset=3&limit=3#page=2: HTTP 500: boom, after 0 retries\n"
        " --> pipeline.yaml:6:3\n"
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
    assert outcome.error.message.startswith("pages-0-000001.page: No space left on device; free some space")


def test_local_files_are_looked_at_before_any_request(here: Path, shop: web.Server) -> None:
    missing = {"type": "source", "name": "names", "config": {"type": "csv", "path": "gone.csv", "schema": SCHEMA}}
    write(here, source("orders", shop.url, pagination=OFFSET), missing, merged("orders", "names"), output="all")
    outcome = pipelines.run(here).result
    assert outcome.error is not None
    assert (outcome.exit_code, outcome.error.code, shop.requests) == (4, "E216", [])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_wait_for_the_server(
    number: int, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_TIMEOUT_S", 0.2)
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

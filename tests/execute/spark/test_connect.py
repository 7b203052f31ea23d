"""Endpoints of Spark Connect that are away, refuse, or go away: told in words and within seconds."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from spark_jobs.cli import clinker
from spark_jobs.contract import ExitCode
from spark_jobs.execute.run import breakdown
from spark_jobs.execute.spark import cancellation, connect, masking, session
from spark_jobs.plan.options import RunOptions
from tests import connect as servers
from tests.execute.bad_runs import prepare
from tests.execute.spark.test_signals import names, start
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]


class _Refusing(grpc.GenericRpcHandler):
    """An endpoint that has one answer to every call."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._answer = (code, details)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: context.abort(*self._answer))


@contextmanager
def endpoint(code: grpc.StatusCode, details: str) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([_Refusing(code, details)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(None)


def away() -> str:
    return f"sc://127.0.0.1:{servers.free_port()}"


def opened(url: str) -> session.SessionError:
    """The error of an endpoint that cannot be used."""
    with pytest.raises(session.SessionError) as caught:
        session.open_session(RunOptions(remote=url), None)
    return caught.value


@pytest.fixture(autouse=True)
def no_session() -> Iterator[None]:
    """The client of an endpoint that failed stays PySpark's default session."""
    from pyspark.sql.connect.session import SparkSession

    yield
    SparkSession._default_session = None
    SparkSession._active_session = threading.local()


def test_an_endpoint_that_is_away_is_tried_again_for_a_while_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connect, "RETRY_LIMIT_S", 1.0)
    url = away()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="clinker.run"):
        error = opened(f"{url}/;user_id=ada;x-key=hidden")
    assert 0.8 < time.monotonic() - began < 20
    assert error.exit_code == ExitCode.IO
    assert f"the Spark Connect endpoint {url}/;user_id=ada;x-key=*** does not answer: UNAVAILABLE: " in str(error)
    assert "\n" not in str(error)
    assert len(caplog.messages) == 1
    assert f"{url}/;user_id=ada;x-key=***: UNAVAILABLE: " in caplog.messages[0]
    assert "trying again for 1 s" in caplog.messages[0]


def test_an_endpoint_that_comes_back_in_time_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call that is taken ends the waiting: here by a refusal, which is not tried again."""
    monkeypatch.setattr(connect, "RETRY_LIMIT_S", 30.0)
    port = servers.free_port()

    def later() -> None:
        time.sleep(1.0)
        server = grpc.server(futures.ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers([_Refusing(grpc.StatusCode.UNAUTHENTICATED, "who?")])
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        kept.append(server)

    kept: list[Any] = []
    thread = threading.Thread(target=later)
    thread.start()
    try:
        assert "who?" in str(opened(f"sc://127.0.0.1:{port}"))
    finally:
        thread.join()
        kept[0].stop(None)


def test_a_server_that_wants_a_token_says_so_at_once() -> None:
    with endpoint(grpc.StatusCode.UNAUTHENTICATED, "Invalid or missing token") as url:
        began = time.monotonic()
        error = opened(url)
    assert time.monotonic() - began < 10
    assert error.exit_code == ExitCode.CONFIG
    assert "refuses this client: UNAUTHENTICATED: Invalid or missing token" in str(error)
    assert masking.TOKEN_VARIABLE in str(error)


def test_a_token_for_a_server_without_tls_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "RETRY_LIMIT_S", 0.5)
    with endpoint(grpc.StatusCode.UNAUTHENTICATED, "") as url:
        error = opened(f"{url}/;token=SECRET123")
    assert error.exit_code == ExitCode.CONFIG
    assert "does not speak TLS" in str(error)
    assert "SECRET123" not in str(error)


def test_an_address_that_is_none_is_a_mistake() -> None:
    error = opened("sc://127.0.0.1:1/;token=SECRET123;bad")
    assert error.exit_code == ExitCode.CONFIG
    assert "sc://127.0.0.1:1/;token=***;*** cannot be used: [INVALID_CONNECT_URL]" in str(error)


def endpoint_of(given: dict[str, str]) -> str | None:
    """The endpoint that `clinker run` takes with these flags."""
    flags = [text for name, value in given.items() for text in (f"--{name}", value)]
    return clinker.run_options(["p.yaml", *flags]).remote


@pytest.mark.parametrize(
    ("variable", "given", "endpoint"),
    [
        ("sc://h", {}, "sc://h"),
        ("sc://h", {"remote": "sc://other"}, "sc://other"),
        ("sc://h", {"master": "local[2]"}, None),
        ("local[2]", {}, None),
        ("", {}, None),
    ],
    ids=str,
)
def test_sparks_own_variable_names_the_endpoint(
    variable: str, given: dict[str, str], endpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_REMOTE", variable)
    assert endpoint_of(given) == endpoint
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert endpoint_of(given) == given.get("remote")


@pytest.mark.parametrize(
    "said",
    [
        '<_MultiThreadedRendezvous of RPC that ended:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "gone"\n>',
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 1 is invalid. Session not found. SQLSTATE: HY000",
        "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted.",
    ],
)
def test_a_server_that_went_away_during_a_run(said: str) -> None:
    class Lost(Exception):
        __module__ = "pyspark.errors.exceptions.connect"

    code, error = breakdown.explain(Lost(said), "/spill")
    assert (code, error.code) == (ExitCode.IO, "E904")
    assert error.message.startswith("the connection to the Spark Connect server was lost: ")
    assert "_MultiThreadedRendezvous" not in error.message


def test_an_endpoint_that_takes_no_cancelling_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dead:
        __module__ = "pyspark.sql.connect.session"

        def registerProgressHandler(self, handler: object) -> None:
            """There is no progress."""

        removeProgressHandler = registerProgressHandler

        def addTag(self, tag: str) -> None:
            """PySpark keeps tags itself."""

        def interruptTag(self, tag: str) -> None:
            time.sleep(60)

    def job() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    monkeypatch.setattr(cancellation, "_TIMEOUT_S", 0.2)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        cancellation.cancellable(Dead(), job)  # type: ignore[arg-type]
    assert time.monotonic() - began < 10


# ---- as processes ------------------------------------------------------------------------------------------------


@contextmanager
def silent_host() -> Iterator[str]:
    """A host that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"sc://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["away", "silent"])
def test_a_run_that_waits_for_an_endpoint_is_stopped_within_seconds(kind: str, tmp_path: Path) -> None:
    prepare(tmp_path)
    with silent_host() as silent:
        run = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml", "--force", "--quiet"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_REMOTE": silent if kind == "silent" else away()},
        )  # fmt: skip
        time.sleep(4)
        assert run.poll() is None
        began = time.monotonic()
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert time.monotonic() - began < 20
    assert "error[interrupted]" in err
    assert (tmp_path / "out/copy.csv").read_text() == "old\n"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True], ids=["until it gives up", "until it is stopped"])
def test_a_server_that_is_killed_during_a_run(is_stopped: bool, tmp_path: Path) -> None:
    folder, home = tmp_path / "run", tmp_path / "server"
    folder.mkdir()
    home.mkdir()
    with servers.server(home) as address:
        process = start(folder, "--remote", address)
        try:
            assert until(lambda: any(folder.glob("out/.clinker-*/*.part")) or process.poll() is not None)
            (server,) = servers.listening(address)
            server.kill()
            began = time.monotonic()
            if is_stopped:
                time.sleep(3)
                process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert time.monotonic() - began < (30 if is_stopped else 90)
    assert process.returncode == (130 if is_stopped else 4), err
    assert "WARNING Spark Connect at sc://" in err
    assert is_stopped or "error[E904]: the connection to the Spark Connect server was lost" in err
    assert names(folder) == ["out", "out/copy.csv", "pipeline.yaml", "rows.csv"]
    assert (folder / "out/copy.csv").read_text() == "old\n"

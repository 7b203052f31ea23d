"""A standalone master that is not there, or whose address is none."""

from __future__ import annotations

import logging
import socket
import time

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.execute.spark import authentication, masters
from spark_jobs.execute.verdict import RunFailed


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_master_that_is_not_there_is_named_soon(caplog: pytest.LogCaptureFixture) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    began = time.monotonic()
    with pytest.raises(RunFailed, match="Connection refused") as raised:
        masters.reach(master, "500ms")
    assert time.monotonic() - began < 5
    assert (raised.value.exit_code, raised.value.code) == (ExitCode.IO, "E901")
    assert master in raised.value.message
    assert masters.LIMIT_SETTING in raised.value.message
    assert caplog.messages == [f"the Spark master {master} does not answer: Connection refused; trying again for 0 s"]


def test_one_of_several_masters_is_enough() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        masters.reach(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}", "1s")


@pytest.mark.parametrize("master", ["local", "local[2]", "yarn", "k8s://https://host:443"])
def test_other_masters_are_not_asked(master: str) -> None:
    masters.reach(master, None)


@pytest.mark.parametrize(
    "master", ["spark://host", "spark://", "spark://h:x", "spark://ada:s3cr3t@h:7", "spark://h:7/p"]
)
def test_an_address_that_is_none_ends_the_run_without_being_shown(master: str) -> None:
    with pytest.raises(RunFailed, match="spark://HOST:PORT") as raised:
        masters.reach(master, None)
    assert raised.value.exit_code == ExitCode.CONFIG
    assert "s3cr3t" not in raised.value.message


@pytest.mark.parametrize(("known", "count"), [({}, 1), ({"spark.authenticate": "false"}, 0)])
def test_a_cluster_that_authenticates_nobody_is_told_of_unless_it_is_meant(
    known: dict[str, str], count: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        authentication.warn("spark://host:7077", known)
    assert len(caplog.messages) == count

"""What another user of the machine gets from the ports that an embedded run opens: nothing."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
#: Holds a job whose shuffled records are in the block manager, until its standard input ends.
HOLDER = """
import sys, threading, time
from pathlib import Path
from spark_jobs.execute.spark import session, spread
from spark_jobs.execute.spark.embedded import class_dump
from spark_jobs.execute.tasks import shuffle_records
from spark_jobs.plan.options import RunOptions

begun = Path(sys.argv[1])

def held(batches):
    yield from batches
    begun.touch()
    time.sleep(120)

spark = session.open_session(RunOptions(spark_conf=dict(each.split("=") for each in sys.argv[2:])), 1)
frame = spread.mapped(spread.numbers(spark, 1), class_dump._shuffle_records, shuffle_records.SCHEMA)
frame = frame.repartitionById(1, "slot").sortWithinPartitions("exchange", "ordinal")
threading.Thread(target=spread.mapped(frame, held, shuffle_records.SCHEMA).toArrow, daemon=True).start()
sys.stdin.read()
import os
os._exit(0)
"""
#: Blocks that every such job has: a pickled task, and the records of a shuffle.
BLOCKS = ("broadcast_0_piece0", "shuffle_0_0_0")


class Held:
    """A running session."""

    def __init__(self, folder: Path, *settings: str) -> None:
        folder.mkdir()
        begun = folder / "begun"
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(begun), *settings],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        until(begun.exists, seconds=120)

    @property
    def listening(self) -> list[tuple[str, int]]:
        """Where the processes of the run take connections."""
        parent = psutil.Process(self.process.pid)
        found = {
            (str(each.laddr.ip).removeprefix("::ffff:"), int(each.laddr.port))
            for process in (parent, *parent.children(recursive=True))
            for each in process.net_connections("inet")
            if each.status == psutil.CONN_LISTEN
        }
        return sorted(found)

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def as_nobody(work: Callable[[], Any]) -> Any:
    """What some work gives that another user of this machine does."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(write, json.dumps(work()).encode())
            status = 0
        except BaseException:  # noqa: BLE001 - told by the child, which ends
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with open(read, "rb") as told:
        data = told.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(data)


def asked(port: int, block: str) -> str:
    """The first letters of what a port gives for a block, by Spark's own protocol; empty when it gives none.

    A frame is its length, a type and a message; a call (3) has a number and a body, here the wish (0) of an application
    and an executor for blocks; what is answered (4) has the number of a stream, whose chunks are fetched (0).
    """
    texts = b"".join(struct.pack(">i", len(text)) + text for text in (b"any", b"driver"))
    wish = b"\0" + texts + struct.pack(">ii", 1, len(block)) + block.encode()
    try:
        with socket.socket() as connection:
            connection.settimeout(3)
            connection.connect(("127.0.0.1", port))
            connection.sendall(framed(3, struct.pack(">qi", 7, len(wish)) + wish))
            kind, answer = frame(connection)
            if kind != 4:
                return ""
            (stream,) = struct.unpack(">q", answer[13:21])
            connection.sendall(framed(0, struct.pack(">qi", stream, 0)))
            kind, answer = frame(connection)
            return answer[12:].hex()[:20] if kind == 1 else ""
    except (OSError, struct.error, EOFError):
        return ""


def framed(kind: int, message: bytes) -> bytes:
    return struct.pack(">qb", 9 + len(message), kind) + message


def frame(connection: socket.socket) -> tuple[int, bytes]:
    length, kind = struct.unpack(">qb", exactly(connection, 9))
    return kind, exactly(connection, min(length - 9, 1 << 20))


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """An embedded session that does a job."""
    run = Held(tmp_path_factory.mktemp("held") / "run")
    yield run
    run.close()


def test_an_embedded_run_listens_on_its_own_machine_alone(held: Held) -> None:
    assert held.listening
    assert {address for address, _ in held.listening} == {"127.0.0.1"}


def test_another_user_gets_no_task_and_no_record_from_any_port(held: Held) -> None:
    ports = [port for _, port in held.listening]
    assert as_nobody(lambda: {f"{port}": [asked(port, block) for block in BLOCKS] for port in ports}) == {
        f"{port}": ["", ""] for port in ports
    }


def test_the_same_questions_are_answered_where_a_user_wants_no_authentication(tmp_path: Path) -> None:
    run = Held(tmp_path / "open", "spark.authenticate=false")
    try:
        ports = [port for _, port in run.listening]
        given = as_nobody(lambda: [[asked(port, block) for block in BLOCKS] for port in ports])
        assert any(all(each) for each in given), "else the test above proves nothing"
    finally:
        run.close()


def test_another_user_finds_no_file_of_a_run_that_is_readable(held: Held) -> None:
    parent = psutil.Process(held.process.pid)
    named = {
        each.path
        for process in (parent, *parent.children(recursive=True))
        for each in process.open_files()
        if "clinker-spill-" in each.path and Path(each.path).exists()
    }
    assert named

    def readable() -> list[str]:
        return [path for path in named if os.access(path, os.R_OK)]

    assert as_nobody(readable) == []


def test_pages_that_a_user_asks_for_are_for_this_machine_too(tmp_path: Path) -> None:
    run = Held(tmp_path / "pages", "spark.ui.enabled=true", "spark.ui.port=0")
    try:
        assert {address for address, _ in run.listening} == {"127.0.0.1"}
    finally:
        run.close()

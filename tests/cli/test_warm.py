"""Warm drivers: a command that one runs is as it would be in a process of its own, and nobody else can use it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.cli.warm import client, drivers, messages
from tests import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A driver whose commands are these, and that starts no JVM.
DRIVER = """
import os, sys, time
from spark_jobs.cli import clinker
from spark_jobs.cli.warm import server
from spark_jobs.execute import interrupts

def show(arguments):
    print("out", os.getcwd(), os.environ.get("PLACE"), sys.argv[0] == "", sys.stdin.read())
    os.close(os.open("made", os.O_CREAT | os.O_WRONLY, 0o666))
    print("err", oct(os.stat("made").st_mode & 0o777), file=sys.stderr)
    return 7

def wait(arguments):
    try:
        os.mkdir("begun")
        for _ in range(1200):
            time.sleep(0.05)
            interrupts.check()
    finally:
        os.mkdir("ended")

def fail(arguments):
    raise RuntimeError("broken")

clinker._COMMANDS.update(validate=show, lineage=wait, explain=fail)
server._warm_up = lambda: None
server.main(sys.argv[1:])
"""
#: The test's own variable changes from phase to phase, and each environment has a driver of its own.
CLIENT = """
import os, sys
from spark_jobs.cli import clinker
del os.environ["PYTEST_CURRENT_TEST"]
clinker.end_with(sys.argv[1:])
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where drivers of this test are; they are ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="warm") as folder:  # the address of a socket is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv(client.VARIABLE, "1")
        monkeypatch.setattr(drivers, "_PASSING", drivers._PASSING | {"PYTEST_CURRENT_TEST"})
        (tmp_path / "work").mkdir()
        monkeypatch.chdir(tmp_path / "work")
        yield Path(folder)
        for _, state in drivers.alive():
            os.kill(state.pid, signal.SIGKILL)


@pytest.fixture
def driver(runtime: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder = drivers.folder()
    assert folder is not None
    folder.mkdir(mode=0o700)
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), "60"], stdin=subprocess.DEVNULL)
    try:
        assert waiting.until(drivers.alive)
        yield process
    finally:
        process.kill()
        process.wait()


def command(*arguments: str, **how: object) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", CLIENT, *arguments], **{**pipes, **how})  # type: ignore[call-overload, no-any-return]


def test_a_command_has_the_streams_folder_environment_and_mask_of_its_client(
    driver: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    process = command("validate", "p.yaml", cwd=there, env={**os.environ, "TERM": "x"}, umask=0o027)
    out, err = process.communicate("given")
    assert process.returncode == 7
    assert out.split() == ["out", str(there), "None", "False", "given"]
    assert err.split() == ["err", "0o640"]
    assert waiting.until(lambda: drivers.alive()[0][1].runs == 1)


def test_another_environment_is_not_served(driver: subprocess.Popen[bytes]) -> None:
    found = drivers.folder()
    before = dict(os.environ)
    try:
        os.environ["PLACE"] = "elsewhere"
        assert drivers.folder() != found
        del os.environ["PLACE"]
        os.environ["COLUMNS"] = "17"
        assert drivers.folder() == found
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_the_command_and_not_the_driver(
    driver: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    process = command("lineage", "p.yaml")
    assert waiting.until(Path("begun").exists)
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "interrupted\n")
    assert Path("ended").exists()
    assert command("validate", "p.yaml").communicate("")[0].startswith("out")
    assert driver.poll() is None


def test_a_command_whose_client_has_gone_before_it_began_holds_no_stream(driver: subprocess.Popen[bytes]) -> None:
    busy = command("lineage", "p.yaml")
    assert waiting.until(Path("begun").exists)
    busy.send_signal(signal.SIGINT)
    busy.communicate()
    folder = drivers.folder()
    assert folder is not None
    reader, writer = os.pipe()
    here = os.open(".", os.O_RDONLY)
    with open(reader, "rb") as found:
        # The driver takes it and finds at once that nobody waits.
        connection = drivers.connect(folder)
        assert connection is not None
        with connection:
            request = messages.Request(["lineage", "p.yaml"], dict(os.environ), 0o22)
            messages.send_request(connection, request, [writer, writer, writer, here])
        os.close(writer)
        os.close(here)
        assert found.read() in (b"", b"interrupted\n")


def test_no_module_comes_from_the_folder_of_a_client(runtime: Path) -> None:
    for name in ("queue", "json", "spark_jobs"):
        Path(f"{name}.py").write_text("raise SystemExit('a module of the working folder')")
    folder = drivers.folder()
    assert folder is not None
    connection = client.start(folder, 1.0)
    assert connection is not None
    connection.close()
    assert waiting.until(drivers.alive)


def in_a_shell(line: str, script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in which CLIENT stands for the command."""
    script.write_text(CLIENT)
    line = line.replace("CLIENT", f'"{sys.executable}" "{script}"')
    return subprocess.run(["bash", "-c", line], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_lead_nowhere(driver: subprocess.Popen[bytes], closed: str, tmp_path: Path) -> None:
    done = in_a_shell(f"CLIENT validate p.yaml {closed}", tmp_path / "client.py", tmp_path)
    assert done.returncode == 7, done.stderr
    assert waiting.until(lambda: drivers.alive()[0][1].runs == 1)


def test_a_folder_that_has_been_renamed_is_the_same(driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    done = in_a_shell("mv ../one ../two; CLIENT validate p.yaml", tmp_path / "client.py", tmp_path / "one")
    assert done.stdout.split()[:2] == ["out", str(tmp_path / "two")], done.stderr


def test_the_end_of_a_client_ends_its_command(driver: subprocess.Popen[bytes]) -> None:
    process = command("lineage", "p.yaml")
    assert waiting.until(Path("begun").exists)
    process.kill()
    process.communicate()
    waiting.until(Path("ended").exists)
    assert waiting.until(lambda: drivers.alive()[0][1].runs == 1)
    assert driver.poll() is None


def test_what_nobody_caught_ends_the_command_alone(driver: subprocess.Popen[bytes]) -> None:
    process = command("explain", "p.yaml")
    _, err = process.communicate()
    assert process.returncode == 1
    assert "RuntimeError: broken" in err
    assert driver.poll() is None


def test_the_end_of_a_driver_is_told(driver: subprocess.Popen[bytes]) -> None:
    process = command("lineage", "p.yaml")
    assert waiting.until(Path("begun").exists)
    driver.kill()
    _, err = process.communicate()
    assert process.returncode == 4
    assert err.startswith("clinker lineage error: the warm driver ended before the command finished")


def test_a_client_of_a_busy_driver_does_the_work_itself(driver: subprocess.Popen[bytes]) -> None:
    busy = command("lineage", "p.yaml")
    assert waiting.until(Path("begun").exists)
    process = command("validate", "p.yaml")
    _, err = process.communicate()
    assert process.returncode == 1
    assert "p.yaml" in err  # its own command, which finds no file
    busy.send_signal(signal.SIGINT)
    busy.communicate()


def test_stopping_waits_for_the_command(driver: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]) -> None:
    process = command("lineage", "p.yaml")
    assert waiting.until(Path("begun").exists)
    assert clinker.main(["serve"]) == 0
    assert clinker.main(["serve", "--stop"]) == 0
    out = capsys.readouterr().out
    assert f"pid {driver.pid}: clinker " in out
    assert f"pid {driver.pid} stops\n" in out
    assert driver.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert driver.wait(30) == 0
    assert clinker.main(["serve"]) == 0
    assert capsys.readouterr().out.startswith("no warm driver is running; set keep_warm = true")


def test_a_driver_that_nobody_needs_ends(runtime: Path) -> None:
    folder = drivers.folder()
    assert folder is not None
    folder.mkdir(mode=0o700)
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), "0.5"], stdin=subprocess.DEVNULL)
    assert process.wait(60) == 0
    assert time.monotonic() - began >= 0.5
    assert sorted(path.name for path in folder.iterdir()) == []


def test_a_signal_ends_an_idle_driver(driver: subprocess.Popen[bytes]) -> None:
    driver.send_signal(signal.SIGINT)  # of a terminal: for commands alone
    assert command("validate", "p.yaml").communicate("")[0].startswith("out")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(30) == 0
    assert drivers.alive() == []


@pytest.mark.parametrize("sent", [b"", b"x", b"\xff" * 8, b"GET / HTTP/1.0\r\n\r\n"])
def test_who_sends_something_else_is_let_go(driver: subprocess.Popen[bytes], sent: bytes) -> None:
    folder = drivers.folder()
    assert folder is not None
    connection = drivers.connect(folder)
    assert connection is not None
    with connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):  # it did not read all of it
            assert connection.recv(1) == b""
    assert command("validate", "p.yaml").communicate("")[0].startswith("out")


def test_the_folder_is_this_users_alone(driver: subprocess.Popen[bytes], runtime: Path) -> None:
    folder = drivers.folder()
    assert folder is not None
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "socket").stat().st_mode & 0o777 == 0o600
    (runtime / "clinker").chmod(0o755)
    assert drivers.folder() is None
    (runtime / "clinker").chmod(0o700)


def test_a_link_is_no_folder_of_this_user(runtime: Path, tmp_path: Path) -> None:
    (runtime / "clinker").symlink_to(tmp_path)
    assert drivers.folder() is None


SETTINGS: dict[str, tuple[str, dict[str, str], list[str], bool]] = {
    "by default none": ("", {}, ["run", "p.yaml"], False),
    "where the workspace says so": ("[local]\nkeep_warm = true\n", {}, ["run", "p.yaml"], True),
    "not where the environment says no": (
        "[local]\nkeep_warm = true\n", {"CLINKER_KEEP_WARM": "0"}, ["run", "p.yaml"], False,
    ),
    "where the environment says so": ("", {"CLINKER_KEEP_WARM": "1"}, ["run", "p.yaml"], True),
    "with settings of Spark none": ("", {"CLINKER_KEEP_WARM": "1"}, ["run", "p.yaml", "--conf", "a=b"], False),
    "with a master none": ("", {"CLINKER_KEEP_WARM": "1"}, ["run", "p.yaml", "--master=local[1]"], False),
    "with an endpoint none": ("", {"CLINKER_KEEP_WARM": "1", "SPARK_REMOTE": "sc://x"}, ["run", "p.yaml"], False),
    "with a spill folder none": ('[storage.spill]\ndir = "x"\n', {"CLINKER_KEEP_WARM": "1"}, ["run", "p.yaml"], False),
    "other commands start none": ("", {"CLINKER_KEEP_WARM": "1"}, ["validate", "p.yaml"], False),
    "in other words for no none": (
        "[local]\nkeep_warm = true\n", {"CLINKER_KEEP_WARM": "Off"}, ["run", "p.yaml"], False,
    ),
    "a channel is no pipeline": (
        "[local]\nkeep_warm = true\n", {}, ["run", "--channel", "/elsewhere/c.yaml", "p.yaml"], True,
    ),
    "broken settings start none": ("[local\n", {}, ["run", "p.yaml"], False),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_a_driver_is_started(case: str, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, variables, argv, wanted = SETTINGS[case]
    Path("clinker.toml").write_text(text)
    monkeypatch.delenv(client.VARIABLE)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    started: list[float] = []
    monkeypatch.setattr(client, "start", lambda folder, minutes: started.append(minutes))
    assert client.run(argv) is None
    assert started == [10.0] * wanted


def test_settings_that_make_no_sense_are_told(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("clinker.toml").write_text("[local]\nidle_minutes = 0\nkeep_wram = true\n")
    Path("p.yaml").write_text("pipeline: {name: p}\nnodes: []\n")
    assert clinker.main(["validate", "p.yaml"]) == 1
    err = capsys.readouterr().err
    assert "idle_minutes" in err
    assert "keep_wram" in err


def test_requests_of_any_kind_arrive(tmp_path: Path) -> None:
    request = messages.Request(["run", "\udcff"], {"A": "x" * 300_000, "B": "\udc80"}, 0o22)
    left, right = socket.socketpair()
    ours = [os.open(os.devnull, os.O_RDWR) for _ in range(4)]
    with left, right:
        thread = threading.Thread(target=messages.send_request, args=(left, request, ours))
        thread.start()
        found, streams = messages.receive_request(right)
        thread.join()
    messages.close([*streams, *ours])
    assert found == request

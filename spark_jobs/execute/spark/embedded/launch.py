"""Launches the JVM of this process early, while the pipeline is still being planned.

PySpark launches one when a session is built, after it has been imported itself, and looks ten times a second whether it
is there. Here it is a process from the first moment, and PySpark is given it when it is ready. The command line and the
environment are those of `pyspark.java_gateway.launch_gateway`, so `spark-env.sh`, `spark-defaults.conf` and
`PYSPARK_SUBMIT_ARGS` count as ever. Settings with names of secrets are passed in a file, since every user of a machine
can read command lines.
"""

from __future__ import annotations

import atexit
import errno
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from spark_jobs.execute.spark import internals, masking
from spark_jobs.execute.spark.embedded import class_archive, jvm_messages, prefork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROPERTIES = "--properties-file"
#: Ctrl-C is for this process, which ends the JVM in order. An ignored signal stays ignored in the program after `exec`.
#: Python code between fork and exec would be another way. It is not safe in a process with threads, as this one is.
_DEAF_TO_CTRL_C = ("/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"')
_LOOK_EVERY_S = 0.005
#: A JVM starts in a second, and on a machine that others keep busy in many.
_LIMIT_S = 180.0
#: The number of bytes at the end of a JVM's output that are searched for messages.
_TAIL_BYTES = 1 << 16
#: The ports of this process's JVMs. PySpark finds them in the variable that spark-submit sets, which is set for a
#: moment.
_own_ports: set[str] = set()


#: The launch whose JVM this process talks to.
_serving: list[Launch] = []


def last_words() -> str:
    """The last lines of this session's JVM and how it ended, as far as they are known."""
    return _serving[0].last_words() if _serving else ""


def is_submitted() -> bool:
    """True if spark-submit has started the JVM and this process."""
    port = os.environ.get(internals.PORT)
    return port is not None and port not in _own_ports


class NotStartedError(Exception):
    """A JVM has ended before it could be talked to."""


#: The JVMs that this process talks to.
STARTED: list[Launch] = []


class Launch:
    """A JVM that is starting; it ends with this process, or earlier if no session was opened.

    Args:
        settings: Spark's settings that a JVM has to have from its start.
        folder: for its user alone, where it says how to reach it, and where the driver's machine does the work, too;
            the system's temporary folder when None.
        is_shown: whether the JVM's output is shown; else it is kept, and reported if the JVM ends.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, settings: Mapping[str, str], folder: str | None = None, *, is_shown: bool = False) -> None:
        self.settings = dict(settings)
        home = str(class_archive.spark_home(os.environ))
        command = [_executable(os.path.join(home, "bin", "spark-submit"))]
        theirs = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        secret = {key: value for key, value in self.settings.items() if masking.is_secret_setting(key, value)}
        if secret and PROPERTIES not in theirs:  # the builder of the session has them as well
            command += [PROPERTIES, str(_written(secret, self._folder)), "--load-spark-defaults"]
        for key, value in self.settings.items():
            if key not in secret:
                command += ["--conf", f"{key}={value}"]
        command += theirs
        self._information_file = self._folder / "gateway"
        self._words = None if is_shown else _nameless(self._folder)
        environment = {
            **{key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"},
            **({prefork.VARIABLE: prefork.address(folder)} if folder else {}),
            # With pages, they listen on this address, too.
            **({"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")} if folder else {}),
            "SPARK_HOME": home,
            "SPARK_CONNECT_MODE": "0",
            # Workers must not take modules from the folder that somebody happens to be in.
            **({"PYTHONSAFEPATH": "1"} if folder else {}),
            internals.INFORMATION: str(self._information_file),
        }

        try:
            self._process = subprocess.Popen(
                [*_DEAF_TO_CTRL_C, *command],
                stdin=subprocess.PIPE,  # the JVM ends when its standard input does
                stdout=self._words,
                stderr=self._words,
                env=environment,
                # The driver of a cluster keeps blocks in the system's temporary folder, and starts no worker that
                # would write files of users.
                umask=0o077 if folder is None else -1,
            )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        atexit.register(self.end)

    @property
    def is_running(self) -> bool:
        """True if the JVM is there and has not begun to end."""
        if self._process.poll() is not None:
            return False
        # A killed process cannot be waited for until its last thread has gone, which takes a while on a busy machine.
        # Only Linux has this file; elsewhere that last moment is not seen.
        try:
            state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return True
        return state != "Z"

    def gateway(self) -> Any:
        """PySpark's connection to the JVM, once it is there.

        Raises:
            NotStartedError: the JVM has ended instead; with its last messages.
        """
        internals.preload()
        deadline = time.monotonic() + _LIMIT_S
        while self._process.poll() is None and not self._information_file.is_file():
            if self._has_given_up() or time.monotonic() > deadline:
                said = self.last_words() or f"it has not answered for {_LIMIT_S:.0f} s"
                self.end()
                raise NotStartedError(said)
            time.sleep(_LOOK_EVERY_S)
        if not self._information_file.is_file():
            self.end()
            raise NotStartedError(self.last_words() or f"exit status {self._process.returncode}")
        STARTED.append(self)
        port, secret = internals.where(self._information_file.read_bytes())
        _own_ports.add(port)
        gateway = internals.gateway(port, secret, self._process)
        _serving[:] = [self]
        atexit.unregister(self.end)
        shutil.rmtree(self._folder, ignore_errors=True)
        return gateway

    def _has_given_up(self) -> bool:
        """True if the JVM has failed to say where it is reached: its other threads keep it alive."""
        return self._words is not None and jvm_messages.is_of_no_use(_tail(self._words))

    def last_words(self) -> str:
        """The last lines of a JVM that has ended, and how it ended; empty if nothing is known."""
        status = self._process.poll()
        said = jvm_messages.of_jvm(_tail(self._words)) if self._words else []
        if status is not None and status < 0:
            said.append(f"it was ended by signal {-status}, {signal.Signals(-status).name}")
        return "; ".join(said)

    def end(self) -> None:
        """End a JVM that will not be used."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _executable(path: str) -> str:
    """The path of a program.

    Raises:
        OSError: it is not there, or may not be started.
    """
    if not os.access(path, os.X_OK):
        number = errno.EACCES if os.path.exists(path) else errno.ENOENT
        raise OSError(number, os.strerror(number), path)
    return path


def _written(settings: Mapping[str, str], folder: Path) -> Path:
    """A file with settings, as Java reads them; for this user alone."""
    path = folder / "secrets.properties"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        for key, value in settings.items():
            file.write(f"{_escaped(key)}={_escaped(value)}\n")
    return path


def _escaped(text: str) -> str:
    r"""A key or a value, whatever characters it has.

    >>> _escaped("a b=ü")
    'a\\u0020b\\u003d\\u00fc'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(n) if n < 128 and (chr(n).isalnum() or chr(n) in ".-_") else f"\\u{n:04x}" for n in numbers)


def _nameless(folder: Path) -> IO[bytes]:
    """A file that has no name, so that nothing is left of it; in memory where that can be, for disks may be full."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("clinker-jvm"), "w+b")
    return tempfile.TemporaryFile(dir=folder)


def _tail(file: IO[bytes]) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), _TAIL_BYTES, max(size - _TAIL_BYTES, 0)).decode("utf-8", "replace")


class Early:
    """The launch that has begun before anybody asked for it, if one has."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._launch: Launch | None = None

    def begin(self, make: Callable[[], Launch | None]) -> None:
        """Launch in a thread; an error is raised again, and reported, when a session is asked for."""
        self._thread = threading.Thread(target=self._begin, args=(make,), daemon=True)
        self._thread.start()

    def _begin(self, make: Callable[[], Launch | None]) -> None:
        try:
            self._launch = make()
        except (OSError, ValueError):
            self._launch = None

    def wait(self) -> None:
        """Return when the launch has begun: settings are looked up by one thread at a time."""
        if self._thread is not None:
            self._thread.join()

    def taken(self, settings: Mapping[str, str]) -> Launch | None:
        """The launch, for a JVM with these settings; one with others is ended. None if there is none."""
        self.wait()
        found, self._launch = self._launch, None
        if found is None or found.settings == dict(settings):
            return found
        found.end()
        return None


#: The early launch of this process.
EARLY = Early()

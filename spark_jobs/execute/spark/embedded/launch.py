"""A JVM of this process, which starts while the pipeline is still looked at.

PySpark launches one when a session is built, after it has been imported itself, and looks ten times a second whether it
is there. Here it is a process from the first moment, and PySpark is given it when it is ready. The command line and the
environment are those of `pyspark.java_gateway.launch_gateway`, so `spark-env.sh`, `spark-defaults.conf` and
`PYSPARK_SUBMIT_ARGS` count as ever.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.execute.spark.embedded import class_archive, standby

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOOK_EVERY_S = 0.005
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
#: Where the JVMs of this process listen. PySpark hears of them by the variable that spark-submit sets, for a moment.
_own_ports: set[str] = set()


def is_submitted() -> bool:
    """Whether spark-submit has started the JVM and this process."""
    port = os.environ.get(_PORT)
    return port is not None and port not in _own_ports


class NotStartedError(Exception):
    """A JVM has ended before it could be talked to."""


class Launch:
    """A JVM that starts; it ends with this process, or before when nobody has asked for it.

    Args:
        settings: Spark's settings that a JVM has to have from its start.
        folder: where it says how to reach it; the system's temporary folder when None.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, settings: Mapping[str, str], folder: str | None = None) -> None:
        self.settings = dict(settings)
        home = str(class_archive.spark_home(os.environ))
        command = [os.path.join(home, "bin", "spark-submit")]
        for key, value in self.settings.items():
            command += ["--conf", f"{key}={value}"]
        command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._told = self._folder / "gateway"
        environment = {
            **{key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"},
            **({standby.VARIABLE: standby.address(folder)} if folder else {}),
            "SPARK_HOME": home,
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told),
        }
        try:
            # The JVM ends when its standard input does. Ctrl-C is for this process, which ends the JVM in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                env=environment,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        atexit.register(self.end)

    def gateway(self) -> Any:
        """PySpark's connection to the JVM, once it is there.

        Raises:
            NotStartedError: the JVM has ended instead, having said why on standard error.
        """
        from pyspark.java_gateway import launch_gateway

        # PySpark asks it about the first value that the JVM gets; pandas comes with it, while there is time.
        importlib.import_module("pyspark.testing.utils")
        while self._process.poll() is None and not self._told.is_file():
            time.sleep(_LOOK_EVERY_S)
        if not self._told.is_file():
            self.end()
            raise NotStartedError(f"exit status {self._process.returncode}")
        told = self._told.read_bytes()
        port, secret = str(int.from_bytes(told[:4])), told[8:].decode()
        _own_ports.add(port)
        os.environ |= {_PORT: port, _SECRET: secret}
        try:
            gateway = launch_gateway()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]
        gateway.proc = self._process
        atexit.unregister(self.end)
        shutil.rmtree(self._folder, ignore_errors=True)
        return gateway

    def end(self) -> None:
        """End a JVM that nobody is going to talk to."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Early:
    """The launch that has begun before anybody asked for it, if one has."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._launch: Launch | None = None

    def begin(self, make: Callable[[], Launch | None]) -> None:
        """Launch in a thread; what goes wrong is met again, and told, by those who ask for a session."""
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
        """The launch, for a JVM with these settings; one with others is ended. None when there is none."""
        self.wait()
        found, self._launch = self._launch, None
        if found is None or found.settings == dict(settings):
            return found
        found.end()
        return None


#: That of this process.
EARLY = Early()

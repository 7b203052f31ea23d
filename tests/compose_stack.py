"""The processes of the compose stack, started on this machine with the same commands and environments.

What differs is where they are: each service listens at a free port of 127.0.0.1, and the folders of the image and of
its volumes lie in one folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from clinker_provider import launcher

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (REPOSITORY / "docker" / "Dockerfile").read_text()
# Where the image keeps pyspark; in this environment it is elsewhere.
IMAGE_SPARK_HOME: str = re.search(r"SPARK_HOME=(\S+)", DOCKERFILE)[1]  # type: ignore[index]
#: Where each service listens in its container, the port that others know first.
_LISTENS = {
    "postgres": (5432,),
    "object-store": (9000,),
    "airflow-api-server": (8080,),
    "airflow-scheduler": (8974,),
    "spark-master": (7077, 8080),
    "spark-worker-1": (8081,),
    "spark-worker-2": (8081,),
    "spark-history": (18080,),
}
#: What containers have of their own and processes of one machine have not; and patience with a machine that is busy.
_ON_ONE_MACHINE = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "300",
}
_OF_THE_MACHINE = ("HOME", "JAVA_HOME", "LANG", "TMPDIR")


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of that name in the Dockerfile, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    return [line.partition(" ")[2].strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


class Stack:
    """The services of the compose file as processes.

    Args:
        folder: for their files and their output.
        given: ports of services that run already.
    """

    def __init__(self, folder: Path, given: Mapping[tuple[str, int], int]) -> None:
        self.folder = folder
        places = [(service, port) for service, ports in _LISTENS.items() for port in ports]
        self.ports = {**dict(zip(places, _free_ports(len(places)), strict=True)), **given}
        self._logs = dict(zip(("WORKER", "TRIGGER"), _free_ports(2), strict=True))
        home = launcher.pyspark_home()
        assert home is not None, "pyspark is not installed with its jars"
        self._folders = {
            IMAGE_SPARK_HOME: str(home),
            "/usr/local/bin/python3.11": sys.executable,
            "/opt/airflow/dags": str(REPOSITORY / "dags"),
            "/opt/airflow": str(folder / "airflow"),
            "/opt/spark/conf": str(folder / "conf"),
            "/mnt/examples": str(REPOSITORY / "examples"),
            "/tmp/spark": str(folder / "spark"),
            "/secrets": str(folder / "secrets"),
            "/data": str(folder / "data"),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("airflow/logs", "conf", "secrets", "data", "bin"):
            (folder / name).mkdir(parents=True)
        for line in instructions("COPY"):
            *_, source, target = line.split()
            if target.startswith("/usr/local/bin/"):
                self._copy(source, folder / "bin" / Path(target).name).chmod(0o755)
            elif target.startswith("/opt/spark/conf/"):
                self._copy(source, folder / "conf" / Path(target).name)

    def here(self, service: str, text: str) -> str:
        """A text of the compose file as it is on this machine, where a service has it."""

        def place(found: re.Match[str]) -> str:
            if found["folder"]:
                return self._folders[found["folder"]]
            if found["host"]:
                host = service if found["host"] == "localhost" else found["host"]
                return f"127.0.0.1:{self._port(host, int(found['port']))}"
            return "127.0.0.1" if found["name"] else str(self._port(service, int(found["number"])))

        names = "|".join(map(re.escape, _LISTENS))
        numbers = "|".join({str(port) for ports in _LISTENS.values() for port in ports})
        folders = "|".join(map(re.escape, self._folders))
        return re.sub(
            rf"(?P<folder>(?:{folders})(?![\w-]))|(?P<host>{names}|localhost):(?P<port>\d+)"
            rf"|(?P<name>\b(?:{names})(?![\w-]))|(?P<number>\b(?:{numbers})\b)",
            place,
            text,
        )

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service: of the image, of the compose file, and nothing else of this one."""
        of_image = dict(word.split("=", 1) for line in instructions("ENV") for word in shlex.split(line))
        wanted = {**of_image, **SERVICES[service].get("environment", {})}
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {
            **{name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ},
            **{name: self.here(service, str(value)) for name, value in wanted.items()},
            **_ON_ONE_MACHINE,
            **{f"AIRFLOW__LOGGING__{name}_LOG_SERVER_PORT": str(port) for name, port in self._logs.items()},
            "PATH": path,
        }

    def run(self, service: str, *command: str, timeout: float = 900) -> str:
        """Run a command (default: the service's command) to its end in the environment of a service."""
        words = [*self._entry, *(command or self._command(service))]
        done = subprocess.run(
            words, env=self.environment(service), cwd=self.folder / "airflow", capture_output=True, text=True,
            check=False, timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{service}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def start(self, service: str) -> None:
        """Start a service; its output goes to a file of its name."""
        with (self.folder / f"{service}.log").open("wb") as log:
            self._processes[service] = subprocess.Popen(
                [*self._entry, *self._command(service)], env=self.environment(service), cwd=self.folder / "airflow",
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def is_healthy(self, service: str) -> bool:
        """Whether a service is healthy, by its health check."""
        if process := self._processes.get(service):
            assert process.poll() is None, f"{service} has ended: {self.last_words(service)}"
        kind, *words = SERVICES[service]["healthcheck"]["test"]
        command = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
        environment = {**self.environment(service), "PGHOST": "127.0.0.1", "PGPORT": self.here(service, "5432")}
        done = subprocess.run(
            [self.here(service, word) for word in command],
            env=environment,
            capture_output=True,
            check=False,
            timeout=120,
        )
        return done.returncode == 0

    def last_words(self, service: str) -> str:
        """The end of a service's output."""
        return (self.folder / f"{service}.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """End all services, the last one first."""
        for process in reversed(self._processes.values()):
            family = _family(process.pid)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for each in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(signal.SIGKILL)

    @property
    def _entry(self) -> list[str]:
        """The entry point of the image, without its `init`, which is not needed outside a container."""
        (entry,) = instructions("ENTRYPOINT")
        init, dashes, *rest = yaml.safe_load(entry)
        assert (init, dashes) == ("tini", "--")
        return list(rest)

    def _command(self, service: str) -> list[str]:
        return [self.here(service, word) for word in SERVICES[service]["command"]]

    def _port(self, service: str, number: int) -> int:
        """Where a service listens here; for one that does not listen there: who of the others does."""
        others = (port for (_, listens), port in self.ports.items() if listens == number)
        return self.ports[service, number] if (service, number) in self.ports else next(others)

    def _copy(self, source: str, target: Path) -> Path:
        target.write_text(self.here("spark-history", (REPOSITORY / source).read_text()))
        return target


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]

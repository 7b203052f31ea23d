"""A real Airflow on loopback: API server, scheduler with its workers, DAG processor and triggerer, on SQLite.

Each component is a process that a test may kill and start again. Runs are asked for and looked at through the REST
interface, as people and their tools do.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

COMPONENTS = ("api-server", "dag-processor", "scheduler", "triggerer")
#: Who may log in, by their role; nobody's password is a secret here.
USERS = {"ann": "admin", "vic": "viewer", "nora": ""}
#: The time limit for each step, on a machine that has other work to do.
PATIENCE_S = 900.0
#: Seconds between two questions: the server that is asked is the one that its tasks need.
_PAUSE_S = 0.5
_ENDED = ("success", "failed")


class Airflow:
    """A running Airflow."""

    def __init__(self, folder: Path, dags: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        port, *others = _free_ports(3)
        self.url = f"http://127.0.0.1:{port}"
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        # Neither an Airflow nor a Spark of the person who runs the tests may help or disturb.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SPARK"))}
        self.environment = {
            **kept,
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__WORKERS": "1",
            # Airflow gives its tasks five seconds for an answer, and a busy machine needs more.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "300",
            "AIRFLOW__API__SECRET_KEY": "k" * 64,
            "AIRFLOW__API_AUTH__JWT_SECRET": "k" * 64,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(others[0]),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(others[1]),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            **settings,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        #: Processes whose component was killed without them.
        self._orphans: list[psutil.Process] = []
        self._tokens: dict[str, str] = {}

    def migrate(self) -> None:
        """Make the database."""
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def start(self, component: str) -> None:
        """Start a component; its output goes to a file of its name."""
        with (self.folder / f"{component}.log").open("ab") as log:
            command = [sys.executable, "-m", "airflow", component]
            self._processes[component] = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def wait_until_healthy(self) -> None:
        """Wait until all components have said that they are there."""
        assert until(self._is_healthy, PATIENCE_S, every=_PAUSE_S), "\n".join(self._last_words())

    def start_again_what_has_ended(self) -> list[str]:
        """Start the components whose processes have ended, as a service manager does; gives their names."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        for name in ended:
            self.start(name)
        return ended

    def kill(self, component: str, *, with_family: bool = True) -> None:
        """Kill a component and, if asked, everything that it has started, without a warning."""
        process = self._processes.pop(component)
        family = _family(process.pid) if with_family else []
        self._orphans += [] if with_family else _family(process.pid)
        for each in (process, *family):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                each.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all components, politely first."""
        families = [each for process in self._processes.values() for each in _family(process.pid)]
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for each in (*families, *self._orphans):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    @property
    def tasks(self) -> list[psutil.Process]:
        """The processes that run tasks now, with everything that the tasks have started."""
        return _family(self._processes["scheduler"].pid)

    def get(self, path: str, *, user: str | None = "ann") -> tuple[int, str]:
        """The status and the text that a user, or nobody, gets at a path."""
        return self._asked(urllib.request.Request(f"{self.url}{path}"), user)

    def post(self, path: str, body: Mapping[str, Any], *, user: str | None = "ann") -> tuple[int, str]:
        """Send a document as a user; returns the status and the body of the answer."""
        head = {"Content-Type": "application/json"}
        return self._asked(urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), head), user)

    def trigger(self, dag: str, run_id: str, logical_date: str | None = None, **conf: Any) -> None:
        """Start a run of a DAG as soon as Airflow knows the DAG."""
        body = {"dag_run_id": run_id, "logical_date": logical_date, "conf": conf}
        path = f"/api/v2/dags/{dag}/dagRuns"
        told: list[tuple[int, str]] = []
        assert until(lambda: told.append(self.post(path, body)) or told[-1][0] == 200, PATIENCE_S, every=_PAUSE_S), (
            told[-1]
        )

    def ended(self, dag: str, run_id: str) -> str:
        """Wait for the end of a run; gives its state, or the one that it is in still when patience ends."""
        until(lambda: self.state(dag, run_id) in _ENDED, PATIENCE_S, every=_PAUSE_S)
        return self.state(dag, run_id)

    def state(self, dag: str, run_id: str) -> str:
        """The state of a run."""
        return str(self._document(f"/api/v2/dags/{dag}/dagRuns/{quote(run_id)}")["state"])

    def task_states(self, dag: str, run_id: str) -> dict[str, tuple[str | None, int]]:
        """The state of each task of a run, and the number of its last try."""
        found = self._document(f"/api/v2/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances")
        return {each["task_id"]: (each["state"], each["try_number"]) for each in found["task_instances"]}

    def xcom(self, dag: str, run_id: str, task: str, key: str) -> Any:
        """The value of an XCom of a task."""
        path = f"/api/v2/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/xcomEntries/{key}?deserialize=true"
        return self._document(path)["value"]

    def _document(self, path: str) -> Any:
        status, text = self.get(path)
        assert status == 200, f"{path}: {status} {text}"
        return json.loads(text)

    def _asked(self, request: urllib.request.Request, user: str | None) -> tuple[int, str]:
        if user:
            request.add_header("Authorization", f"Bearer {self._token_of(user)}")
        return _answer(request)

    def _token_of(self, user: str) -> str:
        if user not in self._tokens:
            body = json.dumps({"username": user, "password": user}).encode()
            head = {"Content-Type": "application/json"}
            status, text = _answer(urllib.request.Request(f"{self.url}/auth/token", body, head))
            assert status == 201, text
            self._tokens[user] = json.loads(text)["access_token"]
        return self._tokens[user]

    def _is_healthy(self) -> bool:
        for name, process in self._processes.items():
            assert process.poll() is None, f"{name} has ended: {self._last_words()}"
        status, text = self.get("/api/v2/monitor/health", user=None)
        if status != 200:
            return False
        told = json.loads(text)
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(told[part]["status"] == "healthy" for part in parts)

    def _last_words(self) -> list[str]:
        logs = [self.folder / f"{component}.log" for component in COMPONENTS]
        return [f"{log.stem}: {log.read_text(errors='replace')[-2000:]}" for log in logs if log.exists()]


@contextmanager
def running(folder: Path, dags: Path, settings: Mapping[str, str] | None = None) -> Iterator[Airflow]:
    """Start an Airflow, wait until it is healthy, stop it at the end.

    Args:
        folder: for its home, its database and its output.
        dags: the folder of its DAG files.
        settings: further environment variables.
    """
    airflow = Airflow(folder, dags, settings or {})
    try:
        airflow.migrate()
        for component in COMPONENTS:
            airflow.start(component)
        airflow.wait_until_healthy()
        yield airflow
    finally:
        airflow.stop()


def _answer(request: urllib.request.Request) -> tuple[int, str]:
    """Status and text; status 0 where nobody answers."""
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return int(answer.status), str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


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

"""Starts `spark-submit` for a Clinker run and collects its result: the Spark provider's hook with some differences.

A missing connection is an error instead of the master `yarn`; `spark-submit` is found without an activated virtual
environment; the result record is found in the log, in which secrets of the run and of Airflow are masked; settings with
secrets are not on the command line; Spark's routine messages go to the debug log; and a kill ends every process of the
run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, mask_secret, redact

from clinker_provider import launcher, output, process_tree
from clinker_provider.exceptions import ClinkerConnectionError
from clinker_provider.hooks import clinker_connection
from spark_jobs import contract, credentials, result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: Airflow's supervisor kills a task about five seconds after it asked it to end; the run has to be gone before.
DEFAULT_GRACE_S = 3.0

#: The settings that have secrets.
_SETTINGS = "settings.conf"
#: YARN starts a driver again whose exit code is not 0, as after dead letters: retries are Airflow's. And it ends one
#: that has no Spark context after 100 seconds, which are not enough to look at very many input files.
_YARN_CONF = {"spark.yarn.maxAppAttempts": "1", "spark.yarn.am.waitTime": "1h"}

_APPLICATION_ID = re.compile(r"\b(?:app-\d{14}-\d{4,}|application_\d+_\d+|local-\d{10,})\b")


class ClinkerSparkSubmitHook(SparkSubmitHook):  # type: ignore[misc]  # the Spark provider is read without its types
    """`SparkSubmitHook` for one Clinker run.

    :param execution_id: name of this attempt; every process of the run carries it in its environment.
    :param master: Spark master to use instead of a connection.
    :param secrets: values that no log may show, in addition to secrets in the settings, variables and arguments.
    :param on_application: called once with the application id, as soon as the log tells it.
    :param kill_grace_s: seconds a process gets to end by itself when the run is killed.
    :param kwargs: everything that `SparkSubmitHook` takes.
    """

    def __init__(
        self,
        *,
        execution_id: str,
        master: str | None = None,
        secrets: Iterable[str] = (),
        on_application: Callable[[str], object] | None = None,
        kill_grace_s: float = DEFAULT_GRACE_S,
        **kwargs: Any,
    ) -> None:
        # Both are needed by the base class's constructor, which resolves the connection.
        self._execution_id = execution_id
        self._master = master
        self._kill_grace_s = kill_grace_s
        self.record: result.RunResult | None = None
        self.application_id: str | None = None
        self.was_killed = False
        self._is_ended = False
        #: A folder of the run's own, while `spark-submit` runs.
        self._private: Path | None = None
        self._on_application = on_application
        self._source_of_master = "master: "
        super().__init__(**kwargs)
        # Of a long stack the first line tells the cause.
        self._last_submit_log_lines: deque[str] = deque(maxlen=200)
        self._secrets = credentials.Secrets.of([*secrets, *secrets_of({**kwargs, "master": self.master})])
        for secret in self._secrets.values:
            mask_secret(secret)
        if problem := clinker_connection.not_a_master(self.shown_master):
            raise ClinkerConnectionError(f"{self._source_of_master}{problem}")
        self._asked: Mapping[str, Any] = kwargs.get("conf") or {}
        if not self.is_cluster_mode:
            quick = self._embedded_conf() if self.master.startswith("local") else contract.CLIENT_CONF
            self._conf: dict[str, Any] = {**quick, **(kwargs.get("conf") or {})}
        elif self.master.startswith("yarn"):
            self._conf = {**_YARN_CONF, **(kwargs.get("conf") or {})}

    @property
    def is_cluster_mode(self) -> bool:
        """Whether the driver runs elsewhere, so that its exit code does not come back."""
        return bool(self._connection["deploy_mode"] == "cluster")

    @property
    def master(self) -> str:
        """The Spark master in use."""
        return str(self._connection["master"])

    @property
    def log_tail(self) -> str:
        """The last lines of the output, without secrets and frames of stacks; empty when there was none."""
        return output.without_frames(str(self._submit_log_tail).strip())

    @property
    def last_line(self) -> str:
        """The last line of the output, without secrets; empty when there was none."""
        return self.log_tail.splitlines()[-1].strip() if self._last_submit_log_lines else ""

    @property
    def shown_master(self) -> str:
        """The master, without secrets."""
        return self._without_secrets(self.master)

    @property
    def leaves_event_log(self) -> bool:
        """Whether Spark leaves an event log for a history server.

        An embedded Spark does so if a setting enables it. A cluster may have settings of its own, which are not known
        here: on a cluster, Spark is taken to leave one unless a setting disables it.
        """
        written = launcher.setting(
            "spark.eventLog.enabled",
            self._conf,
            self._process_environ(),
            properties_file=self._properties_file,
            binary=self._connection["spark_binary"],
            installed=launcher.pyspark_home(),
        )
        default = "false" if self.master.startswith("local") else "true"
        return (written or default).strip().lower() == "true"

    @property
    def rest_urls(self) -> tuple[str, ...]:
        """The REST servers of the standalone masters; there may be several."""
        scheme, port = self._connection["rest_scheme"] or "http", self._connection["rest_port"]
        hosts = [each.rpartition(":")[0] or each for each in self.master.removeprefix("spark://").split(",")]
        return tuple(f"{scheme}://{host}:{port}" for host in hosts)

    @property
    def resource_manager_url(self) -> str:
        """The web address of YARN's resource manager.

        Raises:
            ClinkerConnectionError: the connection does not say it.
        """
        try:
            return str(self._get_yarn_rm_base_url())
        except (ValueError, AirflowException) as error:
            raise ClinkerConnectionError(
                "a deferred run asks YARN's resource manager: give the connection's "
                "`yarn_resourcemanager_webapp_address`, such as http://rm.example.com:8088"
            ) from error

    def ship(self, archive: str | None, arguments: list[str]) -> None:
        """Send one more archive with the job, and call it with other arguments.

        Args:
            archive: the archive and the folder that it is unpacked into, `path#folder`; None where there is none.
            arguments: the job's command line.
        """
        self._archives: str | None = ",".join(filter(None, [self._archives, archive])) or None
        self._application_args = arguments

    def leave_after_submission(self, mark: str) -> None:
        """Have `spark-submit` end when YARN has taken the application, which carries the mark as a tag."""
        tags = ",".join(filter(None, [self._conf.get("spark.yarn.tags"), mark]))
        self._conf = {**self._conf, "spark.yarn.submit.waitAppCompletion": "false", "spark.yarn.tags": tags}

    def launcher_arguments(self, application: str) -> list[str]:
        """The arguments of the launcher for a driver in this mode, without its own name."""
        self._connection.update(deploy_mode="client")
        return self._build_spark_submit_command(application)[1:]

    @property
    def driver_environment(self) -> dict[str, str]:
        """The environment of a driver that starts elsewhere: the run's variables and its name."""
        given = {key: str(value) for key, value in (self._env_vars or {}).items()}
        return {**given, process_tree.MARK: self._execution_id}

    def without_secrets(self, text: str) -> str:
        """A text for logs and errors."""
        return self._without_secrets(text)

    def run(self, application: str) -> int:
        """Run the application to its end and give the return code of `spark-submit`, whatever it is.

        Raises:
            ClinkerConnectionError: when `spark-submit` cannot be started.
        """
        self.refuse_standalone_cluster()
        try:
            with tempfile.TemporaryDirectory(prefix="clinker-settings-") as own:
                self._private = Path(own)
                # A byte that is no UTF-8 in some library's message must not end the reading of the log.
                self.submit(application, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL)
        except FileNotFoundError as error:
            binary = self._connection["spark_binary"]
            raise ClinkerConnectionError(
                f"`{binary}` is not there. Install pyspark beside Airflow, or set SPARK_HOME, or give `spark_binary`."
            ) from error
        except AirflowException:
            # The base class raises for every return code but 0. Ours is to hand the number on; the record decides.
            if self._submit_sp is None or self._submit_sp.poll() is None:
                raise
        return int(self._submit_sp.returncode) if self._submit_sp else 0

    def refuse_standalone_cluster(self) -> None:
        """Raises:
        ClinkerConnectionError: for the one combination that Spark has no support for.
        """  # noqa: D205
        if self.is_cluster_mode and self.master.startswith("spark://"):
            raise ClinkerConnectionError(
                "a standalone Spark master runs no Python application in deploy mode `cluster`; use `client`"
            )

    def end_processes(self) -> list[int]:
        """End every local process of this run; returns the ids of the processes that were still running."""
        pid = self._submit_sp.pid if self._submit_sp and self._submit_sp.poll() is None else None
        return process_tree.end(pid, self._execution_id, grace_s=self._kill_grace_s)

    def on_kill(self) -> None:
        """End the run: its processes here, then its application on YARN or Kubernetes through the base class.

        Airflow and the operator both call this after a time-out. The second call only looks for remaining processes.
        """
        self.was_killed = True
        cluster_side = self.is_cluster_mode and not self._is_ended
        if cluster_side:
            # The base class asks the cluster only while its launcher is alive.
            super().on_kill()
        ended = self.end_processes()
        if ended:
            self.log.info("Ended %d processes of %s", len(ended), self._execution_id)
        if not cluster_side and not self._is_ended:
            super().on_kill()
        self._is_ended = True

    def _embedded_conf(self) -> dict[str, str]:
        from spark_jobs.cli import launch_options

        # The environment that `spark-submit` will have says which Java and which Spark it starts.
        installed = launcher.pyspark_home()
        environ = self._process_environ()
        environ |= launcher.environment(environ, {}, sys.executable, installed=installed)
        return {**contract.EMBEDDED_CONF, "spark.driver.extraJavaOptions": launch_options.java_options(environ)}

    def _resolve_connection(self) -> dict[str, Any]:
        if self._master is not None:
            return self._connection_of_master(self._master)
        try:
            connection = self.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            raise ClinkerConnectionError(
                f"there is no Spark connection `{self._conn_id}`. Add it, for example with\n"
                f"  airflow connections add {self._conn_id} --conn-type spark --conn-host 'local[*]'\n"
                "or name the master in the operator: master='local[*]', master='spark://host:7077'."
            ) from error
        resolved: dict[str, Any] = super()._resolve_connection()
        self._source_of_master = f"the connection `{self._conn_id}` (type `{connection.conn_type}`): "
        if connection.conn_type == clinker_connection.CONNECTION_TYPE:
            resolved["master"] = clinker_connection.master_of(connection)
        if resolved["spark_binary"] == DEFAULT_SPARK_BINARY:
            resolved["spark_binary"] = self._found_binary()
        return resolved

    def _connection_of_master(self, master: str) -> dict[str, Any]:
        return {
            "master": master,
            "queue": self._yarn_queue,
            "deploy_mode": self._deploy_mode,
            "spark_binary": self.spark_binary or self._found_binary(),
            "namespace": self._conf.get("spark.kubernetes.namespace"),
            "principal": self._principal,
            "keytab": self._keytab,
            "rest_scheme": "http",
            "rest_port": 6066,
            "rest_endpoint": None,
        }

    def _found_binary(self) -> str:
        return launcher.spark_submit(self._process_environ(), sys.executable, installed=launcher.pyspark_home())

    def _mask_cmd(self, connection_cmd: str | list[str]) -> str:
        """The command with all secrets masked, also tokens and keys; the base class only masks secrets and passwords.

        The base class is called last. It masks a value up to the end of its line, after which other secrets in the line
        would no longer be recognized.
        """
        known = [connection_cmd] if isinstance(connection_cmd, str) else connection_cmd
        return self._without_secrets(str(super()._mask_cmd([self._without_secrets(each) for each in known])))

    def _without_secrets(self, text: str) -> str:
        # Airflow masks its own secrets (passwords of connections, secret variables) in the task's log alone.
        return str(redact(self._secrets.masked(text)))

    def _process_environ(self) -> dict[str, str]:
        return {**os.environ, **{key: str(value) for key, value in (self._env_vars or {}).items()}}

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        # Settings for this machine's launcher go into its environment only, never into the settings of a cluster.
        environ = self._process_environ()
        added = launcher.environment(environ, self._conf, sys.executable, installed=launcher.pyspark_home())
        self._env = {**environ, **added, process_tree.MARK: self._execution_id}
        return command if self._private is None else self._with_a_file(command, application, self._private)

    def _with_a_file(self, command: list[str], application: str, folder: Path) -> list[str]:
        """The command with settings that have secrets in a file: everyone on the machine may read command lines.

        Raises:
            ClinkerConnectionError: the user's own file of settings cannot be read.
        """
        options = command[: command.index(application)]
        places = [at for at in range(len(options) - 1) if options[at] == "--conf"]
        settings = [options[at + 1].partition("=") for at in places]
        names = {name for name, sign, value in settings if self._has_secret(f"{name}{sign}{value}")}
        if not names:
            return command
        # A setting may be given twice, and the command line would take precedence over the file.
        hidden = {name: value for name, _, value in settings if name in names}
        for at, (name, _, _) in reversed(list(zip(places, settings, strict=True))):
            if name in names:
                del options[at : at + 2]
        content = "".join(f"{launcher.as_property(name, value)}\n" for name, value in hidden.items()).encode()
        file = folder / _SETTINGS
        if "--properties-file" in options:
            at = options.index("--properties-file") + 1
            try:
                # The blank line ends a last line that goes on, as one with a backslash at its end does.
                content = Path(options[at]).read_bytes() + b"\n\n" + content
            except OSError as error:
                raise ClinkerConnectionError(f"properties_file cannot be read: {error}") from error
            options[at] = str(file)
        else:
            options += ["--properties-file", str(file), "--load-spark-defaults"]
        file.touch(mode=0o600)
        file.write_bytes(content)
        return [*options, *command[command.index(application) :]]

    def _forget_settings(self) -> None:
        """Remove the file of settings: Spark has read it, and a worker that is killed would leave it."""
        if self._private is not None:
            (self._private / _SETTINGS).unlink(missing_ok=True)

    def _has_secret(self, setting: str) -> bool:
        return credentials.is_secret_setting(setting.partition("=")[0]) or self._without_secrets(setting) != setting

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._observed(itr))

    def _observed(self, lines: Iterator[str]) -> Iterator[str]:
        """The lines for the log.

        In cluster modes the base class reads Spark's reports, which are all that is heard of the driver. Whoever sets
        `spark.log.level` or `verbose` wants to see them.
        """
        is_asked_for = bool(self._verbose) or "spark.log.level" in self._asked
        noise = output.Noise(is_hidden=not (self.is_cluster_mode or is_asked_for))
        for line in lines:
            if line.startswith(contract.RESULT_SENTINEL) and self._is_record(line):
                continue  # the operator logs the content of the record; the line itself is long and for machines
            if self.application_id is None and (found := _APPLICATION_ID.search(line)):
                self.application_id = found.group()
                self._forget_settings()
                if self._on_application:
                    self._on_application(self.application_id)
            text = self._without_secrets(line)
            if noise.has(line):
                self.log.debug("%s", text.rstrip())
            elif not self.is_cluster_mode and (level := output.level_of(line)):
                # The base class logs every line as information, and keeps the last ones for the error of a failure.
                self._last_submit_log_lines.append(text.rstrip())
                self.log.log(level, "%s", text.rstrip())
            else:
                yield output.Indented(text)

    def _is_record(self, line: str) -> bool:
        """Keep the record of this execution that a line carries.

        A preview prints data, and data may look like a record. A job prints its record last: what stands before it,
        or carries none of this execution, is output like other output.
        """
        self.record = None
        try:
            record = result.parse_line(line)
        except result.MalformedResult as error:
            self.log.warning("The job printed a result line that cannot be read: %s", error)
            return False
        if record is None or record.execution_id != self._execution_id:
            return False
        self.record = record
        return True


def secrets_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """The secrets in the settings, environment variables, arguments and addresses of a run."""
    for name in ("conf", "env_vars"):
        yield from credentials.of_settings(settings.get(name) or {})
    arguments = settings.get("application_args") or ()
    yield from credentials.of_arguments([arguments] if isinstance(arguments, str) else arguments)
    for value in settings.values():
        if isinstance(value, str):
            yield from credentials.within(value)

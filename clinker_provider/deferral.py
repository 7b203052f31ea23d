"""Submits, remembers and finds again runs that continue on a cluster without the worker."""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinker_provider import cluster, validation
from clinker_provider.exceptions import ClinkerConfigError, ClinkerConnectionError, ClinkerIOError, ClinkerResultMissing
from spark_jobs import bundle, contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.common.compat.sdk import Context

    from clinker_provider.hooks.clinker_spark import ClinkerSparkSubmitHook

#: Options for submitting to a cluster, which a driver started in another way does not take.
_OF_THE_LAUNCHER = ("--deploy-mode", "--queue")


@dataclass(frozen=True)
class Waiting:
    """The state of a deferred run.

    Args:
        execution_id: the name of the attempt that submitted it.
        folder: where its result record will be.
        master: as it may be shown.
        kind: the name of a `cluster.Kind`.
        urls: where to ask for the job.
        mark: the name or tag of the job, known before the job is submitted.
        job: the job as `cluster.Job.to_dict` gives it; None until it is submitted.
    """

    execution_id: str
    folder: str
    master: str
    kind: str
    urls: tuple[str, ...]
    mark: str
    job: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {**asdict(self), "urls": list(self.urls)}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Waiting:
        """The state from the values of `to_dict`."""
        return cls(**{**values, "urls": tuple(values["urls"])})

    def submitted(self, job: cluster.Job) -> Waiting:
        """The state with the submitted job."""
        return replace(self, job=job.to_dict())

    def found(self) -> cluster.Job | None:
        """The job: as it was remembered, or by its mark, when the worker died between submitting and remembering.

        Raises:
            ClusterError: nobody answers.
        """
        if self.job is not None:
            return cluster.Job.of_dict(self.job)
        return cluster.find_on_yarn(self.urls[0], self.mark) if self.kind == cluster.Kind.YARN.name else None


def _key(context: Context) -> str:
    # Clearing a task does not clear what Airflow remembers for it, but it raises the number of its tries.
    return f"clinker.job.{context['ti'].max_tries}"


def remember(context: Context, waiting: Waiting) -> None:
    """Have Airflow (3.3) keep it for later attempts of the task; older ones keep nothing."""
    store = context.get("task_state_store")
    if store is not None:
        store.set(_key(context), waiting.to_dict())


def remembered(context: Context) -> Waiting | None:
    """The run that an earlier attempt of the task has left, running or not."""
    store = context.get("task_state_store")
    found = store.get(_key(context)) if store is not None else None
    return Waiting.of_dict(found) if isinstance(found, dict) else None


def forget(context: Context) -> None:
    """Remember nothing any more: the run has ended, and what follows is another one."""
    store = context.get("task_state_store")
    if store is not None:
        store.delete(_key(context))


def folder_of(work_dir: str, execution_id: str) -> Path:
    """The new folder of an attempt that outlives its worker, open to all users that share `work_dir`."""
    folder = Path(work_dir) / f"clinker-{execution_id}"
    # A DAG run that is deleted and made again has attempts of the same names: their records are not this one's.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(Path(work_dir).stat().st_mode & 0o7777)
    return folder


def prepared(hook: ClinkerSparkSubmitHook, folder: str, execution_id: str) -> Waiting:
    """The state of a run before it is submitted.

    Args:
        hook: the hook that will submit it.
        folder: where its result record will be, a path or a URI.
        execution_id: the name of the attempt.

    Raises:
        ClinkerConfigError: the cluster is one that nobody can ask.
        ClinkerConnectionError: the connection does not say where it is asked.
    """
    mark = re.sub(r"[^a-z0-9-]+", "-", f"clinker-{execution_id}".lower())
    if hook.master.startswith("spark://"):
        if validation.is_remote(folder):
            raise ClinkerConfigError(
                f"a standalone master starts drivers from files that its workers see, and `work_dir` is {folder}: "
                "give a folder of a mount that all machines share",
                exit_code=contract.ExitCode.CONFIG,
            )
        kind, urls = cluster.Kind.STANDALONE, hook.rest_urls
    elif hook.master.startswith("yarn"):
        kind, urls = cluster.Kind.YARN, (hook.resource_manager_url,)
        hook.leave_after_submission(mark)
    else:
        raise ClinkerConfigError(
            f"deferrable=True waits for jobs of a standalone master or of YARN, and the master is {hook.shown_master}",
            exit_code=contract.ExitCode.CONFIG,
        )
    return Waiting(execution_id, folder, hook.shown_master, kind.name, urls, mark)


def submit(hook: ClinkerSparkSubmitHook, waiting: Waiting, *, driver_memory: str | None) -> cluster.Job:
    """Submit, and come back when the cluster has taken the job.

    Raises:
        ClinkerConnectionError: the address is another one than that of a master's REST server.
        ClinkerIOError: nobody answers, or the cluster refuses. A retry may succeed.
        ClinkerResultMissing: `spark-submit` ended without telling an application's id.
    """
    if waiting.kind == cluster.Kind.YARN.name:
        code = hook.run(str(bundle.application()))
        if code != 0 or hook.application_id is None:
            raise ClinkerResultMissing(
                f"spark-submit returned {code} without having submitted an application\n{hook.log_tail}",
                exit_code=contract.ExitCode.IO,
            )
        return cluster.Job(waiting.kind, waiting.urls, hook.application_id)
    application = shutil.copy(bundle.application(), waiting.folder)
    command = hook.launcher_arguments(str(application))
    for option in _OF_THE_LAUNCHER:
        while option in command:
            at = command.index(option)
            del command[at : at + 2]
    try:
        return cluster.submit_standalone(
            waiting.urls,
            application=str(application),
            arguments=["--deploy-mode", "client", *command],
            properties={
                "spark.app.name": waiting.mark,
                "spark.master": hook.master,
                "spark.submit.deployMode": "cluster",
                "spark.driver.supervise": "false",
                "spark.driver.memory": driver_memory or "1g",
                "spark.driver.cores": "1",
                "spark.jars": "",
            },
            environment=hook.driver_environment,
        )
    except cluster.ClusterError as error:
        told = (
            f"{hook.without_secrets(str(error))}\nA standalone master takes applications where "
            "`spark.master.rest.enabled` is true; the connection's `rest-port` says where."
        )
        if isinstance(error, cluster.NoClusterError):
            raise ClinkerConnectionError(told) from error
        raise ClinkerIOError(told, exit_code=contract.ExitCode.IO) from error

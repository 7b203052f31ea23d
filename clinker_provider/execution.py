"""Names for executions, and the command line of the job: pure logic, free of Airflow."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Mapping

# Long enough to be read, short enough for a file name with a suffix on every file system.
_MAX_READABLE = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def execution_id(*, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int) -> str:
    """The name of one attempt of one task instance: the same for the same attempt, fit for a file name.

    The readable part can be cut or coincide after unsafe characters are replaced; the hash of the whole at the end
    keeps attempts apart.
    """
    parts = [dag_id, task_id, run_id, *([str(map_index)] if map_index >= 0 else []), str(try_number)]
    readable = _UNSAFE.sub("-", ".".join(parts)).strip("-.")[:_MAX_READABLE]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    return f"{readable}-{digest}"


def instance(context: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a task instance, whatever the attempt."""
    task = context["ti"]
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": -1 if task.map_index is None else task.map_index,
    }


def of_context(context: Mapping[str, Any]) -> str:
    """The name of the attempt whose context this is."""
    return execution_id(**instance(context), try_number=context["ti"].try_number)


@dataclass(frozen=True)
class Once:
    """The common identity of all attempts at one task instance, and whether this one is a further attempt.

    Args:
        who: the task.
        what: which of its instances.
        is_retry: whether an attempt came before, whose files may stand for this one's.
    """

    who: str
    what: str
    is_retry: bool

    @property
    def arguments(self) -> list[str]:
        """The identity as options of `clinker run`."""
        return [contract.ONCE_OPTION, self.who, self.what, *([contract.RETRY_OPTION] if self.is_retry else [])]


def once(
    *,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int,
    try_number: int,
    max_tries: int,
    started: str,
    clears: int,
) -> Once:
    """The identity that is the same for all attempts at one task instance.

    A run that is deleted and made again may have the name of the first one, so may one of another Airflow: they differ
    by the moment at which they `started`. Whoever clears a task wants it done again: Airflow counts how often a run was
    cleared (`clears`), and raises a cleared task's number of tries.
    """
    task = [dag_id, task_id, *([str(map_index)] if map_index >= 0 else [])]
    return Once(".".join(["airflow", *task]), f"run.{run_id}.{started}.{clears}.{max_tries}", try_number > 1)


@dataclass(frozen=True)
class RunOptions:
    """The options of `clinker run` besides the pipeline. None and False stand for the job's own default."""

    base_dir: str | None = None
    rules_path: str | None = None
    channel: str | None = None
    environment: str | None = None
    batch_id: str | None = None
    memory_limit: str | None = None
    threads: int | str | None = None
    error_threshold: int | str | None = None
    metrics_spool_dir: str | None = None
    log_level: str | None = None
    force: bool = False
    allow_absolute_paths: bool = False
    further: list[str] = field(default_factory=list)

    def arguments(self, pipeline: str, *, execution_id: str, work_dir: str, once: Once | None = None) -> list[str]:
        """The job's arguments: the pipeline, the options that are set, and where to leave the result record.

        Args:
            pipeline: the pipeline file.
            execution_id: the name of the attempt.
            work_dir: the folder for its result record.
            once: what all attempts share, see `once`.
        """
        valued = {
            "--base-dir": self.base_dir,
            "--rules-path": self.rules_path,
            "--channel": self.channel,
            "--env": self.environment,
            "--batch-id": self.batch_id,
            "--memory-limit": self.memory_limit,
            "--threads": self.threads,
            "--error-threshold": self.error_threshold,
            "--metrics-spool-dir": self.metrics_spool_dir,
            "--log-level": self.log_level,
        }
        flags = {"--force": self.force, "--allow-absolute-paths": self.allow_absolute_paths}
        arguments = [pipeline]
        for option, value in valued.items():
            if value is not None:
                arguments += [option, str(value)]
        arguments += [option for option, is_set in flags.items() if is_set]
        arguments += [str(argument) for argument in self.further]
        arguments += once.arguments if once else []
        return [*arguments, contract.EXECUTION_ID_OPTION, execution_id, contract.WORK_DIR_OPTION, work_dir]

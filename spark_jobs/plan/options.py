"""Options of the command line and the Airflow operator, beside the pipeline file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.tuning import Tuning

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class PlanOptions:
    """The options that planning depends on, beside the pipeline's text.

    Args:
        base_dir: what relative paths resolve against, also a folder of a store; None is the pipeline file's folder.
        allow_absolute_paths: whether the pipeline may name absolute paths.
        rules_path: where `use` finds modules; None leaves it to `pipeline.rules_path`, then `rules/` in the base
            folder.
        channel: a channel file, its URI, or the name of a channel in the workspace's channel folder.
        environment: the active environment (`--env`, `CLINKER_ENV`) for `when:` conditions of channels.
        variables: the variables that `${NAME}` finds; None is the process environment.
        given: values of the pipeline's variables (`$vars`), which win over the values of channels.
    """

    base_dir: FilePath | None = None
    allow_absolute_paths: bool = False
    rules_path: FilePath | None = None
    channel: str | None = None
    environment: str | None = None
    variables: Mapping[str, str] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lookup(self) -> Mapping[str, str]:
        """The variables that interpolation sees; the active environment's name is one of them."""
        found = os.environ if self.variables is None else self.variables
        return {**found, "CLINKER_ENV": self.environment} if self.environment else found


@dataclass(frozen=True)
class RunOptions(PlanOptions):
    """The options of `clinker run`.

    Args:
        memory_limit_bytes: overrides `pipeline.memory.limit`.
        threads: overrides `pipeline.concurrency.threads`.
        error_threshold: the run fails when more records than this are dead; None (and the command line's 0) is no
            limit.
        batch_id: `$pipeline.batch_id` and `{batch_id}`; None: a new UUIDv7.
        execution_id: this run's identity; None: a new UUIDv7.
        once: the names of the requester and of the requested run; the run publishes a record under these names
            (`execute/run/once.py`).
        is_retry: an attempt with the names of `once` came before: a run that it has published is not repeated.
        work_dir: where the run leaves its result record, and keeps its local files if it is a local folder; None: it
            leaves no record, and keeps its files beside the outputs.
        explain: `text`, `json` or `dot`: print the plan instead of running.
        dry_run: check instead of running.
        preview: with `dry_run`, the number of records per source that go through the pipeline.
        dry_run_output: where the preview goes; None is standard output.
        force: existing outputs may be replaced.
        since: where incremental sources begin, whatever was read before: `VALUE`, or `SOURCE=VALUE`.
        until: where they end, in the same form.
        quiet: no progress and no summary.
        log_level: `error`, `warn`, `info`, `debug` or `trace`.
        log_format: `text` or `json`.
        metrics_spool_dir: overrides `pipeline.metrics.spool_dir`.
        report: the page that tells of the run, as HTML; None: no page.
        remote: a Spark Connect endpoint, `sc://host:port`.
        master: a Spark master; None leaves it to the session that is there, or `local[threads]`.
        in_process: whether all tasks run in this process, one after the other, without Spark.
        diagnostics: how problems are printed: `full`, `concise`, `json` or `sarif`.
        tuning: how much is worked on at once; no flag sets it.
    """

    memory_limit_bytes: int | None = None
    threads: int | None = None
    error_threshold: int | None = None
    batch_id: str | None = None
    execution_id: str | None = None
    once: tuple[str, str] | None = None
    is_retry: bool = False
    work_dir: FilePath | None = None
    explain: str | None = None
    dry_run: bool = False
    preview: int | None = None
    dry_run_output: Path | None = None
    force: bool = False
    since: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    quiet: bool = False
    log_level: str = "info"
    log_format: str = "text"
    metrics_spool_dir: str | None = None
    report: Path | None = None
    remote: str | None = None
    master: str | None = None
    in_process: bool = False
    diagnostics: str = "full"
    tuning: Tuning = field(default_factory=Tuning)
    #: Arguments that this version of the command line does not know but a Spark session takes, as `key=value`.
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def local_work_dir(self) -> Path | None:
        """The folder for the run's local files, where one was given."""
        return self.work_dir if isinstance(self.work_dir, os.PathLike) else None

    @property
    def shows_progress(self) -> bool:
        """True if the run tells how far it is: not where its standard error is one document for programs."""
        return not self.quiet and self.diagnostics in ("full", "concise")

"""Runs a Clinker pipeline on Spark."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowNotFoundException,
    AirflowSkipException,
    AirflowTaskTimeout,
    BaseHook,
    TaskDeferred,
    get_parsing_context,
)
from airflow.providers.common.compat.sdk import conf as airflow_conf

from clinker_provider import (
    assets,
    callbacks,
    cluster,
    datasets,
    deferral,
    execution,
    figures,
    on_call,
    openlineage,
    outcome,
    policy,
    records,
    spans,
    validation,
    xcoms,
)
from clinker_provider.compat import DEFERRAL_ERRORS, MAKES_LINKS_IN_TASKS
from clinker_provider.exceptions import (
    ClinkerConfigError,
    ClinkerConnectionError,
    ClinkerDeadLettersError,
    ClinkerError,
    ClinkerEvaluationError,
    ClinkerExistsError,
    ClinkerFinalError,
    ClinkerInterrupted,
    ClinkerIOError,
    ClinkerPublishedError,
    ClinkerResultMissing,
    ClinkerRetriedError,
    ClinkerUnsharedError,
)
from clinker_provider.hooks import clinker_connection
from clinker_provider.links.clinker import (
    CONFIG_SECTION,
    DeadLettersLink,
    MetricsLink,
    SparkHistoryLink,
    TemplatedLink,
    show,
)
from clinker_provider.operators.submit import SubmittingOperator
from clinker_provider.records import seen
from clinker_provider.triggers.job import ClusterJobTrigger
from spark_jobs import bundle, contract, result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context
    from airflow.providers.openlineage.extractors import OperatorLineage

    from clinker_provider.hooks.clinker_spark import ClinkerSparkSubmitHook
    from spark_jobs.plan.explain.datasets import Datasets

_FAILURES: dict[outcome.Verdict, type[ClinkerError]] = {
    outcome.Verdict.CONFIG: ClinkerConfigError,
    outcome.Verdict.EVALUATION: ClinkerEvaluationError,
    outcome.Verdict.IO: ClinkerIOError,
    outcome.Verdict.EXISTS: ClinkerExistsError,
    outcome.Verdict.UNSHARED: ClinkerUnsharedError,
    outcome.Verdict.INTERRUPTED: ClinkerInterrupted,
    outcome.Verdict.NO_RESULT: ClinkerResultMissing,
}

#: The options of `clinker run` that lead to the pipeline's files, and the operator's parameters for them.
_OF_FILES = {"--base-dir": "base_dir", "--rules-path": "rules_path", "--channel": "channel"}


class ClinkerSparkOperator(SubmittingOperator):
    """Check a pipeline, ship the engine, run it with `spark-submit`, and report the results.

    Exit codes 0 and 2 succeed (2 with status `partial_success`), 1 and 3 fail without retry, 4 and interruptions may
    be retried. The XComs (see `clinker_provider.xcoms`) are pushed as soon as they are known, and all of them before a
    failure is raised, a time-out included.

    Beside what `PipelineOperator` (the pipeline) and `SubmittingOperator` (Spark) take:

    :param emit_assets: whether the pipeline's outputs are outlets and its sources inlets of the task. Outputs whose
        place only the run knows go to the alias `clinker.<DAG>.<task>`.
        Default: Airflow's configuration `[clinker] emit_assets`, else not
    :param batch_id: `$pipeline.batch_id`; default: the job's own (templated)
    :param memory_limit: memory for the run's data, such as `2G` (templated)
    :param threads: threads of an embedded run (templated)
    :param error_threshold: dead letters that are too many; 0 is no limit (templated)
    :param metrics_spool_dir: folder for the run's metrics file (templated)
    :param log_level: the job's log level (templated)
    :param force: whether existing outputs may be replaced; a cleared task needs it to run again
    :param run_args: further arguments of `clinker run` (templated)
    :param on_partial: what becomes of the task when records died (exit 2): `success`, `skip` or `fail` (without retry).
        Default: `success`
    :param fail_on_dlq: the same as `on_partial="fail"`
    :param dlq_threshold: dead letters that are accepted, a number or a share of the records such as `"0.5%"`; more fail
        the task without retry (templated)
    :param skip_on_no_data: whether the task is skipped when the run read no record
    :param exit_codes: what exit codes mean for the task: `success`, `skip` or `fail` for 0 and 2, whose runs have
        published their files; `skip`, `fail` (without retry) or `retry` for 1, 3, 4 and 130, whose runs have not
    :param on_dlq: called with `(context, record)` when records died, before a failure; or the import path of such
        a function, `package.module.function`. If it raises, the task fails without a retry: the files are published
    :param work_dir: folder for the run's temporary files, removed afterwards. In cluster deploy modes the driver leaves
        the result record there: a folder of a mount that both sides see, or a URI such as `s3://bucket/clinker/work`.
        With a URI nothing else is shared either, and the pipeline's files travel with the job (templated)
    :param package: a packed engine (`make build`) to ship instead of packing the installed one (templated)
    :param deferrable: whether a run in deploy mode `cluster` leaves its worker slot and is waited for in the triggerer;
        runs in other modes are children of the worker, and stay.
        Default: Airflow's configuration `[operators] default_deferrable`
    :param poll_interval_s: seconds between two looks of the triggerer
    :param link_templates: URL templates of the links by `history_url`, `dlq_url`, `metrics_url` (templated)
    """

    template_fields: Sequence[str] = (
        *SubmittingOperator.template_fields,
        "batch_id",
        "memory_limit",
        "threads",
        "error_threshold",
        "dlq_threshold",
        "metrics_spool_dir",
        "log_level",
        "run_args",
        "work_dir",
        "package",
        "link_templates",
        "plan_text",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "env_vars": "json", "plan_text": "bash"}
    # The plan is known when the task runs; it is shown beside the rendered values afterwards.
    overwrite_rtif_after_execution = True
    operator_extra_links: Sequence[BaseOperatorLink] = (SparkHistoryLink(), DeadLettersLink(), MetricsLink())
    ui_color = "#f4e3d3"
    custom_operator_name = "Clinker"

    def __init__(
        self,
        *,
        emit_assets: bool | None = None,
        batch_id: str | None = None,
        memory_limit: str | None = None,
        threads: int | str | None = None,
        error_threshold: int | str | None = None,
        metrics_spool_dir: str | Path | None = None,
        log_level: str | None = None,
        force: bool = False,
        run_args: list[str] | None = None,
        on_partial: str | None = None,
        fail_on_dlq: bool = False,
        dlq_threshold: int | float | str | None = None,
        skip_on_no_data: bool = False,
        exit_codes: Mapping[int, str] | None = None,
        on_dlq: Callable[[Context, result.RunResult], object] | str | None = None,
        work_dir: str | Path | None = None,
        package: str | Path | None = None,
        deferrable: bool | None = None,
        poll_interval_s: float = 20.0,
        link_templates: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.batch_id = batch_id
        self.memory_limit = memory_limit
        self.threads = threads
        self.error_threshold = error_threshold
        self.metrics_spool_dir = validation.as_text(metrics_spool_dir)
        self.log_level = log_level
        self.force = force
        self.run_args = run_args
        self.on_partial = on_partial
        self.fail_on_dlq = fail_on_dlq
        self.dlq_threshold = dlq_threshold
        self.skip_on_no_data = skip_on_no_data
        self.exit_codes = exit_codes
        self.on_dlq = on_dlq
        self.work_dir = validation.as_text(work_dir)
        self.package = validation.as_text(package)
        if deferrable is None:
            deferrable = airflow_conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.poll_interval_s = poll_interval_s
        self.link_templates = link_templates
        self.plan_text: str | None = None
        self.link_values: Mapping[str, object] = {}
        #: Whether the run leaves something for a history server.
        self.leaves_event_log = False
        self._hook: ClinkerSparkSubmitHook | None = None
        #: The record of the run that has ended, and why it failed.
        self._ended_run: tuple[result.RunResult | None, str] = (None, "")
        #: The plan as the task's page shows it.
        self._on_call: dict[str, Any] = {}
        #: The run that goes on without the worker.
        self._waiting: deferral.Waiting | None = None
        #: What became of a run that Airflow ended in the middle.
        self._cut_off: tuple[outcome.Outcome, result.RunResult | None] | None = None
        if emit_assets is None:
            emit_assets = airflow_conf.getboolean(CONFIG_SECTION, "emit_assets", fallback=False)
        self.emit_assets = emit_assets
        self._check_options_when_parsed()
        self._declare_assets()

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Run the pipeline; returns the XCom `return_value`.

        Raises:
            ClinkerError: a subclass of it; a subclass of `AirflowFailException` is not retried.
            AirflowSkipException: the user chose to skip the task on this exit code or with these dead letters.
        """
        self.hide_secrets()  # of a mapped task the fields are rendered elsewhere
        self._hook, self._waiting, self._cut_off, self.leaves_event_log = None, None, None, False
        self._keep_links({})
        execution_id = execution.of_context(context)
        try:
            self._take_defaults()
            self._resolve_work_dir()
            callback, chosen = self._callback(), self.chosen_policy()
            subject = self.subject()
            record = self._refused(subject, execution_id)
            ended = outcome.decide(record.exit_code, record) if record else None
            if ended is None:
                ended, record = self._resumed(context) or self._submit(context, subject, execution_id)
        except TaskDeferred:
            raise
        except BaseException as error:
            self._push_failure(error, context, execution_id)
            raise
        return self._finish(context, subject, ended, record, execution_id, callback, chosen)

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any],
        waiting: Mapping[str, Any],
        pipeline: str | None = None,
        base_dir: str | None = None,
    ) -> dict[str, Any] | None:
        """Go on after the trigger fired: the run has ended, or time is over.

        Raises:
            ClinkerError: a subclass of it, as `execute` raises them.
            AirflowSkipException: the user chose to skip the task on this exit code or with these dead letters.
        """
        self.hide_secrets()
        self._keep_links({})
        self._waiting = deferral.Waiting.of_dict(waiting)
        if pipeline is not None:  # a task that an older version has submitted tells none
            self.pipeline, self.base_dir = pipeline, base_dir
        execution_id = self._waiting.execution_id
        try:
            self._take_defaults()
            callback, chosen = self._callback(), self.chosen_policy()
            subject = self.subject()
            self._on_call = self._kept_at_submission(context)
            ended, record = self._ended(event)
        except BaseException as error:
            self._push_failure(error, context, execution_id)
            raise
        deferral.forget(context)
        self._clear(self._waiting.folder, execution_id)
        return self._finish(context, subject, ended, record, execution_id, callback, chosen)

    def _kept_at_submission(self, context: Context) -> dict[str, Any]:
        """The plan as it was pushed for the task's page; the pipeline file may have changed since."""
        if not self.do_xcom_push:
            return {}
        ti = context["ti"]
        try:
            kept = ti.xcom_pull(task_ids=ti.task_id, key=xcoms.ON_CALL, map_indexes=ti.map_index)
        except Exception:
            self.log.exception("The plan that was pushed at the submission cannot be read")
            return {}
        return kept if isinstance(kept, dict) else {}

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Come back from the triggerer; a trigger that failed or timed out itself leaves no job behind."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except DEFERRAL_ERRORS as error:
            self._waiting = deferral.remembered(context)
            self.on_kill()
            execution_id = self._waiting.execution_id if self._waiting else execution.of_context(context)
            self._push_failure(error, context, execution_id)
            raise

    def _ended(self, event: Mapping[str, Any]) -> tuple[outcome.Outcome, result.RunResult | None]:
        """The outcome of a deferred run. Its result record decides, whatever the cluster says.

        Raises:
            ClinkerIOError: the record cannot be read now; it stays, for the next attempt.
        """
        waiting = self._waiting
        assert waiting is not None
        try:
            record = self._records(waiting.folder).read(waiting.execution_id)
        except result.MalformedResult as error:
            self.log.error("The result record cannot be used: %s", error)
            record = None
        except OSError as error:
            raise ClinkerIOError(
                f"{waiting.execution_id} has ended, and what became of it is not known: its result record cannot be "
                f"read: {self.without_secrets(str(error))}",
                exit_code=contract.ExitCode.IO,
            ) from error
        if record is not None:
            return outcome.decide(0, record, is_faithful=False), record
        name = (waiting.job or {}).get("id")
        if event["status"] == "timeout":
            self.on_kill()
            reason = f"{name} was ended: it took longer than the task's execution_timeout"
            return outcome.Outcome(outcome.Verdict.INTERRUPTED, contract.ExitCode.INTERRUPTED, reason), None
        reason = f"{name} ended as {event.get('state')} and left no result record: it never started, or it died"
        return outcome.Outcome(outcome.Verdict.NO_RESULT, contract.ExitCode.IO, reason), None

    def _resumed(self, context: Context) -> tuple[outcome.Outcome, result.RunResult | None] | None:
        """Resume the run of an earlier attempt, if it can be found; None if there is none.

        Raises:
            TaskDeferred: it runs, and is waited for.
        """
        found = deferral.remembered(context) if self.deferrable else None
        if found is None:
            return None
        record = self._read_record(found.folder, found.execution_id)
        if record is not None and outcome.decide(0, record, is_faithful=False).verdict.is_success:
            self._waiting = found
            self.log.info("%s had ended before this attempt began", found.execution_id)
            deferral.forget(context)
            self._clear(found.folder, found.execution_id)
            return outcome.decide(0, record, is_faithful=False), record
        try:
            job = found.found()
            state = cluster.state_of(job) if job else cluster.GONE
        except cluster.ClusterError as error:
            raise ClinkerIOError(
                f"{found.execution_id} may still run, and nobody answers for it: {self.without_secrets(str(error))}",
                exit_code=contract.ExitCode.IO,
            ) from error
        if record is None and job is not None and cluster.is_alive(state):
            self.log.info("%s still runs as %s (%s): it is waited for", found.execution_id, job, state)
            self._wait(context, found.submitted(job))
        self._clear(found.folder, found.execution_id)
        return None

    def _leave(
        self, context: Context, hook: ClinkerSparkSubmitHook, folder: str, execution_id: str
    ) -> tuple[outcome.Outcome, result.RunResult | None] | None:
        """Submit, and wait in the triggerer.

        Raises:
            TaskDeferred: it is waited for.
        """
        waiting = deferral.prepared(hook, folder, execution_id)
        deferral.remember(context, waiting)
        job = deferral.submit(hook, waiting, driver_memory=self.driver_memory)
        waiting = waiting.submitted(job)
        self._waiting = waiting
        self.log.info("%s is submitted as %s", execution_id, job)
        try:
            deferral.remember(context, waiting)
        except BaseException:
            self.on_kill()  # nobody would find it again
            raise
        self._push_early(context, {xcoms.APPLICATION_ID: job.id})
        if record := self._read_record(folder, execution_id):
            return outcome.decide(0, record, is_faithful=False), record
        self._wait(context, waiting)
        return None

    def _wait(self, context: Context, waiting: deferral.Waiting) -> None:
        limit = self.execution_timeout
        self.defer(
            trigger=ClusterJobTrigger(
                job=waiting.job or {},
                folder=waiting.folder,
                execution_id=waiting.execution_id,
                poll_interval_s=self.poll_interval_s,
                # Airflow enforces no execution_timeout while a task is deferred.
                deadline=time.time() + limit.total_seconds() if limit else None,
            ),
            method_name="execute_complete",
            kwargs={"waiting": waiting.to_dict(), **self.kept_for_later()},
        )

    def kept_for_later(self) -> dict[str, Any]:
        """The state for `execute_complete`, as JSON values without secrets.

        The pipeline as it is known by now is among it: it may come from a template or a function.
        """
        return {"pipeline": self.pipeline, "base_dir": self.base_dir}

    def _finish(
        self,
        context: Context,
        subject: validation.Subject,
        ended: outcome.Outcome,
        record: result.RunResult | None,
        execution_id: str,
        callback: Callable[[Context, result.RunResult], object] | None,
        chosen: policy.Policy,
    ) -> dict[str, Any] | None:
        """Publish the results of a run that has ended, and end the task as the run and the user's policy say."""
        self._ended_run = record, self.without_secrets(ended.reason)
        if record and record.taken_from:
            self.log.warning(
                "Nothing was done: the attempt %s had published all files, and they are unchanged", record.taken_from
            )
        pushed = self._payload(ended, record, execution_id)
        self._keep_links(pushed)
        failure = self._failure(ended, record, chosen.decide(ended, record))
        if failure:
            pushed[xcoms.REASON] = str(failure)[: xcoms.MOST_CHARACTERS]
        self._publish_figures(context, ended, record)
        self._push(context, pushed, failure)
        self._log_end(record)
        if callback and record and record.dlq_count and ended.verdict.is_success:
            _call_after_publishing("on_dlq", lambda: callback(context, record))
        if self.emit_assets and record and ended.verdict.is_success and not failure:
            _call_after_publishing("telling its assets", lambda: self._publish_assets(context, subject, record))
        if failure:
            raise failure
        self.log.info("%s: %s, %s", execution_id, ended.status.value, pushed[xcoms.RETURN_VALUE]["records"])
        return pushed[xcoms.RETURN_VALUE] if self.do_xcom_push else None

    def on_kill(self) -> None:
        """End everything that the run started."""
        if self._waiting and self._waiting.job:
            job = cluster.Job.of_dict(self._waiting.job)
            try:
                cluster.kill(job)
            except cluster.ClusterError as error:
                self.log.error("%s could not be ended: %s", job, self.without_secrets(str(error)))
        if self._hook:
            self._hook.on_kill()

    def get_openlineage_facets_on_start(self) -> OperatorLineage:
        """The run's future inputs and outputs, as far as its plan knows them, for OpenLineage."""
        return openlineage.lineage(self.subject())

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage:
        """The run's inputs and outputs, with counts and dead letters, for OpenLineage."""
        record, reason = self._ended_run
        return openlineage.lineage(self.subject(), record, reason or None)

    def get_openlineage_facets_on_failure(self, task_instance: object) -> OperatorLineage:
        """The inputs and outputs of a failed run, with the reason."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def _take_defaults(self) -> None:
        """Take defaults of the operator's parameters from its connection, if that has the type `clinker`.

        Raises:
            ClinkerConnectionError: a field of it says nothing usable, or it names a connection that is not there.
        """
        if self.master is not None:
            return
        try:
            connection = BaseHook.get_connection(self.conn_id)
            if connection.conn_type != clinker_connection.CONNECTION_TYPE:
                return
            settings = clinker_connection.settings_of(connection)
            stored = {}
            if settings.store_conn_id:
                stored = clinker_connection.credentials_of(BaseHook.get_connection(settings.store_conn_id))
        except AirflowNotFoundException as error:
            if error.args and self.conn_id in str(error):
                return  # which the hook tells, with what to do about it
            raise ClinkerConnectionError(f"connection `{self.conn_id}`: {error}") from error
        except clinker_connection.BadConnection as error:
            raise ClinkerConnectionError(f"connection `{self.conn_id}`: {error}") from error
        for name, value in settings.defaults.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        self.conf = {**settings.conf, **(self.conf or {})}
        self.link_templates = {**settings.links, **(self.link_templates or {})}
        self.env_vars = {**stored, **(self.env_vars or {})}
        self.hide_secrets()

    def _resolve_work_dir(self) -> None:
        """Take `work_dir` as it is meant: without blanks around it, a `file:` URI as the path.

        Raises:
            ClinkerConfigError: it leads nowhere.
        """
        if reason := _wrong_place(self.work_dir):
            raise ClinkerConfigError(reason, exit_code=contract.ExitCode.CONFIG)
        if self.work_dir is not None:
            self.work_dir = _place_of(self.work_dir)

    def _payload(self, ended: outcome.Outcome, record: result.RunResult | None, execution_id: str) -> dict[str, Any]:
        pushed = xcoms.payload(
            ended,
            record,
            execution_id=execution_id,
            application_id=self._known_application(),
            master=self._known_master(),
            pipeline_path=self._known_path(),
        )
        nodes = record.nodes if record else {}
        # Data that a server returns may contain the credential that was sent to it.
        return {
            **pushed,
            xcoms.REASON: self._masked(pushed[xcoms.REASON]),
            xcoms.DLQ_REASONS: self._masked(pushed[xcoms.DLQ_REASONS]),
            xcoms.ON_CALL: {**self._on_call, **on_call.of_record(record), "nodes": self._named(nodes)},
        }

    def _known_master(self) -> str | None:
        if self._hook:
            return self._hook.shown_master
        if self._waiting:
            return self._waiting.master
        return self.without_secrets(self.master) if self.master else None

    def _known_application(self) -> str | None:
        if self._waiting and self._waiting.job:
            return str(self._waiting.job["id"])
        return self._hook.application_id if self._hook else None

    def _known_path(self) -> str | None:
        path = self._resolved_pipeline()
        return str(path) if path else None

    def _named(self, by_name: Mapping[str, Any]) -> dict[str, Any]:
        """The values with names that show no secret."""
        return {self.without_secrets(name): value for name, value in by_name.items()}

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self.without_secrets(value)
            case dict():
                return {key: self._masked(each) for key, each in value.items()}
            case list():
                return [self._masked(each) for each in value]
            case _:
                return value

    def _log_end(self, record: result.RunResult | None) -> None:
        """End the log with the records of each node, and with dead letters by reason."""
        if record is None:
            return
        lines = on_call.log_lines(record)
        if record.dlq_count or record.dlq_reasons:
            where = f", see {', '.join(record.dlq_paths or filter(None, [record.dlq_path]))}" if record.dlq_path else ""
            lines.insert(0, f"{record.dlq_count or record.records_dlq} records died{where}")
            self.log.warning("%s", self.without_secrets("\n".join(lines)))
        elif lines and record.records_total:
            self.log.info("%s", self.without_secrets("\n".join(["What the nodes did:", *lines])))

    def _publish_figures(self, context: Context, ended: outcome.Outcome, record: result.RunResult | None) -> None:
        """Publish the run's metrics and spans in Airflow. Errors there do not affect the task."""
        ti, shown = context["ti"], record
        if record:
            name = self.without_secrets(record.pipeline_name)
            shown = replace(record, pipeline_name=name, nodes=self._named(record.nodes))
        try:
            figures.publish(shown, ended.status.value, ti.dag_id, ti.task_id)
            if shown:
                spans.publish(shown)
        except Exception:
            self.log.exception("The figures of the run could not be told")

    def _push_failure(self, error: BaseException, context: Context, execution_id: str) -> None:
        """Push the XComs of a run that did not come to its end, or could not begin."""
        ended, record = self._cut_off or (_outcome_of(error), None)
        self._publish_figures(context, ended, record)
        try:
            pushed = self._payload(ended, record, execution_id)
        except Exception:
            self.log.exception("The XComs of a failed run could not be made")
            return
        reason = self.without_secrets(self._why(error))[: xcoms.MOST_CHARACTERS]
        if isinstance(error, AirflowTaskTimeout):
            # The exception that Airflow logs says "Timeout" and the number of a process.
            self.log.error("%s", reason)
        pushed[xcoms.REASON] = reason
        self._keep_links(pushed)
        self._push(context, pushed, error)

    def _why(self, error: BaseException) -> str:
        """Why the task failed, in other words than Airflow's where those tell nothing."""
        if not isinstance(error, AirflowTaskTimeout):
            return str(error) or type(error).__name__
        last = self._hook.last_line if self._hook else ""
        where = f"; the last line of the job: {last}" if last else ""
        return (
            f"the task took longer than its execution_timeout ({self.execution_timeout}), and its run was ended{where}"
        )

    def _keep_links(self, values: Mapping[str, object]) -> list[tuple[BaseOperatorLink, str]]:
        """Leave those links for the task's page that lead somewhere, and give them with their addresses.

        Airflow stores a link at the end of every task, an empty one as well.
        """
        self.link_values = values
        kept: list[tuple[BaseOperatorLink, str]] = []
        others = []
        for link in type(self).operator_extra_links:
            try:
                url = link.url(self) if isinstance(link, TemplatedLink) else None
            except ValueError:  # Airflow asks again at the end, and logs it
                url = None
            if url is None:
                others.append(link)
            elif url:
                kept.append((link, url))
        self.operator_extra_links = (*(link for link, _ in kept), *others)
        return kept

    def _push_early(self, context: Context, values: Mapping[str, Any]) -> None:
        """Push XComs during the run. Errors do not fail the run, because all XComs are pushed again at its end."""
        links = self._keep_links({**self.link_values, **values})
        if not self.do_xcom_push:
            return
        try:
            for key, value in values.items():
                context["ti"].xcom_push(key=key, value=value)
            for link, url in links:
                show(context["ti"], link, url)
        except Exception:
            self.log.exception("XComs could not be pushed while the run goes on")

    def _refused(self, subject: validation.Subject, execution_id: str) -> result.RunResult | None:
        """A record of exit 1 when something is found wrong here; else None, and the plan is ready to be shown."""
        if self.validate is validation.Validate.OFF:
            return None
        arguments = self._arguments(subject, execution_id, "work")
        if reason := validation.wrong_arguments(arguments):
            return _config_record(subject, execution_id, reason)
        with seen(subject.variables) if self.is_in_store else nullcontext():
            problems = validation.problems_of(subject)
        errors = validation.errors_of(problems)
        if self.is_in_store and any(validation.is_refused(problem) for problem in errors):
            # The driver's credentials may reach further than this machine's.
            self.log.warning("It is left to the run to check the pipeline:\n%s", validation.message(errors))
            return None
        if self.is_in_store and not errors:
            return None  # its plan is the run's to show
        if not errors:
            for warning in problems:
                self.log.warning("%s", warning)
            self._show_plan(subject, arguments)
            return None
        return _config_record(subject, execution_id, validation.message(errors))

    def _show_plan(self, subject: validation.Subject, arguments: Sequence[str]) -> None:
        try:
            self.plan_text = self.plan_of(subject, arguments)
            kept = on_call.of_plan(subject)
            self._on_call = {"picture": self._masked(kept["picture"]), "digests": self._named(kept["digests"])}
        except Exception:
            # The plan is shown for people; a run that is able to run does not end for want of it.
            self.log.exception("The plan of %s cannot be shown", subject.pipeline)

    def _submit(
        self, context: Context, subject: validation.Subject, execution_id: str
    ) -> tuple[outcome.Outcome, result.RunResult | None]:
        is_stored = validation.is_remote(self.work_dir or "")
        parent = Path(self.work_dir) if self.work_dir and not is_stored else None
        if parent:
            parent.mkdir(parents=True, exist_ok=True)
        is_needed = False  # by a run that goes on without the worker
        is_room_made = False
        if self.deferrable and parent:
            folder = deferral.folder_of(str(parent), execution_id)
        else:
            folder = Path(tempfile.mkdtemp(prefix="clinker-", dir=parent))
        try:
            package = Path(self.package) if self.package else bundle.build(folder / f"{bundle.PACKAGE}.zip")
            place = self.work_dir if self.work_dir and is_stored else str(folder)
            arguments = self._arguments(subject, execution_id, place, _once(context))
            self._hook = self.make_hook(
                context,
                execution_id=execution_id,
                pipeline=subject.pipeline,
                package=package,
                arguments=arguments,
                on_application=lambda name: self._push_early(context, {xcoms.APPLICATION_ID: name}),
            )
            if self._hook.is_cluster_mode and not self.work_dir:
                raise ClinkerConfigError(
                    "in deploy mode `cluster` the driver runs elsewhere and leaves its result record in `work_dir`: "
                    "give a folder that both sides see, or the URI of a store's folder",
                    exit_code=contract.ExitCode.CONFIG,
                )
            if is_stored and self._hook.is_cluster_mode:
                self._ship(self._hook, subject, folder, execution_id, place, context)
            if parent and self._hook.is_cluster_mode:
                # The driver may run as another user, so the folder gets the permissions of the shared folder around it.
                folder.chmod(parent.stat().st_mode & 0o7777)
            self.leaves_event_log = self._hook.leaves_event_log
            if is_stored:
                self._make_room(place, execution_id)
                is_room_made = True
            known = xcoms.known_before(
                execution_id=execution_id, master=self._hook.shown_master, pipeline_path=str(subject.pipeline)
            )
            self._push_early(context, {**known, xcoms.ON_CALL: self._on_call} if self._on_call else known)
            if self.deferrable and self._hook.is_cluster_mode:
                if (found := self._leave(context, self._hook, place, execution_id)) is not None:
                    return found
            elif self.deferrable:
                self.log.info(
                    "A run that is not in deploy mode `cluster` is a child of this worker, and is not deferred"
                )
            return_code = self._run_to_end(self._hook, place, execution_id)
            record = self._read_record(place, execution_id) or self._hook.record
            ended = outcome.decide(
                return_code,
                record,
                is_faithful=not self._hook.is_cluster_mode,
                was_killed=self._hook.was_killed,
            )
            if ended.verdict in (outcome.Verdict.NO_RESULT, outcome.Verdict.INTERRUPTED):
                # Spark died on its own: processes that it started may still run, and write.
                self._hook.end_processes()
            return ended, record
        except TaskDeferred:
            is_needed = True
            raise
        finally:
            if is_stored or not is_needed:
                shutil.rmtree(folder, ignore_errors=True)
            if is_room_made and not is_needed:
                self._clear(place, execution_id)

    def _ship(
        self,
        hook: ClinkerSparkSubmitHook,
        subject: validation.Subject,
        folder: Path,
        execution_id: str,
        place: str,
        context: Context,
    ) -> None:
        """Have the pipeline's files travel with the job to a driver that shares no folder with this side.

        Raises:
            ClinkerConfigError: they cannot.
        """
        if self.is_in_store:
            self._refuse_local_files(subject)
            return
        for given in map(str, self.run_args or ()):
            if parameter := _OF_FILES.get(given.partition("=")[0]):
                raise ClinkerConfigError(
                    f"`{given}` of `run_args` leads to files of this machine, and the driver runs on another: give the "
                    f"parameter `{parameter}` instead, whose files travel with the job",
                    exit_code=contract.ExitCode.CONFIG,
                )
        from spark_jobs.diagnostics.diagnostic import DiagnosticError
        from spark_jobs.plan import shipping

        try:
            shipment = shipping.pack(
                subject.pipeline, subject.options(), folder / "definitions.zip", metrics_dir=self.metrics_spool_dir
            )
        except DiagnosticError as error:  # `validate="off"` leaves it to the job, which would have no pipeline
            raise ClinkerConfigError(
                validation.message(error.diagnostics), exit_code=contract.ExitCode.CONFIG
            ) from error
        except shipping.NotShippable as error:
            raise ClinkerConfigError(str(error), exit_code=contract.ExitCode.CONFIG) from error
        own = sorted(name for name in shipment.variables if name in os.environ and name not in subject.variables)
        if own:
            self.log.warning(
                "The driver does not see this worker's environment, from which the pipeline would take %s here: "
                "name them in `env_vars`",
                ", ".join(own),
            )
        options = replace(
            self._options(),
            base_dir=str(shipment.options.base_dir),
            rules_path=validation.as_text(shipment.options.rules_path),
            channel=shipment.options.channel,
        )
        arguments = options.arguments(
            str(shipment.pipeline), execution_id=execution_id, work_dir=place, once=_once(context)
        )
        hook.ship(shipment.archive, arguments)

    def _refuse_local_files(self, subject: validation.Subject) -> None:
        """Refuse files of this machine beside a pipeline in a store: nothing travels then.

        Raises:
            ClinkerConfigError: there are some.
        """
        given = {"pipeline": subject.pipeline, "base_dir": subject.base_dir, "rules_path": subject.rules_path}
        local = [name for name, place in given.items() if isinstance(place, Path)]
        if local:
            raise ClinkerConfigError(
                f"`{local[0]}` is on this machine, and others of the pipeline's files are in a store: the driver runs "
                "on another machine, so put all of them into the store, or none",
                exit_code=contract.ExitCode.CONFIG,
            )

    def _run_to_end(self, hook: ClinkerSparkSubmitHook, folder: str, execution_id: str) -> int:
        try:
            return hook.run(str(bundle.application()))
        except BaseException as error:
            # A timeout of the task arrives here as an exception that is no `Exception`. The files of the run must
            # not go before its processes.
            hook.on_kill()
            if isinstance(error, ClinkerError):
                raise
            record = self._read_record(folder, execution_id) or hook.record
            code = record.exit_code if record else contract.ExitCode.INTERRUPTED
            self._cut_off = outcome.decide(code, record, was_killed=True), record
            raise

    def _arguments(
        self, subject: validation.Subject, execution_id: str, work_dir: str, once: execution.Once | None = None
    ) -> list[str]:
        if isinstance(self.run_args, str):
            raise ClinkerConfigError(_no_list(self.run_args), exit_code=contract.ExitCode.CONFIG)
        options, pipeline = self._options(), str(subject.pipeline)
        return options.arguments(pipeline, execution_id=execution_id, work_dir=work_dir, once=once)

    def _options(self, *, is_known: Callable[[object], bool] = lambda value: True) -> execution.RunOptions:
        """The options of `clinker run`, without options whose values are not known yet."""
        further = list(self.run_args or ()) if is_known(self.run_args) else []
        values = {
            "base_dir": self.base_dir,
            "rules_path": self.rules_path,
            "channel": self.channel,
            "environment": self.environment,
            "batch_id": self.batch_id,
            "memory_limit": self.memory_limit,
            "threads": self.threads,
            "error_threshold": self.error_threshold,
            "metrics_spool_dir": self.metrics_spool_dir,
            "log_level": self.log_level,
        }
        return execution.RunOptions(
            **{name: value for name, value in values.items() if is_known(value)},
            force=self.force,
            allow_absolute_paths=self.allow_absolute_paths,
            further=further,
        )

    def _declare_assets(self) -> None:
        """Add the pipeline's datasets to the task's inlets and outlets, as far as they are known now."""
        parsed = get_parsing_context().task_id
        is_mapped = getattr(self, "_BaseOperator__from_mapped", False)
        # An instance of a mapped task is made when it runs: what Airflow does not know by then, it does not take.
        if not self.emit_assets or is_mapped or parsed not in (None, self.task_id):
            return
        assets.declare(self, self.datasets_when_parsed())

    def datasets_when_parsed(self) -> Datasets | None:
        """The pipeline's datasets if they are known when the DAG file is parsed; otherwise None."""
        return self.verdict().datasets if self._is_known_when_parsed() else None

    def _publish_assets(self, context: Context, subject: validation.Subject, record: result.RunResult) -> None:
        found = None if self.is_in_store else datasets.of(subject)
        if found is None:
            self.log.warning("The assets of %s are not known here", self.pipeline)
            return
        common = {
            "pipeline": found.pipeline,
            "execution_id": record.execution_id,
            "application_id": record.application_id,
            "duration_ms": record.metrics.get("duration_ms"),
            "records_read": record.records_total,
            "dlq_count": record.dlq_count,
            "dlq_path": record.dlq_path,
        }
        lost = assets.publish(self, context["outlet_events"], found, record, self._masked(common))
        if lost:
            self.log.warning("No outlet is there for %s; give the mapped task outlets=[AssetAlias(…)]", ", ".join(lost))

    def _check_options_when_parsed(self) -> None:
        if not self.is_checked_when_parsed:
            return
        if isinstance(self.run_args, str) and validation.is_static(self.run_args):
            raise self.invalid(_no_list(self.run_args))
        options = self._options(is_known=validation.is_static)
        arguments = options.arguments("pipeline.yaml", execution_id="parsed", work_dir="work")
        if reason := validation.wrong_arguments(arguments):
            raise self.invalid(reason)
        if validation.is_static(self.work_dir) and (reason := _wrong_place(self.work_dir)):
            raise self.invalid(reason)
        if reason := callbacks.problem(self.on_dlq):
            raise self.invalid(f"on_dlq: {reason}")
        try:
            self._chosen(is_known=validation.is_static)
        except ValueError as error:
            raise self.invalid(str(error)) from error

    def _chosen(self, *, is_known: Callable[[object], bool] = lambda value: True) -> policy.Policy:
        return policy.of_words(
            on_partial=self.on_partial,
            fail_on_dlq=self.fail_on_dlq,
            dlq_threshold=self.dlq_threshold if is_known(self.dlq_threshold) else None,
            skip_on_no_data=self.skip_on_no_data,
            exit_codes=self.exit_codes,
        )

    def chosen_policy(self) -> policy.Policy:
        """The user's policy. It is checked before the run, which cannot be undone."""
        try:
            return self._chosen()
        except ValueError as error:
            raise ClinkerConfigError(str(error), exit_code=contract.ExitCode.CONFIG) from error

    def _callback(self) -> Callable[[Context, result.RunResult], object] | None:
        """The function for dead letters; looked for before the run, which could not be taken back."""
        try:
            return callbacks.resolve_callback(self.on_dlq)
        except (ImportError, AttributeError, ValueError) as error:
            raise ClinkerConfigError(f"on_dlq: {error}", exit_code=contract.ExitCode.CONFIG) from error

    def _records(self, folder: str) -> records.Records:
        environ = {name: str(value) for name, value in (self.env_vars or {}).items()}
        settings = validation.stores_of(self.subject()) if validation.is_remote(folder) else None
        return records.Records(folder, environ, settings)

    def _clear(self, folder: str, execution_id: str) -> None:
        """Remove the folder of an ended run; in a store, its result record."""
        if not validation.is_remote(folder):
            shutil.rmtree(folder, ignore_errors=True)
            return
        try:
            self._records(folder).remove(execution_id)
        except OSError as error:
            self.log.warning("The result record stays in %s: %s", folder, self.without_secrets(str(error)))

    def _make_room(self, folder: str, execution_id: str) -> None:
        """Remove a record under this run's name from its store, so that it is not taken for this run's.

        A DAG run that is deleted and made again has attempts of the same names.

        Raises:
            ClinkerIOError: the store refuses, and would refuse when the run has ended.
        """
        try:
            self._records(folder).make_room(execution_id)
        except OSError as error:
            raise ClinkerIOError(
                f"nothing was submitted, because the result record could not be read from work_dir: "
                f"{self.without_secrets(str(error))}",
                exit_code=contract.ExitCode.IO,
            ) from error

    def _read_record(self, folder: str, execution_id: str) -> result.RunResult | None:
        try:
            return self._records(folder).read(execution_id)
        except (result.MalformedResult, OSError) as error:
            self.log.error("The result record cannot be used: %s", error)
            return None

    def _failure(
        self, ended: outcome.Outcome, record: result.RunResult | None, decision: policy.Decision
    ) -> AirflowException | None:
        """The exception that ends the task; None if it succeeds."""
        if decision.action is policy.Action.SUCCESS:
            return None
        reason = decision.reason or ended.reason
        if ended.verdict in (outcome.Verdict.NO_RESULT, outcome.Verdict.INTERRUPTED) and self._hook:
            remedy = outcome.remedy_of(self._hook.log_tail)
            reason = "\n".join(filter(None, [reason, remedy, self._hook.log_tail]))
        reason = self.without_secrets(reason)
        if decision.action is policy.Action.SKIP:
            return AirflowSkipException(reason)
        kind = _FAILURES.get(
            ended.verdict, ClinkerDeadLettersError if record and record.dlq_count else ClinkerFinalError
        )
        if decision.is_chosen:
            kind = ClinkerFinalError if decision.action is policy.Action.FAIL else ClinkerRetriedError
        return kind(reason, exit_code=ended.exit_code)

    def _push(self, context: Context, pushed: Mapping[str, Any], failure: BaseException | None) -> None:
        if not self.do_xcom_push:
            return
        # Airflow pushes the value that `execute` returns, but not if it raises.
        keys = [key for key in pushed if failure or key != xcoms.RETURN_VALUE]

        def push() -> None:
            for key in keys:
                context["ti"].xcom_push(key=key, value=pushed[key])
            if not MAKES_LINKS_IN_TASKS:
                for link, url in self._keep_links(self.link_values):
                    show(context["ti"], link, url)

        if failure is None:
            _call_after_publishing("pushing the XComs", push)
            return
        try:
            push()
        except Exception:
            # The run's own failure says more than the failure to report it.
            self.log.exception("The XComs of a failed run could not be pushed")


def _call_after_publishing(what: str, act: Callable[[], object]) -> None:
    """Do what follows a run that has published its files.

    Raises:
        ClinkerPublishedError: it failed. A retry would run all of Spark again, and meet the files of this run.
    """
    try:
        act()
    except ClinkerError:
        raise
    except Exception as error:
        reason = f"the run has succeeded and published its files, but {what} failed: {type(error).__name__}: {error}"
        raise ClinkerPublishedError(reason, exit_code=None) from error


def _outcome_of(error: BaseException) -> outcome.Outcome:
    """The outcome of a task whose run could not begin."""
    if isinstance(error, ClinkerError):
        code = contract.ExitCode.CONFIG if error.exit_code is None else error.exit_code
        return outcome.Outcome(outcome.Verdict.CONFIG, code, str(error))
    if isinstance(error, Exception):
        return outcome.Outcome(outcome.Verdict.IO, contract.ExitCode.IO, str(error))
    return outcome.Outcome(outcome.Verdict.INTERRUPTED, contract.ExitCode.INTERRUPTED, str(error))


def _wrong_place(work_dir: str | None) -> str | None:
    """Why a rendered `work_dir` leads nowhere; None where it leads somewhere."""
    from spark_jobs.stores import location

    try:
        location.located((work_dir or "").strip())
    except location.BadLocation as error:
        return f"work_dir {location.without_credentials(str(work_dir))!r}: {error.message}: {error.remedy}"
    return None


def _place_of(work_dir: str) -> str | None:
    from spark_jobs.stores import location

    text = work_dir.strip()
    return str(location.located(text)) if text else None


def _no_list(run_args: str) -> str:
    return f"run_args is a list of arguments such as ['--quiet', '--force'], not the text {run_args!r}"


def _config_record(subject: validation.Subject, execution_id: str, message: str) -> result.RunResult:
    error = result.RunError(code="", message=message)
    return result.RunResult(execution_id, contract.ExitCode.CONFIG, subject.pipeline.stem, error=error)


def _once(context: Context) -> execution.Once:
    task, run = context["ti"], context.get("dag_run")
    return execution.once(
        **execution.instance(context),
        try_number=task.try_number,
        max_tries=task.max_tries,
        started=str(getattr(run, "start_date", None)),
        clears=getattr(run, "clear_number", None) or 0,
    )

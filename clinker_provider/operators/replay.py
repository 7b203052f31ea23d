"""Replays mended dead letters as a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from clinker_provider import dead_letters, execution, policy, validation
from clinker_provider.exceptions import ClinkerConfigError, ClinkerDeadLettersError, ClinkerIOError, of_command
from clinker_provider.files import Files
from clinker_provider.hooks.clinker_command import ClinkerCommandHook
from clinker_provider.operators.pipeline import PipelineOperator
from spark_jobs import contract
from spark_jobs.stores.location import BadLocation, without_credentials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from airflow.providers.common.compat.sdk import Context


class ClinkerDlqReplayOperator(PipelineOperator):
    """Run mended dead letters, and only them, through their pipeline, as `clinker dlq replay` does.

    Outputs, the dead-letter file and its ledger change together. Entries that are done are passed over, so a retry does
    nothing twice. Runs on the worker, embedded. Beside what `PipelineOperator` takes:

    :param path: the dead-letter file, such as the run's XCom `dlq_path`; empty or `None` skips the task (templated)
    :param into: folder for outputs of the replayed records alone; default: append to the existing outputs (templated)
    :param force: with `into`: whether files that exist are replaced
    :param ids: only these entries (templated)
    :param stage: only entries of this stage (templated)
    :param field: only entries of this field (templated)
    :param category: only entries of this category (templated)
    :param dry_run: run them, and write nothing
    :param on_partial: what becomes of the task while dead letters are left: `success`, `skip` or `fail`

    XCom `return_value`: `exit_code`, `replayed` and `left` (counts), `dlq_path` (None when nothing is left).
    """

    template_fields: Sequence[str] = (
        *PipelineOperator.template_fields, "path", "into", "ids", "stage", "field", "category"
    )  # fmt: skip
    ui_color = "#f3dada"
    custom_operator_name = "Clinker replay"

    def __init__(
        self,
        *,
        path: str | Path,
        into: str | Path | None = None,
        force: bool = False,
        ids: list[str] | None = None,
        stage: str | None = None,
        field: str | None = None,
        category: str | None = None,
        dry_run: bool = False,
        on_partial: str = "success",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.path = validation.as_text(path)
        self.into = validation.as_text(into)
        self.force = force
        self.ids = ids
        self.stage = stage
        self.field = field
        self.category = category
        self.only_look = dry_run
        self.on_partial = policy.of_words(
            on_partial=on_partial, fail_on_dlq=False, dlq_threshold=None, skip_on_no_data=False, exit_codes=None
        ).on_partial
        self._hook: ClinkerCommandHook | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Replay; returns the counts.

        Raises:
            ClinkerError: one of its kinds.
            AirflowSkipException: there is no dead-letter file, or entries are left and the user chose so.
        """
        # Jinja renders a missing XCom as the text "None".
        if not self.path or self.path == "None":
            raise AirflowSkipException("there are no dead letters")
        self.hide_secrets()
        before = self._left()
        self._hook = ClinkerCommandHook(
            execution_id=execution.of_context(context), env_vars=self._variables(), masked=self.without_secrets
        )
        code = self._hook.run(self._arguments())
        left = self._left()
        found = {
            "exit_code": code,
            "replayed": max(before - left, 0),
            "left": left,
            "dlq_path": self.path if left else None,
        }
        is_over = code in (contract.ExitCode.SUCCESS, contract.ExitCode.DEAD_LETTERS)
        if is_over and (not left or self.on_partial is policy.Action.SUCCESS):
            return found
        if self.do_xcom_push:
            context["ti"].xcom_push(key="return_value", value=found)
        if not is_over:
            raise of_command("clinker dlq replay", code, self._hook.tail)
        reason = f"{left} dead letters are left in {self.path}"
        if self.on_partial is policy.Action.SKIP:
            raise AirflowSkipException(reason)
        raise ClinkerDeadLettersError(reason, exit_code=code)

    def on_kill(self) -> None:
        """End the replay; nothing has changed then."""
        if self._hook:
            self._hook.on_kill()

    def _left(self) -> int:
        try:
            settings = validation.stores_of(self.subject()) if validation.is_remote(self.path) else None
            return dead_letters.look(self.path, Files(self._variables(), settings)).count
        except BadLocation as error:
            raise ClinkerConfigError(
                f"path {without_credentials(self.path)!r}: {error.message}: {error.remedy}",
                exit_code=contract.ExitCode.CONFIG,
            ) from error
        except OSError as error:
            raise ClinkerIOError(f"dead letters cannot be read: {error}", exit_code=contract.ExitCode.IO) from error

    def _arguments(self) -> list[str]:
        subject = self.subject()
        valued = {
            "--base-dir": self.base_dir,
            "--rules-path": self.rules_path,
            "--channel": self.channel,
            "--env": self.environment,
            "--into": self.into,
            "--stage": self.stage,
            "--field": self.field,
            "--category": self.category,
        }
        flags = {
            "--force": self.force,
            "--dry-run": self.only_look,
            "--allow-absolute-paths": self.allow_absolute_paths,
        }
        arguments = ["dlq", "replay", str(subject.pipeline), self.path]
        for option, value in valued.items():
            arguments += [option, str(value)] if value else []
        for each in self.ids or ():
            arguments += ["--id", str(each)]
        return [*arguments, *(option for option, is_set in flags.items() if is_set)]

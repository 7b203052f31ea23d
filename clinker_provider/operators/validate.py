"""Checks a pipeline as a task of its own, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clinker_provider import validation
from clinker_provider.exceptions import ClinkerConfigError
from clinker_provider.operators.pipeline import PipelineOperator
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context


class ClinkerValidateOperator(PipelineOperator):
    """Check a pipeline and show its plan; fails, without retry, when it has errors.

    Useful for pipelines that are only known at run time, before anything is submitted. Takes what `PipelineOperator`
    takes; `validate="off"` makes no sense here and is refused.

    :param warnings_are_errors: whether warnings fail the task too

    XComs: `diagnostics`, a list of `path:line:col CODE message`, also when the task fails; `return_value` with
    `pipeline`, `errors` and `warnings` (counts).
    """

    template_fields: Sequence[str] = (*PipelineOperator.template_fields, "plan_text")
    overwrite_rtif_after_execution = True
    ui_color = "#e0ead8"
    custom_operator_name = "Clinker check"

    def __init__(self, *, warnings_are_errors: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.validate is validation.Validate.OFF:
            raise ValueError("ClinkerValidateOperator with validate='off' would do nothing")
        self.warnings_are_errors = warnings_are_errors
        self.plan_text: str | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Check; gives a summary.

        Raises:
            ClinkerConfigError: with all problems, when there are errors.
        """
        self.hide_secrets()
        subject = self.subject()
        problems = validation.problems_of(subject)
        errors = validation.errors_of(problems)
        if self.do_xcom_push:
            context["ti"].xcom_push(key="diagnostics", value=[str(problem) for problem in problems])
        fatal = list(problems) if self.warnings_are_errors else errors
        if fatal:
            raise ClinkerConfigError(validation.message(fatal), exit_code=contract.ExitCode.CONFIG)
        for warning in problems:
            self.log.warning("%s", warning)
        self.plan_text = self.plan_of(subject)
        return {"pipeline": str(subject.pipeline), "errors": len(errors), "warnings": len(problems) - len(errors)}

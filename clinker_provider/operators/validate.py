"""Checks a pipeline as a task of its own, without Spark, and shows some of its records."""

from __future__ import annotations

import json
import tempfile
from contextlib import nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from clinker_provider import execution, validation
from clinker_provider.exceptions import ClinkerConfigError, of_command
from clinker_provider.hooks.clinker_command import ClinkerCommandHook
from clinker_provider.operators.pipeline import PipelineOperator
from clinker_provider.records import seen
from spark_jobs import contract, credentials

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context

#: No more records of a node are shown.
_MOST_RECORDS = 100
#: The most characters of records in the XCom: every database of Airflow and its pages can hold them.
_MOST_CHARACTERS = 48_000
#: Rendered templates that name no node.
_WORDS = {"": False, "none": False, "false": False, "true": True}
#: A table that is wider is a list in the log.
_WIDTH = 160


class ClinkerValidateOperator(PipelineOperator):
    """Check a pipeline, show its plan and, if asked to, records; fails, without retry, when it has errors.

    Useful for pipelines that are only known at run time, before anything is submitted. Takes what `PipelineOperator`
    takes; `validate="off"` makes no sense here and is refused.

    A preview is made on the worker, without Spark, from the first records of each source, as `clinker preview` makes
    it. It writes nothing. Its records stand in the log and in an XCom.

    :param warnings_are_errors: whether warnings fail the task too
    :param preview: the nodes, or branches of routes (`route.branch`), whose records are shown; True: all outputs
        (templated)
    :param preview_records: how many records of each node are shown, at most 100
    :param preview_read: how many records of each source the preview is made from

    XComs: `diagnostics`, a list of `path:line:col CODE message`, also when the task fails; `preview`, the records by
    node (no more than 48,000 characters of them; the log names omitted ones); `return_value` with `pipeline`,
    `errors` and `warnings` (counts).
    """

    template_fields: Sequence[str] = (*PipelineOperator.template_fields, "preview", "plan_text")
    overwrite_rtif_after_execution = True
    ui_color = "#e0ead8"
    custom_operator_name = "Clinker check"

    def __init__(
        self,
        *,
        warnings_are_errors: bool = False,
        preview: Sequence[str] | str | bool = False,
        preview_records: int = 10,
        preview_read: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.validate is validation.Validate.OFF:
            raise ValueError("ClinkerValidateOperator with validate='off' would do nothing")
        if not 1 <= preview_records <= _MOST_RECORDS:
            raise ValueError(f"preview_records is {preview_records}; a preview shows 1 to {_MOST_RECORDS} records")
        if preview_read < 1:
            raise ValueError(f"preview_read is {preview_read}; a preview reads at least one record of each source")
        self.warnings_are_errors = warnings_are_errors
        self.preview = preview
        self.preview_records = preview_records
        self.preview_read = preview_read
        self.plan_text: str | None = None
        self._hook: ClinkerCommandHook | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Check; returns a summary.

        Raises:
            ClinkerConfigError: with all problems, when there are errors; the preview names no node of the pipeline.
            ClinkerError: another of its kinds, where the preview could not be made.
        """
        self.hide_secrets()
        subject = self.subject()
        # A pipeline in a store is read with the credentials of the task, or of this machine.
        with seen(subject.variables) if self.is_in_store else nullcontext():
            return self._checked(context, subject)

    def _checked(self, context: Context, subject: validation.Subject) -> dict[str, Any]:
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
        if nodes := self._nodes(subject):
            shown = self._previewed(subject, nodes, execution.of_context(context))
            if self.do_xcom_push:
                context["ti"].xcom_push(key="preview", value=shown)
        return {"pipeline": str(subject.pipeline), "errors": len(errors), "warnings": len(problems) - len(errors)}

    def on_kill(self) -> None:
        """End the preview."""
        if self._hook:
            self._hook.on_kill()

    def _nodes(self, subject: validation.Subject) -> list[str]:
        chosen = self.preview
        if isinstance(chosen, str):  # a template makes texts of everything
            chosen = _WORDS.get(chosen.strip().lower(), [chosen])
        if isinstance(chosen, bool):
            return validation.outputs_of(subject) if chosen else []
        return [node for node in dict.fromkeys(chosen or ()) if node]

    def _previewed(self, subject: validation.Subject, nodes: list[str], execution_id: str) -> dict[str, list[Any]]:
        """Log the records of nodes; returns as many of them as fit into an XCom."""
        from spark_jobs.cli import tables

        secrets = credentials.Secrets.of(self.secrets())
        self._hook = ClinkerCommandHook(
            execution_id=execution_id, env_vars=self._variables(), masked=self.without_secrets
        )
        found: dict[str, list[dict[str, Any]]] = {node: [] for node in nodes}
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            code = self._hook.run(self._arguments(subject, nodes), output=output)
            if code:
                raise of_command("clinker preview", code, self._hook.tail)
            output.seek(0)
            for line in output:
                # Only of several nodes does a line say which it is of.
                read = json.loads(line, parse_float=_number)
                node, record = (read["node"], read["record"]) if len(nodes) > 1 else (nodes[0], read)
                found[node].append(_masked(record, secrets))
        for node, records in found.items():
            lines = tables.of_records(records, {}, _WIDTH)
            count = "no record" if not records else f"the first {len(records)}" if len(records) > 1 else "one record"
            self.log.info("%s: %s\n%s", node, count, "\n".join(lines))
        shown, left_out = _bounded(found)
        for node, missing in left_out.items():
            self.log.warning(
                "%d of %d records of %s are not in the XCom, which takes %d characters",
                missing, len(found[node]), node, _MOST_CHARACTERS,
            )  # fmt: skip
        return shown

    def _arguments(self, subject: validation.Subject, nodes: list[str]) -> list[str]:
        valued = {
            "--base-dir": self.base_dir,
            "--rules-path": self.rules_path,
            "--channel": self.channel,
            "--env": self.environment,
        }
        arguments = [
            "preview",
            "--format",
            "json",
            "-n",
            str(self.preview_records),
            "--records",
            str(self.preview_read),
        ]
        for option, value in valued.items():
            arguments += [option, str(value)] if value else []
        arguments += ["--allow-absolute-paths"] if self.allow_absolute_paths else []
        return [*arguments, "--", str(subject.pipeline), *nodes]


def _number(text: str) -> float | str:
    """A number of a record, which keeps all its digits: as a text where a float has fewer."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else text


def _masked(value: Any, secrets: credentials.Secrets) -> Any:
    """A value whose texts show no secret."""
    match value:
        case str():
            return secrets.masked(value)
        case dict():
            return {secrets.masked(name): _masked(each, secrets) for name, each in value.items()}
        case list():
            return [_masked(each, secrets) for each in value]
    return value


def _bounded(found: dict[str, list[dict[str, Any]]]) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """The first records of each node that fit, each node with its share, and how many of a node do not."""
    share = _MOST_CHARACTERS // len(found)
    shown: dict[str, list[Any]] = {}
    for node, records in found.items():
        room, shown[node] = share, []
        for record in records:
            room -= len(json.dumps(record))
            if room < 0:
                break
            shown[node].append(record)
    return shown, {node: count for node, records in found.items() if (count := len(records) - len(shown[node]))}

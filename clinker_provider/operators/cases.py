"""Runs the cases of pipelines as a task, without Spark."""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from clinker_provider import execution, validation
from clinker_provider.exceptions import of_command
from clinker_provider.hooks.clinker_command import ClinkerCommandHook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context


class ClinkerTestOperator(BaseOperator):
    """Run the cases of pipelines, as `clinker test` does; fails, without retry, when one fails.

    In front of a run it keeps a pipeline whose rules were broken from touching data.

    :param paths: files of cases (`*.test.yaml`), or folders with them; relative to the DAG file's folder (templated)
    :param only: only cases with this text in their names (templated)
    :param coverage: whether the log shows the nodes and branches that no case reaches
    :param junit: file for the results as JUnit XML (templated)
    :param env_vars: environment of the cases; pipelines' `${NAME}` see it (templated)

    XCom `return_value`: `cases` and `failed` (counts), `failures` (names); pushed when the task fails, too.
    """

    template_fields: Sequence[str] = ("paths", "only", "junit", "env_vars")
    ui_color = "#e0ead8"
    custom_operator_name = "Clinker test"

    def __init__(
        self,
        *,
        paths: Sequence[str | Path] | str | Path,
        only: str | None = None,
        coverage: bool = False,
        junit: str | Path | None = None,
        env_vars: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.paths = [str(path) for path in paths] if isinstance(paths, list | tuple) else validation.as_text(paths)
        self.only = only
        self.coverage = coverage
        self.junit = validation.as_text(junit)
        self.env_vars = env_vars
        self._hook: ClinkerCommandHook | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the cases; returns the counts.

        Raises:
            ClinkerConfigError: a case fails, or there is none.
            ClinkerError: another of its kinds, where they could not be run.
        """
        dag = self.get_dag()
        folder = str(Path(dag.fileloc).parent) if dag and dag.fileloc else None
        paths = [self.paths] if isinstance(self.paths, str) else self.paths
        with tempfile.TemporaryDirectory(prefix="clinker-test-") as own:
            report = Path(self.junit) if self.junit else Path(own, "report.xml")
            if not report.is_absolute() and folder:
                report = Path(folder, report)
            arguments = ["test", "--junit", str(report)]
            arguments += ["-k", self.only] if self.only else []
            arguments += ["--coverage"] if self.coverage else []
            self._hook = ClinkerCommandHook(
                execution_id=execution.of_context(context),
                env_vars={name: str(value) for name, value in (self.env_vars or {}).items()},
            )
            code = self._hook.run([*arguments, *paths], folder=folder)
            found = _counted(report)
        if self.do_xcom_push and code:
            context["ti"].xcom_push(key="return_value", value=found)
        if code:
            raise of_command("clinker test", code, self._hook.tail)
        return found

    def on_kill(self) -> None:
        """End the cases."""
        if self._hook:
            self._hook.on_kill()


def _counted(report: Path) -> dict[str, Any]:
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))  # which `clinker test` has just written
    except (OSError, ElementTree.ParseError):
        return {"cases": 0, "failed": 0, "failures": []}
    failures = [case.get("name", "") for case in cases if case.find("failure") is not None]
    return {"cases": len(cases), "failed": len(failures), "failures": failures}

"""`@task.clinker`: a function returns the pipeline to run and its variables."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)

from clinker_provider import validation
from clinker_provider.exceptions import ClinkerConfigError
from clinker_provider.operators.spark import ClinkerSparkOperator
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow.providers.common.compat.sdk import Context

#: The placeholder for the pipeline until the function returns it.
_LATER = "pipeline.yaml"
#: A dictionary with one of these keys is a pipeline; another one has variables.
_OF_PIPELINES = frozenset({"pipeline", "nodes"})


class ClinkerDecoratedOperator(DecoratedOperator, ClinkerSparkOperator):
    """Runs what a function gives.

    - A path, or a text of one line: the pipeline file.
    - A text of several lines, or a dictionary with `pipeline` or `nodes`: the pipeline itself.
    - Another dictionary: variables for the pipeline that the decorator names; None: none.

    :param python_callable: the function
    :param op_args: its arguments (templated)
    :param op_kwargs: its named arguments (templated)
    :param pipeline: the pipeline file, where the function gives variables (templated)
    :param kwargs: everything that `ClinkerSparkOperator` takes; `validate` is `execute` or `off`
    """

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *ClinkerSparkOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **ClinkerSparkOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.clinker"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        pipeline: str | Path | None = None,
        validate: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.is_named = pipeline is not None
        super().__init__(
            python_callable=python_callable,
            op_args=op_args,
            op_kwargs=op_kwargs,
            pipeline=pipeline or _LATER,
            # The function's result is not known when the DAG file is parsed.
            validate="off" if validate == "off" else "execute",
            **kwargs,
        )

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Ask the function, and run what it gives.

        Raises:
            ClinkerError: one of its kinds; `ClinkerConfigError` where the function gives nothing that can run.
        """
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        given = self.python_callable(*self.op_args, **arguments)
        with tempfile.TemporaryDirectory(prefix="clinker-task-", dir=self._folder_for_text()) as folder:
            self._take(given, Path(folder))
            return ClinkerSparkOperator.execute(self, context)

    def _folder_for_text(self) -> str | None:
        """The folder for a pipeline that is no file: where a remote driver can see it, if there is such a folder."""
        self._resolve_work_dir()
        if self.work_dir is None or validation.is_remote(self.work_dir):
            return None
        Path(self.work_dir).mkdir(parents=True, exist_ok=True)
        return str(self.work_dir)

    def _take(self, given: object, folder: Path) -> None:
        match given:
            case PurePath():
                self.pipeline = str(given)
            case str() if "\n" in given.strip():
                self._write(given, folder)
            case str() if given.strip():
                self.pipeline = given.strip()
            case dict() if _OF_PIPELINES & given.keys():
                # JSON is YAML, and needs no library here.
                self._write(json.dumps(given, indent=2, default=str), folder)
            case dict() | None if self.is_named:
                self.env_vars = {**(self.env_vars or {}), **(given or {})}
            case _:
                where = "" if self.is_named else ", and the decorator names no `pipeline`"
                raise ClinkerConfigError(
                    f"the function gives {type(given).__name__}, which is neither a path, nor a pipeline as text or "
                    f"dictionary, nor variables for a pipeline{where}",
                    exit_code=contract.ExitCode.CONFIG,
                )

    def _write(self, text: str, folder: Path) -> None:
        base = self.base_dir or self.pipeline_root
        if base is None:
            dag = self.get_dag()
            base = str(Path(dag.fileloc).parent) if dag and dag.fileloc else None
        if base is None:
            raise ClinkerConfigError(
                "a pipeline that is no file needs `base_dir`: its paths are relative to it",
                exit_code=contract.ExitCode.CONFIG,
            )
        self.base_dir = base
        path = folder / f"{self.task_id}.yaml"
        path.write_text(text, encoding="utf-8")
        self.pipeline = str(path)


def clinker_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a function a task that runs what it gives; `kwargs` are those of `ClinkerDecoratedOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=ClinkerDecoratedOperator, **kwargs
    )

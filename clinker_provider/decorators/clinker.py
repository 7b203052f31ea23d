"""`@task.clinker`: a function returns the pipeline to run and its variables."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    TaskDecorator,
    TaskDeferred,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)

from clinker_provider import execution, validation
from clinker_provider.exceptions import ClinkerConfigError
from clinker_provider.operators.spark import ClinkerSparkOperator
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from airflow.providers.common.compat.sdk import Context

#: The folders for pipelines that are no file begin so.
_FOLDER = "clinker-task-"
#: The placeholder for the pipeline until the function returns it.
_LATER = "pipeline.yaml"
#: A dictionary with one of these keys is a pipeline; another one has variables.
_OF_PIPELINES = frozenset({"pipeline", "nodes"})


class ClinkerDecoratedOperator(DecoratedOperator, ClinkerSparkOperator):
    """Runs the pipeline that a function returns.

    The function may return:

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
        self._variables_given: dict[str, Any] = {}
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
        """Call the function, and run the pipeline that it returns.

        Raises:
            ClinkerError: one of its kinds; `ClinkerConfigError` where the function gives nothing that can run.
        """
        given = self._asked(context)
        with self._folder_for_text(context) as folder:
            self._take(given, folder)
            return ClinkerSparkOperator.execute(self, context)

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any],
        waiting: Mapping[str, Any],
        pipeline: str | None = None,
        base_dir: str | None = None,
        variables: Mapping[str, Any] | None = None,
        secret_names: Sequence[str] = (),
    ) -> dict[str, Any] | None:
        """Go on after the trigger fired, with the variables that the function gave.

        Those with secrets are in nothing that Airflow keeps: the function is asked for them again.

        Raises:
            ClinkerError: one of its kinds, as `execute` raises them.
        """
        again = self._asked_again(context) if secret_names else {}
        found = {name: again[name] for name in secret_names if name in again}
        self.env_vars = {**(self.env_vars or {}), **(variables or {}), **found}
        try:
            return super().execute_complete(context, event, waiting, pipeline, base_dir)
        finally:
            # The path that another process has kept is removed only where it is one that this class makes.
            made = Path(pipeline).parent if pipeline else None
            if made is not None and made.name.startswith(_FOLDER):
                shutil.rmtree(made, ignore_errors=True)

    def kept_for_later(self) -> dict[str, Any]:
        """The state for `execute_complete`, with the function's variables as far as they show no secret."""
        known = {name: str(value) for name, value in self._variables_given.items()}
        shown = {name: value for name, value in known.items() if self.without_secrets(value) == value}
        return {
            **super().kept_for_later(),
            "variables": shown,
            "secret_names": [name for name in known if name not in shown],
        }

    def _asked(self, context: Context) -> Any:
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        return self.python_callable(*self.op_args, **arguments)

    def _asked_again(self, context: Context) -> Mapping[str, Any]:
        try:
            given = self._asked(context)
        except Exception:
            # The run has ended: what became of it says more than the failure to describe it.
            self.log.exception("The function's variables with secrets are not known any more")
            return {}
        return given if isinstance(given, dict) else {}

    @contextmanager
    def _folder_for_text(self, context: Context) -> Iterator[Path]:
        """The folder for a pipeline that is no file: where a remote driver can see it, if there is such a folder.

        It is kept while the task is deferred, because the driver may read it later.
        """
        self._resolve_work_dir()
        shared = None if self.work_dir is None or validation.is_remote(self.work_dir) else Path(self.work_dir)
        if shared is not None:
            shared.mkdir(parents=True, exist_ok=True)
        if shared is None or not self.deferrable:
            with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=shared) as private:
                yield Path(private)
            return
        # All attempts have the same one: a further attempt may go on with the job of the one before.
        folder = shared / f"{_FOLDER}{execution.execution_id(**execution.instance(context), try_number=0)}"
        folder.mkdir(exist_ok=True)
        folder.chmod(shared.stat().st_mode & 0o7777)
        try:
            yield folder
        except TaskDeferred:
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        else:
            shutil.rmtree(folder, ignore_errors=True)

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
                self._variables_given = dict(given or {})
                self.env_vars = {**(self.env_vars or {}), **self._variables_given}
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
        # The driver of an earlier attempt may be reading it.
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
        self.pipeline = str(path)


def clinker_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a task of a function that returns a pipeline to run; `kwargs` go to `ClinkerDecoratedOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=ClinkerDecoratedOperator, **kwargs
    )

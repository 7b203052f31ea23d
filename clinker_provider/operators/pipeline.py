"""The base of operators with a pipeline: its path, its context, and when it is checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.common.compat.sdk import BaseOperator, conf, get_parsing_context, mask_secret, redact

from clinker_provider import outcome, validation
from clinker_provider.exceptions import ClinkerConfigError, ClinkerPipelineInvalid
from clinker_provider.hooks.clinker_spark import secrets_of
from clinker_provider.links.clinker import CONFIG_SECTION
from spark_jobs import credentials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2
    from airflow.providers.common.compat.sdk import Context

    from spark_jobs.plan.remembered import Verdict
    from spark_jobs.stores.location import FilePath


class PipelineOperator(BaseOperator):
    """An operator with a pipeline file. Not used by itself.

    :param pipeline: pipeline file, or its URI in a store; relative to `pipeline_root`, by default the folder of the DAG
        file (templated)
    :param pipeline_root: folder that relative pipeline paths start from (templated)
    :param base_dir: what paths inside the pipeline are relative to; default: the pipeline's folder (templated)
    :param rules_path: folder of CXL modules (templated)
    :param channel: channel file or name (templated)
    :param environment: active environment, as `clinker run --env` takes it (templated)
    :param allow_absolute_paths: whether the pipeline may name absolute paths
    :param env_vars: environment of the run; the pipeline's `${NAME}` see it (templated)
    :param validate: `parse`: check everything but templated values when the DAG file is parsed, and everything again
        before the run; `execute`: check before the run only; `off`: leave it to the job.
        Default: Airflow's configuration `[clinker] validate`, else `parse`.
    """

    template_fields: Sequence[str] = (
        "pipeline",
        "pipeline_root",
        "base_dir",
        "rules_path",
        "channel",
        "environment",
        "env_vars",
    )

    def __init__(
        self,
        *,
        pipeline: str | Path,
        pipeline_root: str | Path | None = None,
        base_dir: str | Path | None = None,
        rules_path: str | Path | None = None,
        channel: str | Path | None = None,
        environment: str | None = None,
        allow_absolute_paths: bool = False,
        env_vars: dict[str, Any] | None = None,
        validate: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = validation.as_text(pipeline)
        self.pipeline_root = validation.as_text(pipeline_root)
        self.base_dir = validation.as_text(base_dir)
        self.rules_path = validation.as_text(rules_path)
        self.channel = validation.as_text(channel)
        self.environment = environment
        self.allow_absolute_paths = allow_absolute_paths
        self.env_vars = env_vars
        self.validate = (
            validation.Validate.of(validate, "validate")
            if validate
            else validation.Validate.of(conf.get(CONFIG_SECTION, "validate", fallback=None), "[clinker] validate")
        )
        self._validate_when_parsed()

    def subject(self) -> validation.Subject:
        """The pipeline with its context, from rendered values.

        Raises:
            ClinkerConfigError: when the pipeline's path is relative and nothing says to what, or a URI leads nowhere.
        """
        try:
            path = self._resolved_pipeline()
            base_dir, rules_path = _path(self.base_dir), _path(self.rules_path)
        except ValueError as error:  # `BadLocation` is one
            raise ClinkerConfigError(f"pipeline {self.pipeline!r}: {error}", exit_code=1) from error
        if path is None:
            raise ClinkerConfigError(
                f"pipeline {self.pipeline!r} is relative, and neither `pipeline_root` nor a DAG file is known",
                exit_code=1,
            )
        return validation.Subject(
            pipeline=path,
            base_dir=base_dir,
            rules_path=rules_path,
            channel=self.channel,
            environment=self.environment,
            allow_absolute_paths=self.allow_absolute_paths,
            variables=self._variables(),
        )

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render, and hide secrets before Airflow stores the rendered values."""
        super().render_template_fields(context, jinja_env)
        self.hide_secrets()

    def hide_secrets(self) -> None:
        """Have Airflow hide the secrets in its logs, its stored values and the texts of errors."""
        for secret in credentials.Secrets.of(self.secrets()).values:
            mask_secret(secret)

    def secrets(self) -> list[str]:
        """The secrets that the task was given, whatever they are called.

        By their names, by their form, and because the pipeline sends them as a credential.
        """
        return [*secrets_of(self.given()), *self._sent()]

    def given(self) -> dict[str, Any]:
        """The values that may contain secrets, by the hook's names."""
        return {"env_vars": self.env_vars if isinstance(self.env_vars, dict) else None}

    def without_secrets(self, text: str) -> str:
        """A text for logs and errors."""
        return str(redact(credentials.Secrets.of(self.secrets()).masked(text)))

    def _sent(self) -> list[str]:
        path = None if self.is_in_store else self._resolved_pipeline()
        if path is None or not isinstance(self.env_vars, dict | None):
            return []
        return validation.credentials_of(self.subject())

    def plan_of(self, subject: validation.Subject, arguments: Sequence[str] = ()) -> str:
        """The plan as text, short enough for a rendered field. `arguments` are the options of its run."""
        # Airflow cuts longer values, and puts a note about its settings in front.
        limit = conf.getint("core", "max_templated_field_length", fallback=4096)
        return validation.shortened(validation.explain(subject, arguments), limit)

    def _variables(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in (self.env_vars or {}).items()}

    def _resolved_pipeline(self) -> FilePath | None:
        folder = None
        dag = self.get_dag()
        if dag and dag.fileloc:
            folder = str(Path(dag.fileloc).parent)
        return validation.resolve(str(self.pipeline), root=self.pipeline_root, dag_folder=folder)

    @property
    def is_in_store(self) -> bool:
        """Whether the pipeline, or something that belongs to it, is in a store, which no DAG processor asks."""
        given = (self.pipeline, self.base_dir, self.rules_path, self.channel)
        return any(validation.is_remote(str(each)) for each in given if each is not None)

    def _is_known_when_parsed(self) -> bool:
        """Whether no parameter that changes the meaning of the pipeline is a template."""
        values = (
            self.pipeline,
            self.pipeline_root,
            self.base_dir,
            self.rules_path,
            self.channel,
            self.environment,
            self.env_vars,
        )
        is_here = not self.is_in_store and self._resolved_pipeline() is not None
        return is_here and validation.is_static(*values)

    @property
    def is_checked_when_parsed(self) -> bool:
        """Whether the pipeline is checked now, while the DAG file is parsed."""
        # A worker parses the file once more for every try; there `execute` does the checking.
        return self.validate is validation.Validate.PARSE and get_parsing_context().task_id is None

    def _validate_when_parsed(self) -> None:
        if not self.is_checked_when_parsed:
            return
        place = [self.pipeline]
        if not Path(str(self.pipeline)).is_absolute():
            place.append(self.pipeline_root)
        if not validation.is_static(*place) or self.is_in_store or not self._resolved_pipeline():
            return
        errors = validation.errors_of(self._problems())
        if errors:
            raise self.invalid(validation.message(errors))

    def verdict(self) -> Verdict:
        """The result of planning the pipeline with its current parameters, cached while nothing has changed."""
        remembers = conf.getboolean(CONFIG_SECTION, "remember_valid", fallback=True)
        return validation.verdict_of(self.subject(), remembers=remembers)

    def _problems(self) -> Sequence[validation.Problem]:
        """The known problems. Checks that need the value of a template are turned off."""
        given = {
            "base_dir": self.base_dir,
            "rules_path": self.rules_path,
            "channel": self.channel,
            "environment": self.environment,
        }
        unknown = [name for name, value in given.items() if not validation.is_static(value)]
        names: list[str] | None = None
        if self.env_vars is None or (isinstance(self.env_vars, dict) and validation.is_static(*self.env_vars)):
            names = [name for name, value in (self.env_vars or {}).items() if not validation.is_static(value)]
        if not unknown and names == []:
            return self.verdict().problems
        known = {name: None if name in unknown else value for name, value in given.items()}
        subject = validation.Subject(
            pipeline=cast("Path", self._resolved_pipeline()),
            base_dir=_path(known["base_dir"]),
            rules_path=_path(known["rules_path"]),
            channel=known["channel"],
            environment=known["environment"],
            allow_absolute_paths=self.allow_absolute_paths,
            variables={} if names is None else self._variables(),
        )
        return validation.lasting_problems_of(subject, unknown, names)

    def invalid(self, reason: str) -> ClinkerPipelineInvalid:
        """An import error that names the file and the task."""
        dag = self.get_dag()
        where = f"{dag.fileloc}: DAG {dag.dag_id!r}, task" if dag else "task"
        shown = outcome.with_parameters(reason)
        return ClinkerPipelineInvalid(f"{where} {self.task_id!r}, pipeline {str(self.pipeline)!r}:\n{shown}")


def _path(value: str | None) -> FilePath | None:
    return validation.place_of(value) if value is not None else None

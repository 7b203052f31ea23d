"""Checks a pipeline inside Airflow, without Spark, and words its problems for Airflow.

Airflow renders templates only before `execute`. While a DAG file is parsed their values are unknown, and only problems
that no value can solve are reported. Input files need not exist: they may arrive later, or be visible to Spark alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_jobs.plan.remembered import Verdict
    from spark_jobs.stores.location import FilePath

_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


class Validate(StrEnum):
    """When an operator checks its pipeline."""

    PARSE = "parse"
    EXECUTE = "execute"
    OFF = "off"

    @classmethod
    def of(cls, written: str | None, where: str) -> Validate:
        """The choice that a word means; a blank is the default, and case does not count.

        Raises:
            ValueError: it is none of the words; the message names the setting.
        """
        word = (written or "").strip().lower()
        if word and word not in list(cls):
            raise ValueError(f"{where}: {written!r} is none of {', '.join(cls)}")
        return cls(word or cls.PARSE)


class Problem(Protocol):
    """The part of a diagnostic that the provider needs; `str()` is `path:line:col CODE message`."""

    @property
    def is_error(self) -> bool:
        """Whether the pipeline cannot run."""
        ...


@dataclass(frozen=True)
class Subject:
    """A pipeline and what its meaning depends on beside its text."""

    pipeline: FilePath
    base_dir: FilePath | None = None
    rules_path: FilePath | None = None
    channel: str | None = None
    environment: str | None = None
    allow_absolute_paths: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> Any:
        """The planner's options. Variables of the task take precedence over variables of the process."""
        from spark_jobs.plan import options

        return options.PlanOptions(
            base_dir=self.base_dir,
            rules_path=self.rules_path,
            channel=self.channel,
            environment=self.environment,
            allow_absolute_paths=self.allow_absolute_paths,
            variables={**os.environ, **self.variables},
        )


def is_static(*values: object) -> bool:
    """Whether the values are known when the DAG file is parsed: nothing templated, nothing that a task gives."""
    return all(_is_static(value) for value in values)


def _is_static(value: object) -> bool:
    match value:
        case None | bool() | int() | float() | Path():
            return True
        case str():
            return not _TEMPLATE.search(value)
        case dict():
            return is_static(*value.keys(), *value.values())
        case list() | tuple():
            return is_static(*value)
        case _:
            return False


def is_remote(path: str) -> bool:
    """Whether a path is a URL, which nothing here can open."""
    return bool(_REMOTE.match(path))


def resolve(pipeline: str, *, root: str | None, dag_folder: str | None) -> FilePath | None:
    """Resolve a pipeline file: a URI, absolute, or below the given root, or below the folder of the DAG file.

    None when it is relative and neither root nor DAG is known.

    Raises:
        BadLocation: it is a URI that leads nowhere.
    """
    if is_remote(pipeline):
        return place_of(pipeline)
    path = Path(pipeline)
    if path.is_absolute():
        return path
    folder = root or dag_folder
    return Path(os.path.normpath(Path(folder) / path)) if folder else None


def place_of(path: str) -> FilePath:
    """Parse a path or the URI of a store.

    Raises:
        BadLocation: it is a URI that leads nowhere.
    """
    from spark_jobs.stores import location

    return location.located(path)


def problems_of(subject: Subject) -> Sequence[Problem]:
    """The errors and warnings of a pipeline, by file and position, including problems that only a run reports."""
    from spark_jobs import plan

    found: Sequence[Problem] = plan.validate(subject.pipeline, options=subject.options(), to_run=True)
    return found


def verdict_of(subject: Subject, *, remembers: bool) -> Verdict:
    """The problems and datasets of a pipeline. A valid pipeline may be cached until something changes."""
    from spark_jobs.plan import remembered

    return remembered.verdict(subject.pipeline, subject.options(), remembers=remembers)


def lasting_problems_of(
    subject: Subject, unknown: Collection[str], variables: Collection[str] | None
) -> Sequence[Problem]:
    """The errors of a pipeline that are there whatever a template gives.

    Args:
        subject: the pipeline and the parameters that are known.
        unknown: what of `base_dir`, `rules_path`, `channel` and `environment` is not known.
        variables: the names of the variables that are not known; None for all.
    """
    from spark_jobs.plan import unknowns

    names = None if variables is None else frozenset(variables)
    return unknowns.problems(
        subject.pipeline, subject.options(), unknowns.Unknown(names, **dict.fromkeys(unknown, True))
    )


def errors_of(problems: Sequence[Problem]) -> list[Problem]:
    """The problems that stop a run."""
    return [problem for problem in problems if problem.is_error]


def is_refused(problem: Problem) -> bool:
    """Whether a problem is that a store refuses, or cannot be reached from here."""
    from spark_jobs.diagnostics import codes

    return getattr(problem, "code", None) is codes.E910


def explain(subject: Subject, arguments: Sequence[str] = ()) -> str:
    """The plan of a valid pipeline as text, as `clinker run --explain` prints it.

    `arguments` are the arguments of its `clinker run`; the plan shows its memory and threads.
    """
    from spark_jobs import plan

    options = subject.options()
    if arguments:
        from spark_jobs.cli import clinker

        options = replace(clinker.run_options(arguments), variables=options.variables)
    return str(plan.explain_text(subject.pipeline, options))


def credentials_of(subject: Subject) -> list[str]:
    """The credentials of a pipeline: the values of the variables below `auth:`, and values derived from them.

    Empty for a pipeline with errors: it is not run, and its messages hide credentials.
    """
    from spark_jobs import plan as planning
    from spark_jobs.diagnostics.diagnostic import DiagnosticError

    options = subject.options()
    try:
        plan = planning.load(subject.pipeline, options)
    except DiagnosticError:
        return []
    values = [options.lookup[name] for name in plan.credential_variables if name in options.lookup]
    endpoints = [step.endpoint for step in plan.sources.values() if step.endpoint is not None]
    return [*values, *(secret for endpoint in endpoints for secret in endpoint.secrets)]


def outputs_of(subject: Subject) -> list[str]:
    """The names of the outputs of a valid pipeline."""
    from spark_jobs import plan

    return list(plan.load(subject.pipeline, subject.options()).outputs)


def stores_of(subject: Subject) -> Any:
    """The settings of a pipeline's object stores from its workspace, whatever is wrong with the pipeline."""
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.reading import workspace

    base = subject.base_dir or subject.pipeline.parent
    # A workspace in a store cannot say how stores are reached: the environment or the working directory's file does.
    folder = Path(os.path.abspath(base)) if isinstance(base, os.PathLike) else Path.cwd()
    return workspace.load(folder, Diagnostics()).storage.stores


def shortened(text: str, limit: int) -> str:
    """The text, or as many of its lines as fit into `limit` characters with a last line that says so."""
    if len(text) <= limit:
        return text
    note = "\n… (`clinker run --explain` shows all of it)"
    return text[: max(text.rfind("\n", 0, max(limit - len(note), 0)), 0)] + note


def wrong_arguments(arguments: Sequence[str]) -> str | None:
    """Why `clinker run` would refuse its command line; None when it takes it."""
    from spark_jobs.cli import clinker, command_line

    try:
        clinker.run_options(arguments)
    except command_line.WrongCommandLine as error:
        return f"`clinker run` does not take what it would be given: {error}"
    return None


def as_text(value: Any) -> Any:
    """A path as text, as everything goes on that a template or a command line may hold; the rest as it is."""
    return str(value) if isinstance(value, PurePath) else value


def message(problems: Sequence[Problem]) -> str:
    """The problems as Airflow's pages show them: one line each first, then each with its excerpt and help."""
    from spark_jobs.diagnostics import render

    lines = "\n".join(str(problem) for problem in problems)
    return f"{lines}\n\n{render.full(cast('Any', problems)).rstrip()}"

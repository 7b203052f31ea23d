"""A folder of pipelines as a task group: a task for each, in the order of the files that they read and write."""

from __future__ import annotations

import fnmatch
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import TaskGroup, get_parsing_context

from clinker_provider.exceptions import ClinkerPipelineInvalid
from clinker_provider.operators.spark import ClinkerSparkOperator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.plan.explain.datasets import Datasets

#: A top-level key that only pipeline files have; channels, modules and cases have others.
_PIPELINE = re.compile(r"^(?:pipeline|nodes)\s*:", re.MULTILINE)
#: Cases of pipelines, which name pipelines themselves.
_NO_PIPELINES = ("*.test.yaml", "*.test.yml")


class ClinkerTaskGroup(TaskGroup):
    """One `ClinkerSparkOperator` for each pipeline of a folder.

    A task waits for those whose outputs its sources read: the same path or URI, or a pattern that matches it. Places
    that only a run knows make no order; set those with `>>`.

    :param folder: the folder, absolute or relative to the DAG file's
    :param group_id: default: the folder's name
    :param pattern: which files of it, as a glob
    :param operator_args: what every operator takes
    :param overrides: what single operators take beside or instead, by the name of their file without its ending
    :param kwargs: everything that `TaskGroup` takes
    """

    def __init__(
        self,
        *,
        folder: str | Path,
        group_id: str | None = None,
        pattern: str = "**/*.y*ml",
        operator_args: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_id=group_id or Path(folder).name, **kwargs)
        root = self._root(Path(folder))
        files = {_task_id(path, root): path for path in sorted(root.glob(pattern)) if _is_pipeline(path)}
        if not files:
            raise ClinkerPipelineInvalid(f"{root} has no pipeline that {pattern!r} matches")
        if unknown := sorted((overrides or {}).keys() - files.keys()):
            raise ClinkerPipelineInvalid(f"overrides: {root} has no pipeline {unknown[0]!r}; it has {sorted(files)}")
        self.tasks_by_name: dict[str, ClinkerSparkOperator] = {}
        for name, path in files.items():
            arguments = {**(operator_args or {}), **(overrides or {}).get(name, {})}
            self.tasks_by_name[name] = ClinkerSparkOperator(
                task_id=name, pipeline=str(path), task_group=self, dag=self.dag, **arguments
            )
        # A worker parses the file for one task, which runs whatever the order is.
        if get_parsing_context().task_id is None:
            self._order()

    def _root(self, folder: Path) -> Path:
        dag = self.dag
        if folder.is_absolute() or not dag or not dag.fileloc:
            return folder
        # Unit tests name the folder of DAG files by a relative path.
        return Path(dag.fileloc).parent.absolute() / folder

    def _order(self) -> None:
        known = {name: task.datasets_when_parsed() for name, task in self.tasks_by_name.items()}
        found = {name: each for name, each in known.items() if each is not None}
        waits = {name: _upstream(name, found) for name in found}
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise ClinkerPipelineInvalid(f"pipelines read each other's outputs in a circle: {circle}") from error
        for name, upstream in waits.items():
            for other in sorted(upstream):
                self.tasks_by_name[other] >> self.tasks_by_name[name]


def _is_pipeline(path: Path) -> bool:
    if not path.is_file() or any(fnmatch.fnmatch(path.name, each) for each in _NO_PIPELINES):
        return False
    return _PIPELINE.search(path.read_text(encoding="utf-8", errors="replace")) is not None


def _task_id(path: Path, root: Path) -> str:
    """The path below the folder without its ending, fit for Airflow."""
    return re.sub(r"[^\w-]+", "_", path.relative_to(root).with_suffix("").as_posix())


def _upstream(name: str, found: Mapping[str, Datasets]) -> set[str]:
    """The pipelines whose outputs a pipeline reads."""
    wanted = found[name]
    uris = {each.uri for each in wanted.sources if each.uri}
    # `*` matches across folders here, so `**/` needs no folder.
    patterns = [each.pattern.replace("**/", "*") for each in wanted.sources if each.pattern]
    return {
        other
        for other, mine in found.items()
        if other != name
        for output in mine.outputs
        if output.uri and (output.uri in uris or any(fnmatch.fnmatchcase(output.uri, pattern) for pattern in patterns))
    }

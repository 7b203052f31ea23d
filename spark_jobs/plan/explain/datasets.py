"""The datasets that a pipeline reads and writes according to its plan: URIs and columns.

A URI is None where only the run knows it: paths with tokens, patterns that match files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from spark_jobs.nodes.output.step import IfExists
from spark_jobs.plan import paths
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan.plan import Plan
    from spark_jobs.result import RunResult
    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class Column:
    """A column and its type in the words of CXL, whether it may be null or not."""

    name: str
    type: str


@dataclass(frozen=True)
class Dataset:
    """The files of one source, or the file of one output. `pattern` is a glob of URIs if the source has one."""

    node: str
    uri: str | None
    columns: tuple[Column, ...]
    pattern: str | None = None

    @property
    def schema(self) -> list[dict[str, str]]:
        """The columns as JSON has them."""
        return [{"name": column.name, "type": column.type} for column in self.columns]


@dataclass(frozen=True)
class Datasets:
    """The datasets that a pipeline reads and writes.

    Args:
        pipeline: its name.
        sources: one for each file that a source names, or one without a URI.
        outputs: one for each output.
    """

    pipeline: str
    sources: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]


def of_plan(plan: Plan) -> Datasets:
    """The datasets of a plan."""
    sources = [
        Dataset(name, uri, _columns(step), _pattern(step, plan.base_dir))
        for name, step in plan.sources.items()
        for uri in _read(step, plan.base_dir)
    ]
    outputs = [Dataset(name, _written(step, plan.base_dir), _columns(step)) for name, step in plan.outputs.items()]
    return Datasets(plan.name, tuple(sources), tuple(outputs))


def uri_of(path: str, base_dir: FilePath) -> str:
    """The URI of a file: of a store as it is, of a local path with its absolute form."""
    if location.is_uri(path) and location.scheme_of(path) != "file":
        return location.without_credentials(path)
    found = location.absolute(location.located(path, base_dir))
    return str(found) if isinstance(found, location.Location) else found.as_uri()


def published_datasets(found: Datasets, record: RunResult) -> list[tuple[Dataset, dict[str, Any], list[str]]]:
    """The outputs that a run published, each with its fields of the result record, and its files."""
    known = {each.node: each for each in found.outputs}
    files = iter(record.output_files)
    published = []
    for each in record.outputs:
        own = [file for _, file in zip(range(int(each["files"])), files, strict=False)]
        if each["name"] in known:
            published.append((known[each["name"]], dict(each), own))
    return published


def shared_uri(files: Sequence[str]) -> str | None:
    """The URI of a file, or of the folder that several share; None of none."""
    if len(files) < 2:
        return uri_of(files[0], Path("/")) if files else None
    folders = {file.rpartition("/")[0] for file in files}
    return uri_of(folders.pop() if len(folders) == 1 else _common(folders), Path("/"))


def _common(folders: Iterable[str]) -> str:
    pieces = [folder.split("/") for folder in folders]
    shared = [level[0] for level in zip(*pieces, strict=False) if len(set(level)) == 1]
    # A folder that has the first level alone in common has the root.
    return "/".join(shared) or "/"


def _columns(step: SourceStep | OutputStep) -> tuple[Column, ...]:
    return tuple(Column(column.name, str(replace(column.type, nullable=False))) for column in step.columns)


def _read(step: SourceStep, base_dir: FilePath) -> list[str | None]:
    if step.endpoint is not None:
        place = urlsplit(step.endpoint.url)
        host = f"{place.hostname or ''}{f':{place.port}' if place.port else ''}"
        return [f"{place.scheme}://{host}{place.path}"]
    if not step.file_format.has_files and not step.file_format.is_in_folder:
        return [step.options.dataset]
    paths = [step.match.path, *step.match.paths] if step.match.path else [*step.match.paths]
    return [uri_of(path, base_dir) for path in paths] or [None]


def _pattern(step: SourceStep, base_dir: FilePath) -> str | None:
    """The glob of a source as one of URIs, whose signs are not encoded."""
    glob = step.match.glob
    if glob is None or location.is_uri(glob):
        return glob
    if isinstance(base_dir, location.Location) and not os.path.isabs(glob):
        return str(base_dir.below(glob))
    return "file://" + quote(os.path.abspath(os.path.join(str(base_dir), glob)), safe="/*?[]!")


def _written(step: OutputStep, base_dir: FilePath) -> str | None:
    if not step.has_path:
        dataset: str | None = step.options.dataset
        return dataset
    if paths.tokens(step.path) or (step.if_exists is IfExists.UNIQUE_SUFFIX and step.split is None):
        return None
    return uri_of(paths.render(step.path, {}), base_dir)

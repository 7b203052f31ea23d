"""Packs a pipeline with all that planning reads, for a driver on a machine that has none of these files."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.disk import small_files
from spark_jobs.nodes import registry
from spark_jobs.plan.reading import interpolation, workspace_file
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath
    from spark_jobs.stores.settings import StoreSettings

#: The folder that Spark unpacks the files into, below the working directory of a driver on a cluster.
FOLDER = "clinker-definitions"
#: The folder in it for a pipeline file that is not among the others.
_ALONE = ".clinker-pipeline"
#: No file that planning reads is longer.
_MOST_BYTES = 16 << 20


class NotShippable(ValueError):
    """A pipeline that cannot run on a machine with which nothing is shared; the message says what to change."""


@dataclass(frozen=True)
class Shipment:
    """A pipeline as a driver elsewhere finds it. Paths are relative to its working directory.

    Args:
        archive: the ZIP file, as Spark takes it: `path#folder`; None if all is in a store, and the driver reads it.
        pipeline: the pipeline file.
        options: the options of planning, with the folders of the driver.
        stores: how the pipeline's object stores are reached.
        variables: the names of the environment variables that its files refer to.
    """

    archive: str | None
    pipeline: FilePath
    options: PlanOptions
    stores: StoreSettings
    variables: frozenset[str]


def pack(pipeline: FilePath, options: PlanOptions, target: Path, *, metrics_dir: str | None = None) -> Shipment:
    """Write the ZIP file of a pipeline: its file, and each file that planning it reads.

    Args:
        pipeline: the pipeline file.
        options: how it is planned here.
        target: the ZIP file to write.
        metrics_dir: where the run leaves its metrics, if not where the pipeline says.

    Raises:
        DiagnosticError: the pipeline has errors.
        NotShippable: it reads or writes local files by relative paths, or needs a file outside its base folder.
        OSError: a file cannot be read, or the ZIP file cannot be written.
    """
    from spark_jobs import plan as planning
    from spark_jobs.plan import planner

    with planner.reaching(pipeline, options), small_files.recorded() as recorded:
        plan = planning.load(pipeline, options)
        variables = frozenset(name for path in tuple(recorded.read) for name in _variables(path))
    if local := sorted(set(_relative(plan, metrics_dir))):
        raise NotShippable(
            f"the driver runs on another machine, where relative paths lead nowhere: {', '.join(local)}. "
            "Write URIs of a store, or absolute paths of a mount that all machines share"
        )
    files = [each for each in recorded.read if isinstance(each, Path)]
    base = location.absolute(options.base_dir or pipeline.parent)
    if isinstance(base, location.Location) or isinstance(pipeline, location.Location):
        if files:
            raise NotShippable(
                f"the pipeline or its base folder is in a store, and {files[0]} is on this machine: put all of them "
                "into the store, or none"
            )
        return Shipment(None, pipeline, options, plan.stores, variables)
    workspace = workspace_file.find(base)
    root = workspace.parent if isinstance(workspace, Path) else base
    written = Path(os.path.abspath(pipeline))
    # Nothing is relative to a pipeline file outside its base folder, so it may be anywhere.
    there = written.relative_to(root) if written.is_relative_to(root) else Path(_ALONE, written.name)
    rules = location.absolute(options.rules_path) if options.rules_path else None
    if isinstance(rules, location.Location):
        raise NotShippable(f"modules are in {rules}, and the pipeline is here: put all of them into the store, or none")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path in sorted(files):
            archive.write(path, str(_below(root, path) if path != written else there))
        # The folders have to be there, even where no file in them is read.
        for folder in filter(None, [base, rules]):
            if folder != root:
                archive.mkdir(str(_below(root, folder)))
    channel = options.channel
    if channel and os.path.isfile(channel):
        channel = _there(root, Path(os.path.abspath(channel)))
    return Shipment(
        archive=f"{target}#{FOLDER}",
        pipeline=Path(FOLDER) / there,
        options=replace(
            options,
            base_dir=Path(_there(root, base)),
            rules_path=Path(_there(root, rules)) if rules else None,
            channel=channel,
        ),
        stores=plan.stores,
        variables=variables,
    )


def _relative(plan: Plan, metrics_dir: str | None) -> Iterator[str]:
    """The relative paths of data that a plan reads or writes, with who names them."""
    named = [(target.path, label) for label, target in plan.errors.targets.items()]
    named += [(plan.bookmark, "the bookmark"), (metrics_dir or plan.metrics_dir, "the metrics")]
    for planned in plan.nodes:
        if planned.step is not None:
            files = registry.described(planned.kind).files(planned.step)
            named += [(file, f"{planned.kind} '{planned.name}'") for file in files]
    if isinstance(plan.base_dir, location.Location):
        named = [(metrics_dir, "the metrics")]  # the others start there
    for path, label in named:
        if path and not location.is_uri(path) and not os.path.isabs(path):
            yield f"`{path}` ({label})"


def _variables(path: FilePath) -> list[str]:
    return interpolation.names(small_files.read(path, _MOST_BYTES).decode("utf-8", "replace"))


def _below(root: Path, path: Path) -> Path:
    try:
        return path.relative_to(root)
    except ValueError:
        raise NotShippable(
            f"{path} is outside {root}, and only what is below it travels with the job: move it there, or give a "
            "`base_dir` that has all of the pipeline's files"
        ) from None


def _there(root: Path, path: Path) -> str:
    return os.path.normpath(Path(FOLDER) / _below(root, path))

"""Where a run's files go: paths, what stands there already, and putting part files together."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.execute import inputs, publish, verdict
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output.step import IfExists
from spark_jobs.plan import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.execute.executor import Run
    from spark_jobs.execute.identity import Identity
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.plan import plan as plans
    from spark_jobs.plan.options import RunOptions


@dataclass(frozen=True)
class Target:
    """An output's final file."""

    name: str
    step: OutputStep
    path: Path


@dataclass(frozen=True)
class Targets:
    """All files that a run publishes; `letters` has the dead-letter files by source, the common one under `""`."""

    outputs: tuple[Target, ...]
    letters: dict[str, str] = field(default_factory=dict)
    home: Path = field(default_factory=Path)


def resolve(plan: plans.Plan, identity: Identity, options: RunOptions) -> Targets:
    """The final paths of a run."""
    values = {
        "execution_id": identity.execution_id,
        "batch_id": identity.batch_id,
        "timestamp": identity.started.strftime("%Y-%m-%dT%H-%M-%SZ"),
    }
    found: list[Target] = []
    for planned in plan.nodes:
        if planned.kind == "output":
            step: Any = planned.step
            path = Path(plan.base_dir, paths.render(step.path, values))
            if step.if_exists is IfExists.UNIQUE_SUFFIX:
                path = _unused(path, step.unique_suffix_width, {target.path for target in found})
            found.append(Target(planned.name, step, path))
    errors = plan.errors
    letters = {
        name: str(Path(plan.base_dir, paths.render(target.path, values)))
        for name, target in [("", errors.dead_letters), *errors.per_source.items()]
        if target.path
    }
    home = (
        found[0].path.parent if found else Path(next(iter(letters.values()))).parent if letters else Path(plan.base_dir)
    )
    return Targets(tuple(found), letters, options.work_dir or home)


def _unused(path: Path, width: int, taken: set[Path]) -> Path:
    """The path, or the first free one with `-1`, `-2`, … before the extension (spec/formats.md 11.7)."""
    candidate, number = path, 0
    while candidate.exists() or candidate in taken:
        number += 1
        candidate = path.with_name(f"{path.stem}-{number:0{width}d}{path.suffix}")
    return candidate


def refuse_existing(targets: Targets, options: RunOptions) -> None:
    """Stop before any work when a file is in the way and nobody agreed to replace it (decisions 31 and 54).

    Asked again before publishing: another run may have published meanwhile.
    """
    paths = [target.path for target in targets.outputs] + [Path(path) for path in targets.letters.values()]
    folders = [str(path) for path in paths if path.is_dir()]
    if folders:
        raise RunFailed(ExitCode.IO, "E902", f"{', '.join(folders)} is a folder: a file cannot be written there")
    if options.force:
        return
    blocked = [str(t.path) for t in targets.outputs if t.step.if_exists is not IfExists.OVERWRITE and t.path.exists()]
    blocked += [path for path in targets.letters.values() if os.path.exists(path)]
    if blocked:
        raise RunFailed(
            ExitCode.IO,
            "E902",
            f"{', '.join(blocked)} exists already: use --force, or if_exists: overwrite in the output's config",
        )


def refuse_own_files(plan: plans.Plan, found: inputs.Inputs, targets: Targets) -> None:
    """No consent covers what the run is made of: the pipeline file and its inputs."""
    own = {os.path.realpath(plan.path): "the pipeline itself"}
    for name, scan in found.scans.items():
        files = [known.file.origin or known.file.path for known in scan.files]
        own |= {os.path.realpath(path): f"an input of source '{name}'" for path in files}
    for path in [*(str(target.path) for target in targets.outputs), *targets.letters.values()]:
        if what := own.get(os.path.realpath(path)):
            raise RunFailed(ExitCode.IO, "E902", f"{path} is {what}: write to another path")


def assemble(run: Run, targets: Targets, folders: dict[str, str]) -> list[publish.Rename]:
    """Put the parts of each output together in their staging folders."""
    assert run.inputs is not None
    widened = inputs.widened(run.plan, run.inputs)
    renames: list[publish.Rename] = []
    for target in targets.outputs:
        try:
            renames += _assembled(run, target, Path(folders[target.name]), widened[target.name])
        except OSError as error:
            raise verdict.broken(run.plan, "E900", f"{target.path}: {error.strerror or error}", target.name) from error
        run.output_files.append(str(target.path))
    return renames


def _assembled(run: Run, target: Target, folder: Path, widened: Sequence[str]) -> list[publish.Rename]:
    """The staged file of an output, and its sidecar."""
    assert run.inputs is not None
    writer = output_run.writer(target.step, widened, inputs.widened_type(run.inputs))
    # Not the file's own name: with a suffix that could be too long for the file system.
    staged = folder / f"{uuid.uuid5(uuid.NAMESPACE_OID, target.name).hex}.whole"
    found = run.tally.parts_of(target.name)
    parts = [part.path for part in found if part.bytes]
    if parts:
        publish.join(parts, staged, start=writer.start, separator=writer.separator, end=writer.end)
    else:
        staged.write_bytes(writer.empty)
    renames = [publish.Rename(str(staged), str(target.path))]
    if target.step.write_meta:
        renames.append(_sidecar(run, target, staged, sum(part.bytes for part in found)))
    return renames


def _sidecar(run: Run, target: Target, staged: Path, size: int) -> publish.Rename:
    """`<file>.meta.json` beside an output: the facts of the run that wrote it (spec/formats.md 11.8)."""
    now = datetime.now(UTC)
    facts = {
        "pipeline_path": str(run.plan.path),
        "pipeline_hash": run.plan.source_hash,
        "pipeline_hash_short": run.plan.source_hash[:8],
        "clinker_version": _version(),
        "run_started_at": run.identity.started.isoformat(),
        "run_finished_at": now.isoformat(),
        "elapsed_total_ms": int((now - run.identity.started).total_seconds() * 1000),
        "execution_id": run.identity.execution_id,
        "batch_id": run.identity.batch_id,
        "output_name": target.step.label or target.name,
        "resolved_path": str(target.path),
        "record_count": run.tally.counters[target.name].records_out if target.name in run.tally.counters else 0,
        "bytes_written": size,
        "dlq_counts": run.tally.dead_per_category,
    }
    path = staged.with_suffix(".meta")
    path.write_text(json.dumps(facts, indent=2) + "\n")
    return publish.Rename(str(path), f"{target.path}.meta.json")


def _version() -> str:
    """The installed version; a cluster gets the package as a zip, without the distribution's record."""
    try:
        return metadata.version("airflow-provider-clinker")
    except metadata.PackageNotFoundError:
        return "unknown"

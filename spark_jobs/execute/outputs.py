"""Where a run's files go: paths, what stands there already, and putting part files together."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.execute import inputs, publish
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import cell_text, format
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output.step import IfExists
from spark_jobs.plan import paths
from spark_jobs.scan import scanning
from spark_jobs.scan.reading import SplitOutcome

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
    """Stop before any work when a file is in the way and nobody agreed to replace it (decisions 31 and 54)."""
    if options.force:
        return
    blocked = [str(t.path) for t in targets.outputs if t.step.if_exists is IfExists.ERROR and t.path.exists()]
    blocked += [path for path in targets.letters.values() if os.path.exists(path)]
    if blocked:
        raise RunFailed(
            ExitCode.IO,
            "E902",
            f"{', '.join(blocked)} exists already: use --force, or if_exists: overwrite in the output's config",
        )


def assemble(run: Run, targets: Targets, folders: dict[str, str]) -> list[publish.Rename]:
    """Put the parts of each output together in their staging folders."""
    assert run.inputs is not None
    widened = inputs.widened(run.plan, run.inputs)
    renames = []
    for target in targets.outputs:
        writer = output_run.writer(target.step, widened[target.name], inputs.widened_type(run.inputs))
        staged = Path(folders[target.name]) / f"{target.path.name}.whole"
        parts = [part.path for part in run.tally.parts_of(target.name) if part.bytes]
        if parts:
            publish.join(parts, staged, start=writer.start, separator=writer.separator, end=writer.end)
        else:
            staged.write_bytes(writer.empty)
        renames.append(publish.Rename(str(staged), str(target.path)))
        run.output_files.append(str(target.path))
        if target.step.write_meta:
            renames.append(_sidecar(run, target, staged, sum(part.bytes for part in run.tally.parts_of(target.name))))
    return renames


def _sidecar(run: Run, target: Target, staged: Path, size: int) -> publish.Rename:
    """`<file>.meta.json` beside an output: the facts of the run that wrote it (spec/formats.md 11.8)."""
    now = datetime.now(UTC)
    facts = {
        "pipeline_path": str(run.plan.path),
        "pipeline_hash": run.plan.source_hash,
        "pipeline_hash_short": run.plan.source_hash[:8],
        "clinker_version": metadata.version("airflow-provider-clinker"),
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


@dataclass(frozen=True)
class Rereader:
    """Reads records again for dead letters whose record was not at hand."""

    inputs: inputs.Inputs

    def texts(self, split: int, rows: Sequence[int]) -> dict[int, list[str | None]]:
        """The texts of the declared columns of some records of a split, by row."""
        name, place = self.inputs.by_number[split]
        step = self.inputs.steps[name]
        wanted = format.Reading(
            columns=tuple(format.SourceColumn(c.name, c.type, c.required) for c in step.columns),
            failure_texts=True,
            date_formats=step.date_formats,
        )
        plan = format_without_widened(place.file_plan)
        found: dict[int, list[str | None]] = {}
        for block in scanning.read(
            step.format, place.split, plan, step.options, wanted, SplitOutcome(), step.array_paths
        ):
            here = [row for row in rows if block.first_row <= row < block.first_row + block.count]
            if here:
                found |= _texts(block, here, step)
            if rows and rows[-1] < block.first_row + block.count:
                break
        return found


def format_without_widened(plan: Any) -> Any:
    """A file plan that carries declared columns alone."""
    return replace(plan, columns=replace(plan.columns, widened=()))


def _texts(block: format.Block, rows: Sequence[int], step: Any) -> dict[int, list[str | None]]:
    places = (
        np.arange(block.first_row, block.first_row + block.batch.num_rows)
        if block.rows is None
        else block.rows.to_numpy()
    )
    position = np.searchsorted(places, rows)
    good = [(row, int(at)) for row, at in zip(rows, position, strict=True) if at < len(places) and places[at] == row]
    chosen = pa.array([at for _, at in good], pa.int64())
    columns = [cell_text.texts(block.batch.column(c.name).take(chosen), c.type).to_pylist() for c in step.columns]
    return {row: [column[i] for column in columns] for i, (row, _) in enumerate(good)}

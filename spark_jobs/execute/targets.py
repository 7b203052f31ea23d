"""Where a run's files go: the paths of its outputs and dead letters, and what stands there already."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.execute import chunks
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.nodes.output.step import IfExists
from spark_jobs.plan import paths
from spark_jobs.scan.files import network_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.plan import plan as plans
    from spark_jobs.plan.options import RunOptions


@dataclass(frozen=True)
class Delivery:
    """A file of an output, before it is split; about an input file where each has one of its own."""

    path: Path
    source_file: str | None = None


@dataclass(frozen=True)
class Target:
    """An output and its files."""

    name: str
    step: OutputStep
    deliveries: tuple[Delivery, ...]

    def in_the_way(self) -> list[Path]:
        """The files that are there and would be replaced."""
        split = self.step.split
        if split is None:
            return [each.path for each in self.deliveries if each.path.exists()]
        return [path for each in self.deliveries for path in chunks.existing(each.path, split.naming)]


@dataclass(frozen=True)
class Targets:
    """All files that a run publishes; `letters` has the dead-letter files by source, the common one under `""`."""

    outputs: tuple[Target, ...]
    letters: dict[str, str] = field(default_factory=dict)
    home: Path = field(default_factory=Path)

    @property
    def paths(self) -> list[Path]:
        """All of them."""
        outputs = [each.path for target in self.outputs for each in target.deliveries]
        return outputs + [Path(path) for path in self.letters.values()]


def resolve(plan: plans.Plan, identity: Identity, options: RunOptions, found: Inputs | None = None) -> Targets:
    """The final paths of a run.

    Without the inputs, outputs with a file for each input file have none yet.

    Raises:
        RunFailed: two outputs, or two input files of one, would be written to the same file (E322), or the name of
            an input file leads to another folder (E-SEC-001).
    """
    values = {
        "execution_id": identity.execution_id,
        "batch_id": identity.batch_id,
        "timestamp": identity.started.strftime("%Y-%m-%dT%H-%M-%SZ"),
    }
    outputs: list[Target] = []
    taken: set[Path] = set()
    for planned in plan.nodes:
        if planned.kind == "output":
            step: Any = planned.step
            deliveries = [
                Delivery(Path(plan.base_dir, paths.render(step.path, {**values, **tokens})), file)
                for file, tokens in _files(step, found)
            ]
            if step.if_exists is IfExists.UNIQUE_SUFFIX and step.split is None:
                deliveries = [Delivery(free(each.path, step, taken), each.source_file) for each in deliveries]
            outputs.append(Target(planned.name, step, tuple(deliveries)))
    errors = plan.errors
    letters = {
        name: str(Path(plan.base_dir, paths.render(target.path, values)))
        for name, target in [("", errors.dead_letters), *errors.per_source.items()]
        if target.path
    }
    _refuse_same(outputs)
    first = [each.path.parent for target in outputs for each in target.deliveries]
    first += [Path(path).parent for path in letters.values()]
    return Targets(tuple(outputs), letters, options.work_dir or (first or [Path(plan.base_dir)])[0])


def _files(step: OutputStep, found: Inputs | None) -> Iterable[tuple[str | None, dict[str, str]]]:
    """The input files that an output has a file for, each with the tokens that stand for it (spec/formats.md 11.6)."""
    if step.by_file is None:
        return [(None, {})]
    if found is None:
        return []
    if found.steps[step.by_file].endpoint is not None:
        name = network_file(step.by_file)
        return [(name, dict.fromkeys(paths.FAN_OUT_TOKENS, name))]
    names = [plan.file.name for plan in found.scans[step.by_file].files]
    for name in names:
        problem = paths.value_problem(Path(name).stem)
        if problem and "source_file" in paths.tokens(step.path):
            message = f"output '{step.name}': {{source_file}} of {name} cannot stand in a path: {problem}"
            raise RunFailed(ExitCode.CONFIG, "E-SEC-001", message)
    return [(name, {"source_file": Path(name).stem, "source_path": name.lstrip("/")}) for name in names]


def free(path: Path, step: OutputStep, taken: set[Path]) -> Path:
    """The path, or the first free one with `-1`, `-2`, … before the extension (spec/formats.md 11.7)."""
    candidate, number = path, 0
    while candidate.exists() or candidate in taken:
        number += 1
        candidate = path.with_name(f"{path.stem}-{number:0{step.unique_suffix_width}d}{path.suffix}")
    taken.add(candidate)
    return candidate


def _refuse_same(outputs: Iterable[Target]) -> None:
    counts = Counter(each.path for target in outputs for each in target.deliveries)
    for target in outputs:
        for each in target.deliveries:
            if counts[each.path] > 1:
                files = [str(other.source_file) for other in target.deliveries if other.path == each.path]
                what = f"{', '.join(files)} would all be" if len(files) > 1 else "it would be"
                advice = "; {source_path} in the path tells files of several folders apart" if len(files) > 1 else ""
                message = f"output '{target.name}': {what} written to {each.path}{advice}"
                raise RunFailed(ExitCode.CONFIG, "E322", message)


def refuse_existing(targets: Targets, options: RunOptions) -> None:
    """Stop before any work when a file is in the way and nobody agreed to replace it (decisions 31, 54 and 79).

    Asked again before publishing: another run may have published meanwhile.
    """
    folders = [str(path) for path in targets.paths if path.is_dir()]
    if folders:
        raise RunFailed(ExitCode.IO, "E902", f"{', '.join(folders)} is a folder: a file cannot be written there")
    if options.force:
        return
    strict = [target for target in targets.outputs if target.step.if_exists is IfExists.ERROR]
    blocked = [str(path) for target in strict for path in target.in_the_way()]
    blocked += [path for path in targets.letters.values() if os.path.exists(path)]
    if blocked:
        raise RunFailed(
            ExitCode.IO,
            "E902",
            f"{', '.join(blocked)} exists already: use --force, or if_exists: overwrite in the output's config",
        )


def refuse_own_files(plan: plans.Plan, found: Inputs, targets: Targets) -> None:
    """No consent covers what the run is made of: the pipeline file and its inputs."""
    own = {os.path.realpath(plan.path): "the pipeline itself"}
    for name, scan in found.scans.items():
        files = [known.file.origin or known.file.path for known in scan.files]
        own |= {os.path.realpath(path): f"an input of source '{name}'" for path in files}
    replaced = [path for target in targets.outputs for path in target.in_the_way()]
    for path in [*targets.paths, *replaced]:
        if what := own.get(os.path.realpath(path)):
            raise RunFailed(ExitCode.IO, "E902", f"{path} is {what}: write to another path")

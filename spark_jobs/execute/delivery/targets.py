"""The target paths of a run's outputs and dead letters, and the existing files at these paths."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.execute.delivery import chunks, parts
from spark_jobs.execute.delivery.destination import FileType
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.nodes.output.step import SIDECAR, IfExists
from spark_jobs.plan import paths
from spark_jobs.scan.files import RealPaths, network_file
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.execute.delivery.destination import Destination
    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.plan import plan as plans
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.stores.location import FilePath

#: The number of paths that a message shows.
_SHOWN = 3


@dataclass(frozen=True)
class Delivery:
    """A file of an output before splitting, and its input file if each input file has an output file of its own."""

    path: FilePath
    source_file: str | None = None


@dataclass(frozen=True)
class OutputFiles:
    """An output and its files."""

    name: str
    step: OutputStep
    deliveries: tuple[Delivery, ...]

    @property
    def sidecars(self) -> list[FilePath]:
        """The `write_meta` files of its files."""
        return [sidecar(each.path) for each in self.deliveries] if self.step.write_meta else []

    @property
    def paths(self) -> list[FilePath]:
        """The paths of its files; for a split output the unsplit path, for a folder of parts the first part."""
        return [self.first(each) for each in self.deliveries] + self.sidecars

    def first(self, delivery: Delivery) -> FilePath:
        """A file that is certainly written, or the first chunk of it."""
        return parts.part_path(delivery.path, self.step, 0) if self.step.parts else delivery.path

    def in_the_way(self, there: Destination[FilePath]) -> list[FilePath]:
        """The existing files that would be replaced; none for a table, which keeps its rows."""
        if self.step.is_table:
            return []
        if self.step.parts:
            known = [path for each in self.deliveries for path in parts.existing(there, each.path)]
            return known + _standing(there, self.sidecars)
        split = self.step.split
        if split is None:
            return _standing(there, self.paths)
        chunked = [path for each in self.deliveries for path in chunks.existing(there, each.path, split.naming)]
        return chunked + _standing(there, self.sidecars)


def _listed(found: Sequence[str]) -> str:
    """The first of some paths, and the number of the others: a folder may have a million parts."""
    more = len(found) - _SHOWN
    return ", ".join(found[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _standing(there: Destination[FilePath], paths: Iterable[FilePath]) -> list[FilePath]:
    return [path for path in paths if there.standing(path) is not FileType.NOTHING]


def sidecar(path: FilePath) -> FilePath:
    """The `write_meta` file beside a file."""
    return path.with_name(path.name + SIDECAR)


@dataclass(frozen=True)
class Targets:
    """All files that a run publishes; `dlq_paths` has the dead-letter files by source, the common one under `""`.

    `bookmark` is the file with the positions up to which incremental sources are read; None without such sources.
    """

    there: Destination[FilePath]
    outputs: tuple[OutputFiles, ...]
    dlq_paths: dict[str, FilePath] = field(default_factory=dict)
    home: Path = field(default_factory=Path)
    bookmark: FilePath | None = None

    @property
    def paths(self) -> list[FilePath]:
        """All files."""
        kept = [] if self.bookmark is None else [self.bookmark]
        return [path for target in self.outputs for path in target.paths] + [*self.dlq_paths.values(), *kept]

    @property
    def folders(self) -> list[FilePath]:
        """The folders of the files."""
        return [*dict.fromkeys(path.parent for path in self.paths)]

    def in_the_way(self) -> list[FilePath]:
        """The existing files that would be replaced."""
        return [path for target in self.outputs for path in target.in_the_way(self.there)] + self.dlq_files_in_the_way()

    def dlq_files_in_the_way(self) -> list[FilePath]:
        """The dead-letter files of an earlier run."""
        return _standing(self.there, self.dlq_paths.values())


def resolve(
    plan: plans.Plan, identity: Identity, options: RunOptions, there: Destination[FilePath], files: Inputs | None = None
) -> Targets:
    """The final paths of a run, and their destinations.

    Without the inputs, outputs with a file for each input file have none yet.

    Raises:
        RunFailed: two outputs, or two input files of one output, would be written to the same file (E322); or the
            name of an input file, or a link, leads to another folder (E-SEC-001).
    """
    values = {
        "execution_id": identity.execution_id,
        "batch_id": identity.batch_id,
        "timestamp": identity.started.strftime("%Y-%m-%dT%H-%M-%SZ"),
    }
    outputs: list[OutputFiles] = []
    taken = set[str]()
    for name, step in plan.outputs.items():
        deliveries = [
            Delivery(_path(plan, paths.render(step.path, {**values, **tokens})), file)
            for file, tokens in (_files(step, files) if step.has_path else ())
        ]
        if step.if_exists is IfExists.UNIQUE_SUFFIX and step.split is None:
            deliveries = [Delivery(free(there, each.path, step, taken), each.source_file) for each in deliveries]
        outputs.append(OutputFiles(name, step, tuple(deliveries)))
    errors = plan.errors
    dlq_paths = {
        name: _path(plan, paths.render(target.path, values))
        for name, target in [("", errors.dead_letters), *errors.per_source.items()]
        if target.path
    }
    found = Targets(there, tuple(outputs), dlq_paths, bookmark=_bookmark(plan))
    if not options.allow_absolute_paths:
        _refuse_escapes(found, plan.base_dir)
    _refuse_same(found)
    home = options.local_work_dir or next((each for each in found.folders if isinstance(each, Path)), plan.local_folder)
    return replace(found, home=home)


def _bookmark(plan: plans.Plan) -> FilePath | None:
    """The path of the bookmark: as configured by the pipeline or the workspace, or next to the first output."""
    if not plan.is_incremental:
        return None
    if plan.bookmark is not None:
        return _path(plan, plan.bookmark)
    folder = fixed_folder(plan)
    return folder / f".clinker-{paths.bookmark_name(plan.name, plan.channel)}"


def fixed_folder(plan: plans.Plan) -> FilePath:
    """The folder of the first output, as far as it is the same for all runs."""
    first = next((step for step in plan.outputs.values() if step.has_path), None)
    if first is None:
        return plan.base_dir
    folder = _path(plan, first.path).parent
    above: tuple[FilePath, ...] = (folder, *folder.parents)
    return next(each for each in above if "{" not in str(each))


def _path(plan: plans.Plan, rendered: str) -> FilePath:
    try:
        return location.located(rendered, plan.base_dir)
    except location.BadLocation as error:
        message = f'"{location.without_credentials(rendered)}" leads nowhere: {error.message}; {error.remedy}'
        raise RunFailed(ExitCode.CONFIG, "E-SEC-001", message) from error


def _files(step: OutputStep, found: Inputs | None) -> Iterable[tuple[str | None, dict[str, str]]]:
    """The input files for which an output has a file each, with the values of their path tokens."""
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
        if ".." in name.split("/") and "source_path" in paths.tokens(step.path):
            message = f"output '{step.name}': {{source_path}} of {name} cannot stand in a path: it has `..` in it"
            raise RunFailed(ExitCode.CONFIG, "E-SEC-001", message)
    return [(name, {"source_file": Path(name).stem, "source_path": _from_root(name)}) for name in names]


def _from_root(name: str) -> str:
    """A file's path without leading slashes; for an object its bucket and key."""
    return name.partition("://")[2] if location.is_uri(name) else name.lstrip("/")


def free(there: Destination[FilePath], path: FilePath, step: OutputStep, taken: set[str]) -> FilePath:
    """The path, or the first free one with `-1`, `-2`, … before the extension."""
    candidate, number = path, 0
    stem, ending = chunks.stem_and_ending(path)
    while _is_taken(there, candidate, step) or str(candidate) in taken:
        number += 1
        candidate = path.with_name(f"{stem}-{number:0{step.unique_suffix_width}d}{ending}")
    taken.add(str(candidate))
    return candidate


def _is_taken(there: Destination[FilePath], path: FilePath, step: OutputStep) -> bool:
    standing = there.standing(path)
    if step.parts and standing is FileType.FOLDER:
        return bool(parts.existing(there, path))
    return standing is not FileType.NOTHING


def _refuse_escapes(found: Targets, base_dir: FilePath) -> None:
    """Refuse files whose real path is outside the base folder. Checked again here, when all tokens have values."""
    for path in dict.fromkeys(replace(found, bookmark=None).paths):  # the bookmark's path is set by an option
        if not paths.is_inside(path, base_dir):
            message = f'path escapes base directory via symlink: "{path}" -> "{found.there.real(path)}"'
            raise RunFailed(ExitCode.CONFIG, "E-SEC-001", message)


def _refuse_same(found: Targets) -> None:
    """Refuse two files with the same path, and files inside an output's folder of parts.

    It is checked again here, because links are followed and input files are known.
    """
    writers: dict[str, list[str]] = {}
    for target in found.outputs:
        for each in target.deliveries:
            of = f" of {each.source_file}" if each.source_file else ""
            writers.setdefault(found.there.real(each.path), []).append(f"the records of output '{target.name}'{of}")
        for path in target.sidecars:
            writers.setdefault(found.there.real(path), []).append(f"the facts of output '{target.name}'")
    if found.bookmark is not None:
        writers.setdefault(found.there.real(found.bookmark), []).append("the bookmark")
    for real in {found.there.real(path) for path in found.dlq_paths.values()}:
        writers.setdefault(real, []).append("dead letters")
    several = any(target.step.by_file for target in found.outputs)
    for real, what in writers.items():
        if len(what) > 1:
            advice = "; {source_path} in the path tells files of several folders apart" if several else ""
            raise RunFailed(ExitCode.CONFIG, "E322", f"{', '.join(what)} would all be written to {real}{advice}")
    folders = {
        found.there.real(each.path): target.name
        for target in found.outputs
        if target.step.parts
        for each in target.deliveries
    }
    for real, what in writers.items():
        for folder in _parents(real):
            if folder in folders:
                message = (
                    f"{what[0]} would be written to {real}, into the folder of parts of output '{folders[folder]}'"
                )
                raise RunFailed(ExitCode.CONFIG, "E322", message)


def _parents(real: str) -> Iterator[str]:
    """All folders that a path or URI leads through."""
    return (real[:end] for end in range(1, len(real)) if real[end] == "/")


def check(targets: Targets, options: RunOptions) -> None:
    """Stop before any work if a file cannot be written, or would replace one without consent.

    Publications of dead runs are completed first; otherwise their own files would count as files in the way.
    """
    for path in targets.paths:
        if problem := targets.there.problem(path):
            raise RunFailed(ExitCode.IO, "E900", f"{path}: {problem}")
    for folder in targets.folders:
        targets.there.recover(folder)
    refuse_existing(targets, options)


def refuse_existing(targets: Targets, options: RunOptions) -> None:
    """Stop if a file would be replaced without consent; `--force` and `if_exists` are consent.

    This is checked again before publishing, because another run may have published meanwhile.
    """
    for target in targets.outputs:
        if target.step.parts and not target.step.is_table:
            for delivery in target.deliveries:
                parts.refuse_others(targets.there, delivery.path, target.step)
    found = targets.in_the_way()
    for path in sorted({*found, *targets.paths}, key=str):
        standing = targets.there.standing(path)
        if standing in (FileType.FOLDER, FileType.OTHER):
            raise RunFailed(ExitCode.IO, "E902", f"{path} is {standing.value}: a file cannot be written there")
    existing = [str(path) for path in targets.dlq_files_in_the_way()]
    if existing and targets.bookmark is not None and not (options.since and options.until):
        text = (
            f"{_listed(existing)} has dead letters of an earlier run, whose records no run reads again, so not even "
            "--force replaces them: replay or discard them (`clinker dlq`), or give each run a file of its own by "
            "`{execution_id}` in the path"
        )
        raise RunFailed(ExitCode.IO, "E902", text)
    if options.force:
        return
    strict = [target for target in targets.outputs if target.step.if_exists is IfExists.ERROR]
    blocked = [str(path) for target in strict for path in target.in_the_way(targets.there)]
    if blocked:
        text = f"{_listed(blocked)} exists already: use --force, or if_exists: overwrite in the output's config"
        raise RunFailed(ExitCode.IO, "E902", text)
    if existing and not all(target.step.if_exists is IfExists.OVERWRITE for target in targets.outputs):
        advice = "use --force, or if_exists: overwrite in the config of every output"
        if any(target.step.is_table for target in targets.outputs):
            advice = (
                "replay or discard them (`clinker dlq`), give each run a file of its own by `{execution_id}` in the "
                "path, or replace them with --force"
            )
        text = f"{_listed(existing)} exists already, with the dead letters of an earlier run: {advice}"
        raise RunFailed(ExitCode.IO, "E902", text)


def refuse_own_files(plan: plans.Plan, found: Inputs, targets: Targets) -> None:
    """Refuse outputs that would replace the pipeline file or an input. No option allows that."""
    real = RealPaths()
    own = {_real(real, str(plan.path)): "the pipeline itself"}
    for name, scan in found.scans.items():
        files = [known.file.origin or known.file.path for known in scan.files]
        own |= {_real(real, path): f"an input of source '{name}'" for path in files}
    for path in [*targets.paths, *targets.in_the_way()]:
        if what := own.get(_real(real, str(path))):
            raise RunFailed(ExitCode.IO, "E902", f"{path} is {what}: write to another path")


def _real(known: RealPaths, path: str) -> str:
    """A file's real path, or the URI of an object."""
    return str(location.parse(path)) if location.is_uri(path) else known.of(path)

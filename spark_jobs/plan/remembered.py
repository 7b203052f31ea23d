"""Remembers in the user's cache folder which pipelines were found valid, so that nothing is planned twice.

Airflow parses each DAG file every half a minute, in a new process each time, and planning a pipeline of a hundred nodes
takes a tenth of a second. A verdict is stored with everything that it depends on: the options, the engine, the bytes
of each file that was read, the files that were missing, the links that were resolved, and the environment variables
that the files mention. Only valid pipelines are remembered; problems are found anew each time. Runs never use these
verdicts.

`clinker validate` also shows warnings, and looks for input files. So it remembers only pipelines without any problem,
with the settings that choose their input files: it looks for the files each time. If a file is missing, or the sizes
differ, it plans.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import sysconfig
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from spark_jobs import __version__, engine_files, ownership
from spark_jobs.disk import small_files, volumes
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan.explain.datasets import Datasets
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath

_FOLDER = "valid"
#: Raised when the form of remembered verdicts changes.
_FORM = 2
_MOST_BYTES = 16 << 20
#: Entries that were not used for this long are removed, at most once in so many seconds.
_KEPT_S, _SWEPT_S = 30 * 86_400, 86_400


@dataclass(frozen=True)
class Verdict:
    """The result of planning a pipeline.

    Args:
        problems: its problems, warnings included; empty for a pipeline that was remembered.
        datasets: the datasets that it reads and writes; None if it has errors.
    """

    problems: Sequence[Diagnostic]
    datasets: Datasets | None


def verdict(path: FilePath, options: PlanOptions, *, remembers: bool = True) -> Verdict:
    """Whether a pipeline is valid; a valid pipeline that cannot run yet counts as wrong (E400).

    Args:
        path: the pipeline file.
        options: everything that its meaning depends on beside its text.
        remembers: whether an earlier verdict will do where nothing has changed.
    """
    folder = _folder() if remembers else None
    if folder is None:
        return _planned(path, options)
    kept = folder / f"{_key('verdict', path, options)}.json"
    document = _remembered(kept, options)
    if document is not None:
        with contextlib.suppress(KeyError, TypeError):  # of another form
            return Verdict((), _datasets(document["datasets"]))
    with small_files.recorded() as files:
        found = _planned(path, options)
    if files.has_objects:
        return found  # to ask a store whether anything has changed takes as long as to read it again
    if found.datasets is not None and not any(problem.is_error for problem in found.problems):
        _remember(kept, files, options, {"datasets": asdict(found.datasets)})
    return found


def is_without_problems(path: FilePath, options: PlanOptions, *, look_for_inputs: bool) -> bool:
    """True if `remember_check` was told of a pipeline, and nothing has changed since that its problems depend on."""
    folder = _folder()
    if folder is None or options.channel is not None:
        return False
    document = _remembered(folder / f"{_checked_key(path, options, look_for_inputs)}.json", options)
    if document is None:
        return False
    try:
        return not look_for_inputs or _are_there(document["inputs"], options)
    except (KeyError, TypeError):  # of another form
        return False


def remember_check(
    path: FilePath,
    options: PlanOptions,
    plan: Plan,
    files: small_files.Recorded,
    discovered: Mapping[str, Discovered] | None,
) -> None:
    """Remember that a pipeline has no problem, and no warning.

    Args:
        path: the pipeline file.
        options: how it was planned.
        plan: its plan.
        files: the files that planning has read and looked for.
        discovered: the files of its sources; None if nobody has looked for them.
    """
    folder = _folder()
    # The names of channels are found in folders, whose listings are not among what is recorded.
    if folder is None or files.has_objects or options.channel is not None:
        return
    inputs = None
    if discovered is not None:
        inputs = _inputs(plan, discovered)
        if inputs is None:
            return
    elif any(_depends_on_time(step) for step in plan.sources.values()):
        return
    _remember(
        folder / f"{_checked_key(path, options, discovered is not None)}.json", files, options, {"inputs": inputs}
    )


def _checked_key(path: FilePath, options: PlanOptions, look_for_inputs: bool) -> str:
    return _key(f"check {look_for_inputs}", path, options)


def _depends_on_time(step: SourceStep) -> bool:
    """True if a source chooses files by their age, which is counted from now."""
    return step.match.modified_after is not None or step.match.modified_before is not None


def _inputs(plan: Plan, discovered: Mapping[str, Discovered]) -> dict[str, Any] | None:
    """The way to look for the input files again, without a plan; None if that needs more than looking into folders."""
    from spark_jobs.plan.physical import spill_estimates

    if plan.storage.spill_dir is not None or plan.storage.staging is not None or not isinstance(plan.base_dir, Path):
        return None
    if any(step.is_in_database for step in plan.outputs.values()):
        return None
    sources = []
    for name, step in plan.sources.items():
        if not step.file_format.has_files or step.file_format.is_table or step.endpoint is not None:
            return None
        if any(map(location.is_uri, step.match.named)) or _depends_on_time(step):
            return None
        sources.append({"name": name, "match": asdict(step.match), "bytes": discovered[name].bytes})
    spilled = spill_estimates.estimate(plan, discovered).total if spill_estimates.stages(plan) else 0
    return {"base": str(plan.base_dir), "sources": sources, "spilled": spilled, "spill_root": plan.storage.spill_root}


def _are_there(inputs: dict[str, Any], options: PlanOptions) -> bool:
    """True if the input files are as long as they were, and there is room for what may be spilled."""
    from spark_jobs.scan import matching
    from spark_jobs.scan.files import FormatError

    base = Path(inputs["base"])
    for source in inputs["sources"]:
        written = {name: tuple(value) if isinstance(value, list) else value for name, value in source["match"].items()}
        settings = cast("matching.Matching", SimpleNamespace(**written))
        try:
            found = matching.match(source["name"], settings, base, allow_outside=options.allow_absolute_paths)
        except FormatError:
            return False
        if sum(file.size for file in found.files) != source["bytes"]:
            return False
    root = tempfile.gettempdir()
    return root == inputs["spill_root"] and (not inputs["spilled"] or volumes.free_bytes(root) >= inputs["spilled"])


def _planned(path: FilePath, options: PlanOptions) -> Verdict:
    from spark_jobs.plan import pending, planner
    from spark_jobs.plan.explain import datasets

    plan, found = planner.plan(path, options)
    if plan is None:
        return Verdict(found.sorted(), None)
    return Verdict([*found.sorted(), *pending.pending(plan)], datasets.of_plan(plan))


def _folder() -> Path | None:
    """The folder of remembered verdicts; None if none can be kept."""
    cache = ownership.cache_folder(make=True)
    if cache is None:
        return None
    folder = cache / _FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder if ownership.is_own_place(folder) else None


@cache
def _engine() -> list[Any]:
    """The state of the code that this process runs: the engine, its packages, Python."""
    packages = os.stat(sysconfig.get_path("purelib")).st_mtime_ns
    return [__version__, str(engine_files.FOLDER), *engine_files.state(), sys.version, sys.prefix, packages]


def _key(kind: str, path: FilePath, options: PlanOptions) -> str:
    """The file name of the verdict for a pipeline and its options; contents of files and variables do not count."""
    asked = {
        "form": [_FORM, kind, type(options).__name__],
        "engine": _engine(),
        "path": str(location.absolute(path)),
        "folder": os.getcwd(),
        "options": {
            name: str(value) for name, value in vars(options).items() if name not in ("variables", "given", "tuning")
        },
        "given": sorted((name, repr(value)) for name, value in options.given.items()),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _remembered(kept: Path, options: PlanOptions) -> dict[str, Any] | None:
    """Read the entry of a pipeline known to be valid; None if there is none, or something has changed since."""
    try:
        with _opened(kept.parent) as folder:
            document: dict[str, Any] = json.loads(ownership.read(kept.name, folder, _MOST_BYTES))
        if any(os.path.realpath(asked) != real for asked, real in document["real"].items()):
            return None
        read = {name: small_files.digest_of(Path(name).read_bytes()) for name in document["read"]}
        if _state(read, document["absent"], document["variables"], document["salt"], options) != document["state"]:
            return None
        os.utime(kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none, another user's, or of another form
        return None
    return document


def _remember(kept: Path, files: small_files.Recorded, options: PlanOptions, known: dict[str, Any]) -> None:
    from spark_jobs.plan.reading import interpolation

    read, absent = {str(path): digest for path, digest in files.read.items()}, [str(each) for each in files.absent]
    salt = os.urandom(16).hex()
    # A cache that cannot be written is none.
    with contextlib.suppress(OSError):
        contents = {each: Path(each).read_bytes() for each in read}
        if any(small_files.digest_of(contents[each]) != digest for each, digest in read.items()):
            return  # it has changed since it was read
        texts = [content.decode("utf-8", "replace") for content in contents.values()]
        variables = sorted({name for text in texts for name in interpolation.names(text)})
        document = {
            "read": list(read),
            "absent": absent,
            "real": files.real,
            "variables": variables,
            "salt": salt,
            "state": _state(read, absent, variables, salt, options),
            **known,
        }
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, prefix=".", delete=False, encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(file.name, kept)
        _sweep(kept.parent)


def _state(read: Mapping[str, str], absent: list[str], variables: list[str], salt: str, options: PlanOptions) -> str:
    """A digest of all that a verdict depends on beside the options; salted, because variables may be secrets.

    `read` has digests of the files by their paths.
    """
    digest = hashlib.sha256(salt.encode())
    for name, content in read.items():
        digest.update(f"\0{name}\0{os.path.realpath(name)}\0{content}\0".encode("utf-8", "surrogateescape"))
    found = [name for name in absent if os.path.isfile(name)]
    values = [options.lookup.get(name) for name in (*variables, "CLINKER_ENV")]
    digest.update(json.dumps([found, values]).encode())
    return digest.hexdigest()


def _datasets(document: dict[str, Any]) -> Datasets:
    from spark_jobs.plan.explain.datasets import Column, Dataset, Datasets

    def of(written: list[dict[str, Any]]) -> tuple[Dataset, ...]:
        return tuple(
            Dataset(**{**each, "columns": tuple(Column(**column) for column in each["columns"])}) for each in written
        )

    return Datasets(document["pipeline"], of(document["sources"]), of(document["outputs"]))


@contextlib.contextmanager
def _opened(path: Path) -> Any:
    folder = ownership.open_folder(path)
    try:
        yield folder
    finally:
        os.close(folder)


def _sweep(folder: Path) -> None:
    """Remove verdicts that have not been used for a long time."""
    swept, now = folder / ".swept", time.time()
    with contextlib.suppress(FileNotFoundError):
        if now - swept.stat().st_mtime < _SWEPT_S:
            return
    swept.touch()
    for each in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if now - each.stat().st_mtime > _KEPT_S:
                each.unlink()

"""Remembers in the user's cache folder which pipelines were found valid, so that nothing is planned twice.

Airflow parses each DAG file every half a minute, in a new process each time, and planning a pipeline of a hundred nodes
takes a tenth of a second. A verdict is stored with everything that it depends on: the options, the engine, the bytes
of each file that was read, the files that were missing, and the environment variables that the files mention. Only
valid pipelines are remembered; problems are found anew each time. Runs never use these verdicts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import __version__, ownership
from spark_jobs.disk import small_files
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.explain.datasets import Datasets
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath

_FOLDER = "valid"
#: Raised when the form of remembered verdicts changes.
_FORM = 1
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
    kept = folder / f"{_key(path, options)}.json"
    datasets = _remembered(kept, options)
    if datasets is not None:
        return Verdict((), datasets)
    with small_files.recorded() as files:
        found = _planned(path, options)
    if files.has_objects:
        return found  # to ask a store whether anything has changed takes as long as to read it again
    if found.datasets is not None and not any(problem.is_error for problem in found.problems):
        _remember(kept, files, options, found.datasets)
    return found


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


def _key(path: FilePath, options: PlanOptions) -> str:
    """The file name of the verdict for a pipeline and its options; contents of files and variables do not count."""
    asked = {
        "form": _FORM,
        "engine": [__version__, __file__],
        "path": str(location.absolute(path)),
        "folder": os.getcwd(),
        "options": {
            name: str(value) for name, value in vars(options).items() if name not in ("variables", "given", "tuning")
        },
        "given": sorted((name, repr(value)) for name, value in options.given.items()),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _remembered(kept: Path, options: PlanOptions) -> Datasets | None:
    """The datasets of a pipeline known to be valid; None if nothing is known, or something has changed since."""
    try:
        with _opened(kept.parent) as folder:
            document = json.loads(ownership.read(kept.name, folder, _MOST_BYTES))
        if (
            _state(document["read"], document["absent"], document["variables"], document["salt"], options)
            != document["state"]
        ):
            return None
        found = _datasets(document["datasets"])
        os.utime(kept)
    except (OSError, ValueError, KeyError, TypeError):  # none, another user's, or of another form
        return None
    return found


def _remember(kept: Path, files: small_files.Recorded, options: PlanOptions, datasets: Datasets) -> None:
    from spark_jobs.plan.reading import interpolation

    read, absent = [str(each) for each in files.read], [str(each) for each in files.absent]
    salt = os.urandom(16).hex()
    # A cache that cannot be written is none.
    with contextlib.suppress(OSError):
        texts = [Path(each).read_text(encoding="utf-8", errors="replace") for each in read]
        variables = sorted({name for text in texts for name in interpolation.names(text)})
        document = {
            "read": read,
            "absent": absent,
            "variables": variables,
            "salt": salt,
            "state": _state(read, absent, variables, salt, options),
            "datasets": asdict(datasets),
        }
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, prefix=".", delete=False, encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(file.name, kept)
        _sweep(kept.parent)


def _state(read: list[str], absent: list[str], variables: list[str], salt: str, options: PlanOptions) -> str:
    """A digest of all that a verdict depends on beside the options; salted, because variables may be secrets.

    Raises:
        OSError: a file is gone.
    """
    digest = hashlib.sha256(salt.encode())
    for name in read:
        content = Path(name).read_bytes()
        digest.update(f"\0{name}\0{os.path.realpath(name)}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
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

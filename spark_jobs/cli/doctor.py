"""`clinker doctor`: checks whether runs can work here, and says how to mend problems.

Each check is a function that gives one finding. A problem would stop a run; a warning makes it slow, or may stop a
larger one. Nothing is changed: files that a check writes are removed at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The Python versions that the engine runs on, as (major, minor).
_PYTHONS = ((3, 11), (3, 13))
#: Modules that tasks need, with the distributions that have them.
_MODULES = {"pyarrow": "pyarrow", "numpy": "numpy", "re2": "google-re2", "fastavro": "fastavro"}
#: The memory of the JVM and the Python workers besides the data, in bytes.
_OVERHEAD = 1024**3
#: Free room in a folder for temporary files, below which large sorts and joins may not fit, in bytes.
_ROOM = 2 * 1024**3
#: A run of five records takes seconds; a cluster may have to start executors first.
_RUN_LIMIT_S = 600


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Args:
        check: its name, like `java`.
        state: how it ended.
        detail: the facts that the check found.
        remedy: how to mend it; empty where nothing has to be mended.
    """

    check: str
    state: State
    detail: str
    remedy: str = ""


def main(base_dir: Path | None, *, spark_master: str | None, runs: bool, as_json: bool) -> int:
    """Print all findings; exit 1 when one of them is a problem.

    Args:
        base_dir: a pipeline's folder, whose workspace counts; None: the working directory.
        spark_master: a Spark master to reach.
        runs: whether a small pipeline is run, too.
        as_json: how they are shown.
    """
    found = []
    for finding in _findings(base_dir, spark_master, runs=runs):
        found.append(finding)
        if not as_json:
            sys.stdout.write(_line(finding))
            sys.stdout.flush()
    if as_json:
        document = {"schema_version": 1, "findings": [asdict(finding) for finding in found]}
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    return ExitCode.CONFIG if any(finding.state is State.PROBLEM for finding in found) else ExitCode.SUCCESS


def _line(finding: Finding) -> str:
    mark = {State.OK: "ok", State.WARNING: "warning", State.PROBLEM: "PROBLEM"}[finding.state]
    remedy = f"\n{'':9}  {printable(finding.remedy)}" if finding.remedy else ""
    return f"{mark:9}{finding.check}: {printable(finding.detail)}{remedy}\n"


def _findings(base_dir: Path | None, spark_master: str | None, *, runs: bool) -> Iterator[Finding]:
    yield python(sys.version_info[:2])
    yield from packages()
    yield java()
    yield cores_and_memory()
    yield from _workspace((base_dir or Path()).absolute())
    yield archive()
    if spark_master:
        yield master(spark_master)
    if runs:
        yield run(spark_master, base_dir)


def python(version: tuple[int, ...]) -> Finding:
    """The Python that runs this, which an embedded Spark gives to its workers."""
    name = ".".join(map(str, version))
    detail = f"{name} at {sys.executable}"
    if _PYTHONS[0] <= version <= _PYTHONS[1]:
        return Finding("python", State.OK, detail)
    wanted = " to ".join(".".join(map(str, bound)) for bound in _PYTHONS)
    return Finding("python", State.PROBLEM, detail, f"install Clinker into an environment with Python {wanted}")


def packages() -> Iterator[Finding]:
    """The libraries of tasks, and PySpark, whose two distributions have to have one version."""
    from importlib import metadata
    from importlib.util import find_spec

    missing = [distribution for module, distribution in _MODULES.items() if find_spec(module) is None]
    if missing:
        yield Finding(
            "packages", State.PROBLEM, f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}"
        )
    else:
        yield Finding("packages", State.OK, f"{', '.join(_MODULES.values())} are installed")
    versions = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if find_spec("pyspark") is None:
        yield Finding("pyspark", State.PROBLEM, "not installed", "pip install 'pyspark[connect]==4.2.0'")
    elif len(set(versions.values())) > 1:
        shown = ", ".join(f"{name} {version}" for name, version in versions.items())
        both = " ".join(f"{name}=={versions['pyspark']}" for name in versions)
        remedy = f"they overwrite files of each other: pip install --force-reinstall {both}"
        yield Finding("pyspark", State.PROBLEM, shown, remedy)
    else:
        yield Finding("pyspark", State.OK, versions.get("pyspark", "found on the path"))


def java() -> Finding:
    """The Java that an embedded Spark starts."""
    from spark_jobs.execute.spark.embedded import java as javas

    if problem := javas.problem():
        detail, _, remedy = problem.partition(": ")
        return Finding("java", State.PROBLEM, detail, remedy)
    path = javas.executable()
    assert path is not None
    found = javas.version(path)
    assert found is not None
    return Finding("java", State.OK, f"{found[1]} at {path}")


def cores_and_memory() -> Finding:
    """The processors that a run may use, and whether its memory limit fits into the machine beside the JVM."""
    from spark_jobs.execute.spark import cores
    from spark_jobs.plan.plan import Plan

    available = cores.available()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    detail = f"{available} cores, {_size(total)} of memory"
    needed = Plan.memory_limit_bytes + _OVERHEAD
    if total >= needed:
        return Finding("machine", State.OK, detail)
    remedy = f"a run takes some {_size(needed)}: lower `memory.limit`, which is {_size(Plan.memory_limit_bytes)}"
    return Finding("machine", State.WARNING, detail, remedy)


def _workspace(base_dir: Path) -> Iterator[Finding]:
    """The settings of `clinker.toml`, and the folders that a run writes temporary files to."""
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.reading import workspace, workspace_file

    problems = Diagnostics()
    space = workspace.load(base_dir, problems)
    path = workspace_file.find(base_dir)
    if path is not None:
        for problem in problems:
            yield Finding("clinker.toml", State.PROBLEM, f"{path}: {problem.message}", problem.help or "")
        if not list(problems):
            yield Finding("clinker.toml", State.OK, str(path))
    spill = space.storage.spill_dir
    yield temporary_folder("spill folder", Path(spill or tempfile.gettempdir()), is_configured=spill is not None)


def temporary_folder(check: str, folder: Path, *, is_configured: bool) -> Finding:
    """A folder for temporary files: files can be made there, on a disk with room."""
    from spark_jobs.disk import volumes

    setting = "`dir` under `[storage.spill]` in clinker.toml" if is_configured else "TMPDIR, or set `storage.spill.dir`"
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(b"clinker")
            probe.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(check, State.PROBLEM, f"{folder}: {error.strerror}", f"correct {setting}")
    detail = f"{folder}, {_size(free)} free"
    kind = volumes.kind(str(folder))
    if kind is volumes.Kind.MEMORY:
        remedy = f"the folder is in memory, so spilled data takes memory: choose a folder on a disk with {setting}"
        return Finding(check, State.WARNING, detail, remedy)
    if kind is volumes.Kind.NETWORK:
        return Finding(check, State.WARNING, detail, f"the folder is on a network, which is slow: correct {setting}")
    if free < _ROOM:
        return Finding(check, State.WARNING, detail, f"large sorts need more: free some, or correct {setting}")
    return Finding(check, State.OK, detail)


def archive() -> Finding:
    """The cache of Spark's classes, without which each run starts half a second later."""
    from spark_jobs import ownership
    from spark_jobs.execute.spark.embedded import class_archive
    from spark_jobs.execute.spark.embedded import java as javas

    if os.environ.get(class_archive.SWITCH_VARIABLE, "").lower() == "off":
        return Finding("start-up cache", State.OK, f"switched off by {class_archive.SWITCH_VARIABLE}")
    if ownership.cache_folder(make=True) is None:
        remedy = "runs start more slowly: let the folder ~/.cache/clinker and those above it belong to you alone"
        return Finding("start-up cache", State.WARNING, "no folder is writable for this user alone", remedy)
    found = javas.executable()
    path = class_archive.path(found) if found else None
    if path is None or not path.exists():
        return Finding("start-up cache", State.OK, "not made yet; the first run makes it")
    return Finding("start-up cache", State.OK, str(path))


def master(url: str) -> Finding:
    """Whether a standalone master takes connections; other masters are reached by a run alone."""
    from spark_jobs.execute.spark import masters
    from spark_jobs.execute.verdict import RunFailed

    try:
        known = masters.addresses(url)
        masters.reach(url, "5s")
    except RunFailed as error:
        detail, _, remedy = error.message.partition("; ")
        return Finding("master", State.PROBLEM, detail, remedy)
    if not known:
        return Finding("master", State.OK, f"{url}: only a run can tell; try --run")
    return Finding("master", State.OK, f"{url} answers")


def run(url: str | None, base_dir: Path | None) -> Finding:
    """A pipeline of five records, run as a person would: workers, their Python and their libraries take part."""
    from spark_jobs.cli import init

    with tempfile.TemporaryDirectory(prefix="clinker-doctor-", dir=base_dir) as name:
        folder = Path(name)
        init.write(folder, "doctor")
        command = [sys.executable, "-m", "spark_jobs", "run", str(folder / "pipeline.yaml"), "--quiet"]
        command += ["--diagnostics", "concise", *(["--master", url] if url else [])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return Finding("run", State.PROBLEM, f"a run of five records took longer than {_RUN_LIMIT_S} s")
        if done.returncode == ExitCode.DEAD_LETTERS and (folder / "output/large.csv").exists():
            return Finding("run", State.OK, "a pipeline of five records wrote its files and one dead letter")
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        detail = f"a run of five records ended with exit {done.returncode}"
        return Finding("run", State.PROBLEM, detail, " ".join(lines[-3:]).replace(name, "…"))


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"

"""A class-data archive for embedded sessions: the JVM maps Spark's classes instead of parsing them at each start.

The archive lies in the user's cache folder, under a name made from the JDK and the Spark build. The first run that
misses it has it made by a process of its own, after that run has ended; later runs map it. Nothing depends on it:
without it, or with one that does not fit, the JVM starts as ever. `CLINKER_CDS=off` neither makes nor uses one.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import contract, ownership
from spark_jobs.execute.spark import internals
from spark_jobs.execute.spark.embedded import java as javas

if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH_VARIABLE = "CLINKER_CDS"
#: JVM options under which an archive is made and used; others (another collector, say) would not fit it.
JVM_OPTIONS = contract.EMBEDDED_JVM_OPTIONS
#: Raised with each change of what `class_dump` runs.
_EDITION = 3


def path(java: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The path of the class archive for a `java` and the installed Spark, whether it exists or not.

    None if archives are switched off, or if others can write to their folder: the JVM runs the code that it maps.
    """
    version = javas.version(java)
    if environ.get(SWITCH_VARIABLE, "").lower() == "off" or not internals.is_fast(environ) or version is None:
        return None
    try:
        home = spark_home(environ).resolve()
        # The JVM refuses an archive when a jar has changed since.
        changed = (home / "jars").stat().st_mtime_ns
    except OSError:
        return None
    build = [os.path.realpath(java), version[1], str(home), str(changed), JVM_OPTIONS, _EDITION]
    folder = ownership.cache_folder(make=True)
    return folder / f"{hashlib.sha256(repr(build).encode()).hexdigest()[:16]}.jsa" if folder else None


def spark_home(environ: Mapping[str, str]) -> Path:
    """Spark's folder, without PySpark being imported: a scheduler asks as well."""
    if home := environ.get("SPARK_HOME"):
        return Path(home)
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise FileNotFoundError("pyspark")
    return Path(found.origin).parent


def options(java: str, environ: Mapping[str, str] = os.environ) -> str:
    """The JVM options that use the archive, empty when there is none."""
    archive = path(java, environ)
    if archive is None or " " in str(archive) or not ownership.is_own_file(archive):
        return ""
    # An archive that does not fit is worth no warning on a user's terminal.
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable"


@functools.cache
def request(java: str) -> None:
    """Have the archive made when this process has ended; does nothing when there is one, or when it cannot be made."""
    archive = path(java)
    if archive is None or archive.exists() or " " in str(archive):
        return
    atexit.register(_start, archive)


def _start(archive: Path) -> None:
    """Start the process that makes an archive. It outlives this one."""
    try:
        subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.execute.spark.embedded.class_dump", str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=_plain(os.environ),
        )
    except OSError:
        return  # no process, no archive: starting takes longer, that is all


def _plain(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what ties a process to a submitted run: its JVM, its packed modules, its mark."""
    kept = {key: value for key, value in environ.items() if not key.startswith("PYSPARK_GATEWAY_")}
    kept.pop(contract.EXECUTION_ID_VARIABLE, None)
    if "PYTHONPATH" in kept:
        entries = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if not entry.endswith(".zip"))
    return kept

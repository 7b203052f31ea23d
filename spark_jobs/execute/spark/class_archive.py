"""A class-data archive for embedded sessions: the JVM maps Spark's classes instead of parsing them at each start.

The archive lies in the user's cache folder, under a name made from the JDK and the Spark build. The first run that
misses it has it made by a process of its own, after that run has ended; later runs map it. Nothing depends on it:
without it, or with one that does not fit, the JVM starts as ever. `CLINKER_CDS=off` neither makes nor uses one.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import contract, ownership

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

SWITCH_VARIABLE = "CLINKER_CDS"
#: JVM options under which an archive is made and used; others (another collector, say) would not fit it.
JVM_OPTIONS = contract.EMBEDDED_JVM_OPTIONS
#: Archives of other JDKs and Spark builds that are kept; each has some 150 MB.
_KEPT = 2
_LIMIT_S = 600.0


def path(java: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the archive for a `java` and the installed Spark is, or would be.

    None when archives are switched off, or when others could write where they are kept: the JVM runs what it maps.
    """
    from spark_jobs.execute.spark import java as javas

    version = javas.version(java)
    if environ.get(SWITCH_VARIABLE, "").lower() == "off" or version is None:
        return None
    try:
        home = _spark_home(environ).resolve()
        # The JVM refuses an archive when a jar has changed since.
        changed = (home / "jars").stat().st_mtime_ns
    except OSError:
        return None
    build = [os.path.realpath(java), version[1], str(home), str(changed), JVM_OPTIONS]
    folder = ownership.cache_folder(make=True)
    return folder / f"{hashlib.sha256(repr(build).encode()).hexdigest()[:16]}.jsa" if folder else None


def _spark_home(environ: Mapping[str, str]) -> Path:
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
            [sys.executable, "-m", "spark_jobs.execute.spark.class_archive", str(archive)],
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


def make(archive: Path) -> bool:
    """Make an archive with a session that does what runs do.

    False when another process is at it, or has done it, or when others could write where it is kept. It is written
    aside and renamed, so that a file with the archive's name is complete.
    """
    if not ownership.is_own_place(archive.parent):
        return False
    with open(ownership.open_file(archive.with_suffix(".lock"), flags=os.O_RDWR | os.O_CREAT), "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if archive.exists():
            return False
        aside = archive.with_suffix(".partial")
        aside.unlink(missing_ok=True)
        try:
            _dump(aside)
            if aside.exists():
                aside.chmod(0o400)
                aside.rename(archive)
        finally:
            aside.unlink(missing_ok=True)
        _forget(archive)
        return archive.exists()


def _dump(target: Path) -> None:
    """Run a job as runs do, and have the JVM write down its classes when it ends."""
    from pyspark import SparkContext

    from spark_jobs.execute.spark import session
    from spark_jobs.execute.tasks import envelopes
    from spark_jobs.plan.options import RunOptions

    os.environ[SWITCH_VARIABLE] = "off"
    dumping = f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={target}"
    spark = session.open_session(RunOptions(spark_conf={"spark.driver.extraJavaOptions": dumping}), 2)
    frame = spark.range(0, 2, 1, 2).mapInArrow(_envelopes, envelopes.DDL)
    for _ in range(2):
        frame = frame.repartitionById(2, "slot").sortWithinPartitions("exchange", "ordinal")
        frame = frame.mapInArrow(_passed_on, envelopes.DDL)
    frame.select("payload").toArrow()
    process = SparkContext._gateway.proc
    process.stdin.close()  # the JVM ends when nobody can talk to it any more
    process.wait(_LIMIT_S)


def _envelopes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from spark_jobs.execute.tasks import envelopes

    for batch in batches:
        rows = [
            {"slot": 0, "exchange": 0, "partition": 0, "ordinal": i, "payload": b"x"} for i in range(batch.num_rows)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=envelopes.SCHEMA)


def _passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _forget(newest: Path) -> None:
    """Remove the oldest archives of other builds."""
    others = [other for other in newest.parent.glob("*.jsa") if other != newest]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[_KEPT:]:
        other.unlink(missing_ok=True)
        other.with_suffix(".lock").unlink(missing_ok=True)


def main() -> None:
    """Make the archive that the command line names, out of everybody's way."""
    os.nice(19)
    # Whatever hangs is not worth waiting for; the session of this process has no other members than its own children.
    watch = threading.Timer(_LIMIT_S, os._exit, [1])
    watch.daemon = True
    watch.start()
    make(Path(sys.argv[1]))


if __name__ == "__main__":
    main()

"""Makes a class-data archive in a process of its own: runs a job as runs do, and has the JVM write down its classes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs import ownership
from spark_jobs.execute.spark.embedded import class_archive
from spark_jobs.execute.tasks import shuffle_records

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Archives of other JDKs and Spark builds that are kept; each has some 150 MB.
_KEPT = 2
_LIMIT_S = 600.0
#: The time in seconds that a process may take after it was asked to end.
_LEAVE_S = 30.0


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
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        try:
            _dump(partial)
            if partial.exists():
                partial.chmod(0o400)
                partial.rename(archive)
        finally:
            partial.unlink(missing_ok=True)
        _forget(archive)
        return archive.exists()


def _dump(target: Path) -> None:
    """Run a job as runs do, and have the JVM write down its classes when it ends."""
    from spark_jobs.execute.spark import internals, session, spread
    from spark_jobs.plan.options import RunOptions

    os.environ[class_archive.SWITCH_VARIABLE] = "off"
    dumping = f"{class_archive.JVM_OPTIONS} -XX:ArchiveClassesAtExit={target}"
    # The remains of a killed dump are beside its archive, where the next dump removes them.
    folder = str(target.parent)
    spark = session.open_session(RunOptions(spark_conf={"spark.driver.extraJavaOptions": dumping}), 2, folder)
    frame = spread.mapped(spread.numbers(spark, 2), _shuffle_records, shuffle_records.SCHEMA)
    for _ in range(2):
        frame = frame.repartitionById(2, "slot").sortWithinPartitions("exchange", "ordinal")
        frame = spread.mapped(frame, _passed_on, shuffle_records.SCHEMA)
    frame.select("payload").toArrow()
    process = internals.process()
    assert process.stdin is not None
    process.stdin.close()  # the JVM ends when nobody can talk to it any more
    process.wait(_LIMIT_S)


def _shuffle_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            {"slot": 0, "exchange": 0, "partition": 0, "ordinal": i, "payload": b"x"} for i in range(batch.num_rows)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=shuffle_records.SCHEMA)


def _passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _forget(newest: Path) -> None:
    """Remove the oldest archives of other builds, and what killed dumps of them left."""
    others = [other for other in newest.parent.glob("*.jsa") if other != newest]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[_KEPT:]:
        other.unlink(missing_ok=True)
        other.with_suffix(".lock").unlink(missing_ok=True)
    for left in newest.parent.glob("*.partial"):
        # No dump takes longer than its limit and the time to leave.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _LIMIT_S + _LEAVE_S:
                left.unlink()


def _end() -> None:
    """End this process: as it ends by itself, or without its leave."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_LEAVE_S)
    os._exit(1)


def main() -> None:
    """Make the archive that the command line names, out of everybody's way."""
    os.nice(19)
    # Whatever hangs is not worth waiting for; the session of this process has no other members than its own children.
    watch = threading.Timer(_LIMIT_S, _end)
    watch.daemon = True
    watch.start()
    # An end by itself, which removes the files of the session.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    make(Path(sys.argv[1]))


if __name__ == "__main__":
    main()

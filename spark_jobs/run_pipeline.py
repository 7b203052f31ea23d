"""The script that `spark-submit` starts: it is `clinker run` inside a submitted application.

Usage: `spark-submit --py-files dist/spark_jobs.zip run_pipeline.py pipeline.yaml [options of clinker run]`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import NoReturn

_WATCH_S = 2.0


def main(arguments: list[str]) -> NoReturn:
    """Run a pipeline, and end with its exit code."""
    _watch_the_parent()
    from spark_jobs.cli import clinker
    from spark_jobs.execute.spark import worker_daemon

    # spark-submit puts Spark's own zip first: without compiled modules, it takes seconds to import.
    sys.path[:] = worker_daemon.without_zip(sys.path)

    clinker.end_with(["run", *arguments])


def _forget_this_folder() -> None:
    """The script's folder stands first on the path: its modules would be importable under a second, bare name."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]


def _watch_the_parent() -> None:
    """When the launcher is gone (killed, say), the run ends as on SIGTERM, instead of going on as an orphan."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


if __name__ == "__main__":
    _forget_this_folder()
    main(sys.argv[1:])

"""The process from which an embedded session forks its Python workers. It imports the modules of tasks before the fork.

Spark starts `spark.python.daemon.module` once and forks a worker for each task that runs at a time. Its own module
imports nothing ahead, so that each worker would import Arrow and the engine anew, and takes PySpark from a zip, whose
modules have no compiled form and would be compiled anew.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute import without_pandas
from spark_jobs.execute.spark import internals
from spark_jobs.execute.spark.embedded import prefork

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

#: The modules that every task imports, besides the operators of all nodes.
_PRELOADED = (
    "pyspark.worker",
    "spark_jobs.execute.tasks.task",
    "spark_jobs.cxl.kernels.kernels",
    "spark_jobs.cxl.builtins.aggregates",
)


def without_zip(path: list[str]) -> list[str]:
    """A module search path without an installation's `pyspark.zip` if its folder is on the path as well."""
    folders = {os.path.realpath(entry) for entry in path}
    return [entry for entry in path if not (entry.endswith("pyspark.zip") and _site(entry) in folders)]


def _site(entry: str) -> str | None:
    """The folder of the package that a zip belongs to: the zip is `pyspark/python/lib/pyspark.zip` in it."""
    parents = Path(os.path.realpath(entry)).parents
    return str(parents[3]) if len(parents) > 3 and parents[2].name == "pyspark" else None


def preloaded() -> list[str]:
    """The modules to import before the fork."""
    from spark_jobs.nodes import registry

    return [*_PRELOADED, *registry.runners()]


def silence_worker(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Make a worker silent after its JVM has gone: the driver reports why the run has ended."""

    def serve(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except (ConnectionError, EOFError):  # EOFError: a new worker reads its greeting
            return 1

    return serve


def main() -> None:
    """Run as the process that workers are forked from, or hand over to the one that is waiting already."""
    if sys.argv[1:2] == [prefork.ARGUMENT]:
        _preload()
        if not prefork.take_over(int(sys.argv[2])):
            return
        sys.path[:] = without_zip(sys.path)
    else:
        if prefork.stand_in():
            return
        sys.path[:] = without_zip(sys.path)
        _preload()
    internals.serve_workers(silence_worker)


def _preload() -> None:
    """Import the modules that tasks need.

    A worker looks for garbage after each task, and would go through all that is imported here, for longer than a small
    task takes.
    """
    gc.disable()
    without_pandas.hide_pandas()
    for name in preloaded():
        importlib.import_module(name)
    from spark_jobs.formats import registry

    for format in registry.formats().values():
        format.load()
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    main()

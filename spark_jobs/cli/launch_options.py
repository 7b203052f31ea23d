"""Answers questions of a scheduler about a run that it is going to start on its own machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def java_options(environ: Mapping[str, str]) -> str:
    """The JVM options by which an embedded Spark starts quickly in this environment.

    They include the archive of Spark's classes if an earlier run has made one, and no other user can have written it.
    """
    from spark_jobs import contract
    from spark_jobs.execute.spark.embedded import class_archive, java

    found = java.executable(environ)
    archive = class_archive.options(found, environ) if found else ""
    return f"{contract.EMBEDDED_JVM_OPTIONS} {archive}".strip()

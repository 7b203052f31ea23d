"""Settings of an embedded session's JVM: for a quick start, and for its log."""

from __future__ import annotations

import os
from pathlib import Path

from spark_jobs import contract
from spark_jobs.execute.spark.embedded import class_archive
from spark_jobs.execute.spark.embedded.java import executable

#: The property that `log4j2.properties` takes its level from.
_LEVEL = "clinker.spark.level"


def settings(*, logs_errors: bool = False, temporary: str | None = None) -> dict[str, str]:
    """Settings that shorten the start of an embedded session, and that set its log level.

    The cheap compiler is enough, because the JVM only moves payloads. A run that ends has a message of its own;
    `tells_errors` shows what Spark logs of it as well. `temporary` is the JVM's temporary folder: it leaves there what
    it cannot remove when it is killed.
    """
    java = executable()
    archive = class_archive.options(java) if java else ""
    own = f"-Djava.io.tmpdir={temporary}" if temporary and " " not in temporary else ""
    chosen = (class_archive.JVM_OPTIONS, _logging(logs_errors), own, archive)
    return {"spark.driver.extraJavaOptions": " ".join(filter(None, chosen))}


def _logging(logs_errors: bool) -> str:
    """The options that silence Spark's log for users of pipelines; a configuration of theirs stays."""
    if is_configured():
        return ""
    configuration = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    return f"{configuration} -D{_LEVEL}=error" if logs_errors else configuration


def is_configured() -> bool:
    """True if a user has said what Spark logs, and where."""
    folder = os.environ.get("SPARK_CONF_DIR")
    return bool(folder) and (Path(folder or "") / "log4j2.properties").exists()


def prepare() -> None:
    """Make this process's environment such that the JVM starts quickly, and later ones more quickly."""
    # The launcher is a JVM of its own, which only puts a command line together.
    os.environ.setdefault(contract.LAUNCHER_VARIABLE, contract.LAUNCHER_OPTIONS)
    request_archive()


def request_archive() -> None:
    """Have what later JVMs start from made when this process has ended."""
    java = executable()
    if java:
        class_archive.request(java)

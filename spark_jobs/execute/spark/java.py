"""The Java that an embedded session needs, and how to start it quickly."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import contract
from spark_jobs.execute.spark import class_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_JAVA = 17
#: The property that `log4j2.properties` takes its level from.
_LEVEL = "clinker.spark.level"
_ADVICE = (
    "install a JDK or JRE 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put it on PATH or set JAVA_HOME"
)


def executable(environ: Mapping[str, str] = os.environ) -> str | None:
    """The `java` that Spark would start in this environment."""
    home = environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environ.get("PATH"))


@cache
def version(java: str) -> tuple[int, str] | None:
    """The major version of a `java`, and its full text; None when it cannot be run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', told)
    return (int(found.group(1)), found.group(0)) if found else None


def problem() -> str | None:
    """Why an embedded session cannot start, with what to do; None when it can."""
    java = executable()
    if java is None:
        return f"Spark needs Java {OLDEST_JAVA} or newer, and no java was found: {_ADVICE}"
    found = version(java)
    if found is None:
        return f"{java} cannot be run: {_ADVICE}"
    if found[0] < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA} or newer; {java} is {found[1]}: {_ADVICE}"
    return None


def settings(*, tells_errors: bool = False, temporary: str | None = None) -> dict[str, str]:
    """Settings that shorten the start of an embedded session, and what it says.

    The cheap compiler alone is enough for envelopes: the work is in Arrow. What ends a run is told by its own message;
    `tells_errors` shows what Spark logs of it as well. `temporary` is the JVM's temporary folder: it leaves there what
    it cannot remove when it is killed.
    """
    java = executable()
    archive = class_archive.options(java) if java else ""
    own = f"-Djava.io.tmpdir={temporary}" if temporary and " " not in temporary else ""
    chosen = (class_archive.JVM_OPTIONS, _logging(tells_errors), own, archive)
    return {"spark.driver.extraJavaOptions": " ".join(filter(None, chosen))}


def _logging(tells_errors: bool) -> str:
    """What Spark has to say is not for the user of a pipeline; a configuration of theirs stays."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder and (Path(folder) / "log4j2.properties").exists():
        return ""
    configuration = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    return f"{configuration} -D{_LEVEL}=error" if tells_errors else configuration


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

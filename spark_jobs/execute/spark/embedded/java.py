"""The Java that an embedded session needs: which one there is, and whether it will do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_JAVA = 17
_ATTEMPTS = 3
_LIMIT_S = 30
_ADVICE = (
    "install a JDK or JRE 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and put it on PATH or set JAVA_HOME"
)


def executable(environ: Mapping[str, str] = os.environ) -> str | None:
    """The `java` that Spark would start in this environment: JAVA_HOME first, whether it exists or not."""
    if home := environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environ.get("PATH"))


@cache
def version(java: str) -> tuple[int, str] | None:
    """The major version of a `java`, and its full text; None if it cannot be run."""
    for _ in range(_ATTEMPTS):
        try:
            done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode >= 0:
            break
        # Somebody has killed it, which says nothing about it.
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', done.stderr)
    return (int(found.group(1)), found.group(0)) if found else None


def problem() -> str | None:
    """Why an embedded session cannot start, with what to do; None if it can."""
    java = executable()
    if java is None:
        return f"Spark needs Java {OLDEST_JAVA} or newer, and no java was found: {_ADVICE}"
    found = version(java)
    if found is None:
        home = os.environ.get("JAVA_HOME")
        if home and not Path(java).exists():
            return f"JAVA_HOME is {home}, and {java} does not exist: correct the variable, or unset it; or {_ADVICE}"
        return f"{java} cannot be run, or is not Java: {_ADVICE}"
    if found[0] < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA} or newer; {java} is {found[1]}: {_ADVICE}"
    return None

"""Finds `spark-submit` and the environment it needs, for an Airflow whose virtual environment nobody activated.

A `spark-submit` from pip looks for its own files by calling the `python3` on the path, which is another Python unless
the environment is active. So this module sets the folder and the interpreters, unless the user has set them.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Mapping

BINARY = "spark-submit"


def pyspark_home() -> Path | None:
    """The folder of an installed pyspark that can start Spark, without importing it; None for a mere client."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        home = Path(place)
        if (home / "bin" / BINARY).is_file() and (home / "jars").is_dir():
            return home
    return None


def spark_submit(environ: Mapping[str, str], executable: str, *, installed: Path | None) -> str:
    """The `spark-submit` to call when nobody named one.

    It is the one of `SPARK_HOME`, then the one beside this Python, then pyspark's own, and else whatever the path has.

    Args:
        environ: the environment the process will get.
        executable: this Python (`sys.executable`), not resolved: a virtual environment is known by the link.
        installed: the folder of the installed pyspark, if any.
    """
    homes = [Path(environ["SPARK_HOME"]) / "bin"] if environ.get("SPARK_HOME") else []
    homes.append(Path(executable).parent)
    if installed:
        homes.append(installed / "bin")
    return next((str(home / BINARY) for home in homes if (home / BINARY).is_file()), BINARY)


def setting(
    name: str,
    conf: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    properties_file: str | None = None,
    binary: str = "",
    installed: Path | None = None,
) -> str | None:
    """A setting of Spark, as far as this machine knows: from `conf`, otherwise from the properties that Spark reads.

    Args:
        name: the setting.
        conf: the settings on the command line.
        environ: the environment of `spark-submit`.
        properties_file: the file that is read instead of `spark-defaults.conf`.
        binary: the `spark-submit` that is called.
        installed: the folder of the installed pyspark, if any.
    """
    if name in conf:
        return str(conf[name])
    if properties_file:
        return _property(Path(properties_file), name)
    home = Path(environ["SPARK_HOME"]) if environ.get("SPARK_HOME") else installed or Path(binary).parent.parent
    folder = environ.get("SPARK_CONF_DIR")
    return _property((Path(folder) if folder else home / "conf") / "spark-defaults.conf", name)


def _property(path: Path, name: str) -> str | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # Spark does without, or says itself that it cannot
    found = re.findall(rf"^[ \t]*{re.escape(name)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*)$", text, re.MULTILINE)
    return found[-1].strip() if found else None


def as_property(name: str, value: str) -> str:
    """A setting as a line of a properties file."""

    def escaped(text: str, signs: str) -> str:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        return re.sub(rf"^ |[{signs}]", lambda found: f"\\{found[0]}", text)

    return f"{escaped(name, ' :=#!')} = {escaped(value, '#!')}"


def environment(
    environ: Mapping[str, str], conf: Mapping[str, object], executable: str, *, installed: Path | None
) -> dict[str, str]:
    """The additions to the environment of `spark-submit`, without variables that are set already.

    `PYTHONUNBUFFERED` lets the log follow the job instead of arriving in blocks.
    """
    wanted = {"PYTHONUNBUFFERED": "1", contract.LAUNCHER_VARIABLE: contract.LAUNCHER_OPTIONS}
    if installed:
        wanted["SPARK_HOME"] = str(installed)
    if "spark.pyspark.python" not in conf:
        wanted["PYSPARK_PYTHON"] = executable
    if "spark.pyspark.driver.python" not in conf and "spark.pyspark.python" not in conf:
        wanted["PYSPARK_DRIVER_PYTHON"] = environ.get("PYSPARK_PYTHON") or executable
    return {name: value for name, value in wanted.items() if not environ.get(name)}

"""Which `spark-submit` is called, and with what environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clinker_provider import launcher

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name in ("spark", "venv", "pyspark"):
        found[name] = tmp_path / name
        (found[name] / "bin").mkdir(parents=True)
        (found[name] / "bin" / "spark-submit").touch()
    return found


def test_spark_home_comes_first_then_this_python_then_pyspark_then_the_path(homes: dict[str, Path]) -> None:
    python, environ = str(homes["venv"] / "bin" / "python"), {"SPARK_HOME": str(homes["spark"])}
    installed = homes["pyspark"]
    for name in ("spark", "venv", "pyspark"):
        binary = homes[name] / "bin" / "spark-submit"
        assert launcher.spark_submit(environ, python, installed=installed) == str(binary)
        binary.unlink()
    assert launcher.spark_submit(environ, python, installed=installed) == "spark-submit"
    assert launcher.spark_submit({}, python, installed=None) == "spark-submit"


def test_environment_names_what_is_missing(tmp_path: Path) -> None:
    assert launcher.environment({}, {}, "/venv/bin/python", installed=tmp_path) == {
        "PYTHONUNBUFFERED": "1",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_HOME": str(tmp_path),
        "PYSPARK_PYTHON": "/venv/bin/python",
        "PYSPARK_DRIVER_PYTHON": "/venv/bin/python",
    }


def test_environment_leaves_what_is_set(tmp_path: Path) -> None:
    environ = {
        "SPARK_HOME": "/opt/spark",
        "PYSPARK_PYTHON": "/usr/bin/python3",
        "PYTHONUNBUFFERED": "x",
        "SPARK_LAUNCHER_OPTS": "-Xmx64m",
    }
    added = launcher.environment(environ, {}, "/venv/bin/python", installed=tmp_path)
    assert added == {"PYSPARK_DRIVER_PYTHON": "/usr/bin/python3"}


def test_python_named_in_spark_properties_is_left_alone() -> None:
    conf = {"spark.pyspark.python": "/shared/python"}
    added = launcher.environment({}, conf, "/venv/bin/python", installed=None)
    assert set(added) == {"PYTHONUNBUFFERED", "SPARK_LAUNCHER_OPTS"}


def test_installed_pyspark_is_found_without_importing_it() -> None:
    home = launcher.pyspark_home()
    assert home is not None
    assert (home / "bin" / "spark-class").is_file()


@pytest.mark.parametrize("value", ["plain", "a=b:c d", "#!x", r"back\slash\n", "two\nlines", "größe", " b"])
def test_a_setting_in_a_file_is_read_as_it_was_meant(value: str) -> None:
    line = launcher.as_property("spark.a:b c", value)
    assert "\n" not in line
    name, _, rest = line.partition(" = ")
    for before, after in {r"\n": "\n", r"\#": "#", r"\!": "!", r"\:": ":", "\\ ": " "}.items():
        name = name.replace(before, after)
        rest = rest.replace(r"\\", "\0").replace(before, after).replace("\0", r"\\")
    assert (name, rest.replace(r"\\", "\\")) == ("spark.a:b c", value)

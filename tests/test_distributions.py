"""The two distributions: `clinker-spark` works without Airflow, `airflow-provider-clinker` adds the provider to it."""

from __future__ import annotations

import email
import email.message
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import clinker_provider
import spark_jobs

ROOT = Path(__file__).parent.parent
NAMES = ("clinker_spark", "airflow_provider_clinker")
#: The Pythons that the engine says it runs on, the newest first.
PYTHONS = ("3.13", "3.12", "3.11")

pytestmark = pytest.mark.slow


def call(*command: str | Path, cwd: Path = ROOT, **environ: str) -> str:
    """What a command prints; its errors are shown when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **environ},
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built from a copy of the sources, so that nothing appears in the checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("spark_jobs", "clinker_provider"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for project in (folder, folder / "clinker_provider"):
        call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist", cwd=project)
    return {path.name.split("-")[0]: path for path in (folder / "dist").iterdir()}


def files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return email.message_from_bytes(archive.read(name))


def sources(package: str, *suffixes: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    }


def test_each_wheel_holds_its_package_and_nothing_else(wheels: dict[str, Path]) -> None:
    assert set(wheels) == set(NAMES)
    engine, provider = files(wheels["clinker_spark"]), files(wheels["airflow_provider_clinker"])
    assert engine >= sources("spark_jobs", ".py", ".lark", ".md")
    assert {name.split("/")[0] for name in engine} == {"spark_jobs"}
    assert provider == sources("clinker_provider", ".py")


def test_versions_and_licence_agree(wheels: dict[str, Path]) -> None:
    assert spark_jobs.__version__ == clinker_provider.__version__
    for wheel in wheels.values():
        said = metadata(wheel)
        assert said["Version"] == spark_jobs.__version__
        assert said["License-Expression"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "clinker_provider/LICENSE").read_bytes()


def test_the_provider_needs_the_engine_of_its_version_and_the_engine_no_airflow(
    wheels: dict[str, Path],
) -> None:
    engine = metadata(wheels["clinker_spark"]).get_all("Requires-Dist") or []
    provider = metadata(wheels["airflow_provider_clinker"]).get_all("Requires-Dist") or []
    assert not [name for name in engine if "airflow" in name]
    assert f"clinker-spark=={spark_jobs.__version__}" in provider


def test_classifiers_name_the_pythons_that_are_accepted() -> None:
    for project in (ROOT / "pyproject.toml", ROOT / "clinker_provider/pyproject.toml"):
        told = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        assert told["requires-python"] == ">=3.11,<3.14"
        named = [name.rsplit(" ", 1)[1] for name in told["classifiers"] if "Python :: 3." in name]
        assert sorted(named, reverse=True) == list(PYTHONS)


def newest_python() -> Path:
    """The newest Python on this machine that the engine runs on; at the least the one of these tests."""
    homes = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    homes += sorted((Path.home() / ".pyenv/versions").glob("*/bin"))
    for minor in PYTHONS:
        for home in homes:
            python = home / f"python{minor}"
            if (
                python.exists()
                and subprocess.run([python, "-c", "import venv, ssl, lzma"], check=False).returncode == 0
            ):
                return python
    return Path(sys.executable)


@pytest.mark.spark
def test_the_engine_runs_a_pipeline_in_an_environment_without_airflow(wheels: dict[str, Path], tmp_path: Path) -> None:
    uv = call("bash", "-c", ". scripts/tools.sh && find_uv").strip()
    home = tmp_path / "environment"
    python = home / "bin/python"
    call(uv, "venv", "-q", "--python", newest_python(), home)
    # The versions that all other tests run with; hashes are checked by `make setup`.
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    constraints = tmp_path / "constraints.txt"
    pinned = [line.split()[0] for line in locked if "==" in line and not line.lstrip().startswith("#")]
    constraints.write_text("\n".join(pinned))
    call(uv, "pip", "install", "-q", "--python", python, "-c", constraints, wheels["clinker_spark"])

    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    found = call(python, "-c", "import importlib.util as u; print(u.find_spec('airflow'))", cwd=tmp_path)
    assert found.strip() == "None"
    assert call(home / "bin/clinker", "--version", cwd=tmp_path) == f"clinker {spark_jobs.__version__}\n"
    assert json.loads(call(home / "bin/cxl", "eval", "-e", "emit total = 3 * 2", cwd=tmp_path)) == {"total": 6}
    call(home / "bin/clinker", "init", "first", cwd=tmp_path, PATH=path)
    call(home / "bin/clinker", "validate", "first/pipeline.yaml", cwd=tmp_path, PATH=path)
    before = {item.name for item in (tmp_path / "first").iterdir()}
    done = subprocess.run(
        [home / "bin/clinker", "run", "first/pipeline.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "PYSPARK_PYTHON": str(python)},
    )
    assert done.returncode in (0, 2), done.stderr
    assert {item.name for item in (tmp_path / "first").iterdir()} > before

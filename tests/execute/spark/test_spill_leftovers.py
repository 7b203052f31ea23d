"""What an embedded Spark keeps on disk: in a locked folder, which goes with its process or with the next run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.disk import spill_folder
from spark_jobs.disk.locks import FileLock
from spark_jobs.execute.spark import session
from spark_jobs.plan.options import RunOptions
from tests.execute import pipelines

ROOT = Path(__file__).resolve().parents[3]


class Builder:
    """Takes settings as the builder of a session does."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, key: str, value: str) -> Builder:
        self.settings[key] = value
        return self

    def master(self, url: str) -> Builder:
        return self

    appName = master

    def getOrCreate(self) -> Builder:
        return self

    @property
    def conf(self) -> Builder:
        """The settings of the session."""
        return self

    set = config


class Launched:
    """Is launched as a JVM is, with settings."""

    def __init__(self, settings: dict[str, str], folder: str | None, *, is_shown: bool) -> None:
        assert not is_shown
        assert settings["spark.local.dir"] == folder

    def gateway(self) -> None:
        """Nobody talks to it."""


@pytest.mark.parametrize("is_configured", [True, False])
def test_spark_shuffles_in_a_locked_folder_of_the_process(
    is_configured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    from spark_jobs.execute.spark import internals, shipping
    from spark_jobs.execute.spark.embedded import java, jvm

    at_exit: list[Any] = []
    monkeypatch.setattr(session.atexit, "register", at_exit.append)
    monkeypatch.setattr(java, "problem", lambda: None)
    monkeypatch.setattr(jvm, "prepare", lambda: None)
    monkeypatch.setattr(session.launch, "Launch", Launched)
    monkeypatch.setattr(session.prefork, "begin", lambda folder, settings: None)
    monkeypatch.setattr(internals, "has_jvm", lambda: False)
    monkeypatch.setattr(internals, "use", lambda gateway: None)
    monkeypatch.setattr(shipping, "ship", lambda spark: None)
    monkeypatch.setattr(SparkSession, "builder", builder := Builder())
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(tempfile, "tempdir", None if is_configured else str(tmp_path))
    session._shuffle_folder.cache_clear()
    spill_dir = str(tmp_path) if is_configured else None

    session.open_session(RunOptions(), 2, spill_dir)
    folder = Path(builder.settings["spark.local.dir"])
    assert (folder.parent, folder.name.startswith(spill_folder.PREFIX)) == (tmp_path, True)
    assert FileLock.exclusive(folder / spill_folder.LOCK) is None
    session.open_session(RunOptions(), 2, spill_dir)  # a second run of the process
    assert [folder] == list(tmp_path.iterdir())
    assert builder.settings["spark.local.dir"] == str(folder)
    assert f"-Djava.io.tmpdir={folder}" in builder.settings["spark.driver.extraJavaOptions"].split()
    for call in at_exit:
        call()
    assert not folder.exists()
    session._shuffle_folder.cache_clear()


PIPELINE = """
pipeline: {name: crash}
nodes:
  - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {a: int, b: string}}}
  - {type: aggregate, name: sums, input: rows, config: {group_by: [b], cxl: emit n = sum(a)}}
  - {type: output, name: o, input: sums, config: {type: csv, path: out/sums.csv}}
"""
#: Imported by every Python process of the run. The task that opens the output's part file notes the shuffle files, and
#: kills the JVM; where `KILL` is `both`, the driver before it.
SITE = """
import builtins, glob, os, signal
real = builtins.open
def crash(path, mode="r", *others, **options):
    if mode == "wb" and str(path).endswith(".part"):
        import psutil
        with real(os.environ["SEEN"], "w") as seen:
            seen.write("\\n".join(glob.glob("spill/**/shuffle_*.data", recursive=True)))
        driver = next(each for each in psutil.Process().parents() if "pipeline.yaml" in each.cmdline())
        jvm = next(each for each in driver.children() if each.name() == "java")
        if os.environ["KILL"] == "both":
            driver.kill()
        jvm.kill()
    return real(path, mode, *others, **options)
builtins.open = crash
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("victims", "setting"), [("jvm", "dir"), ("both", "dir"), ("jvm", "TMPDIR")])
def test_what_a_killed_jvm_shuffled_goes(victims: str, setting: str, tmp_path: Path) -> None:
    rows = "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(5000))
    settings = '[storage.spill]\ndir = "spill"\n' if setting == "dir" else ""
    site = {"site/sitecustomize.py": SITE, "clinker.toml": settings}
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "rows.csv": rows, **site})
    (tmp_path / "spill").mkdir()
    environ = {
        **os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}", "SPARK_LOCAL_IP": "127.0.0.1", "KILL": victims,
        "SEEN": str(tmp_path / "seen"), "CLINKER_SPLIT_BYTES": "10000", setting: str(tmp_path / "spill"),
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    seen = (tmp_path / "seen").read_text().split()
    assert seen, "nothing was shuffled yet"
    assert {Path(path).parts[1].startswith(spill_folder.PREFIX) for path in seen} == {True}
    left = [*(tmp_path / "spill").iterdir()]
    if victims == "jvm":
        assert (ended.returncode, left) == (4, [])
        return
    assert left
    for folder in left:
        os.utime(folder, (time.time() - 60,) * 2)
    assert spill_folder.purge(str(tmp_path / "spill")) == []
    assert not list((tmp_path / "spill").iterdir())

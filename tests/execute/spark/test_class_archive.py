"""The class-data archive: found by what it was made from, complete or absent, never needed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs import contract
from spark_jobs.execute.spark import internals, session
from spark_jobs.execute.spark.embedded import class_archive, class_dump, java, jvm
from spark_jobs.plan.options import RunOptions
from tests.waiting import until


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A JDK and a Spark that exist as far as names go, and an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv(class_archive.SWITCH_VARIABLE, raising=False)
    monkeypatch.setattr(java, "version", lambda _: (17, 'version "17.0.1"'))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path


def test_an_archive_is_used_when_it_is_there(installed):
    assert class_archive.options("/jdk/bin/java") == ""
    archive = class_archive.path("/jdk/bin/java")
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in class_archive.options("/jdk/bin/java")


def test_other_builds_have_other_archives(installed, monkeypatch):
    first = class_archive.path("/jdk/bin/java")
    assert class_archive.path("/jdk/bin/java") == first
    assert class_archive.path("/other/bin/java") != first
    os.utime(installed / "spark" / "jars", (1, 1))
    second = class_archive.path("/jdk/bin/java")
    assert second != first
    monkeypatch.setattr(java, "version", lambda _: (21, 'version "21.0.1"'))
    assert class_archive.path("/jdk/bin/java") not in (first, second)


def test_the_switch_turns_archives_off(installed, monkeypatch):
    archive = class_archive.path("/jdk/bin/java")
    archive.touch()
    monkeypatch.setenv(class_archive.SWITCH_VARIABLE, "off")
    assert class_archive.options("/jdk/bin/java") == ""


def test_an_archive_is_asked_for_once_and_made_after_the_run(installed, monkeypatch):
    asked = []
    monkeypatch.setattr(class_archive.atexit, "register", lambda *call: asked.append(call))
    class_archive.request.cache_clear()
    for _ in range(2):
        class_archive.request("/jdk/bin/java")
    assert asked == [(class_archive._start, class_archive.path("/jdk/bin/java"))]


def test_no_archive_is_asked_for_when_there_is_one(installed, monkeypatch):
    archive = class_archive.path("/jdk/bin/java")
    archive.touch()
    monkeypatch.setattr(class_archive.atexit, "register", lambda *call: pytest.fail("asked for"))
    class_archive.request.cache_clear()
    class_archive.request("/jdk/bin/java")


def test_an_archive_gets_its_name_when_it_is_complete(tmp_path, monkeypatch):
    archive = tmp_path / "a.jsa"

    def dump(target):
        target.write_bytes(b"classes")
        assert not archive.exists()

    monkeypatch.setattr(class_dump, "_dump", dump)
    assert class_dump.make(archive)
    assert archive.read_bytes() == b"classes"


def test_a_dump_that_breaks_off_leaves_no_archive(tmp_path, monkeypatch):
    def dump(target):
        target.write_bytes(b"half")
        raise OSError

    monkeypatch.setattr(class_dump, "_dump", dump)
    with pytest.raises(OSError):
        class_dump.make(tmp_path / "a.jsa")
    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]


def test_a_dump_that_is_ended_leaves_no_folder(tmp_path):
    program = f"""
import time
from pathlib import Path
from spark_jobs.execute.spark import session
from spark_jobs.execute.spark.embedded import class_dump

def make(archive):
    print(session._shuffle_folder({str(tmp_path)!r}), flush=True)
    time.sleep(60)

class_dump.make = make
class_dump.main()
"""
    with subprocess.Popen([sys.executable, "-c", program, "a.jsa"], stdout=subprocess.PIPE, text=True) as dump:
        folder = Path(dump.stdout.readline().strip())
        assert folder.is_dir()
        dump.terminate()
        assert dump.wait(30) == 1
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_dump_leaves_stands_beside_the_archive(tmp_path, monkeypatch):
    def opened(options, threads, spill_dir=None):
        raise OSError(spill_dir)

    monkeypatch.setattr(session, "open_session", opened)
    monkeypatch.setenv(class_archive.SWITCH_VARIABLE, "off")
    with pytest.raises(OSError, match=str(tmp_path)):
        class_dump._dump(tmp_path / "a.partial")


def test_two_makers_do_not_meet(tmp_path, monkeypatch):
    monkeypatch.setattr(class_dump, "_dump", lambda _: pytest.fail("made twice"))
    with (tmp_path / "a.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not class_dump.make(tmp_path / "a.jsa")


def test_archives_of_other_builds_are_forgotten_in_time(tmp_path, monkeypatch):
    for age in range(5):
        other = tmp_path / f"other{age}.jsa"
        other.touch()
        os.utime(other, (1000 - age, 1000 - age))
    monkeypatch.setattr(class_dump, "_dump", lambda target: target.touch())
    class_dump.make(tmp_path / "a.jsa")
    assert sorted(path.name for path in tmp_path.glob("*.jsa")) == ["a.jsa", "other0.jsa", "other1.jsa"]


def test_what_killed_dumps_left_goes_with_the_next_archive(installed):
    newest = class_archive.path("/jdk/bin/java")
    killed, running = newest.with_name("killed.partial"), newest.with_name("running.partial")
    for left in (killed, running):
        left.touch()
    os.utime(killed, (0, 0))
    class_dump._forget(newest)
    assert (killed.exists(), running.exists()) == (False, True)


def test_a_cache_folder_that_cannot_be_made_is_no_problem(installed, monkeypatch):
    (installed / "cache").touch()
    assert class_archive.path("/jdk/bin/java") is None
    assert class_archive.options("/jdk/bin/java") == ""
    assert not class_dump.make(installed / "cache" / "clinker" / "a.jsa")


def test_an_archive_that_others_may_have_made_is_not_mapped(installed):
    archive = class_archive.path("/jdk/bin/java")
    archive.touch(0o600)
    assert class_archive.options("/jdk/bin/java")
    archive.chmod(0o666)
    assert class_archive.options("/jdk/bin/java") == ""
    archive.chmod(0o600)
    archive.parent.chmod(0o777)
    assert class_archive.options("/jdk/bin/java") == ""
    assert not class_dump.make(archive.with_name("other.jsa")), "nor is one made there"


def test_what_makes_an_archive_is_tied_to_no_submitted_run(monkeypatch):
    """The run's JVM and packed modules are gone by then, and who ends the run's processes ends those of its mark."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "s")
    monkeypatch.setenv(contract.EXECUTION_ID_VARIABLE, "e")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/work/spark_jobs.zip", "/src", "/spark/pyspark.zip"]))
    started = []
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda *_, env, **__: started.append(env))
    class_archive._start(Path("a.jsa"))
    (environment,) = started
    assert not {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", contract.EXECUTION_ID_VARIABLE} & environment.keys()
    assert environment["PYTHONPATH"] == "/src"
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(("master", "asks"), [("local[2]", True), ("spark://h:7077", False)])
def test_a_submitted_run_asks_for_an_archive_where_its_spark_is_embedded(master, asks, monkeypatch):
    """As far as the settings are known; a session is not opened."""

    class EnoughError(Exception):
        pass

    def stop(*_):
        raise EnoughError

    asked = []
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(internals, "connect", lambda settings: None)
    monkeypatch.setattr(jvm, "request_archive", lambda: asked.append(True))
    monkeypatch.setattr("spark_jobs.execute.spark.shipping.settings", stop)
    monkeypatch.setattr("pyspark.SparkConf", lambda **_: Settings(master))
    with pytest.raises(EnoughError):
        session._build(RunOptions(), None, None)
    assert bool(asked) is asks


class Settings(dict):
    """Stands in for what spark-submit says."""

    def __init__(self, master):
        super().__init__({"spark.master": master})

    def setAll(self, _):
        return self

    def getAll(self):
        return [*self.items()]


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_has_an_archive_made_which_the_next_one_uses(tmp_path):
    """The whole way, as a user has it: in processes of their own, with a cache folder of their own."""
    (tmp_path / "in.csv").write_text("id\n1\n")
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        "pipeline: {name: tiny}\n"
        "nodes:\n"
        "  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: {id: int}}}\n"
        "  - {type: output, name: out, input: rows, config: {type: csv, path: out.csv}}\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop(class_archive.SWITCH_VARIABLE, None)
    command = [sys.executable, "-m", "spark_jobs", "run", str(pipeline), "--force", "--quiet"]
    first = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert first.returncode == 0, first.stderr
    assert first.stderr == ""
    (archive,) = until(lambda: list(tmp_path.glob("cache/clinker/*.jsa")), 240)
    # A JVM that must use the archive, or not start at all.
    command += [
        "--conf",
        f"spark.driver.extraJavaOptions={class_archive.JVM_OPTIONS} -XX:SharedArchiveFile={archive} -Xshare:on",
    ]
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert second.returncode == 0, second.stderr
    assert (tmp_path / "out.csv").read_text() == "id\n1\n"

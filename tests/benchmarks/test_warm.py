"""Sessions that stay warm run workloads, and say what failed; figures that grow are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import measure, run, warm, warm_runs


def test_processor_time_of_a_tree_has_children_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert measure.tree_cpu_seconds(process.pid) >= 0.3
        process.communicate("\n")


def test_what_a_session_fails_with_is_told(tmp_path: Path) -> None:
    session = warm.Session("nothing", tmp_path)
    try:
        with pytest.raises(measure.Failed, match="KeyError: 'nothing'"):
            session.run("startup", {})
    finally:
        session.close()


def test_growth_is_found() -> None:
    before = warm_runs.Held({"MiB": 1000, "open files": 100, "threads": 50, "processes": 4})
    assert warm_runs.Held({"MiB": 1300, "open files": 110, "threads": 50, "processes": 5}).grown(before) == []
    grown = warm_runs.Held({"MiB": 1400, "open files": 111, "threads": 50, "processes": 4}).grown(before)
    assert grown == ["MiB: 1000 to 1400", "open files: 100 to 111"]


@pytest.mark.spark
@pytest.mark.slow
def test_both_programs_are_measured_warm(tmp_path: Path) -> None:
    script = Path(run.__file__)
    command = [sys.executable, str(script), "--warm", "--shape", "1", "--rows", "2000", "--runs", "1"]
    command += ["--workload", "group_16", "--data", str(tmp_path / "data"), "--json", str(tmp_path / "found.json")]
    environment = {**os.environ, "PYTHONPATH": str(script.parent.parent)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    document = json.loads((tmp_path / "found.json").read_text())
    assert (document["setup"]["warm"], document["setup"]["rounds"]) == (True, 1)
    (found,) = document["results"]
    assert (found["workload"], found["rows"], found["seed"]) == ("group_16", 2000, 1)
    assert {program: runs[0]["cpu_seconds"] > 0 for program, runs in found["runs"].items()} == {
        "clinker": True,
        "spark": True,
    }


@pytest.mark.spark
@pytest.mark.slow
def test_a_warm_driver_is_measured() -> None:
    command = [sys.executable, str(Path(warm_runs.__file__)), "--count", "3"]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "3 runs: median" in told.stdout

"""However a command ends, it leaves nothing in the temporary folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from spark_jobs.cli.warm import client
from tests.execute import pipelines
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
_PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }}{threshold} }}
nodes:
  - {{ type: source, name: s, config: {{ type: csv, path: {path}, schema: {{ a: int, b: string }} }} }}
  - {{ type: aggregate, name: t, input: s, config: {{ group_by: [b], cxl: "{program}" }} }}
  - {{ type: output, name: o, input: t, config: {{ type: csv, path: {out} }} }}
"""
_CASES = """
pipeline: good.yaml
cases:
  - {name: sums, given: {s: [{a: 1, b: x}, {a: 2, b: x}]}, expect: {o: [{b: x, n: %d}]}}
"""


def _pipeline(
    path: str = "in.csv", program: str = "emit n = sum(a)", out: str = "out/o.csv", threshold: str = ""
) -> str:
    return _PIPELINE.format(path=path, program=program, out=out, threshold=threshold)


class Place:
    """A folder of pipelines, and a folder for temporary files that is theirs alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary = folder / "work", folder / "temporary"
        self.temporary.mkdir()
        pipelines.write(
            self.folder,
            {
                "good.yaml": _pipeline(),
                "bad.yaml": _pipeline(program="emit n = summ(a)"),
                "dead.yaml": _pipeline("dead.csv"),
                "threshold.yaml": _pipeline("dead.csv", threshold=", type_error_threshold: 0.1"),
                "missing.yaml": _pipeline("missing.csv"),
                "broken.yaml": _pipeline("broken.csv.gz"),
                "unwritable.yaml": _pipeline(out="in.csv/o.csv"),
                "in.csv": "a,b\n1,x\n2,y\n",
                "dead.csv": "a,b\n1,x\nno,y\n",
                "other.csv": "a,b\n1,x\n3,y\n",
                "broken.csv.gz": b"no gzip at all",
                "good.test.yaml": _CASES % 3,
                "wrong.test.yaml": _CASES % 4,
            },
        )
        self.environ = {
            **os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(self.temporary),
        }  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "spark_jobs", *words], cwd=self.folder, env=self.environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def left(self) -> list[str]:
        """All paths, also while a process that ends is removing some."""
        return sorted(
            str(Path(folder, name).relative_to(self.temporary))
            for folder, folders, files in os.walk(self.temporary)
            for name in (*folders, *files)
        )

    def ends(self, status: int, *words: str) -> None:
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        assert process.returncode == status, (words, out, err)
        assert "Traceback" not in out + err
        assert self.left() == [], words


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_commands_that_plan_or_look_leave_nothing(place: Place) -> None:
    place.ends(0, "validate", "good.yaml")
    place.ends(1, "validate", "bad.yaml")
    place.ends(0, "explain", "good.yaml")
    place.ends(0, "guess", "in.csv")
    place.ends(0, "preview", "good.yaml")
    place.ends(4, "preview", "broken.yaml")
    place.ends(0, "profile", "in.csv")
    place.ends(0, "diff-data", "in.csv", "other.csv")
    place.ends(0, "test", "good.test.yaml")
    place.ends(1, "test", "wrong.test.yaml")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "pipeline"),
    [(0, "good"), (1, "bad"), (2, "dead"), (3, "threshold"), (4, "missing"), (4, "broken"), (4, "unwritable")],
)
def test_a_run_leaves_nothing_whatever_its_exit_code(status: int, pipeline: str, place: Place) -> None:
    place.ends(status, "run", f"{pipeline}.yaml")
    if status == 2:
        dead = next((place.folder / "out").glob("dlq*.csv"))
        dead.write_text(dead.read_text().replace("no,y", "5,y"))
        replayed = place.start("dlq", "replay", "dead.yaml", str(dead))
        out, err = replayed.communicate(timeout=300)
        assert "Traceback" not in out + err
        assert place.left() == [], (replayed.returncode, out, err)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "number", "after_s"),
    [
        ("run good.yaml", signal.SIGTERM, 0.1),
        ("run good.yaml", signal.SIGINT, 0.7),
        ("run good.yaml", signal.SIGTERM, 2.5),
        ("test good.test.yaml", signal.SIGTERM, 0.7),
        ("preview good.yaml", signal.SIGINT, 0.7),
    ],
)
def test_a_command_that_is_stopped_leaves_nothing(command: str, number: int, after_s: float, place: Place) -> None:
    process = place.start(*command.split())
    time.sleep(after_s)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 130, -number), (out, err)
    assert until(lambda: place.left() == [], 20), place.left()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("command", ["run --dry-run -n 2 good.yaml", "preview good.yaml"])
def test_a_reader_that_goes_away_leaves_nothing(command: str, place: Place) -> None:
    process = place.start(*command.split())
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    process.wait(timeout=300)
    assert until(lambda: place.left() == [], 20), place.left()


@pytest.mark.spark
@pytest.mark.slow
def test_a_warm_driver_leaves_nothing_when_it_stops(place: Place) -> None:
    with tempfile.TemporaryDirectory(prefix="warm") as runtime:
        place.environ |= {"XDG_RUNTIME_DIR": runtime, client.VARIABLE: "1"}
        del place.environ["PYTEST_CURRENT_TEST"]
        place.start("serve", "--start").communicate(timeout=120)
        try:
            for status, pipeline in ((0, "good"), (4, "missing"), (2, "dead")):
                process = place.start("run", "--force", f"{pipeline}.yaml")
                out, err = process.communicate(timeout=300)
                assert process.returncode == status, (out, err)
            assert place.left() != [], "no driver is there"
        finally:
            place.start("serve", "--stop").communicate(timeout=60)
    assert until(lambda: place.left() == [], 60), place.left()

"""A job killed at any moment leaves the old files or the new ones, and the next run succeeds."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from spark_jobs.execute.delivery.local import recovery
from tests.execute import pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = 50
OUTPUTS = ("low.csv", "high.json", "total.csv")
PIPELINE = """
pipeline:
  name: killed
nodes:
  - type: source
    name: rows
    config: {name: rows, type: csv, path: rows.csv, schema: [{name: n, type: int}, {name: run, type: string}]}
  - type: route
    name: size
    input: rows
    config: {conditions: {low: n < 5000}, default: high}
  - type: aggregate
    name: total
    input: rows
    config: {group_by: [run], cxl: "emit rows = count(*)"}
  - {type: output, name: o1, input: size.low, config: {name: o1, type: csv, path: out/low.csv}}
  - {type: output, name: o2, input: size.high, config: {name: o2, type: json, path: out/high.json}}
  - {type: output, name: o3, input: total, config: {name: o3, type: csv, path: out/total.csv}}
"""
#: Runs the pipeline again and again in one warm process; each run writes its number into every record of every file.
CHILD = """
import sys
from pathlib import Path
from tests.execute import pipelines
folder, number = Path(sys.argv[1]), int(sys.argv[2])
while True:
    rows = "n,run\\n" + "".join(f"{i},{number}\\n" for i in range(10000))
    (folder / "rows.csv").write_text(rows)
    print("run", number, flush=True)
    code = pipelines.run(folder, force=True).result.exit_code
    print("done", number, code, flush=True)
    number += 1
"""


#: Starts Spark once; each line `number delay` forks a driver that makes run `number` and is killed after the delay.
#: A forked driver talks to the JVM over connections of its own, in a thread of its own. Spark's tasks outlive it, as
#: they do on a cluster.
FORKER = """
import os, signal, sys, threading, time
from pathlib import Path
from tests.execute import pipelines
folder = Path(sys.argv[1])
def one(number):
    rows = "n,run\\n" + "".join(f"{i},{number}\\n" for i in range(10000))
    (folder / "rows.csv").write_text(rows)
    begun = time.monotonic()
    code = pipelines.run(folder, force=True).result.exit_code
    return code, time.monotonic() - begun
one(0)
print(*one(1), flush=True)
for line in sys.stdin:
    number, delay = line.split()
    rows = "n,run\\n" + "".join(f"{i},{number}\\n" for i in range(10000))
    (folder / "rows.csv").write_text(rows)
    child = os.fork()
    if not child:
        def work():
            os._exit(pipelines.run(folder, force=True).result.exit_code)
        threading.Thread(target=work).start()
        time.sleep(600)
    time.sleep(float(delay))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)
"""


def versions(folder: Path) -> dict[str, set[str]]:
    """Which runs' records stand in each file; a half-written file has records of no run or too few."""
    found = {}
    for name in OUTPUTS:
        text = (folder / "out" / name).read_text() if (folder / "out" / name).exists() else ""
        found[name] = {
            line.split(",")[0] if name == "total.csv" else _run_of(line) for line in text.splitlines() if _run_of(line)
        }
        rows = sum(1 for line in text.splitlines() if _run_of(line))
        assert rows == {"low.csv": 5000, "high.json": 5000, "total.csv": 1}[name], f"{name} has {rows} rows"
    return found


def _run_of(line: str) -> str:
    if line.startswith("{"):
        return line.rstrip(",").rstrip("}").rsplit(":", 1)[1].strip('"')
    cells = line.split(",")
    return cells[1] if len(cells) == 2 and cells[0].isdigit() else ""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """The driver is killed at once; the JVM and workers that it leaves behind follow."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    for member in family:
        try:
            member.kill()
            member.wait(30)
        except psutil.NoSuchProcess:
            continue


def start(folder: Path, number: int, script: str = CHILD) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[3]
    environ = {**os.environ, "CLINKER_SPLIT_BYTES": "40000", "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder), str(number)], cwd=root, text=True, env=environ,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_publishing_survives_a_kill_at_every_step(tmp_path: Path) -> None:
    """Fifty processes killed at random moments of publishing itself, where it is most dangerous."""
    out = tmp_path / "out"
    out.mkdir()
    random.seed(20)
    publisher = (
        "import sys\nfrom pathlib import Path\nfrom spark_jobs.execute.delivery.local import journal, publish\n"
        "out = Path(sys.argv[1]); number = int(sys.argv[2])\nprint('ready', flush=True)\n"
        "while True:\n"
        "    draft = publish.DraftFolders.open(f'run-{number}', out)\n"
        "    renames = []\n"
        "    for name in 'abc':\n"
        "        path = draft.home / name\n        path.write_text(f'{number}\\n' * 1000)\n"
        "        renames.append(journal.Rename(str(path), str(out / name)))\n"
        "    draft.publish(renames)\n    draft.close(failed=False)\n    number += 1\n"
    )
    root = Path(__file__).resolve().parents[3]
    seen = set()
    for kill in range(KILLS):
        command = [sys.executable, "-c", publisher, str(out), str(kill * 100_000)]
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.random() * 0.05)
        process.kill()
        process.wait(10)
        recovery.recover(out)
        assert [p.name for p in out.iterdir() if p.name.startswith(".")] == []
        texts = {name: (out / name).read_text() for name in "abc" if (out / name).exists()}
        assert len(set(texts.values())) <= 1, "files of different runs"
        assert set(texts) in (set(), set("abc"))
        seen |= set(texts.values())
    assert len(seen) > 2, "the kills came too early to prove anything"


def test_a_killed_driver_leaves_old_or_new_files(tmp_path: Path, child: list[subprocess.Popen[str]]) -> None:
    """Fifty drivers killed at random moments of their run, and as many runs that begin where those ended."""
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE})
    random.seed(22)
    process = start(tmp_path, 0, FORKER)
    child.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    code, seconds = process.stdout.readline().split()
    assert code == "0"
    takes = float(seconds)
    told: list[str] = []
    kept: list[bool] = []
    last = {"1"}
    for number in range(2, 2 + 10 * KILLS):
        began = time.monotonic()
        process.stdin.write(f"{number} {random.random() * takes}\n")
        process.stdin.flush()
        told.append(process.stdout.readline().strip())
        if told[-1] != "killed":  # a JVM gets faster with every run, so the moments follow the last whole one
            takes = time.monotonic() - began
        recovery.recover(tmp_path / "out")
        found = versions(tmp_path)
        assert len(set(map(frozenset, found.values()))) == 1, f"a mixture: {found}"
        assert [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".")] == []
        now = found["total.csv"]
        assert now in (last, {str(number)}), "files of a run before the last"
        kept.append(now == last)
        last = now
        if told.count("killed") == KILLS:
            break
    assert set(told) <= {"killed", "ended 0"}, told
    assert told.count("killed") == KILLS, "the runs ended before they were killed"
    assert any(kept), "no kill came before the files were published"
    assert not all(kept), "no run came as far as publishing"


def test_a_killed_job_leaves_old_or_new_files(tmp_path: Path, child: list[subprocess.Popen[str]]) -> None:
    """The JVM and the workers die as well; fewer kills, each costs a JVM."""
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE})
    random.seed(21)
    number = 0
    for _ in range(2):
        process = start(tmp_path, number)
        child.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            word, current, *rest = line.split()
            if word == "done":
                assert rest == ["0"], line
                break
        number = int(current) + 1
        process.stdout.readline()
        time.sleep(random.random() * 0.6)
        _kill(process)
        recovery.recover(tmp_path / "out")
        found = versions(tmp_path)
        assert len(set(map(frozenset, found.values()))) == 1, f"a mixture: {found}"
        assert [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".")] == []

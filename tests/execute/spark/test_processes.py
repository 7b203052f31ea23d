"""What a run's processes need."""

from __future__ import annotations

import subprocess
import sys

from spark_jobs.execute.spark import processes

MEBIBYTES = 200
#: A child that starts a child with memory of its own.
CHILD = (
    "import subprocess, sys\n"
    f"inner = 'held = bytearray({MEBIBYTES} << 20); print(len(held), flush=True); input()'\n"
    "subprocess.run([sys.executable, '-c', inner])\n"
)


def test_memory_of_children_and_their_children_counts() -> None:
    alone = processes.peak_rss()
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        assert processes.peak_rss() >= alone + (MEBIBYTES << 20)
        child.stdin.write(b"\n")
    assert processes.peak_rss() < alone + (MEBIBYTES << 20)

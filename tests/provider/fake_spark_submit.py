"""A fake `spark-submit` for tests without Spark: it takes the same command line and leaves the files of a job.

What to do comes in the environment variable FAKE_JOB, JSON: `exit` (return code), `record` (fields of the record, or
null for none), `by` (`file` or `line`), `print` (lines; "SELF" in
them is the execution's name), `hang` (start processes of its own, then wait for ever),
`notes` (file for the command line, the environment and the file of settings), `exits` (return codes of the first,
second, … call, the last one for all that follow) with `calls` (file that counts them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from spark_jobs import contract, result
from spark_jobs.stores import location, results
from spark_jobs.stores.settings import StoreSettings


def main() -> int:
    arguments = sys.argv[1:]
    job = json.loads(os.environ["FAKE_JOB"])
    execution_id = arguments[arguments.index(contract.EXECUTION_ID_OPTION) + 1]
    place = arguments[arguments.index(contract.WORK_DIR_OPTION) + 1]
    work_dir = Path(tempfile.mkdtemp() if "://" in place else place)
    if "exits" in job:
        with open(job["calls"], "a") as file:
            file.write(f"{execution_id}\n")
        calls = len(Path(job["calls"]).read_text().splitlines())
        job["exit"] = job["exits"][min(calls, len(job["exits"])) - 1]
    if "notes" in job:
        seen = {"argv": arguments, "environ": dict(os.environ), "work_dir_files": sorted(os.listdir(work_dir))}
        if "--properties-file" in arguments:
            file = Path(arguments[arguments.index("--properties-file") + 1])
            seen["properties"], seen["properties_mode"] = file.read_text(), file.stat().st_mode & 0o7777
        seen["archives"] = _archives(arguments)
        seen["work_mode"] = work_dir.stat().st_mode & 0o7777
        Path(job["notes"]).write_text(json.dumps(seen))
    for line in job.get("print", ()):
        line = line.replace('"SELF"', f'"{execution_id}"')
        sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
        sys.stdout.flush()
    if job.get("record") is not None:
        fields = {"execution_id": execution_id, "exit_code": job["exit"], **job["record"]}
        if "error" in fields:
            fields["error"] = result.RunError(**fields["error"])
        record = result.RunResult(**fields)
        if "://" in place:
            results.write(location.parse(place), record, StoreSettings())
        elif job.get("by", "file") == "file":
            result.write(work_dir, record)
        print(result.sentinel_line(record), flush=True)
    if "hang" in job:
        hang(Path(job["hang"]))
    return int(job["exit"])


def _archives(arguments: list[str]) -> dict[str, list[str]]:
    """The files in each archive, by the folder that it is unpacked into."""
    given = arguments[arguments.index("--archives") + 1] if "--archives" in arguments else ""
    named = [each.rpartition("#") for each in given.split(",") if each]
    return {folder: zipfile.ZipFile(path).namelist() for path, _, folder in named}


def hang(pids: Path) -> None:
    """Be like a JVM with a Python driver: two processes below, and one that left the tree and ignores SIGTERM."""
    sleep = "import time; time.sleep(600)"
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {sleep}"
    start = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {!r}]{}); print(p.pid, flush=True)"
    forks = start.format(sleep, "") + "; p.wait()"
    leaves = start.format(stubborn, ", start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL")
    found = [os.getpid()]
    for code in (forks, leaves):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        found += [child.pid, int(child.stdout.readline())]
    pids.with_suffix(".part").write_text(json.dumps(found))
    pids.with_suffix(".part").replace(pids)
    time.sleep(600)


if __name__ == "__main__":
    sys.exit(main())

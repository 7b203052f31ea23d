"""Runs that do not fit their memory: the same bytes by way of the disk, or a clear end."""

from __future__ import annotations

import errno
import os
import random
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.tasks import spill
from spark_jobs.nodes.spill import ResourcesExhausted
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.execute.run.metrics import Outcome

SMALL, LARGE = 8 << 20, 1 << 30
PIPELINE = """
    pipeline: {name: p, concurrency: {threads: 2}}
    nodes:
      - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: SCHEMA}}
""".replace("SCHEMA", "{id: int, key: string, text: string}")
AGGREGATE = """
      - {type: aggregate, name: g, input: s, config: {group_by: [key], cxl: CXL}}
      - {type: output, name: o, input: g, config: {name: o, type: csv, path: out/o.csv}}
"""
DISTINCT = """
      - {type: transform, name: d, input: s, config: {cxl: "distinct by key"}}
      - {type: output, name: o, input: d, config: {name: o, type: csv, path: out/o.csv}}
"""
BODIES = {
    "groups": AGGREGATE.replace("CXL", '"emit n = count(*)\\nemit last = last(text)\\nemit total = sum(id)"'),
    "lists": AGGREGATE.replace("CXL", '"emit all = collect(text).join(\\"-\\")"'),
    "distinct": DISTINCT,
}


@cache
def _data(rows: int, keys: int) -> bytes:
    random_ = random.Random(7)
    lines = (f"{i},k{random_.randrange(keys)},{random_.getrandbits(400):x}" for i in range(rows))
    return ("id,key,text\n" + "\n".join(lines) + "\n").encode()


def _write(folder: Path, body: str, rows: int, keys: int) -> None:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE + body, "in.csv": _data(rows, keys)})


def _run(folder: Path, limit: int, **options: Any) -> Outcome:
    return pipelines.run(folder, memory_limit_bytes=limit, force=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("body", BODIES)
def test_bytes_do_not_depend_on_memory(body: str, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, BODIES[body], 50_000, 40_000)
    pipelines.with_splits(monkeypatch, tmp_path, "in.csv", splits)
    roomy = _run(tmp_path, LARGE)
    assert roomy.result.error is None
    wanted = pipelines.outputs(tmp_path)
    tight = _run(tmp_path, SMALL)
    assert tight.result.error is None
    assert pipelines.outputs(tmp_path) == wanted
    assert roomy.result.metrics["spilled_bytes"] == 0
    assert tight.result.metrics["spilled_bytes"] > 0
    assert sum(node["spilled_bytes"] for node in tight.nodes.values()) == tight.result.metrics["spilled_bytes"]


def _workspace(folder: Path, settings: str) -> Path:
    (folder / "scratch").mkdir(exist_ok=True)
    (folder / "clinker.toml").write_text(f'[storage.spill]\ndir = "scratch"\n{settings}\n')
    return folder / "scratch"


def test_nothing_stays_in_the_spill_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    scratch = _workspace(tmp_path, "")
    _write(tmp_path, BODIES["groups"], 24_000, 24_000)
    seen: list[str] = []
    put = spill.TaskSpill.put

    def noting(self: spill.TaskSpill, node: str, data: bytes) -> spill.SpilledBytes:
        seen.extend(os.listdir(scratch))
        return put(self, node, data)

    monkeypatch.setattr(spill.TaskSpill, "put", noting)
    assert _run(tmp_path, SMALL).result.error is None
    assert {name.rpartition("-")[0] for name in seen} == {"clinker-spill"}
    assert not list(scratch.iterdir())


def test_the_cap_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    _workspace(tmp_path, 'disk_cap_bytes = "100KB"')
    _write(tmp_path, BODIES["groups"], 24_000, 24_000)
    outcome = _run(tmp_path, SMALL)
    assert outcome.result.exit_code == 4
    assert outcome.result.error is not None
    assert outcome.result.error.code == "E320"
    assert "storage.spill.disk_cap_bytes (100000)" in outcome.result.error.message
    assert "aggregate 'g'" in outcome.result.error.message
    assert not pipelines.outputs(tmp_path)


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOSPC, "E321", "is out of space"),
        (errno.EROFS, "E900", "became unavailable mid-run"),
        (errno.EMFILE, "E900", "Too many open files; the limit of open files is too low: raise it (ulimit -n)"),
    ],
)
def test_a_volume_that_refuses_ends_the_run(
    number: int, code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    scratch = _workspace(tmp_path, "")
    _write(tmp_path, BODIES["groups"], 24_000, 24_000)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(spill.os, "pwrite", refuse)
    outcome = _run(tmp_path, SMALL)
    assert outcome.result.exit_code == 4
    assert outcome.result.error is not None
    assert outcome.result.error.code == code
    assert words in outcome.result.error.message
    assert str(scratch) in outcome.result.error.message
    assert not pipelines.outputs(tmp_path)


def test_a_folder_that_is_removed_ends_the_run_whatever_other_folders_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    scratch = _workspace(tmp_path, 'disk_cap_bytes = "100MB"')
    (tmp_path / "local").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    _write(tmp_path, BODIES["groups"], 24_000, 24_000)
    put = spill.TaskSpill.put

    def putting(self: spill.TaskSpill, node: str, data: bytes) -> spill.SpilledBytes:
        for folder in [*scratch.iterdir()] if self.spilled else []:
            shutil.rmtree(folder)
        return put(self, node, data)

    monkeypatch.setattr(spill.TaskSpill, "put", putting)
    outcome = _run(tmp_path, SMALL)
    assert outcome.result.exit_code == 4
    assert outcome.result.error is not None
    assert outcome.result.error.code == "E900"
    assert f"spill directory {scratch}/clinker-spill-" in outcome.result.error.message
    assert "became unavailable mid-run: No such file or directory" in outcome.result.error.message
    assert not pipelines.outputs(tmp_path)


def test_on_other_machines_each_run_has_a_cap_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    for run in ("clinker-spill-a", "clinker-spill-b"):
        settings = spill.Settings(f"/driver/only/{run}", 1000, made_in="another machine")
        first, second = spill.TaskSpill(settings), spill.TaskSpill(settings)
        first.put("n", b"x" * 600)
        with pytest.raises(ResourcesExhausted, match=r"600 bytes are spilled and 600 more"):
            second.put("n", b"x" * 600)
        second.put("n", b"x" * 400)
        first.close()
        second.close()


def test_a_task_keeps_to_the_folder_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that other machines share may go between two writes of a task."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    (tmp_path / "shared").mkdir()
    space = spill.TaskSpill(spill.Settings(str(tmp_path / "shared"), 1000, made_in="another machine"))
    space.put("n", b"x")
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(ResourcesExhausted, match=f"spill directory {tmp_path}/shared became unavailable"):
        space.put("n", b"x")
    space.close()


def test_a_key_larger_than_memory_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, AGGREGATE.replace("CXL", "emit all = collect(text).length()"), 60_000, 1)
    outcome = _run(tmp_path, SMALL)
    assert outcome.result.exit_code == 1
    assert outcome.result.error is not None
    assert outcome.result.error.code == "E310"
    assert "aggregate 'g': the rows of one key need" in outcome.result.error.message


def test_blocks_are_compressed_as_wanted(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"x": pa.array([f"{number} is a number, as all others are" for number in range(5000)])})
    sizes = {}
    for mode in ("on", "off", "auto"):
        space = spill.TaskSpill(spill.Settings(str(tmp_path), None, mode))
        whole, few = space.put_rows("n", table), space.put_rows("n", table.slice(0, 10))
        assert whole.read() == table
        assert few.read() == table.slice(0, 10)
        sizes[mode] = (whole.length, few.length)
        space.close()
    assert sizes["on"][0] == sizes["auto"][0] < sizes["off"][0] / 2
    assert sizes["on"][1] < sizes["auto"][1] < sizes["off"][1]

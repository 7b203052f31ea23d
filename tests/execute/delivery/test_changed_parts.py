"""What tasks wrote is put together as they wrote it, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery import merging
from spark_jobs.execute.dlq import files
from spark_jobs.execute.run import passes, work
from tests.execute import pipelines, without_spark
from tests.execute.bad_runs import run

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = "id,pad\n" + "".join(f"{i:07},{'x' if i % 4 else '*'}\n" for i in range(20_000))
PIPELINE = """
pipeline: {name: parts}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {id: int, pad: string}}}
  - {type: transform, name: checked, input: rows, config: {cxl: "emit n = 1 / (if pad == '*' then 0 else 1)"}}
  - {type: output, name: copy, input: checked, config: {type: csv, path: out/copy.csv MORE}}
"""
BUILD = """
pipeline: {name: parts}
nodes:
  - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {id: int, pad: string}}}
  - {type: source, name: side, config: {type: csv, path: rows.csv, schema: {id: int, pad: string}}}
  - type: combine
    name: both
    input: {rows: rows, side: side}
    config: {where: "rows.id == side.id", cxl: "emit id = rows.id", match: first, on_miss: skip, drive: rows}
  - {type: output, name: copy, input: both, config: {type: csv, path: out/copy.csv}}
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "40000")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1,x,1\n")


def gone(path: Path) -> None:
    path.unlink()


def after_jobs(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[], None]) -> None:
    jobs = work.Work.all_jobs

    def all_jobs(self: work.Work, spark: Any) -> None:
        jobs(self, spark)
        spoil()

    monkeypatch.setattr(work.Work, "all_jobs", all_jobs)


def refused(
    folder: Path, capsys: pytest.CaptureFixture[str], ending: str = ".part", node: str = "output 'copy'"
) -> None:
    """The run ends with the file and the output that it belongs to; nothing is published."""
    assert run(folder, "--force", "--threads", "2") == 4
    told = capsys.readouterr().err
    assert "error[E900]: " in told
    assert node in told
    assert ending in told
    assert (folder / "out/copy.csv").read_text() == "old\n"
    assert os.listdir(folder / "out") == ["copy.csv"]


MORE = {
    "plain": "",
    "with a file for each input": "",
    "sorted": ", sort_order: [{field: pad}, {field: id, order: desc}]",
    "split": ", split: {max_records: 3000}",
    "sorted and split": ", sort_order: [id], split: {max_records: 3000}",
}


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("how", [cut, grown, gone])
@pytest.mark.parametrize("kind", MORE)
def test_a_part_that_is_not_as_it_was_written_ends_the_run(
    kind: str, how: Callable[[Path], None], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    text = PIPELINE.replace("MORE", MORE[kind])
    if "each input" in kind:
        text = text.replace("out/copy.csv", '"out/{source_file}-copy.csv"')
    pipelines.write(tmp_path, {"pipeline.yaml": text, "rows.csv": ROWS, "out/copy.csv": "old\n"})
    after_jobs(monkeypatch, lambda: how(sorted(tmp_path.glob("out/.clinker-*/*.part"))[number]))
    refused(tmp_path, capsys)


@pytest.mark.parametrize("how", [cut, gone])
@pytest.mark.parametrize("kind", ["sorted", "split"])
def test_an_index_that_is_not_as_it_was_written_ends_the_run(
    kind: str, how: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    text = PIPELINE.replace("MORE", MORE[kind])
    pipelines.write(tmp_path, {"pipeline.yaml": text, "rows.csv": ROWS, "out/copy.csv": "old\n"})
    after_jobs(monkeypatch, lambda: how(sorted(tmp_path.glob("out/.clinker-*/*.index"))[1]))
    refused(tmp_path, capsys, ".part.index")


@pytest.mark.parametrize("how", [cut, grown, gone])
def test_merged_runs_that_are_not_as_they_were_written_end_the_run(
    how: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PIPELINE.replace("MORE", MORE["sorted"])
    pipelines.write(tmp_path, {"pipeline.yaml": text, "rows.csv": ROWS, "out/copy.csv": "old\n"})
    merge = merging.merge

    def merged(*arguments: object) -> list[list[merging.SortedPart]]:
        found = merge(*arguments)  # type: ignore[arg-type]
        how(Path(found[0][0].part_range.path))
        return found  # type: ignore[return-value]

    monkeypatch.setattr(merging, "merge", merged)
    refused(tmp_path, capsys, "merged-")


def test_a_task_that_cannot_write_merged_runs_names_output_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PIPELINE.replace("MORE", MORE["sorted"])
    pipelines.write(tmp_path, {"pipeline.yaml": text, "rows.csv": ROWS, "out/copy.csv": "old\n"})

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    pipelines.tune(monkeypatch, driver_output_bytes=0)
    after_jobs(monkeypatch, lambda: monkeypatch.setattr(merging.records, "write_sorted", full))
    refused(tmp_path, capsys, "merged-")


@pytest.mark.parametrize("how", [cut, grown, gone])
def test_dead_letters_that_are_not_as_they_were_written_end_the_run(
    how: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PIPELINE.replace("MORE", "")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "rows.csv": ROWS, "out/copy.csv": "old\n"})
    write = files.write

    def written(*arguments: object) -> list[list[object]]:
        found = write(*arguments)  # type: ignore[arg-type]
        how(Path(found[0][0].path))
        return found  # type: ignore[return-value]

    monkeypatch.setattr(files, "write", written)
    refused(tmp_path, capsys, ".rows", node="")


@pytest.mark.parametrize("how", [cut, gone])
def test_letters_of_tasks_that_are_not_as_they_were_written_end_the_run(
    how: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PIPELINE.replace("MORE", "")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "rows.csv": ROWS, "out/copy.csv": "old\n"})
    after_jobs(monkeypatch, lambda: how(sorted(tmp_path.glob("out/.clinker-*/dlq-*.arrow"))[1]))
    refused(tmp_path, capsys, "/dlq-", node="")


@pytest.mark.parametrize("how", [cut, grown, gone])
def test_a_build_side_that_is_not_as_it_was_written_ends_the_run(
    how: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipelines.write(tmp_path, {"pipeline.yaml": BUILD, "rows.csv": ROWS, "out/copy.csv": "old\n"})
    real = passes.chain.run

    def chain(*arguments: object) -> object:
        reports = real(*arguments)  # type: ignore[arg-type]
        if parts := sorted(tmp_path.glob("out/.clinker-*/*.part")):
            how(parts[0])
        return reports

    monkeypatch.setattr(passes.chain, "run", chain)
    refused(tmp_path, capsys, node="combine 'both'")

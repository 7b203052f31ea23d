"""What a run tells of itself while it goes on."""

from __future__ import annotations

import io
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import passes, progress, stopwatch
from spark_jobs.execute.tasks import meter
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from spark_jobs.execute.report import TaskReport
    from spark_jobs.execute.tasks.spec import JobSpec

_PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: orders, config: {type: csv, path: in.csv, schema: {id: int, kind: string}}}
  - {type: aggregate, name: by_kind, input: orders, config: {group_by: [kind], cxl: "emit n = count(*)"}}
  - {type: output, name: out, input: by_kind, config: {type: csv, path: out/out.csv}}
"""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is shown before each job, within it, and when its tasks are done."""
    without_spark.install(monkeypatch)
    pipelines.write(folder, {"pipeline.yaml": _PIPELINE, "in.csv": "id,kind\n" + "1,a\n2,b\n" * 500})
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "1000")
    seen: list[str] = []
    made: list[progress.Progress] = []
    ordinary = progress.Progress

    def new(clock: stopwatch.Stopwatch) -> progress.Progress:
        made.append(ordinary(clock, now=lambda: 0.0))
        return made[-1]

    def chain(spark: object, spec: JobSpec) -> Iterable[TaskReport]:
        seen.append(made[0].text())
        reports = without_spark.run_chain(spark, spec)
        seen.append(made[0].text())
        assert meter.read(spec.progress).bytes == 4000
        return reports

    monkeypatch.setattr(progress, "Progress", new)
    monkeypatch.setattr(passes.chain, "run", chain)
    assert pipelines.run(folder).result.exit_code == 0
    return [*seen, made[0].text()]


def test_a_job_tells_the_bytes_that_its_tasks_have_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, done, after = _texts(tmp_path, monkeypatch)
    assert before == "reading orders: 0 bytes of 3.9 KiB (0%) [0 s]"
    assert done == "finishing [0 s]"
    assert after == "publishing [0 s]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out", "pipeline.yaml"]


def _job(folder: Path, *, size: int) -> progress._Job:
    return progress._Job(str(folder), "reading orders, lines", size, 4, (("aggregate by_kind", 8),))


def test_rate_and_rest_count_from_the_first_bytes(tmp_path: Path) -> None:
    now = [100.0]
    told = progress.Progress(stopwatch.Stopwatch(), now=lambda: now[0])
    told._job, counted = _job(tmp_path, size=400 << 20), meter.Meter(str(tmp_path))
    now[0] = 160.0
    counted.add(100 << 20)
    assert told.text() == "reading orders, lines: 100.0 MiB of 400.0 MiB (25%) [1 min 00 s]"
    now[0] = 170.0
    counted.add(100 << 20)
    assert told.text() == ("reading orders, lines: 200.0 MiB of 400.0 MiB (50%), 10.0 MiB/s, 20 s left [1 min 10 s]")


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (200, "reading orders, lines: 200.0 MiB of 400.0 MiB (50%), 10.0 MiB/s, 20 s left [1 min 10 s]"),
        (90, "reading orders, lines: 200.0 MiB of 400.0 MiB (50%), 20 s left [1 min 10 s]"),
        (80, "reading orders, lines: 50%, 20 s left [1 min 10 s]"),
        (50, "reading orders, lines: 50% [1 min 10 s]"),
        (40, "50% [1 min 10 s]"),
        (20, "50% [1 mi"),
        (2, "["),
    ],
)
def test_a_narrow_terminal_gets_fewer_words_and_no_cut_ones(
    columns: int, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda *_, **__: progress.os.terminal_size((columns, 5)))
    now = [100.0]
    told = progress.Progress(stopwatch.Stopwatch(), now=lambda: now[0])
    told._job, counted = _job(tmp_path, size=400 << 20), meter.Meter(str(tmp_path))
    now[0] = 160.0
    counted.add(100 << 20)
    told.text()
    now[0] = 170.0
    counted.add(100 << 20)
    stream = _Terminal()
    line = progress._Line(stream)
    line.show(told.text(line.room()))
    assert stream.getvalue().removeprefix("\r").removeprefix("[clinker] ") == shown
    assert len(stream.getvalue()) <= columns


def test_later_levels_tell_their_partitions(tmp_path: Path) -> None:
    told, counted = progress.Progress(stopwatch.Stopwatch(), now=lambda: 0.0), meter.Meter(str(tmp_path))
    told._job = _job(tmp_path, size=400)
    for _ in range(4):
        counted.add(100, stage=0)
    counted.add(stage=1)
    counted.add(stage=1)
    assert told.text() == "aggregate by_kind: 2 of 8 partitions (25%) [0 s]"


def test_records_without_files_are_told_by_tasks(tmp_path: Path) -> None:
    told, counted = progress.Progress(stopwatch.Stopwatch(), now=lambda: 0.0), meter.Meter(str(tmp_path))
    told._job = _job(tmp_path, size=0)
    counted.add(stage=0)
    assert told.text() == "reading orders, lines: 1 of 4 tasks (25%) [0 s]"


def test_a_pace_never_tells_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pace = meter.Pace(meter.Meter(str(tmp_path)), 100)
    read = iter([pace._before + 80, pace._before + 300])
    monkeypatch.setattr(meter.changes, "bytes_read", lambda: next(read))
    pace.advance()
    assert meter.read(str(tmp_path)).bytes == 80
    pace.advance()
    pace.finish()
    assert meter.read(str(tmp_path)).bytes == 100


def test_runs_in_several_threads_count_each_for_itself(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    mine = meter.of(str(folders[0]))
    with ThreadPoolExecutor(1) as other:
        other.submit(lambda: meter.of(str(folders[1])).add(7)).result()
    mine.add(5)
    assert meter.of(str(folders[0])) is mine
    assert [meter.read(str(folder)).bytes for folder in folders] == [5, 7]


def test_a_line_of_the_log_gets_room_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda *_, **__: progress.os.terminal_size((30, 5)))
    stream = _Terminal()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("clinker")
    logger.addHandler(handler)
    try:
        with progress._line(stream) as shows:
            shows.show("reading a file with a long name: 1 of 2")
            logger.warning("a warning")
    finally:
        logger.removeHandler(handler)
    line = "[clinker] reading a file with "[:29]
    assert stream.getvalue() == f"\r{line}\r{' ' * 29}\ra warning\n"


def test_where_there_is_no_terminal_the_log_has_a_line_every_so_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = stopwatch.Stopwatch()
    with progress._lines() as shows:
        assert [shows.pause(), shows.pause(), shows.pause()] == [15.0, 30.0, 30.0]
        with caplog.at_level(logging.INFO, "clinker.run"):
            shows.show(progress.Progress(clock, now=lambda: 0.0).text())
    assert caplog.messages == ["starting [0 s]"]


@pytest.mark.parametrize(("term", "shows"), [("xterm", True), ("dumb", False)])
def test_a_dumb_terminal_has_no_line_that_is_written_over(
    term: str, shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(progress, "_PAUSE_S", 0.01)
    stream = _Terminal()
    with progress.show_progress(stopwatch.Stopwatch(), wanted=True, stream=stream):
        progress.time.sleep(0.2)
    assert ("starting" in stream.getvalue()) is shows


def test_quiet_runs_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PAUSE_S", 0.01)
    stream = _Terminal()
    with progress.show_progress(stopwatch.Stopwatch(), wanted=False, stream=stream):
        progress.time.sleep(0.1)
    assert stream.getvalue() == ""

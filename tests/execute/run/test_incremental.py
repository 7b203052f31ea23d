"""Sources of which each run reads what is new, and the bookmark that moves with the outputs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.delivery.local import publish
from spark_jobs.execute.run import executor
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: orders }}
error_handling: {{ strategy: {strategy}, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      type: csv
      glob: in/*.csv
      incremental: {incremental}
      files: {files}
      schema: {{ id: int }}
  - type: output
    name: o
    input: rows
    config: {{ type: csv, path: out/rows.csv, include_header: false }}
"""
BOOKMARK = ".clinker-orders.bookmark.json"


class Folder:
    """A folder with a pipeline that reads new files of it."""

    def __init__(self, path: Path, incremental: str = "true", files: str = "{}", strategy: str = "continue") -> None:
        self.path = path
        text = PIPELINE.format(incremental=incremental, files=files, strategy=strategy)
        pipelines.write(path, {"pipeline.yaml": text})

    def put(self, name: str, *ids: object, at: int | None = None) -> None:
        pipelines.write(self.path, {f"in/{name}": "id\n" + "".join(f"{each}\n" for each in ids)})
        if at is not None:
            os.utime(self.path / "in" / name, (at, at))

    def run(self, code: int = 0, **options: Any) -> list[str]:
        """The records of a run."""
        outcome = pipelines.run(self.path, force=True, **options)
        assert outcome.result.exit_code == code, outcome.result.error
        self.error = outcome.result.error
        return (self.path / "out/rows.csv").read_text().split() if code in (0, 2) else []

    @property
    def bookmark(self) -> Any:
        path = self.path / "out" / BOOKMARK
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def test_each_run_reads_the_files_that_no_run_has_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1, 2)
    assert folder.run() == ["1", "2"]
    assert folder.run() == []
    folder.put("b.csv", 3)
    folder.put("0.csv", 0)
    assert folder.run() == ["0", "3"]
    assert sorted(folder.bookmark["sources"]["rows"]["files"]) == ["in/0.csv", "in/a.csv", "in/b.csv"]


def test_a_changed_file_is_read_again_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1, at=1_700_000_000)
    folder.put("b.csv", 2)
    folder.run()
    folder.put("a.csv", 7, at=1_700_000_001)  # as many bytes, later
    assert folder.run() == ["7"]
    assert "in/a.csv was read before, and has changed: it had 5 bytes of 2023-11-14T22:13:20" in caplog.text
    assert folder.run() == []


def test_a_changed_file_can_be_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "{ changed: refuse }")
    folder.put("a.csv", 1)
    folder.run()
    before = folder.bookmark
    folder.put("a.csv", 1, 2)
    folder.put("b.csv", 3)
    folder.run(code=4)
    assert folder.error.code == "E913"
    assert "in/a.csv: was read before, and has changed: it had 5 bytes" in folder.error.message
    assert folder.bookmark == before


def test_records_that_fail_end_no_progress_but_a_run_that_fails_does(tmp_path: Path) -> None:
    folder = Folder(tmp_path, strategy="fail_fast")
    folder.put("a.csv", "x", 1)
    folder.run(code=3)
    assert folder.bookmark is None
    folder = Folder(tmp_path)
    assert folder.run(code=2) == ["1"]
    (tmp_path / "out/dlq.csv").unlink()
    assert folder.run() == []


def test_dead_letters_that_no_run_reads_again_are_not_replaced_even_by_force(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", "x", 1, at=1_700_000_000)
    folder.run(code=2)
    letters = (tmp_path / "out/dlq.csv").read_bytes()
    before = folder.bookmark
    folder.put("b.csv", 2, at=1_700_100_000)
    chosen: list[dict[str, Any]] = [{}, {"since": ("2023-11-15",)}, {"until": ("2023-11-17",)}]
    for bounds in chosen:
        folder.run(code=4, **bounds)
        assert folder.error.code == "E902"
        assert "dlq.csv has dead letters of an earlier run, whose records no run reads again" in folder.error.message
        assert "`{execution_id}`" in folder.error.message
    assert (tmp_path / "out/dlq.csv").read_bytes() == letters
    assert folder.bookmark == before
    assert clinker.main(["dlq", "discard", str(tmp_path / "out/dlq.csv"), "--reason", "a test", "--all"]) == 0
    assert folder.run() == ["2"]


def test_an_interval_that_is_read_again_replaces_its_dead_letters(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", "x", 1, at=1_700_000_000)
    interval: dict[str, Any] = {"since": ("2023-11-14",), "until": ("2023-11-15",)}
    folder.run(code=2, **interval)
    folder.put("a.csv", 7, 1, at=1_700_000_000)
    assert folder.run(**interval) == ["7", "1"]
    assert not (tmp_path / "out/dlq.csv").exists()


def test_a_batch_of_files_is_taken_of_the_new_ones(tmp_path: Path) -> None:
    folder = Folder(tmp_path, files="{ take_first: 2 }")
    for name in "abcde":
        folder.put(f"{name}.csv", name.encode()[0])
    assert [folder.run() for _ in range(4)] == [["97", "98"], ["99", "100"], ["101"], []]


def test_since_reads_again_and_until_leaves_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for day in (1, 2, 3):
        folder.put(f"{day}.csv", day, at=1_700_000_000 + day * 86_400)  # 2023-11-14T22:13:20Z and so many days
    assert folder.run(until=("2023-11-17",)) == ["1", "2"]
    assert folder.run(since=("2023-11-16T22:13:20Z",)) == ["2", "3"]
    assert folder.run() == []
    before = folder.bookmark
    folder.put("4.csv", 4, at=1_700_000_000 + 86_400)
    # An interval says all by itself, and moves nothing.
    assert folder.run(since=("2023-11-15",), until=("rows=2023-11-16",)) == ["1", "4"]
    assert folder.bookmark == before
    assert folder.run() == ["4"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"since": ("yesterday",)}, 4, "--since yesterday is no date or time"),
        ({"until": ("other=2024-01-01",)}, 1, "there is no incremental source 'other'; there is rows"),
    ],
)
def test_bounds_that_mean_nothing_are_told(options: Any, code: int, said: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    folder.run(code=code, **options)
    assert folder.error.code == "E913"
    assert said in folder.error.message
    assert folder.error.message.count("source 'rows'") <= 1


def test_bounds_need_an_incremental_source(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "false")
    folder.put("a.csv", 1)
    folder.run(code=1, since=("2024-01-01",))
    assert "no source of the pipeline has `incremental:`" in folder.error.message
    assert folder.run() == folder.run() == ["1"]
    assert folder.bookmark is None


def test_of_two_runs_that_meet_the_second_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    folder.run()
    folder.put("b.csv", 2)
    begin = executor._begin
    met: list[list[str]] = []

    def meeting(*given: Any) -> Any:
        if not met:
            met.append([])
            met[0] = folder.run()  # from its beginning to its end, while the other one begins
            folder.put("c.csv", 3)
        return begin(*given)

    monkeypatch.setattr(executor, "_begin", meeting)
    folder.run(code=4)
    assert folder.error.code == "E914"
    assert met == [["2"]]
    assert (tmp_path / "out/rows.csv").read_text() == "2\n"
    assert folder.run() == ["3"]


@pytest.mark.parametrize("after_journal", [False, True])
def test_a_death_while_publishing_leaves_both_old_or_both_new(
    after_journal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    folder.run()
    folder.put("b.csv", 2)

    class Death(BaseException):
        pass

    real = publish.DraftFolders.publish

    def dying(self: Any, changes: Any) -> None:
        if after_journal:
            monkeypatch.setattr(os, "replace", _dies)
            monkeypatch.setattr(os, "rename", _dies)
            real(self, changes)
        raise Death

    def _dies(*_: Any, **__: Any) -> None:
        raise Death

    monkeypatch.setattr(publish.DraftFolders, "publish", dying)
    monkeypatch.setattr(publish.DraftFolders, "close", lambda self, failed: None)
    with pytest.raises(Death):
        pipelines.run(tmp_path, force=True)
    monkeypatch.undo()
    without_spark.install(monkeypatch)
    names = sorted(folder.bookmark["sources"]["rows"]["files"])
    records = (tmp_path / "out/rows.csv").read_text()
    assert (names, records) in [(["in/a.csv"], "1\n"), (["in/a.csv", "in/b.csv"], "2\n")]


@pytest.mark.parametrize("text", ["", "nonsense", '{"version": 2}', '{"version": 1, "sources": {"rows": 3}}', "[]"])
def test_a_damaged_bookmark_ends_the_run(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    folder.run()
    path = tmp_path / "out" / BOOKMARK
    path.write_text(text or "{}")
    folder.run(code=4)
    assert folder.error.code == "E913"
    assert "clinker bookmark reset" in folder.error.message
    assert clinker.main(["bookmark", "show", str(tmp_path / "pipeline.yaml")]) == 4
    assert clinker.main(["bookmark", "reset", str(tmp_path / "pipeline.yaml")]) == 0
    assert folder.run() == ["1"]


def test_the_bookmark_is_shown_and_reset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, pipeline = Folder(tmp_path), str(tmp_path / "pipeline.yaml")
    folder.put("a.csv", 1)
    assert clinker.main(["bookmark", "show", pipeline]) == 0
    assert "there is none yet; the next run reads everything" in capsys.readouterr().out
    folder.run()
    assert clinker.main(["bookmark", "show", pipeline]) == 0
    assert "  rows: 1 file, the last by name in/a.csv\n" in capsys.readouterr().out
    assert clinker.main(["bookmark", "reset", pipeline, "--source", "o"]) == 1
    assert clinker.main(["bookmark", "reset", pipeline, "--source", "rows"]) == 0
    assert capsys.readouterr().out.endswith(f"{BOOKMARK}: forgot rows\n")
    assert folder.bookmark is None
    assert folder.run() == ["1"]


def test_the_bookmark_can_be_elsewhere(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    text = (tmp_path / "pipeline.yaml").read_text()
    pipelines.write(
        tmp_path, {"pipeline.yaml": text.replace("name: orders", "name: orders, bookmark: marks/mine.json")}
    )
    assert folder.run() == ["1"]
    assert [path.name for path in (tmp_path / "marks").iterdir()] == ["mine.json"]
    assert folder.run() == []
    pipelines.write(tmp_path, {"pipeline.yaml": text, "clinker.toml": '[bookmarks]\ndir = "all"\n'})
    assert folder.run() == ["1"]
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["orders.bookmark.json"]
    assert folder.bookmark is None


def test_a_bookmark_in_the_place_of_an_output_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    text = (tmp_path / "pipeline.yaml").read_text()
    pipelines.write(tmp_path, {"pipeline.yaml": text.replace("name: orders", "name: orders, bookmark: out/rows.csv")})
    folder.run(code=1)
    assert folder.error.code == "E322"


def test_previews_read_everything_and_move_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", 1)
    folder.run()
    before = folder.bookmark
    assert clinker.main(["preview", str(tmp_path / "pipeline.yaml"), "rows", "--format", "json"]) == 0
    assert '"id": 1' in capsys.readouterr().out.replace('"id":1', '"id": 1')
    assert folder.bookmark == before


def test_replayed_records_are_read_whatever_the_bookmark_says(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", "x", 1)
    folder.run(code=2)
    letters = tmp_path / "out/dlq.csv"
    text = letters.read_text()
    header, cells = (line.split(",") for line in text.splitlines())
    cells[header.index("id")] = "5"
    letters.write_text(",".join(header) + "\n" + ",".join(cells) + "\n")
    before = folder.bookmark
    assert clinker.main(["dlq", "replay", str(tmp_path / "pipeline.yaml"), str(letters)]) == 0
    assert (tmp_path / "out/rows.csv").read_text().split() == ["1", "5"]
    assert folder.bookmark == before

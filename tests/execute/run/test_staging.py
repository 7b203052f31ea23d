"""Runs that read staged copies: the same bytes as without staging, and the documented end where staging fails."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.disk import volumes
from spark_jobs.disk.locks import FileLock
from spark_jobs.formats import splits
from spark_jobs.scan import changes, files
from spark_jobs.scan.staging import staging
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PIPELINE = """
pipeline: {name: staged}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: rows, config: {type: csv, glob: in/*.csv, schema: {a: int, b: string}}}
  - {type: source, name: cities, config: {type: json, path: in/c.json, options: {format: ndjson}, schema: {b: string}}}
  - type: transform
    name: named
    input: rows
    config:
      cxl: |
        emit file = $source.file
        emit path = $source.path
        emit row = $source.row
        emit part = 100 / (a % 5)
  - {type: aggregate, name: sums, input: named, config: {group_by: [b], cxl: emit total = 10 / (sum(a) - 3)}}
  - type: combine
    name: joined
    input: {n: named, c: cities}
    config: {where: n.b == c.b, cxl: "emit file = n.file\\nemit b = c.b"}
  - {type: output, name: named_out, input: named, config: {type: csv, path: out/named.csv, if_exists: overwrite}}
  - {type: output, name: sums_out, input: sums, config: {type: json, path: out/sums.json, if_exists: overwrite}}
  - {type: output, name: joined_out, input: joined, config: {type: csv, path: out/joined.csv, if_exists: overwrite}}
"""
ROWS = "a,b\n" + "".join(f"{n if n % 7 else 'x'},c{n % 4}\n" for n in range(1, 60))
STAGING = '[storage.staging]\nenabled = true\ndir = "staging"\npatterns = ["*.csv", "**/in/c.json"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose staging folder is taken for another device; jobs run in this process."""
    without_spark.install(monkeypatch)
    monkeypatch.setattr(volumes, "share_device", lambda first, second: False)
    rows = {"in/a.csv": ROWS, "in/b.csv": "b,a\n" + "c9,3\nc1,5\n", "in/empty.csv": ""}
    cities = '{"b":"c1"}\n{"b":"c2"}\n'
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, **rows, "in/c.json": cities, "clinker.toml": STAGING})
    (tmp_path / "staging").mkdir()
    return tmp_path


def run(folder: Path, *options: str) -> int:
    return clinker.main(["run", str(folder / "pipeline.yaml"), "--force", *options])


def configure(folder: Path, *lines: str) -> None:
    (folder / "clinker.toml").write_text(STAGING + "\n".join(lines) + "\n")


def published(folder: Path) -> dict[str, object]:
    """The published files; of dead letters all but their ids and times."""
    found: dict[str, object] = dict(pipelines.outputs(folder))
    letters = found.pop("dead.csv")
    assert isinstance(letters, bytes)
    found["dead.csv"] = [row[2:] for row in csv.reader(io.StringIO(letters.decode()))]
    return found


def suffixes(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[2] for path in (folder / "staging").iterdir())


@pytest.mark.parametrize("split_bytes", [1 << 20, 64])
def test_a_staged_run_gives_the_same_bytes_and_reads_only_copies(
    folder: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int
) -> None:
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    (folder / "clinker.toml").write_text("")
    assert run(folder) == 2
    expected = published(folder)
    text = str(expected)
    assert "in/a.csv" in text
    # Coercion at the source, a transform's failure, and a group's, whose record is read again.
    assert all(stage in text for stage in ("transform:named", "aggregate_finalize", "type_coercion_failure"))

    read = set()
    open_input, content = files.open_input, changes.content

    def opened(file: files.InputFile) -> object:
        read.add(file.path)
        return open_input(file)

    def read_at_once(file: files.InputFile) -> bytes:
        read.add(file.path)
        return content(file)

    monkeypatch.setattr(files, "open_input", opened)
    monkeypatch.setattr(changes, "content", read_at_once)
    configure(folder, 'cleanup = "never"')
    assert run(folder) == 2
    assert published(folder) == expected
    copies = {str(path) for path in (folder / "staging").glob("*.staged")}
    assert read == copies
    assert len(copies) == 4


def test_what_is_read_is_the_copy(folder: Path) -> None:
    configure(folder, 'on_existing = "reuse"', 'cleanup = "never"')
    run(folder)
    for copy in (folder / "staging").glob("*.staged"):
        copy.write_bytes(copy.read_bytes().replace(b"c9", b"c8"))
    assert run(folder) == 2
    assert b",c8," in (folder / "out/named.csv").read_bytes()


def test_staging_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(folder, 'on_existing = "reuse"', 'cleanup = "never"')
    run(folder)
    size = sum(path.stat().st_size for path in (folder / "in").iterdir())
    assert f"INFO staging: 4 copied ({size} bytes), 0 used again\n" in capsys.readouterr().err
    run(folder)
    assert "INFO staging: 0 copied (0 bytes), 4 used again\n" in capsys.readouterr().err


# ---- cleanup -------------------------------------------------------------------------------------------------------

GOOD = {"in/a.csv": "a,b\n1,c1\n", "in/b.csv": "a,b\n3,c1\n"}
WHOLE = sorted(["lock", "manifest.json", "staged"] * 4)


@pytest.mark.parametrize(
    ("cleanup", "rows", "exit_code", "stays"),
    [
        ("on_success", GOOD, 0, False),
        ("on_success", {}, 2, True),
        ("on_success", {"in/c.json": "[broken"}, 4, True),
        ("always", {"in/c.json": "[broken"}, 4, False),
        ("always", {}, 2, False),
        ("never", GOOD, 0, True),
    ],
)
def test_copies_go_by_how_the_run_ends(
    folder: Path, cleanup: str, rows: dict[str, str], exit_code: int, stays: bool
) -> None:
    pipelines.write(folder, rows)
    if exit_code == 4:
        text = (folder / "pipeline.yaml").read_text()
        (folder / "pipeline.yaml").write_text(text.replace("options: {format: ndjson}", "options: {format: array}"))
    configure(folder, f'cleanup = "{cleanup}"')
    assert run(folder) == exit_code
    assert suffixes(folder) == (WHOLE if stays else ["lock"] * 4)
    for path in (folder / "staging").glob("*.lock"):
        lock = FileLock.exclusive(path)
        assert lock is not None, "the run has ended and still holds a lock"
        lock.close()


def test_an_interrupt_while_copying_ends_the_run_without_litter(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(file: files.InputFile, *, again: bool = False) -> Iterator[bytes]:
        yield b"a"
        raise KeyboardInterrupt

    monkeypatch.setattr(staging, "_chunks", interrupted)
    assert run(folder) == 130
    assert suffixes(folder) == ["lock"]
    assert not (folder / "out").exists()


def test_what_a_dead_run_left_goes_before_staging(folder: Path) -> None:
    dead = folder / "staging" / f"{'0' * 64}.staged"
    dead.write_text("x")
    run(folder)
    assert not dead.exists()


def test_what_cannot_be_purged_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "staging" / f"{'0' * 64}.staged").mkdir()
    assert run(folder) == 2
    assert "WARNING " in (told := capsys.readouterr().err)
    assert "leftovers of a dead run are not removed" in told


# ---- ends ----------------------------------------------------------------------------------------------------------


def failed(folder: Path, capsys: pytest.CaptureFixture[str], exit_code: int, *says: str) -> None:
    """The run ends like that, publishes nothing and leaves no half-made copy."""
    assert run(folder) == exit_code
    told = capsys.readouterr().err
    for text in says:
        assert text in told
    assert "Traceback" not in told
    assert not (folder / "out").exists()
    assert "partial" not in str(suffixes(folder))


def test_a_cap_that_is_exceeded_is_e336(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(folder, "disk_cap_bytes = 100")
    size = len(ROWS)
    failed(
        folder,
        capsys,
        1,
        "error[E336]: source 'rows': staging would exceed the configured cap of 100 bytes (already staged 0, "
        f"{folder}/in/a.csv adds {size})",
        "--> clinker.toml:5:1",
    )


def test_an_earlier_copy_that_must_not_be_is_e337(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(folder, 'cleanup = "never"')
    run(folder)
    capsys.readouterr()
    for path in (folder / "out").iterdir():
        path.unlink()
    (folder / "out").rmdir()
    configure(folder, 'cleanup = "never"', 'on_existing = "error"')
    failed(folder, capsys, 1, "error[E337]: source 'rows': staging on_existing = error:", "--> clinker.toml:6:1")
    assert suffixes(folder) == WHOLE


def test_a_corrupt_copy_is_e335(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(staging, "_copied", lambda file, target: target.write_text("x") and "0" * 64)
    failed(folder, capsys, 1, "error[E335]: source 'rows': staged copy of", "is corrupt", "--> clinker.toml:1:1")
    assert suffixes(folder) == ["lock"]


def test_a_full_disk_is_no_matter_of_budgets(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(staging.os, "fsync", full)
    says = f"error[E900]: source 'rows': in/a.csv: cannot be staged in {folder}/staging: No space left on device"
    failed(folder, capsys, 4, says, "pipeline.yaml:4:58")


def test_an_output_on_a_staged_input_is_still_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(text.replace("out/joined.csv", "in/a.csv"))
    assert run(folder) == 4
    assert "in/a.csv is an input of source 'rows'" in capsys.readouterr().err
    assert (folder / "in/a.csv").read_text() == ROWS


def test_a_preview_reads_in_place(folder: Path) -> None:
    assert run(folder, "--dry-run", "-n", "2") == 0
    assert suffixes(folder) == []


def test_every_run_stages_in_one_order_whatever_its_pipeline_declares_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that hold copies and wait for each other's would wait for ever."""
    orders: list[list[str]] = []
    stage = staging.SourceStaging.stage

    def noted(self: staging.SourceStaging, file: files.InputFile) -> files.InputFile:
        orders[-1].append(file.name)
        return stage(self, file)

    monkeypatch.setattr(staging.SourceStaging, "stage", noted)
    (folder / "link").symlink_to("in")
    pipeline = (folder / "pipeline.yaml").read_text()
    rows, cities = [line for line in pipeline.splitlines() if "type: source" in line]
    reverse = pipeline.replace(rows, "CITIES").replace(cities, rows).replace("CITIES", cities)
    behind_a_link = pipeline.replace("path: in/c.json", "path: link/c.json")
    for text in (pipeline, reverse, behind_a_link):
        (folder / "pipeline.yaml").write_text(text)
        orders.append([])
        assert run(folder) == 2
    names = ["in/a.csv", "in/b.csv", "in/c.json", "in/empty.csv"]
    assert orders == [names, names, [name.replace("in/c.json", "link/c.json") for name in names]]


# ---- commands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"], ["run", "-n", "1"], ["validate"]])
def test_commands_agree_about_folders(folder: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    configure(folder, "[storage.spill]", 'dir = "staging"')
    pipeline = str(folder / "pipeline.yaml")
    assert clinker.main([*command, pipeline]) == 1
    told = capsys.readouterr().err
    assert "error[E334]: storage.spill.dir and storage.staging.dir both resolve to" in told
    assert " --> clinker.toml:3:1\n" in told
    assert "see: clinker explain --code E334" in told
    assert not (folder / "out").exists()
    if command == ["validate"]:
        assert clinker.main([*command, "--no-inputs", pipeline]) == 0


@pytest.mark.parametrize(
    ("command", "exit_code"), [(["run"], 2), (["run", "--dry-run"], 0), (["run", "-n", "1"], 0), (["validate"], 0)]
)
def test_warnings_are_seen_and_change_no_exit_status(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    exit_code: int,
) -> None:
    monkeypatch.setattr(volumes, "free_bytes", lambda path: 1)
    configure(folder, "[storage.spill]", "disk_cap_bytes = 1")
    assert clinker.main([*command, str(folder / "pipeline.yaml")]) == exit_code
    told = capsys.readouterr().err
    assert "warning[W330]: spill volume " in told
    assert "warning[W331]: this run is estimated to spill up to " in told


def test_quiet_runs_keep_warnings_to_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(volumes, "free_bytes", lambda path: 1)
    assert clinker.main(["run", "--quiet", "--dry-run", str(folder / "pipeline.yaml")]) == 0
    assert capsys.readouterr().err == ""

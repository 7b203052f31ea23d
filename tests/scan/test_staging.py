"""Staged copies: made whole, used again while fresh, shared between runs."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.disk.locks import FileLock
from spark_jobs.scan.files import FormatError
from spark_jobs.scan.staging import staged_copy
from spark_jobs.scan.staging.staged_copy import Cleanup, OnExisting, StagedCopy
from spark_jobs.scan.staging.staging import Refused, SourceStaging
from tests.scan.staged import DATA, WHOLE, described, names, opened, settings


def test_a_file_is_read_from_its_copy_and_keeps_its_name(tmp_path: Path, source: Path) -> None:
    run = opened(tmp_path)
    file = described(source)
    staged = run.stage(file)
    copy = StagedCopy.of(str(tmp_path / "staging"), str(source))
    assert (staged.path, staged.origin, staged.name, staged.size) == (
        str(copy.data),
        str(source),
        "in/a.csv",
        len(DATA),
    )
    assert Path(staged.path).read_bytes() == DATA
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "staging").iterdir()} == {0o600}
    manifest = json.loads(copy.manifest.read_text())
    assert manifest.pop("staged_at").startswith(str(datetime.now(UTC).year))
    seconds, nanos = divmod(source.stat().st_mtime_ns, 1_000_000_000)
    from blake3 import blake3

    assert manifest == {
        "source_path": str(source.resolve()),
        "source_mtime_secs": seconds,
        "source_mtime_nanos": nanos,
        "source_size": len(DATA),
        "content_hash": blake3(DATA).hexdigest(),
        "source_version": "",
    }
    assert str(run) == f"1 copied ({len(DATA)} bytes), 0 used again"
    run.close(succeeded=False)


def test_a_file_that_no_pattern_matches_is_read_in_place(tmp_path: Path, source: Path) -> None:
    run = opened(tmp_path, patterns=("*.json",))
    assert run.stage(described(source)) == described(source)
    assert names(tmp_path) == []


def test_two_sources_share_one_copy_as_it_was_staged(tmp_path: Path, source: Path) -> None:
    run = opened(tmp_path)
    first = run.stage(described(source))
    with source.open("ab") as file:
        file.write(b"2,3\n")
    second = run.stage(described(source))
    assert (second.path, second.size) == (first.path, len(DATA))
    assert run.copied_files == 1


def test_links_to_one_file_have_one_copy(tmp_path: Path, source: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(source)
    run = opened(tmp_path)
    assert run.stage(described(source)).path == run.stage(described(link)).path


def test_what_is_appended_meanwhile_is_left_out(tmp_path: Path, source: Path) -> None:
    file = described(source)
    with source.open("ab") as more:
        more.write(b"2,3\n")
    assert Path(opened(tmp_path).stage(file).path).read_bytes() == DATA


def test_an_empty_file_is_staged(tmp_path: Path, source: Path) -> None:
    source.write_bytes(b"")
    assert Path(opened(tmp_path).stage(described(source)).path).read_bytes() == b""


# ---- an earlier copy -----------------------------------------------------------------------------------------------


def earlier(tmp_path: Path, source: Path, **others: Any) -> Path:
    """A copy that an earlier run has left, marked so that a new copy is told from it."""
    run = opened(tmp_path, cleanup=Cleanup.NEVER, **others)
    copy = Path(run.stage(described(source)).path)
    run.close(succeeded=True)
    copy.write_bytes(b"X" * len(DATA))
    return copy


def test_reuse_takes_a_fresh_copy_without_reading_the_source(tmp_path: Path, source: Path) -> None:
    copy = earlier(tmp_path, source)
    run = opened(tmp_path, on_existing=OnExisting.REUSE, cap_bytes=0)
    source.chmod(0)
    assert run.stage(described(source)).path == str(copy)
    assert copy.read_bytes() == b"X" * len(DATA)
    assert (run.copied_files, run.reused_files) == (0, 1)
    assert staged_copy.forecast(run.settings, described(source)) == "hit"


@pytest.mark.parametrize("change", ["size", "time", "copy", "manifest", "no manifest", "old manifest"])
def test_reuse_copies_again_what_changed(tmp_path: Path, source: Path, change: str) -> None:
    copy = earlier(tmp_path, source)
    manifest = copy.with_suffix(".manifest.json")
    match change:
        case "size":
            status = source.stat()
            source.write_bytes(DATA + b"9,9\n")
            os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
        case "time":
            os.utime(source, ns=(0, source.stat().st_mtime_ns + 1))
        case "copy":
            copy.write_bytes(b"X")
        case "manifest":
            manifest.write_text("{")
        case "no manifest":
            manifest.unlink()
        case "old manifest":
            manifest.write_text('{"source_path": "a"}')
    run = opened(tmp_path, on_existing=OnExisting.REUSE)
    assert staged_copy.forecast(run.settings, described(source)) == "miss"
    assert Path(run.stage(described(source)).path).read_bytes() == source.read_bytes()
    assert run.copied_files == 1


def test_overwrite_copies_again_whatever_is_there(tmp_path: Path, source: Path) -> None:
    copy = earlier(tmp_path, source)
    run = opened(tmp_path)
    assert staged_copy.forecast(run.settings, described(source)) == "n/a"
    run.stage(described(source))
    assert copy.read_bytes() == DATA


def test_error_refuses_an_earlier_copy_and_leaves_it(tmp_path: Path, source: Path) -> None:
    copy = earlier(tmp_path, source)
    run = opened(tmp_path, on_existing=OnExisting.ERROR)
    with pytest.raises(Refused) as refused:
        run.stage(described(source))
    assert (refused.value.code, refused.value.setting) == ("E337", "on_existing")
    assert f"a staged copy of {source} already exists at {copy}" in refused.value.message
    run.close(succeeded=False)
    assert names(tmp_path) == WHOLE


def test_error_refuses_at_once_while_another_run_reads(tmp_path: Path, source: Path) -> None:
    copy = earlier(tmp_path, source)
    reader = FileLock.shared(copy.with_suffix(".lock"))
    with pytest.raises(Refused, match="already exists"):
        opened(tmp_path, on_existing=OnExisting.ERROR).stage(described(source))
    reader.close()


@pytest.mark.slow
def test_overwrite_waits_for_readers_and_says_so_once(tmp_path: Path, source: Path) -> None:
    copy = earlier(tmp_path, source)
    reader = FileLock.shared(copy.with_suffix(".lock"))
    said: list[str] = []
    run = SourceStaging(settings(tmp_path), datetime.now(UTC), said.append)
    threading.Timer(0.4, reader.close).start()
    run.stage(described(source))
    assert copy.read_bytes() == DATA
    assert said == ["in/a.csv: waiting for other runs that read or write its staged copy"]


@pytest.mark.parametrize("mode", list(OnExisting))
def test_a_run_shares_what_another_staged_since_it_began(tmp_path: Path, source: Path, mode: OnExisting) -> None:
    late = opened(tmp_path, on_existing=mode)
    early = opened(tmp_path, on_existing=mode)
    path = early.stage(described(source)).path
    inode = Path(path).stat().st_ino
    assert late.stage(described(source)).path == path
    assert Path(path).stat().st_ino == inode
    assert (early.copied_files, late.copied_files, late.reused_files) == (1, 0, 1)


def test_a_clock_that_goes_back_changes_nothing(tmp_path: Path, source: Path) -> None:
    run = SourceStaging(settings(tmp_path), datetime.now(UTC) + timedelta(hours=1))
    run.stage(described(source))
    assert run.copied_files == 1


def test_a_copy_that_is_always_taken_away_ends_in_an_error(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken = FileLock.weaken

    def removed_meanwhile(lock: FileLock) -> bool:
        StagedCopy.of(str(tmp_path / "staging"), str(source)).discard()
        return weaken(lock)

    monkeypatch.setattr(FileLock, "weaken", removed_meanwhile)
    run = opened(tmp_path)
    with pytest.raises(FormatError, match="other runs removed the copy 8 times"):
        run.stage(described(source))
    assert run.copied_files == 8

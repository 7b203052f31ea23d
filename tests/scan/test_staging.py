"""Staged copies: made whole or not at all, used again while fresh, shared between runs, removed when nobody reads."""

from __future__ import annotations

import io
import json
import os
import resource
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats.format import FormatError
from spark_jobs.scan import staged_copy, staging
from spark_jobs.scan.files import InputFile
from spark_jobs.scan.locks import FileLock
from spark_jobs.scan.staged_copy import Cleanup, OnExisting, Settings, StagedCopy, Verify
from spark_jobs.scan.staging import Refused, SourceStaging

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = b"id,amount\n" + b"1,2.5\n" * 1000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "a.csv"
    path.parent.mkdir()
    (tmp_path / "staging").mkdir()
    path.write_bytes(DATA)
    return path


def described(path: Path) -> InputFile:
    status = path.stat()
    return InputFile(str(path), f"in/{path.name}", status.st_size, status.st_mtime_ns)


def settings(tmp_path: Path, **others: Any) -> Settings:
    return Settings(**{"folder": str(tmp_path / "staging"), "patterns": ("*.csv",), **others})


def opened(tmp_path: Path, **others: Any) -> SourceStaging:
    return SourceStaging(settings(tmp_path, **others), datetime.now(UTC))


def names(tmp_path: Path) -> list[str]:
    """What is in the staging folder, by suffix."""
    return sorted(path.name.partition(".")[2] for path in (tmp_path / "staging").iterdir())


WHOLE = ["lock", "manifest.json", "staged"]


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


def test_overwrite_waits_for_readers_and_says_so_once(tmp_path: Path, source: Path) -> None:
    copy = earlier(tmp_path, source)
    reader = FileLock.shared(copy.with_suffix(".lock"))
    said: list[str] = []
    run = SourceStaging(settings(tmp_path), datetime.now(UTC), said.append)
    threading.Timer(0.4, reader.close).start()
    run.stage(described(source))
    assert copy.read_bytes() == DATA
    assert said == ["in/a.csv: waiting for other runs that read or make its staged copy"]


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


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files cannot grow beyond a thousand bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_copy_that_cannot_be_written_leaves_nothing(tmp_path: Path, source: Path, small_disk: None) -> None:
    with pytest.raises(FormatError, match=r"in/a\.csv: cannot be staged in .*staging: File too large"):
        opened(tmp_path).stage(described(source))
    assert names(tmp_path) == ["lock"]


def test_a_source_that_cannot_be_read_leaves_nothing(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = described(source)
    source.unlink()
    with pytest.raises(FormatError, match=r"in/a\.csv: cannot be read for staging: No such file"):
        opened(tmp_path).stage(file)
    assert names(tmp_path) == ["lock"]


def test_an_interrupt_in_the_middle_leaves_nothing(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = staging._chunks

    def interrupted(file: InputFile, *, again: bool = False) -> Iterator[bytes]:
        yield next(chunks(file))
        assert any(name.endswith(".partial") for name in names(tmp_path))
        raise KeyboardInterrupt

    monkeypatch.setattr(staging, "_chunks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path).stage(described(source))
    assert names(tmp_path) == ["lock"]
    monkeypatch.undo()
    assert Path(opened(tmp_path).stage(described(source)).path).read_bytes() == DATA


def test_a_manifest_that_cannot_be_written_leaves_no_copy(tmp_path: Path, source: Path) -> None:
    manifest = StagedCopy.of(str(tmp_path / "staging"), str(source)).manifest
    manifest.with_name(manifest.name + ".partial").mkdir()
    with pytest.raises(FormatError, match="cannot be staged"):
        opened(tmp_path).stage(described(source))
    assert names(tmp_path) == ["lock", "manifest.json.partial"]


def changing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source gives other bytes when it is read once more; its size and time stay."""
    copied = staging._copied

    def altered(file: InputFile, target: Path) -> str:
        digest = copied(file, target)
        status = path.stat()
        path.write_bytes(DATA.replace(b"2.5", b"3.5", 1))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return digest

    monkeypatch.setattr(staging, "_copied", altered)


def test_a_copy_that_differs_from_its_source_is_refused(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing(source, monkeypatch)
    run = opened(tmp_path)
    with pytest.raises(Refused, match="is corrupt: BLAKE3 of the local copy") as refused:
        run.stage(described(source))
    assert refused.value.code == "E335"
    assert names(tmp_path) == ["lock"]
    assert run.copied_bytes == 0


def test_without_verification_the_source_is_read_once(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing(source, monkeypatch)
    run = opened(tmp_path, verify=Verify.NONE)
    assert Path(run.stage(described(source)).path).read_bytes() == DATA


def test_a_source_that_became_shorter_is_no_copy(tmp_path: Path, source: Path) -> None:
    file = described(source)
    os.truncate(source, len(DATA) - 1)
    with pytest.raises(FormatError, match=r"in/a\.csv: the file became shorter while it was staged"):
        opened(tmp_path).stage(file)
    assert names(tmp_path) == ["lock"]


class CutOff(io.FileIO):
    """A file that ends too early, as one on a share whose server went away."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 100)) if self.tell() < 100 else b""


@pytest.mark.parametrize("verify", list(Verify))
def test_a_read_that_ends_too_early_is_a_corrupt_copy(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, verify: Verify
) -> None:
    monkeypatch.setattr(staging, "open", lambda path, mode, buffering: CutOff(path, mode), raising=False)
    with pytest.raises(Refused, match=f"reading ended after 100 of {len(DATA)} bytes") as refused:
        opened(tmp_path, verify=verify).stage(described(source))
    assert refused.value.code == "E335"
    assert names(tmp_path) == ["lock"]


def test_the_cap_counts_what_a_run_copies(tmp_path: Path, source: Path) -> None:
    other = source.with_name("b.csv")
    other.write_bytes(b"id\n1\n")
    run = opened(tmp_path, cap_bytes=len(DATA) + 4)
    run.stage(described(source))
    with pytest.raises(Refused) as refused:
        run.stage(described(other))
    assert (refused.value.code, refused.value.setting) == ("E336", "disk_cap_bytes")
    assert f"cap of {len(DATA) + 4} bytes (already staged {len(DATA)}, {other} adds 5)" in refused.value.message
    enough = opened(tmp_path, cap_bytes=len(DATA) + 5, on_existing=OnExisting.REUSE)
    enough.stage(described(source))
    enough.stage(described(other))
    assert enough.copied_bytes == 5


# ---- letting go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cleanup", "succeeded", "stays"),
    [
        (Cleanup.ON_SUCCESS, True, False),
        (Cleanup.ON_SUCCESS, False, True),
        (Cleanup.ALWAYS, True, False),
        (Cleanup.ALWAYS, False, False),
        (Cleanup.NEVER, True, True),
        (Cleanup.NEVER, False, True),
    ],
)
def test_cleanup_follows_the_outcome(
    tmp_path: Path, source: Path, cleanup: Cleanup, succeeded: bool, stays: bool
) -> None:
    run = opened(tmp_path, cleanup=cleanup)
    run.stage(described(source))
    assert run.close(succeeded=succeeded) == []
    assert names(tmp_path) == (WHOLE if stays else ["lock"])
    alone = FileLock.exclusive(StagedCopy.of(str(tmp_path / "staging"), str(source)).lock)
    assert alone is not None
    alone.close()


def test_the_last_run_that_reads_a_copy_removes_it(tmp_path: Path, source: Path) -> None:
    runs = [opened(tmp_path, on_existing=OnExisting.REUSE) for _ in range(3)]
    for run in runs:
        run.stage(described(source))
    for run in runs[:2]:
        assert run.close(succeeded=True) == []
        assert names(tmp_path) == WHOLE
    runs[2].close(succeeded=True)
    assert names(tmp_path) == ["lock"]


def test_a_copy_that_cannot_be_removed_is_a_warning(tmp_path: Path, source: Path) -> None:
    run = opened(tmp_path, cleanup=Cleanup.ALWAYS)
    data = Path(run.stage(described(source)).path)
    data.unlink()
    data.mkdir()
    (problem,) = run.close(succeeded=True)
    assert problem.startswith(f"the staged copy {data} is not removed: ")


def test_a_copy_of_a_time_to_come_is_not_younger_than_itself() -> None:
    manifest = staged_copy.Manifest("a", 0, 0, 0, "", datetime(2026, 1, 1, tzinfo=UTC).isoformat())
    assert manifest.is_younger(datetime(2026, 1, 1, tzinfo=UTC))
    assert not manifest.is_younger(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=1))

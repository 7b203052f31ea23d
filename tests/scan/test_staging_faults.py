"""Staged copies: made whole or not at all whatever fails, and removed when nobody reads them."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.disk.locks import FileLock
from spark_jobs.scan.files import FormatError
from spark_jobs.scan.staging import staged_copy, staging
from spark_jobs.scan.staging.staged_copy import Cleanup, OnExisting, StagedCopy, Verify
from spark_jobs.scan.staging.staging import Refused
from tests.scan.staged import DATA, WHOLE, described, names, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.scan.files import InputFile

REPOSITORY = Path(__file__).resolve().parents[2]

# ---- faults --------------------------------------------------------------------------------------------------------


#: Stages a file in a process whose files cannot grow beyond a thousand bytes, its output and its report included.
SMALL_DISK = """
import resource, sys
from pathlib import Path
from spark_jobs.scan.files import FormatError
from tests.scan import staged
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    staged.opened(Path(sys.argv[1])).stage(staged.described(Path(sys.argv[2])))
except FormatError as error:
    print(error)
"""


def test_a_copy_that_cannot_be_written_leaves_nothing(tmp_path: Path, source: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(tmp_path), str(source)],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.match(r"in/a\.csv: cannot be staged in .*staging: File too large", ended.stdout)
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

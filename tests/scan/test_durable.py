"""Files are on the disk before anything counts on it, however many they are."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.disk import durable

ROOT = Path(__file__).parents[2]
RIGHTS = "the user that runs this needs rights to it, and to pass through the folders that hold it (ls -ld)"


def made(folder: Path, count: int) -> list[str]:
    paths = [str(folder / f"{number}") for number in range(count)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"x")
    return paths


@pytest.mark.parametrize("count", [0, 1, 16, 17, 100])
@pytest.mark.parametrize("portion", [7, 4096])
def test_every_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, portion: int) -> None:
    paths = made(tmp_path, count)
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(durable, "_PORTION", portion)
    durable.sync_files(paths)
    assert sorted(synced) == sorted(os.stat(path).st_ino for path in paths)


@pytest.mark.parametrize("count", [3, 50])
def test_a_file_that_cannot_be_synced_is_named(tmp_path: Path, count: int) -> None:
    paths = made(tmp_path, count)
    os.unlink(paths[1])
    with pytest.raises(FileNotFoundError) as raised:
        durable.sync_files(paths)
    assert raised.value.filename == paths[1]


def test_words_of_a_library_around_those_of_the_system_are_left_out() -> None:
    said = "Error writing bytes to file. Detail: [errno 28] No space left on device"
    with pytest.raises(OSError, match=r"No space") as raised, durable.about("/out/part"):
        raise OSError(28, said)
    assert durable.describe(raised.value).startswith("/out/part: No space left on device; free some space")


#: A limit on the size of files is as real as a full disk: the system itself refuses the write.
LIMITED = """
import resource, signal, sys
from pathlib import Path
from spark_jobs.disk import durable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    durable.replace_text(Path(sys.argv[1]), sys.argv[2])
except OSError as error:
    sys.exit(durable.describe(error))
"""


@pytest.mark.parametrize("old", ["old", None])
def test_a_file_for_people_is_there_as_a_whole_or_stays_as_it_was(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "report.html"
    if old is not None:
        path.write_text(old)
    command = [sys.executable, "-c", LIMITED, str(path)]
    for text, said in (("longer than it may be", f"{path}: File too large"), ("short", "")):
        done = subprocess.run([*command, text], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stderr.strip() == said
        expected = old if said else text
        assert {each.name: each.read_text() for each in tmp_path.iterdir()} == (
            {} if expected is None else {path.name: expected}
        )
    durable.replace_text(path, "line\n", newline="\r\n")
    assert path.read_bytes() == b"line\r\n"


def test_a_file_for_people_keeps_its_rights_and_a_link_its_target(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far/report", tmp_path / "report"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    durable.replace_text(link, "new")
    assert (link.is_symlink(), target.read_text(), stat.S_IMODE(target.stat().st_mode)) == (True, "new", 0o640)


def test_text_for_a_pipe_goes_into_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE) as reader:
        durable.replace_text(tmp_path / "pipe", "text")
        assert reader.communicate()[0] == b"text"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("name", "text"), [("theirs", "new"), ("absent", None)])
def test_a_file_in_a_folder_where_none_may_be_made_is_written_where_it_is(
    name: str, text: str | None, tmp_path: Path
) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    (tmp_path / "theirs").write_text("older text")
    os.chown(tmp_path / "theirs", 65534, 65534)
    program = (
        "import os, sys; from pathlib import Path; from spark_jobs.disk import durable; os.setgid(65534); "
        "os.setuid(65534)\ntry: durable.replace_text(Path(sys.argv[1]), 'new')\n"
        "except OSError as error: sys.exit(durable.describe(error))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ("" if text else f"{tmp_path / name}: Permission denied; {RIGHTS}")
    assert (tmp_path / "theirs").read_text() == (text or "older text")
    assert [*tmp_path.iterdir()] == [tmp_path / "theirs"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no file system here that makes no folders")
@pytest.mark.parametrize("path", ["/proc/new", "/proc/new/deeper/still", "/proc/.clinker-1"])
def test_a_file_system_that_makes_no_folders_is_told_of(path: str) -> None:
    with pytest.raises(OSError, match="no folder can be made in /proc") as raised:
        durable.make_folder(Path(path), exist_ok=True)
    said = durable.describe(raised.value)
    assert said.endswith("whose file system takes none: choose another place")
    assert "somebody has removed" not in said


def test_missing_folders_are_made(tmp_path: Path) -> None:
    durable.make_folder(tmp_path / "a/b", 0o700)
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o700
    durable.make_folder(tmp_path / "a/b", exist_ok=True)
    with pytest.raises(FileExistsError):
        durable.make_folder(tmp_path / "a/b")

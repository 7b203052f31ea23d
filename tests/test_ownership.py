"""What somebody else may have made is not believed, however it is put in the way."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs import ownership

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, what this user has made is another user's."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    return tmp_path / "home" / "cache"


def test_a_cache_folder_is_its_users_alone(cache: Path) -> None:
    assert ownership.cache_folder() is None
    assert ownership.cache_folder(make=True) == cache / "clinker"
    assert ownership.cache_folder() == cache / "clinker"
    assert [oct(each.stat().st_mode & 0o777) for each in (cache, cache / "clinker")] == ["0o700", "0o700"]


@pytest.mark.parametrize("writable", ["clinker", "", ".."])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_cache_folder_that_others_can_write_or_replace_is_none(cache: Path, writable: str, mode: int) -> None:
    ownership.cache_folder(make=True)
    (cache / writable).chmod(mode)
    assert ownership.cache_folder(make=True) is None


def test_what_is_in_a_sticky_folder_stays(cache: Path) -> None:
    ownership.cache_folder(make=True)
    cache.chmod(0o1777)
    assert ownership.cache_folder() == cache / "clinker"


def test_another_users_cache_folder_is_none(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ownership.cache_folder(make=True)
    stranger(monkeypatch)
    assert ownership.cache_folder(make=True) is None


def test_a_link_to_a_folder_counts_as_where_it_leads(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (cache / "clinker").symlink_to(tmp_path / "elsewhere")
    assert ownership.cache_folder() == cache / "clinker"
    (tmp_path / "elsewhere").chmod(0o777)
    assert ownership.cache_folder() is None


def test_a_relative_cache_home_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is named from the working directory could be part of what somebody has cloned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert ownership.cache_folder(make=True) == tmp_path / "home" / ".cache" / "clinker"


PLANTED: dict[str, Callable[[Path], object]] = {
    "is not a regular file": lambda path: os.mkfifo(path),
    "can be written by other users": lambda path: (path.write_text("x"), path.chmod(0o660)),
    "has a second name elsewhere": lambda path: (path.write_text("x"), os.link(path, f"{path}.other")),
    "has more than 4 bytes": lambda path: path.write_text("12345"),
}


@pytest.mark.parametrize("reason", PLANTED)
def test_a_file_that_is_not_ones_own_is_not_read(reason: str, tmp_path: Path) -> None:
    PLANTED[reason](tmp_path / "file")
    folder = ownership.open_folder(tmp_path)
    with pytest.raises(ownership.NotOwnError, match=reason):
        ownership.read("file", folder, 4)
    os.close(folder)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/link").symlink_to("file")
    with pytest.raises(NotADirectoryError):
        ownership.open_folder(tmp_path / "link")
    with pytest.raises(OSError, match="link"):
        ownership.open_file(tmp_path / "real/link")
    assert not ownership.is_own_file(tmp_path / "real/link")
    assert ownership.is_own_file(tmp_path / "real/file")
    folder = ownership.open_folder("real", ownership.open_folder(tmp_path))
    assert ownership.read("file", folder, 4) == b"x"


def test_another_users_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    folder = ownership.open_folder(tmp_path)
    stranger(monkeypatch)
    with pytest.raises(ownership.NotOwnError, match="belongs to another user"):
        ownership.read("file", folder, 4)
    assert not ownership.is_own_file(tmp_path / "file")


def test_what_the_system_refuses_in_an_open_folder_has_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ownership.open_folder(tmp_path)
    real = os.open

    def full(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", full)
    try:
        with pytest.raises(OSError, match="No space left") as raised:
            ownership.open_file("lock", folder, os.O_RDWR | os.O_CREAT)
        assert raised.value.filename == str(tmp_path / "lock")
        with pytest.raises(FileNotFoundError) as missing:
            ownership.open_file("none", folder)
        assert missing.value.filename == str(tmp_path / "none")
    finally:
        os.close(folder)

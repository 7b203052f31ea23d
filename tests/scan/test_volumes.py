"""What a folder is on, by a list of mounts as the kernel writes it."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from spark_jobs.disk import volumes
from spark_jobs.disk.volumes import Kind

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /dev/shm rw,nosuid shared:2 - tmpfs tmpfs rw,size=4g
24 22 0:22 / /run rw - ramfs none rw
30 22 0:40 / /mnt/nfs rw - nfs4 server:/export rw,soft
31 30 8:1 / /mnt/nfs/local rw - xfs /dev/sda1 rw
32 22 0:41 / /mnt/with\040blank\134slash rw - cifs //server/share rw
33 22 0:42 / /mnt/s3 rw master:5 propagate_from:2 - fuse.s3fs s3fs rw
34 22 8:2 / /mnt/usb rw - fuseblk /dev/sdb1 rw
35 22 0:43 / /mnt/twice rw - ext4 /dev/sdc1 rw
36 35 0:44 / /mnt/twice rw - nfs server:/other rw
37 22 0:45 / /mnt/rootless rw - fuse.fuse-overlayfs fuse-overlayfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/spill", Kind.OTHER),
        ("/dev/shm", Kind.MEMORY),
        ("/dev/shm/x", Kind.MEMORY),
        ("/dev/shmother", Kind.OTHER),
        ("/run/x", Kind.MEMORY),
        ("/mnt/nfs/a/b", Kind.NETWORK),
        ("/mnt/nfs/local/a", Kind.OTHER),
        ("/mnt/with blank\\slash/a", Kind.NETWORK),
        ("/mnt/s3/a", Kind.NETWORK),
        ("/mnt/usb/a", Kind.OTHER),
        ("/mnt/twice/a", Kind.NETWORK),
        ("/mnt/rootless/a", Kind.OTHER),
    ],
)
def test_the_longest_mount_point_tells_the_kind(path: str, kind: Kind) -> None:
    assert volumes.kind(path, MOUNTS) is kind


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    mounts = f"22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:21 / {tmp_path.resolve()}/disk rw - tmpfs tmpfs rw\n"
    assert volumes.kind(str(tmp_path / "link/inside"), mounts) is Kind.MEMORY


def test_a_system_without_the_list_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "MOUNTINFO", tmp_path / "missing")
    assert volumes.kind(str(tmp_path)) is None
    assert volumes.kind(str(tmp_path), "") is None


@pytest.mark.skipif(not volumes.MOUNTINFO.exists(), reason="no list of mounts here")
def test_this_system_has_a_list_that_is_understood() -> None:
    assert volumes.kind("/proc") is Kind.OTHER
    assert volumes.file_system("/proc", volumes.MOUNTINFO.read_text()) == "proc"


def test_devices_are_compared(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert volumes.share_device(str(tmp_path), str(tmp_path / "a"))
    assert not volumes.share_device(str(tmp_path), str(tmp_path / "gone"))
    assert not volumes.share_device(str(tmp_path), "/proc/self")


def test_free_space_is_a_number_of_bytes(tmp_path: Path) -> None:
    assert volumes.free_bytes(str(tmp_path)) > 1 << 20


def test_processes_of_one_machine_reach_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = "from spark_jobs.disk import volumes; print(volumes.reach())"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == volumes.reach() != ""
    monkeypatch.setattr(volumes, "_BOOT_ID", tmp_path / "missing")
    assert volumes.reach() == platform.node()


@pytest.mark.parametrize(
    ("path", "keeps"),
    [("/var/a", True), ("/mnt/nfs/a", True), ("/mnt/s3/a", False), ("/mnt/usb/a", True), ("/mnt/rootless/a", True),
     ("/mnt/with blank\\slash/a", False)],
)  # fmt: skip
def test_some_volumes_make_up_inodes(path: str, keeps: bool) -> None:
    assert volumes.keeps_inodes(path, MOUNTS) is keeps
    assert volumes.keeps_inodes(path, "")

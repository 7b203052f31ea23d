"""Patterns that choose the files to stage."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

import pytest

from spark_jobs.scan.staging import selection

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/mnt/nfs/**", "/mnt/nfs/a/b/c.csv", True),
        ("/mnt/nfs/**", "/mnt/nfs/c.csv", True),
        ("/mnt/nfs/**", "/mnt/nfsother/c.csv", False),
        ("/mnt/nfs/*", "/mnt/nfs/c.csv", True),
        ("/mnt/nfs/*", "/mnt/nfs/a/c.csv", False),
        ("/mnt/**/c.csv", "/mnt/c.csv", True),
        ("/mnt/**/c.csv", "/mnt/a/b/c.csv", True),
        ("/mnt/**/c.csv", "/mnt/a/b/cc.csv", False),
        ("*.csv", "/mnt/a/c.csv", True),
        ("*.csv", "/mnt/a/c.json", False),
        ("c?.csv", "/mnt/c1.csv", True),
        ("c?.csv", "/mnt/c.csv", False),
        ("c[0-3].csv", "/mnt/c2.csv", True),
        ("c[0-3].csv", "/mnt/c4.csv", False),
        ("c[!0-3].csv", "/mnt/c4.csv", True),
        ("c[]^[].csv", "/mnt/c^.csv", True),
        ("c[]^[].csv", "/mnt/c].csv", True),
        ("c.csv", "/mnt/c-csv", False),
        ("**", "/any/where", True),
        ("**/b/*.csv", "/mnt/a/b/c.csv", True),
        ("**/b/*.csv", "/mnt/a/bb/c.csv", False),
        ("/mnt/a/../b/c.csv", "/mnt/b/c.csv", False),
        ("/mnt/b/c.csv", "/mnt/a/../b/c.csv", True),
        ("/mnt/b/c\nd.csv", "/mnt/b/c\nd.csv", True),
    ],
)
def test_a_pattern_is_about_the_whole_path_or_the_name(pattern: str, path: str, matches: bool) -> None:
    assert selection.matches([pattern], path) is matches


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("in/*.csv", "/work/a[1]*/in/c.csv", True),
        ("in/*.csv", "/work/a1x/in/c.csv", False),
        ("in/*.csv", "/other/in/c.csv", False),
        ("in/**", "/work/a[1]*/in/deep/c.csv", True),
        ("./in/*.csv", "/work/a[1]*/in/c.csv", True),
        ("../in/*.csv", "/work/in/c.csv", True),
        ("**/in/*.csv", "/other/in/c.csv", True),
        ("/in/*.csv", "/in/c.csv", True),
        ("*.csv", "/other/c.csv", True),
    ],
)
def test_a_pattern_with_folders_starts_at_the_workspace(pattern: str, path: str, matches: bool) -> None:
    rooted = selection.rooted(pattern, "/work/a[1]*")
    assert selection.matches([rooted], path) is matches


def test_examples_are_true() -> None:
    assert doctest.testmod(selection).failed == 0


def test_a_pattern_may_name_the_place_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "share/a.csv").write_text("")
    (tmp_path / "in").symlink_to(tmp_path / "share")
    path = str(tmp_path / "in/a.csv")
    assert selection.matches([f"{tmp_path.resolve()}/share/**"], path)
    assert selection.matches([f"{tmp_path}/in/*"], path)


def test_without_patterns_nothing_matches() -> None:
    assert not selection.matches([], "/a")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "it is empty"),
        ("/mnt/a**/b", "be alone"),
        ("/mnt/***", "be alone"),
        ("/mnt/[ab", "never closed"),
        ("/mnt/[]", "is empty"),
        ("/mnt/[z-a]", "bad range"),
        ("/mnt/[a/b]", "never closed"),
        ("[!]", "is empty"),
    ],
)
def test_what_means_nothing_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(selection.BadPattern, match=reason):
        selection.compiled(pattern)

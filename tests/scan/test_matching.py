from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from spark_jobs.scan import matching
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Settings:
    path: str | None = None
    glob: str | None = None
    regex: str | None = None
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    modified_after: float | None = None
    modified_before: float | None = None
    min_size: int | None = None
    max_size: int | None = None
    sort_by: str = "name"
    sort_order: str = "asc"
    take_first: int | None = None
    take_last: int | None = None
    recursive: bool = True
    on_no_match: str = "error"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    sizes = {
        "in/ab.csv": 5,
        "in/ac.csv": 10,
        "in/ab.txt": 5,
        "in/.hidden.csv": 5,
        "in/s/x.csv": 5,
        "in/s/t/y.csv": 5,
        "in/s-1/x.csv": 5,
        "top.csv": 5,
    }
    for at, (name, size) in enumerate(sizes.items()):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        os.utime(file, (1000 - at, 1000 - at))
    return folder


def names(base: Path, **settings: object) -> list[str]:
    return [file.name for file in matching.match("s", Settings(**settings), base).files]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("in/*.csv", ["in/.hidden.csv", "in/ab.csv", "in/ac.csv"]),
        ("in/?[bc].csv", ["in/ab.csv", "in/ac.csv"]),
        ("in/[!h]?.csv", ["in/ab.csv", "in/ac.csv"]),
        ("in/*/x.csv", ["in/s/x.csv", "in/s-1/x.csv"]),
        ("in/s*/**/*.csv", ["in/s/t/y.csv", "in/s/x.csv", "in/s-1/x.csv"]),
        ("**/y.csv", ["in/s/t/y.csv"]),
        (
            "**/*.csv",
            ["in/.hidden.csv", "in/ab.csv", "in/ac.csv", "in/s/t/y.csv", "in/s/x.csv", "in/s-1/x.csv", "top.csv"],
        ),
        ("in/s/**", ["in/s/t/y.csv", "in/s/x.csv"]),
        ("in/**/**/x.csv", ["in/s/x.csv", "in/s-1/x.csv"]),
        ("./top.*", ["top.csv"]),
        ("in/ab.csv", ["in/ab.csv"]),
        ("IN/*.csv", []),
    ],
)
def test_globs(base: Path, pattern: str, expected: list[str]) -> None:
    assert names(base, glob=pattern, on_no_match="skip") == expected


def test_an_absolute_glob_names_absolute_files(base: Path) -> None:
    assert names(base, glob=f"{base}/in/a?.csv") == [f"{base}/in/ab.csv", f"{base}/in/ac.csv"]


def test_a_regex_searches_paths_from_the_base_folder(base: Path) -> None:
    assert names(base, regex=r"s/.*y\.csv$") == ["in/s/t/y.csv"]
    assert names(base, regex=r"\.csv$", recursive=False) == ["top.csv"]


def test_paths_are_read_in_name_order_and_may_repeat(base: Path) -> None:
    assert names(base, paths=("top.csv", "in/ac.csv", "in/ab.csv", "top.csv")) == [
        "in/ab.csv",
        "in/ac.csv",
        "top.csv",
        "top.csv",
    ]


def test_names_stay_as_they_were_written(base: Path) -> None:
    [file] = matching.match("s", Settings(path="./in/ab.csv"), base).files
    assert (file.name, file.path, file.size) == ("./in/ab.csv", str(base / "in/ab.csv"), 5)


def test_exclude_fits_the_path_or_the_name(base: Path) -> None:
    assert names(base, glob="in/**/*.csv", exclude=("in/s/*", "*hid*", "ac.*")) == ["in/ab.csv", "in/s-1/x.csv"]


def test_bounds_are_inclusive(base: Path) -> None:
    assert names(base, glob="in/a*", min_size=10) == ["in/ac.csv"]
    assert names(base, glob="in/a*", max_size=5) == ["in/ab.csv", "in/ab.txt"]
    assert names(base, glob="in/a*", modified_after=999.0) == ["in/ab.csv", "in/ac.csv"]
    assert names(base, glob="in/a*", modified_before=999.0) == ["in/ab.txt", "in/ac.csv"]


def test_order_and_choice(base: Path) -> None:
    assert names(base, glob="in/a*.csv", sort_order="desc") == ["in/ac.csv", "in/ab.csv"]
    assert names(base, glob="**/*.csv", sort_by="modified", take_first=2) == ["top.csv", "in/s-1/x.csv"]
    assert names(base, glob="**/*.csv", take_last=2) == ["in/s-1/x.csv", "top.csv"]
    assert names(base, glob="in/a*.csv", take_first=9) == ["in/ab.csv", "in/ac.csv"]
    assert names(base, glob="in/a*.csv", take_last=0, on_no_match="skip") == []


@pytest.mark.parametrize("settings", [{"path": "no.csv"}, {"paths": ("top.csv", "no.csv")}])
def test_a_missing_literal_path_is_an_error_whatever_is_asked(base: Path, settings: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"no\.csv: .*file not found") as caught:
        names(base, on_no_match="skip", **settings)
    assert caught.value.code == "E216"


@pytest.mark.parametrize("settings", [{"path": "no.csv"}, {"paths": ("no.csv",)}, {"glob": "*.csv"}, {"regex": "csv$"}])
def test_a_missing_base_folder_is_named(base: Path, settings: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=f"the base folder '{base}/none' .*--base-dir.* is not there") as caught:
        names(base / "none", **settings)
    assert caught.value.code == "E216"


def test_a_folder_is_no_file(base: Path) -> None:
    with pytest.raises(FormatError, match="is not a file"):
        names(base, path="in")


def test_a_pattern_without_match_is_an_error_a_warning_or_nothing(base: Path) -> None:
    with pytest.raises(FormatError, match=r"no file matches in/\*\.tsv") as caught:
        names(base, glob="in/*.tsv")
    assert caught.value.code == "E216"
    with pytest.raises(FormatError, match="no file matches an empty list of paths"):
        names(base, paths=())
    warned = matching.match("s", Settings(glob="in/*.tsv", on_no_match="warn"), base)
    assert warned.files == ()
    assert "in/*.tsv" in warned.warnings[0]
    assert matching.match("s", Settings(glob="no/*.tsv", on_no_match="skip"), base) == matching.Matched(())


def test_a_link_out_of_the_base_folder_is_refused(base: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("x")
    (base / "in" / "zz.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(FormatError) as caught:
        names(base, glob="in/z*.csv")
    assert caught.value.code == "E-SEC-001"
    assert f'via symlink: "in/zz.csv" -> "{tmp_path}/secret.csv"' in str(caught.value)
    assert len(matching.match("s", Settings(glob="in/z*.csv"), base, allow_outside=True).files) == 1


def test_folders_may_be_nested_as_deep_as_the_system_allows(tmp_path: Path) -> None:
    depth = 1200
    (tmp_path / "deep").mkdir()
    opened = [os.open(tmp_path / "deep", os.O_RDONLY)]
    try:
        for _ in range(depth):
            os.mkdir("d", dir_fd=opened[-1])
            opened.append(os.open("d", os.O_RDONLY, dir_fd=opened[-1]))
            if len(opened) > 2:
                os.close(opened.pop(0))
        os.close(os.open("a.csv", os.O_WRONLY | os.O_CREAT, dir_fd=opened[-1]))
        for settings in (Settings(glob="deep/**/*.csv"), Settings(regex=r"\.csv$")):
            (file,) = matching.match("s", settings, tmp_path).files
            assert file.name == "deep/" + "d/" * depth + "a.csv"
    finally:
        for number in opened:
            os.close(number)
        folder = str(tmp_path / "deep") + "/d" * depth
        os.unlink(f"{folder}/a.csv")
        for _ in range(depth):
            os.rmdir(folder)
            folder = folder[:-2]

"""Which objects a source reads: the same choices as among files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.scan import matching
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from tests.object_store import Bucket

TREE = (
    "in/a.csv", "in/b.csv", "in/.hidden.csv", "in/b.txt", "in/2026/jan.csv", "in/2026/feb.csv", "in/2026/q1/x.csv",
    "in/2025/jan.csv", "in/a b.csv", "in/[x].csv", "other/a.csv", "in2/a.csv", "top.csv",
)  # fmt: skip
PATTERNS = (
    "in/*.csv", "in/?.csv", "in/[ab].csv", "in/[!a].csv", "in/*/*.csv", "in/20*/jan.csv", "in/**/*.csv", "in/**",
    "**/jan.csv", "**", "*.csv", "in*/a.csv", "in/**/q1/*", "in/2026/**/x.csv", "in/a.csv", "in/none*.csv",
    "i*/2026/*.csv", "**/**/a.csv", "in/2026/feb*", "in/**/2026/**",
)  # fmt: skip


def names(bucket: Bucket | None, base: Path = Path("/"), **settings: Any) -> list[str]:
    match = FileMatch(on_no_match="skip", **settings)
    found = matching.match("s", match, base, allow_outside=True)
    begin = bucket.uri("") if bucket else ""
    return [file.name.removeprefix(begin) for file in found.files]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_objects_as_they_match_files(pattern: str, tmp_path: Path, s3: Bucket) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        s3.put(name, name)
    s3.put("in/2026/", "")  # a folder as consoles make it
    assert names(s3, glob=s3.uri(pattern)) == names(None, tmp_path, glob=pattern)


def test_regular_expressions_are_searched_from_their_literal_beginning(s3: Bucket) -> None:
    for name in TREE:
        s3.put(name, name)
    assert names(s3, regex=s3.uri(r"in/20\d\d/.*\.csv$")) == [
        "in/2025/jan.csv",
        "in/2026/feb.csv",
        "in/2026/jan.csv",
        "in/2026/q1/x.csv",
    ]
    assert names(s3, regex="^" + s3.uri(r"in\d*/a\.csv$")) == ["in/a.csv", "in2/a.csv"]
    assert names(s3, regex=s3.uri(r"in2?/a\.csv|top")) == ["in/a.csv", "in2/a.csv", "top.csv"]
    assert names(s3, regex=s3.uri(r"in/.*csv"), recursive=False) == [
        "in/.hidden.csv", "in/[x].csv", "in/a b.csv", "in/a.csv", "in/b.csv",
    ]  # fmt: skip


def test_filters_order_and_choice_are_those_of_files(s3: Bucket) -> None:
    for name in TREE:
        s3.put(name, "x" * len(name))
    every = s3.uri("in/**/*.csv")
    assert names(s3, glob=every, exclude=("*jan*", "[*")) == [
        "in/.hidden.csv", "in/2026/feb.csv", "in/2026/q1/x.csv", "in/a b.csv", "in/a.csv", "in/b.csv",
    ]  # fmt: skip
    assert names(s3, glob=every, min_size=14, max_size=15) == [
        "in/.hidden.csv",
        "in/2025/jan.csv",
        "in/2026/feb.csv",
        "in/2026/jan.csv",
    ]
    assert names(s3, glob=every, sort_order="desc", take_first=1) == ["in/b.csv"]
    assert names(s3, glob=every, take_last=2) == ["in/a.csv", "in/b.csv"]
    assert names(s3, glob=every, modified_after=4e9) == []
    assert len(names(s3, glob=every, modified_before=4e9, sort_by="modified")) == 9


def test_a_list_may_have_files_and_objects(s3: Bucket, tmp_path: Path) -> None:
    (tmp_path / "a b.csv").write_text("x")
    s3.put("in/b.csv", "y")
    found = names(None, tmp_path, paths=(s3.uri("in/b.csv"), "a b.csv", f"file://{tmp_path}/a%20b.csv"))
    assert sorted(found) == sorted([s3.uri("in/b.csv"), "a b.csv", f"file://{tmp_path}/a%20b.csv"])


def test_the_scheme_of_the_author_stays_in_names(s3: Bucket) -> None:
    s3.put("in/b.csv", "y")
    (file,) = matching.match("s", FileMatch(glob=f"s3a://{s3.name}/in/*"), Path("/")).files
    assert file.name == f"s3a://{s3.name}/in/b.csv"
    assert file.path == s3.uri("in/b.csv")


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"path": "s3://{bucket}/none.csv"}, "E216", "file not found"),
        ({"path": "s3://{bucket}/in/*.csv"}, "E216", "written as `glob:`"),
        ({"glob": "s3://{bucket}/in/*.csv"}, "E216", "no file matches"),
        ({"path": "s3://no-such-bucket-here/in.csv"}, "E910", "no bucket is named `no-such-bucket-here`"),
        ({"glob": "s3://no-such-bucket-here/*.csv"}, "E910", "no bucket is named `no-such-bucket-here`"),
        ({"glob": "s3://*/x.csv"}, "E216", "not a bucket name"),
    ],
)
def test_what_is_missing_is_told(settings: dict[str, str], code: str, says: str, s3: Bucket) -> None:
    filled = {key: value.replace("{bucket}", s3.name) for key, value in settings.items()}
    with pytest.raises(FormatError, match=says) as error:
        matching.match("s", FileMatch(**filled), Path("/"))
    assert error.value.code == code

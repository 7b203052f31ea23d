"""No two writers of a run have one path (E322, E318)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.plan.checks import overlap
from tests.plan.test_written_paths import LETTERS, outputs, problems

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("paths", "letters", "codes"),
    [
        (("out/x.csv", "out/./x.csv"), None, ["E322"]),
        (("out/x.csv", "link/x.csv"), None, ["E322"]),
        (("out/x.csv", "out/X.csv"), ("d.csv", "D.csv"), []),
        (("out/n", "out/n/two.csv"), None, ["E322"]),
        (("link/n/two.csv", "out/n"), None, ["E322"]),
        (("out/n, parts: true", "link/n/two.csv"), None, ["E322"]),
        (("link/n/two.csv", "out/n, parts: true"), None, ["E322"]),
        (("out/n, parts: true",), ("out/n/deep/d.csv", "d.csv"), ["E322"]),
        (("out/n, parts: true",), ("d.csv", "out/n/part-00000.csv"), ["E322"]),
        (("out/n, parts: true",), ("out/d.csv", "out/e.csv"), []),
        (("x.csv, write_meta: true", "x.csv.meta.json"), None, ["E322"]),
        (("x.csv.meta.json", "x.csv, write_meta: true"), None, ["E322"]),
        (("x.csv", "x.csv.meta.json"), None, []),
        (("out/x.csv",), ("link/x.csv", "d.csv"), ["E322"]),
        (("out/x.csv",), ("out", "d.csv"), ["E322"]),
        (("x.csv, write_meta: true",), ("x.csv.meta.json", "d.csv"), ["E322"]),
        (("x.csv",), ("out/d.csv", "link/d.csv"), ["E318"]),
        (("x.csv",), ("out/d", "out/d/e.csv"), ["E318"]),
        (("out/x.csv", "out/n.csv"), ("out/d.csv", "link/e.csv"), []),
    ],
)
def test_no_two_writers_meet(
    paths: tuple[str, ...], letters: tuple[str, str] | None, codes: list[str], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    text = outputs(*paths) + (LETTERS.format(*letters) if letters else "")
    items = problems(tmp_path, text)
    assert [item.code.id for item in items] == codes
    assert all(item.span and item.help for item in items)


@pytest.mark.parametrize(
    ("paths", "letters", "codes"),
    [
        (("out/x.csv", "out/X.csv"), None, ["E322"]),
        (("out/x.csv", "OUT/x.csv"), None, ["E322"]),
        (("out/x.csv",), ("out/X.CSV", "d.csv"), ["E322"]),
        (("out/x.csv",), ("d.csv", "D.csv"), ["E318"]),
        (("out/x.csv", "OUT/y.csv"), None, []),
    ],
)
def test_no_two_writers_meet_where_letter_case_is_not_told_apart(
    paths: tuple[str, ...],
    letters: tuple[str, str] | None,
    codes: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overlap, "_ignores_case", lambda path: True)
    items = problems(tmp_path, outputs(*paths) + (LETTERS.format(*letters) if letters else ""))
    assert [item.code.id for item in items] == codes


def test_a_link_in_other_letters_does_not_make_a_file_system_ignore_them(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "OUT").symlink_to(tmp_path / "out")
    assert problems(tmp_path, outputs("out/x.csv", "out/X.csv")) == []

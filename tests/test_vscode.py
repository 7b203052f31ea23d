"""The extension for VS Code agrees with the language and the package."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import __version__
from spark_jobs.cxl.syntax.names import RESERVED

FOLDER = Path(__file__).resolve().parents[1] / "editors" / "vscode"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def scope(word: str) -> str | None:
    """What the grammar calls a word that stands alone: the pattern that matches first."""
    for pattern in read("syntaxes/cxl.tmLanguage.json")["repository"]["everything"]["patterns"]:
        if "match" in pattern and (found := re.match(pattern["match"], word)) and found[0].strip():
            captured = pattern.get("captures", {}).get("1", {}).get("name")
            return str(pattern.get("name") or captured)
    return None


def test_it_has_the_version_of_the_package() -> None:
    assert read("package.json")["version"] == __version__
    assert f"clinker-{__version__}.vsix" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_all_files_that_it_names_are_there() -> None:
    package = read("package.json")
    contributed = package["contributes"]
    files = [package["main"], *(each["path"] for each in contributed["grammars"])]
    files += [each["configuration"] for each in contributed["languages"]]
    assert [file for file in files if not (FOLDER / file).is_file()] == []


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_each_word_of_the_language_has_a_colour(word: str) -> None:
    found = scope(word)
    assert found is not None
    assert found.startswith(("keyword.", "constant.language."))


def test_names_dates_and_comments_are_no_words() -> None:
    assert scope("amount") is None
    assert scope("letter") is None
    assert scope("#2026-03-02#") == "constant.other.date.cxl"
    assert scope("# 5") == "comment.line.number-sign.cxl"
    assert scope("$window") == "variable.language.cxl"

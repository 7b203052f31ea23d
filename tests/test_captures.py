"""The page of terminals is true: without a terminal and without Spark the commands say the same, but for figures."""

from __future__ import annotations

import io
import re
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import pytest

from docs import captures
from spark_jobs.cli import clinker
from tests.execute import without_spark

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = captures.shown(captures.PAGE.read_text(encoding="utf-8"))
_FORMS = {"80 columns", "200 columns", "a dumb terminal", "a pipe"}
_ON_THE_WAY = re.compile(
    r"reading orders: [\d.]+ \w+ of [\d.]+ \w+ \(\d+%\)(, [\d.]+ \w+/s)?(, \d+ s left)? \[(\d+ min )?\d+ s\]"
)


def _said(folder: Path, scene: captures.Scene) -> str:
    parts = []
    for command in scene.commands:
        printed = io.StringIO()
        words = command.split()
        if words[0] == "clinker":
            with redirect_stdout(printed), redirect_stderr(printed):
                clinker.main(words[1:])
        else:
            subprocess.run(command, shell=True, cwd=folder, check=True)
        parts.append(f"$ {command}\n{printed.getvalue()}")
    return "".join(parts).replace(str(folder), "/data")


def test_the_page_shows_what_commands_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures.prepare(tmp_path, 50)
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    for scene in captures.SCENES:
        said = captures.masked(_said(tmp_path, scene))
        for forms, text in _SHOWN[scene.title]:
            if "on the way" not in forms:
                assert captures.masked(text) == said, (scene.title, forms)


@pytest.mark.parametrize("scene", captures.SCENES, ids=lambda scene: scene.title)
def test_the_page_has_every_form(scene: captures.Scene) -> None:
    assert {form for forms, _ in _SHOWN[scene.title] for form in forms.split(", ") if form != "on the way"} == _FORMS


def test_a_terminal_shows_how_far_a_run_is() -> None:
    found = {forms: text for forms, text in _SHOWN["A long run"] if "on the way" in forms}
    assert {"80 columns, on the way", "200 columns, on the way"} <= set(found)
    for text in found.values():
        assert _ON_THE_WAY.search(text)

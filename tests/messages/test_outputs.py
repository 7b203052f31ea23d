"""Outputs that name columns which they do not have: what is said of them; whole texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker

if TYPE_CHECKING:
    from pathlib import Path

_PIPELINE = """\
pipeline: { name: t }
nodes:
  - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int, name: string }, on_unmapped: drop } }
  - type: output
    name: o
    input: s
    config:
      type: csv
      path: o.csv
      WRITTEN
"""
_MESSAGE = "error[E007]: output 'o': columns names '{0}', which is not among the columns to write"


@pytest.mark.parametrize(
    ("written", "name", "column", "hint"),
    [
        ("columns: [id, nmae]", "nmae", 21, "did you mean `name`?"),
        ("columns: [id, name]\n      mapping: { who: name }", "name", 21, "`mapping` calls it `who`"),
        ("columns: [name]\n      exclude: [name]", "name", 17, "`exclude` leaves it out"),
    ],
)
def test_a_column_that_is_not_there_is_told(
    written: str,
    name: str,
    column: int,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(_PIPELINE.replace("WRITTEN", written))
    assert clinker.main(["validate", "--no-inputs", "--diagnostics", "full", "p.yaml"]) == 1
    line = written.splitlines()[0]
    assert capsys.readouterr().err == (
        f"{_MESSAGE.format(name)}\n  --> p.yaml:10:{column}\n   |\n10 |       {line}\n"
        f"   |       {' ' * (column - 7)}{'^' * len(name)}\n  = help: {hint}\n\n1 error\n"
    )

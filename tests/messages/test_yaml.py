"""Files that are no YAML: what is said of the usual mistakes; whole texts, in words for whoever wrote the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker

if TYPE_CHECKING:
    from pathlib import Path

_GOOD = """\
pipeline: { name: t }
nodes:
  - type: source
    name: s
    config:
      type: csv
      path: a.csv
      schema: { id: int }
  - type: output
    name: o
    input: s
    config: { type: csv, path: o.csv }
"""
#: What is written in place of something, the message, line and column, and the help.
_CASES = [
    ("    name: s\n", "   name: s\n",
     "this line is indented by 3 spaces, and lines up with nothing above it", "4:4",
     "the line above has its keys at 4; indent both alike"),
    ("    name: s\n", "     name: s\n",
     "this line is indented by 5 spaces, and lines up with nothing above it", "4:6",
     "the line above has its keys at 4; indent both alike"),
    ("path: a.csv", "path: a: b.csv", "the value of `path` has a colon followed by a space", "7:14",
     "put the value in quotes: `path: '…'`"),
    ("name: s\n", "name: @s\n", "a value cannot begin with `@`", "4:11", "put it in quotes"),
    ("path: a.csv", "path: *.csv", "a value cannot begin with `*`", "7:13", "put it in quotes"),
    ("path: a.csv", 'path: "a\\dir"', "`\\d` means nothing in double quotes", "7:15",
     "put the text in single quotes, or write the backslash twice"),
    ("    name: s\n", "    name:\u00a0s\n", "this is a no-break space, which YAML does not read as a space", "4:10",
     "write an ordinary space"),
    ("    name: s\n", "\tname: s\n", "a tab indents this line", "4:1", "YAML is indented by spaces only"),
    ("{ id: int }", "{ id: int", "`{` is never closed", "8:15", "write `}` after the last entry"),
    ("path: a.csv", "path: 'a.csv", "the quote ' is never closed", "7:13", "write ' after the text as well"),
    ("  - type: source\n    name: s", "    type: source\n    name: s",
     "an entry of a list stands where a key is expected", "9:3",
     "the entry above it has no `- ` of its own, or stands further left"),
    ("    config:\n      type", "    config\n      type", "this line has no key: a colon followed by a space", "5:5",
     "write `key: value`"),
    ("name: s\n", "name:s\n", "this line has no key: a colon followed by a space", "4:5",
     "write a space after the colon: `name: …`"),
    ("path: o.csv }", "path: o.csv } }", "`}` closes nothing", "12:40", "leave it out"),
    ("name: s\n", "name: | s\n", "nothing may follow `|` on its line", "4:13",
     "begin the text on the next line, indented, or leave the `|` out"),
    ("{ id: int }", "[ { name: id type: int } ]", "a comma or `}` is missing before this", "8:32",
     "separate entries by commas; a text with `{`, `}`, `[`, `]` or `,` in it stands in quotes"),
    ("path: a.csv", "path: {{ ds }}.csv", "a key must be a single value", "7:14",
     "a text with `{{` in it stands in quotes; `${NAME}` is an environment variable"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message", "place", "hint"), _CASES, ids=lambda case: case.strip())
def test_a_mistake_is_told_where_it_is(
    old: str,
    new: str,
    message: str,
    place: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert old in _GOOD
    (tmp_path / "p.yaml").write_text(_GOOD.replace(old, new, 1), encoding="utf-8")
    assert clinker.main(["validate", "--no-inputs", "p.yaml"]) == 1
    lines = capsys.readouterr().err.splitlines()
    said = [line.strip() for line in lines if line.startswith("error") or line.lstrip().startswith(("-->", "= "))]
    assert said == [f"error[E000]: {message}", f"--> p.yaml:{place}", f"= help: {hint}"]
    assert lines[-1] == "1 error"


def test_no_text_makes_it_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is cut out of a file, something is said in the end."""
    path = tmp_path / "p.yaml"
    for start in range(0, len(_GOOD), 3):
        for length in (1, 2, 7):
            path.write_text(_GOOD[:start] + _GOOD[start + length :], encoding="utf-8")
            assert clinker.main(["validate", "--no-inputs", str(path)]) in (0, 1)
            assert "E905" not in capsys.readouterr().err

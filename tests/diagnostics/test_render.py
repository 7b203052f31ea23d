"""Diagnostics shown: excerpts and carets, one line each, JSON, SARIF; and proposals for misspelt names."""

from __future__ import annotations

import io
import json

import pytest

from spark_jobs.diagnostics import codes, nearest, render
from spark_jobs.diagnostics.diagnostic import Diagnostic, Diagnostics, Label
from spark_jobs.diagnostics.source import SourceFile, Span


def diagnostic(text: str, word: str, message: str = "wrong", **others: object) -> Diagnostic:
    file = SourceFile("p.yaml", text)
    at = text.index(word)
    return codes.E007.at(Span(file, at, at + len(word)), message, **others)  # type: ignore[arg-type]


def test_the_full_form_points_at_the_place() -> None:
    item = diagnostic("pipeline:\n  nmae: x\n", "nmae", "unknown key", help="write `name`")
    assert render.full([item]) == (
        "error[E007]: unknown key\n --> p.yaml:2:3\n  |\n2 |   nmae: x\n  |   ^^^^\n  = help: write `name`\n\n1 error\n"
    )


def test_labels_show_the_second_place() -> None:
    file = SourceFile("p.yaml", "a: 1\nb: 2\na: 3\n")
    item = codes.E008.at(Span(file, 10, 11), "twice", labels=(Label(Span(file, 0, 1), "first here"),))
    shown = render.full([item])
    assert " ::: p.yaml:1:1\n" in shown
    assert "- first here\n" in shown


@pytest.mark.parametrize(("text", "width"), [("größe: 価格 wrong", 12), ("\t\twrong", 2), ("e\u0301 wrong", 2)])
def test_carets_stand_below_the_word_whatever_its_width(text: str, width: int) -> None:
    caret = render.full([diagnostic(text, "wrong")]).splitlines()[4]
    assert caret.removeprefix("  | ").index("^") == width
    assert caret.count("^") == 5


def test_long_lines_are_cut_around_the_place() -> None:
    shown = render.full([diagnostic("x" * 5000 + "wrong" + "y" * 5000, "wrong")])
    assert max(map(len, shown.splitlines())) < 200
    line, caret = shown.splitlines()[3:5]
    start = caret.index("^")
    assert line[start : start + 5] == "wrong"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in render.full([diagnostic("\x1b[31mwrong", "wrong", "message \x1b[0m")])


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert render.wants_colour(terminal)
    assert not render.wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not render.wants_colour(terminal)
    assert "\x1b[1;31m" in render.full([diagnostic("wrong", "wrong")], colour=True)


def test_the_concise_form_is_a_line_each() -> None:
    items = [diagnostic("a\nwrong", "wrong", "two\nlines"), codes.E000.at(None, "no such file")]
    assert render.concise(items) == "p.yaml:2:1 E007 two\\nlines\nE000 no such file\n"


def test_the_json_form_has_places_and_help() -> None:
    report = json.loads(render.as_json([diagnostic("a\nwrong", "wrong", help="h"), codes.W002.at(None, "w")]))
    assert report["schema_version"] == 1
    first, second = report["diagnostics"]
    assert (first["file"], first["line"], first["column"], first["end_column"]) == ("p.yaml", 2, 1, 6)
    assert (first["severity"], first["help"], second["severity"]) == ("error", "h", "warning")
    assert "line" not in second


def test_the_sarif_form_names_rules_once() -> None:
    items = [diagnostic("wrong", "wrong"), diagnostic("also wrong", "wrong", labels=())]
    log = json.loads(render.sarif(items))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E007"]
    region = run["results"][1]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 1, "startColumn": 6, "endLine": 1, "endColumn": 11}


def test_every_style_can_show_nothing() -> None:
    assert render.render([], render.Style.FULL) == ""
    assert render.render([], render.Style.CONCISE) == ""
    assert json.loads(render.render([], render.Style.JSON))["diagnostics"] == []
    assert json.loads(render.render([], render.Style.SARIF))["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memry", "memory"),
        ("nmae", "name"),
        ("Name", "name"),
        ("include_unmaped", "include_unmapped"),
        ("incl", "include_unmapped"),
        ("zebra", None),
        ("", None),
        ("x" * 500, None),
    ],
)
def test_the_nearest_name_is_proposed(name: str, expected: str | None) -> None:
    assert nearest.nearest(name, ["memory", "name", "include_unmapped", "nodes"]) == expected


def test_ids_belong_to_one_code_each_and_say_their_severity() -> None:
    declared = [value for value in vars(codes).values() if isinstance(value, codes.Code)]
    assert len({code.id for code in declared}) == len(declared)
    assert all((code.id.startswith("W")) == (code.severity == "warning") for code in declared)


def test_every_code_is_raised_somewhere() -> None:
    from pathlib import Path

    import spark_jobs

    root = Path(spark_jobs.__file__).parent
    text = "\n".join(p.read_text(encoding="utf-8") for p in root.rglob("*.py") if p.name != "codes.py")
    names = {name for name, value in vars(codes).items() if isinstance(value, codes.Code)}
    silent = {name for name in names if f"codes.{name}" not in text and f'"{getattr(codes, name).id}"' not in text}
    assert silent == set()


def test_each_problem_is_kept_once_without_looking_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    equals = Diagnostic.__eq__

    def counted(self: Diagnostic, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equals(self, other)

    monkeypatch.setattr(Diagnostic, "__eq__", counted)
    found = Diagnostics()
    for number in [*range(1000), 5]:
        found.add(Diagnostic(codes.E005, f"unknown key `k{number}`"))
    assert len(found) == 1000
    assert compared < 100

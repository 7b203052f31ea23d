"""Renders diagnostics: in full for people, one per line for logs and editors, as JSON and SARIF for tools."""

from __future__ import annotations

import json
import os
import unicodedata
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any

from spark_jobs.diagnostics.diagnostic import Severity
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import Span

#: Longer lines are cut around the place, so that a file without line ends does not flood the terminal.
_WIDTH = 160
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class Style(StrEnum):
    """The ways to show diagnostics."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"

    @property
    def is_document(self) -> bool:
        """True if programs read it: all diagnostics in one document, an empty one when there are none."""
        return self in (Style.JSON, Style.SARIF)


def wants_colour(stream: IO[str]) -> bool:
    """True if a stream is a terminal that shows colours; `NO_COLOR` (any value) says no."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def render(diagnostics: Iterable[Diagnostic], style: Style, *, colour: bool = False) -> str:
    """All diagnostics in a style; the empty text when there are none (JSON and SARIF give an empty report)."""
    match style:
        case Style.FULL:
            return full(diagnostics, colour=colour)
        case Style.CONCISE:
            return concise(diagnostics)
        case Style.JSON:
            return as_json(diagnostics)
        case Style.SARIF:
            return sarif(diagnostics)


class _Paint:
    """Terminal colours, or nothing."""

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


def full(diagnostics: Iterable[Diagnostic], *, colour: bool = False) -> str:
    """Each diagnostic with its excerpt and caret, help and further places; then a line that counts them."""
    paint = _Paint(on=colour)
    listed = list(diagnostics)
    if not listed:
        return ""
    errors = sum(item.is_error for item in listed)
    warnings = len(listed) - errors
    counts = [_counted(errors, "error")] if errors else []
    counts += [_counted(warnings, "warning")] if warnings else []
    return "\n".join([*(_one(item, paint) for item in listed), ", ".join(counts) + "\n"])


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _one(item: Diagnostic, paint: _Paint) -> str:
    tone = "1;31" if item.code.severity is Severity.ERROR else "1;33"
    head = paint(f"{item.code.severity}[{item.code.id}]", tone) + paint(f": {printable(item.message)}", "1")
    lines = [head]
    if item.span:
        same_line = " ".join(label.text for label in item.labels if label.span == item.span)
        lines += _excerpt(item.span, "^", paint, tone, "-->", same_line)
    for label in item.labels:
        if label.span == item.span:
            continue
        lines += _excerpt(label.span, "-", paint, "1;34", ":::", label.text)
    if item.help:
        lines.append(f"  {paint('=', '1;34')} {paint('help', '1')}: {printable(item.help)}")
    return "\n".join(lines) + "\n"


def _excerpt(span: Span, mark: str, paint: _Paint, tone: str, arrow: str, text: str = "") -> list[str]:
    number = str(span.line)
    gutter = " " * len(number)
    line = span.file.line(span.line)
    start = span.column - 1
    length = max(1, min(span.end - span.start, len(line) - start))
    line, start = _cut(line, start)
    length = max(1, min(length, len(line) - start))
    pad = "".join("\t" if character == "\t" else " " * _cells(character) for character in line[:start])
    marks = mark * max(1, sum(map(_cells, line[start : start + length])))
    bar = paint("|", "1;34")
    pointed = paint(marks + (f" {printable(text)}" if text else ""), tone)
    return [
        f"{gutter}{paint(arrow, '1;34')} {printable(str(span))}",
        f"{gutter} {bar}",
        f"{paint(number, '1;34')} {bar} {_unmoved(line)}",
        f"{gutter} {bar} {pad}{pointed}",
    ]


def _cut(line: str, start: int) -> tuple[str, int]:
    if len(line) <= _WIDTH:
        return line, start
    begin = max(0, min(start - _WIDTH // 3, len(line) - _WIDTH))
    piece = line[begin : begin + _WIDTH]
    if begin:
        piece = "…" + piece[1:]
    return piece, start - begin


def _unmoved(line: str) -> str:
    """The line with a sign for each character that would not show: what follows it keeps its place."""
    return "".join(c if c == "\t" or printable(c) == c else "�" for c in line)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def concise(diagnostics: Iterable[Diagnostic]) -> str:
    """Render one line per diagnostic: `path:line:col CODE message`."""
    return "".join(printable(str(item)) + "\n" for item in diagnostics)


def as_json(diagnostics: Iterable[Diagnostic]) -> str:
    """A JSON object with `schema_version` and the list of diagnostics; lines and columns count from 1."""
    report = {"schema_version": 1, "diagnostics": [record(item) for item in diagnostics]}
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"


def record(item: Diagnostic) -> dict[str, Any]:
    """A diagnostic as programs read it."""
    found: dict[str, Any] = {
        "code": item.code.id,
        "severity": str(item.code.severity),
        "title": item.code.title,
        "message": item.message,
    }
    if item.span:
        found |= _place(item.span)
    if item.help:
        found["help"] = item.help
    if item.labels:
        found["related"] = [{**_place(label.span), "message": label.text} for label in item.labels]
    return found


def _place(span: Span) -> dict[str, Any]:
    line, column = span.file.position(span.start)
    end_line, end_column = span.file.position(span.end)
    return {"file": span.file.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """A SARIF 2.1.0 log, for code scanning."""
    listed = list(diagnostics)
    rules = {item.code.id: item.code for item in listed}
    run = {
        "tool": {
            "driver": {
                "name": "clinker",
                "rules": [{"id": code.id, "shortDescription": {"text": code.title}} for code in rules.values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(item, list(rules)) for item in listed],
    }
    return (
        json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2) + "\n"
    )


def _result(item: Diagnostic, rules: list[str]) -> dict[str, Any]:
    text = item.message + (f" ({item.help})" if item.help else "")
    result: dict[str, Any] = {
        "ruleId": item.code.id,
        "ruleIndex": rules.index(item.code.id),
        "level": str(item.code.severity),
        "message": {"text": text},
    }
    if item.span:
        result["locations"] = [_location(item.span)]
    if item.labels:
        result["relatedLocations"] = [{**_location(one.span), "message": {"text": one.text}} for one in item.labels]
    return result


def _location(span: Span) -> dict[str, Any]:
    place = _place(span)
    region = {
        "startLine": place["line"],
        "startColumn": place["column"],
        "endLine": place["end_line"],
        "endColumn": place["end_column"],
    }
    return {"physicalLocation": {"artifactLocation": {"uri": span.file.name}, "region": region}}

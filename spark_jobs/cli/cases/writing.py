"""Writes cases as YAML, when cases are updated or recorded."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import values
from spark_jobs.plan.reading import reader, scalars, yaml_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.cli.cases.reading import Case
    from spark_jobs.cli.cases.running import Ran

    Row = Mapping[str, Any]

#: Text that needs no quotes in YAML, even within braces.
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_ .$@/-]*(?<! )")

#: Characters that a file of YAML cannot have, and line ends that it would fold.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

#: An alias that stands for the value of a key.
_ALIAS = re.compile(r"""["']?\s*:\s+(\*[^\s,\[\]{}]+)""")


def flow(value: Any) -> str:
    """A value on one line.

    >>> flow({"id": 1, "name": "yes, no", "at": "2026-03-02", "tags": ["a", None]})
    '{id: 1, name: "yes, no", at: "2026-03-02", tags: [a, null]}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(str(key))}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, Decimal):
        return values.decimal_text(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A text as a value, in which every `$` is doubled where one could begin a variable."""
    return _key(text.replace("$", "$$") if "$$" in text or "${" in text else text)


def _key(text: str) -> str:
    """A text as a key, in which `$` means nothing."""
    if _PLAIN.fullmatch(text) and scalars.resolve(text) == text:
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def rows(found: Sequence[Row], indent: int) -> str:
    """A list of rows as YAML, one row per line, indented like its first line."""
    if not found:
        return "[]"
    return f"\n{' ' * indent}".join(f"- {flow(dict(row))}" for row in found)


def updated(text: str, cases: Sequence[tuple[Case, Ran]]) -> str:
    """The text of a file of cases with the actual results in place of the expected ones."""
    edits: list[tuple[int, int, str]] = []
    for case, ran in cases:
        if ran.error is not None or not ran.is_planned:
            continue
        for name, expected in case.config.expect.items():
            if name in ran.rows:
                keep = list(expected.rows[0]) if expected.partial and expected.rows else None
                came = [dict(row) if keep is None else {key: row.get(key) for key in keep} for row in ran.rows[name]]
                path = ("expect", name, "rows") if case.node("expect", name, "rows") is not None else ("expect", name)
                edits += _edit(case, path, [_without_nulls(row) for row in came])
        edits += _letters(case, ran)
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _without_nulls(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _letters(case: Case, ran: Ran) -> list[tuple[int, int, str]]:
    found = [letter(entry) for entry in ran.dead]
    if case.node("dead_letters") is not None:
        return [*_edit(case, ("dead_letters",), found)]
    if not found:
        return []
    # The dead letters go to the end of the case, below its other keys.
    _, key, _ = reader.locate(case.tree, ("name",))
    indent = key.column - 1
    if _is_flow(case, ()):
        brace = case.file.text.rindex("}", 0, case.tree.span.end)
        end = _end(case.file.text, brace)
        comma = "" if case.file.text[:end].endswith(",") else ","
        return [(end, end, f"{comma} dead_letters: {flow(found)}")]
    end = _end(case.file.text, case.tree.span.end)
    shown = rows(found, indent + 2)
    return [(end, end, f"\n{' ' * indent}dead_letters:\n{' ' * (indent + 2)}{shown}")]


def letter(entry: Any) -> Row:
    """A dead letter as cases describe it."""
    known = {
        "source": entry.source,
        "row": entry.row and int(entry.row),
        "field": entry.field,
        "category": entry.category,
    }
    return {name: value for name, value in known.items() if value}


def _edit(case: Case, path: tuple[str, ...], found: Sequence[Row]) -> Iterator[tuple[int, int, str]]:
    """The edits that replace the rows under some keys; none if these keys belong to an alias."""
    node, key, _ = reader.locate(case.tree, path)
    text = case.file.text
    if not all(_is_here(case, path[:depth]) for depth in range(1, len(path))) or not case.tree.span.start <= key.start:
        return
    start, end = node.span.start, _end(text, node.span.end)
    if not _is_here(case, path):
        alias = _ALIAS.match(text, key.end)
        if alias is None:
            return
        start, end = alias.span(1)
        yield start, end, flow([dict(row) for row in found])
        return
    if any(_is_flow(case, path[:depth]) for depth in range(len(path))):
        yield start, end, flow([dict(row) for row in found])
        return
    is_block = isinstance(node, yaml_tree.Sequence) and text[start : start + 1] == "-"
    if is_block and found:
        yield start, end, rows(found, node.span.column - 1)
        return
    colon = text.index(":", key.end)
    indent = key.column + 1
    yield colon + 1, end, f"\n{' ' * indent}{rows(found, indent)}" if found else " []"


def _is_here(case: Case, path: tuple[str, ...]) -> bool:
    """Whether the value at a path of keys is written in this place, and is no alias of a value elsewhere."""
    node, key, depth = reader.locate(case.tree, path)
    parent, _, _ = reader.locate(case.tree, path[:-1])
    return depth == len(path) and parent.span.start <= key.start <= node.span.start <= node.span.end <= parent.span.end


def _is_flow(case: Case, path: tuple[str, ...]) -> bool:
    """Whether what stands under some keys is in braces or brackets, where nothing is written on lines of its own."""
    node = case.node(*path) if path else case.tree
    return node is not None and case.file.text[node.span.start : node.span.start + 1] in ("{", "[")


def _end(text: str, end: int) -> int:
    """The end of a node's text, without blanks and comments that belong to the next node."""
    while True:
        end = len(text[:end].rstrip())
        start = text.rfind("\n", 0, end) + 1
        if not text[start:end].lstrip().startswith("#"):
            return end
        end = start


def case(name: str, given: Mapping[str, Sequence[Row]], ran: Ran, outputs: Sequence[str]) -> str:
    """A case as an item of a list of cases."""
    lines = [f"  - name: {_text(name)}", "    given:"]
    lines += [f"      {_key(source)}:{_block(found)}" for source, found in given.items()]
    lines.append("    expect:")
    lines += [
        f"      {_key(output)}:{_block([_without_nulls(row) for row in ran.rows.get(output, [])])}"
        for output in outputs
    ]
    if ran.dead:
        lines.append(f"    dead_letters:{_block([letter(entry) for entry in ran.dead], 6)}")
    if ran.error is not None:
        lines.append(f"    error: {_text(ran.error.code)}")
    return "\n".join(lines) + "\n"


def _block(found: Sequence[Row], indent: int = 8) -> str:
    return f"\n{' ' * indent}{rows(found, indent)}" if found else " []"

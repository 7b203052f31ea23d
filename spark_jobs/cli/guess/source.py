"""Writes a guess: the YAML of the source, and the notes for a person."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cli.guess.values import Column

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan"))


@dataclass
class Guess:
    """A source that reads some files.

    Args:
        name: the name of the source's node.
        paths: the files, as the source names them.
        type: their format.
        options: the entries of `options:`.
        columns: their columns.
        layout: the fields of a fixed-width file under `format_schema:`.
        about: the inspected input, in a few words.
        remarks: remarks for the user, the most important first.
        doubts: questions that the user has to decide.
    """

    name: str
    paths: list[str]
    type: str
    options: dict[str, Any] = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list)
    layout: list[dict[str, Any]] = field(default_factory=list)
    about: str = ""
    remarks: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def node(guess: Guess, indent: str = "") -> str:
    """The source as an entry of `nodes:`."""
    lines = ["- type: source", f"  name: {scalar(guess.name)}", "  config:", f"    type: {guess.type}"]
    if len(guess.paths) == 1:
        lines.append(f"    path: {scalar(guess.paths[0])}")
    else:
        lines.append("    paths:")
        lines += [f"      - {scalar(path)}" for path in guess.paths]
    if guess.options:
        lines.append("    options:")
        lines += [f"      {key}: {value(given)}" for key, given in guess.options.items()]
    if guess.layout:
        lines += ["    format_schema:", "      fields:"]
        lines += [f"        - {mapping(entry)}" for entry in guess.layout]
    lines.append("    schema:")
    lines += [f"      - {line}" for line in _columns(guess.columns)]
    return "".join(f"{indent}{line}\n" for line in lines)


def _columns(columns: list[Column]) -> Iterator[str]:
    entries = [mapping({"name": column.name, "type": column.type, **column.keys}) for column in columns]
    width = min(max((len(entry) for entry in entries), default=0), 80)
    for column, entry in zip(columns, entries, strict=True):
        said = ["each value once"] * column.is_unique
        said += [remark.text for remark in column.remarks]
        yield f"{entry.ljust(width)}  # {printable('; '.join(said))}" if said else entry


def mapping(entry: dict[str, Any]) -> str:
    """A mapping on one line."""
    return "{ " + ", ".join(f"{key}: {value(given)}" for key, given in entry.items()) + " }"


def value(given: Any) -> str:
    """A value on one line."""
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int):
        return str(given)
    if isinstance(given, (list, tuple)):
        return "[" + ", ".join(scalar(one) for one in given) + "]"
    return scalar(given)


def scalar(text: str) -> str:
    """A text as YAML, in quotes where it needs them."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    is_path = re.fullmatch(r"[A-Za-z_./][\w./-]*", text) and not text.endswith(".") and text.strip(".")
    if is_path and text.lower() not in _WORDS and text.isascii():
        return text
    if text.isprintable() and "\\" not in text:
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    known = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    if letter in known:
        return known[letter]
    if letter.isprintable():
        return letter
    return f"\\U{ord(letter):08X}" if ord(letter) > 0xFFFF else f"\\u{ord(letter):04X}"

"""Texts that mean something to a terminal, a log, a shell, a path or a template, wherever a text can stand.

A pipeline with such a text in a name, a path, a program or its data ends in a diagnostic or in a run. What it tells has
no control characters, begins no line with the sentinel of a result, and no file appears outside its folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import unicodedata
from typing import TYPE_CHECKING

import pytest

from spark_jobs import contract
from spark_jobs.cli import clinker
from tests.attack import rounds
from tests.execute import without_spark

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

_LIMIT_S = 10.0
_TEXTS = [
    "\x1b[31mred", "\x1b]0;title\x07", "\nCLINKER_RESULT {}", "a\rb", "\x00", "\x7f", "\x9b31m", "\u2028line",
    "\u202eabc", "𝕏", "$vars.x", "&a",
    "{}", "{{ x }}", "%s%n", "${HOME}", "$(id)", "`id`", "; rm x", "| cat", "--force", "-", "~", "../up", "/abs", "..",
    "a/../../b", "C:\\x", "nul", "=cmd|' /C calc'!A0", "<script>", "'", '"', "\\", "\\u0000", "é" * 300, "x" * 5000,
    "{source_file}", "{execution_id:../:}", "[a]", "*", "?", "\ufeff", "\ud7ff", "$source", "emit", "#", ": {",
]  # fmt: skip
_PLACES = ("pipeline", "node", "column", "path", "cxl", "message", "description", "data", "input", "delimiter", "dlq")


def pipeline(place: str, text: str, data: str) -> str:
    """A pipeline as JSON, which is YAML, with a text in one place."""

    def at(name: str, usual: str) -> str:
        return text if place == name else usual

    columns = [{"name": "id", "type": "int"}, *({"name": n, "type": "string"} for n in ("pad", at("column", "more")))]
    source = {"type": "csv", "path": data, "schema": columns}
    if place == "delimiter":
        source["options"] = {"delimiter": text}
    known = {
        "pipeline": {"name": at("pipeline", "p"), "description": at("description", "none")},
        "error_handling": {"strategy": "continue", "dlq": {"path": at("dlq", "out/dead.csv")}},
        "nodes": [
            {"type": "source", "name": at("node", "s"), "config": source},
            {
                "type": "transform",
                "name": "t",
                "input": at("node", "s"),
                "config": {
                    "cxl": at("cxl", "trace warn pad\nemit n = pad.to_int()"),
                    "log": [{"level": "warn", "when": "per_record", "message": at("message", "row {id}")}],
                },
            },
            {"type": "output", "name": "o", "input": "t", "config": {"type": "csv", "path": at("path", "out/o.csv")}},
        ],
    }
    return json.dumps(known)


def one(chance: random.Random, folder: Path) -> str:
    """A text in a place, validated, explained and run."""
    place, text = chance.choice(_PLACES), "".join(chance.choices(_TEXTS, k=chance.randint(1, 3)))
    base = folder / "base"
    base.mkdir()
    name = "in.csv"
    if place == "input" and "/" not in text and "\0" not in text and len(text.encode("utf-8", "replace")) < 200:
        name = f"{text}.csv"
    cell = text if place in ("data", "input") else "1"
    escaped = cell.replace('"', '""')
    with contextlib.suppress(OSError, UnicodeEncodeError):
        (base / name).write_text(f'id,pad,more\n1,"{escaped}",x\n', encoding="utf-8", newline="")
    (base / "p.yaml").write_text(pipeline(place, text, name if chance.random() < 0.7 else "*.csv"), encoding="utf-8")
    before = _outside(folder)
    codes, began = [], time.process_time()
    for command in (["validate"], ["run", "--explain"], ["run", "--force", "--log-level", "debug"]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            codes.append(clinker.main([command[0], str(base / "p.yaml"), *command[1:]]))
        _check(out.getvalue(), f"{place} {text!r} {command}")
        _check(err.getvalue(), f"{place} {text!r} {command}")
    took = time.process_time() - began
    assert took < _LIMIT_S, f"{took:.1f} s: {place} {text!r}"
    assert _outside(folder) == before, f"files outside: {place} {text!r}"
    assert set(codes) <= {0, 1, 2, 3, 4}, codes
    return f"exit {codes[-1]}"


def _check(told: str, where: str) -> None:
    assert "Traceback" not in told, f"{where}: {told}"
    assert "E905" not in told, f"{where}: {told}"
    for line in told.splitlines():
        assert not line.startswith(contract.RESULT_SENTINEL), f"{where}: {line!r}"
    found = {each for each in told if unicodedata.category(each) in ("Cc", "Zl", "Zp") and each not in "\n\t"}
    assert not found, f"{where}: {found} in {told!r}"


def _outside(folder: Path) -> set[str]:
    """The files beside the pipeline's folder."""
    base = str(folder / "base")
    return {os.path.join(at, each) for at, _, names in os.walk(folder) for each in names if not at.startswith(base)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        return rounds.play("hostile_texts", "texts that mean something to somebody", 300, one, arguments)


if __name__ == "__main__":
    sys.exit(main())

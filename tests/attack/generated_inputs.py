"""Random sources and their files, with all that goes wrong in files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

SCHEMA = {"id": "int", "k": "string", "v": "string", "n": "int", "f": "float", "ts": "date_time"}
_UNDECLARED = ["x1", "x2", "y y", "z"]
_CELLS = {
    "k": ["x", "y", "z", "", "é"],
    "v": ["1", "2", "q", "", "a b", "3 4 5", "line\nend", "c,d"],
    "n": ["1", "2", "-3", "", "0", "9223372036854775807", "7", "7"],
    "f": ["0.1", "1e16", "-1e16", "", "3", "2.5"],
    "ts": ["2024-01-01T00:00:05", "2024-03-09", "", "2024-01-01T00:00:07"],
}
_ODD_CELLS = ["bad", "1.5", "", "2024-13-01", "é", 'q"q', "a\nb", "a,b"]
#: A text in this place is a number that Python cannot write.
_RAW = re.compile(r'"#([-+0-9eE.]+)"')
_ODD_VALUES: list[Any] = [
    "#1e999",
    "#-1E400",
    10**20,
    -(2**63) - 1,
    ["#1e-400", 2**64],
    "bad",
    1.5,
    [1, {"a": None}],
    {"b": 1},
    None,
    True,
    2**63,
    "",
]


def source(chance: random.Random, name: str, widen: str, files: dict[str, bytes]) -> dict[str, Any]:
    """A source node; its files are put into `files`."""
    kind = chance.choice(["csv", "csv", "csv", "ndjson", "ndjson", "array"])
    config: dict[str, Any] = {"type": "csv" if kind == "csv" else "json", "schema": dict(SCHEMA)}
    if kind != "csv":
        config["options"] = {"format": kind}
    elif chance.random() < 0.4:
        config["options"] = {
            "ragged": chance.choice(["error", "pad", "cut", "both"]), "quotes": chance.choice(["lenient", "strict"]),
        }  # fmt: skip
    if widen != "default":
        config["on_unmapped"] = widen
    many = chance.choice([1, 1, 2, 4])
    end = config["type"]
    for i in range(many):
        rows = chance.choice([0, 1, 3, 8, 20, 35]) if many > 1 else chance.choice([5, 20, 40])
        data = _csv(chance, rows) if kind == "csv" else _json(chance, rows, kind)
        files[f"{name}/f{i}.{end}"] = b"" if chance.random() < 0.03 else data
    config |= {"path": f"{name}/f0.{end}"} if many == 1 else {"glob": f"{name}/*.{end}"}
    if chance.random() < 0.6:
        config["watermark"] = {"column": "ts", "delay": "3s"}
    return {"type": "source", "name": name, "config": config}


def _cell(chance: random.Random, name: str) -> str:
    if chance.random() < 0.03:
        return chance.choice(_ODD_CELLS)
    return str(chance.randint(0, 9)) if name == "id" else chance.choice(_CELLS.get(name, ["u", "", "5", "w w"]))


def _csv(chance: random.Random, rows: int) -> bytes:
    names = [*SCHEMA, *(chance.sample(_UNDECLARED, chance.randint(1, 3)) if chance.random() < 0.7 else [])]
    if chance.random() < 0.3:
        chance.shuffle(names)
    if chance.random() < 0.08:
        names.remove(chance.choice(["f", "ts", "n"]))
    end = chance.choice(["\n", "\n", "\r\n"])
    lines = [",".join(names)]
    for _ in range(rows):
        cells = [_quoted(_cell(chance, name)) for name in names]
        draw = chance.random()
        if draw < 0.03:
            cells.pop()
        elif draw < 0.05:
            cells.append("more")
        lines.append(",".join(cells))
    text = end.join(lines) + chance.choice(["", end])
    return (b"\xef\xbb\xbf" if chance.random() < 0.1 else b"") + text.encode()


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def _json(chance: random.Random, rows: int, layout: str) -> bytes:
    lines = []
    some = chance.sample(_UNDECLARED, chance.randint(0, 3))
    for _ in range(rows):
        if chance.random() < 0.04:
            broken = ["{", '{"id": 1,', '{"id":1,"id":2}', "nul"] if layout == "ndjson" else []
            lines.append(chance.choice([*broken, "5", "[1]"]))
            continue
        names = [name for name in SCHEMA if chance.random() < 0.93] + [name for name in some if chance.random() < 0.5]
        if chance.random() < 0.1:
            chance.shuffle(names)
        text = json.dumps({name: _value(chance, name) for name in names}, ensure_ascii=chance.random() < 0.5)
        lines.append(_RAW.sub(r"\1", text))
    if layout == "ndjson":
        return (chance.choice(["\n", "\r\n"]).join(lines) + chance.choice(["", "\n", "\n\n"])).encode()
    return ("[" + chance.choice([",", ",\n", " , "]).join(lines) + "]").encode()


def _value(chance: random.Random, name: str) -> Any:
    if chance.random() < 0.03:
        return chance.choice(_ODD_VALUES)
    text = _cell(chance, name)
    if name in ("id", "n", "f") and text:
        try:
            return json.loads(text)
        except ValueError:
            return text
    if name in _UNDECLARED:
        leaf = chance.choice([1, "t", None])
        return chance.choice([text, 5, None, [1, 2], {"b": {"c": leaf}}, 1.25, True, 10**20, "#1e999"])
    return text if text or chance.random() < 0.5 else None

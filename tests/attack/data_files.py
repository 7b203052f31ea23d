"""Generated data files: read whole or in splits they have the same records and failures, each record once, and soon."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types
from spark_jobs.formats.csv.options import CsvRead, Duplicates, Quoting, Ragged
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import Tuning
from tests.attack import rounds, typed_files, wide_values, xml_files
from tests.formats.csv.files import Result, read_csv
from tests.formats.json.test_reading_json import read_json

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

_LIMIT_S = 10.0
#: The size of a split that has a whole file.
_WHOLE = 1 << 30
_DECLARED = {"a": types.STRING, "i": types.INT, "f": types.FLOAT, "b": types.BOOL, "d": types.DATE, "x": types.ANY}
_TEXTS = ["", "a", "é", "\ufeff", '"', '""', ",", "\n", "\r\n", "\r", " ", '","', '"\n', "😀", "\x00", "\x1a", "null"]
_CELLS = ["1", "-0", "007", "1.5", "1e400", str(2**63), str(10**30), "true", "on", "2024-02-30", "2024-02-29", "x", ""]
_JSON = [
    None, True, False, 0, -0.0, 1, 1.0, 1.5, 2**63, 10**30, "", "1", "é", "\u2028", "😀", [], [1, [2]], {},
    {"k": {"k": 1}},
]  # fmt: skip
#: Numbers that nothing but their text holds, and those beside them.
_NUMBERS = [
    "9223372036854775808", "-9223372036854775809", "12345678901234567890", "1e999", "-1E400", "1e-400", "1e308",
    "9223372036854775807", "-0", "0.0", "-0.0e9", "[1e999,2]", '{"k":18446744073709551615}',
]  # fmt: skip
_BEFORE = ["sep=;\n", '"\n', "\n", "x,y\r\n"]
_JUNK = ["]", "[]", '[{"i":1}]', "{}", "x", "\x00", ",", "\ufeff", "1"]
_BROKEN = [
    "{",
    "}",
    "[1",
    "nul",
    '"\\ud800"',
    "{}{}",
    "\x00",
    "[" * 600,
    '{"a":1,"a":2}',
    "1e",
    "-",
    "NaN",
    '{"a"',
    " ",
]
_OTHERS: dict[str, Callable[[random.Random], tuple[bytes, typed_files.Read]]] = {
    "fixed width": typed_files.fixed_width,
    "parquet": typed_files.columns,
}
_ENCODINGS = ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16-le", "utf-16-be", "utf-32-le", "shift_jis"]


def one(chance: random.Random, folder: Path) -> str:
    """A file, read whole and in splits."""
    kinds = ["csv", "csv of cells", "csv in an encoding", "csv without header", "ndjson", "array", "array and more"]
    kind = chance.choice([*kinds, *_OTHERS, "compressed", "wide values", "xml"])
    if kind == "wide values":
        return f"{kind} {wide_values.hold(chance, folder)}"
    if kind == "xml":
        return f"{kind} {xml_files.one(chance, folder)}"
    if kind == "compressed":
        return f"{kind} {_compressed(chance, folder)}"
    data, read = _OTHERS[kind](chance) if kind in _OTHERS else _file(kind, chance)
    began = time.process_time()
    whole = _read(lambda: read(folder / "whole", data, _WHOLE))
    assert kind != "array and more" or whole[0] == "refused", f"{data!r}: {whole}"
    for size in {chance.randint(1, 30), chance.randint(30, 200), len(data) // 2 + 1}:
        found = _read(lambda size=size: read(folder / "cut", data, size))  # type: ignore[misc]
        assert found == whole, f"{data!r} in splits of {size}: {found} instead of {whole}"
    took = time.process_time() - began
    assert took < _LIMIT_S, f"{took:.1f} s for {data[:200]!r}"
    return f"{kind} {whole[0]}"


def _compressed(chance: random.Random, folder: Path) -> str:
    """A file in members: it has the records that it had before, or is refused."""
    text, _ = _file("csv of cells", chance)
    data, read, plainly = typed_files.compressed(chance, text)
    found = _read(lambda: read(folder / "whole", data, _WHOLE))
    if found[0] == "refused" and " file: " in found[1]:
        return "broken"
    expected = _read(lambda: plainly(folder / "whole", text, _WHOLE))
    assert found == expected, f"{data!r}: {found} instead of {expected}"
    return found[0]


def _file(kind: str, chance: random.Random) -> tuple[bytes, Callable[[Path, bytes, int], Result]]:
    """The bytes, and what reads them in splits of some size."""
    if kind.startswith("csv"):
        skipped = chance.choice([0, 0, 1, 3])
        text = "".join(chance.choice(_BEFORE) for _ in range(skipped))
        if kind == "csv":
            text += "a,i\n" + "".join(chance.choice([*_TEXTS, ",", "\n"]) for _ in range(chance.randint(0, 60)))
        elif kind == "csv without header":
            widths = [chance.choice([1, 6, 6, 6, 7, 8]) for _ in range(chance.randint(0, 15))]
            text += "\n".join(",".join(_cell(chance) for _ in range(width)) for width in widths)
        else:
            rows = [[_cell(chance) for _ in _DECLARED] for _ in range(chance.randint(0, 15))]
            end = chance.choice(["\n", "\r\n"])
            for row in rows:
                if chance.random() < 0.1:
                    row[:] = [*row, *[_cell(chance)] * chance.randint(1, 3)][: chance.randint(1, 9)]
            text += end.join(",".join(row) for row in [list(_DECLARED), *rows]) + chance.choice(["", end])
        encoding = chance.choice(_ENCODINGS) if "encoding" in kind else "utf-8"
        options = CsvRead(
            encoding=encoding,
            has_header=kind != "csv without header",
            skip_rows=skipped,
            ragged=chance.choice([Ragged.ERROR, *Ragged]),
            quotes=chance.choice(list(Quoting)),
            duplicate_columns=chance.choice(list(Duplicates)),
        )
        return text.encode(encoding, "replace"), lambda path, data, size: read_csv(
            path, data, _DECLARED, options=options, split_bytes=size, failure_texts=True
        )
    lines = [_line(chance) for _ in range(chance.randint(0, 20))]
    if chance.random() < 0.4:
        lines = _alike(chance)
    if kind == "ndjson":
        data = chance.choice(["\n", "\r\n", "\n\n"]).join(lines).encode("utf-8", "surrogatepass")
        return data, lambda path, data, size: read_json(
            path, data, _DECLARED, split_bytes=size, failure_texts=True, tuning=_tuning(size)
        )
    layout = JsonRead(format=JsonLayout.ARRAY)
    if kind == "array and more":
        lines = _alike(chance)
    space = chance.choice(["", "\n", " \t" * 50])
    text = f"{space}[{chance.choice([',', ', ', ',' + space]).join(lines)}]{space}"
    text += chance.choice(_JUNK) + space if kind == "array and more" else ""
    data = text.encode("utf-8", "surrogatepass")
    return data, lambda path, data, size: read_json(
        path, data, _DECLARED, options=layout, split_bytes=size, failure_texts=True, tuning=_tuning(size)
    )


def _tuning(size: int) -> Tuning:
    """In splits, any number of objects is read as arrays of bytes."""
    return Tuning() if size == _WHOLE else Tuning(json_uniform_objects=0)


def _cell(chance: random.Random) -> str:
    cell = chance.choice(_CELLS) if chance.random() < 0.8 else chance.choice(_TEXTS)
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\r\n') or chance.random() < 0.1 else cell


def _line(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return chance.choice(_BROKEN)
    record = {name: chance.choice(_JSON) for name in [*_DECLARED, "u", "o"] if chance.random() < 0.8}
    return _with_number(chance, json.dumps(record, ensure_ascii=chance.random() < 0.5))


def _with_number(chance: random.Random, line: str) -> str:
    """An object with a number put in that Python cannot write, under an undeclared name or a declared one."""
    if chance.random() < 0.7:
        return line
    name = chance.choice(["u", "u", "n", *_DECLARED])
    body = line[1:-1].strip()
    return f'{{"{name}":{chance.choice(_NUMBERS)}{", " * bool(body)}{body}}}'


def _alike(chance: random.Random) -> list[str]:
    """Objects with the same members, of which few values are of another kind."""
    names = chance.sample([*_DECLARED, "other"], chance.randint(1, len(_DECLARED) + 1))
    kinds: list[tuple[Any, ...]] = [
        chance.choice([(1, 2, -7), (0.5, 1e300, 2.0), ("", "a", "é", "2024-02-29"), (True, False)]) for _ in names
    ]
    records: list[dict[str, Any]] = [
        {name: chance.choice(kind) for name, kind in zip(names, kinds, strict=True)}
        for _ in range(chance.randint(2, 20))
    ]
    if chance.random() < 0.4:
        chance.choice(records)[chance.choice(names)] = chance.choice(_JSON)
    spaces = chance.choice([(",", ":"), (", ", ": ")])
    lines = [json.dumps(record, ensure_ascii=False, separators=spaces) for record in records]
    return [_with_number(chance, line) for line in lines] if chance.random() < 0.3 else lines


def _read(read: Callable[[], Result]) -> tuple[str, str]:
    """All records and failures with their rows, or the words where the file is refused."""
    try:
        found = read()
    except FormatError as refused:
        return "refused", str(refused).replace("whole", "cut")
    assert len(found.records) + len(found.failures) == found.count
    return "read", repr((found.records, found.rows, found.failures, found.failed_rows, found.count))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("data_files", "data files, whole against splits", 2000, one, arguments)


if __name__ == "__main__":
    sys.exit(main())

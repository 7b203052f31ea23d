"""Generated interchanges as partners send them, and written again: nothing is lost.

Tidy interchanges are made untidy: indented, wrapped, with acknowledgments, in several delimiters and encodings, with
trailers that do not fit. Whatever the portions, the records are those of the tidy file; written again, in any parts,
they are the same. What a format cannot hold is refused by name.
"""

from __future__ import annotations

import io
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.formats import format
from spark_jobs.formats.edi.settings import Trailers
from tests.attack import rounds
from tests.formats import interchange_files
from tests.formats.edi import written

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

_MOST = 5
_PIECES = [
    "a",
    "B",
    "7",
    " ",
    "é",
    "日",
    "\u00a0",
    ":",
    "^",
    "?",
    "+",
    "'",
    "*",
    "~",
    "\n",
    "\r\n",
    "\t",
    ".",
    "ISA",
    "UNT",
]
_BLOCKS = [1, 7, 50, 300, 1 << 20]


@dataclass
class File:
    """A file, by what it has.

    Args:
        name: its format.
        signs: separator, release character and terminator.
        segments: all segments, those of the envelope too.
        records: its records.
        pieces: what their texts are made of.
    """

    name: str
    signs: tuple[str, str, str]
    segments: list[list[str]]
    records: list[list[str | None]]
    pieces: Sequence[str] = tuple(_PIECES)

    def spelled(self, segment: Sequence[str]) -> str:
        """A segment with its terminator."""
        separator, release, terminator = self.signs
        texts = list(segment)
        if release:
            texts = ["".join(release + c if c in self.signs else c for c in text) for text in texts]
            if texts[-1].endswith(("\n", "\r")) and terminator not in "\r\n":
                texts[-1] = f"{texts[-1][:-1]}{release}{texts[-1][-1]}"
        return separator.join(texts) + terminator


def _file(chance: random.Random, name: str, *, is_wrapped: bool) -> File:
    is_x12 = name == "x12"
    separator, terminator = chance.choice(["*~", "|!", "^\x1e", "*\n"]) if is_x12 else chance.choice(["+'", "#~"])
    file = File(name, (separator, "" if is_x12 else "?", "~" if is_wrapped and is_x12 else terminator), [], [])
    file.pieces = [piece for piece in _PIECES if not (is_wrapped and set(piece) & set("\r\n"))]
    for number in range(chance.choice([1, 1, 2, 3])):
        control = f"{number:09}"
        groups = chance.choice([1, 1, 2]) if is_x12 else 1
        opened = _header(file, control)
        for group in range(groups):
            if is_x12:
                file.segments.append(["GS", "PO", "A", "B", "1", "1", str(group), "X", "V"])
            count = chance.randint(0, 3)
            for at in range(count):
                _message(chance, file, f"{at:04}")
            if is_x12:
                file.segments.append(["GE", str(count), str(group)])
        end = ["IEA", str(groups), control] if is_x12 else ["UNZ", str(_messages(file, opened)), control]
        file.segments.append(end)
    return file


def _header(file: File, control: str) -> int:
    if file.name == "x12":
        blank = " " * 10
        file.segments.append(
            ["ISA", "00", blank, "00", blank, "ZZ", "A".ljust(15), "ZZ", "B".ljust(15), "240501", "0900", "U", "00501",
             control, "0", "P", ">"]
        )  # fmt: skip
    else:
        file.segments.append(["UNB", "UNOC:3", "A", "B", "240501:0900", control])
    return len(file.segments)


def _messages(file: File, since: int) -> int:
    return sum(segment[0] == "UNH" for segment in file.segments[since:])


def _message(chance: random.Random, file: File, reference: str) -> None:
    is_x12, kind = file.name == "x12", chance.choice(["850", "837"])
    rest = [_text(chance, file) for _ in range(chance.choice([0, 0, 1, 2]))]
    body = [["ST", kind, reference, *rest] if is_x12 else ["UNH", reference, kind, *rest]]
    tags = ["HL", "N1", "REF", "2AB"] if is_x12 else ["BGM", "NAD", "FTX"]
    body += [
        [chance.choice(tags), *(_text(chance, file) for _ in range(chance.randint(0, _MOST)))]
        for _ in range(chance.randint(0, 6))
    ]
    for segment in body:
        file.records.append(
            interchange_files.record(segment[0], reference, kind, segment[1:], _MOST)  # an empty element is none
        )
    closing = "SE" if is_x12 else "UNT"
    file.segments += [*body, [closing, str(len(body) + 1), reference]]


def _text(chance: random.Random, file: File) -> str:
    text = "".join(chance.choice(file.pieces) for _ in range(chance.choice([0, 1, 1, 2, 5])))
    if file.name == "x12":
        text = "".join(c for c in text if c not in file.signs[0] + file.signs[2]).rstrip("\r\n")
    return text


def _untidy(chance: random.Random, file: File, *, is_wrapped: bool) -> tuple[str, Any]:
    """The text of a file, and how it is read."""
    options: dict[str, Any] = {"max_elements": _MOST}
    end = "" if is_wrapped else chance.choice(["", "", "\n", "\r\n", "\n   ", " \t", " \r\n\n"])
    is_wrong, has_more = chance.random() < 0.2, chance.random() < 0.3
    pieces = []
    advice = f"UNA:{file.signs[0]}.{file.signs[1]} {file.signs[2]}"
    for segment in file.segments:
        if segment[0] == "UNB" and (file.signs != ("+", "?", "'") or chance.random() < 0.2):
            pieces.append(advice + end)
        told = [segment[0], "9", *segment[2:]] if is_wrong and segment[0] in ("SE", "UNT", "GE") else segment
        pieces.append(file.spelled(told) + end)
        if segment[0] == "ISA" and has_more:
            beside = [["ISB", "1"], ["TA1", "7", "x"], ["TA1", "8"]]
            pieces += [file.spelled(each) + end for each in beside[chance.randint(0, 1) :]]
    if is_wrong:
        options["trailers"] = Trailers.WARN
    text = "".join(pieces)
    return text, options


def _encoded(chance: random.Random, file: File, text: str, options: dict[str, Any]) -> bytes:
    choices = ["utf-8", "utf-8-sig", "utf-16"]
    if text.isascii() or not set(text) - {chr(code) for code in range(256)}:
        choices += ["latin-1", "cp1252"]
        if file.name == "edifact" and chance.random() < 0.5:
            return text.encode("latin-1")  # its UNB says so
    charset = chance.choice(choices)
    if charset != "utf-8":
        options["encoding"] = charset
    return text.encode(charset)


def _wrapped(chance: random.Random, data: bytes) -> bytes:
    """The file in lines of one width."""
    width = chance.choice([17, 40, 72, 80, 128])
    lines = [data[at : at + width] for at in range(0, len(data), width)]
    # Of fewer lines none tells that they are of one width.
    return chance.choice([b"\n", b"\r\n"]).join(lines) if len(lines) > 3 else data


def one(chance: random.Random, folder: Path) -> str:
    """A file, read in any portions; its records written again, and read again."""
    is_wrapped = chance.random() < 0.3
    file = _file(chance, chance.choice(["x12", "edifact"]), is_wrapped=is_wrapped)
    text, options = _untidy(chance, file, is_wrapped=is_wrapped)
    data = _encoded(chance, file, text, options)
    if is_wrapped and options.get("encoding") not in ("utf-16", "utf-8-sig"):
        data = _wrapped(chance, data)
    elif _looks_wrapped(data):
        return "wrapped by chance"
    return _held(chance, folder, file, data, options)


def _looks_wrapped(data: bytes) -> bool:
    """Whether line ends of elements are as far from each other as those of a wrapped file."""
    *lines, last = data.strip().splitlines()
    return len({len(line) for line in lines}) == 1 and len(last) <= len(lines[0])


def _held(chance: random.Random, folder: Path, file: File, data: bytes, options: dict[str, Any]) -> str:
    found = [
        interchange_files.read(file.name, folder / "in", data, block_bytes=size, **options)
        for size in {*chance.sample(_BLOCKS, 2), 1 << 20}
    ]
    assert all(each == found[0] for each in found), f"{data!r}: {found}"
    assert found[0].problem is None, f"{data!r}: {found[0].problem}"
    assert found[0].records == file.records, f"{data!r}: {found[0].records} instead of {file.records}"
    return f"{file.name} {_written(chance, folder, file)}"


def _written(chance: random.Random, folder: Path, file: File) -> str:
    """The records, written in parts and read again, by us and by others."""
    spelling = written.X12 if file.name == "x12" else written.EDIFACT
    names = ["seg_id", spelling.reference, spelling.kind, *(f"e{number:02}" for number in range(1, _MOST + 1))]
    rows = [dict(zip(names, record, strict=True)) for record in file.records]
    cuts = sorted(chance.choices(range(len(rows) + 1), k=chance.randint(0, 4)))
    parts = [
        [piece for piece in (rows[start:middle], rows[middle:end]) if piece]
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)
        for middle in [chance.randint(start, end)]
    ]
    newline = chance.random() < 0.5
    try:
        data = written.in_parts(spelling, parts, columns=names, segment_newline=newline)
    except format.UnwritableFile:
        signs = any(sign in (cell or "") for record in file.records for cell in record for sign in "*~")
        if not signs or file.name != "x12":
            raise
        return "refused by name"
    again = interchange_files.read(file.name, folder / "again", data, max_elements=_MOST)
    assert (again.problem, again.records) == (None, file.records), f"{data!r}: {again} instead of {file.records}"
    _read_by_others(file, data)
    return "again the same"


def _read_by_others(file: File, data: bytes) -> None:
    """Others find the same segments, where their own rules let them: none of line ends, and no empty ends."""
    texts = [cell for record in file.records for cell in record if cell]
    if any(set(text) & set("\r\n\t:^?\u00a0 ") for text in texts):
        return
    segments = [[record[0], *(cell or "" for cell in record[3:])] for record in file.records]
    expected = [_shortened(segment) for segment in segments]
    if file.name == "x12":
        from pyx12 import x12file

        read = x12file.X12Reader(io.StringIO(data.decode()))
        found = [
            [each.get_seg_id(), *(each.get_value(f"{at + 1:02}") or "" for at in range(len(each)))] for each in read
        ]
    else:
        from pydifact.parser import Parser

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of empty segments, and of directories that it does not have
            found = [[each.tag, *map(str, each.elements)] for each in Parser().parse(data.decode())]
    envelope = ("ISA", "GS", "SE", "GE", "IEA", "UNA", "UNB", "UNT", "UNZ")
    assert [_shortened(each) for each in found if each[0] not in envelope] == expected, data


def _shortened(segment: Sequence[str | None]) -> list[str]:
    cells = [cell or "" for cell in segment]
    while not cells[-1]:
        cells.pop()
    return cells


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("interchanges", "interchanges, untidy and written again", 1000, one, arguments)


if __name__ == "__main__":
    sys.exit(main())

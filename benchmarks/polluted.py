"""Scores the reading of dirty CSV files: a table, polluted in two thousand ways, is read and compared with itself.

    python -m benchmarks.polluted                 # with options that a person who knows each file would set
    python -m benchmarks.polluted --guess         # by `clinker guess` alone
    python -m benchmarks.polluted --only 'row_more_sep*' --show

The kinds of dirt, the measures and the weights come from Pollock, a public benchmark of how systems load CSV
(Vitagliano and others, "Pollock: A Data Loading Benchmark", VLDB 2023); the table and the code are our own, so figures
are close to the published ones of other systems, and not the same. A file gives ten points: one for being read at all,
and one each for precision, recall and F1 of header, records and cells. The simple score is the mean over all files; in
the weighted one, files count as often as their kind of dirt was met among 3,712 real files.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.guess import checking, command
from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv.options import CsvRead, Quoting, Ragged
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.reader import Reader

Rows = list[list[str]]

_HEADER = ["DATE", "TIME", "Qty", "PRODUCTID", "Price", "ProductType", "ProductDescription", "URL", "Comments"]
_RECORDS = 83
#: Columns whose cells are quoted wherever they are; others are where they must be.
_QUOTED = (6, 7)


# ---- the table -------------------------------------------------------------------------------------

_PRODUCTS = (
    ("Men's Hiking Boots", "Boots that are rugged enough for any trail, yet light enough for a long day."),
    ("Running Jacket, Light", "Resists wind and rain, keeps you visible: for runs, rides or a walk with the dog."),
    ("Dining Table, Round 48\"", "Made of oak, this table is durable enough to stand outside all year round."),
    ("Women's  Fly Rod 8 Wt.", "A crisp and remarkably light rod, 8\\'9\" long, made for her."),
    ("Ragg Hat", "Knit from soft wool"),
    ("Kids' Bike, 24\"", "An easy ride that is stable, safe, and great fun."),
    ("Cotton Towel", "All the softness that you expect, in certified cotton."),
    ("Beach Chair, Print", "Four positions and straps, so that you carry it easily."),
)  # fmt: skip


def source() -> Rows:
    """The clean table: dates, times, numbers, prices, names with quotes and commas, texts, addresses, nothing."""
    rows = [list(_HEADER)]
    for number in range(_RECORDS):
        name, text = _PRODUCTS[number % len(_PRODUCTS)]
        key = f"{'ABCDEFG'[number % 7]}{'HKNRWYZ'[number // 7 % 7]}-{1000 + 97 * number}"
        day = f"{13 + number % 16}/{1 + number // 16:02d}/2018"
        time_of_day = f"{number // 4 % 24:02d}:{15 * (number % 4):02d}"
        price = f"${number * 1.37 + 0.9:.2f}"
        url = f"https://www.example.com/product/{key.replace('-', '_')}.html"
        rows.append([day, time_of_day, str(number % 13), key, price, name, f"{text} No. {number}", url, ""])
    return rows


# ---- its pollutions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Polluted:
    """A polluted file.

    Args:
        name: its name, which says the kind of dirt and where it is.
        text: its content.
        clean: the table that a reader should find, the header first where it has one.
        weight: how often the kind was met.
        options: the options that a person who knows the file would set.
        has_header: whether the first row of `clean` names the columns.
    """

    name: str
    text: str
    clean: Rows
    weight: float
    options: dict[str, Any]
    has_header: bool = True


@dataclass(frozen=True)
class Style:
    """The dialect in which a table is written."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    end: str = "\r\n"


def cell(text: str, place: int, style: Style) -> str:
    """A cell as the table's file has it."""
    escaped = text.replace(style.quote, style.escape + style.quote)
    needs = style.delimiter in text or style.quote in text or place in _QUOTED
    return f"{style.quote}{escaped}{style.quote}" if needs else escaped


def line(row: Sequence[str], style: Style) -> str:
    """A record without its end."""
    return style.delimiter.join(cell(text, place, style) for place, text in enumerate(row))


def written(rows: Rows, style: Style | None = None) -> str:
    """A table as text."""
    style = style or Style()
    return "".join(line(row, style) + style.end for row in rows)


def polluted() -> Iterator[Polluted]:
    """All files."""
    table = source()
    given: dict[str, Any] = {"columns": tuple(_HEADER), "ragged": Ragged.BOTH, "header_rows": 1}
    text = written(table)

    def made(name: str, text: str, clean: Rows, weight: float, **options: Any) -> Polluted:
        has_header = options.get("has_header", True)
        return Polluted(f"{name}.csv", text, clean, weight, {**given, **options}, has_header)

    yield made("source", text, table, 1)
    yield made("file_no_payload", "", [], 15)
    yield made("file_no_trailing_newline", text.rstrip("\r\n"), table, 184)
    yield made("file_double_trailing_newline", text + "\r\n", table, 5)
    yield made("file_no_header", written(table[1:]), table[1:], 470, has_header=False)
    for count in (2, 3):
        names = [" ".join([name] * count) for name in _HEADER]
        yield made(
            f"file_header_multirow_{count}", written([*[_HEADER] * count, *table[1:]]), [names, *table[1:]], 47,
            columns=tuple(names), header_rows=count,
        )  # fmt: skip
    empty = [""] * len(_HEADER)
    preamble = [["PREAMBLE", *empty[1:]], empty]
    yield made("file_preamble", written([])[:0] + _bare(preamble) + text, table, 282, skip_rows=2)
    second = {
        "less": [row[:-1] for row in table],
        "same": table,
        "more": [[*row, "col1" if number == 0 else ""] for number, row in enumerate(table)],
    }
    for kind, rows in second.items():
        yield made(f"file_multitable_{kind}", text + written(rows), [*table, *rows], 188 / 3)
    yield made("file_header_only", written(table[:1]), table[:1], 3)
    yield made("file_one_data_row", written(table[:2]), table[:2], 4)
    yield from _of_rows(table, made)
    yield from _of_signs(table, made)


def _bare(rows: Rows) -> str:
    return "".join(",".join(row) + "\r\n" for row in rows)


def _of_rows(table: Rows, made: Any) -> Iterator[Polluted]:
    """One row with a delimiter too many or too few, a quote too many, or other delimiters."""
    style = Style()
    lines = [line(row, style) for row in table]
    for number, row in enumerate(table):
        cells = [cell(text, place, style) for place, text in enumerate(row)]
        for place in range(len(cells)):
            more = [*cells[:place], "", *cells[place:]]
            yield made(f"row_more_sep_row{number}_col{place}", _with(lines, number, ",".join(more)), table, 0.368)
            if place:
                less = [*cells[: place - 1], cells[place - 1] + cells[place], *cells[place + 1 :]]
                yield made(f"row_less_sep_row{number}_col{place}", _with(lines, number, ",".join(less)), table, 0.368)
            is_quoted = cells[place].startswith('"')
            odd = f'""{cells[place][1:]}' if is_quoted else '"' + cells[place]
            stray = [*cells[:place], odd, *cells[place + 1 :]]
            clean = [*table[:number], [*row[:place], '"' + row[place], *row[place + 1 :]], *table[number + 1 :]]
            text = _with(lines, number, ",".join(stray))
            yield made(f"row_extra_quote{number}_col{place}", text, clean, 0.00926, quotes=Quoting.REPAIR)
        yield made(f"row_field_delimiter_{number}_0x20", _with(lines, number, " ".join(cells)), table, 0.0106)


def _with(lines: list[str], number: int, other: str) -> str:
    return "".join(text + "\r\n" for text in [*lines[:number], other, *lines[number + 1 :]])


def _of_signs(table: Rows, made: Any) -> Iterator[Polluted]:
    """Other signs throughout a file; cells are quoted as in the table's own file, whatever the delimiter is."""

    def named(signs: str) -> str:
        return "".join(f"_0x{ord(sign):X}" for sign in signs)

    for end, weight in (("\n", 1691), ("\r", 7)):
        yield made(f"file_record_delimiter{named(end)}", written(table, Style(end=end)), table, weight)
    usual = [[cell(text, place, Style()) for place, text in enumerate(row)] for row in table]
    for delimiter, weight in ((";", 834), ("\t", 4), (", ", 101), (" ", 4)):
        text = "".join(delimiter.join(row) + "\r\n" for row in usual)
        options = {"delimiter": ",", "trim": True} if delimiter == ", " else {"delimiter": delimiter}
        yield made(f"file_field_delimiter{named(delimiter)}", text, table, weight, **options)
    single = "".join(
        ",".join(re.sub(r'^"|"$', "'", text) if text.startswith('"') else text for text in row) + "\r\n"
        for row in usual
    )
    yield made(f"file_quotation_char{named(chr(39))}", single, table, 11, quote_char="'")
    slashed = written(table, Style(escape="\\"))
    yield made(f"file_escape_char{named(chr(92))}", slashed, table, 1, escape_char="\\")
    yield made("file_escape_char_0x00", written(table, Style(escape="")), table, 7)


# ---- reading ---------------------------------------------------------------------------------------


def read_given(one: Polluted, path: Path) -> Rows | None:
    """The table that is read with the options given; None where the file is refused."""
    options = dict(one.options)
    # Names are given, so header rows are lines to skip, whatever is wrong with them.
    header_rows = options.pop("header_rows") if one.has_header else 0
    options["skip_rows"] = options.get("skip_rows", 0) + header_rows
    options["has_header"] = False
    columns = tuple(SourceColumn(name, types.STRING) for name in options.pop("columns"))
    return _read(CsvReader(CsvRead(**options)), columns, path, has_header=one.has_header)


def read_guessed(path: Path) -> Rows | None:
    """The table that is read with a guess alone; None where nothing is guessed, or the file is refused."""
    try:
        guess = command.look(path, str(path), set(), as_text=True).guess
    except (command.NotGuessed, FormatError):
        return [] if not path.stat().st_size else None
    if guess.type != "csv":
        return None
    step = checking.bound(guess)
    if isinstance(step, str):
        return None
    has_names = not all(re.fullmatch(r"col_\d+", column.name) for column in step.columns)
    return _read(step.reader, step.columns, path, has_header=has_names)


def _read(reader: Reader, columns: tuple[SourceColumn, ...], path: Path, *, has_header: bool) -> Rows | None:
    try:
        scan = reader.plan([column.name for column in columns], [files.describe(str(path), path.name)], OnUnmapped.DROP)
        found: Rows = [[column.name for column in columns]] if has_header and path.stat().st_size else []
        for split in splits.plan(scan.files, 1 << 40):
            outcome = reading.SplitOutcome()
            for block in reader.read(split, scan.files[split.file], Reading(columns, ()), outcome):
                found += [[text or "" for text in row.values()] for row in block.batch.to_pylist()]
    except FormatError:
        return None
    return found


# ---- measuring -------------------------------------------------------------------------------------

_DAY = re.compile(r"(\d\d)/(\d\d)/(\d{4})")
_TIME = re.compile(r"\d\d:\d\d")
_PRICE = re.compile(r"\$(\d+\.\d+)")


def _normal(text: str) -> str:
    """A cell as records are compared by: values of a kind in one spelling, texts in small letters."""
    if _DAY.fullmatch(text):
        return _DAY.sub(r"\3-\2-\1 00:00:00", text)
    if _TIME.fullmatch(text):
        return f"{text}:00"
    if _PRICE.fullmatch(text):
        return f"${float(text[1:])}"
    return text.lower()


def _agreement(wanted: Counter[str], got: Counter[str]) -> tuple[float, float, float]:
    """Precision, recall and F1 of bags of texts."""
    if not wanted:
        return 1.0, 1.0, 1.0
    same = (wanted & got).total()
    if not same:
        return 0.0, 0.0, 0.0
    first, second = same / wanted.total(), same / got.total()
    return first, second, 2 * first * second / (first + second)


def measures(clean: Rows, got: Rows | None) -> tuple[float, ...]:
    """The ten points of a file."""
    if got is None:
        return (0.0,) * 10
    if not clean:
        return (1.0,) * 10
    header = _agreement(Counter(map(_normal, clean[0])), Counter(map(_normal, got[0] if got else [])))
    records = _agreement(
        Counter("".join(map(_normal, row)) for row in clean[1:]), Counter("".join(map(_normal, row)) for row in got[1:])
    )
    cells = _agreement(Counter(text for row in clean for text in row), Counter(text for row in got for text in row))
    return 1.0, *header, *records, *cells


@dataclass(frozen=True)
class Score:
    """The scores of a run, the mean of each kind of file, and the files that lost most."""

    simple: float
    weighted: float
    files: int
    kinds: dict[str, tuple[int, float, float]]
    lost: list[tuple[float, str]]


def kind_of(name: str) -> str:
    """The kind of dirt of a file, by its name."""
    return re.sub(r"_?row\d+_col\d+|\d+_col\d+|_\d+_0x20|\.csv$", "", name) if name.startswith("row_") else name[:-4]


def score(*, guesses: bool, only: str = "*") -> Score:
    """Read all files and measure what came."""
    total, weighted, weights, count = 0.0, 0.0, 0.0, 0
    kinds: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    lost: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for one in polluted():
            if not fnmatch.fnmatch(one.name, only):
                continue
            path = Path(folder, one.name)
            path.write_bytes(one.text.encode())
            points = sum(measures(one.clean, read_guessed(path) if guesses else read_given(one, path)))
            path.unlink()
            total, weighted, weights, count = (
                total + points,
                weighted + one.weight * points,
                weights + one.weight,
                count + 1,
            )
            kinds[kind_of(one.name)].append((points, one.weight))
            lost.append((10 - points, one.name))
    means = {
        kind: (len(found), sum(points for points, _ in found) / len(found), sum(weight for _, weight in found))
        for kind, found in kinds.items()
    }
    return Score(total / count, weighted / weights, count, means, sorted(lost, reverse=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the scores."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.polluted", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--guess", action="store_true", help="by `clinker guess` alone")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="files whose names fit")
    parser.add_argument("--show", action="store_true", help="also the files that lost most")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the files instead")
    asked = parser.parse_args(arguments)
    if asked.write:
        asked.write.mkdir(parents=True, exist_ok=True)
        for one in polluted():
            (asked.write / one.name).write_bytes(one.text.encode())
        return 0
    began = time.monotonic()
    found = score(guesses=asked.guess, only=asked.only)
    for kind, (count, mean, weight) in found.kinds.items():
        if mean < 9.9995:
            print(f"{kind:40} {count:5} files  {mean:6.3f}  weight {weight:7.1f}")
    for points, name in found.lost[:20] if asked.show else ():
        print(f"  {name}: {points:.3f} points lost")
    seconds = time.monotonic() - began
    print(f"simple {found.simple:.3f}, weighted {found.weighted:.3f}, {found.files} files, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

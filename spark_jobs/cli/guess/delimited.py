"""The source that would read a text with fields between delimiters."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.guess import charset, dialect, table, values
from spark_jobs.cli.guess.source import Guess
from spark_jobs.cxl.syntax import names as syntax_names
from spark_jobs.formats.csv import repairing, rewriting
from spark_jobs.formats.csv.options import MOST_FOOTER, MOST_SKIPPED
from spark_jobs.formats.csv.quotes import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cli.guess.charset import Charset
    from spark_jobs.cli.guess.dialect import Row, Signs
    from spark_jobs.cli.guess.sampling import Sample
    from spark_jobs.cli.guess.table import Table
    from spark_jobs.cli.guess.values import Column

#: With this score or less fields may have places in a text as well as signs between them.
LEAST = 0.35
_LEAST_OF_ALL = 0.25
_SHOWN_ROWS = 5
#: With fewer columns empty cells between blanks are cells without a value.
_FEWEST_ALIGNED = 4
#: The parts of numbers before and after a comma: groups of three digits, or a fraction of two.
_WHOLE_PART, _REST = re.compile(r"[+-]?[0-9]{1,3}"), re.compile(r"[0-9]{2}|[0-9]{3}(?:\.[0-9]+)?")
#: The replacement of an unescaped quote while the text is inspected.
_TEXT_QUOTE = "\U0010fffc"


@dataclass
class DelimitedText:
    """A text with fields, as it was found.

    Args:
        table: its table.
        rows: its records, and records from later ranges of the file.
        score: how well its signs fit.
        repaired: the number of unescaped quotes, if more records have the same width without them.
        strays: their number if nothing is better without them.
    """

    table: Table
    rows: list[Row] = field(default_factory=list)
    score: float = 0.0
    repaired: int = 0
    strays: int = 0


def find(text: str, sample: Sample, encoding: Charset) -> DelimitedText | None:
    """The table of a text; None where it has no record.

    Args:
        text: the beginning of the file, or all of it.
        sample: the file's bytes.
        encoding: how they are texts.
    """
    signs, score = dialect.guess(text)
    if score <= _LEAST_OF_ALL:
        signs = dialect.Signs(separator=signs.separator)  # a single column
    given = table.excels_delimiter(text)
    if given is not None:
        rest = text.split("\n", 1)[-1]
        signs, score = dialect.Signs(given, dialect.guess(rest)[0].quote or '"'), 1.0
    found = _find(text, sample, encoding, signs, score)
    if found is not None and not signs.trims and _has_padded_numbers(found.rows):
        return _find(text, sample, encoding, replace(signs, trims=True), score) or found
    return found


def _find(text: str, sample: Sample, encoding: Charset, signs: Signs, score: float) -> DelimitedText | None:
    """The table of a delimited text whose signs are known."""
    try:
        one = table.find(text, signs, is_end=sample.is_whole)
    except dialect.TooLong:
        one = None
    one, repaired, strays = _repaired(text, one, signs, is_end=sample.is_whole)
    if one is None:
        return None
    rows = list(one.body)
    for _, data in sample.pieces:
        rows += _of_piece(charset.decoded(data, encoding.name), one, signs)
    return DelimitedText(one, rows, score, repaired, strays)


def is_aligned(found: DelimitedText) -> bool:
    """Whether blanks align fields in columns, rather than stand between them."""
    cells = [cell for row in found.rows[:1000] for cell in row.cells]
    is_blank = found.table.signs.delimiter == " " and found.table.width > _FEWEST_ALIGNED
    return is_blank and 2 * cells.count("") > len(cells)


def _repaired(text: str, found: Table | None, signs: Signs, *, is_end: bool) -> tuple[Table | None, int, int]:
    """The table as `quotes: repair` reads it, with the number of repaired quotes, if that is better.

    If it is not, the table as it is, and the number of quotes that are not escaped.
    """
    is_usual = rewriting.is_plain(signs.delimiter) and signs.quote and not signs.separator and not signs.escape
    if not is_usual or signs.quote not in text or _TEXT_QUOTE in text:
        return found, 0, 0
    structure = Dialect(ord(signs.delimiter), ord(signs.quote), has_blanks=signs.trims)
    data = text.encode()
    width = 0 if found is None else found.width
    repair = repairing.Repair(data, structure, width, at_end=is_end, most=len(data))
    strays = len(repair.strays)
    if not strays:
        return found, 0, 0
    mended = repairing.replaced(data[: repair.end], repair.strays, _TEXT_QUOTE.encode()).decode()
    try:
        other = table.find(mended, signs, is_end=is_end)
    except dialect.TooLong:
        return found, 0, strays
    if other is None or (found is not None and _misfits(other) > _misfits(found)):
        return found, 0, strays
    return _with_quotes(other, signs.quote), strays, 0


def _misfits(one: Table) -> int:
    """The number of records with an unusual width, plus the number of lines that the table leaves out."""
    return sum(len(row.cells) != one.width for row in one.body) + one.skipped + one.footer


def _with_quotes(one: Table, quote: str) -> Table:
    """A table of a repaired text, with the quotes that its cells have."""

    def requoted(cells: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cell.replace(_TEXT_QUOTE, quote) for cell in cells)

    return replace(
        one,
        names=None if one.names is None else requoted(one.names),
        body=[replace(row, cells=requoted(row.cells)) for row in one.body],
        titles=list(requoted(tuple(one.titles))),
    )


def _of_piece(text: str, found: Table, signs: Signs) -> list[Row]:
    """The complete records of a range from the middle of a file, without the cut records at its edges."""
    end = signs.separator or "\n"
    first = text.find(end)
    try:
        rows = list(dialect.rows(text[first + len(end) :], signs))[:-1]
    except dialect.TooLong:
        return []
    if sum(len(row.cells) == found.width for row in rows) < 0.5 * len(rows):
        return []  # it began within quotes
    return rows


def guess(found: DelimitedText, names: tuple[str, ...], encoding: Charset, sample: Sample, *, as_text: bool) -> Guess:
    """The source that reads a table.

    Args:
        found: the table.
        names: the names of its columns, as its source knows them.
        encoding: the encoding of its texts.
        sample: the bytes that were looked at.
        as_text: whether all columns are to be texts.
    """
    options = options_of(found, names, encoding, sample)
    columns = columns_of(found.rows, names, as_text=as_text, delimiter=found.table.signs.delimiter)
    made = Guess("", [], "csv", options, columns)
    made.remarks += values.column_notes(columns)
    made.remarks += _remarks(found, names, sample)
    made.remarks += _cut(found, sample)
    made.doubts += [
        f"column {values.shown(column.name)}: {remark.text}"
        for column in columns
        for remark in column.remarks
        if remark.is_doubt
    ]
    made.doubts += totals(found.table, names, "`skip_footer`")
    made.doubts += _another(found.table)
    made.doubts += _joined_lines(found)
    made.doubts += _split_numbers(found)
    if found.strays:
        many = (
            "1 quote neither begins nor ends" if found.strays == 1 else f"{found.strays} quotes neither begin nor end"
        )
        made.doubts.append(
            f"{many} a cell, so cells may be cut in wrong places; `quotes: strict` makes their records dead letters"
        )
    return made


def _cut(found: DelimitedText, sample: Sample) -> Iterator[str]:
    """Whether the last record looks as if the file had been cut off within it."""
    rows = found.table.body
    if not sample.is_whole or found.table.footer or len(rows) < 3 or sample.tail.rstrip(b"\0")[-1:] in b"\r\n":
        return
    last, width = rows[-1], found.table.width
    lengths = {len(row.cells[width - 1]) for row in rows[:-1] if len(row.cells) == width}
    is_short = len(last.cells) == width and len(lengths) == 1 and 0 < len(last.cells[-1]) < min(lengths)
    if is_short or len(last.cells) < width:
        yield f"the file ends within a line: the last record may be cut, {values.shown(last.cells[-1])}"


def _joined_lines(found: DelimitedText) -> Iterator[str]:
    """Whether a literal quote may have joined several lines that look like records into a single record."""
    signs, width = found.table.signs, found.table.width
    joined = [row for row in found.rows if row.after - row.first > 1 and _has_records(row, signs.delimiter, width)]
    if joined and signs.quote and width > 1:
        places = _places(found.table, joined, is_whole=True)
        yield (
            f"{lines(len(joined), 'record')}{places} with quoted cells of several lines, each of which looks like a "
            "record: if the quotes are text, set `quote_char: ''`"
        )


def _split_numbers(found: DelimitedText) -> Iterator[str]:
    """Whether all records have a cell more than the header because a number has the delimiter in it."""
    if not found.table.has_row_names:
        return
    rows, width = found.rows[:5000], found.table.width
    for place in range(1, width - 1):
        pairs = [(row.cells[place].strip(), row.cells[place + 1].strip()) for row in rows if len(row.cells) == width]
        if all(_WHOLE_PART.fullmatch(first) and _REST.fullmatch(second) for first, second in pairs):
            number = found.table.signs.delimiter.join(pairs[0])
            yield (
                f"the header has one name too few: if {values.shown(number)} is one number, nothing quotes it, and its "
                "parts are two columns: export the file with another delimiter"
            )
            return


def _has_records(row: Row, delimiter: str, width: int) -> bool:
    """Whether each line of a record has as many fields as a record has."""
    if len(row.cells) != width:
        return False
    parts = delimiter.join(row.cells).splitlines()
    return len(parts) > 1 and all(part.count(delimiter) == width - 1 for part in parts)


def totals(one: Table, names: tuple[str, ...], remedy: str) -> Iterator[str]:
    """Records that would be counted twice if they are sums of others; `remedy` leaves out the last ones."""
    found = table.totals(one.body)
    if found.rows:
        shown = ", ".join(map(str, found.rows[:_SHOWN_ROWS])) + (", …" if len(found.rows) > _SHOWN_ROWS else "")
        is_one = len(found.rows) == 1
        rows = f"row {shown} looks like a sum" if is_one else f"rows {shown} look like sums"
        if found.has_balances:
            rows = f"row {shown} looks like a balance" if is_one else f"rows {shown} look like sums or balances"
        if found.empty is None or found.empty >= len(names):
            yield f"{rows} of others; a `filter` in a transform leaves such rows out"
        else:
            column = syntax_names.quote_if_needed(names[found.empty])
            yield f"{rows} of others; in a transform, this leaves such rows out: filter not {column}.is_empty()"
    if found.is_last:
        first = f"column {values.shown(names[0])}"
        yield f"the last row has nothing in {first}, which all others have: if it is a sum, set {remedy}"


def _another(one: Table) -> Iterator[str]:
    """Whether the text has another table below the first one, and the keys that read each of them."""
    found = table.another(one)
    if found is None:
        return
    yield f"{another_said(found)}: {_each_alone(one, found)}"


def another_said(found: table.Another) -> str:
    """Where another table begins, and with which names."""
    names = [cell.strip() for cell in found.header.cells if cell.strip()]
    more = ", …" if len(names) > _SHOWN_ROWS else ""
    shown = ", ".join(map(values.shown, names[:_SHOWN_ROWS])) + more
    return f"row {found.row} looks like the header of another table ({shown}), and a source reads one table"


def _each_alone(one: Table, found: table.Another) -> str:
    """The options of two sources that read a table each, where lines were counted and options take so many."""
    footer, skipped = one.lines - found.above.after, found.header.first
    if not one.lines or footer > MOST_FOOTER or skipped > MOST_SKIPPED:
        return "cut the file above it, and read each part with a source of its own"
    return (
        f"`skip_footer: {footer}` ends this one above it, and a second source with `skip_rows: {skipped}` begins at "
        "it; for the types, guess each table from a file of its own"
    )


def names_of(found: Table) -> tuple[tuple[str, ...], int]:
    """The names that the columns of a table get, and how many of them the source has to say itself.

    Those of the header stay, unless one is empty, or no column may be called so: all names up to the last such one
    stand under `columns:`.
    """
    if found.names is None or found.is_header_skipped:
        given = found.names or tuple(f"col_{place}" for place in range(found.width))
        return tuple(_usable(name, place) for place, name in enumerate(given)), 0
    names = [_usable(name, place) for place, name in enumerate(found.names)]
    changed = [place for place, name in enumerate(found.names) if names[place] != name]
    said = changed[-1] + 1 if changed else 0
    if said:
        names[:said] = _numbered(names)[:said]
    return tuple(_numbered(names)), said


def _usable(name: str, place: int) -> str:
    name = name.lstrip("$")
    return name if name.strip() else f"col_{place}"


def _numbered(names: list[str]) -> list[str]:
    """The names, each once, as `duplicate_columns: number` has them."""
    taken, counts, given = set(names), dict.fromkeys(names, 1), []
    for name in names:
        numbered = name
        while numbered in given:
            counts[name] += 1
            numbered = f"{name}_{counts[name]}"
            while numbered in taken and numbered not in given:
                counts[name] += 1
                numbered = f"{name}_{counts[name]}"
        taken.add(numbered)
        given.append(numbered)
    return given


def options_of(found: DelimitedText, names: tuple[str, ...], encoding: Charset, sample: Sample) -> dict[str, Any]:
    """The options that differ from their defaults."""
    one, signs = found.table, found.table.signs
    options: dict[str, Any] = {}
    if signs.delimiter != ",":
        options["delimiter"] = signs.delimiter
    if signs.quote != '"':
        options["quote_char"] = signs.quote
    if signs.escape:
        options["escape_char"] = signs.escape
    if signs.separator:
        options["record_separator"] = signs.separator
    if signs.trims:
        options["trim"] = True
    if one.comment:
        options["comment"] = one.comment
    options |= _of_header(one, names)
    if one.footer:
        options["skip_footer"] = one.footer
    if found.repaired:
        options["quotes"] = "repair"
    if ragged := _ragged(found):
        options["ragged"] = ragged
    if encoding.name != "utf-8":
        options["encoding"] = encoding.name
    if not sample.is_named:
        options["compression"] = str(sample.compression)
    return options


def _of_header(one: Table, names: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    skipped = one.skipped
    if one.names is None:
        options["has_header"] = False
    elif one.is_header_skipped:
        options["has_header"] = False
        skipped += not one.is_header_comment
    else:
        if one.header_rows > 1:
            options["header_rows"] = one.header_rows
        said = names_of(one)[1]
        if said:
            options["columns"] = list(names[:said])
        if len(set(one.names[said:]) | set(names[:said])) < len(one.names):
            options["duplicate_columns"] = "number"
        if one.repeats_header:
            options["skip_repeated_header"] = True
    if skipped:
        options["skip_rows"] = skipped
    return options


def _has_padded_numbers(rows: list[Row]) -> bool:
    """Whether blanks stand around numbers, so that these are none."""
    padded = 0
    for row in rows[:5000]:
        padded += any(cell != cell.strip() and cell.strip()[:1].isdigit() for cell in row.cells)
    return padded > 0.5 * min(len(rows), 5000) > 0


def _ragged(found: DelimitedText) -> str:
    """The handling of records that are too short, or too long by empty cells: no value is lost."""
    width = found.table.width
    short = [row for row in found.rows if len(row.cells) < width]
    long = [row for row in found.rows if len(row.cells) > width]
    cuts = bool(long) and all(not cell.strip() for row in long for cell in row.cells[width:])
    return "both" if short and cuts else "pad" if short else "cut" if cuts else ""


def columns_of(rows: list[Row], names: tuple[str, ...], *, as_text: bool, delimiter: str) -> list[Column]:
    """The columns of a table with their types."""
    cells: list[Counter[str]] = [Counter() for _ in names]
    width = len(names)
    for row in rows:
        if len(row.cells) > width and any(cell.strip() for cell in row.cells[width:]):
            continue
        for counts, cell in zip(cells, row.cells, strict=False):
            if cell:
                counts[cell] += 1
    counted = [(name, counts, len(rows)) for name, counts in zip(names, cells, strict=True)]
    guessed = values.guess(counted, has_semicolons=delimiter == ";")
    return [values.Column(column.name, is_unique=column.is_unique) for column in guessed] if as_text else guessed


def _remarks(found: DelimitedText, names: tuple[str, ...], sample: Sample) -> list[str]:
    """Remarks about a table besides its options."""
    one = found.table
    said = []
    before = one.titles[: len(one.titles) - one.after]
    if one.skipped:
        said.append(f"{lines(one.skipped)} before the table left out (`skip_rows`): {listed(before)}")
    if one.footer:
        said.append(
            f"{lines(one.footer)} after the table left out (`skip_footer`): {listed(one.titles[len(before) :])}"
        )
    if one.names is not None and not one.is_header_skipped and (said_names := names_of(one)[1]):
        named = [name for name, old in zip(names[:said_names], one.names, strict=False) if name != old]
        said.append(f"names were made for columns whose header is empty, or stands twice: {', '.join(named)}")
    if one.has_row_names:
        said.append("the header has one name too few: the first column is called `row`")
    elif one.is_header_comment:
        said.append("the names of the columns stand in a comment: they are in `schema`")
    elif one.is_header_skipped:
        said.append(
            "the header does not fit the columns as it is: the names stand in `schema`, and its line is skipped"
        )
    if one.header_rows > 1 and not one.is_header_skipped:
        said.append(f"the header has {one.header_rows} rows: its names are joined with `_` (`header_rows`)")
    if one.names is not None and not one.is_header_likely and one.body:
        shown = ", ".join(map(values.shown, one.names[:_SHOWN_ROWS])) + (", …" if len(one.names) > _SHOWN_ROWS else "")
        said.append(f"the first line is taken for names: {shown}; if it is a record, set `has_header: false`")
    if empty := [row for row in found.rows if not row.filled]:
        are = "record has" if len(empty) == 1 else "records have"
        said.append(f"{len(empty)} {are} nothing in any cell; `filter` in a transform leaves them out")
    if one.repeats_header:
        said.append("records that are the header again are left out (`skip_repeated_header`)")
    if found.repaired:
        many = "1 quote" if found.repaired == 1 else f"{found.repaired} quotes"
        are = "is not doubled: it is" if found.repaired == 1 else "are not doubled: they are"
        said.append(f"{many} within quoted cells, or at the start of cells, {are} text (`quotes: repair`)")
    said += _of_widths(found, is_whole=sample.is_whole)
    return said


def _of_widths(found: DelimitedText, *, is_whole: bool) -> list[str]:
    one, width = found.table, found.table.width
    short = [row for row in found.rows if len(row.cells) < width]
    long = [row for row in found.rows if len(row.cells) > width]
    total = len(found.rows)
    said = []
    if short:
        places = _places(one, short, is_whole=is_whole)
        text = f"{len(short)} of {total} records have fewer than {width} cells{places}"
        said.append(f"{text}: they get empty ones at their end (`ragged`)")
    filled = [row for row in long if any(cell.strip() for cell in row.cells[width:])]
    if long and not filled:
        said.append(
            f"{len(long)} of {total} records have empty cells after their last column, which are cut (`ragged`)"
        )
    elif filled:
        places = _places(one, filled, is_whole=is_whole)
        said.append(f"{len(filled)} of {total} records have more than {width} cells{places}: they become dead letters")
    return said


def _places(one: Table, rows: list[Row], *, is_whole: bool) -> str:
    """The places of some records, by their numbers among the records."""
    if not is_whole:
        return ""
    numbers = {id(row): place for place, row in enumerate(one.body, 1)}
    shown = [str(numbers[id(row)]) for row in rows[:_SHOWN_ROWS] if id(row) in numbers]
    more = ", …" if len(rows) > _SHOWN_ROWS else ""
    return f" (row{'s' if len(rows) > 1 else ''} {', '.join(shown)}{more})" if shown else ""


def lines(count: int, what: str = "line") -> str:
    """A number of lines, or of something else."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def listed(texts: list[str]) -> str:
    """The first of some texts."""
    return ", ".join(values.shown(text) for text in texts[:3] if text) + (", …" if len(texts) > 3 else "")

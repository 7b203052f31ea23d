"""`clinker guess FILE…`: looks at files, prints the sources that read them, and notes what does not fit."""

from __future__ import annotations

import csv
import re
import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import clinker_toml
from spark_jobs.cli.guess import (
    charset,
    checking,
    delimited,
    elements,
    fixed,
    records,
    sampling,
    sheets,
    source,
    together,
)
from spark_jobs.cli.guess.together import Answer
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.formats import misread
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cli.guess.charset import Charset
    from spark_jobs.cli.guess.sampling import Sample
    from spark_jobs.cli.guess.source import Guess
    from spark_jobs.stores.location import FilePath

#: Whole files of so many bytes are read again, by the engine's readers.
_TYPED = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"ORC": "ORC"}


_ALIGNED = (
    "its fields stand at positions, with blanks between them, and neither a ruler nor equally long lines show where: "
    "`type: fixed_width` reads it, with the positions under `format_schema:`"
)


class NotGuessed(Exception):
    """No source can be guessed for a file; the message describes the file."""


def main(files: Sequence[FilePath], *, as_text: bool) -> int:
    """Print a source for each file, and one for files of one kind; exit 4 where one cannot be read.

    Args:
        files: the files.
        as_text: whether every column is a text.
    """
    with clinker_toml.reaching(files):
        return _main(files, as_text=as_text)


def _main(files: Sequence[FilePath], *, as_text: bool) -> int:
    code = ExitCode.SUCCESS
    taken: set[str] = set()
    found: list[tuple[FilePath, Answer]] = []
    for path in files:
        try:
            answer = look(path, str(path), taken, as_text=as_text)
        except (FormatError, NotGuessed) as error:
            sys.stderr.write(f"clinker guess error: {_said(path, error)}\n")
            code = ExitCode.IO
            continue
        taken.add(answer.guess.name)
        found.append((path, answer))
    for group in together.groups(found, as_text=as_text):
        for path, answer in group.of_files:
            sys.stdout.write(f"# {printable(str(path))}: {answer.guess.about}\n")
        sys.stdout.write(source.node(group.answer.guess))
        sys.stdout.flush()
        for line in group.notes():
            sys.stderr.write(f"{line}\n")
        if group.answer.read is not None and group.answer.read.refusal:
            code = ExitCode.IO
    return code


def _said(path: FilePath, error: Exception) -> str:
    text = printable(str(error))
    return text if text.startswith(str(path)) else f"{path}: {text}"


def look(path: FilePath, name: str, taken: set[str], *, as_text: bool = False) -> Answer:
    """Guess the source of a file.

    Args:
        path: the file.
        name: how the source names it.
        taken: names that other sources have.
        as_text: whether all columns are to be texts.

    Raises:
        FormatError: the file cannot be read.
        NotGuessed: it has no records, or is in a format that is not guessed.
    """
    sample = sampling.read(path, str(path))
    if (made := _of_marks(path, sample, as_text=as_text)) is not None:
        guess, count = made
        guess.name, guess.paths = _name(path, taken), [name]
        read = checking.read(guess, [path]) if sample.is_whole else None
        guess.about = f"{lines_of(count)}, {guess.type}"
        return Answer(guess, read)
    _refuse_others(sample)
    encoding = charset.guess(sample.head, tuple(data for _, data in sample.pieces))
    text = charset.decoded(sample.head, encoding.name)
    if not text.strip():
        raise NotGuessed("it is empty")
    guess, count = _guess(text, sample, encoding, as_text=as_text)
    guess.name, guess.paths = _name(path, taken), [name]
    if encoding.name != "utf-8":
        guess.options["encoding"] = encoding.name
    if not sample.is_named:
        guess.options["compression"] = str(sample.compression)
    read = checking.read(guess, [path]) if sample.is_whole else None
    guess.about = _about(sample, encoding, read.records if read is not None and read.records else count)
    if encoding.rival:
        guess.doubts.insert(0, f"its encoding may also be `{encoding.rival}`: look at letters beyond ASCII")
    return Answer(guess, read)


def _of_marks(path: FilePath, sample: Sample, *, as_text: bool) -> tuple[Guess, int] | None:
    """The source of a file whose first bytes identify it as a workbook or XML; None for other files.

    Raises:
        FormatError: the file cannot be read.
        NotGuessed: nothing in it is a record.
    """
    start = sample.head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PK\x03\x04") and path.suffix.lower() in (".xlsx", ".xlsm", ""):
        return sheets.guess(path, str(path), as_text=as_text)
    if re.match(rb"<(?:\?xml|!DOCTYPE|[A-Za-z])", start):
        try:
            return elements.guess(path, str(path), sample.head, is_whole=sample.is_whole, as_text=as_text)
        except elements.NoElements as error:
            raise NotGuessed(str(error)) from None
    return None


def lines_of(count: int) -> str:
    """The number of records that were inspected, in words."""
    return f"{count:,} record{'s' if count != 1 else ''}"


def _refuse_others(sample: Sample) -> None:
    """Formats that are not texts.

    Raises:
        NotGuessed: the file is in one.
    """
    for magic, known in _TYPED.items():
        if sample.head.startswith(magic):
            article = "a" if known == "Parquet" else "an"
            raise NotGuessed(f"it is {article} {known} file, which declares its own columns: `type: {known.lower()}`")
    problem = misread.of_bytes(sample.head[:8192])
    if problem is not None:
        raise NotGuessed(problem)
    start = sample.head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"ISA") and len(start) > 106:
        raise NotGuessed("it looks like an X12 interchange: `type: x12`")
    if start.startswith((b"UNA", b"UNB+")):
        raise NotGuessed("it looks like an EDIFACT interchange: `type: edifact`")
    if sample.head[:4096].count(b"\0") and not charset.guess(sample.head[:4096]).name.startswith(("utf-16", "utf-32")):
        raise NotGuessed("it has zero bytes: it is no text")


def _guess(text: str, sample: Sample, encoding: Charset, *, as_text: bool) -> tuple[Guess, int]:
    if records.seems_json(text):
        try:
            others = [charset.decoded(data, encoding.name) for _, data in sample.pieces]
            return records.guess(text, others, is_whole=sample.is_whole)
        except records.NoRecords as error:
            if records.is_json(text):
                raise NotGuessed(str(error)) from None
    found = delimited.find(text, sample, encoding)
    is_doubtful = found is None or found.score <= delimited.LEAST or found.table.signs.delimiter == " "
    try:
        if is_doubtful and (places := fixed.guess(text, is_whole=sample.is_whole, as_text=as_text)) is not None:
            return places
    except fixed.NoPlaces:
        raise NotGuessed(_ALIGNED) from None
    if found is None:
        most = f"a cell has more than {csv.field_size_limit():,} characters"
        raise NotGuessed(f"no table was found: a quote is never closed, {most}, or it has no records")
    if delimited.is_aligned(found):
        raise NotGuessed(_ALIGNED)
    names, _ = delimited.names_of(found.table)
    return delimited.guess(found, names, encoding, sample, as_text=as_text), len(found.rows)


def _name(path: FilePath, taken: set[str]) -> str:
    """A name for a source, made from its file's name."""
    stem = path.name.split(".")[0] or path.name.strip(".")
    name = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower() or "source"
    name = name if not name[0].isdigit() else f"source_{name}"
    number, given = 1, name
    while given in taken:
        number += 1
        given = f"{name}_{number}"
    return given


def _about(sample: Sample, encoding: Charset, count: int) -> str:
    packed = "" if sample.compression is Compression.NONE else f", {sample.compression}"
    if sample.is_whole:
        what = f"read whole, {count:,} record{'s' if count != 1 else ''}"
    else:
        share = 100 * sample.looked_at / sample.size
        what = f"{count:,} records looked at, {share:.0f}% of {sample.size:,} bytes, from all over the file"
    return f"{what}, {encoding.name}{packed}"


def notes(answer: Answer) -> list[str]:
    """The notes for a person about a guessed source; see `together.notes`."""
    return together.notes(answer)


def guessed(paths: Sequence[FilePath], names: Sequence[str]) -> list[Answer]:
    """The sources of some files.

    Raises:
        FormatError: a file cannot be read.
        NotGuessed: a file has no records, or is in a format that is not guessed.
    """
    taken: set[str] = set()
    found = []
    for path, name in zip(paths, names, strict=True):
        try:
            found.append(look(path, name, taken))
        except NotGuessed as error:
            raise NotGuessed(f"{name}: {error}") from None
        taken.add(found[-1].guess.name)
    return found

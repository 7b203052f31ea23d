"""Combines files of one kind into one source, and collects the notes about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.cli.guess import checking, values
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cli.guess.source import Guess
    from spark_jobs.stores.location import FilePath

_MOST_REASONS = 20
#: Keys of columns with lists of words.
_WORDS = ("null_values", "true_values", "false_values")


@dataclass
class Answer:
    """A source that was guessed, and what reading its files with it gave.

    Args:
        guess: the source.
        read: what came of reading the files; None where they were not read whole.
    """

    guess: Guess
    read: checking.Read | None


@dataclass
class Group:
    """Files that one source reads.

    Args:
        of_files: the files, each with the source that would read it alone.
        answer: the source that reads all of them.
    """

    of_files: list[tuple[FilePath, Answer]]
    answer: Answer

    def notes(self) -> Iterator[str]:
        """Notes for a person, one per line. Those about a file begin with its name."""
        path, alone = self.of_files[0]
        if len(self.of_files) == 1:
            yield from (f"{path}: {line}" for line in notes(alone))
            return
        paths = f"{path} and {len(self.of_files) - 1} more"
        yield from (f"{paths}: {line}" for line in notes(self.answer))


def groups(found: Sequence[tuple[FilePath, Answer]], *, as_text: bool = False) -> Iterator[Group]:
    """The files that one source can read together: of one format, with the same options and names of columns."""
    kinds: dict[tuple[object, ...], list[tuple[FilePath, Answer]]] = {}
    for path, answer in found:
        kinds.setdefault(_kind(answer.guess), []).append((path, answer))
    for some in kinds.values():
        joined = _joined(some) if len(some) > 1 else None
        if joined is None:
            yield from (Group([one], one[1]) for one in some)
        else:
            yield Group(some, joined)


def _kind(guess: Guess) -> tuple[object, ...]:
    names = tuple(column.name for column in guess.columns)
    # Without a header, columns are the same only by chance.
    own = guess.name if guess.options.get("has_header") is False and guess.type == "csv" else ""
    return guess.type, repr(sorted(guess.options.items())), repr(guess.layout), names, own


def _joined(some: Sequence[tuple[FilePath, Answer]]) -> Answer | None:
    """The source that reads some files; None where it reads them worse than each by itself is read."""
    guesses = [answer.guess for _, answer in some]
    alike = zip(*(guess.columns for guess in guesses), strict=True)
    columns = [column for some_columns in alike if (column := _column(some_columns)) is not None]
    first = guesses[0]
    if len(columns) < len(first.columns):
        return None
    made = replace(first, paths=[path for guess in guesses for path in guess.paths], columns=columns)
    made.remarks = list(dict.fromkeys(remark for guess in guesses for remark in guess.remarks))
    made.doubts = list(dict.fromkeys(doubt for guess in guesses for doubt in guess.doubts))
    if any(answer.read is None for _, answer in some):
        return Answer(made, None)
    read = checking.read(made, [path for path, _ in some])
    alone = sum(answer.read.bad for _, answer in some if answer.read is not None)
    return Answer(made, read) if not read.refusal and read.bad <= alone else None


def _column(alike: Sequence[values.Column]) -> values.Column | None:
    """A column that several files have, with a type that takes the values of all.

    None where they are written in ways of their own: a text may then be read as something else than its file means,
    and nobody would notice.
    """
    kinds = {column.type for column in alike}
    if kinds == {"int", "float"}:
        first = next(column for column in alike if column.type == "float")
    elif len(kinds) > 1:
        return None
    else:
        first = alike[0]
    spelled = [_spelling(column) for column in alike if column.keys or column.type == first.type]
    if any(one != spelled[0] for one in spelled):
        return None
    words: dict[str, list[str]] = {}
    for column in alike:
        for key in _WORDS:
            for word in column.keys.get(key, ()):
                if word not in words.setdefault(key, []):
                    words[key].append(word)
    return replace(first, keys={**_spelling(first), **words}, is_unique=False, remarks=list(first.remarks))


def _spelling(column: values.Column) -> dict[str, object]:
    """The spelling of values, without the words for null, true and false."""
    return {key: value for key, value in column.keys.items() if key not in _WORDS}


def notes(answer: Answer) -> list[str]:
    """The notes on a guessed source, a line each: doubts first, then misfits, then the rest."""
    lines = [f"decide: {doubt}" for doubt in answer.guess.doubts]
    if answer.read is not None:
        lines += _misfits(answer.read)
    else:
        lines.append("the file is large, so records further on may not fit: a run tells them")
    return [printable(line) for line in (*lines, *answer.guess.remarks)]


def _misfits(read: checking.Read) -> list[str]:
    if read.refusal is not None:
        return [f"does not fit: {read.refusal}"]
    lines = []
    for misfit in sorted(read.misfits.values(), key=lambda one: -one.count)[:_MOST_REASONS]:
        shown = ", ".join(f"row {row}: {values.shown(value)}" for _, row, value in misfit.examples[:3] if value)
        more = ", …" if misfit.count > 3 else ""
        where = f"column {values.shown(misfit.column)}: " if misfit.column else ""
        many = f"{misfit.count} record{'s do' if misfit.count > 1 else ' does'} not fit"
        lines.append(f"{where}{many}, {misfit.reason} ({shown}{more})")
    if read.bad:
        lines.append(f"{read.bad} of {read.records} records would be dead letters")
    return lines

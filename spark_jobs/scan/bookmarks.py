"""Incremental sources: the data that earlier runs have not read, or that the command line asks for.

Each incremental source has a *mark*, an object of JSON that people can read: the files that were read, the greatest
value of a column, or the version of a table. A run gets the mark of the runs before it, and gives the one that is true
once it has published. Where marks are kept is not known here (`execute/run/bookmark.py`). No Arrow here: plans know of
incremental sources.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.scan.files import InputFile

#: The bookmark of a source as a JSON value.
Mark: TypeAlias = Mapping[str, Any]

#: The diagnostic of marks that cannot be used, or that do not fit their source any more.
UNFIT = "E913"
FILES, COLUMN, VERSION = "files", "column", "version"
_NANOSECONDS = 1_000_000_000


class Changed(StrEnum):
    """The policy for a file that was read and has changed since."""

    READ = "read"
    REFUSE = "refuse"


class Growth(StrEnum):
    """The ways in which sources grow: by files, by rows with ever greater values of a column, or by table versions."""

    FILES = "files"
    COLUMN = "column"
    VERSION = "version"


@dataclass(frozen=True)
class Incremental:
    """`incremental:` of a source, as it is written.

    Args:
        changed: what happens to files that have changed since they were read.
        column: the growing column of a table.
        delay_s: rows younger than this are left to a later run, in seconds.
    """

    changed: Changed = Changed.READ
    column: str = ""
    delay_s: float = 0.0


@dataclass(frozen=True)
class IncrementalRead:
    """The part of a source that a run has to read.

    Args:
        source: the source's name.
        settings: the configuration.
        mark: what was read before; None: nothing, so everything is new.
        since: the command line's first moment or value, from which records are read even if they were read before.
        until: the first moment or value that is not read.
    """

    source: str
    settings: Incremental
    mark: Mark | None = None
    since: str | None = None
    until: str | None = None

    @property
    def is_interval(self) -> bool:
        """True if both ends are given: then the mark is neither looked at nor moved."""
        return self.since is not None and self.until is not None

    def known(self, kind: str) -> Mark | None:
        """The mark that counts, None where everything does.

        Args:
            kind: what its sources grow by.

        Raises:
            FormatError: it is about something else (E913).
        """
        if self.mark is None or self.is_interval:
            return None
        if self.mark.get("by") != kind:
            raise self.unfit(f"is of {self.mark.get('by')!r}, and the source grows by {kind!r}")
        return self.mark

    def unfit(self, why: str) -> FormatError:
        """The error for a mark that cannot be used."""
        text = (
            f"its bookmark {why}; read everything again (`clinker bookmark reset PIPELINE --source {self.source}`), or "
            "go on from a place of your own (`clinker run --since`)"
        )
        return FormatError(text, f"source '{self.source}'", UNFIT)


@dataclass(frozen=True)
class NewFiles:
    """The files that are read, what is to be warned of, and the mark that follows; None if it stays."""

    files: tuple[InputFile, ...]
    warnings: tuple[str, ...]

    def mark(self, news: IncrementalRead, chosen: Sequence[InputFile]) -> Mark | None:
        """The mark of a run that reads some of them."""
        if news.is_interval:
            return None
        before = (news.known(FILES) or {}).get("files", {})
        return {"by": FILES, "files": {**before, **{name_of(file): stamp(file) for file in chosen}}}


def new_files(found: Sequence[InputFile], news: IncrementalRead) -> NewFiles:
    """The files of a source that are new.

    Raises:
        FormatError: a file has changed and may not, or a bound is no time (E913).
    """
    since, until = (moment(bound, news, name) for bound, name in ((news.since, "since"), (news.until, "until")))
    known = {} if since is not None else (news.known(FILES) or {}).get("files", {})
    chosen, warnings = [], []
    for file in found:
        if since is not None and file.mtime_ns < since:
            continue
        if until is not None and file.mtime_ns >= until:
            continue
        before, now = known.get(name_of(file)), stamp(file)
        if before == now:
            continue
        if before is not None:
            text = f"was read before, and has changed: it had {before}, and has {now}"
            if news.settings.changed is Changed.REFUSE:
                advice = "give what is new a name of its own, or say `changed: read` to read the whole file again"
                raise FormatError(f"{text}; {advice}", file.name, UNFIT)
            warnings.append(f"source '{news.source}': {file.name} {text}; all of it is read again")
        chosen.append(file)
    return NewFiles(tuple(chosen), tuple(warnings))


def name_of(file: InputFile) -> str:
    """A file's name in marks: the same however its path is spelled."""
    return file.name if file.is_object else posixpath.normpath(file.name)


def stamp(file: InputFile) -> str:
    """A text that distinguishes a file from a later one of the same name: its size, and its version or time."""
    if file.version:
        return f"{file.size} bytes, version {file.version}"
    seconds, rest = divmod(file.mtime_ns, _NANOSECONDS)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{file.size} bytes of {moment}.{rest:09d}Z"


def moment(text: str | None, news: IncrementalRead, option: str) -> int | None:
    """A bound as nanoseconds since 1970; without an offset it is in UTC.

    Raises:
        FormatError: it is no time (E913).
    """
    if text is None:
        return None
    try:
        return round(time(text).timestamp() * 1_000_000) * 1000
    except ValueError:
        message = f"--{option} {text} is no date or time; write 2026-01-31 or 2026-01-31T06:00:00Z"
        raise FormatError(message, f"source '{news.source}'", UNFIT) from None


def time(text: str) -> datetime:
    """A bound as a moment in UTC; that is where it is without an offset, too.

    Raises:
        ValueError: it is no time.
    """
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)

"""Incremental reading of Delta tables: finds the files that versions have added, from the table's log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from spark_jobs.formats.delta import log
from spark_jobs.formats.delta.options import DeltaRead
from spark_jobs.formats.tables import growth
from spark_jobs.scan import bookmarks

if TYPE_CHECKING:
    from collections.abc import Collection

    from deltalake import DeltaTable

    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark
    from spark_jobs.scan.files import InputFile

_LEAST = timedelta(microseconds=1)


@dataclass(frozen=True)
class _Version:
    """The changes of a version, from the log.

    Args:
        added: the files that came with new rows, as they are called in the table's folder.
        takes: whether rows of earlier versions went.
        operation: the operation of its writer.
    """

    added: frozenset[str] = field(default_factory=frozenset)
    takes: bool = False
    operation: str = ""


def news(
    options: DeltaRead, place: SourceContext, declared: Collection[str], wanted: IncrementalRead
) -> tuple[tuple[InputFile, ...], Mark | None]:
    """See `Reader.news`.

    Raises:
        FormatError: see `log.files`; or the mark does not fit the table, or rows went since (E913).
    """
    growth.refuse_chosen(
        wanted, tuple(key for key in ("version", "timestamp") if getattr(options, key) not in (None, ""))
    )
    root = log.root_of(place)
    table = log.opened(root, place.path, place.stores)
    own, newest = str(table.metadata().id), table.version()
    through = growth.known(wanted, own)
    if through is not None and through > newest and wanted.since is None:
        raise wanted.unfit(f"is at version {through}, and the newest one is {newest}")
    since, until = (
        _place(table, place, bound, wanted, option)
        for bound, option in ((wanted.since, "since"), (wanted.until, "until"))
    )
    span = growth.span(wanted, through, since, until, newest + 1)
    mark = growth.mark(own, span.end - 1) if span.is_noted else None
    if span.is_empty:
        return (), mark
    if span.first is None:
        return log.files(replace(options, version=span.end - 1), place, declared, wanted.source), mark
    return _added(root, place, declared, wanted, range(span.first, span.end)), mark


def _place(
    table: DeltaTable, place: SourceContext, bound: str | None, wanted: IncrementalRead, option: str
) -> int | None:
    """The first version that a bound of the command line speaks of: a number, or a time.

    Raises:
        FormatError: it is neither (E913), or the log cannot be read (E912).
    """
    if bound is None:
        return None
    if bound.isdecimal():
        return int(bound)
    nanoseconds = bookmarks.moment(bound, wanted, option)
    assert nanoseconds is not None
    before = log.version_at(table, bookmarks.time(bound) - _LEAST, place.path)
    return 0 if before is None else before + 1


def _added(
    root: str, place: SourceContext, declared: Collection[str], wanted: IncrementalRead, numbers: range
) -> tuple[InputFile, ...]:
    """The files that some versions have added, in the order in which they came.

    Raises:
        FormatError: a version has done something else as well, or the log does not have it any more (E913).
    """
    added: dict[str, int] = {}
    for number in numbers:
        found = _read(root, place, number, wanted)
        if found.takes:
            raise growth.taken(wanted, f"version {number}", found.operation, str(number + 1))
        added |= dict.fromkeys(found.added, number)
    chosen: list[InputFile] = []
    # The newest version no longer has a file that OPTIMIZE has rewritten since: look it up in earlier versions.
    for number in (numbers[-1], *reversed(numbers[:-1])):
        if any(at <= number for at in added.values()) and (number == numbers[-1] or number in added.values()):
            files = log.files(DeltaRead(version=number), place, declared, wanted.source)
            here = {file.path.removeprefix(f"{file.table.snapshot.root}/"): file for file in files}
            for name in [name for name, at in added.items() if at <= number and name in here]:
                chosen.append(here[name])
                del added[name]
    if added:
        raise wanted.unfit(f"needs {min(added)}, which no version of the table has that is kept")
    return tuple(sorted(chosen, key=lambda file: (file.mtime_ns, file.path)))


def _read(root: str, place: SourceContext, number: int, wanted: IncrementalRead) -> _Version:
    """Read the changes of a version from the log.

    Raises:
        FormatError: it does not have it any more (E913), or it cannot be read (E912).
    """
    data = log.entry(root, number, place)
    if data is None:
        raise wanted.unfit(f"needs version {number}, which the log of the table does not have any more")
    added: set[str] = set()
    takes, operation = False, ""
    for line in data.splitlines():
        action: dict[str, Any] = json.loads(line) if line.strip() else {}
        operation = action.get("commitInfo", {}).get("operation", operation)
        # An addition that says nothing has new rows, and so has one of a removal taken them away.
        if "add" in action and action["add"].get("dataChange", True):
            added.add(unquote(action["add"]["path"]))
        takes = takes or ("remove" in action and action["remove"].get("dataChange", True)) or "cdc" in action
    return _Version(frozenset(added), takes, str(operation))

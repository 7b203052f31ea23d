"""Incremental reading of Iceberg tables: finds the files that snapshots have added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.formats.iceberg import catalog as catalogs
from spark_jobs.formats.iceberg import snapshots
from spark_jobs.formats.tables import growth
from spark_jobs.scan import bookmarks
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from spark_jobs.formats.iceberg.options import IcebergRead
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark
    from spark_jobs.scan.files import InputFile

_NANOSECONDS = 1_000_000


def news(
    options: IcebergRead, place: SourceContext, declared: Collection[str], wanted: IncrementalRead
) -> tuple[tuple[InputFile, ...], Mark | None]:
    """See `Reader.news`.

    Raises:
        FormatError: see `snapshots.files`; or the mark does not fit the table, or rows went since (E913).
    """
    chosen = {"snapshot": options.snapshot is not None, "timestamp": bool(options.timestamp), "ref": bool(options.ref)}
    growth.refuse_chosen(wanted, tuple(key for key, is_set in chosen.items() if is_set))
    table = snapshots.table_of(options, place)
    own = str(table.metadata.table_uuid)
    with catalogs.translated_errors(options.table, table.catalog.properties):
        line = _line(table)
        numbers = [each.snapshot_id for each in line]
        # The oldest snapshot that is kept says which one it follows: that may have expired.
        known = [line[0].parent_snapshot_id, *numbers] if line else []
        through = growth.known(wanted, own)
        if through is not None and through not in known:
            if wanted.since is None:
                why = (
                    "and neither it nor the one after it is among those before the newest one: they have expired, or "
                    "the table was rolled back"
                )
                raise wanted.unfit(f"is at snapshot {through}, {why}")
            through = None
        since, until = (
            _place(line, bound, wanted, option) for bound, option in ((wanted.since, "since"), (wanted.until, "until"))
        )
        before = None if through is None else known.index(through) - 1
        span = growth.span(wanted, before, since, until, len(line))
        mark = growth.mark(own, numbers[span.end - 1]) if span.is_noted else None
        if span.is_empty:
            return (), mark
        entries = None if span.first is None else _added(table, line[span.first : span.end], wanted)
        return snapshots.of_snapshot(table, line[span.end - 1], options.table, place, declared, entries), mark


def _line(table: Table) -> list[Snapshot]:
    """List the newest snapshot and its ancestors, as far as the table has them, oldest first."""
    from pyiceberg.table.snapshots import ancestors_of

    return [*reversed([*ancestors_of(table.current_snapshot(), table.metadata)])]


def _place(line: Sequence[Snapshot], bound: str | None, wanted: IncrementalRead, option: str) -> int | None:
    """The place of the first snapshot that a bound of the command line speaks of: an id, or a time.

    Raises:
        FormatError: it is neither, or snapshots have expired that it may speak of (E913).
    """
    if bound is None:
        return None
    source = f"source '{wanted.source}'"
    if bound.isdecimal():
        found = next((at for at, each in enumerate(line) if each.snapshot_id == int(bound)), None)
        if found is None:
            text = f"--{option} {bound}: the table has no such snapshot before its newest one; give a time, or its id"
            raise FormatError(text, source, bookmarks.UNFIT)
        return found
    nanoseconds = bookmarks.moment(bound, wanted, option)
    assert nanoseconds is not None
    found = next((at for at, each in enumerate(line) if each.timestamp_ms * _NANOSECONDS >= nanoseconds), len(line))
    if option == "since" and found == 0 and line and line[0].parent_snapshot_id is not None:
        text = f"--since {bound}: snapshots of that time have expired; the oldest one is {line[0].snapshot_id}"
        raise FormatError(text, source, bookmarks.UNFIT)
    return found


def _added(table: Table, line: Sequence[Snapshot], wanted: IncrementalRead) -> list[ManifestEntry]:
    """The files that some snapshots have added.

    Raises:
        FormatError: a snapshot has done something else as well (E913).
    """
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
    from pyiceberg.table.snapshots import Operation

    found: list[ManifestEntry] = []
    for at, snapshot in enumerate(line):
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation is Operation.REPLACE:  # the same rows in other files
            continue
        own = [each for each in snapshot.manifests(table.io) if each.added_snapshot_id == snapshot.snapshot_id]
        if operation is not Operation.APPEND or any(each.content == ManifestContent.DELETES for each in own):
            following = str(line[at + 1].snapshot_id) if at + 1 < len(line) else "the next snapshot"
            name = "" if operation is None else operation.value
            raise growth.taken(wanted, f"snapshot {snapshot.snapshot_id}", name, following)
        for manifest in own:
            entries = manifest.fetch_manifest_entry(table.io)
            found += [each for each in entries if each.status == ManifestEntryStatus.ADDED]
    return found

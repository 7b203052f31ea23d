"""A dead-letter file as a work list: the remaining entries, and a ledger of the finished ones.

The file holds the entries that are left. People mend its cells; replaying and discarding take entries out of it. Each
entry that leaves is a line of the ledger, so nothing is lost, and a saved older copy of the file does nothing twice.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from spark_jobs.contract import MERGED
from spark_jobs.stores import location, opening
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_jobs.stores.location import FilePath

PREFIX = "_cxl_dlq_"
#: The prefix of correlation keys in the file.
KEY_PREFIX = "$ck."
ID, TRIES = f"{PREFIX}id", f"{PREFIX}tries"
#: The suffix of the ledger of a dead-letter file.
LEDGER = ".ledger.ndjson"
#: The end of a build record's detail if a combine refused it with a driver's record.
_JOINED = re.compile(r" \(joined to (?P<file>.*), row (?P<row>\d+)\)\Z", re.DOTALL)
#: The end of a record's detail if it equals an earlier one and should not.
_EQUAL = re.compile(r" \(the first is in (?P<file>.*), row (?P<row>\d+)\)\Z", re.DOTALL)
_EVENT = re.compile(r'\{"id": "(?P<id>[^"]*)", "event": "(?P<kind>[a-z]+)"')
_OPENERS: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class NotDeadLetters(ValueError):
    """A file that is no dead-letter file, or no longer one; the message says where and why."""


@dataclass(frozen=True)
class Entry:
    """A dead letter as its file has it, by column."""

    cells: Mapping[str, str]

    def _of(self, name: str) -> str:
        return self.cells.get(PREFIX + name, "")

    @property
    def id(self) -> str:
        """Its id, the same through all replays."""
        return self.cells[ID]

    @property
    def source(self) -> str:
        """The source of the record."""
        return self._of("source_name")

    @property
    def file(self) -> str:
        """The file that the record was read from."""
        return self._of("source_file")

    @property
    def row(self) -> str:
        """The record's number in it."""
        return self._of("source_row")

    @property
    def stage(self) -> str:
        """The stage at which the record failed."""
        return self._of("stage")

    @property
    def field(self) -> str:
        """The field that failed."""
        return self._of("triggering_field")

    @property
    def value(self) -> str:
        """Its value; of a record that could not be read its text."""
        return self._of("triggering_value")

    @property
    def category(self) -> str:
        """The kind of failure."""
        return self._of("error_category")

    @property
    def detail(self) -> str:
        """The error detail of the entry."""
        return self._of("error_detail")

    @property
    def tries(self) -> int:
        """The number of times that the record has failed."""
        written = self.cells.get(TRIES, "")
        return int(written) if written.isdigit() else 1

    @property
    def is_made(self) -> bool:
        """True if it is the row of an aggregate, which was read from no file."""
        return self.source == MERGED

    @property
    def record(self) -> dict[str, str]:
        """The columns of the record."""
        return {name: cell for name, cell in self.cells.items() if not name.startswith((PREFIX, KEY_PREFIX))}

    @property
    def key(self) -> tuple[str, ...]:
        """The correlation key; empty without one."""
        found = tuple(cell for name, cell in self.cells.items() if name.startswith(KEY_PREFIX))
        return found if any(found) else ()

    @property
    def origin(self) -> tuple[str, str, str]:
        """The identity of its record: source, file and row; without a row, the entry's own id."""
        return (self.source, self.file, self.row) if self.row else (self.source, self.file, self.id)

    @property
    def joined_to(self) -> tuple[str, str] | None:
        """File and row of the driver's record with which a combine refused this record of its build side."""
        found = _JOINED.search(self.detail)
        return (found["file"], found["row"]) if found else None

    @property
    def reason(self) -> tuple[str, str, str]:
        """The stage, field and category that it shares with others."""
        return self.stage, self.field, self.category


@dataclass(frozen=True)
class EntryFilter:
    """Selects the entries that match all given properties."""

    ids: frozenset[str] = frozenset()
    stage: str | None = None
    field: str | None = None
    category: str | None = None

    def takes(self, entry: Entry) -> bool:
        """True if an entry is wanted."""
        asked = ((self.stage, entry.stage), (self.field, entry.field), (self.category, entry.category))
        return (not self.ids or entry.id in self.ids) and all(want is None or want == found for want, found in asked)


@dataclass
class WorkList:
    """The entries of a file that are left, and the number of each event in its ledger."""

    path: FilePath
    names: list[str]
    entries: list[Entry]
    #: Entries of the file that the ledger knows as done: the file is an older copy of itself.
    done_before: int = 0
    events: Counter[str] = field(default_factory=Counter)
    #: Entries that ledgers of other files know as done, by ledger: the file is a copy under another name.
    done_elsewhere: dict[Path, int] = field(default_factory=dict)

    @property
    def ledger(self) -> FilePath:
        """The path of the ledger."""
        return ledger_of(self.path)

    def drivers(self) -> dict[str, Entry]:
        """The driver records' entries for entries that a combine refused together with them, by id."""
        heads = {(entry.stage, entry.file, entry.row): entry for entry in self.entries if entry.joined_to is None}
        found = {}
        for entry in self.entries:
            driver = entry.joined_to and heads.get((entry.stage, *entry.joined_to))
            if driver:
                found[entry.id] = driver
        return found

    def leave_out_done(self, ledgers: Iterable[Path]) -> None:
        """Leave out the entries that the ledgers of other files know as done.

        Raises:
            OSError: one cannot be read.
        """
        for ledger in ledgers:
            done = _done_in(ledger, {entry.id for entry in self.entries})
            if done:
                self.entries = [entry for entry in self.entries if entry.id not in done]
                self.done_elsewhere[ledger] = len(done)


def ledger_of(path: FilePath) -> FilePath:
    """The ledger of a dead-letter file."""
    return path.with_name(path.name + LEDGER)


def ledgers_in(folder: FilePath) -> list[Path]:
    """All ledgers in a folder; of a store none, for each would have to be fetched."""
    if not isinstance(folder, Path):
        return []
    return sorted(path for path in folder.glob(f"*{LEDGER}") if path.is_file())


def _done_in(ledger: Path, ids: set[str]) -> set[str]:
    """The entries that a ledger marks as done. Entries of other files and unknown lines are ignored."""
    done = set()
    with ledger.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            event = _EVENT.match(line)
            if event and event["id"] in ids and event["kind"] != "failed":
                done.add(event["id"])
    return done


def read(path: FilePath, stores: StoreSettings | None = None) -> WorkList:
    """The entries of a dead-letter file that are still to do, by its ledger and by others in its folder.

    A spreadsheet may have saved it with other separators.

    Args:
        path: the file, which may be in a store.
        stores: how stores are reached.

    Raises:
        OSError: it cannot be read.
        NotDeadLetters: it is none, or a cell was broken while it was edited.
    """
    names, entries = _entries(path, stores or StoreSettings())
    done, events = _ledger(ledger_of(path), stores or StoreSettings())
    left = [entry for entry in entries if entry.id not in done]
    read = WorkList(path, names, left, len(entries) - len(left), events)
    read.leave_out_done(ledger for ledger in ledgers_in(path.parent) if ledger != read.ledger)
    return read


def _opened(path: FilePath, stores: StoreSettings) -> IO[bytes]:
    """A file as it is: a local one, or an object, all of it."""
    if not isinstance(path, location.Location):
        return path.open("rb")
    store = opening.store(path.scheme, stores.resolved())
    found = store.describe(path)
    if found is None:
        raise StoreError(Kind.MISSING, "there is no such object", str(path))
    return io.BytesIO(store.fetch(path, 0, found.size, found.version) if found.size else b"")


def _entries(path: FilePath, stores: StoreSettings) -> tuple[list[str], list[Entry]]:
    csv.field_size_limit(sys.maxsize)
    ending = _ending(path)
    if ending in (".zst", ".lz4"):
        raise NotDeadLetters(f"{path} is compressed in a way that is not read here: unpack it first")
    opener = _OPENERS.get(ending, io.TextIOWrapper)
    mode = {} if opener is io.TextIOWrapper else {"mode": "rt"}
    try:
        with _opened(path, stores) as packed, opener(packed, **mode, encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            delimiter = next((mark for mark in ",;\t" if f"{ID}{mark}" in head.replace('"', "")), ",")
            file.seek(0)
            return _parsed(path, csv.reader(file, delimiter=delimiter, strict=True))
    except UnicodeDecodeError as error:
        raise NotDeadLetters(f"{path} is not UTF-8 text: save it as UTF-8 ({error.reason})") from error


def _ending(path: FilePath) -> str:
    return os.path.splitext(path.name)[1]


def _parsed(path: FilePath, lines: Any) -> tuple[list[str], list[Entry]]:
    entries: list[Entry] = []
    known: dict[str, int] = {}
    try:
        names: list[str] = next(lines, [])
        if ID not in names:
            raise NotDeadLetters(f"{path} is not a dead-letter file: it has no column {ID}")
        for cells in lines:
            if not any(cells):
                continue
            if len(cells) != len(names):
                raise NotDeadLetters(
                    f"{path}, line {lines.line_num}: {len(cells)} cells, but the header has {len(names)}; "
                    'put cells with commas, quotes or line ends in quotes: "…"'
                )
            entry = Entry(dict(zip(names, cells, strict=True)))
            if entry.id in known:
                raise NotDeadLetters(
                    f"{path}, line {lines.line_num}: the id {entry.id} is on line {known[entry.id]}, too"
                )
            known[entry.id] = lines.line_num
            entries.append(entry)
    except csv.Error as error:
        raise NotDeadLetters(f"{path}, line {lines.line_num}: {error}; close the quotes that are open there") from error
    return names, entries


def _ledger(path: FilePath, stores: StoreSettings) -> tuple[set[str], Counter[str]]:
    """The ids that are done, and how many events of each kind there are."""
    done: set[str] = set()
    events: Counter[str] = Counter()
    try:
        with _opened(path, stores) as file:
            text = file.read().decode()
    except FileNotFoundError:
        return done, events
    except StoreError as error:
        if error.kind is not Kind.MISSING:
            raise
        return done, events
    # Values may have other signs that end lines elsewhere.
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            event = json.loads(line)
            events[event["event"]] += 1
            if event["event"] != "failed":
                done.add(event["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise NotDeadLetters(f"{path}, line {number}: it is not an event of a ledger ({error})") from error
    return done, events


def with_driver_place(detail: str, file: str, row: str) -> str:
    """The detail of a build record's entry with another place of the driver's record."""
    return _JOINED.sub("", detail) + f" (joined to {file}, row {row})"


def with_equal_place(detail: str, place_of: Callable[[str, str], tuple[str, str] | None]) -> str:
    """The detail of a record's entry that equals an earlier one, with another place of that one, if it has one."""
    found = _EQUAL.search(detail)
    place = found and place_of(found["file"], found["row"])
    if not found or not place:
        return detail
    file, row = place
    return f"{detail[: found.start()]} (the first is in {file}, row {row})"


def event(kind: str, entry: Entry, **facts: Any) -> str:
    """A line of the ledger: what became of an entry, and the whole of it."""
    known = {"id": entry.id, "event": kind, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}
    return json.dumps({**known, "tries": entry.tries, **facts, "entry": dict(entry.cells)}, ensure_ascii=False) + "\n"


def text_of(names: Sequence[str], entries: Iterable[Entry]) -> bytes:
    """A dead-letter file of some entries; the count of tries is a column as soon as one has failed again."""
    entries = list(entries)
    columns = list(names)
    if TRIES not in columns and any(entry.tries > 1 for entry in entries):
        place = 1 + max(place for place, name in enumerate(columns) if name.startswith(PREFIX))
        columns.insert(place, TRIES)
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(entry, name) for name in columns] for entry in entries])
    return file.getvalue().encode()


def _cell(entry: Entry, name: str) -> str:
    return str(entry.tries) if name == TRIES else entry.cells.get(name, "")


def compressed_for(path: FilePath, data: bytes) -> bytes:
    """The bytes of a file with a name, which may ask for compression."""
    match _ending(path):
        case ".gz":
            return gzip.compress(data)
        case ".bz2":
            return bz2.compress(data)
        case ".xz":
            return lzma.compress(data)
    return data

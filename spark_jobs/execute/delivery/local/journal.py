"""The journal of a publishing run: its renames, so that another run can complete them.

It is in one of the run's draft folders, to which all others point. Its only paths are the folders that receive files.
Files have only names: a file moves from the run's draft folder in such a folder into the folder itself. So a forged
journal could at worst publish files from draft folders of this user, next to them.

For other places into which the run publishes, it has only addresses (`delivery/participant.py`). They are also in a
file of their own that is written before anything is prepared there; the journal decides that they count.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs import ownership
from spark_jobs.disk import durable
from spark_jobs.execute.delivery import participant
from spark_jobs.execute.delivery.local.draft_folder import JOURNAL
from spark_jobs.execute.delivery.participant import Address

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: In every folder of a publishing run: the path of the folder with the journal.
POINTER = "journal.at"
#: In the folder for the journal: the other places into which the run publishes.
ANNOUNCED = "announced.json"
#: The limit of a journal in bytes: some million files. An entry has about a hundred bytes, or some hundred.
MOST_BYTES = 256 << 20
_LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class Rename:
    """A finished file and its target. `source` None removes the target (dead letters of an older run)."""

    source: str | None
    target: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A rename in the journal.

    Args:
        folder: the number of the folder that receives the file.
        source: the file's name in the draft folder there; None removes the target.
        target: the final name.
        identity: device, inode and time of the file to remove: another file of that name belongs to a later run.
    """

    folder: int
    source: str | None
    target: str
    identity: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Journal:
    """The contents of a journal: real paths of folders, the files that they receive, and the other places."""

    folders: tuple[str, ...]
    entries: tuple[Entry, ...]
    others: tuple[Address, ...] = ()

    @classmethod
    def read(cls, folder: int) -> Journal | None:
        """The journal in an open draft folder; None if there is none.

        Raises:
            NotOwnError: others may have written it, or it is no journal.
            OSError: it cannot be read.
        """
        try:
            data = ownership.read(JOURNAL, folder, MOST_BYTES)
        except FileNotFoundError:
            return None
        try:
            known = json.loads(data)
            entries = tuple(_entry(each, len(known["folders"])) for each in known["entries"])
            others = tuple(map(Address.of, known.get("others", ())))
            return cls(tuple(_folder(each) for each in known["folders"]), entries, others)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ownership.NotOwnError(JOURNAL, "is not the journal of a run") from error


def write(renames: Sequence[Rename], place: Path, others: Sequence[Address] = ()) -> None:
    """Write the renames into a journal in a draft folder. All sources are in draft folders next to their targets.

    Raises:
        OSError: it cannot be written, or is too long to be read again.
    """
    # Entries are written one by one: for a million files, a list of all would take several times the memory of the
    # text.
    data, numbers, real = bytearray(b'{"entries":['), dict[str, int](), dict[str, str]()
    for position, rename in enumerate(renames):
        folder, name = os.path.split(rename.target)
        if folder not in real:
            real[folder] = os.path.realpath(folder)
        number = numbers.setdefault(real[folder], len(numbers))
        source = os.path.basename(rename.source) if rename.source else None
        if position:
            data += b","
        data += _as_json([number, source, name, None if source else identity(rename.target)]).encode()
    data += f'],"folders":{_as_json([*numbers])},"others":{_as_json(participant.as_json(others))}}}'.encode()
    if len(data) > MOST_BYTES:
        text = f"the journal of {len(renames)} files would have {len(data)} bytes, more than {MOST_BYTES}"
        raise OSError(errno.EFBIG, f"{text}: write fewer files in one run", str(place / JOURNAL))
    durable.write_file(place / JOURNAL, data)


def announce(others: Sequence[Address], place: Path) -> None:
    """Write the addresses of participants that will be prepared into a draft folder."""
    durable.write_file(place / ANNOUNCED, _as_json(participant.as_json(others)).encode())


def announced(folder: int) -> tuple[Address, ...]:
    """The announced participants in an open draft folder.

    Raises:
        NotOwnError: others may have written the list, or it is no list of addresses.
        OSError: it cannot be read.
    """
    try:
        return tuple(map(Address.of, json.loads(ownership.read(ANNOUNCED, folder, MOST_BYTES))))
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, RecursionError) as error:
        raise ownership.NotOwnError(ANNOUNCED, "is not written by a run") from error


def point(folder: Path, place: str) -> None:
    """Write a pointer to the draft folder with the journal into another draft folder."""
    durable.write_file(folder / POINTER, os.fsencode(place))


def pointed(folder: int, run: str) -> str | None:
    """The place of the journal to which an open draft folder points; None if the run had not written it yet.

    Args:
        folder: a descriptor of the draft folder.
        run: the name that all draft folders of the run share.

    Raises:
        NotOwnError: others may have written it, or it names no draft folder of this run.
        OSError: it cannot be read.
    """
    try:
        place = os.fsdecode(ownership.read(POINTER, folder, _LONGEST_PATH))
    except FileNotFoundError:
        return None
    if "\0" in place or os.path.basename(place) != run or os.path.realpath(place) != place:
        raise ownership.NotOwnError(POINTER, "names no staging folder of its run")
    return place


def identity(path: str, folder: int | None = None) -> tuple[int, int, int] | None:
    """The identity that distinguishes a file from a later one of the same name."""
    try:
        found = os.stat(path, dir_fd=folder)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


#: JSON without spaces.
_as_json = json.JSONEncoder(separators=(",", ":")).encode


def _folder(known: Any) -> str:
    if not isinstance(known, str) or not os.path.isabs(known) or "\0" in known:
        raise ValueError(known)
    return known


def _entry(known: Any, folders: int) -> Entry:
    number, source, target, found = known
    if type(number) is not int or not 0 <= number < folders:
        raise ValueError(number)
    if found is not None and (len(found) != 3 or any(type(each) is not int for each in found)):
        raise ValueError(found)
    return Entry(number, None if source is None else _name(source), _name(target), tuple(found) if found else None)


def _name(known: Any) -> str:
    """A name in a folder, not a path to another one."""
    if not isinstance(known, str) or known in ("", ".", "..") or "/" in known or "\0" in known:
        raise ValueError(known)
    return known

"""HDFS as a store, through WebHDFS: a version is the number of an inode, which no other file ever has, with its length.

A namenode carries out one request after the other, so only one run can rename a file to a free name. Renamed files are
complete, because everything is first written to a folder `.clinker-put-…` beside its name, which recovery treats as
the draft of a dead run. A file that replaces a known version first takes a name derived from that version; a run that
then finds another file than its own under this name has lost.

An upload consists of files in the depot of a run. Whole parts are moved there, and the namenode joins the blocks of
all, so no byte is copied or sent twice. Joined files are gone, so completing an upload again begins with finding out
how far it has got.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from spark_jobs.stores import writing
from spark_jobs.stores.objects import Object, Page
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.webhdfs import WebHdfs
from spark_jobs.stores.writing import ABSENT, MARK, Limits, ObjectInfo, Upload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import HdfsSettings
    from spark_jobs.stores.webhdfs import Answer

#: Files of any length are joined as they are; cutting one would mean that a task reads and sends it. Pieces are long,
#: for each becomes a block.
_LIMITS = Limits(least_sent=0, least_copied=1 << 20, most_copied=5 << 40, most_parts=30_000, piece=32 << 20)
#: The names of joined files stand in the address of the request: so many bytes of them at a time.
_NAMES_BYTES = 16_000
#: Folders of this product begin so; empty ones go.
_HIDDEN = ".clinker-"
_ATTRIBUTE = f"user.{MARK}"
#: A process that replaces a version takes milliseconds; after so many seconds it is taken to be dead.
_CLAIM_S = 30.0
_PAUSE_S = 0.05
_THREADS = 16
#: So often something is begun again that another process has disturbed.
_TRIES = 20


@dataclass(frozen=True)
class Hdfs:
    """See `writing.WritableStore`. The settings are resolved ones."""

    settings: HdfsSettings

    def describe(self, location: Location) -> Object | None:
        found = self._status(location)
        return None if found is None else _object(location, found[0])

    def pages(self, prefix: Location, *, deep: bool, most: int | None = None) -> Iterator[Page]:
        waiting = [(prefix.parent, prefix.name)]
        while waiting:
            folder, start = waiting.pop()
            found: list[Location] = []
            for entries in self._listed(folder, start):
                files = [each for each in entries if each["type"] == "FILE"]
                folders = [folder / each["pathSuffix"] for each in entries if each["type"] == "DIRECTORY"]
                found += folders
                objects = tuple(_object(folder / each["pathSuffix"], each) for each in files)
                yield Page(objects, () if deep else tuple(f"{each.key}/" for each in folders))
            if deep:
                waiting += [(each / "", "") for each in reversed(found)]

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        if start >= end:
            return b""
        inode = version.partition("-")[0]
        if inode not in ("", "0"):
            with suppress(StoreError):
                data = self._opened(location, start, end, f"/.reserved/.inodes/{inode}")
                if len(data) == end - start:
                    return data
        # It is gone, or the server knows no inodes: then nobody must have replaced it before or meanwhile.
        if version:
            self._must_be(location, version)
        data = self._opened(location, start, end, _path(location))
        if version:
            self._must_be(location, version)
        if len(data) != end - start:
            raise StoreError(Kind.FAILED, "the store gave another number of bytes than was asked for", str(location))
        return data

    def look(self, location: Location) -> ObjectInfo | None:
        found = self._status(location)
        if found is None:
            return None
        status, now = found
        age_s = parsedate_to_datetime(now).timestamp() - status["modificationTime"] / 1000 if now else 0.0
        return ObjectInfo(_version(status), status["length"], age_s, self._marked(location, status))

    def get(self, location: Location) -> bytes | None:
        return writing.small(self, location)

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        _path(location)
        aside = location.parent / f"{_HIDDEN}put-{_digest(location.name)}" / ""
        for _ in range(_TRIES):
            written, version = aside / uuid.uuid4().hex, ""
            try:
                self._written(written, data, mark)
                version = self._known_version(written)
                if when in (None, ABSENT):
                    self._renamed(written, location, replaces=when is None)
                elif not self._swapped(written, location, version, str(when)):
                    continue
                self._tidied(aside, most=1)
                return version
            except StoreError as error:
                # A recovery has taken it for remains, or the answer of the request that renamed it was lost.
                if error.kind is Kind.MISSING:
                    if version and self._known_version(location) == version:
                        self._tidied(aside, most=1)
                        return version
                    continue
                self.delete(written)
                if when is None:
                    raise
                return writing.mine(self, error, location, mark, when)
        text = f"it could not be written {_TRIES} times, because another process removes what is written: run again"
        raise StoreError(Kind.FAILED, text, str(location))

    def limits(self, location: Location) -> Limits:
        return _LIMITS

    def begin(self, location: Location, depot: Location, mark: str = "") -> Upload:
        """See `writing.WritableStore`: an upload is called as the folder of its files."""
        return Upload(location, f"{(depot / '').key}{uuid.uuid4().hex}/")

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        return self._sent(upload, f"{number:06}", data)

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        """See `writing.WritableStore`: a whole file is joined as it is; of others a task sends the range."""
        found = self._status(source)
        if found is not None and (start, end) == (0, found[0]["length"]):
            return json.dumps([[source.key, end]])
        fetch, send = partial(self.fetch, source, version=""), partial(self._sent, upload)
        return writing.sent_as_objects(fetch, send, number, start, end)

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        target, version = upload.location, ""
        if mark and (found := self.look(target)) is not None and found.mark == mark:
            return found.version
        try:
            whole = self._joined(upload, tags)
            if mark:
                self._mark(whole, mark)
            version = self._known_version(whole)
            self._asked("PUT", "MKDIRS", target.parent)
            if when not in (None, ABSENT):
                self._must_be(target, str(when), writing.taken(target))
            self._renamed(whole, target, replaces=when != ABSENT)
        except StoreError as error:
            # The answer of the request that renamed it may have been lost.
            if error.kind is not Kind.MISSING or not version or self._known_version(target) != version:
                return writing.mine(self, error, target, mark, when)
        self._tidied(target.at(upload.id))
        return version

    def reads(self, upload: Upload, tags: Sequence[str]) -> list[Location]:
        """See `writing.WritableStore`: they are moved."""
        return [upload.location.at(key) for key in (upload.id, *(name for name, _ in _names(tags)))]

    def abort(self, upload: Upload) -> None:
        there = upload.location.at(upload.id)
        for page in self.pages(there, deep=True):
            for each in page.objects:
                self.delete(each.location)
        self._tidied(there)

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        """See `writing.WritableStore`: uploads are files in the depots of runs, and are removed with these.

        Empty folders of runs belong to no upload, and are listed like one, so that they are removed.
        """
        if not prefix.key.endswith("/") or not _is_hidden(prefix):
            return
        waiting = [prefix]
        while waiting:
            folder = waiting.pop()
            entries = [each for page in self._listed(folder, "") for each in page]
            if not entries:
                yield Upload(folder, folder.key)
            waiting += [folder / each["pathSuffix"] / "" for each in entries if each["type"] == "DIRECTORY"]

    def delete(self, location: Location) -> None:
        """See `writing.WritableStore`; folders of runs go with the last file in them."""
        self._removed(location)
        self._tidied(location.parent)

    # ---- helpers -------------------------------------------------------------------------------------------------

    def _swapped(self, written: Location, location: Location, version: str, when: str) -> bool:
        """Whether a file has replaced the version that it must; False to try again.

        The name in between can only be had by one process at a time. One that has died there is pushed aside, which
        harms nobody: whoever finds another file than its own under the name has not replaced it.

        Raises:
            StoreError: another version is there (`Kind.TAKEN`).
        """
        claim = written.with_name(_digest(when))
        until = time.monotonic() + 2 * _CLAIM_S
        while True:
            try:
                self._renamed(written, claim, replaces=False)
                break
            except StoreError as error:
                if error.kind is not Kind.TAKEN or time.monotonic() > until:
                    raise
            self._must_be(location, when, writing.taken(location))
            other = self.look(claim)
            if other is not None and other.age_s > _CLAIM_S:
                self._removed(claim)
            time.sleep(_PAUSE_S)
        try:
            self._must_be(location, when, writing.taken(location))
        except StoreError:
            self._removed(claim)
            raise
        try:
            self._renamed(claim, location, replaces=True)
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise
        if self._known_version(location) == version:
            return True
        self._must_be(location, when, writing.taken(location))
        return False

    def _joined(self, upload: Upload, tags: Sequence[str]) -> Location:
        """The file that the parts of an upload are made into.

        Raises:
            StoreError: one of them is missing, or is not as it was written.
        """
        there = upload.location.at(upload.id)
        names = _names(tags)
        full = [(key, size) for key, size in names if size] or names[:1]
        if "," in there.key and len(full) > 1:
            text = "HDFS joins no files in folders whose names have commas: write to another folder"
            raise StoreError(Kind.UNSUPPORTED, text, str(upload.location))
        # All of them must be in one folder.
        places = [
            there.at(key) if key.startswith(there.key) else there / f"{number:06}-moved"
            for number, (key, _) in enumerate(full)
        ]
        first, sizes = places[0], [*accumulate(size for _, size in full)]
        for _ in range(_TRIES + len(full)):
            found = self._status(first)
            if found is None or found[0]["length"] == sizes[0]:
                self._gathered([there.at(key) for key, _ in full], places)
                found = self._status(first)
            if found is None:
                raise StoreError(Kind.MISSING, "a part of the upload is gone", str(first))
            if found[0]["length"] not in sizes:
                text = "a part of the run has another length than was written: somebody has changed it; run again"
                raise StoreError(Kind.FAILED, text, str(first))
            left = places[sizes.index(found[0]["length"]) + 1 :]
            if not left:
                return first
            batch = left[: max(1, _NAMES_BYTES // len(_path(left[0]).encode()))]
            try:
                self._asked("POST", "CONCAT", first, {"sources": ",".join(map(_path, batch))})
            except StoreError as error:
                # A request that was sent twice, or another process that does the same, has moved them.
                if error.kind is not Kind.MISSING or self._known_version(first) == _version(found[0]):
                    raise
        raise StoreError(Kind.FAILED, "its parts cannot be joined, because another process moves them", str(first))

    def _gathered(self, sources: Sequence[Location], places: Sequence[Location]) -> None:
        """Move files into the folder of an upload, unless they are there already."""
        entries = [each for page in self._listed(places[0].parent, "") for each in page]
        there = {each["pathSuffix"] for each in entries}
        wanted = [pair for pair in zip(sources, places, strict=True) if pair[1].name not in there]

        def move(pair: tuple[Location, Location]) -> None:
            try:
                self._renamed(*pair, replaces=False)
            except StoreError as error:
                # Another process does the same, or a request was sent twice.
                if error.kind not in (Kind.MISSING, Kind.TAKEN):
                    raise

        if wanted:
            self._asked("PUT", "MKDIRS", places[0].parent)
            with ThreadPoolExecutor(min(_THREADS, len(wanted)), "clinker-gather") as threads:
                deque(threads.map(move, wanted), maxlen=0)

    def _sent(self, upload: Upload, name: str, data: bytes) -> str:
        place = upload.location.at(upload.id + name)
        self._asked("PUT", "CREATE", place, {"overwrite": "true"}, data)
        return json.dumps([[place.key, len(data)]])

    def _written(self, place: Location, data: bytes, mark: str) -> None:
        self._asked("PUT", "CREATE", place, {"overwrite": "true"}, data)
        if mark:
            self._mark(place, mark)

    def _mark(self, place: Location, mark: str) -> None:
        wanted = {"xattr.name": _ATTRIBUTE, "xattr.value": f'"{mark}"', "flag": "CREATE,REPLACE"}
        self._asked("PUT", "SETXATTR", place, wanted)

    def _marked(self, location: Location, status: Mapping[str, Any]) -> str:
        """The mark of the file that was looked at; empty where it has none, or is another one by now."""
        try:
            answer = self._asked("GET", "GETXATTRS", location, {"encoding": "text"})
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise
            return ""
        found = {each["name"]: each["value"] for each in answer.body["XAttrs"]}.get(_ATTRIBUTE)
        if not found or self._known_version(location) != _version(status):
            return ""
        return str(found).strip('"')

    def _renamed(self, source: Location, target: Location, *, replaces: bool) -> None:
        """Give a file another name.

        Raises:
            StoreError: another file has it and is not to be replaced (`Kind.TAKEN`), or the file is gone
                (`Kind.MISSING`).
        """
        wanted = {"destination": _path(target), "renameoptions": "OVERWRITE" if replaces else "NONE"}
        try:
            answer = self._asked("PUT", "RENAME", source, wanted)
        except StoreError as error:
            if error.kind is Kind.FAILED and self._is_folder(target):
                text = "a folder has this name: remove it, or write to another name"
                raise StoreError(Kind.TAKEN, text, str(target)) from error
            raise StoreError(error.kind, error.message, str(target)) from error
        if answer.body is None or answer.body.get("boolean", True):
            return
        # HttpFS, which says no more than that it has not done it.
        if self._status(source) is None:
            raise StoreError(Kind.MISSING, "file not found", str(source))
        if not replaces:
            raise writing.taken(target)
        text = "this gateway to HDFS replaces no files: name the web address of a namenode, or remove the file first"
        raise StoreError(Kind.UNSUPPORTED, text, str(target))

    def _opened(self, location: Location, start: int, end: int, path: str) -> bytes:
        wanted = {"offset": str(start), "length": str(end - start)}
        return self._asked("GET", "OPEN", location, wanted, path=path).data

    def _must_be(self, location: Location, version: str, otherwise: StoreError | None = None) -> None:
        """Stop where a file has another version, or is gone."""
        found = self._known_version(location)
        if found == version:
            return
        if not found and otherwise is None:
            raise StoreError(Kind.MISSING, "file not found", str(location))
        raise otherwise or writing.changed(location)

    def _known_version(self, location: Location) -> str:
        found = self._status(location)
        return "" if found is None else _version(found[0])

    def _status(self, location: Location) -> tuple[dict[str, Any], str] | None:
        """Get the status of a file, and the time of the cluster's clock; None where there is no such file."""
        try:
            answer = self._asked("GET", "GETFILESTATUS", location)
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise
            return None
        status = answer.body["FileStatus"]
        return None if status["type"] != "FILE" else (status, answer.date)

    def _is_folder(self, location: Location) -> bool:
        with suppress(StoreError):
            body = self._asked("GET", "GETFILESTATUS", location).body
            return bool(body["FileStatus"]["type"] == "DIRECTORY")
        return False

    def _listed(self, folder: Location, start: str) -> Iterator[list[dict[str, Any]]]:
        """List the entries of a folder from a prefix on, in pages, ordered by name; none where there is no folder."""
        after = start[:-1]
        while True:
            try:
                page, left = self._page(folder, after)
            except StoreError as error:
                if error.kind is Kind.MISSING:
                    return
                raise
            # A file that is listed as a folder has an entry without a name.
            yield [each for each in page if each["pathSuffix"] and each["pathSuffix"].startswith(start)]
            if not left or not page:
                return
            after = page[-1]["pathSuffix"]
            if start and after.encode() > start.encode() and not after.startswith(start):
                return

    def _page(self, folder: Location, after: str) -> tuple[list[dict[str, Any]], int]:
        """Get a page of the entries of a folder after a name, and the number of entries that remain."""
        try:
            # The documentation has a capital in it, which servers ignore.
            body = self._asked("GET", "LISTSTATUS_BATCH", folder, {"startafter": after} if after else {}).body
            listing = body["DirectoryListing"]
            page, left = listing["partialListing"]["FileStatuses"]["FileStatus"], listing["remainingEntries"]
            if not page or page[0]["pathSuffix"].encode() > after.encode():
                return page, left
        except StoreError as error:
            if error.kind is not Kind.UNSUPPORTED:
                raise
        # A server that knows no pages gives everything at once.
        entries = self._asked("GET", "LISTSTATUS", folder).body["FileStatuses"]["FileStatus"]
        return [each for each in entries if each["pathSuffix"].encode() > after.encode()], 0

    def _removed(self, location: Location) -> None:
        try:
            self._asked("DELETE", "DELETE", location, {"recursive": "false"})
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise

    def _tidied(self, folder: Location, most: int = 100) -> None:
        """Remove a folder of this product, and up to so many of its parents, as far as they are empty."""
        for _ in range(most):
            if not _is_hidden(folder):
                return
            try:
                self._asked("DELETE", "DELETE", folder, {"recursive": "false"})
            except StoreError:
                return
            folder = folder.at(folder.key.rstrip("/")).parent

    def _asked(
        self,
        method: str,
        operation: str,
        location: Location,
        wanted: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        path: str | None = None,
    ) -> Answer:
        return WebHdfs(self.settings).ask(method, operation, location, path or _path(location), wanted, body)


def _path(location: Location) -> str:
    """The absolute path of a key.

    Raises:
        StoreError: HDFS has no such paths.
    """
    parts = location.key.rstrip("/").split("/") if location.key else []
    if location.key.endswith("//") or any(each in ("", ".", "..") or ":" in each for each in parts):
        text = "paths of HDFS have no `.`, `..` or nothing between slashes, and no colons: write it without them"
        raise StoreError(Kind.UNSUPPORTED, text, str(location))
    return "/" + "/".join(parts)


def _is_hidden(place: Location) -> bool:
    return any(each.startswith(_HIDDEN) for each in place.key.split("/"))


def _version(status: Mapping[str, Any]) -> str:
    return f"{status.get('fileId', 0)}-{status['length']}-{status['modificationTime']}"


def _object(location: Location, status: Mapping[str, Any]) -> Object:
    return Object(location, status["length"], status["modificationTime"] * 1_000_000, _version(status))


def _names(tags: Sequence[str]) -> list[tuple[str, int]]:
    return [(str(key), int(size)) for tag in tags for key, size in json.loads(tag)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]

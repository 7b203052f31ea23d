"""Google Cloud Storage, through Arrow's file system, which is loaded with the first request.

Arrow reports no generation of an object, so its version is made of size and time of change, which the store keeps in
milliseconds. An object that Arrow has opened stays one generation; whether it was the right one is asked behind each
range, so that a reader never gets bytes of two.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_jobs.stores.objects import Object, Page
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import GcsSettings

#: How long what fails for the moment is tried again.
RETRY_S = 60


@dataclass(frozen=True)
class Gcs:
    """See `objects.Store`."""

    settings: GcsSettings

    def describe(self, location: Location) -> Object | None:
        return self._object(location, self._info(location))

    def pages(self, prefix: Location, *, deep: bool) -> Iterator[Page]:
        """See `objects.Store`; Arrow lists a folder at once, and with all that is below it."""
        from pyarrow import fs

        folder = prefix.key.rpartition("/")[0]
        selector = fs.FileSelector(_path(prefix.at(folder)), allow_not_found=True, recursive=True)
        infos = self._asked(prefix, "get_file_info", selector)
        if not infos and self._asked(prefix, "get_file_info", prefix.bucket).type is fs.FileType.NotFound:
            raise StoreError(Kind.MISSING, f"no bucket is named `{prefix.bucket}`: check its name", str(prefix))
        objects: list[Object] = []
        folders: dict[str, None] = {}
        for info in infos:
            place = prefix.at(info.path[len(prefix.bucket) + 1 :])
            rest = place.key.removeprefix(prefix.key)
            if not place.key.startswith(prefix.key) or info.type is not fs.FileType.File:
                continue
            if not deep and "/" in rest:
                folders[prefix.key + rest.partition("/")[0] + "/"] = None
            elif (found := self._object(place, info)) is not None:
                objects.append(found)
        yield Page(tuple(objects), tuple(folders))

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        with self._asked(location, "open_input_file", _path(location)) as file:
            try:
                file.seek(start)
                data = bytes(file.read(end - start))
            except OSError as error:
                raise _refused(error, location) from error
        if version:
            now = self.describe(location)
            if now is None or now.version != version:
                text = "the file was replaced by another one, while the run was reading it"
                raise StoreError(Kind.CHANGED, text, str(location))
        if len(data) != end - start:
            raise StoreError(Kind.FAILED, "the store gave fewer bytes than the object has", str(location))
        return data

    def _info(self, location: Location) -> Any:
        return self._asked(location, "get_file_info", _path(location))

    def _object(self, location: Location, info: Any) -> Object | None:
        from pyarrow import fs

        if info.type is not fs.FileType.File:
            return None
        mtime_ns = info.mtime_ns or 0
        return Object(location, info.size, mtime_ns, f"{info.size}-{mtime_ns}")

    def _asked(self, location: Location, operation: str, what: Any) -> Any:
        import pyarrow as pa

        try:
            return getattr(_file_system(self.settings, os.getpid()), operation)(what)
        except (OSError, pa.ArrowException) as error:
            raise _refused(error, location) from error


def _path(location: Location) -> str:
    if "//" in location.key or location.key.startswith("/"):
        text = "Arrow reads no keys with empty components (`//`) of this store: rename the object"
        raise StoreError(Kind.FAILED, text, str(location))
    return f"{location.bucket}/{location.key}".rstrip("/")


def _refused(error: Exception, location: Location) -> StoreError:
    """What Arrow says, in words."""
    text, uri = str(error), str(location)
    if isinstance(error, FileNotFoundError) or "NOT_FOUND" in text:
        return StoreError(Kind.MISSING, "file not found", uri)
    if isinstance(error, PermissionError) or "PERMISSION_DENIED" in text:
        right = "storage.objects.get and storage.objects.list"
        return StoreError(Kind.FORBIDDEN, f"access is denied: the credentials of this machine need {right}", uri)
    if "UNAUTHENTICATED" in text or "credential" in text.lower():
        detail = (
            "no valid credentials are found on this machine: set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a "
            "service account; for a public bucket set storage.gcs.anonymous"
        )
        return StoreError(Kind.FORBIDDEN, detail, uri)
    return StoreError(Kind.FAILED, f"the store fails: {text.partition(' error_info=')[0]}", uri)


@lru_cache(maxsize=16)
def _file_system(settings: GcsSettings, process: int) -> Any:
    from datetime import timedelta

    from pyarrow import fs

    scheme, _, host = (settings.endpoint or "").partition("://")
    where = {"scheme": scheme, "endpoint_override": host} if host else {}
    return fs.GcsFileSystem(anonymous=settings.anonymous, retry_time_limit=timedelta(seconds=RETRY_S), **where)

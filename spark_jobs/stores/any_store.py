"""A store that passes each request to the store of the URI's scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.objects import Object, Page
    from spark_jobs.stores.settings import StoreSettings
    from spark_jobs.stores.writing import Limits, ObjectInfo, Upload, WritableStore


def store(scheme: str, settings: StoreSettings) -> WritableStore:
    """The store of a scheme. Its client is loaded by the first request.

    Args:
        scheme: one of `location.READABLE`.
        settings: resolved ones.

    Raises:
        StoreError: there is no such kind of store.
    """
    match scheme:
        case "s3":
            from spark_jobs.stores.s3_writing import WritableS3

            return WritableS3(settings.s3)
        case "gs":
            from spark_jobs.stores.gcs import Gcs

            return Gcs(settings.gcs)
        case "abfss":
            from spark_jobs.stores.azure import Azure

            return Azure(settings.azure)
        case "hdfs" | "webhdfs" | "swebhdfs":
            from spark_jobs.stores.hdfs import Hdfs

            return Hdfs(settings.hdfs)
        case _:
            raise StoreError(Kind.FAILED, "no store is known for this scheme", f"{scheme}://")


@dataclass(frozen=True)
class AnyStore:
    """See `writing.WritableStore`.

    Args:
        settings: resolved ones.
    """

    settings: StoreSettings

    def describe(self, location: Location) -> Object | None:
        return self._of(location).describe(location)

    def pages(self, prefix: Location, *, deep: bool, most: int | None = None) -> Iterator[Page]:
        return self._of(prefix).pages(prefix, deep=deep, most=most)

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        return self._of(location).fetch(location, start, end, version)

    def look(self, location: Location) -> ObjectInfo | None:
        return self._of(location).look(location)

    def get(self, location: Location) -> bytes | None:
        return self._of(location).get(location)

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        return self._of(location).put(location, data, mark, when)

    def limits(self, location: Location) -> Limits:
        return self._of(location).limits(location)

    def begin(self, location: Location, depot: Location, mark: str = "") -> Upload:
        return self._of(location).begin(location, depot, mark)

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        return self._of(upload.location).send(upload, number, data)

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        return self._of(upload.location).copy(upload, number, source, start, end)

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        return self._of(upload.location).complete(upload, tags, mark, when)

    def reads(self, upload: Upload, tags: Sequence[str]) -> list[Location]:
        return self._of(upload.location).reads(upload, tags)

    def abort(self, upload: Upload) -> None:
        self._of(upload.location).abort(upload)

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        return self._of(prefix).uploads(prefix)

    def delete(self, location: Location) -> None:
        self._of(location).delete(location)

    def _of(self, location: Location) -> WritableStore:
        return store(location.scheme, self.settings)

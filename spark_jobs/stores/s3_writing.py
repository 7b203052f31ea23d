"""Writing to S3, and to what speaks its protocol: objects, the parts of uploads, and conditions.

A request may have been carried out although its answer was lost, and the client then sends it again. So what must
happen once carries a *mark*, which the object keeps among its metadata: a request that is refused because its
condition does not hold any more has succeeded after all where the object has its mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.stores import s3
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.stores.location import Location

#: All parts of an upload but the last have so many bytes at least.
LEAST_PART_BYTES = 5 << 20
#: The condition that there is no object yet; any other one is the ETag that it must have.
ABSENT = "*"
_MARK = "clinker-file"


@dataclass(frozen=True)
class ObjectInfo:
    """An object as it was looked at.

    Args:
        version: its ETag.
        size: its length in bytes.
        age_s: seconds since it was written, by the store's own clock.
        mark: the mark that it was written with; empty where it has none.
    """

    version: str
    size: int
    age_s: float
    mark: str


@dataclass(frozen=True)
class Upload:
    """An upload that nobody has completed yet."""

    location: Location
    id: str


@dataclass(frozen=True)
class WritableS3(s3.S3):
    """S3 for reading and writing. All calls raise `StoreError`, and may come from several threads at a time."""

    def look(self, location: Location) -> ObjectInfo | None:
        """An object without its bytes; None when it is not there."""
        answer = self.head(location)
        if answer is None:
            return None
        now = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        written = answer["LastModified"]
        age_s = (parsedate_to_datetime(now) - written).total_seconds() if now else 0.0
        return ObjectInfo(
            answer.get("ETag", ""), answer["ContentLength"], age_s, answer.get("Metadata", {}).get(_MARK, "")
        )

    def get(self, location: Location) -> bytes | None:
        """All bytes of a small object; None when it is not there."""
        found = self.look(location)
        if found is None:
            return None
        try:
            return self.fetch(location, 0, found.size, "")
        except StoreError as error:
            if error.kind is Kind.MISSING:
                return None
            raise

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        """Write an object; gives its version.

        Args:
            location: where.
            data: its bytes.
            mark: see the module.
            when: None whatever is there; else `ABSENT`, or the version that is to be replaced.

        Raises:
            StoreError: the condition does not hold (`Kind.TAKEN`), or the store refuses.
        """
        wanted: dict[str, Any] = {"Bucket": location.bucket, "Key": location.key, "Body": data} | _condition(when)
        try:
            answer = self.ask("put_object", location, **wanted, **_marked(mark))
        except StoreError as error:
            if when is None:
                raise
            return self._mine(error, location, mark, when)
        return str(answer.get("ETag", ""))

    def begin(self, location: Location, mark: str = "") -> Upload:
        """Begin an upload; nothing is to be seen of it."""
        answer = self.ask(
            "create_multipart_upload", location, Bucket=location.bucket, Key=location.key, **_marked(mark)
        )
        return Upload(location, answer["UploadId"])

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        """Send a part of an upload; gives its ETag."""
        return str(self.ask("upload_part", upload.location, **_part(upload, number), Body=data)["ETag"])

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        """Have the store copy bytes of an object as a part of an upload; gives its ETag."""
        where = {"Bucket": source.bucket, "Key": source.key}
        wanted = _part(upload, number) | {"CopySource": where, "CopySourceRange": f"bytes={start}-{end - 1}"}
        return str(self.ask("upload_part_copy", upload.location, **wanted)["CopyPartResult"]["ETag"])

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        """Make an object of the parts of an upload; see `put`. Gives its version."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        wanted = {**_named(upload), "MultipartUpload": {"Parts": parts}} | _condition(when)
        try:
            answer = self.ask("complete_multipart_upload", upload.location, **wanted)
        except StoreError as error:
            return self._mine(error, upload.location, mark, when)
        return str(answer.get("ETag", ""))

    def abort(self, upload: Upload) -> None:
        """End an upload that nobody wants; one that is gone already is fine."""
        try:
            self.ask("abort_multipart_upload", upload.location, **_named(upload))
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        """The uploads to keys that begin with a prefix that nobody has completed."""
        wanted: dict[str, Any] = {"Bucket": prefix.bucket, "Prefix": prefix.key}
        while True:
            answer = self.ask("list_multipart_uploads", prefix, **wanted)
            for each in answer.get("Uploads", ()):
                yield Upload(prefix.at(each["Key"]), each["UploadId"])
            if not answer.get("IsTruncated"):
                return
            wanted |= {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}

    def delete(self, location: Location) -> None:
        """Remove an object; one that is gone already is fine."""
        self.ask("delete_object", location, Bucket=location.bucket, Key=location.key)

    def _mine(self, error: StoreError, location: Location, mark: str, when: str | None) -> str:
        """The version of an object that was written although the request was refused.

        Raises:
            StoreError: it was not, or nobody can tell.
        """
        if error.kind not in (Kind.TAKEN, Kind.MISSING) or not mark:
            raise error
        found = self.look(location)
        if found is not None and found.mark == mark:
            return found.version
        if error.kind is Kind.MISSING and when not in (None, ABSENT) and found is None:
            text = "another program has removed it, since this run looked at it"
            raise StoreError(Kind.TAKEN, text, str(location)) from error
        raise error


def _condition(when: str | None) -> dict[str, str]:
    if when is None:
        return {}
    return {"IfNoneMatch": "*"} if when == ABSENT else {"IfMatch": when}


def _marked(mark: str) -> dict[str, Any]:
    return {"Metadata": {_MARK: mark}} if mark else {}


def _named(upload: Upload) -> dict[str, str]:
    return {"Bucket": upload.location.bucket, "Key": upload.location.key, "UploadId": upload.id}


def _part(upload: Upload, number: int) -> dict[str, Any]:
    return {**_named(upload), "PartNumber": number}

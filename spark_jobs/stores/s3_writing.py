"""Writing to S3 and compatible servers: objects, parts of multipart uploads, and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.stores import s3, writing
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.writing import ABSENT, MARK, Limits, ObjectInfo, Upload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.stores.location import Location

#: All parts of an upload but the last have so many bytes at least, whether they are sent or copied. There are 10,000 at
#: most; a few are spared.
LEAST_PART_BYTES = 5 << 20
_LIMITS = Limits(LEAST_PART_BYTES, LEAST_PART_BYTES, most_copied=256 << 20, most_parts=9_000)


@dataclass(frozen=True)
class WritableS3(s3.S3):
    """See `writing.WritableStore`."""

    def look(self, location: Location) -> ObjectInfo | None:
        answer = self.head(location)
        if answer is None:
            return None
        now = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        written = answer["LastModified"]
        age_s = (parsedate_to_datetime(now) - written).total_seconds() if now else 0.0
        return ObjectInfo(
            answer.get("ETag", ""), answer["ContentLength"], age_s, answer.get("Metadata", {}).get(MARK, "")
        )

    def get(self, location: Location) -> bytes | None:
        return writing.small(self, location)

    def limits(self, location: Location) -> Limits:
        return _LIMITS

    def reads(self, upload: Upload, tags: Sequence[str]) -> list[Location]:
        """See `writing.WritableStore`: the parts belong to the upload."""
        return []

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        wanted: dict[str, Any] = {"Bucket": location.bucket, "Key": location.key, "Body": data} | _condition(when)
        try:
            answer = self.ask("put_object", location, **wanted, **_marked(mark))
        except StoreError as error:
            if when is None:
                raise
            return writing.mine(self, error, location, mark, when)
        return str(answer.get("ETag", ""))

    def begin(self, location: Location, depot: Location, mark: str = "") -> Upload:
        answer = self.ask(
            "create_multipart_upload", location, Bucket=location.bucket, Key=location.key, **_marked(mark)
        )
        return Upload(location, answer["UploadId"])

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        return str(self.ask("upload_part", upload.location, **_part(upload, number), Body=data)["ETag"])

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        where = {"Bucket": source.bucket, "Key": source.key}
        wanted = _part(upload, number) | {"CopySource": where, "CopySourceRange": f"bytes={start}-{end - 1}"}
        return str(self.ask("upload_part_copy", upload.location, **wanted)["CopyPartResult"]["ETag"])

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        wanted = {**_named(upload), "MultipartUpload": {"Parts": parts}} | _condition(when)
        try:
            answer = self.ask("complete_multipart_upload", upload.location, **wanted)
        except StoreError as error:
            return writing.mine(self, error, upload.location, mark, when)
        return str(answer.get("ETag", ""))

    def abort(self, upload: Upload) -> None:
        try:
            self.ask("abort_multipart_upload", upload.location, **_named(upload))
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        wanted: dict[str, Any] = {"Bucket": prefix.bucket, "Prefix": prefix.key}
        while True:
            answer = self.ask("list_multipart_uploads", prefix, **wanted)
            for each in answer.get("Uploads", ()):
                yield Upload(prefix.at(each["Key"]), each["UploadId"])
            if not answer.get("IsTruncated"):
                return
            wanted |= {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}

    def delete(self, location: Location) -> None:
        self.ask("delete_object", location, Bucket=location.bucket, Key=location.key)


def _condition(when: str | None) -> dict[str, str]:
    if when is None:
        return {}
    return {"IfNoneMatch": "*"} if when == ABSENT else {"IfMatch": when}


def _marked(mark: str) -> dict[str, Any]:
    return {"Metadata": {MARK: mark}} if mark else {}


def _named(upload: Upload) -> dict[str, str]:
    return {"Bucket": upload.location.bucket, "Key": upload.location.key, "UploadId": upload.id}


def _part(upload: Upload, number: int) -> dict[str, Any]:
    return {**_named(upload), "PartNumber": number}

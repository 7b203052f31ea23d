"""S3 and compatible servers, through botocore, which is loaded with the first request.

Every range of an object is asked for on condition that the object is the one that was looked at. So a reader never
gets bytes of two versions. Temporary failures are retried: requests by the client, bodies that were cut off
here, from where they ended.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_jobs.stores import proxies
from spark_jobs.stores.objects import Object, Page
from spark_jobs.stores.refusals import Kind, StoreError, missing_package
from spark_jobs.stores.writing import changed, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import S3Settings

#: The number of attempts for a request, and for a body, before the store is given up.
ATTEMPTS = 6
_PAUSE_S = 0.1
_CONNECT_S = 10
_READ_S = 60
_CONNECTIONS = 64
_CHUNK_BYTES = 1 << 20
#: Variables for credentials and proxies. A process that changes them gets a new client.
_IDENTITY = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", *proxies.VARIABLES,
)  # fmt: skip
#: The number of keys in a page of a list: the stores' maximum.
PAGE_KEYS = 1000

#: The right that an operation needs.
_RIGHTS = {
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject, and s3:ListBucket to learn that an object is missing",
    "ListObjectsV2": "s3:ListBucket",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "UploadPartCopy": "s3:PutObject and s3:GetObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListParts": "s3:ListMultipartUploadParts",
    "DeleteObject": "s3:DeleteObject",
}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_UNKNOWN = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId"}
_ELSEWHERE = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301", "307"}
_BUSY = {"SlowDown", "ServiceUnavailable", "TooManyRequests", "RequestLimitExceeded", "Throttling", "503", "429"}
_NOT_THERE = {"NoSuchKey", "404", "NotFound"}


@dataclass(frozen=True)
class S3:
    """See `objects.Store`. The settings are resolved ones."""

    settings: S3Settings

    @property
    def client(self) -> Any:
        """The client of this process: one must not be shared with a process that was forked."""
        return _client(self.settings, os.getpid(), tuple(map(os.environ.get, _IDENTITY)))

    def describe(self, location: Location) -> Object | None:
        answer = self.head(location)
        if answer is None:
            return None
        return Object(location, answer["ContentLength"], _ns(answer["LastModified"]), answer.get("ETag", ""))

    def head(self, location: Location) -> Any:
        """The metadata of an object; None if it does not exist."""
        try:
            return self.ask("head_object", location, Bucket=location.bucket, Key=location.key)
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                # The answer to HEAD has no body: asked for its bytes, the store says why it refuses.
                self.ask("get_object", location, Bucket=location.bucket, Key=location.key, Range="bytes=0-0")
                raise
            return None

    def pages(self, prefix: Location, *, deep: bool, most: int | None = None) -> Iterator[Page]:
        wanted = {"Bucket": prefix.bucket, "Prefix": prefix.key, "MaxKeys": most or PAGE_KEYS}
        wanted |= {} if deep else {"Delimiter": "/"}
        while True:
            answer = self.ask("list_objects_v2", prefix, **wanted)
            found = (
                Object(prefix.at(each["Key"]), each["Size"], _ns(each["LastModified"]), each.get("ETag", ""))
                for each in answer.get("Contents", ())
                # Consoles create such objects for empty folders. They are no files.
                if not each["Key"].endswith("/")
            )
            yield Page(tuple(found), tuple(each["Prefix"] for each in answer.get("CommonPrefixes", ())))
            if not answer.get("IsTruncated"):
                return
            wanted["ContinuationToken"] = answer["NextContinuationToken"]

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        from botocore.exceptions import BotoCoreError

        found: list[bytes] = []
        failures, at = 0, start
        while at < end:
            wanted = {"Range": f"bytes={at}-{end - 1}"} | ({"IfMatch": version} if version else {})
            answer = self.ask("get_object", location, Bucket=location.bucket, Key=location.key, **wanted)
            if version and answer.get("ETag", version) != version:
                raise changed(location)
            try:
                while chunk := answer["Body"].read(_CHUNK_BYTES):
                    found.append(chunk)
                    at += len(chunk)
            except BotoCoreError as error:
                failures += 1
                if failures == ATTEMPTS:
                    text = f"its bytes were cut off {failures} times: the store or the network fails; run again later"
                    raise StoreError(Kind.FAILED, text, str(location)) from error
                pause(failures)
        return b"".join(found)

    def ask(self, operation: str, location: Location, **wanted: Any) -> Any:
        """Send one request; a refusal of the store or the client is raised as a `StoreError`.

        Raises:
            StoreError: it is refused.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self.client, operation)(**wanted)
        except ClientError as error:
            raise _refused(error, location) from error
        except BotoCoreError as error:
            raise self._unreached(error, location) from error

    def _unreached(self, error: Exception, location: Location) -> StoreError:
        """Translate an error of the client without an answer of the store."""
        from botocore import exceptions

        uri = str(location)
        match error:
            case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
                text = (
                    "no credentials are found on this machine: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                    "AWS_PROFILE, or give the machine a role; for a public bucket set storage.s3.anonymous"
                )
                return StoreError(Kind.FORBIDDEN, text, uri)
            case exceptions.HTTPClientError() | exceptions.EndpointConnectionError() | exceptions.ConnectionError():
                where = self.settings.endpoint or "AWS"
                text = f"{where} cannot be reached ({type(error).__name__}): check storage.s3.endpoint and the network"
                return StoreError(Kind.FAILED, text, uri)
            case exceptions.NoRegionError():
                return StoreError(Kind.FAILED, "no region is set: set storage.s3.region in clinker.toml", uri)
            case _:
                return StoreError(Kind.FAILED, f"the client of the store fails: {error}", uri)


def pause(failures: int) -> None:
    """Wait before trying again, longer each time, and not all tasks at the same moment."""
    time.sleep(min(_PAUSE_S * 2**failures, 5.0) * random.uniform(0.5, 1.0))


def _refused(error: Any, location: Location) -> StoreError:
    """Translate an error answer of the store."""
    answer = error.response
    refusal = answer.get("Error", {})
    code, operation = str(refusal.get("Code", "")), error.operation_name
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    uri, bucket = str(location), location.bucket
    if code == "PreconditionFailed" or status == 412:
        return changed(location) if operation == "GetObject" else taken(location)
    if code == "NoSuchBucket":
        text = f"no bucket is named `{bucket}`: check its name, and storage.s3.endpoint in clinker.toml"
        return StoreError(Kind.MISSING, text, uri)
    if code == "NoSuchUpload":
        return StoreError(Kind.MISSING, "the upload was ended by somebody else", uri)
    if code == "NotImplemented" or status == 501:
        return StoreError(Kind.UNSUPPORTED, f"the store does not know what {operation} asks for", uri)
    if code in ("ConditionalRequestConflict", "OperationAborted") or status == 409:
        return taken(location)
    if code in _NOT_THERE:
        return StoreError(Kind.MISSING, "file not found", uri)
    if code in _EXPIRED:
        text = "the credentials have expired: renew them, or use a profile or role that renews them automatically"
        return StoreError(Kind.FORBIDDEN, text, uri)
    if code in _UNKNOWN:
        text = f"the store does not accept the credentials of this machine ({code}): check them, and the endpoint"
        return StoreError(Kind.FORBIDDEN, text, uri)
    if code == "RequestTimeTooSkewed":
        return StoreError(Kind.FORBIDDEN, "the clock of this machine differs from the store's: set it", uri)
    if code in _ELSEWHERE:
        headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        region = refusal.get("Region") or headers.get("x-amz-bucket-region")
        where = f"region {region}" if region else "another region"
        text = f"the bucket `{bucket}` is in {where}: set storage.s3.region in clinker.toml, or AWS_REGION"
        return StoreError(Kind.FAILED, text, uri)
    if code == "InvalidObjectState":
        return StoreError(Kind.FAILED, "it is in an archive: restore it first", uri)
    if code in _BUSY:
        text = f"the store asked for patience {ATTEMPTS} times ({code}): run again later, or with fewer tasks"
        return StoreError(Kind.FAILED, text, uri)
    if code in ("AccessDenied", "AllAccessDisabled", "Forbidden", "403") or status == 403:
        right = _RIGHTS.get(operation, f"the right to {operation}")
        text = f"access is denied: the credentials of this machine need {right} on the bucket `{bucket}`"
        return StoreError(Kind.FORBIDDEN, text, uri)
    return StoreError(Kind.FAILED, f"{operation} fails: {code} {refusal.get('Message', '')}".rstrip(), uri)


def _ns(moment: Any) -> int:
    return int(moment.timestamp() * 1e9)


@lru_cache(maxsize=16)
def _client(settings: S3Settings, process: int, identity: tuple[str | None, ...]) -> Any:
    try:
        from botocore import UNSIGNED, session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError as error:
        raise missing_package("botocore", "s3", settings.endpoint or "s3:") from error
    style = {None: "auto", True: "path", False: "virtual"}[settings.path_style]
    config = Config(
        connect_timeout=_CONNECT_S,
        max_pool_connections=_CONNECTIONS,
        read_timeout=_READ_S,
        # Stores that only speak the protocol do not know the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        s3={"addressing_style": style},
        **({"signature_version": UNSIGNED} if settings.anonymous else {}),
    )
    try:
        return session.get_session().create_client(
            "s3", region_name=settings.region, endpoint_url=settings.endpoint, config=config
        )
    except (BotoCoreError, ValueError) as error:
        text = f"the client of the store cannot be made: {error}; see storage.s3 in clinker.toml"
        raise StoreError(Kind.FAILED, text, settings.endpoint or "s3:") from error

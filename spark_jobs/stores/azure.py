"""Azure Blob Storage, and Data Lake Storage, whose files are blobs, too, through Azure's client, which is loaded late.

An upload is made of blocks that wait under the object's name, unseen, until a list of them is committed. Blocks that
nobody commits go when somebody writes the object, or after a week: no request removes them.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_jobs.stores import writing
from spark_jobs.stores.location import container
from spark_jobs.stores.objects import Object, Page
from spark_jobs.stores.refusals import Kind, StoreError, missing_package
from spark_jobs.stores.writing import ABSENT, MARK, SENT_BYTES, Limits, ObjectInfo, Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import AzureSettings

#: The number of retries after transient failures, and the first pause in seconds.
RETRIES = 5
PAUSE_S = 1
_CONNECT_S, _READ_S = 10, 60
_CONNECTIONS = 64
#: A page of a list has so many names at most.
PAGE_KEYS = 5000
#: A blob has 50,000 blocks at most. Bytes that the store cannot copy pass through a task, a piece at a time.
_LIMITS = Limits(1 << 20, SENT_BYTES, most_copied=SENT_BYTES, most_parts=45_000)

#: Variables that may describe access to an account.
_VARIABLES = (
    "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN",
)  # fmt: skip
#: The scope of tokens.
_SCOPE = "https://storage.azure.com/.default"
_EXPIRED = "signature not valid in the specified time frame"


@dataclass(frozen=True)
class Azure:
    """See `writing.WritableStore`. The settings are resolved ones."""

    settings: AzureSettings

    def describe(self, location: Location) -> Object | None:
        found = self._properties(location)
        return None if found is None else _object(location, found[0])

    def pages(self, prefix: Location, *, deep: bool, most: int | None = None) -> Iterator[Page]:
        # Metadata tell the folders that an account with a hierarchical namespace lists among the blobs.
        wanted = {"name_starts_with": prefix.key, "include": ["metadata"], "results_per_page": most or PAGE_KEYS}
        there = _container(self.settings, prefix.bucket, os.getpid(), _known())

        def listed() -> Any:
            return (there.list_blobs(**wanted) if deep else there.walk_blobs(**wanted, delimiter="/")).by_page()

        pages = self._asked(prefix, listed)
        while (page := self._asked(prefix, lambda: _next(pages))) is not None:
            blobs = [each for each in page if hasattr(each, "size")]
            yield Page(
                tuple(
                    _object(prefix.at(each.name), each)
                    for each in blobs
                    if not each.name.endswith("/") and "hdi_isfolder" not in (each.metadata or {})
                ),
                tuple(each.name for each in page if not hasattr(each, "size")),
            )

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        if start >= end:
            return b""
        # A blob that says it is packed is unpacked by the client otherwise, and its ranges mean something else.
        wanted = {"offset": start, "length": end - start, "decompress": False, **_must_be(version)}
        try:
            data: bytes = self._asked(location, lambda: self._blob(location).download_blob(**wanted).readall())
        except StoreError as error:
            raise writing.changed(location) if error.kind is Kind.TAKEN else error from error
        if len(data) != end - start:
            raise StoreError(Kind.FAILED, "the store gave another number of bytes than was asked for", str(location))
        return data

    def look(self, location: Location) -> ObjectInfo | None:
        found = self._properties(location)
        if found is None:
            return None
        properties, now = found
        age_s = (parsedate_to_datetime(now) - properties.last_modified).total_seconds() if now else 0.0
        return ObjectInfo(properties.etag, properties.size, age_s, _mark(properties.metadata))

    def get(self, location: Location) -> bytes | None:
        return writing.small(self, location)

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        condition = {"overwrite": when != ABSENT, **({} if when in (None, ABSENT) else _must_be(str(when)))}

        def write() -> Any:
            return self._blob(location).upload_blob(data, length=len(data), metadata=_marked(mark), **condition)

        try:
            return str(self._asked(location, write)["etag"])
        except StoreError as error:
            if when is None:
                raise
            return writing.mine(self, error, location, mark, when)

    def limits(self, location: Location) -> Limits:
        return _LIMITS

    def begin(self, location: Location, depot: Location, mark: str = "") -> Upload:
        """See `writing.WritableStore`: blocks need no beginning, but names that no other upload has."""
        return Upload(location, uuid.uuid4().hex[:16])

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        return self._sent(upload, number, 0, data)

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        """See `writing.WritableStore`: the bytes pass through the task, for blocks need a signed URL to be copied."""
        return ",".join(
            self._sent(upload, number, index, self.fetch(source, at, until, ""))
            for index, (at, until) in enumerate(writing.chunks(start, end))
        )

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock

        blocks = [BlobBlock(block) for tag in tags for block in tag.split(",")]
        condition = {"match_condition": MatchConditions.IfMissing} if when == ABSENT else _must_be(when or "")

        def commit() -> Any:
            return self._blob(upload.location).commit_block_list(blocks, metadata=_marked(mark), **condition)

        try:
            return str(self._asked(upload.location, commit)["etag"])
        except StoreError as error:
            return writing.mine(self, error, upload.location, mark, when)

    def reads(self, upload: Upload, tags: Sequence[str]) -> list[Location]:
        """See `writing.WritableStore`: blocks belong to the object."""
        return []

    def abort(self, upload: Upload) -> None:
        """See the module: nothing can be ended."""

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        """See the module: nothing could be done about them."""
        return iter(())

    def delete(self, location: Location) -> None:
        try:
            self._asked(location, lambda: self._blob(location).delete_blob())
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise

    def _sent(self, upload: Upload, number: int, index: int, data: bytes) -> str:
        """Send a block, which is named after its place: all names have the same length, 64 bytes at most."""
        name = f"{upload.id}-{number:06}-{index:06}"
        self._asked(upload.location, lambda: self._blob(upload.location).stage_block(name, data, len(data)))
        return name

    def _properties(self, location: Location) -> tuple[Any, str] | None:
        """The properties of a blob, and the time of the store's clock."""
        clock: list[str] = []

        def note_time(answer: Any) -> None:
            clock.append(answer.http_response.headers.get("Date", ""))

        def look() -> Any:
            return self._blob(location).get_blob_properties(raw_response_hook=note_time)

        try:
            found = self._asked(location, look)
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise
            return None
        if "hdi_isfolder" in (found.metadata or {}):
            return None
        return found, clock[-1] if clock else ""

    def _blob(self, location: Location) -> Any:
        # The client tidies up addresses, so the request would be about another blob.
        if not {".", ".."}.isdisjoint(location.key.split("/")):
            text = "blobs of Azure have no names with `.` or `..` between slashes: leave them out"
            raise StoreError(Kind.UNSUPPORTED, text, str(location))
        there = _container(self.settings, location.bucket, os.getpid(), _known())
        return there.get_blob_client(location.key)

    def _asked(self, location: Location, ask: Callable[[], Any]) -> Any:
        from azure.core.exceptions import AzureError

        try:
            return ask()
        except AzureError as error:
            raise _refused(error, location) from error


def _next(pages: Any) -> list[Any] | None:
    page = next(pages, None)
    return None if page is None else list(page)


def _object(location: Location, properties: Any) -> Object:
    return Object(location, properties.size, int(properties.last_modified.timestamp() * 1e9), _quoted(properties.etag))


def _quoted(etag: str) -> str:
    """An ETag as requests have it: lists leave its quotes out."""
    return etag if etag.startswith('"') else f'"{etag}"'


def _must_be(version: str) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {"etag": version, "match_condition": MatchConditions.IfNotModified} if version else {}


#: The name of the mark where metadata are names of C# variables.
_NAME = MARK.replace("-", "_")


def _marked(mark: str) -> dict[str, str] | None:
    return {_NAME: mark} if mark else None


def _mark(metadata: dict[str, str] | None) -> str:
    return next((value for name, value in (metadata or {}).items() if name.lower() == _NAME), "")


def _refused(error: Any, location: Location) -> StoreError:
    """Translate an error of the store or its client."""
    from azure.core import exceptions

    uri = str(location)
    name, account, _ = container(location.bucket)
    if isinstance(error, exceptions.ServiceRequestError | exceptions.ServiceResponseError):
        text = f"the account `{account}` cannot be reached: check its name, storage.azure.endpoint and the network"
        return StoreError(Kind.FAILED, text, uri)
    code = getattr(error, "error_code", None)
    code = str(getattr(code, "value", code) or "")
    status = getattr(error, "status_code", None)
    says = " ".join(str(getattr(error, "message", error)).split())
    if code in ("ContainerNotFound", "FilesystemNotFound"):
        return StoreError(Kind.MISSING, f"no container is named `{name}` in the account `{account}`", uri)
    if code == "InvalidBlockList":
        return StoreError(Kind.TAKEN, "another program has written it meanwhile: its upload is gone", uri)
    if code == "InvalidBlobOrBlock":
        text = "another program has begun to write this object in blocks: wait until it is done, or remove the object"
        return StoreError(Kind.TAKEN, text, uri)
    if code == "BlobArchived":
        return StoreError(Kind.FAILED, "it is in the archive: move it to another tier first", uri)
    if code in ("LeaseIdMissing", "LeaseIdMismatchWithBlobOperation"):
        return StoreError(Kind.FORBIDDEN, "another program holds a lease on it: wait until it is released", uri)
    if code in ("BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold"):
        return StoreError(Kind.FORBIDDEN, "a policy of its container keeps it from being replaced or removed", uri)
    if code in ("BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet") or status in (409, 412):
        return writing.taken(location)
    if code in ("BlobNotFound", "PathNotFound", "ResourceNotFound") or status == 404:
        return StoreError(Kind.MISSING, "file not found", uri)
    if isinstance(error, exceptions.ClientAuthenticationError) and status is None:
        return StoreError(Kind.FORBIDDEN, f"the credentials of this machine give no token: {says}", uri)
    if code in ("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation") or status == 401:
        if _EXPIRED in says.lower() or "expired" in says.lower():
            return StoreError(Kind.FORBIDDEN, "the credentials have expired: renew them", uri)
        if "date header" in says.lower() or "clock" in says.lower():
            return StoreError(Kind.FORBIDDEN, "the clock of this machine differs from the store's: set it", uri)
        text = f"the account `{account}` does not accept the credentials of this machine: check them, and its clock"
        return StoreError(Kind.FORBIDDEN, text, uri)
    if status == 403:
        text = (
            f"access is denied ({code}): the credentials of this machine need the role Storage Blob Data Contributor "
            f"on the container `{name}`, or a SAS with the permissions r, l, and to write a, c, w, d"
        )
        return StoreError(Kind.FORBIDDEN, text, uri)
    if code in ("ServerBusy", "OperationTimedOut") or status in (429, 503):
        text = f"the store asked for patience {RETRIES + 1} times ({code}): run again later, or with fewer tasks"
        return StoreError(Kind.FAILED, text, uri)
    return StoreError(Kind.FAILED, f"the store fails: {code or status} {says}"[:500], uri)


@dataclass(frozen=True)
class Access:
    """The endpoint and credentials with which this machine reaches a container: never to be kept or shown.

    Args:
        endpoint: the URL of the account's service for blobs.
        container: the container.
        account: the account.
        key: the account's key; None where this machine has none.
        sas: a signature, without a question mark; None where this machine has none.
        identity: the identity of this machine, where it has neither and requests are signed; None elsewhere.
    """

    endpoint: str
    container: str
    account: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    identity: Any = field(default=None, repr=False)

    def token(self) -> str:
        """A token of the machine's identity, which lasts for some minutes at least.

        Raises:
            StoreError: it gets none.
        """
        from azure.core import exceptions

        try:
            return str(self.identity.get_token(_SCOPE).token)
        except exceptions.AzureError as error:
            text = f"the credentials of this machine give no token: {' '.join(str(error.message).split())}"
            raise StoreError(Kind.FORBIDDEN, text, f"abfss://{self.container}@{self.account}") from error


def access(settings: AzureSettings, bucket: str) -> Access:
    """Find the endpoint and credentials for a container.

    Args:
        settings: resolved ones.
        bucket: see `Location.bucket`.

    Raises:
        StoreError: this machine has no credentials for it.
    """
    name, account, host = container(bucket)
    connection = _connection_string()
    is_named = connection.get("accountname") == account
    endpoint = settings.endpoint or (connection.get("blobendpoint") if is_named else None) or f"https://{host}"
    if settings.anonymous:
        return Access(endpoint, name, account)
    key, sas = _secrets(account, connection)
    return Access(endpoint, name, account, key, sas, None if key or sas else _identity(account, bucket))


@lru_cache(maxsize=64)
def _container(settings: AzureSettings, bucket: str, process: int, known: int) -> Any:
    try:
        import requests
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import ContainerClient, ExponentialRetry
    except ModuleNotFoundError as error:
        raise missing_package("azure-storage-blob", "azure", f"abfss://{bucket}") from error
    found = access(settings, bucket)
    session = requests.Session()
    session.mount("https://", requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
    return ContainerClient(
        found.endpoint,
        found.container,
        credential=_credential(found),
        transport=RequestsTransport(session=session),
        retry_policy=ExponentialRetry(initial_backoff=PAUSE_S, increment_base=2, retry_total=RETRIES),
        connection_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        max_single_put_size=256 << 20,
        max_single_get_size=32 << 20,
    )


def _known() -> int:
    """Tells one environment from another, without its secrets: each has a client of its own."""
    return hash(tuple(os.environ.get(name) for name in _VARIABLES))


def _connection_string() -> dict[str, str]:
    """The connection string of this machine, its names in lower case; empty where there is none."""
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    pairs = (each.partition("=") for each in text.split(";") if "=" in each)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _secrets(account: str, connection: dict[str, str]) -> tuple[str | None, str | None]:
    """The key and the signature of an account: they only go to the one that they belong to."""
    find = os.environ.get
    if connection.get("accountname") == account:
        key, sas = connection.get("accountkey"), connection.get("sharedaccesssignature")
    elif (find("AZURE_STORAGE_ACCOUNT_NAME") or find("AZURE_STORAGE_ACCOUNT")) == account:
        key = find("AZURE_STORAGE_ACCOUNT_KEY") or find("AZURE_STORAGE_KEY")
        sas = find("AZURE_STORAGE_SAS_TOKEN")
    else:
        key = sas = None
    return key, sas.removeprefix("?") if sas else None


def _credential(found: Access) -> Any:
    """The credential that signs requests to an account; None where none does."""
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

    if found.key:
        return AzureNamedKeyCredential(found.account, found.key)
    return AzureSasCredential(found.sas) if found.sas else found.identity


def _identity(account: str, bucket: str) -> Any:
    """The identity of this machine, which gives tokens.

    Raises:
        StoreError: this machine has nothing for it.
    """
    try:
        from azure.identity import DefaultAzureCredential
    except ModuleNotFoundError as error:
        text = (
            f"no credentials for the account `{account}` are on this machine: set AZURE_STORAGE_CONNECTION_STRING, "
            "or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or install "
            "azure-identity for `az login` and the identity of the machine"
        )
        raise StoreError(Kind.FORBIDDEN, text, f"abfss://{bucket}") from error
    return DefaultAzureCredential()

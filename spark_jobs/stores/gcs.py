"""Google Cloud Storage, through its JSON interface: versions are generations, which no other content of a name has.

Every range is asked for on condition that the object is the one that was looked at. An upload is made of objects in the
depot of a run, which the store composes: up to 32 at a time, and those again, so no byte is copied or sent twice.
"""

from __future__ import annotations

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from spark_jobs.stores import proxies, writing
from spark_jobs.stores.objects import Object, Page
from spark_jobs.stores.refusals import Kind, StoreError, missing_package
from spark_jobs.stores.s3 import pause
from spark_jobs.stores.writing import ABSENT, MARK, Limits, ObjectInfo, Upload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import GcsSettings

#: The number of attempts before the store is given up.
ATTEMPTS = 6
_CONNECT_S, _READ_S = 10, 60
_CONNECTIONS = 64
#: The number of objects in a page of a list: the store's maximum.
PAGE_KEYS = 1000
#: The most objects in a compose request, and the number of requests at a time.
COMPOSED = 32
_THREADS = 16
#: Objects of any length are composed as they are; cutting one would mean that a task reads and sends it.
_LIMITS = Limits(least_sent=0, least_copied=1 << 20, most_copied=5 << 40, most_parts=30_000)
#: The store itself.
GOOGLE = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_FIELDS = "name,size,updated,generation,metadata"
#: The message of the store for a missing bucket. Messages about objects repeat their names, which may be any words.
_NO_BUCKET = "bucket does not exist"
_AGAIN = {408, 429, 500, 502, 503, 504}

#: The right that a request needs.
_RIGHTS = {
    "get": "storage.objects.get",
    "list": "storage.objects.list",
    "write": "storage.objects.create, and storage.objects.delete to replace objects",
    "delete": "storage.objects.delete",
}


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data)
        return found


@dataclass(frozen=True)
class Gcs:
    """See `writing.WritableStore`. The settings are resolved ones."""

    settings: GcsSettings

    def describe(self, location: Location) -> Object | None:
        answer = self._metadata(location)
        return None if answer is None else _object(location, answer.content)

    def pages(self, prefix: Location, *, deep: bool, most: int | None = None) -> Iterator[Page]:
        fields = f"nextPageToken,prefixes,items({_FIELDS})"
        wanted = {"prefix": prefix.key, "maxResults": str(most or PAGE_KEYS), "fields": fields}
        wanted |= {} if deep else {"delimiter": "/"}
        while True:
            listed = self._asked("list", "GET", prefix, f"/storage/v1/b/{prefix.bucket}/o", wanted).content
            found = (_object(prefix.at(each["name"]), each) for each in listed.get("items", ()))
            # Consoles create such objects for empty folders. They are no files.
            objects = tuple(each for each in found if not each.location.key.endswith("/"))
            yield Page(objects, tuple(listed.get("prefixes", ())))
            if not listed.get("nextPageToken"):
                return
            wanted["pageToken"] = listed["nextPageToken"]

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        if start >= end:
            return b""
        wanted = {"alt": "media"} | ({"ifGenerationMatch": version} if version else {})
        # An object that says it is packed is unpacked on its way otherwise, and its ranges mean something else.
        headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "gzip"}
        try:
            answer = self._asked("get", "GET", location, _path(location), wanted, headers=headers)
        except StoreError as error:
            raise writing.changed(location) if error.kind is Kind.TAKEN else error from error
        if version and answer.headers.get("x-goog-generation", version) != version:
            raise writing.changed(location)
        if len(answer.data) != end - start:
            raise StoreError(Kind.FAILED, "the store gave another number of bytes than was asked for", str(location))
        return answer.data

    def look(self, location: Location) -> ObjectInfo | None:
        answer = self._metadata(location)
        if answer is None:
            return None
        metadata, now = answer.content, answer.headers.get("date")
        age_s = (parsedate_to_datetime(now) - _moment(metadata)).total_seconds() if now else 0.0
        mark = metadata.get("metadata", {}).get(MARK, "")
        return ObjectInfo(str(metadata["generation"]), int(metadata["size"]), age_s, mark)

    def get(self, location: Location) -> bytes | None:
        return writing.small(self, location)

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        edge = uuid.uuid4().hex
        described = json.dumps({"name": location.key, **_marked(mark)})
        kinds = ("application/json; charset=UTF-8", "application/octet-stream")
        head, middle = (f"--{edge}\r\nContent-Type: {kind}\r\n\r\n" for kind in kinds)
        body = b"".join([f"{head}{described}\r\n{middle}".encode(), data, f"\r\n--{edge}--\r\n".encode()])
        wanted = {"uploadType": "multipart", "fields": "generation", **_condition(when)}
        headers = {"Content-Type": f"multipart/related; boundary={edge}"}
        path = f"/upload/storage/v1/b/{location.bucket}/o"
        try:
            return str(self._asked("write", "POST", location, path, wanted, body, headers).content["generation"])
        except StoreError as error:
            if when is None:
                raise
            return writing.mine(self, error, location, mark, when)

    def limits(self, location: Location) -> Limits:
        return _LIMITS

    def begin(self, location: Location, depot: Location, mark: str = "") -> Upload:
        """See `writing.WritableStore`: an upload is called as the prefix of its objects."""
        return Upload(location, f"{(depot / '').key}{uuid.uuid4().hex}/")

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        return self._sent(upload, f"{number:06}", data)

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        """See `writing.WritableStore`: a whole object is composed where it is; of others a task sends the range."""
        found = self.look(source)
        if found is not None and (start, end) == (0, found.size):
            return json.dumps([[source.key, found.version]])
        fetch, send = partial(self.fetch, source, version=""), partial(self._sent, upload)
        return writing.sent_as_objects(fetch, send, number, start, end)

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        try:
            names = [(str(key), str(generation)) for tag in tags for key, generation in json.loads(tag)]
            level = 0
            while len(names) > COMPOSED:
                names = self._composed_in_groups(upload, names, level)
                level += 1
            return self._composed(upload.location, names, mark, when)
        except StoreError as error:
            return writing.mine(self, error, upload.location, mark, when)

    def reads(self, upload: Upload, tags: Sequence[str]) -> list[Location]:
        """See `writing.WritableStore`: the prefix in which it composes is one of them."""
        keys = [str(key) for tag in tags for key, _ in json.loads(tag)]
        return [upload.location.at(key) for key in (upload.id, *keys)]

    def abort(self, upload: Upload) -> None:
        for page in self.pages(upload.location.at(upload.id), deep=True):
            for each in page.objects:
                self.delete(each.location)

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        """See `writing.WritableStore`: uploads are objects in the depots of runs, and are removed with these."""
        return iter(())

    def delete(self, location: Location) -> None:
        try:
            self._asked("delete", "DELETE", location, _path(location))
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise

    def _sent(self, upload: Upload, name: str, data: bytes) -> str:
        place = upload.location.at(upload.id + name)
        return json.dumps([[place.key, self.put(place, data)]])

    def _composed_in_groups(
        self, upload: Upload, names: Sequence[tuple[str, str]], level: int
    ) -> list[tuple[str, str]]:
        """Fewer objects with the same bytes, in the same order."""
        groups = [names[at : at + COMPOSED] for at in range(0, len(names), COMPOSED)]
        places = [upload.location.at(f"{upload.id}level-{level}-{number:06}") for number in range(len(groups))]
        with ThreadPoolExecutor(min(_THREADS, len(groups)), "clinker-compose") as threads:
            made = [*threads.map(self._composed, places, groups)]
        return [(place.key, version) for place, version in zip(places, made, strict=True)]

    def _composed(
        self, location: Location, names: Sequence[tuple[str, str]], mark: str = "", when: str | None = None
    ) -> str:
        sources = [{"name": key, "generation": generation} for key, generation in names]
        written = {"contentType": "application/octet-stream", **_marked(mark)}
        request = {"sourceObjects": sources, "destination": written}
        wanted = {"fields": "generation", **_condition(when)}
        headers = {"Content-Type": "application/json"}
        body = json.dumps(request).encode()
        answer = self._asked("write", "POST", location, _path(location) + "/compose", wanted, body, headers)
        return str(answer.content["generation"])

    def _metadata(self, location: Location) -> _Answer | None:
        try:
            return self._asked("get", "GET", location, _path(location), {"fields": _FIELDS})
        except StoreError as error:
            if error.kind is not Kind.MISSING:
                raise
            return None

    def _asked(
        self,
        what: str,
        method: str,
        location: Location,
        path: str,
        wanted: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _Answer:
        """Send a request, again where it fails for the moment.

        Raises:
            StoreError: it is refused.
        """
        from urllib3.exceptions import HTTPError

        connections = _connections(os.getpid())
        url = f"{self.settings.endpoint or GOOGLE}{path}" + (f"?{urlencode(wanted)}" if wanted else "")
        failures, is_renewed = 0, False
        while True:
            try:
                signed = {**(headers or {}), **_signed(self.settings, method, url, location)}
                raw = connections.request(method, url, body=body, headers=signed, decode_content=False, retries=False)
                answer = _Answer(raw.status, raw.headers, raw.data)
            except HTTPError as error:
                failures += 1
                if failures == ATTEMPTS:
                    where = self.settings.endpoint or "Google Cloud Storage"
                    cause = f"cannot be reached ({type(error).__name__})"
                    way = "storage.gcs.endpoint and the network"
                    if proxies.of(url):
                        way = "storage.gcs.endpoint, and the proxy that the environment names (https_proxy, no_proxy)"
                    text = f"{where} {cause}: check {way}"
                    raise StoreError(Kind.FAILED, text, str(location)) from error
                pause(failures)
                continue
            if answer.status < 300:
                return answer
            if answer.status == 401 and not is_renewed and not self.settings.anonymous:
                is_renewed = True
                _credentials(os.getpid(), _identity()).token = None
                continue
            failures += 1
            if answer.status not in _AGAIN or failures == ATTEMPTS:
                raise _refused(answer, what, location)
            pause(failures)


def _path(location: Location) -> str:
    return f"/storage/v1/b/{location.bucket}/o/{quote(location.key, safe='')}"


def _object(location: Location, metadata: Mapping[str, Any]) -> Object:
    mtime_ns = int(_moment(metadata).timestamp() * 1e9)
    return Object(location, int(metadata.get("size", 0)), mtime_ns, str(metadata["generation"]))


def _moment(metadata: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(metadata["updated"]))


def _condition(when: str | None) -> dict[str, str]:
    return {} if when is None else {"ifGenerationMatch": "0" if when == ABSENT else when}


def _marked(mark: str) -> dict[str, Any]:
    return {"metadata": {MARK: mark}} if mark else {}


def _refused(answer: _Answer, what: str, location: Location) -> StoreError:
    """Translate an error answer of the store."""
    uri, bucket, status = str(location), location.bucket, answer.status
    try:
        says = " ".join(str(answer.content["error"]["message"]).split())
    except (ValueError, KeyError, TypeError):
        says = " ".join(answer.data[:200].decode("utf-8", "replace").split())
    if status in (409, 412):
        return writing.taken(location)
    if status == 404 and (what == "list" or _NO_BUCKET in says.lower()):
        return StoreError(Kind.MISSING, f"no bucket is named `{bucket}`: check its name", uri)
    if status == 404:
        return StoreError(Kind.MISSING, "file not found", uri)
    if status == 401:
        text = (
            f"the store does not accept the credentials of this machine: {says or 'they are missing'}; set "
            "GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account"
        )
        return StoreError(Kind.FORBIDDEN, text, uri)
    if status == 403:
        text = f"access is denied: the credentials of this machine need {_RIGHTS[what]} on the bucket `{bucket}`"
        return StoreError(Kind.FORBIDDEN, text, uri)
    if status == 501:
        return StoreError(Kind.UNSUPPORTED, "the store does not know what it is asked for", uri)
    if status in (429, 503):
        text = f"the store asked for patience {ATTEMPTS} times ({status}): run again later, or with fewer tasks"
        return StoreError(Kind.FAILED, text, uri)
    return StoreError(Kind.FAILED, f"the store fails: {status} {says}".rstrip(), uri)


def _signed(settings: GcsSettings, method: str, url: str, location: Location) -> dict[str, str]:
    """The headers that identify the client."""
    if settings.anonymous:
        return {}
    found = credentials(location)
    import google.auth.transport.urllib3 as transport
    from google.auth.exceptions import GoogleAuthError

    headers: dict[str, str] = {}
    try:
        asked: Any = transport
        found.before_request(asked.Request(_connections(os.getpid())), method, url, headers)
    except GoogleAuthError as error:
        raise _no_token(error, location) from error
    return headers


def credentials(location: Location) -> Any:
    """The credentials of this machine, as Google's own library finds them.

    Raises:
        StoreError: it has none that are valid.
    """
    try:
        import google.auth.transport.urllib3  # noqa: F401  # it needs what may be missing, too
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    except ModuleNotFoundError as error:
        raise missing_package("google-auth", "gcs", str(location)) from error
    try:
        return _credentials(os.getpid(), _identity())
    except DefaultCredentialsError as error:
        text = (
            "no valid credentials are found on this machine: set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a "
            "service account; for a public bucket set storage.gcs.anonymous"
        )
        raise StoreError(Kind.FORBIDDEN, text, str(location)) from error
    except GoogleAuthError as error:
        raise _no_token(error, location) from error


def _no_token(error: Exception, location: Location) -> StoreError:
    says = " ".join(str(error.args[0] if error.args else error).split())
    text = f"the credentials of this machine give no token ({says[:200]}): check them, and the clock of this machine"
    return StoreError(Kind.FORBIDDEN, text, str(location))


def _identity() -> tuple[str | None, ...]:
    """The environment variables about credentials, as a cache key."""
    return tuple(map(os.environ.get, ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GOOGLE_CLOUD_PROJECT")))


@lru_cache(maxsize=16)
def _credentials(process: int, identity: tuple[str | None, ...]) -> Any:
    import google.auth

    return google.auth.default(scopes=[_SCOPE])[0]


@lru_cache(maxsize=1)
def _connections(process: int) -> proxies.Connections:
    return proxies.Connections(_CONNECTIONS, _CONNECT_S, _READ_S)

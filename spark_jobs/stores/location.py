"""URIs of files and objects: `s3://bucket/key`, `abfss://container@account.dfs.core.windows.net/key`.

The text after the bucket is the key, character by character. Nothing in it is decoded or tidied up: a key may have
blanks, `%2F`, empty components, any letters, and `%20` in a URI is three characters of the key. Only `file:` URIs are
decoded, because they name local paths.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Alternative schemes, with the scheme that messages and plans use.
_ALIASES = {"abfs": "abfss", "s3a": "s3", "s3n": "s3"}
#: Schemes of HDFS: with the name of a cluster or a namenode, or the web address of a namenode.
HDFS = frozenset({"hdfs", "swebhdfs", "webhdfs"})
#: The stores that files are read from.
READABLE = frozenset({"abfss", "gs", "s3"}) | HDFS
#: The stores that files are written to.
WRITABLE = READABLE
#: A bucket's name as S3 and its kin accept it, old ones with capitals and underscores included.
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
#: The name of a cluster, or a host and its port; IPv6 addresses stand in brackets.
_CLUSTER = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,254}|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
#: A container and the host of its account. Other hosts than Azure's must never be sent a token.
_CONTAINER = re.compile(
    r"(?P<container>\$?[A-Za-z0-9][A-Za-z0-9-]{1,62})@(?P<account>[A-Za-z0-9-]+)\.(?:dfs|blob)\."
    r"(?P<suffix>core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|fabric\.microsoft\.com)",
    re.IGNORECASE,
)
#: A shared access signature, as consoles append it to addresses.
_SIGNATURE = re.compile(r"([?&]sig=)[^&]*")
MOST_KEY_BYTES = 1024


class BadLocation(ValueError):
    """A URI that leads nowhere.

    Args:
        message: why it is wrong.
        remedy: the text to write instead.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a store.

    Args:
        scheme: which kind of store, `s3`, `gs`, `abfss`, or one of `HDFS`.
        bucket: the bucket; on Azure the container, an `@` and the host of its account; the cluster or namenode of HDFS,
            empty for the one that the configuration of Hadoop names.
        key: the object's key, or the beginning of keys; empty for the whole bucket.
    """

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> Location:
        """The location of a name in this folder, as with local paths."""
        return self.at(self.key + name if self.key.endswith("/") or not self.key else f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last component of the key."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The folder: the key up to its last slash, which is part of it."""
        return self.at(self.key[: len(self.key) - len(self.name)])

    @property
    def stem(self) -> str:
        """The name without its last suffix, as `Path.stem` gives it."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The last suffix of the name with its point, as `Path.suffix` gives it."""
        return PurePosixPath(self.name).suffix

    @property
    def parents(self) -> tuple[Location, ...]:
        """The folders above it, the nearest first and the bucket last, as with local paths."""
        parts = self.key.rstrip("/").split("/")
        return tuple(self.at("/".join((*parts[:end], ""))) for end in range(len(parts) - 1, 0, -1)) + (
            (self.at(""),) if self.key else ()
        )

    def below(self, path: str) -> Location:
        """Where a relative path leads from this folder; it is tidied up as a local path is."""
        folder = self.key.rstrip("/")
        steps = posixpath.normpath(path).split("/")
        while steps[:1] == [".."]:
            folder, steps = folder.rpartition("/")[0], steps[1:]
        inner = "/".join(step for step in steps if step != ".")
        return self.at("/".join(filter(None, (folder, inner))))

    def name_in(self, folder: Location) -> str | None:
        """The rest of the key below a folder; None where it is not in it."""
        start = f"{folder.key.rstrip('/')}/" if folder.key else ""
        is_in = (self.scheme, self.bucket) == (folder.scheme, folder.bucket) and self.key.startswith(start)
        return self.key[len(start) :] if is_in else None

    def with_name(self, name: str) -> Location:
        """Another name in the same folder."""
        return self.parent / name

    def at(self, key: str) -> Location:
        """Another key of the same bucket."""
        return Location(self.scheme, self.bucket, key)


#: The location of a file: a local path, or a place in a store. Both have `name`, `parent`, `with_name` and `/`.
FilePath: TypeAlias = Path | Location


def located(text: str, base: str | FilePath = "") -> FilePath:
    """Parse a path or URI. A relative path starts at `base`, which may be a folder of a store.

    Raises:
        BadLocation: it is a URI that leads nowhere.
    """
    if scheme_of(text) not in ("", "file", *READABLE):
        known = ", ".join(f"{each}://" for each in sorted(READABLE))
        raise BadLocation(f"no client is known for {scheme_of(text)}://", f"name a local path or one of {known}")
    if is_uri(text) and scheme_of(text) != "file":
        return parse(text)
    path = local(text)
    if isinstance(base, Location):
        return Path(path) if os.path.isabs(path) else base.below(path)
    return Path(base, path)


def absolute(path: FilePath) -> FilePath:
    """A local path from the root, without `.` and `..`; a place in a store as it is."""
    return path if isinstance(path, Location) else Path(os.path.abspath(path))


def is_uri(path: str) -> bool:
    """Whether a path is a URI: it has a scheme."""
    return _SCHEME.match(path) is not None


def scheme_of(uri: str) -> str:
    """The kind of store that a URI leads to, in lower case; empty where it is a path."""
    found = _SCHEME.match(uri)
    if found is None:
        return ""
    scheme = found.group(1).lower()
    return _ALIASES.get(scheme, scheme)


def is_readable(path: str) -> bool:
    """Whether files are read from where a path or URI leads."""
    return scheme_of(path) in ("", "file", *READABLE)


def parse(uri: str) -> Location:
    """Parse a URI.

    Raises:
        BadLocation: it names no bucket, has credentials in it, or a key that is too long.
    """
    _, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme_of(uri) == "abfss":
        if _CONTAINER.fullmatch(bucket) is None:
            shown = "it names no container and account" if "@" not in bucket else "it names no host of Azure Storage"
            raise BadLocation(shown, "write abfss://container@account.dfs.core.windows.net/key")
        if _SIGNATURE.search(key):
            remedy = "leave it to the variable AZURE_STORAGE_SAS_TOKEN, and write the key alone"
            raise BadLocation("a URI has no place for a signature: plans and logs show it", remedy)
        name, _, host = bucket.partition("@")
        # Both hosts of an account lead to the same blobs.
        bucket = f"{name}@{host.lower().replace('.blob.', '.dfs.')}"
    elif "@" in bucket:
        remedy = "leave them to the environment, a profile or the machine's role, and write the bucket alone"
        raise BadLocation("a URI has no place for credentials: plans and logs show it", remedy)
    elif scheme_of(uri) in HDFS:
        bucket = bucket.lower()
        if (bucket or scheme_of(uri) != "hdfs") and _CLUSTER.fullmatch(bucket) is None:
            shown = f"`{bucket}` is no host or cluster" if bucket else "it names no host"
            raise BadLocation(shown, f"write {scheme_of(uri)}://host:port/path")
    elif _BUCKET.fullmatch(bucket) is None:
        shown = f"`{bucket}` is not a bucket name" if bucket else "it names no bucket"
        raise BadLocation(shown, f"write {scheme_of(uri)}://bucket/key; only the key may contain patterns and tokens")
    if len(key.encode()) > MOST_KEY_BYTES:
        raise BadLocation(f"its key has more than {MOST_KEY_BYTES} bytes", "no store has such keys; shorten it")
    return Location(scheme_of(uri), bucket, key)


def problem(uri: str) -> tuple[str, str] | None:
    """Why a URI leads nowhere, with what to do about it; None when it leads somewhere, or nobody can tell."""
    try:
        if scheme_of(uri) == "file":
            local(uri)
        elif scheme_of(uri) in READABLE:
            parse(uri)
    except BadLocation as error:
        return error.message, error.remedy
    return None


def local(uri: str) -> str:
    """The local path of a `file:` URI, percent-decoded; anything else as it is.

    Raises:
        BadLocation: it names another machine.
    """
    if scheme_of(uri) != "file":
        return uri
    _, _, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise BadLocation(f"a file: URI names no machine, and this one names `{host}`", "write file:///folder/file")
    return "/" + unquote(path)


def container(bucket: str) -> tuple[str, str, str]:
    """The container of a bucket on Azure, the account, and the account's host for blobs."""
    found = _CONTAINER.fullmatch(bucket)
    assert found is not None, bucket
    account, suffix = found["account"], found["suffix"]
    return found["container"], account, f"{account}.blob.{suffix}"


def without_credentials(uri: str) -> str:
    """A URI as it may be shown.

    What stands before an `@` in its bucket is left out, unless it is a container; so is a signature of Azure.
    """
    uri = _SIGNATURE.sub(r"\1…", uri)
    if scheme_of(uri) == "abfss" and _CONTAINER.match(uri.partition("://")[2]):
        return uri
    return re.sub(r"(://)[^/]*@", r"\1…@", uri)

"""Servers that speak the protocols of S3, Google Cloud Storage, Azure and HDFS, and a bucket of each test's own.

Azurite is not in Python: it is looked for on the path, and where `.ci/run` puts it. HDFS is a namenode and a datanode
in a JVM (`tests/hadoop.py`), and its bucket the whole file system, which each test finds empty.
"""

from __future__ import annotations

import atexit
import html
import json
import logging
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parent.parent
#: Where the programs of servers are that no package of Python has.
SERVERS = Path.home() / ".cache" / "clinker-servers"
ACCOUNT = "devstoreaccount1"
#: The key that every Azurite has: its documentation prints it.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ACCESS_KEY, SECRET_KEY, REGION = "AKIATESTTESTTEST", "a-secret-of-the-tests", "eu-central-1"


class AnyBucket(Protocol):
    """A bucket of some store, accessed without the code under test."""

    @property
    def scheme(self) -> str:
        """The scheme of its URIs."""

    @property
    def endpoint(self) -> str:
        """The server."""

    def uri(self, key: str) -> str:
        """The URI of a key."""

    def missing(self) -> str:
        """The URI of a bucket `no-such-bucket`, which is not there."""

    def put(self, key: str, body: bytes | str) -> None:
        """Write an object."""

    def get(self, key: str) -> bytes:
        """The bytes of an object."""

    def keys(self) -> list[str]:
        """All keys."""

    def delete(self, key: str) -> None:
        """Remove an object."""

    def uploads(self) -> list[str]:
        """The keys of uploads that nobody has completed, as far as the store tells of them."""

    def through(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have runs reach the server through another one."""


@dataclass(frozen=True)
class Bucket:
    """A bucket of S3, with the server's endpoint and a client that goes straight to it."""

    name: str
    endpoint: str
    client: Any

    scheme = "s3"

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def missing(self) -> str:
        return "s3://no-such-bucket/"

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)

    def through(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy)

    def put(self, key: str, body: bytes | str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return data

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def texts(self) -> dict[str, str]:
        return {key: self.get(key).decode() for key in self.keys()}

    def uploads(self) -> list[str]:
        return [each["Key"] for each in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ())]


@contextmanager
def serving_s3() -> Iterator[str]:
    """A server of S3 in this process; gives its endpoint."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The endpoint of a server that lives as long as the tests."""
    with serving_s3() as endpoint:
        yield endpoint


@cache
def _client(endpoint: str) -> Any:
    from botocore import session

    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return session.get_session().create_client("s3", region_name=REGION, endpoint_url=endpoint, **keys)


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket; the environment leads to it, and to no bucket of the person who runs the tests."""
    return new_s3_bucket(s3_server, monkeypatch)


def new_s3_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """What the fixture gives."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    client = _client(endpoint)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return Bucket(name, endpoint, client)


@dataclass(frozen=True)
class GcsBucket:
    """A bucket of the emulator of Google Cloud Storage."""

    name: str
    endpoint: str

    scheme = "gs"

    def uri(self, key: str) -> str:
        return f"gs://{self.name}/{key}"

    def missing(self) -> str:
        return "gs://no-such-bucket/"

    def put(self, key: str, body: bytes | str) -> None:
        where = f"upload/storage/v1/b/{self.name}/o?uploadType=media&name={urllib.parse.quote(key, safe='')}"
        _ask(f"{self.endpoint}/{where}", body.encode() if isinstance(body, str) else body)

    def get(self, key: str) -> bytes:
        return _ask(f"{self.endpoint}/storage/v1/b/{self.name}/o/{urllib.parse.quote(key, safe='')}?alt=media")

    def keys(self) -> list[str]:
        told = json.loads(_ask(f"{self.endpoint}/storage/v1/b/{self.name}/o"))
        return [each["name"] for each in told.get("items", ())]

    def delete(self, key: str) -> None:
        where = f"{self.endpoint}/storage/v1/b/{self.name}/o/{urllib.parse.quote(key, safe='')}"
        urllib.request.urlopen(urllib.request.Request(where, method="DELETE")).close()

    def uploads(self) -> list[str]:
        return []

    def through(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy)


def _ask(url: str, body: bytes | None = None) -> bytes:
    headers = {"Content-Type": "application/octet-stream"} if body is not None else {}
    request = urllib.request.Request(url, body, headers, method="GET" if body is None else "POST")
    with urllib.request.urlopen(request) as answer:
        data: bytes = answer.read()
    return data


@contextmanager
def serving_gcs() -> Iterator[str]:
    """An emulator of Google Cloud Storage, or the server that the environment names; gives the endpoint."""
    if named := os.environ.get("CLINKER_TEST_GCS"):
        yield named
        return
    with subprocess.Popen(
        [sys.executable, "-m", "tests.gcs_emulator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=REPOSITORY,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[str]:
    """The endpoint of a server that lives as long as the tests."""
    with serving_gcs() as endpoint:
        yield endpoint


@pytest.fixture
def gcs(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> GcsBucket:
    """An empty bucket, to which the environment leads."""
    return new_gcs_bucket(gcs_server, monkeypatch)


def new_gcs_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> GcsBucket:
    """What the fixture gives."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    request = urllib.request.Request(
        f"{endpoint}/storage/v1/b?project=p", f'{{"name": "{name}"}}'.encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request).close()
    return GcsBucket(name, endpoint)


@dataclass(frozen=True)
class AzureBucket:
    """A container of Azurite, with a client that goes straight to it."""

    name: str
    endpoint: str
    client: Any

    scheme = "abfss"

    def uri(self, key: str) -> str:
        return f"abfss://{self.name}@{ACCOUNT}.dfs.core.windows.net/{key}"

    def missing(self) -> str:
        return f"abfss://no-such-bucket@{ACCOUNT}.dfs.core.windows.net/"

    def put(self, key: str, body: bytes | str) -> None:
        self.client.upload_blob(key, body.encode() if isinstance(body, str) else body, overwrite=True)

    def get(self, key: str) -> bytes:
        data: bytes = self.client.download_blob(key).readall()
        return data

    def keys(self) -> list[str]:
        return [each.name for each in self.client.list_blobs()]

    def delete(self, key: str) -> None:
        self.client.delete_blob(key)

    def uploads(self) -> list[str]:
        return []

    def through(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(f"{proxy}/{ACCOUNT}"))


def connection_string(endpoint: str) -> str:
    """The environment variables of the account."""
    return f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={endpoint};"


@contextmanager
def serving_azure(folder: Path) -> Iterator[str]:
    """An Azurite with a folder for its files; gives the endpoint. Without Azurite the test is skipped."""
    found = shutil.which(
        "azurite-blob", path=os.pathsep.join([os.environ.get("PATH", ""), str(SERVERS / "node_modules/.bin")])
    )
    if found is None:
        pytest.skip(f"Azurite is not installed (npm install --prefix {SERVERS} azurite@3.35.0)")
    pytest.importorskip("azure.storage.blob", reason="the extra `azure` is not installed")
    where = ["--blobHost", "127.0.0.1", "--blobPort", "0"]
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with subprocess.Popen([found, *where, *options], stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        heard = next(
            (address for line in process.stdout if (address := re.search(r"listens on (http\S+)", line))), None
        )
        assert heard is not None, "Azurite does not start"
        try:
            yield f"{heard.group(1)}/{ACCOUNT}"
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a server that lives as long as the tests."""
    with serving_azure(tmp_path_factory.mktemp("azurite")) as endpoint:
        yield endpoint


@pytest.fixture
def azure(azure_server: str, monkeypatch: pytest.MonkeyPatch) -> AzureBucket:
    """An empty container, to which the environment leads."""
    return new_azure_bucket(azure_server, monkeypatch)


def new_azure_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> AzureBucket:
    """What the fixture gives."""
    from azure.storage.blob import ContainerClient

    for name in [each for each in os.environ if each.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(endpoint))
    name = f"container-{uuid.uuid4().hex[:12]}"
    client = ContainerClient.from_connection_string(connection_string(endpoint), name)
    client.create_container()
    return AzureBucket(name, endpoint.removesuffix(f"/{ACCOUNT}"), client)


@dataclass(frozen=True)
class HdfsBucket:
    """A cluster of HDFS: the name that URIs have for it, and the web address of its namenode."""

    name: str
    endpoint: str
    user: str

    scheme = "hdfs"

    def uri(self, key: str) -> str:
        return f"hdfs://{self.name}/{key}"

    def missing(self) -> str:
        return "hdfs://no-such-bucket/"

    def put(self, key: str, body: bytes | str) -> None:
        if key.endswith("/"):
            self.ask("PUT", key, "MKDIRS")
            return
        self.ask("PUT", key, "CREATE", overwrite="true", body=body.encode() if isinstance(body, str) else body)

    def get(self, key: str) -> bytes:
        return self.ask("GET", key, "OPEN")

    def keys(self) -> list[str]:
        return [*self._below("")]

    def delete(self, key: str) -> None:
        self.ask("DELETE", key, "DELETE", recursive="true")

    def uploads(self) -> list[str]:
        return []

    def through(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop_conf(self.name, proxy)))

    def clear(self) -> None:
        """Remove everything."""
        for name in self._names(""):
            self.delete(name.rstrip("/"))

    def ask(self, method: str, key: str, operation: str, *, body: bytes = b"", **wanted: str) -> bytes:
        """What WebHDFS answers, through Python's own client."""
        query = urllib.parse.urlencode({"op": operation, "user.name": self.user, **wanted})
        request = urllib.request.Request(f"{self.endpoint}/webhdfs/v1/{urllib.parse.quote(key)}?{query}", method=method)
        try:
            with _UNREDIRECTED.open(request) as answer:
                data: bytes = answer.read()
            return data
        except urllib.error.HTTPError as error:
            if error.code != 307:
                raise AssertionError(error.read().decode()) from error
            target = error.headers["Location"]
        headers = {"Content-Type": "application/octet-stream"}
        further = urllib.request.Request(target, body if method != "GET" else None, headers, method=method)
        with urllib.request.urlopen(further) as answer:
            return bytes(answer.read())

    def _names(self, folder: str) -> list[str]:
        told = json.loads(self.ask("GET", folder, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        return [each["pathSuffix"] + ("/" if each["type"] == "DIRECTORY" else "") for each in told]

    def _below(self, folder: str) -> Iterator[str]:
        """All files; and folders of runs that are empty, for none must stay."""
        names = self._names(folder)
        if not names and ".clinker" in folder:
            yield folder
        for name in names:
            yield from self._below(folder + name) if name.endswith("/") else [folder + name]


class _Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Redirections are followed with a body, which Python does not do."""


_UNREDIRECTED = urllib.request.build_opener(_Unredirected)


@cache
def hadoop_conf(name: str, endpoint: str) -> Path:
    """A folder for `HADOOP_CONF_DIR` in which a cluster has this web address."""
    folder = Path(tempfile.mkdtemp(prefix="clinker-hadoop-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    values = {
        "fs.defaultFS": f"hdfs://{name}",
        "dfs.namenode.http-address": endpoint.removeprefix("http://"),
        "dfs.namenode.rpc-address": name,
    }
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items()
    )
    (folder / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
    return folder


@contextmanager
def serving_hdfs(folder: Path) -> Iterator[tuple[str, str]]:
    """A namenode with a folder for its files; gives its name and its web address."""
    from tests.hadoop import jvm

    with jvm(folder) as java:
        conf = java.org.apache.hadoop.conf.Configuration()
        conf.set("hdfs.minidfs.basedir", str(folder))
        conf.set("dfs.namenode.delegation.token.always-use", "true")
        cluster = java.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(conf).numDataNodes(1).build()
        cluster.waitActive()
        yield f"localhost:{cluster.getNameNodePort()}", f"http://{cluster.getHttpUri(0).partition('://')[2]}"
        cluster.shutdown()


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The name and the web address of a namenode that lives as long as the tests."""
    with serving_hdfs(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


@pytest.fixture
def hdfs(hdfs_server: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> HdfsBucket:
    """An empty file system, to which the environment leads."""
    return new_hdfs_bucket(hdfs_server, monkeypatch)


def new_hdfs_bucket(server: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> HdfsBucket:
    """What the fixture gives."""
    for name in [each for each in os.environ if each.startswith("HADOOP_")]:
        monkeypatch.delenv(name)
    found = HdfsBucket(*server, user=pwd.getpwuid(os.geteuid()).pw_name)
    found.through(found.endpoint, monkeypatch)
    found.clear()
    return found


@pytest.fixture(params=["s3", "gcs", "azure", pytest.param("hdfs", marks=pytest.mark.spark)])
def bucket(request: pytest.FixtureRequest) -> AnyBucket:
    """An empty bucket of each store."""
    found: AnyBucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["s3", "gcs", "azure"])
def lake_bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnyBucket]:
    """An empty bucket of each store that has Delta tables."""
    found: AnyBucket = request.getfixturevalue(request.param)
    if request.param != "azure":
        yield found
        return
    from tests.stores.faults import between

    with between(found.endpoint) as proxy:
        proxy.edit = lambda asked, data: _from(asked.path, data)
        found.through(proxy.endpoint, monkeypatch)
        yield found


def _from(path: str, data: bytes) -> bytes:
    """A list of Azurite, which until version 3.37 has names before the one with which it should start."""
    start = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query).get("startFrom")
    if start is None:
        return data
    entries = re.compile(rb"<Blob>.*?<Name>(.*?)</Name>.*?</Blob>", re.DOTALL)
    return entries.sub(lambda each: each[0] if html.unescape(each[1].decode()) >= start[0] else b"", data)

"""Objects of Google Cloud Storage: looked at, listed, read by ranges, on an emulator."""

from __future__ import annotations

import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.scan import matching
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import gcs, location
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import GcsSettings, StoreSettings
from tests.execute import pipelines, without_spark
from tests.scan.test_globs import PATTERNS, TREE, names

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Bucket:
    """A bucket of the emulator."""

    endpoint: str
    name: str

    def uri(self, key: str) -> str:
        return f"gs://{self.name}/{key}"

    def put(self, key: str, body: bytes) -> None:
        where = f"upload/storage/v1/b/{self.name}/o?uploadType=media&name={urllib.parse.quote(key, safe='')}"
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.endpoint}/{where}", body, headers, method="POST")
        urllib.request.urlopen(request).close()

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings(gcs=GcsSettings(self.endpoint, anonymous=True))


#: In a process of its own: Arrow waits for the server while it holds the interpreter's lock.
SERVER = """
import sys
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True)
server.start()
print(server._api._httpd.server_address[1], flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.fixture
def bucket(emulator: str) -> Bucket:
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    request = urllib.request.Request(
        f"{emulator}/storage/v1/b?project=p", f'{{"name": "{name}"}}'.encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request).close()
    return Bucket(emulator, name)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_objects_as_they_match_files(pattern: str, tmp_path: Path, bucket: Bucket) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        bucket.put(name, name.encode())
    match = FileMatch(on_no_match="skip", glob=bucket.uri(pattern))
    found = matching.match("s", match, Path("/"), stores=bucket.settings)
    assert [file.name.removeprefix(bucket.uri("")) for file in found.files] == names(None, tmp_path, glob=pattern)


@pytest.mark.parametrize("key", ["a b.csv", "in/%2F e%20.csv", "in/é.csv", "in/g+h&i?.csv"])
def test_odd_keys_are_found_and_read(key: str, bucket: Bucket) -> None:
    bucket.put(key, f"the text of {key}".encode())
    place, store = location.parse(bucket.uri(key)), gcs.Gcs(bucket.settings.gcs)
    found = store.describe(place)
    assert found is not None
    assert store.fetch(place, 4, found.size, found.version).decode() == f"text of {key}"


def test_a_key_that_arrow_does_not_read_is_told(bucket: Bucket) -> None:
    with pytest.raises(StoreError, match="empty components"):
        gcs.Gcs(bucket.settings.gcs).describe(location.parse(bucket.uri("in//a.csv")))


def test_an_object_that_is_replaced_is_never_read_half(bucket: Bucket) -> None:
    bucket.put("a.bin", b"old" * 1000)
    place, store = location.parse(bucket.uri("a.bin")), gcs.Gcs(bucket.settings.gcs)
    found = store.describe(place)
    assert found is not None
    assert store.fetch(place, 0, 3, found.version) == b"old"
    bucket.put("a.bin", b"new" * 1000)
    with pytest.raises(StoreError) as error:
        store.fetch(place, 3, 6, found.version)
    assert error.value.kind is Kind.CHANGED


@pytest.mark.parametrize(
    ("uri", "says"), [("gs://BUCKET/none.csv", "not found"), ("gs://no-such-bucket/*.csv", "no bucket")]
)
def test_what_is_missing_is_told(uri: str, says: str, bucket: Bucket) -> None:
    filled = uri.replace("BUCKET", bucket.name)
    settings: dict[str, Any] = {"glob" if "*" in uri else "path": filled}
    with pytest.raises(FormatError, match=says):
        matching.match("s", FileMatch(**settings), Path("/"), stores=bucket.settings)


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "RETRY_S", 0.1)
    store = gcs.Gcs(GcsSettings("http://127.0.0.1:9", anonymous=True))
    with pytest.raises(StoreError, match="the store fails"):
        store.describe(location.parse("gs://bucket/a.csv"))


def test_a_pipeline_reads_objects_as_it_reads_files(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "3000")
    data = "id,v\n" + "".join(f"{number},text {number}\n" for number in range(2000))
    bucket.put("in/a.csv", data.encode())
    pipelines.write(
        tmp_path,
        {
            "clinker.toml": f'[storage.gcs]\nendpoint = "{bucket.endpoint}"\nanonymous = true\n',
            "pipeline.yaml": f"""
                pipeline: {{ name: p }}
                nodes:
                  - type: source
                    name: s
                    config: {{ type: csv, glob: "{bucket.uri("in/*")}", schema: {{ id: int, v: string }} }}
                  - {{ type: output, name: o, input: s, config: {{ type: csv, path: out/o.csv }} }}
                """,
        },
    )
    assert pipelines.run(tmp_path, allow_absolute_paths=True).result.exit_code == ExitCode.SUCCESS
    assert pipelines.outputs(tmp_path)["o.csv"].decode() == data

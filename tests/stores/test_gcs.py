"""Objects of Google Cloud Storage: looked at, listed, read by ranges, refused, on an emulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.scan import matching
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import gcs as gcs_store
from spark_jobs.stores import location
from spark_jobs.stores.gcs import Gcs
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import GcsSettings, StoreSettings
from tests.execute import pipelines, without_spark
from tests.stores.faults import Fault, between
from tests.stores.test_globs import PATTERNS, TREE, names

if TYPE_CHECKING:
    from tests.object_store import GcsBucket


def settings(gcs: GcsBucket) -> StoreSettings:
    return StoreSettings(gcs=GcsSettings(gcs.endpoint, anonymous=True))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_objects_as_they_match_files(pattern: str, tmp_path: Path, gcs: GcsBucket) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        gcs.put(name, name.encode())
    match = FileMatch(on_no_match="skip", glob=gcs.uri(pattern))
    found = matching.match("s", match, Path("/"), stores=settings(gcs))
    assert [file.name.removeprefix(gcs.uri("")) for file in found.files] == names(None, tmp_path, glob=pattern)


@pytest.mark.parametrize("key", ["a b.csv", "in/%2F e%20.csv", "in/é.csv", "in/g+h&i?.csv", "in//a.csv"])
def test_odd_keys_are_found_and_read(key: str, gcs: GcsBucket) -> None:
    gcs.put(key, f"the text of {key}".encode())
    place, store = location.parse(gcs.uri(key)), Gcs(settings(gcs).gcs)
    found = store.describe(place)
    assert found is not None
    assert store.fetch(place, 4, found.size, found.version).decode() == f"text of {key}"


def test_an_object_that_is_replaced_is_never_read_half(gcs: GcsBucket) -> None:
    gcs.put("a.bin", b"old" * 1000)
    place, store = location.parse(gcs.uri("a.bin")), Gcs(settings(gcs).gcs)
    found = store.describe(place)
    assert found is not None
    assert store.fetch(place, 0, 3, found.version) == b"old"
    gcs.put("a.bin", b"new" * 1000)
    with pytest.raises(StoreError) as error:
        store.fetch(place, 3, 6, found.version)
    assert error.value.kind is Kind.CHANGED


@pytest.mark.parametrize(
    ("uri", "says"), [("gs://BUCKET/none.csv", "not found"), ("gs://no-such-bucket/*.csv", "no bucket")]
)
def test_what_is_missing_is_told(uri: str, says: str, gcs: GcsBucket) -> None:
    filled = uri.replace("BUCKET", gcs.name)
    named: dict[str, Any] = {"glob" if "*" in uri else "path": filled}
    with pytest.raises(FormatError, match=says):
        matching.match("s", FileMatch(**named), Path("/"), stores=settings(gcs))


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.stores.s3._PAUSE_S", 0.001)
    store = Gcs(GcsSettings("http://127.0.0.1:9", anonymous=True))
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        store.describe(location.parse("gs://bucket/a.csv"))


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (401, Kind.FORBIDDEN, "does not accept the credentials of this machine"),
        (403, Kind.FORBIDDEN, "storage.objects.get on the bucket"),
        (429, Kind.FAILED, "asked for patience 6 times"),
        (503, Kind.FAILED, "asked for patience 6 times"),
        (400, Kind.FAILED, "the store fails: 400"),
    ],
)
def test_refusals_say_what_to_do(
    status: int, kind: Kind, says: str, gcs: GcsBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.stores.s3._PAUSE_S", 0.001)
    with between(gcs.endpoint) as proxy:
        proxy.rule = lambda request: Fault(status, "Refused")
        with pytest.raises(StoreError, match=says) as error:
            Gcs(GcsSettings(proxy.endpoint, anonymous=True)).describe(location.parse(gcs.uri("a.csv")))
    assert error.value.kind is kind


def test_a_missing_object_is_told_whatever_its_bucket_is_called(gcs: GcsBucket) -> None:
    with between(gcs.endpoint) as proxy:
        proxy.rule = lambda request: Fault(404, "No such object: my-bucket/a.csv")
        with pytest.raises(StoreError, match="file not found"):
            Gcs(GcsSettings(proxy.endpoint, anonymous=True)).fetch(location.parse("gs://my-bucket/a.csv"), 0, 1, "")


def test_what_fails_for_the_moment_is_asked_again(gcs: GcsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.stores.s3._PAUSE_S", 0.001)
    with between(gcs.endpoint) as proxy:
        faults = [Fault(503, "Busy"), Fault(after_cut=True), None, Fault(cut=3), None]
        proxy.rule = lambda request: faults[min(request.number, 4)]
        store, there = Gcs(GcsSettings(proxy.endpoint, anonymous=True)), location.parse(gcs.uri("a.csv"))
        version = store.put(there, b"the text", "mark", "*")
        assert store.fetch(there, 4, 8, version) == b"text"


def test_without_credentials_it_is_said_what_is_missing(
    gcs: GcsBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.auth", reason="the extra `gcs` is not installed")
    gcs_store._credentials.cache_clear()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(StoreError, match="set GOOGLE_APPLICATION_CREDENTIALS") as error:
        Gcs(GcsSettings(gcs.endpoint)).describe(location.parse(gcs.uri("a.csv")))
    assert error.value.kind is Kind.FORBIDDEN


def test_requests_are_signed_and_a_token_that_is_refused_is_renewed(
    gcs: GcsBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.auth", reason="the extra `gcs` is not installed")
    from google.auth import credentials

    class Renewed(credentials.Credentials):  # type: ignore[misc, no-untyped-call]
        count = 0

        def refresh(self, request: Any) -> None:
            self.count += 1
            self.token = f"token-{self.count}"

    used = Renewed()
    monkeypatch.setattr(gcs_store, "_credentials", lambda process, identity: used)
    with between(gcs.endpoint) as proxy:
        proxy.rule = lambda request: Fault(401, "Unauthorized") if request.number == 0 else None
        store = Gcs(GcsSettings(proxy.endpoint))
        assert store.describe(location.parse(gcs.uri("a.csv"))) is None
    assert used.count == 2


def test_a_pipeline_reads_objects_as_it_reads_files(
    tmp_path: Path, gcs: GcsBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "3000")
    data = "id,v\n" + "".join(f"{number},text {number}\n" for number in range(2000))
    gcs.put("in/a.csv", data.encode())
    pipelines.write(
        tmp_path,
        {
            "clinker.toml": f'[storage.gcs]\nendpoint = "{gcs.endpoint}"\nanonymous = true\n',
            "pipeline.yaml": f"""
                pipeline: {{ name: p }}
                nodes:
                  - type: source
                    name: s
                    config: {{ type: csv, glob: "{gcs.uri("in/*")}", schema: {{ id: int, v: string }} }}
                  - {{ type: output, name: o, input: s, config: {{ type: csv, path: out/o.csv }} }}
                """,
        },
    )
    assert pipelines.run(tmp_path, allow_absolute_paths=True).result.exit_code == ExitCode.SUCCESS
    assert pipelines.outputs(tmp_path)["o.csv"].decode() == data

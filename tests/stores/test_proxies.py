"""Stores behind the proxy of a network, which the environment names: read, listed and written through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.formats.iceberg import catalog
from spark_jobs.stores import location, proxies
from spark_jobs.stores.any_store import AnyStore
from spark_jobs.stores.refusals import StoreError
from spark_jobs.stores.settings import S3Settings, StoreSettings
from tests.scan import web
from tests.stores.faults import between

if TYPE_CHECKING:
    from tests.object_store import AnyBucket, GcsBucket


def _use(bucket: AnyBucket) -> None:
    store, place = AnyStore(StoreSettings().resolved()), location.parse(bucket.uri("in/a.csv"))
    store.put(place, b"id\n1\n")
    found = store.describe(place)
    assert found is not None
    assert store.fetch(place, 0, found.size, found.version) == b"id\n1\n"
    assert [each.location.key for page in store.pages(place.at("in/"), deep=True) for each in page.objects] == [
        "in/a.csv"
    ]
    store.delete(place)
    assert bucket.keys() == []


@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_all_requests_go_through_the_proxy(
    spelling: type[str], bucket: AnyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.without_proxies(monkeypatch)
    if bucket.scheme != "hdfs":  # a namenode is named by its URI, and sends on to datanodes at 127.0.0.1
        bucket.through("http://192.0.2.1", monkeypatch)
    with between(bucket.endpoint) as proxy:
        monkeypatch.setenv(spelling("http_proxy"), proxy.endpoint)
        # The test itself asks the server, and other tests may run in this process.
        monkeypatch.setenv(spelling("no_proxy"), "127.0.0.1")
        _use(bucket)
    assert {"GET", "DELETE"} <= {each.method for each in proxy.requests}
    named = ("http://192.0.2.1", "http://localhost:")
    assert all(each.path.startswith(named) or bucket.scheme == "s3" for each in proxy.requests)


def test_addresses_that_no_proxy_is_for_are_reached_directly(
    bucket: AnyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.without_proxies(monkeypatch)
    with between(bucket.endpoint) as proxy:
        monkeypatch.setenv("http_proxy", proxy.endpoint)
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        _use(bucket)
    assert proxy.requests == []


def test_a_proxy_that_is_gone_is_named(gcs: GcsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    web.without_proxies(monkeypatch)
    gcs.through("http://192.0.2.1", monkeypatch)
    with between(gcs.endpoint) as proxy:
        monkeypatch.setenv("http_proxy", proxy.endpoint)
    monkeypatch.setattr("spark_jobs.stores.gcs.pause", lambda failures: None)
    with pytest.raises(StoreError, match="and the proxy that the environment names"):
        AnyStore(StoreSettings().resolved()).describe(location.parse(gcs.uri("a.csv")))


def test_the_metadata_of_iceberg_tables_go_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    web.without_proxies(monkeypatch)
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("no_proxy", "minio.example")
    known = catalog._of_store(S3Settings(anonymous=True))
    assert known["s3.proxy-uri"] == "http://proxy.example:3128"
    assert "s3.proxy-uri" not in catalog._of_store(S3Settings("https://minio.example:9000", anonymous=True))


def test_a_machine_asks_for_its_own_credentials_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    web.without_proxies(monkeypatch)
    monkeypatch.setenv("http_proxy", "http://me:p%40w@proxy.example:3128")
    assert proxies.of("http://metadata.google.internal/computeMetadata/v1/") is None
    assert proxies.of("http://169.254.169.254/latest") is None
    assert proxies.of("https://storage.googleapis.com/b") is None
    found = proxies.of("http://storage.example/b")
    assert found is not None
    assert proxies.settings(found) == {
        "proxy": "http://proxy.example:3128", "proxy_headers": {"proxy-authorization": "Basic bWU6cEB3"}
    }  # fmt: skip

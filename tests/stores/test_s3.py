"""Objects of S3: looked at, listed, read by ranges, and what the store refuses."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from spark_jobs.stores import heads, location, opening, reading, s3
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import S3Settings, StoreSettings
from tests.stores.faults import Fault, Proxy, Request, between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.object_store import Bucket

DATA = bytes(range(256)) * 6000


@pytest.fixture
def proxy(s3: Bucket) -> Iterator[Proxy]:
    with between(s3.endpoint) as made:
        yield made


def store(endpoint: str | None = None) -> s3.S3:
    return s3.S3(S3Settings(endpoint, path_style=True).resolved())


def opened(bucket: Bucket, key: str, proxy: Proxy) -> reading.ObjectReader:
    settings = StoreSettings(S3Settings(proxy.endpoint, path_style=True)).resolved()
    found = store().describe(location.parse(bucket.uri(key)))
    assert found is not None
    return opening.open_object(bucket.uri(key), found.size, found.version, settings)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_PAUSE_S", 0.001)
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)


KEYS = [
    "a.csv",
    "in/b c.csv",
    "in//d.csv",
    "in/%2F e%20.csv",
    "in/../f.csv",
    "in/é.csv",
    "in/e\u0301.csv",
    "in/g+h&i?.csv",
]


@pytest.mark.parametrize("key", KEYS)
def test_odd_keys_are_found_and_read(key: str, s3: Bucket) -> None:
    s3.put(key, f"the text of {key}")
    place = location.parse(s3.uri(key))
    found = store().describe(place)
    assert found is not None
    assert store().fetch(place, 4, found.size, found.version).decode() == f"text of {key}"


def test_all_keys_are_listed_as_they_are(s3: Bucket) -> None:
    for key in [*KEYS, "in/folder/"]:
        s3.put(key, key)
    pages = [*store().pages(location.parse(s3.uri("")), deep=True)]
    assert sorted(each.location.key for page in pages for each in page.objects) == sorted(KEYS)
    (page,) = store().pages(location.parse(s3.uri("in/")), deep=False)
    assert set(page.folders) == {"in//", "in/../", "in/folder/"}
    assert all(each.version and each.mtime_ns and each.size for each in page.objects)


def test_lists_have_pages(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.stores.s3.PAGE_KEYS", 5)
    for number in range(12):
        s3.put(f"in/{number:04}.csv", "")
    pages = [*store().pages(location.parse(s3.uri("in/")), deep=True)]
    assert [len(page.objects) for page in pages] == [5, 5, 2]
    assert len({each.location.key for page in pages for each in page.objects}) == 12


def test_what_is_not_there_is_none(s3: Bucket) -> None:
    assert store().describe(location.parse(s3.uri("none.csv"))) is None


def test_reading_at_any_position_gives_the_bytes_that_are_there(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA)
    with opened(s3, "a.bin", proxy) as reader:
        assert reader.read(10) == DATA[:10]
        reader.seek(len(DATA) - 5)
        assert reader.read(10) == DATA[-5:]
        reader.seek(9)
        assert reader.read(300_000) == DATA[9:300_009]
        reader.seek(1_000_000)
        assert reader.read(1) == DATA[1_000_000:1_000_001]
        reader.seek(0)
        assert b"".join(iter(lambda: reader.read(100_001), b"")) == DATA


def test_ranges_grow_and_none_is_fetched_twice(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA * 8)
    with opened(s3, "a.bin", proxy) as reader:
        assert b"".join(iter(lambda: reader.read(1 << 20), b"")) == DATA * 8
    ranges = [each.range.removeprefix("bytes=").split("-") for each in proxy.asked("GET")]
    got = sorted((int(first), int(last)) for first, last in ranges)
    assert sum(last - first + 1 for first, last in got) == len(DATA) * 8
    assert 3 <= len(got) <= 8
    assert max(last - first + 1 for first, last in got) <= reading.MOST_BYTES


def test_nothing_beyond_what_is_expected_is_fetched(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA * 8)
    with opened(s3, "a.bin", proxy) as reader:
        reader.expect(3 << 20)
        found = b"".join(reader.read(1 << 19) for _ in range(6))
    assert found == (DATA * 8)[: 3 << 20]
    assert max(int(each.range.split("-")[1]) for each in proxy.asked("GET")) == (3 << 20) - 1


# ---- faults


@pytest.mark.parametrize(("size", "requests"), [(reading.LEAST_BYTES, 1), (reading.LEAST_BYTES + 1, 2)])
def test_a_small_object_is_fetched_as_a_whole(size: int, requests: int, s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA[:size])
    with opened(s3, "a.bin", proxy) as reader:
        reader.seek(size - 8)
        assert reader.read(8) == DATA[size - 8 : size]
        reader.seek(10)
        assert reader.read(100) == DATA[10:110]
    assert len(proxy.requests) == requests


def test_what_fails_for_the_moment_is_tried_again(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA)
    faults = [
        Fault(503, "SlowDown"),
        Fault(cut=1000),
        Fault(500, "InternalError"),
        Fault(cut=0),
        Fault(429, "TooManyRequests"),
    ]
    proxy.rule = lambda request: faults[request.number] if request.number < len(faults) else None
    with opened(s3, "a.bin", proxy) as reader:
        assert reader.read(len(DATA)) == DATA
    assert len(proxy.requests) == len(faults) + 1


def test_a_store_that_always_cuts_is_given_up(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA)
    proxy.rule = lambda request: Fault(cut=0)
    with opened(s3, "a.bin", proxy) as reader, pytest.raises(StoreError, match="cut off 6 times") as error:
        reader.read(10)
    assert error.value.kind is Kind.FAILED
    assert len(proxy.requests) == 6


def test_an_object_that_is_replaced_is_never_read_half(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA)

    def replace(request: Request) -> Fault | None:
        return Fault(before=lambda: s3.put("a.bin", DATA[::-1])) if request.number == 1 else None

    proxy.rule = replace
    with opened(s3, "a.bin", proxy) as reader:
        assert reader.read(100) == DATA[:100]
        reader.seek(1_000_000)
        with pytest.raises(StoreError) as error:
            reader.read(100)
    assert error.value.kind is Kind.CHANGED


def test_a_cut_body_is_not_completed_from_another_version(s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA)

    def replace(request: Request) -> Fault | None:
        return Fault(cut=5000) if request.number == 0 else Fault(before=lambda: s3.put("a.bin", DATA[::-1]))

    proxy.rule = replace
    with opened(s3, "a.bin", proxy) as reader, pytest.raises(StoreError) as error:
        reader.read(100_000)
    assert error.value.kind is Kind.CHANGED


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (403, "AccessDenied", Kind.FORBIDDEN, "need s3:GetObject on the bucket"),
        (400, "ExpiredToken", Kind.FORBIDDEN, "have expired: renew them"),
        (403, "InvalidAccessKeyId", Kind.FORBIDDEN, "does not accept the credentials"),
        (403, "SignatureDoesNotMatch", Kind.FORBIDDEN, "does not accept the credentials"),
        (403, "RequestTimeTooSkewed", Kind.FORBIDDEN, "the clock of this machine"),
        (403, "InvalidObjectState", Kind.FAILED, "in an archive: restore it"),
        (400, "AuthorizationHeaderMalformed", Kind.FAILED, "set storage.s3.region"),
        (404, "NoSuchBucket", Kind.MISSING, "no bucket is named"),
        (503, "SlowDown", Kind.FAILED, "asked for patience"),
        (418, "Teapot", Kind.FAILED, "GetObject fails: Teapot for a test"),
    ],
)
def test_refusals_say_what_to_do(status: int, code: str, kind: Kind, says: str, s3: Bucket, proxy: Proxy) -> None:
    s3.put("a.bin", DATA)
    with opened(s3, "a.bin", proxy) as reader:
        proxy.rule = lambda request: Fault(status, code)
        with pytest.raises(StoreError, match=says) as error:
            reader.read(10)
    assert error.value.kind is kind
    assert s3.name in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_bucket_that_is_not_there_is_told(s3: Bucket) -> None:
    with pytest.raises(StoreError, match="no bucket is named `bucket-none`"):
        next(store().pages(location.parse("s3://bucket-none/in/"), deep=True))


def test_a_server_that_is_not_there_is_told(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.stores.s3.ATTEMPTS", 1)
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        store("http://127.0.0.1:9").describe(location.parse(s3.uri("a.csv")))


def test_missing_credentials_are_told(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    settings = S3Settings(region="us-west-1").resolved()  # a client of its own
    store_of = opening.store("s3", StoreSettings(settings))
    with pytest.raises(StoreError, match="no credentials are found"):
        store_of.describe(location.parse(s3.uri("a.csv")))


def test_an_object_that_comes_twice_is_fetched_with_its_first_batch() -> None:
    keys = [[("a", "1"), ("b", "1")], [("c", "1")], [("a", "1")]]
    fetched: list[int] = []

    def fetch(number: int) -> list[bytes]:
        fetched.append(number)
        return [uri.encode() for uri, _ in keys[number]]

    with heads.batches(keys, fetch):
        assert [heads.take(uri, "1") for uri in "abc"] == [b"a", b"b", b"c"]
        assert heads.take("a", "1") is None  # whoever wants it again asks for it
    assert fetched == [0, 1]

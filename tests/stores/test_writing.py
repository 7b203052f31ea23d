"""What publishing asks of stores: conditions, marks, uploads that nobody sees, and the same answers of all of them."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs.stores import location, opening, writing
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import StoreSettings
from spark_jobs.stores.writing import ABSENT
from tests.object_store import ACCOUNT_KEY

if TYPE_CHECKING:
    from spark_jobs.stores.any_store import AnyStore
    from spark_jobs.stores.location import Location
    from tests.object_store import AnyBucket, AzureBucket

MIB = 1 << 20


@pytest.fixture
def store(bucket: AnyBucket) -> AnyStore:
    return opening.writable(StoreSettings().resolved())


def place(bucket: AnyBucket, key: str) -> Location:
    return location.parse(bucket.uri(key))


def test_a_condition_holds_or_the_write_is_refused(bucket: AnyBucket, store: AnyStore) -> None:
    there = place(bucket, "out/a b%2F.csv")
    first = store.put(there, b"first", "mark-1", ABSENT)
    found = store.look(there)
    assert found is not None
    assert (found.version, found.size, found.mark) == (first, 5, "mark-1")
    assert -5 < found.age_s < 60
    for wrong in (ABSENT, "1" if bucket.scheme == "gs" else '"other"'):
        with pytest.raises(StoreError) as error:
            store.put(there, b"refused", "mark-2", wrong)
        assert error.value.kind is Kind.TAKEN
    second = store.put(there, b"second", "mark-3", first)
    assert second != first
    assert store.get(there) == b"second"
    described = store.describe(there)
    assert described is not None
    assert (described.version, described.size) == (second, 6)
    assert [each for page in store.pages(there, deep=True) for each in page.objects] == [described]
    with pytest.raises(StoreError) as error:
        store.fetch(there, 1, 3, first)
    assert error.value.kind is Kind.CHANGED
    assert store.fetch(there, 1, 3, second) == b"ec"


def test_a_write_whose_answer_was_lost_has_succeeded(bucket: AnyBucket, store: AnyStore) -> None:
    there = place(bucket, "out/a.csv")
    first = store.put(there, b"data", "mark", ABSENT)
    assert store.put(there, b"data", "mark", ABSENT) == first


def test_what_is_not_there_is_nothing(bucket: AnyBucket, store: AnyStore) -> None:
    there = place(bucket, "out/none.csv")
    assert (store.look(there), store.get(there), store.describe(there)) == (None, None, None)
    store.delete(there)
    with pytest.raises(StoreError) as error:
        store.fetch(there, 0, 1, "")
    assert error.value.kind is Kind.MISSING


def test_folders_are_folded_and_placeholders_left_out(bucket: AnyBucket, store: AnyStore) -> None:
    for key in ("in/a.csv", "in/b/c.csv", "in/b/d/e.csv", "in/f/", "other/g.csv"):
        bucket.put(key, "x")
    flat = [*store.pages(place(bucket, "in/"), deep=False)]
    assert [each.location.key for page in flat for each in page.objects] == ["in/a.csv"]
    assert sorted(name for page in flat for name in page.folders) == ["in/b/", "in/f/"]
    deep = [each.location.key for page in store.pages(place(bucket, "in/"), deep=True) for each in page.objects]
    assert sorted(deep) == ["in/a.csv", "in/b/c.csv", "in/b/d/e.csv"]


def test_an_upload_is_seen_when_it_is_complete(bucket: AnyBucket, store: AnyStore) -> None:
    """Sent, copied as a whole, copied in part: in the order of their numbers, whoever ends first."""
    there, depot = place(bucket, "out/a.bin"), place(bucket, "out/.clinker-r/uploads")
    whole, long = place(bucket, "out/.clinker-r/parts/x"), place(bucket, "out/.clinker-r/parts/y")
    store.put(whole, b"w" * (5 * MIB))
    store.put(long, b"-" + b"l" * (17 * MIB) + b"-")
    upload = store.begin(there, depot, "mark")
    last = store.send(upload, 4, b"end")
    middle = store.copy(upload, 3, long, 1, 17 * MIB + 1)
    tags = [store.send(upload, 1, b"a" * (5 * MIB)), store.copy(upload, 2, whole, 0, 5 * MIB), middle, last]
    assert store.look(there) is None
    assert [each for page in store.pages(there, deep=True) for each in page.objects] == []
    version = store.complete(upload, tags, "mark", ABSENT)
    assert bucket.get("out/a.bin") == b"a" * (5 * MIB) + b"w" * (5 * MIB) + b"l" * (17 * MIB) + b"end"
    found = store.look(there)
    assert found is not None
    assert (found.version, found.mark) == (version, "mark")
    assert store.complete(upload, tags, "mark", ABSENT) == version, "once more, because the answer was lost"
    for source in store.reads(upload, tags):
        assert source.key.startswith("out/.clinker-r/")


def test_an_upload_to_a_name_that_was_taken_is_refused(bucket: AnyBucket, store: AnyStore) -> None:
    there, depot = place(bucket, "out/a.bin"), place(bucket, "out/.clinker-r/uploads")
    upload = store.begin(there, depot, "mark")
    tags = [store.send(upload, 1, b"mine")]
    bucket.put("out/a.bin", "of another program")
    with pytest.raises(StoreError) as error:
        store.complete(upload, tags, "mark", ABSENT)
    assert error.value.kind in (Kind.TAKEN, Kind.MISSING)
    assert bucket.get("out/a.bin") == b"of another program"
    store.abort(upload)
    assert bucket.keys() == ["out/a.bin"]


def test_very_many_parts_stay_in_order(gcs: AnyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.stores.gcs.COMPOSED", 3)
    store = opening.writable(StoreSettings().resolved())
    there, depot = place(gcs, "out/a.txt"), place(gcs, "out/.clinker-r/uploads")
    upload = store.begin(there, depot, "mark")
    tags = [store.send(upload, number, f"{number},".encode()) for number in range(1, 41)]
    store.complete(upload, tags, "mark", ABSENT)
    assert gcs.get("out/a.txt").decode() == "".join(f"{number}," for number in range(1, 41))


def test_a_bucket_that_is_not_there_is_told(bucket: AnyBucket, store: AnyStore) -> None:
    there = location.parse(f"{bucket.missing()}a.csv")
    with pytest.raises(StoreError, match=r"no (bucket|container|namenode) (is named|of) `no-such-bucket`"):
        store.put(there, b"data", "mark", ABSENT)
    with pytest.raises(StoreError, match=r"no (bucket|container|namenode) (is named|of) `no-such-bucket`"):
        next(store.pages(there, deep=True))


def test_bytes_come_as_they_are_though_the_object_says_that_they_are_packed(azure: AzureBucket) -> None:
    from azure.storage.blob import ContentSettings

    data = gzip.compress(b"id\n1\n2\n")
    azure.client.upload_blob("in.csv.gz", data, content_settings=ContentSettings(content_encoding="gzip"))
    store, there = opening.writable(StoreSettings().resolved()), location.parse(azure.uri("in.csv.gz"))
    assert store.get(there) == data
    assert store.fetch(there, 5, 12, "") == data[5:12]


def test_other_credentials_of_the_environment_count_at_once(
    azure: AzureBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    azure.put("a.csv", "id")
    store, there = opening.writable(StoreSettings().resolved()), location.parse(azure.uri("a.csv"))
    known = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", known.replace(ACCOUNT_KEY, "d3Jvbmc="))
    with pytest.raises(StoreError) as error:
        store.get(there)
    assert error.value.kind is Kind.FORBIDDEN
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", known)
    assert store.get(there) == b"id"


@pytest.mark.parametrize("key", ["out/../a.csv", "out/./a.csv", ".."])
def test_dots_between_slashes_lead_to_no_other_blob(key: str, azure: AzureBucket) -> None:
    azure.put("a.csv", "other")
    store, there = opening.writable(StoreSettings().resolved()), location.parse(azure.uri(key))
    with pytest.raises(StoreError, match="no names with"):
        store.put(there, b"data")
    with pytest.raises(StoreError, match="no names with"):
        store.get(there)


def test_chunks_cover_a_range() -> None:
    assert [*writing.chunks(3, 3 + 2 * writing.SENT_BYTES + 1)] == [
        (3, 3 + writing.SENT_BYTES),
        (3 + writing.SENT_BYTES, 3 + 2 * writing.SENT_BYTES),
        (3 + 2 * writing.SENT_BYTES, 4 + 2 * writing.SENT_BYTES),
    ]

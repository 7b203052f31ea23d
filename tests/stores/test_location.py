"""Where URIs lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.stores import location
from spark_jobs.stores.location import Location


@pytest.mark.parametrize(
    ("uri", "bucket", "key"),
    [
        ("s3://b1/in/a.csv", "b1", "in/a.csv"),
        ("S3A://b1/in/a.csv", "b1", "in/a.csv"),
        ("abfs://data@acme.dfs.core.windows.net/in/a b.csv", "data@acme.dfs.core.windows.net", "in/a b.csv"),
        ("abfss://data@Acme.blob.core.windows.net", "data@acme.dfs.core.windows.net", ""),
        ("s3n://my.bucket_1/", "my.bucket_1", ""),
        ("s3://b1", "b1", ""),
        ("s3://b1//in//a b%2Fc%20.csv", "b1", "/in//a b%2Fc%20.csv"),
        ("s3://b1/in/é\u0301?#.csv", "b1", "in/é\u0301?#.csv"),
    ],
)
def test_a_key_is_what_follows_the_bucket_to_the_letter(uri: str, bucket: str, key: str) -> None:
    assert location.parse(uri) == Location("abfss" if "@" in uri else "s3", bucket, key)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3:///in/a.csv", "names no bucket"),
        ("s3://b*/a.csv", "not a bucket name"),
        ("s3://AKIA:secret@b1/a.csv", "no place for credentials"),
        ("hdfs://user@namenode:8020/a.csv", "no place for credentials"),
        ("hdfs://namenode:8020:1/a.csv", "no host or cluster"),
        ("hdfs://name*/a.csv", "no host or cluster"),
        ("webhdfs:///a.csv", "names no host"),
        ("abfss://data/a.csv", "names no container and account"),
        ("abfss://data@acme.dfs.core.windows.net/a.csv?sv=2024&sig=secret", "no place for a signature"),
        ("abfss://data@acme.example.com/a.csv", "no host of Azure Storage"),
        ("abfss://key:secret@acme.dfs.core.windows.net/a.csv", "no host of Azure Storage"),
        ("s3://b1/" + "ü" * 513, "more than 1024 bytes"),
    ],
)
def test_uris_that_lead_nowhere_say_why(uri: str, says: str) -> None:
    with pytest.raises(location.BadLocation, match=says) as error:
        location.parse(uri)
    assert "secret" not in str(error.value)
    assert location.problem(uri) is not None


@pytest.mark.parametrize(
    ("uri", "bucket"),
    [
        ("hdfs://NameNode.acme:8020/in/a b.csv", "namenode.acme:8020"),
        ("hdfs://warehouse/in/a b.csv", "warehouse"),
        ("HDFS:///in/a b.csv", ""),
        ("swebhdfs://[2001:db8::1]:9871/in/a b.csv", "[2001:db8::1]:9871"),
    ],
)
def test_clusters_of_hdfs_have_names_of_hosts(uri: str, bucket: str) -> None:
    place = location.parse(uri)
    assert (place.bucket, place.key) == (bucket, "in/a b.csv")
    assert location.parse(str(place)) == place


def test_file_uris_are_local_paths() -> None:
    assert location.local("file:///in/a%20b.csv") == "/in/a b.csv"
    assert location.local("FILE://localhost/in/a.csv") == "/in/a.csv"
    assert location.local("in/a%20b.csv") == "in/a%20b.csv"
    with pytest.raises(location.BadLocation, match="names no machine"):
        location.local("file://server/in/a.csv")


def test_credentials_in_a_uri_are_not_shown() -> None:
    assert location.without_credentials("s3://AKIA:se@cret@b1/a@b.csv") == "s3://…@b1/a@b.csv"
    container = "abfss://data@acme.dfs.core.windows.net/a.csv"
    assert location.without_credentials(container) == container
    assert "secret" not in location.without_credentials(f"{container}?sv=2024&sig=secret")
    assert "secret" not in location.without_credentials("abfss://key:secret@acme.dfs.core.windows.net/a.csv")


@pytest.mark.parametrize(
    ("key", "name", "parent"),
    [("a.csv", "a.csv", ""), ("in/a.csv", "a.csv", "in/"), ("in//a.csv", "a.csv", "in//"), ("/a.csv", "a.csv", "/")],
)
def test_a_place_has_the_parts_of_a_path(key: str, name: str, parent: str) -> None:
    place = location.parse(f"s3://bucket/{key}")
    assert (place.name, place.parent.key, place.parent / name) == (name, parent, place)
    assert place.with_name("b.csv") == place.parent / "b.csv"


def test_a_uri_of_no_known_store_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(location.BadLocation, match=r"no client is known for viewfs://"):
        location.located("viewfs://host/a.csv", tmp_path)


def test_a_folder_is_one_with_and_without_its_slash() -> None:
    assert location.parse("s3://bucket/out") / "a" == location.parse("s3://bucket/out/") / "a"


def test_paths_and_uris_lead_to_files(tmp_path: Path) -> None:
    assert location.located("out/a.csv", tmp_path) == tmp_path / "out/a.csv"
    assert location.located("file:///a%20b.csv", tmp_path) == Path("/a b.csv")
    assert location.located("S3A://bucket/a.csv", tmp_path) == location.parse("s3://bucket/a.csv")


def test_folders_above_are_those_of_a_local_path() -> None:
    for key in ("a/b/c.yaml", "a/b/", "a", "a//b/c"):
        found = [each.key for each in location.Location("s3", "bucket", key).parents]
        assert found[-1] == ""
        assert found == sorted(found, reverse=True)
    assert [each.key for each in location.Location("s3", "bucket", "a/b/c.yaml").parents] == ["a/b/", "a/", ""]
    assert [each.key for each in location.Location("s3", "bucket", "a/b/").parents] == ["a/", ""]
    assert location.Location("s3", "bucket", "").parents == ()


@pytest.mark.parametrize(
    ("folder", "path", "key"),
    [
        ("a/b", "c.csv", "a/b/c.csv"),
        ("a/b/", "./c//d.csv", "a/b/c/d.csv"),
        ("", "c.csv", "c.csv"),
        ("a/b", ".", "a/b"),
        ("a/b", "../c.csv", "a/c.csv"),
        ("a", "../../c.csv", "c.csv"),
    ],
)
def test_relative_paths_start_at_a_folder(folder: str, path: str, key: str) -> None:
    start = location.Location("s3", "bucket", folder)
    assert location.located(path, start) == start.at(key)


def test_a_folder_has_what_is_below_it_and_nothing_that_is_named_alike() -> None:
    folder = location.Location("s3", "bucket", "a/b")
    assert folder.at("a/b/c").name_in(folder) == "c"
    assert folder.at("a/b2/c").name_in(folder) is None
    assert folder.at("a/b").name_in(folder) is None
    assert location.Location("s3", "other", "a/b/c").name_in(folder) is None
    assert folder.at("x").name_in(folder.at("")) == "x"

"""Files of HDFS: which namenode is asked and as whom, what is refused and what is said of it, and races for a name."""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.scan import matching
from spark_jobs.stores import hadoop_conf, location, webhdfs
from spark_jobs.stores import hdfs as hdfs_store
from spark_jobs.stores.hdfs import Hdfs
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import HdfsSettings, StoreSettings
from spark_jobs.stores.writing import ABSENT
from tests.stores.faults import Fault, between
from tests.stores.test_globs import PATTERNS, TREE, names

if TYPE_CHECKING:
    from tests.object_store import HdfsBucket

NEEDS_JVM = pytest.mark.spark
SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://${cluster}</value></property>
  <property><name>cluster</name><value>Warehouse</value></property>
  <property><name>dfs.nameservices</name><value>Warehouse, other, plain</value></property>
  <property><name>dfs.ha.namenodes.Warehouse</name><value>a,b</value></property>
  <property><name>dfs.namenode.http-address.Warehouse.a</name><value>a.acme:9870</value></property>
  <property><name>dfs.namenode.http-address.Warehouse.b</name><value>0.0.0.0:50070</value></property>
  <property><name>dfs.namenode.rpc-address.Warehouse.b</name><value>b.acme:8020</value></property>
  <property><name>dfs.namenode.http-address.other</name><value>c.acme:9870</value></property>
  <property><name>dfs.ha.namenodes.plain</name><value>a,b</value></property>
  <property><name>dfs.namenode.rpc-address.plain.a</name><value>d.acme:8020</value></property>
  <property><name>dfs.namenode.rpc-address.plain.b</name><value>e.acme:8020</value></property>
</configuration>
"""
ALONE = """<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://nn.acme:8020/</value></property>
  <property><name>dfs.http.policy</name><value>HTTPS_ONLY</value></property>
  <property><name>dfs.namenode.https-address</name><value>nn.acme:9871</value></property>
</configuration>
"""


def store() -> Hdfs:
    return Hdfs(HdfsSettings().resolved())


def place(bucket: HdfsBucket, key: str) -> location.Location:
    return location.parse(bucket.uri(key))


# ---- which namenode ----------------------------------------------------------------------------------------------


def test_nameservices_are_those_of_hadoops_configuration(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text(SITE)
    found = hadoop_conf.read(str(tmp_path))
    assert found.default == "warehouse"
    assert dict(found.namenodes) == {
        "warehouse": ("http://a.acme:9870", "http://b.acme:50070"),
        "other": ("http://c.acme:9870",),
        "plain": ("http://d.acme:9870", "http://e.acme:9870"),
    }


def test_a_single_namenode_has_its_address_with_and_without_its_port(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(ALONE)
    found = hadoop_conf.read(str(tmp_path))
    assert (found.default, dict(found.namenodes)) == (
        "nn.acme:8020",
        {"nn.acme:8020": ("https://nn.acme:9871",), "nn.acme": ("https://nn.acme:9871",)},
    )


def test_a_broken_configuration_is_told_where_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    settings = StoreSettings().resolved().hdfs
    assert "hdfs-site.xml cannot be read" in settings.problem
    with pytest.raises(StoreError, match=r"names no cluster.*hdfs-site.xml cannot be read"):
        Hdfs(settings).describe(location.parse("hdfs:///in/a.csv"))


@pytest.mark.parametrize(
    ("uri", "addresses"),
    [
        ("hdfs://warehouse/a.csv", ("http://nn1:9870", "http://nn2:9870")),
        ("hdfs://nn:9000/a.csv", ("http://nn:9870",)),
        ("hdfs://nn/a.csv", ("http://nn:9870",)),
        ("hdfs://conf/a.csv", ("http://c:9870",)),
        ("webhdfs://nn:14000/a.csv", ("http://nn:14000",)),
        ("webhdfs://nn/a.csv", ("http://nn:9870",)),
        ("swebhdfs://nn/a.csv", ("https://nn:9871",)),
        ("hdfs:///a.csv", ("http://c:9870",)),
    ],
)
def test_addresses_come_from_settings_then_from_hadoop_then_from_the_name(uri: str, addresses: tuple[str, ...]) -> None:
    settings = HdfsSettings(
        endpoints=(("warehouse", ("http://nn1:9870", "http://nn2:9870")),),
        namenodes=(("conf", ("http://c:9870",)), ("warehouse", ("http://wrong:9870",))),
        default="conf",
    )
    assert webhdfs.WebHdfs(settings)._addresses(location.parse(uri)) == addresses


@NEEDS_JVM
def test_the_active_namenode_is_found_and_remembered(hdfs: HdfsBucket) -> None:
    hdfs.put("a.csv", b"text")
    standby = json.dumps({"RemoteException": {"exception": "StandbyException", "message": "READ is not supported"}})
    with between(hdfs.endpoint) as first, between(hdfs.endpoint) as second:
        first.rule = lambda request: Fault(403, body=standby)
        addresses = ("http://127.0.0.1:9", first.endpoint, second.endpoint)
        there = Hdfs(HdfsSettings(endpoints=(("warehouse", addresses),), user=hdfs.user))
        for _ in range(2):
            assert there.get(location.parse("hdfs://warehouse/a.csv")) == b"text"
    assert len(first.requests) == 1
    assert len(second.requests) >= 4


def test_another_datanode_is_asked_for_where_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A namenode names a dead datanode for ten minutes, and always the nearest one."""
    monkeypatch.setattr(webhdfs, "ATTEMPTS", 4)
    monkeypatch.setattr(webhdfs, "pause", lambda failures: None)
    none_left = json.dumps({"RemoteException": {"exception": "IOException", "message": "No active nodes"}})
    standby = json.dumps({"RemoteException": {"exception": "StandbyException", "message": "READ is not supported"}})
    with between("http://127.0.0.1:9") as namenode, between("http://127.0.0.1:9") as second:
        dead = Fault(307, headers=(("Location", "http://localhost:9/webhdfs/v1/a.csv?op=OPEN"),))
        namenode.rule = lambda request: (
            dead
            if "excludedatanodes" not in request.path
            else Fault(200, body="text" if "op=OPEN" in request.path else "")
        )
        second.rule = lambda request: Fault(403, body=standby)
        addresses = (namenode.endpoint, second.endpoint)
        there = webhdfs.WebHdfs(HdfsSettings(endpoints=(("nn", addresses),), user="etl"))
        place = location.parse("hdfs://nn/a.csv")
        assert there.ask("GET", "OPEN", place, "/a.csv", {"offset": "0"}).data == b"text"
        assert "excludedatanodes=127.0.0.1&" in namenode.requests[-1].path
        # Where no other one has the block, the same one is asked for again, and in the end it is to blame.
        namenode.rule = lambda request: Fault(403, body=none_left) if "excludedatanodes" in request.path else dead
        with pytest.raises(StoreError, match=r"a datanode of `nn` cannot be reached \(localhost:9: .* whether it runs"):
            there.ask("GET", "OPEN", place, "/a.csv")
    assert ["excludedatanodes" in each.path for each in namenode.requests[2:]] == [False, True, False, True]


def test_clusters_that_cannot_be_reached_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhdfs, "ATTEMPTS", 1)
    there = Hdfs(HdfsSettings(endpoints=(("warehouse", ("http://127.0.0.1:9",)),)))
    with pytest.raises(StoreError, match=r"no namenode of `warehouse` can be reached \(127.0.0.1:9: .*HADOOP_CONF_DIR"):
        there.describe(location.parse("hdfs://warehouse/a.csv"))


# ---- who asks ----------------------------------------------------------------------------------------------------


@NEEDS_JVM
def test_a_user_who_may_not_write_is_told(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.put("in/a.csv", b"text")
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    assert store().get(place(hdfs, "in/a.csv")) == b"text"
    with pytest.raises(StoreError, match=r"access is denied to the user `guest`: .*access=WRITE") as error:
        store().put(place(hdfs, "in/b.csv"), b"text", "mark", ABSENT)
    assert error.value.kind is Kind.FORBIDDEN
    assert hdfs.keys() == ["in/a.csv"]


@NEEDS_JVM
def test_a_delegation_token_is_sent_as_the_namenode_gave_it_and_told_to_nobody(
    hdfs: HdfsBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A namenode without Kerberos gives tokens, and does not look at them: this one does not know who asks."""
    caplog.set_level(0)
    hdfs.put("in/a.csv", b"text")
    token = json.loads(hdfs.ask("GET", "", "GETDELEGATIONTOKEN", renewer=hdfs.user))["Token"]["urlString"]
    fields = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    (tmp_path / "tokens").write_bytes(b"HDTS\x00\x01\x05alias" + fields + b"\x00")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    with between(hdfs.endpoint) as proxy:
        hdfs.through(proxy.endpoint, monkeypatch)
        with pytest.raises(StoreError, match=r"access is denied") as error:
            store().delete(place(hdfs, "in/a.csv"))
    assert [f"delegation={token}" in each.path for each in proxy.requests] == [True]
    assert not [each for each in proxy.requests if "user.name" in each.path]
    assert "delegation=…" in caplog.text
    assert token not in str(error.value) + caplog.text


@pytest.mark.parametrize(
    ("service", "authority", "is_sent"),
    [
        (b"ha-hdfs:warehouse", "warehouse", True),
        (b"127.0.0.1:8020", "localhost:8020", True),
        (b"127.0.0.1:8020", "127.0.0.1:9870", True),
        (b"nn.acme:8020", "nn.acme", True),
        (b"ha-hdfs:warehouse", "other", False),
        (b"127.0.0.1:8020", "other.invalid:8020", False),
    ],
)
def test_a_token_goes_to_no_other_cluster(service: bytes, authority: str, is_sent: bool, tmp_path: Path) -> None:
    fields = b"".join(bytes([len(each)]) + each for each in (b"id", b"secret", b"HDFS_DELEGATION_TOKEN", service))
    (tmp_path / "tokens").write_bytes(b"HDTS\x00\x01\x01a" + fields + b"\x00")
    found = hadoop_conf.token(authority, str(tmp_path / "tokens"), "hdfs://x/")
    assert (found is not None) == is_sent


def test_a_token_that_was_renewed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens"
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(path))
    found = []
    for secret in (b"one", b"two"):
        fields = (b"id", secret, b"HDFS_DELEGATION_TOKEN", b"ha-hdfs:warehouse")
        path.write_bytes(b"HDTS\x00\x01\x01a" + b"".join(bytes([len(each)]) + each for each in fields) + b"\x00")
        os.utime(path, ns=(len(found), len(found)))
        found.append(webhdfs.WebHdfs(HdfsSettings())._who(location.parse("hdfs://warehouse/a"), "http://nn:9870"))
    assert found[0] != found[1]


@pytest.mark.parametrize("data", [b"", b"HDTS\x01\x00", b"HDTS\x00\x05\x01", b"HDTS\x00\x01\x01a\x7f"])
def test_a_file_that_holds_no_tokens_is_told(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_bytes(data)
    with pytest.raises(StoreError, match=r"HADOOP_TOKEN_FILE_LOCATION\) cannot be read: it is no file"):
        hadoop_conf.token("nn", str(tmp_path / "tokens"), "hdfs://nn/")


@pytest.mark.parametrize("value", [0, 127, 128, 255, 256, 65535, 1 << 20])
def test_lengths_are_written_as_they_are_read(value: int) -> None:
    assert hadoop_conf._Reader(hadoop_conf._vint(value)).number() == value


# ---- which files -------------------------------------------------------------------------------------------------


@NEEDS_JVM
def test_patterns_match_files_of_hdfs_as_they_match_local_ones(tmp_path: Path, hdfs: HdfsBucket) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        hdfs.put(name, name.encode())
    for pattern in PATTERNS:
        match = FileMatch(on_no_match="skip", glob=hdfs.uri(pattern))
        found = matching.match("s", match, Path("/"), stores=StoreSettings())
        wanted = names(None, tmp_path, glob=pattern)
        assert [file.name.removeprefix(hdfs.uri("")) for file in found.files] == wanted, pattern


@NEEDS_JVM
def test_lists_of_several_pages_are_whole(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [f"in/{name}" for name in ("a", "b-1", "b-2", "b-3", "b", "c")]
    for name in wanted:
        hdfs.put(name, b"x")
    ask = webhdfs.WebHdfs.ask

    def short(self: webhdfs.WebHdfs, method: str, operation: str, *arguments: Any) -> webhdfs.Answer:
        answer = ask(self, method, operation, *arguments)
        if operation != "LISTSTATUS_BATCH":
            return answer
        body = answer.body
        entries = body["DirectoryListing"]["partialListing"]["FileStatuses"]["FileStatus"]
        body["DirectoryListing"]["remainingEntries"] = max(0, len(entries) - 2)
        body["DirectoryListing"]["partialListing"]["FileStatuses"]["FileStatus"] = entries[:2]
        return webhdfs.Answer(200, answer.date, json.dumps(body).encode())

    def without(self: webhdfs.WebHdfs, method: str, operation: str, *arguments: Any) -> webhdfs.Answer:
        return ask(self, method, "NO_SUCH_OP" if operation == "LISTSTATUS_BATCH" else operation, *arguments)

    def ignoring(self: webhdfs.WebHdfs, method: str, operation: str, *arguments: Any) -> webhdfs.Answer:
        return short(self, method, operation, *arguments[:2])

    for server in (short, without, ignoring):
        monkeypatch.setattr(webhdfs.WebHdfs, "ask", server)
        for prefix, expected in (("in/", wanted), ("in/b-", wanted[1:4]), ("in/b", wanted[1:5]), ("in/d", [])):
            pages = store().pages(place(hdfs, prefix), deep=True)
            found = [each.location.key for page in pages for each in page.objects]
            assert sorted(found) == sorted(expected), server


@NEEDS_JVM
@pytest.mark.parametrize(
    "key", ["a b.csv", "in/%2F e%20.csv", "in/é.csv", "in/g+h&i?.csv", "in/a;b=c,d#.csv", "i\u0301/e\u0301.csv"]
)
def test_odd_names_are_found_read_and_written(key: str, hdfs: HdfsBucket) -> None:
    there = place(hdfs, key)
    version = store().put(there, f"the text of {key}".encode(), "mark", ABSENT)
    found = store().describe(there)
    assert found is not None
    assert found.version == version
    assert store().fetch(there, 4, found.size, version).decode() == f"text of {key}"
    assert hdfs.keys() == [key]
    upload = store().begin(there, there.parent / ".clinker-r/uploads")
    tags = [store().send(upload, 1, b"1"), store().send(upload, 2, b"2")]
    store().complete(upload, tags, "other", found.version)
    assert store().fetch(there, 0, 2, "").decode() == "12"
    assert hdfs.keys() == [key]


@pytest.mark.parametrize("key", ["out/../a.csv", "out/./a.csv", "..", "out//a.csv", "/a.csv", "out/a:b.csv", "out//"])
def test_names_that_hdfs_does_not_have_are_told(key: str) -> None:
    with pytest.raises(StoreError, match="paths of HDFS have no") as error:
        store().put(location.parse(f"hdfs://nn/{key}"), b"data")
    assert error.value.kind is Kind.UNSUPPORTED


# ---- reading -----------------------------------------------------------------------------------------------------


@NEEDS_JVM
def test_no_range_is_of_another_file(hdfs: HdfsBucket) -> None:
    """A file that was replaced is told, and one that has grown has its first bytes still."""
    there = place(hdfs, "in/a.csv")
    hdfs.put("in/a.csv", b"first")
    first = store().describe(there)
    assert first is not None
    hdfs.ask("POST", "in/a.csv", "APPEND", body=b" and more")
    grown = store().describe(there)
    assert grown is not None
    assert (grown.version != first.version, grown.size) == (True, 14)
    assert store().fetch(there, 0, 5, first.version) == b"first"
    hdfs.put("in/a.csv", b"other")
    with pytest.raises(StoreError) as error:
        store().fetch(there, 0, 5, first.version)
    assert error.value.kind is Kind.CHANGED
    hdfs.delete("in/a.csv")
    with pytest.raises(StoreError) as error:
        store().fetch(there, 0, 5, first.version)
    assert error.value.kind is Kind.MISSING


@NEEDS_JVM
def test_servers_that_know_no_inodes_are_asked_by_name(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    there = place(hdfs, "in/a.csv")
    hdfs.put("in/a.csv", b"first")
    version = store()._known_version(there)
    missing = json.dumps({"RemoteException": {"exception": "FileNotFoundException", "message": "no"}})
    with between(hdfs.endpoint) as proxy:
        hdfs.through(proxy.endpoint, monkeypatch)
        proxy.rule = lambda request: Fault(404, body=missing) if ".reserved" in request.path else None
        assert store().fetch(there, 1, 3, version) == b"ir"

        def replaced_meanwhile() -> None:
            hdfs.put("in/a.csv", b"other")

        proxy.rule = lambda request: (
            Fault(404, body=missing)
            if ".reserved" in request.path
            else Fault(before=replaced_meanwhile)
            if "op=OPEN" in request.path
            else None
        )
        with pytest.raises(StoreError) as error:
            store().fetch(there, 1, 3, version)
    assert error.value.kind is Kind.CHANGED


# ---- writing -----------------------------------------------------------------------------------------------------


@NEEDS_JVM
@pytest.mark.parametrize("operation", ["CREATE", "SETXATTR", "RENAME"])
def test_an_answer_that_was_lost_changes_nothing(
    operation: str, hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with between(hdfs.endpoint) as proxy:
        hdfs.through(proxy.endpoint, monkeypatch)
        for condition in (None, ABSENT, "known"):
            lost = iter([True])
            there = place(hdfs, f"out/{condition == 'known'}/{condition == ABSENT}.csv")
            when = store().put(there, b"old", "old") if condition == "known" else condition
            proxy.rule = lambda request, lost=lost: (  # type: ignore[misc]
                Fault(after_cut=True) if f"op={operation}" in request.path and next(lost, False) else None
            )
            version = store().put(there, b"new", "new", when)
            found = store().look(there)
            assert found is not None
            assert (found.version, found.mark, store().get(there)) == (version, "new", b"new")
            assert next(lost, None) is None
    assert not [key for key in hdfs.keys() if ".clinker" in key]  # noqa: SIM118 - no dictionary


@NEEDS_JVM
def test_an_upload_whose_last_answer_was_lost_is_complete(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing marks it, as parts of tasks are not marked."""
    with between(hdfs.endpoint) as proxy:
        hdfs.through(proxy.endpoint, monkeypatch)
        lost = iter([True])
        proxy.rule = lambda request: (
            Fault(after_cut=True) if "op=RENAME" in request.path and next(lost, False) else None
        )
        there = place(hdfs, "out/.clinker-r/parts/x")
        upload = store().begin(there, place(hdfs, "out/.clinker-r/parts/x.upload"))
        tags = [store().send(upload, 1, b"12345"), store().send(upload, 2, b"678")]
        version = store().complete(upload, tags, "")
    assert next(lost, None) is None
    assert (store()._known_version(there), hdfs.get(there.key)) == (version, b"12345678")
    assert hdfs.keys() == [there.key]


@NEEDS_JVM
def test_of_many_that_replace_one_version_one_does(hdfs: HdfsBucket) -> None:
    there = place(hdfs, "out/a.csv")
    first = store().put(there, b"first", "first", ABSENT)
    won: list[int] = []
    lost: list[StoreError] = []

    def replace(number: int) -> None:
        try:
            store().put(there, f"{number}".encode(), f"mark-{number}", first)
            won.append(number)
        except StoreError as error:
            lost.append(error)

    threads = [threading.Thread(target=replace, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (len(won), len(lost)) == (1, 5)
    assert {each.kind for each in lost} == {Kind.TAKEN}
    assert hdfs.get("out/a.csv") == f"{won[0]}".encode()
    assert hdfs.keys() == ["out/a.csv"]


@NEEDS_JVM
def test_one_that_died_on_its_way_to_a_name_is_pushed_aside(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_store, "_CLAIM_S", 3.0)  # some times the whole seconds of the server's clock
    there = place(hdfs, "out/a.csv")
    first = store().put(there, b"first", "first", ABSENT)
    aside = f"out/.clinker-put-{hdfs_store._digest('a.csv')}/{hdfs_store._digest(first)}"
    hdfs.put(aside, b"of a dead run")
    store().put(there, b"second", "second", first)
    assert hdfs.get("out/a.csv") == b"second"
    assert hdfs.keys() == ["out/a.csv"]


@NEEDS_JVM
def test_what_recovery_takes_for_remains_is_written_again(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with between(hdfs.endpoint) as proxy:
        hdfs.through(proxy.endpoint, monkeypatch)
        swept = iter([True])

        def sweep() -> None:
            for key in hdfs.keys():  # noqa: SIM118 - no dictionary
                hdfs.delete(key)

        proxy.rule = lambda request: Fault(before=sweep) if "op=RENAME" in request.path and next(swept, False) else None
        store().put(place(hdfs, "out/a.csv"), b"text", "mark", ABSENT)
    assert (hdfs.keys(), hdfs.get("out/a.csv")) == (["out/a.csv"], b"text")


@NEEDS_JVM
def test_very_many_parts_are_joined_in_order_however_often_it_is_begun(
    hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole parts, sent ones and empty ones; the process dies between any two requests and another one goes on."""
    monkeypatch.setattr(hdfs_store, "_NAMES_BYTES", 200)
    there, depot = place(hdfs, "out/a.txt"), place(hdfs, "out/.clinker-r/uploads")
    upload = store().begin(there, depot, "mark")
    tags = list[str]()
    for number in range(1, 13):
        whole = place(hdfs, f"out/.clinker-r/parts/{number}")
        text = f"{number}," if number != 5 else ""
        if number % 3:
            tags.append(store().send(upload, number, text.encode()))
        else:
            store().put(whole, text.encode())
            tags.append(store().copy(upload, number, whole, 0, len(text)))
    asked = hdfs_store.Hdfs._asked
    deaths = 0
    for at in range(1000):
        count = iter(range(1000))

        def dying(self: Hdfs, *arguments: Any, at: int = at, count: Any = count, **wanted: Any) -> webhdfs.Answer:
            if next(count) == at:
                raise KeyboardInterrupt
            return asked(self, *arguments, **wanted)

        monkeypatch.setattr(hdfs_store.Hdfs, "_asked", dying)
        try:
            store().complete(upload, tags, "mark", ABSENT)
            break
        except KeyboardInterrupt:
            deaths += 1
    monkeypatch.setattr(hdfs_store.Hdfs, "_asked", asked)
    assert deaths > 5
    assert hdfs.get("out/a.txt").decode() == "1,2,3,4,6,7,8,9,10,11,12,"


@NEEDS_JVM
def test_parts_that_somebody_has_changed_are_not_joined(hdfs: HdfsBucket) -> None:
    there = place(hdfs, "out/a.txt")
    upload = store().begin(there, place(hdfs, "out/.clinker-r/uploads"), "mark")
    tags = [store().send(upload, 1, b"12345"), store().send(upload, 2, b"678")]
    hdfs.put(f"{upload.id}000001", b"1234")
    with pytest.raises(StoreError, match="another length than was written"):
        store().complete(upload, tags, "mark", ABSENT)
    assert store().look(there) is None


@NEEDS_JVM
def test_a_folder_of_that_name_is_told(hdfs: HdfsBucket) -> None:
    hdfs.put("out/a.csv/", b"")
    with pytest.raises(StoreError, match="a folder has this name") as error:
        store().put(place(hdfs, "out/a.csv"), b"text", "mark", ABSENT)
    assert error.value.kind is Kind.TAKEN, "nobody can complete that later"
    with pytest.raises(StoreError, match="a folder has this name"):
        store().put(place(hdfs, "out/a.csv"), b"text")


@NEEDS_JVM
def test_a_file_in_the_place_of_a_folder_is_told(hdfs: HdfsBucket) -> None:
    hdfs.put("out/a.csv", b"text")
    with pytest.raises(StoreError, match=r"a file stands where the path has a folder: /out/a.csv"):
        store().put(place(hdfs, "out/a.csv/b.csv"), b"text", "mark", ABSENT)


@NEEDS_JVM
def test_gateways_that_say_only_yes_and_no_are_understood(hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """HttpFS renames without options, and answers whether it did."""
    ask = webhdfs.WebHdfs.ask

    def simple(self: webhdfs.WebHdfs, method: str, operation: str, *arguments: Any) -> webhdfs.Answer:
        if operation == "RENAME":
            there, path, wanted, *others = arguments
            arguments = (there, path, {"destination": wanted["destination"]}, *others)
        return ask(self, method, operation, *arguments)

    monkeypatch.setattr(webhdfs.WebHdfs, "ask", simple)
    there = place(hdfs, "out/a.csv")
    store().put(there, b"first", "mark", ABSENT)
    with pytest.raises(StoreError) as error:
        store().put(there, b"second", "other", ABSENT)
    assert error.value.kind is Kind.TAKEN
    with pytest.raises(StoreError, match="this gateway to HDFS replaces no files"):
        store().put(there, b"second")
    assert hdfs.get("out/a.csv") == b"first"


@pytest.mark.parametrize(
    ("status", "exception", "kind", "says"),
    [
        (403, "AccessControlException", Kind.FORBIDDEN, "access is denied to the user `etl`: words"),
        (403, "InvalidToken", Kind.FORBIDDEN, "fetch a new one"),
        (401, "", Kind.FORBIDDEN, "the cluster wants Kerberos: fetch a delegation token"),
        (403, "DSQuotaExceededException", Kind.FAILED, "a quota of HDFS is exceeded: words"),
        (403, "SafeModeException", Kind.FAILED, "asked for patience 2 times"),
        (403, "StandbyException", Kind.FAILED, "are on standby: make one active"),
        (400, "UnsupportedOperationException", Kind.UNSUPPORTED, "does not know GETFILESTATUS"),
        (500, "", Kind.FAILED, "GETFILESTATUS fails: 500"),
    ],
)
def test_refusals_say_what_to_do(
    status: int, exception: str, kind: Kind, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhdfs, "ATTEMPTS", 2)
    told = {"RemoteException": {"exception": exception, "message": "words\n\tat org.apache.hadoop"}}
    with between("http://127.0.0.1:9") as proxy:
        proxy.rule = lambda request: Fault(status, body=json.dumps(told) if exception else "<html>")
        there = Hdfs(HdfsSettings(endpoints=(("nn", (proxy.endpoint,)),), user="etl"))
        with pytest.raises(StoreError, match=says) as error:
            there.describe(location.parse("hdfs://nn/a.csv"))
    assert error.value.kind is kind
    assert "org.apache" not in str(error.value)

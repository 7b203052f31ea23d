"""Runs that die while they write into a store: the next one finds old files or new ones, and removes the rest."""

from __future__ import annotations

import itertools
import json
import os
import signal
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery.objects import draft, journal, layout, lease, recovery
from spark_jobs.stores import azure as azure_store
from spark_jobs.stores import gcs as gcs_store
from spark_jobs.stores import hdfs as hdfs_store
from spark_jobs.stores import location, opening
from spark_jobs.stores import s3 as s3_store
from spark_jobs.stores.refusals import StoreError
from spark_jobs.stores.settings import StoreSettings
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.execute.delivery.test_object_outputs import published, run
from tests.stores.faults import Fault, between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spark_jobs.stores.any_store import AnyStore
    from tests.object_store import AnyBucket, Bucket
    from tests.stores.faults import Request

#: A process that is forked and killed takes a second or two. With 1 each request is a place to die at, for ten minutes.
STEP = int(os.environ.get("CLINKER_TEST_STEP", "29"))
#: What sends a request, of each store.
REQUESTS = ((s3_store.S3, "ask"), (gcs_store.Gcs, "_asked"), (azure_store.Azure, "_asked"), (hdfs_store.Hdfs, "_asked"))
PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: OUT/dead/letters.csv}}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int, text: string}}}
  - {type: output, name: a, input: s, config: {name: a, type: csv, path: OUT/a.csv}}
  - {type: output, name: b, input: s, config: {name: b, type: json, path: OUT/deep/b.json}}
  - {type: output, name: c, input: s, config: {name: c, type: csv, path: OUT/c.csv, split: {max_records: 2}}}
"""
OLD = {"a.csv": "old", "deep/b.json": "old", "c_0001.csv": "old", "c_0002.csv": "old", "c_0003.csv": "old"}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def prepare(folder: Path, out: str) -> None:
    rows = "id,text\n0,a\n1,b\nx,c\n3,d\n"
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("OUT", out), "in.csv": rows})


def store() -> AnyStore:
    return opening.writable(StoreSettings().resolved())


def recovered(bucket: AnyBucket) -> list[Any]:
    folders = [location.parse(bucket.uri(key)) for key in ("out/", "out/deep/", "out/dead/")]
    return [home for folder in folders for home in recovery.recover(store(), folder)]


#: Tasks send every file, however small it is.
BY_TASKS = Tuning(driver_output_bytes=-1)


def whole(folder: Path, tuning: Tuning = BY_TASKS) -> None:
    error = run(folder, force=True, tuning=tuning).error
    assert error is None, error


def _counted(ask: Callable[..., Any], numbers: Iterator[int], at: int) -> Callable[..., Any]:
    def counted(self: object, *arguments: Any, **wanted: Any) -> Any:
        if next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return ask(self, *arguments, **wanted)

    return counted


def dying(action: Callable[[], object], at: int) -> bool:
    """Do something in a process that is killed before a request; whether it was killed."""
    child = os.fork()
    if not child:
        try:
            numbers = itertools.count()
            for kind, name in REQUESTS:
                setattr(kind, name, _counted(getattr(kind, name), numbers, at))
            action()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child that was forked must not go on as a test
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def small(found: dict[str, bytes]) -> dict[str, str]:
    return {name: data.decode() for name, data in found.items() if not name.startswith("dead/")}


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_death_at_any_request_leaves_old_files_or_new_ones(size: str, bucket: AnyBucket, tmp_path: Path) -> None:
    tuning = BY_TASKS if size == "large" else Tuning()
    prepare(tmp_path, "out")
    assert pipelines.run(tmp_path).result.error is None
    new = small(pipelines.outputs(tmp_path))
    prepare(tmp_path, bucket.uri("out"))
    seen = set[str]()
    for at in itertools.count(0, STEP):
        for key in [*bucket.keys()]:
            bucket.delete(key)
        for name, text in OLD.items():
            bucket.put(f"out/{name}", text)
        killed = dying(lambda: whole(tmp_path, tuning), at)
        recovered(bucket)
        after = published(bucket)
        found = small(after)
        assert found in (OLD, new), at
        assert ("dead/letters.csv" in after) == (found == new), at
        seen.add("old" if found == OLD else "new")
        if not killed:
            break
    assert seen == {"old", "new"}
    assert at > 80


def test_a_death_in_recovery_is_recovered_too(
    bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "out")
    assert pipelines.run(tmp_path).result.error is None
    new = small(pipelines.outputs(tmp_path))
    prepare(tmp_path, bucket.uri("out"))

    def half(self: draft.ObjectDraft, entry: journal.Entry) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(draft.ObjectDraft, "_apply", half)
    for at in itertools.count(0, STEP):
        for key in [*bucket.keys()]:
            bucket.delete(key)
        assert dying(lambda: whole(tmp_path), 100_000), "killed once its journal was written"
        killed = dying(lambda: recovered(bucket), at)
        recovered(bucket)
        assert small(published(bucket)) == new, at
        if not killed:
            break
    assert at > 20


SEVERAL = """
pipeline: {name: several}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int, text: string}}}
  - {type: output, name: a, input: s, config: {name: a, type: csv, path: "S3/o.csv"}}
  - {type: output, name: b, input: s, config: {name: b, type: csv, path: "GCS/o.csv"}}
  - {type: output, name: c, input: s, config: {name: c, type: csv, path: "AZURE/o.csv"}}
"""


@pytest.mark.parametrize("dies", [False, True])
def test_files_of_one_run_in_several_stores_are_published_together(
    dies: bool, s3: AnyBucket, gcs: AnyBucket, azure: AnyBucket, tmp_path: Path
) -> None:
    """Whichever of them is looked at first after a death, all are completed."""
    text = "id,text\n1,a\n2,b\n"
    buckets = {"S3": s3, "GCS": gcs, "AZURE": azure}
    pipeline = SEVERAL
    for name, each in buckets.items():
        pipeline = pipeline.replace(name, each.uri("out"))
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.csv": text})
    if dies:

        def half(self: draft.ObjectDraft, entry: journal.Entry) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(draft.ObjectDraft, "_apply", half)
            assert dying(lambda: whole(tmp_path), 100_000)
        assert not any("out/o.csv" in [*each.keys()] for each in buckets.values())
        assert len(recovery.recover(store(), location.parse(azure.uri("out/")))) == 1
    else:
        whole(tmp_path)
    for each in buckets.values():
        assert published(each) == {"o.csv": text.encode()}


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (400, "ExpiredToken", "renew them"),
        (403, "RequestTimeTooSkewed", "set it"),
        (400, "AuthorizationHeaderMalformed", "set storage.s3.region"),
        (403, "AccessDenied", "the credentials of this machine need s3:"),
    ],
)
def test_a_store_that_refuses_from_some_request_on_is_reported_and_nothing_is_half_written(
    status: int, code: str, says: str, s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "out")
    assert pipelines.run(tmp_path).result.error is None
    new = small(pipelines.outputs(tmp_path))
    prepare(tmp_path, s3.uri("out"))
    for name, text in OLD.items():
        s3.put(f"out/{name}", text)
    states = set[str]()
    with between(s3.endpoint) as proxy:
        for at in itertools.count(len(code) % STEP, STEP):
            first = len(proxy.requests) + at

            def refused(request: Request, first: int = first) -> Fault | None:
                return Fault(status, code) if request.number >= first else None

            proxy.rule = refused
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
                error = run(tmp_path, force=True).error
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lease, "LEASE_S", -1)
                recovered(s3)
            found = small(published(s3))
            assert found in (OLD, new), at
            states.add("old" if found == OLD else "new")
            if found == new:  # The run had decided: at most some of its files were left to whoever recovers them.
                assert error is None or "are published already" in error.message
                break
            assert (error.code, says in error.message) == ("E910", True), error
    assert states == {"old", "new"}


def test_a_living_run_is_left_alone(bucket: AnyBucket) -> None:
    folder = location.parse(bucket.uri("out/"))
    mine = lease.Lease(store(), layout.draft(folder, "r"), (folder,))
    mine.take()
    try:
        bucket.put("out/.clinker-r/parts/x", "of a task")
        assert recovery.recover(store(), folder) == []
        assert "out/.clinker-r/parts/x" in [*bucket.keys()]
    finally:
        mine.stop()


def test_a_lease_that_runs_out_is_taken_and_its_run_stops(bucket: AnyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = location.parse(bucket.uri("out/"))
    mine = lease.Lease(store(), layout.draft(folder, "r"), (folder,))
    mine.take()
    mine.stop()
    monkeypatch.setattr(lease, "LEASE_S", -1)
    assert recovery.recover(store(), folder) == [layout.draft(folder, "r")]
    monkeypatch.undo()
    assert published(bucket) == {}
    with pytest.raises(StoreError, match="clinker-r"):
        mine._write(mine._version)


def test_a_late_task_leaves_nothing_for_ever(bucket: AnyBucket) -> None:
    bucket.put("out/.clinker-r/parts/x", "of a task that ended after its run")
    recovery.recover(store(), location.parse(bucket.uri("out/")))
    assert published(bucket) == {}


def test_a_journal_writes_nowhere_but_into_the_folders_of_its_run(bucket: AnyBucket) -> None:
    folder = location.parse(bucket.uri("out/"))
    home = layout.draft(folder, "r")
    false = journal.Put(location.parse(bucket.uri("other/a.csv")), "mark", "", b"false")
    dying(lambda: (lease.Lease(store(), home, (folder,)).take(), os._exit(0)), 100_000)
    bucket.put("out/.clinker-r/journal.json", journal.text([false]))
    with pytest.raises(StoreError, match="does not belong to its run"):
        recovery.recover(store(), folder)
    assert not [key for key in [*bucket.keys()] if key.startswith("other/")]


@pytest.mark.parametrize(
    ("upload", "source"),
    [("out/.clinker-r/uploads/u/", "secret/b.csv"), ("secret/", "out/.clinker-r/parts/b"), ("out/.clinker-r/u", "")],
)
def test_a_journal_has_nothing_read_but_what_its_run_has_written(upload: str, source: str, gcs: AnyBucket) -> None:
    """Whoever can write a folder must not have others read for them what they cannot read."""
    folder = location.parse(gcs.uri("out/"))
    home = layout.draft(folder, "r")
    gcs.put("secret/b.csv", "secret")
    gcs.put("out/.clinker-r/parts/b", "mine")
    found = store().describe(location.parse(gcs.uri(source))) if source else None
    tag = json.dumps([[source, found.version]]) if found else "no tag"
    false = journal.Completion(location.parse(gcs.uri("out/a.csv")), "mark", "", upload, (tag,))
    dying(lambda: (lease.Lease(store(), home, (folder,)).take(), os._exit(0)), 100_000)
    gcs.put("out/.clinker-r/journal.json", journal.text([false]))
    with pytest.raises(StoreError, match=r"does not belong to its run|is none of this store"):
        recovery.recover(store(), folder)
    assert not [
        key for key in [*gcs.keys()] if key == "out/a.csv" or (key.startswith("secret/") and key != "secret/b.csv")
    ]


def test_a_lease_removes_nothing_but_what_points_to_it(s3: Bucket) -> None:
    """Whoever can write one folder must not have a draft removed that somebody else has in another one."""
    folder, other = location.parse(s3.uri("out/")), location.parse("s3://clinker-other/out/")
    where = {"LocationConstraint": s3.client.meta.region_name}
    s3.client.create_bucket(Bucket=other.bucket, CreateBucketConfiguration=where)
    mine = lease.Lease(store(), layout.draft(other, "r"), (other,))
    mine.take()
    try:
        parts = layout.draft(other, "r") / "parts/x"
        store().put(parts, b"of a living run")
        store().put(other / layout.LOCK, str(layout.draft(other, "r")).encode())
        false = (folder, other)
        dying(lambda: (lease.Lease(store(), layout.draft(folder, "r"), false).take(), os._exit(0)), 100_000)
        assert recovery.recover(store(), folder) == [layout.draft(folder, "r")]
        assert [*s3.keys()] == []
        assert store().get(parts) == b"of a living run"
        assert recovery.recover(store(), other) == []
    finally:
        mine.stop()
        for page in store().pages(location.parse("s3://clinker-other/"), deep=True):
            for each in page.objects:
                store().delete(each.location)
        s3.client.delete_bucket(Bucket=other.bucket)


@pytest.mark.parametrize("text", [b"what is this", b"\xff", b"s3://", b""])
def test_a_lock_that_no_run_has_written_is_told(text: bytes, bucket: AnyBucket, tmp_path: Path) -> None:
    prepare(tmp_path, bucket.uri("out"))
    store().put(location.parse(bucket.uri("out/")) / layout.LOCK, text)
    error = run(tmp_path).error
    assert error is not None
    assert "is no lock of a run: look at it, and remove it" in error.message

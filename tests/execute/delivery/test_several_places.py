"""Outputs in local folders and in a store in one run: they become visible together, and a death leaves old or new."""

from __future__ import annotations

import io
import itertools
import os
import signal
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import recover as command
from spark_jobs.execute.delivery.objects import draft, journal, layout, lease
from spark_jobs.execute.delivery.participant import Address
from spark_jobs.stores import location
from spark_jobs.stores import s3 as s3_store
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.execute.delivery.test_object_outputs import published, run
from tests.execute.delivery.test_object_recovery import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.object_store import Bucket

#: As in `test_object_recovery.py`: with 1 each step is a place to die at.
STEP = int(os.environ.get("CLINKER_TEST_STEP", "29"))
PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: AWAY/dead.csv}}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int, text: string}}}
  - {type: output, name: a, input: s, config: {name: a, type: csv, path: out/a.csv}}
  - {type: output, name: b, input: s, config: {name: b, type: json, path: AWAY/b.json}}
  - {type: output, name: c, input: s, config: {name: c, type: csv, path: AWAY/deep/c.csv}}
  - {type: output, name: d, input: s, config: {name: d, type: csv, path: out/deep/d.csv, split: {max_records: 2}}}
"""
OLD_HERE = {"a.csv": b"old", "deep/d_0001.csv": b"old", "deep/d_0002.csv": b"old", "deep/d_0003.csv": b"old"}
OLD_AWAY = {"b.json": b"old", "deep/c.csv": b"old"}
#: What changes something that another process can see.
CALLS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def prepare(folder: Path, s3: Bucket) -> None:
    rows = "id,text\n0,a\n1,b\nx,c\n3,d\n"
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("AWAY", s3.uri("out")), "in.csv": rows})


def reset(folder: Path, s3: Bucket) -> None:
    for key in [*s3.keys()]:
        s3.client.delete_object(Bucket=s3.name, Key=key)
    for name, data in OLD_AWAY.items():
        s3.put(f"out/{name}", data)
    pipelines.write(folder, {f"out/{name}": data for name, data in OLD_HERE.items()})
    for path in (folder / "out").rglob("*"):
        if path.is_file() and str(path.relative_to(folder / "out")) not in OLD_HERE:
            path.unlink()


def found(folder: Path, s3: Bucket) -> tuple[dict[str, bytes], dict[str, bytes]]:
    away = published(s3)
    away.pop("dead.csv", None)
    return pipelines.outputs(folder), away


def recovered(folder: Path, s3: Bucket, first: str) -> None:
    here = [str(folder / "out"), str(folder / "out" / "deep")]
    away = [s3.uri("out/"), s3.uri("out/deep/")]
    assert command.main(here + away if first == "here" else away + here, folder) == 0


def dying(action: Callable[[], object], at: int) -> bool:
    """Do something in a process that is killed before a request or a change of files; whether it was killed."""
    child = os.fork()
    if not child:
        try:
            numbers = itertools.count()

            def counted(original: Callable[..., Any]) -> Callable[..., Any]:
                def call(*arguments: Any, **wanted: Any) -> Any:
                    if next(numbers) == at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return original(*arguments, **wanted)

                return call

            s3_store.S3.ask = counted(s3_store.S3.ask)  # type: ignore[method-assign]
            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            io.open = counted(io.open)  # type: ignore[assignment]  # what `Path.open` calls
            action()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child that was forked must not go on as a test
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


#: Tasks send every file, or the driver sends small ones.
SIZES = {"large": Tuning(driver_output_bytes=-1), "small": Tuning()}


def whole(folder: Path, size: str = "small") -> None:
    error = run(folder, force=True, tuning=SIZES[size]).error
    assert error is None, error


def new_files(folder: Path, s3: Bucket, size: str = "small") -> tuple[dict[str, bytes], dict[str, bytes]]:
    prepare(folder, s3)
    reset(folder, s3)
    whole(folder, size)
    return found(folder, s3)


@pytest.mark.parametrize("size", ["small", "large"])
def test_all_places_get_what_they_would_get_alone(size: str, s3: Bucket, tmp_path: Path) -> None:
    here, away = new_files(tmp_path, s3, size)
    assert here == {
        "a.csv": b"id,text\n0,a\n1,b\n3,d\n",
        "deep/d_0001.csv": b"id,text\n0,a\n1,b\n",
        "deep/d_0002.csv": b"id,text\n3,d\n",
    }
    assert {*away} == {"b.json", "deep/c.csv"}
    assert away["deep/c.csv"] == here["a.csv"]
    assert b"x" in s3.get("out/dead.csv")


@pytest.mark.parametrize("first", ["here", "away"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_a_death_at_any_step_leaves_all_old_or_all_new(size: str, first: str, s3: Bucket, tmp_path: Path) -> None:
    old, new = (OLD_HERE, OLD_AWAY), new_files(tmp_path, s3, size)
    seen = set[str]()
    for at in itertools.count(0, STEP):
        reset(tmp_path, s3)
        killed = dying(lambda: whole(tmp_path, size), at)
        recovered(tmp_path, s3, first)
        after = found(tmp_path, s3)
        assert after in (old, new), at
        assert ("out/dead.csv" in [*s3.keys()]) == (after == new), at
        seen.add("old" if after == old else "new")
        if not killed:
            break
    assert seen == {"old", "new"}
    assert at > 100


@pytest.mark.parametrize("decided", [True, False])
@pytest.mark.parametrize("first", ["here", "away"])
def test_a_death_in_recovery_is_recovered_too(
    first: str, decided: bool, s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (OLD_HERE, OLD_AWAY), new_files(tmp_path, s3)

    def killed(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if decided:
        monkeypatch.setattr(draft.ObjectDraft, "complete", killed)
    else:
        monkeypatch.setattr("spark_jobs.execute.delivery.local.files.LocalDraft.decide", killed)
    for at in itertools.count(0, STEP):
        reset(tmp_path, s3)
        assert dying(lambda: whole(tmp_path), 100_000)
        was_killed = dying(lambda: recovered(tmp_path, s3, first), at)
        recovered(tmp_path, s3, "away" if first == "here" else "here")
        assert found(tmp_path, s3) == (new if decided else old), at
        if not was_killed:
            break
    assert at > 20


def test_the_next_run_completes_what_a_dead_one_decided(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, new = new_files(tmp_path, s3)
    reset(tmp_path, s3)
    with monkeypatch.context() as patched:
        patched.setattr(draft.ObjectDraft, "complete", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        assert dying(lambda: whole(tmp_path), 100_000)
    assert published(s3)["b.json"] == b"old"
    failed = run(tmp_path).error  # without consent to replace anything
    assert failed.code == "E902"
    assert {name: data for name, data in published(s3).items() if name in new} == new


def test_another_program_that_takes_a_name_is_the_first_to_refuse(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, s3)
    reset(tmp_path, s3)
    complete = draft.ObjectDraft.complete

    def late(self: draft.ObjectDraft) -> None:
        for entry in self._entries:
            s3.put(entry.target.key, b"of another program")
        complete(self)

    monkeypatch.setattr(draft.ObjectDraft, "complete", late)
    error = run(tmp_path, force=True).error
    assert error.code == "E902"
    here, away = found(tmp_path, s3)
    assert here == OLD_HERE
    assert {*away.values()} == {b"of another program"}


def test_a_living_run_is_left_alone_by_those_who_find_its_objects(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, s3)
    reset(tmp_path, s3)
    complete, seen = draft.ObjectDraft.complete, list[int]()

    def watched(self: draft.ObjectDraft) -> None:
        monkeypatch.setattr(lease, "LEASE_S", -1)
        thread = threading.Thread(target=lambda: seen.append(command.main([s3.uri("out/")], tmp_path)))
        thread.start()
        thread.join()
        monkeypatch.setattr(lease, "LEASE_S", 60.0)
        complete(self)

    monkeypatch.setattr(draft.ObjectDraft, "complete", watched)
    assert run(tmp_path, force=True).error is None
    assert seen == [0]


def test_a_home_on_another_machine_is_named(s3: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, gone = location.parse(s3.uri("out/")), tmp_path / "gone" / ".clinker-r"
    home = layout.draft(folder, "r")
    mine = lease.Lease(store(), home, (folder,))
    mine.take()
    mine.give_up()
    put = journal.Put(location.parse(s3.uri("out/a.csv")), "mark", "", b"new")
    s3.put("out/.clinker-r/prepared.json", journal.text([put], by=Address("files", str(gone), "r")))
    assert command.main([s3.uri("out/")], tmp_path) == 4
    said = capsys.readouterr().err
    assert str(gone) in said
    assert "is not on this machine" in said
    assert "out/a.csv" not in [*s3.keys()]


def test_what_was_prepared_for_another_home_is_not_published(s3: Bucket, tmp_path: Path) -> None:
    """Somebody who may write one place cannot have another one published."""
    folder = location.parse(s3.uri("out/"))
    mine = lease.Lease(store(), layout.draft(folder, "r"), (folder,))
    mine.take()
    mine.give_up()
    put = journal.Put(location.parse(s3.uri("out/a.csv")), "mark", "", b"new")
    other = Address("files", str(tmp_path / "mine" / ".clinker-r"), "r")
    s3.put("out/.clinker-r/prepared.json", journal.text([put], by=other))
    false = Address("objects", str(layout.draft(folder, "r")), "r")
    attacker = location.parse(s3.uri("theirs/"))
    theirs = lease.Lease(store(), layout.draft(attacker, "x"), (attacker,))
    theirs.take()
    theirs.give_up()
    s3.put("theirs/.clinker-x/journal.json", journal.text([], [false]))
    assert command.main([s3.uri("theirs/")], tmp_path) == 4
    assert "out/a.csv" not in [*s3.keys()]

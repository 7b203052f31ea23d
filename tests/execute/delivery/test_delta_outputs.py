"""Delta tables as outputs of whole pipelines, read by the table's own library."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from spark_jobs.cli import clinker
from spark_jobs.cli import recover as command
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.delta import commit as delta_commit
from spark_jobs.execute.delivery.delta.output import TableOutput
from spark_jobs.execute.delivery.local import files
from spark_jobs.execute.run import executor
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats.delta import log, storage
from spark_jobs.formats.delta.options import DeltaWrite
from spark_jobs.stores.settings import StoreSettings
from tests.execute import pipelines, without_spark
from tests.execute.delivery.merges import death_after_decision

if TYPE_CHECKING:
    from tests.object_store import AnyBucket

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      type: json
      path: in.ndjson
      options: {{ format: ndjson }}
      on_unmapped: drop
      schema: {{ id: int, day: date, v: string }}
      {source}
  - type: output
    name: table
    input: rows
    config: {{ type: delta, path: '{path}', options: {{ {options} }}{more} }}
{nodes}
"""
BESIDE = (
    "  - { type: output, name: lines, input: rows, config: { type: csv, path: out/lines.csv, if_exists: overwrite } }\n"
)


class Lake:
    """A folder with a pipeline that writes the table `lake/sales` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "lake/sales"

    def write(
        self, *rows: dict[str, Any], options: str = "", path: str = "lake/sales", nodes: str = "", source: str = "",
        more: str = "", **chosen: Any,
    ) -> Any:  # fmt: skip
        text = PIPELINE.format(options=options, path=path, nodes=nodes, source=source, more=more)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        pipelines.write(self.folder, {"pipeline.yaml": text, "in.ndjson": lines})
        return pipelines.run(self.folder, **{"force": True, **chosen}).result

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        table = DeltaTable(self.path, version=version).to_pyarrow_table()
        return sorted(table.to_pylist(), key=lambda row: (row["id"] is None, row["id"]))

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def left(self) -> list[str]:
        """What stands in the folder of the table and no version has."""
        known = (
            {path.rpartition("sales/")[2] for path in DeltaTable(self.path).file_uris()} if self.path.exists() else ()
        )
        there = [str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()]
        logs = [name for name in there if name.startswith("_delta_log/0") or name.endswith(".crc")]
        return sorted(set(there) - set(known) - set(logs))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


def row(number: int, day: str | None = None, v: str | None = None) -> dict[str, Any]:
    return {"id": number, "day": day, "v": v}


def done(result: Any) -> Any:
    assert result.exit_code == 0, result.error
    return result


def test_a_table_is_made_and_appended_to(lake: Lake) -> None:
    done(lake.write(row(1, "2026-01-01", "x"), row(2)))
    done(lake.write(row(3)))
    assert [(each["id"], str(each["day"]), each["v"]) for each in lake.rows()] == [
        (1, "2026-01-01", "x"), (2, "None", None), (3, "None", None)
    ]  # fmt: skip
    assert [str(column.type) for column in pa.schema(DeltaTable(lake.path).schema().to_arrow())] == [
        "int64", "date32[day]", "string"
    ]  # fmt: skip
    assert lake.left() == []
    # The log knows what readers need to pass files over.
    (first, second) = pa.table(DeltaTable(lake.path).get_add_actions()).sort_by("modification_time").to_pylist()
    assert (second["num_records"], second["min"], second["null_count"]["id"]) == (
        1,
        {"id": 3, "day": None, "v": None},
        0,
    )
    assert first["max"]["id"] == 2


def test_replayed_records_become_a_table_of_their_own(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    letters = lake.folder / "out/dead.csv"
    assert lake.write(row(1), {"id": "x", "day": "2026-01-02", "v": "y"}, options="partition_by: day").exit_code == 2
    letters.write_text(letters.read_text().replace(",x,2026-01-02", ",2,2026-01-02"))
    before = letters.read_bytes()
    replay = ["dlq", "replay", str(lake.folder / "pipeline.yaml"), str(letters)]
    assert clinker.main(replay) == 1
    assert "use --into FOLDER" in capsys.readouterr().err
    assert clinker.main([*replay, "--into", str(lake.folder / "mended")]) == 0
    assert not letters.exists()
    mended = DeltaTable(lake.folder / "mended/lake/sales")
    assert [each["id"] for each in mended.to_pyarrow_table().to_pylist()] == [2]
    assert mended.metadata().partition_columns == ["day"]
    assert lake.ids() == [1]
    # A log whose versions are of two tables would be none: not even --force mixes them.
    letters.write_bytes(before)
    for ledger in letters.parent.glob("*.ledger.ndjson"):
        ledger.unlink()
    assert clinker.main([*replay, "--into", str(lake.folder / "mended"), "--force"]) == 1
    assert "is of a table that exists already: choose another folder for --into" in capsys.readouterr().err
    assert letters.read_bytes() == before


def test_dead_letters_beside_a_table_say_what_becomes_of_the_next_ones(lake: Lake) -> None:
    assert lake.write(row(1), {"id": "x"}).exit_code == 2
    error = lake.write(row(2), force=False).error
    assert error.code == "E902"
    assert "replay or discard them (`clinker dlq`), give each run a file of its own" in error.message
    assert "if_exists" not in error.message


def test_all_records_or_those_of_a_partition_are_replaced(lake: Lake) -> None:
    done(lake.write(row(1, "2026-01-01"), row(2, "2026-01-02"), row(3), options="partition_by: day"))
    assert len(DeltaTable(lake.path).file_uris()) == 3
    done(lake.write(row(4, "2026-01-02"), row(5, "2026-01-03"), options="mode: overwrite_partitions"))
    assert lake.ids() == [1, 3, 4, 5]
    done(lake.write(row(6), options="mode: overwrite_partitions"))
    assert lake.ids() == [1, 4, 5, 6]
    done(lake.write(options="mode: overwrite_partitions"))
    assert lake.ids() == [1, 4, 5, 6]
    done(lake.write(row(7, "2026-01-09"), options="mode: overwrite"))
    assert lake.ids() == [7]
    assert [each["id"] for each in lake.rows(version=0)] == [1, 2, 3]


def test_values_of_partitions_may_be_any_text(lake: Lake) -> None:
    texts = ["a/b=ü %", "..", "x:y", "%2F", None]
    done(lake.write(*(row(number, v=text) for number, text in enumerate(texts)), options="partition_by: v"))
    assert [each["v"] for each in lake.rows()] == texts
    result = lake.write(row(9, v=""), row(10, v="z"), options="partition_by: v")
    assert result.exit_code == 2
    assert "an empty text is no value of a partition" in (lake.folder / "out/dead.csv").read_text()
    assert lake.ids() == [0, 1, 2, 3, 4, 10]


@pytest.mark.parametrize("options", ["", "partition_by: v"])
def test_columns_that_do_not_fit_are_refused(options: str, lake: Lake) -> None:
    write_deltalake(lake.path, pa.table({"id": ["text"], "v": ["x"]}), partition_by=["v"])
    result = lake.write(row(1), options=options)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "column 'id' is int64 here, and string in the table" in result.error.message
    assert DeltaTable(lake.path).version() == 0
    assert lake.left() == []


def test_columns_are_added_where_that_is_asked_for(lake: Lake) -> None:
    write_deltalake(lake.path, pa.table({"id": pa.array([1], pa.int32()), "note": ["n"]}))
    assert "the table has no column 'day'" in lake.write(row(2)).error.message
    done(lake.write(row(2, "2026-01-01", "x"), options="evolve: true"))
    assert [(each["id"], each["note"], each["v"]) for each in lake.rows()] == [(1, "n", None), (2, None, "x")]
    # Ints that do not fit the narrower column of the table end the run.
    result = lake.write(row(1 << 40), options="evolve: true")
    assert "has a value that is no int32 of the table" in result.error.message
    assert lake.ids() == [1, 2]
    assert lake.left() == []


def test_nothing_is_committed_without_a_verdict(lake: Lake) -> None:
    done(lake.write(row(1)))
    result = lake.write(row(2), {"id": "x", "day": None, "v": None}, source="", more="", error_threshold=0.1)
    assert result.exit_code != 0
    assert DeltaTable(lake.path).version() == 0 if result.error else lake.ids() == [1, 2]
    assert lake.left() == []


def test_dead_letters_and_a_table_become_visible_together(lake: Lake) -> None:
    result = lake.write(row(1), {"id": "x", "day": None, "v": None}, nodes=BESIDE)
    assert result.exit_code == 2
    assert lake.ids() == [1]
    assert (lake.folder / "out/lines.csv").read_text().splitlines()[1:] == ["1,,"]
    assert len((lake.folder / "out/dead.csv").read_text().splitlines()) == 2
    assert lake.left() == []


def test_a_group_of_records_fails_as_a_whole(lake: Lake) -> None:
    bad = {"id": 2, "day": "no day", "v": "g"}
    result = lake.write(row(1, v="g"), bad, row(3, v="h"), source="correlation_key: [v]")
    assert result.exit_code == 2
    assert lake.ids() == [3]


def test_another_writer_is_seen_where_records_are_replaced(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    done(lake.write(row(1)))
    real = delta_commit.TableCommit.prepare

    def meanwhile(self: Any, home: Any) -> None:
        write_deltalake(lake.path, pa.table({"id": [9]}), mode="append", schema_mode="merge")
        real(self, home)

    monkeypatch.setattr(delta_commit.TableCommit, "prepare", meanwhile)
    result = lake.write(row(2), options="mode: overwrite", nodes=BESIDE)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else has written version 1" in result.error.message
    assert lake.ids() == [1, 9]
    assert not (lake.folder / "out/lines.csv").exists()
    assert lake.left() == []
    done(lake.write(row(2)))  # appending does not mind
    assert lake.ids() == [1, 2, 9, 9]


class Died(BaseException):
    """The run is dead."""


@pytest.mark.parametrize("nodes", ["", BESIDE])
@pytest.mark.parametrize("step", ["prepare", "decide", "complete", "after"])
def test_a_death_around_the_commit_leaves_all_or_nothing(
    step: str, nodes: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(lake.write(row(1)))

    def die(*_: Any) -> None:
        raise Died

    def after(self: Any) -> None:
        real(self)
        raise Died

    real = delta_commit.TableCommit.complete
    with monkeypatch.context() as patch:
        # What a dead process cannot do any more.
        patch.setattr(delta_commit.TableCommit, "give_up", lambda self: None)
        patch.setattr(joint, "_take_back", lambda *_: False)
        patch.setattr("spark_jobs.execute.delivery.destinations._Drafts.close", lambda *_, **__: None)
        if step == "prepare":
            patch.setattr(delta_commit.TableCommit, "prepare", die)
        elif step == "decide":
            patch.setattr(files.LocalDraft, "decide", die)
        else:
            patch.setattr(delta_commit.TableCommit, "complete", die if step == "complete" else after)
        with contextlib.suppress(Died):
            lake.write(row(2), nodes=nodes)
    done(lake.write(row(3), nodes=nodes))
    assert lake.ids() in ([1, 3], [1, 2, 3])
    if step == "after":
        assert lake.ids() == [1, 2, 3]


OTHER = (
    "  - { type: output, name: other, input: rows, config: { type: delta, path: lake/other, "
    "options: { mode: overwrite } } }\n"
)


@pytest.mark.parametrize("nodes", [OTHER, OTHER + BESIDE])
@pytest.mark.parametrize("step", ["prepare", "complete"])
def test_a_run_that_is_refused_leaves_nothing_beside_the_log(
    step: str, nodes: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note would make every later run ask a home that is gone."""
    done(lake.write(row(1), nodes=nodes))
    real = getattr(delta_commit.TableCommit, step)

    def meanwhile(self: Any, *home: Any) -> None:
        if self.place.root.endswith("other"):
            write_deltalake(self.place.root, pa.table({"id": [9]}), mode="append", schema_mode="merge")
        real(self, *home)

    with monkeypatch.context() as patch:
        patch.setattr(delta_commit.TableCommit, step, meanwhile)
        assert "somebody else has written version 1" in lake.write(row(2), nodes=nodes).error.message
    assert lake.ids() == ([1] if step == "prepare" else [1, 2])
    assert lake.left() == []
    assert not [*lake.path.with_name("other").rglob(".clinker*")]
    done(lake.write(row(3), nodes=nodes))


def test_a_note_of_what_is_committed_needs_no_home(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    done(lake.write(row(1), nodes=BESIDE))

    def full(self: Any, inside: Any) -> None:
        raise OSError(5, "input/output error", "x")

    with monkeypatch.context() as patch:
        patch.setattr(delta_commit.Place, "remove", full)
        done(lake.write(row(2), nodes=BESIDE))
    assert lake.left() != []
    done(lake.write(row(3), nodes=BESIDE))
    assert lake.ids() == [1, 2, 3]
    assert lake.left() == []


def test_a_second_run_of_the_same_id_is_another_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a scheduler that is deleted and made again under its old name has its old id."""
    monkeypatch.setattr("spark_jobs.execute.identity.uuid7", lambda: "manual.1")
    done(lake.write(row(1), nodes=BESIDE))
    done(lake.write(row(2), nodes=BESIDE))
    assert lake.ids() == [1, 2]


@pytest.mark.parametrize("nodes", ["", BESIDE])
@pytest.mark.parametrize("options", ["", "mode: overwrite"])
def test_a_commit_that_is_there_has_happened_whatever_is_said_of_it(
    options: str, nodes: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store sends a request again whose answer was lost, and then finds its own version in the way."""
    done(lake.write(row(1)))
    real = DeltaTable.create_write_transaction

    def lost(*arguments: Any, **wanted: Any) -> None:
        real(*arguments, **wanted)
        raise CommitFailedError("version 1 already exists")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    done(lake.write(row(2), options=options, nodes=nodes))
    assert lake.ids() == ([2] if options else [1, 2])
    assert not [name for name in lake.left() if ".clinker" in name]
    assert (lake.folder / "out/lines.csv").exists() == bool(nodes)


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_a_death_between_new_columns_and_the_records_is_completed(
    mode: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(lake.path, pa.table({"id": [1], "v": ["x"]}), partition_by=["v"])
    commits = (delta_commit.TableCommit, "is_completed"), (DeltaTable, "create_write_transaction")
    with death_after_decision(monkeypatch, *commits):
        lake.write(row(2, "2026-01-01", "x"), nodes=BESIDE, options=f"mode: {mode}, evolve: true")
    assert lake.ids() == [1]
    assert command.main([str(lake.folder / "out"), str(lake.path)], lake.folder) == 0
    assert (lake.folder / "out/lines.csv").read_text().splitlines()[1:] == ["2,2026-01-01,x"]
    assert lake.ids() == ([1, 2] if mode == "append" else [2])


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_another_writer_beside_new_columns_is_seen(mode: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(lake.path, pa.table({"id": [1], "v": ["x"]}), partition_by=["v"])
    real = delta_commit._refuse_changed

    def faster(place: Any, commit: Any, table: Any) -> None:
        real(place, commit, table)
        if table is not None and seen:
            write_deltalake(lake.path, pa.table({"id": [9], "v": ["x"]}), mode="append")
        seen.append(1)

    seen: list[int] = []
    monkeypatch.setattr(delta_commit, "_refuse_changed", faster)
    result = lake.write(row(2, "2026-01-01", "x"), options=f"mode: {mode}, evolve: true")
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert lake.ids() == [1, 9]
    assert lake.left() == []


def test_what_is_removed_lies_in_the_table(tmp_path: Path) -> None:
    """Whoever can write a table can put a link into it, and a note that names what is behind it."""
    pipelines.write(tmp_path, {"mine/kept.txt": "x", "lake/t/day=1/a.parquet": "x"})
    (tmp_path / "lake/t/sub").symlink_to(tmp_path / "mine")
    place = delta_commit.Place(str(tmp_path / "lake/t"), "t", StoreSettings())
    for path in ("../../mine/kept.txt", "day=1/../sub/kept.txt", str(tmp_path / "mine/kept.txt")):
        with pytest.raises(OSError, match="leads out of the table"):
            place.remove([path])
    place.remove(["sub/kept.txt", "day=1/a.parquet", "day=1/gone.parquet", "gone/a.parquet"])
    delta_commit.Place(str(tmp_path / "gone"), "t", StoreSettings()).remove(["a.parquet"])
    assert (tmp_path / "mine/kept.txt").exists()
    assert not (tmp_path / "lake/t/day=1/a.parquet").exists()


@pytest.mark.parametrize("nodes", ["", BESIDE])
def test_an_attempt_that_was_overtaken_does_not_append_again(
    nodes: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that has lost sight of an attempt begins the next one, and the first one goes on and publishes."""
    done(lake.write(row(1)))
    real, firsts = executor._work, []

    def overtaken(*arguments: Any) -> Any:
        ended = real(*arguments)
        if not firsts:
            firsts.append(None)
            firsts[0] = done(pipelines.run(lake.folder, force=True, once=("etl", "monday")).result)
        return ended

    monkeypatch.setattr(executor, "_work", overtaken)
    result = done(lake.write(row(2), nodes=nodes, once=("etl", "monday"), is_retry=True))
    assert lake.ids() == [1, 2]
    assert result.taken_from == firsts[0].execution_id
    assert [name[:14] for name in lake.left()] == [".clinker-once-"]


#: What changes something that another process can see.
CALLS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync")
#: With 1 each step is a place to die at.
STEP = int(os.environ.get("CLINKER_TEST_STEP", "41"))


def die_at(folder: str, at: int) -> None:
    """Run the pipeline of a folder in this process, and die before a change of files or of the table."""
    numbers = itertools.count()

    def counted(original: Any) -> Any:
        def call(*arguments: Any, **wanted: Any) -> Any:
            if next(numbers) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **wanted)

        return call

    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(io, "open", counted(io.open))
        patch.setattr(DeltaTable, "create_write_transaction", counted(DeltaTable.create_write_transaction))
        patch.setattr(delta_commit.Place, "remove", counted(delta_commit.Place.remove))
        assert pipelines.run(Path(folder), force=True).result.exit_code == 0


@pytest.mark.parametrize("options", ["mode: append", "mode: overwrite", "mode: merge, key: v"])
def test_a_killed_run_leaves_the_old_or_the_new(options: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    seen = set()
    for at in itertools.count(0, STEP):
        shutil.rmtree(lake.folder / "lake", ignore_errors=True)
        shutil.rmtree(lake.folder / "out", ignore_errors=True)
        done(lake.write(row(1, v="x"), nodes=BESIDE))
        text = PIPELINE.format(options=options, path="lake/sales", nodes=BESIDE, source="", more="")
        pipelines.write(lake.folder, {"pipeline.yaml": text, "in.ndjson": json.dumps(row(2, v="x")) + "\n"})
        call = f"from {__name__} import die_at; die_at({str(lake.folder)!r}, {at})"
        ended = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        assert command.main([str(lake.folder / "out"), str(lake.path)], lake.folder) == 0
        new = [1, 2] if options == "mode: append" else [2]
        lines = (lake.folder / "out/lines.csv").read_text().splitlines()[1:]
        state = lake.ids(), lines
        assert state in (([1], ["1,,x"]), (new, ["2,,x"])), at
        seen.add(tuple(state[0]))
        if not ended.returncode:
            break
        done(lake.write(row(3), nodes=BESIDE))
        assert lake.ids() == [*state[0], 3]
        assert not [name for name in lake.left() if ".clinker" in name], at
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (", if_exists: overwrite", "`if_exists` is about files"),
        (", split: { max_records: 5 }", "`split` is about files"),
        (", parts: true", "`parts` is about files"),
        (", write_meta: true", "`write_meta` is about files"),
    ],
)
def test_keys_of_files_are_refused(more: str, text: str, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    pipelines.write(
        lake.folder,
        {"pipeline.yaml": PIPELINE.format(options="", path="lake/sales", nodes="", source="", more=more)},
    )
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1
    assert text in " ".join(capsys.readouterr().err.split())


def stored(uri: str) -> DeltaTable:
    """A table in a store, as the library sees it."""
    return log.opened(uri, "t", StoreSettings().resolved())


def test_a_table_in_a_store_is_written(lake: Lake, lake_bucket: AnyBucket) -> None:
    uri = lake_bucket.uri("lake/a b ü#/sales")
    chosen: dict[str, Any] = {"path": uri, "allow_absolute_paths": True}
    done(lake.write(row(1, "2026-01-01"), row(2), options="partition_by: day", **chosen))
    done(lake.write(row(3), **chosen))
    done(lake.write(row(4, "2026-01-01"), options="mode: overwrite_partitions", **chosen, nodes=BESIDE))
    found = stored(uri).to_pyarrow_table().to_pylist()
    assert sorted(each["id"] for each in found) == [2, 3, 4]
    done(lake.write(row(5), options="mode: overwrite", **chosen))
    assert stored(uri).to_pyarrow_table().column("id").to_pylist() == [5]
    keys = lake_bucket.keys()
    assert not [key for key in keys if ".clinker" in key]
    assert all(key.startswith("lake/a b ü#/sales/") for key in keys)


def test_the_store_decides_between_two_writers(
    lake: Lake, lake_bucket: AnyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen the same version, and both write the next one."""
    uri = lake_bucket.uri("lake/sales")
    chosen: dict[str, Any] = {"path": uri, "allow_absolute_paths": True}
    done(lake.write(row(1), **chosen))
    real = delta_commit._refuse_changed

    def faster(place: Any, commit: Any, table: Any) -> None:
        real(place, commit, table)
        if seen:
            options = storage.options(uri, StoreSettings().resolved())
            rows = pa.table({"id": [9]})
            write_deltalake(storage.address(uri), rows, mode="append", schema_mode="merge", storage_options=options)
        seen.append(1)

    for mode, left in (("overwrite", [1, 9]), ("append", [1, 2, 9, 9])):
        seen: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(delta_commit, "_refuse_changed", faster)
            result = lake.write(row(2), options=f"mode: {mode}", **chosen)
        if mode == "overwrite":
            assert (result.error.code, result.exit_code) == ("E912", 4)
            assert "somebody else was faster" in result.error.message
        assert sorted(stored(uri).to_pyarrow_table().column("id").to_pylist()) == left


def test_a_store_that_refuses_is_told_from_a_table_that_is_not_there(lake: Lake, lake_bucket: AnyBucket) -> None:
    result = lake.write(row(1), path=f"{lake_bucket.missing()}lake/sales", allow_absolute_paths=True)
    assert result.exit_code == 4
    assert "is named `no-such-bucket`" in result.error.message


def test_no_table_is_written_to_hdfs() -> None:
    uri, access = "hdfs://cluster/lake/sales", SimpleNamespace(stores=StoreSettings())
    with pytest.raises(RunFailed, match="on S3, on Google Cloud Storage and on Azure"):
        TableOutput.look("table", DeltaWrite(), uri, uri, cast("Any", access))

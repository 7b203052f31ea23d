"""Runs into MariaDB and SQLite that die, meet, or find a table that somebody else changes."""

from __future__ import annotations

import itertools
import shutil
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery import databases, joint
from spark_jobs.execute.delivery.local.files import LocalDraft
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.formats.database.mysql import loading as mysql_loading
from spark_jobs.formats.database.sqlite import loading as sqlite_loading
from spark_jobs.scan import connections
from tests.execute import pipelines, without_spark
from tests.formats.database.table_outputs import MariaWarehouse, SqliteDatabase, SqliteWarehouse, settled
from tests.formats.database.test_table_outputs import FILES, dying, killed, killed_in_copy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.formats.database.test_table_outputs import Warehouse

#: With 1 each statement is a place to die at.
STRIDE = 6


@pytest.fixture(params=["mysql", "sqlite"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    without_spark.install(monkeypatch)
    if request.param == "mysql":
        found: Warehouse = MariaWarehouse(tmp_path, request.getfixturevalue("mariadb"))
        found.loading = mysql_loading
        return found
    (tmp_path / "data").mkdir()
    database = SqliteDatabase(f"sqlite:///{tmp_path}/data/shop.db")
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", database.uri)
    found = SqliteWarehouse(tmp_path, database)  # type: ignore[arg-type]
    found.loading = sqlite_loading
    return found


def points(package: Any) -> tuple[list[Any], list[Any]]:
    """The places to die at, each with whether the new rows are there then: alone, and together with files."""
    in_copy = partial(killed_in_copy, package=package)
    alone = [
        (killed(package, "begin", 1), False),
        (in_copy, False),
        (killed(package, "fill", 1), False),
        (killed(databases, "load", 1), False),
        (killed(package, "publish", 1), False),
        (killed(databases.Tables, "complete", 1), True),
    ]
    together = [
        (in_copy, False),
        (killed(databases.Tables, "prepare", 1), False),
        (killed(LocalDraft, "decide", 1, before=True), False),
        (killed(LocalDraft, "decide", 1), True),
        (killed(package, "publish", 2), True),
        (killed(databases.Tables, "complete", 1), True),
        (killed(LocalDraft, "complete", 1), True),
    ]
    return alone, together


@pytest.mark.parametrize(("files", "number"), [*(("", at) for at in range(6)), *((FILES, at) for at in range(7))])
def test_a_death_leaves_all_old_or_all_new(files: str, number: int, warehouse: Warehouse) -> None:
    patch, is_new = points(warehouse.loading)[bool(files)][number]
    warehouse.database.run("CREATE TABLE t (id int);\nINSERT INTO t VALUES (1)")
    pipelines.write(warehouse.folder, {"out/rows.csv": "id\n1\n"} if files else {})
    rows = [{"id": 1}, {"id": 2}]
    assert dying(warehouse, lambda: warehouse.write(rows, "id: int", options="mode: replace", files=files), patch)
    assert settled(warehouse, files, first="files" if number % 2 else "database") == ([1, 2] if is_new else [1])


def test_a_death_at_any_statement_leaves_all_old_or_all_new(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int);\nINSERT INTO t VALUES (0)")
    pipelines.write(warehouse.folder, {"out/rows.csv": "id\n0\n"})
    ids, deaths = [0], 0
    for number in itertools.count(1, STRIDE):
        rows, new = [{"id": number}, {"id": number + 1}], [number, number + 1]
        write = partial(warehouse.write, rows, "id: int", options="mode: replace", files=FILES)
        is_killed = dying(warehouse, write, killed(warehouse.loading, "run", number, before=True))
        found = settled(warehouse, FILES)
        assert found in (ids, new)
        ids, deaths = found, deaths + is_killed
        if not is_killed:
            assert found == new
            break
    assert deaths * STRIDE > 20


def test_inserts_count_once_after_a_death(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    write = partial(warehouse.write, [{"id": 1}], "id: int", files=FILES)
    assert dying(warehouse, write, killed(databases.Tables, "complete", 1))
    for _ in range(2):
        assert settled(warehouse, FILES, first="files") == [1]


def test_rows_of_a_run_that_may_count_are_not_overtaken(warehouse: Warehouse) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    write = partial(warehouse.write, [{"id": 1}], "id: int", options="mode: replace", files=FILES)
    assert dying(warehouse, write, killed(LocalDraft, "decide", 1))
    shutil.move(warehouse.folder / "out", warehouse.folder / "elsewhere")
    warehouse.write([{"id": 2}], "id: int", code=4, options="mode: replace")
    assert "whether they count cannot be found out" in warehouse.error.message
    shutil.move(warehouse.folder / "elsewhere", warehouse.folder / "out")
    warehouse.write([{"id": 2}], "id: int", options="mode: insert")
    assert warehouse.database.run("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_a_living_run_is_left_alone(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    real, met = joint.publish, threading.Event()

    def meeting(*given: Any) -> Any:
        databases.recover(connections.find("warehouse", {}, warehouse.folder), StorageAccess())
        met.set()
        return real(*given)

    monkeypatch.setattr(joint, "publish", meeting)
    warehouse.write([{"id": 1}], "id: int")
    assert met.is_set()
    assert warehouse.database.run("SELECT id FROM t") == [(1,)]
    assert warehouse.staged == []


def test_rows_that_somebody_removes_while_they_wait_are_missed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    real = databases.load

    def robbed(*given: Any) -> Any:
        found = real(*given)
        warehouse.database.run(f"DROP TABLE {found[0].stagings[0].table}")
        return found

    monkeypatch.setattr(databases, "load", robbed)
    warehouse.write([{"id": 1}], "id: int", code=4)
    assert "somebody has removed" in warehouse.error.message
    warehouse.write([{"id": 1}], "id: int", code=4, files=FILES)
    assert not (warehouse.folder / "out/rows.csv").exists()
    assert warehouse.database.run("SELECT id FROM t") == []
    databases.recover(connections.find("warehouse", {}, warehouse.folder), StorageAccess())
    assert warehouse.staged == []


def _insert_before_loads(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, *values: int) -> None:
    """Have somebody else insert a value before each attempt of a run loads its rows."""
    real, waiting = databases.load, list(values)

    def meeting(*given: Any) -> Any:
        if waiting:
            warehouse.database.run(f"INSERT INTO t VALUES ({waiting.pop(0)})")
        return real(*given)

    monkeypatch.setattr(databases, "load", meeting)


@pytest.mark.parametrize("files", ["", FILES])
def test_a_value_that_comes_before_the_verdict_is_found_when_the_run_begins_again(
    files: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run("CREATE TABLE t (id int PRIMARY KEY)")
    _insert_before_loads(warehouse, monkeypatch, 2)
    warehouse.write([{"id": 1}, {"id": 2}], "id: int", code=2, files=files)
    assert warehouse.database.run("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    (letter,) = warehouse.letters
    assert "the table has a row with this value already" in letter
    assert warehouse.staged == []


@pytest.mark.parametrize("files", ["", FILES])
def test_values_that_come_before_each_verdict_end_the_run(
    files: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run("CREATE TABLE t (id int PRIMARY KEY)")
    _insert_before_loads(warehouse, monkeypatch, 2, 1)
    warehouse.write([{"id": 1}, {"id": 2}], "id: int", code=4, files=files)
    assert warehouse.error.code == "E911"
    assert "or another" in warehouse.error.message
    assert warehouse.database.run("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert not (warehouse.folder / "out/rows.csv").exists()
    assert warehouse.staged == []


def test_a_table_that_is_changed_before_the_verdict_ends_the_run(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    real = databases.load

    def meeting(*given: Any) -> Any:
        warehouse.database.run("DROP TABLE t;\nCREATE TABLE t (other int)")
        return real(*given)

    monkeypatch.setattr(databases, "load", meeting)
    warehouse.write([{"id": 1}], "id: int", code=4, files=FILES)
    assert warehouse.error.code == "E911"
    assert "id" in warehouse.error.message
    assert not (warehouse.folder / "out/rows.csv").exists()
    assert warehouse.staged == []


def test_runs_that_replace_one_another_follow_one_another(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.database.run("CREATE TABLE t (id int)")
    second = type(warehouse)(warehouse.folder / "second", warehouse.database)
    real, is_first = warehouse.loading.publish, threading.Lock()
    others: list[threading.Thread] = []

    def publish(found: Any, staging: Any) -> None:
        real(found, staging)
        if is_first.acquire(blocking=False):
            write = partial(second.write, [{"id": 2}] * 50, "id: int", options="mode: replace")
            others.append(threading.Thread(target=write))
            others[0].start()
            others[0].join(0.5)

    monkeypatch.setattr(warehouse.loading, "publish", publish)
    warehouse.write([{"id": 1}] * 50, "id: int", options="mode: replace")
    others[0].join()
    assert second.error is None
    assert warehouse.database.run("SELECT id, count(*) FROM t GROUP BY id") == [(2, 50)]
    assert warehouse.staged == []

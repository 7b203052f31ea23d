"""Combines with large build sides: the bytes are those of small ones, whatever is exchanged."""

from __future__ import annotations

import csv
import json
import random
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import partitions, passes
from spark_jobs.execute.spark import chain
from spark_jobs.nodes import spill
from spark_jobs.nodes.combine import build, collecting
from spark_jobs.nodes.combine.shuffled import Probe
from spark_jobs.nodes.shuffle import RestoreOrder
from spark_jobs.tuning import Tuning
from tests.execute import combines, pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spark_jobs.execute.report import TaskReport
    from spark_jobs.execute.tasks.spec import JobSpec


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "splits"), [*((shape, 3) for shape in combines.SHAPES), ("all", 1)])
def test_bytes_are_those_of_a_small_build_side(
    shape: str, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.SHAPES[shape])
    shuffled = _watch(monkeypatch)
    small = pipelines.run(tmp_path)
    assert small.result.error is None
    assert not shuffled
    wanted = pipelines.outputs(tmp_path)
    size = (tmp_path / "orders.csv").stat().st_size
    pipelines.cut_by(monkeypatch, size // splits + 1, 600)
    large = pipelines.run(tmp_path, force=True)
    assert large.result.error is None
    assert shuffled == ["c"]
    found = pipelines.outputs(tmp_path)
    assert found["o.csv"] == wanted["o.csv"]
    assert ("dead.csv" in found) == ("dead.csv" in wanted)
    if "dead.csv" in found:
        assert combines.dead(found["dead.csv"]) == combines.dead(wanted["dead.csv"])
    assert {n: dict(node) for n, node in large.nodes.items()} == {n: dict(node) for n, node in small.nodes.items()}


MANY = [
    "all",
    "first",
    "a range beside the key",
    "two keys",
    "keys that fail",
    "collect",
    "all that collect tests",
    "ranges alone",
]
SHAPES_OF_MANY = {
    **combines.SHAPES,
    "all that collect tests": combines.COLLECT.replace("o.key == p.key", "o.amount > p.f and p.f != 3"),
    "ranges alone": combines.combine(where="o.amount > p.f and o.amount <= p.f + 9", match="all"),
}


@pytest.mark.parametrize("shape", MANY)
def test_a_record_with_more_matches_than_fit_gives_them_in_pieces(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies that fail, too: of a driver that fails for some match nothing goes on, whatever piece that is in."""
    without_spark.install(monkeypatch)
    combines.write(tmp_path, SHAPES_OF_MANY[shape])
    at_once = pipelines.run(tmp_path)
    assert at_once.result.error is None
    wanted = pipelines.outputs(tmp_path)
    pieces = pipelines.run(tmp_path, force=True, tuning=Tuning(pair_rows=7))
    assert pieces.result.error is None
    found = pipelines.outputs(tmp_path)
    assert found["o.csv"] == wanted["o.csv"]
    assert combines.dead(found.get("dead.csv", b"")) == combines.dead(wanted.get("dead.csv", b""))
    assert {n: dict(node) for n, node in pieces.nodes.items()} == {n: dict(node) for n, node in at_once.nodes.items()}


def test_so_many_matches_are_collected_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.COLLECT)
    assert pipelines.run(tmp_path).result.error is None
    wanted = [int(row["n"]) for row in csv.DictReader(pipelines.outputs(tmp_path)["o.csv"].decode().splitlines())]
    for most in (None, 1):
        monkeypatch.setattr(collecting, "LIMIT", 2)
        tuning = Tuning() if most is None else Tuning(pair_rows=most)
        caplog.clear()
        assert pipelines.run(tmp_path, force=True, tuning=tuning).result.error is None
        found = [int(row["n"]) for row in csv.DictReader(pipelines.outputs(tmp_path)["o.csv"].decode().splitlines())]
        assert found == [min(count, 2) for count in wanted]
        assert 'combine "c" match: collect truncated at 2 matches' in caplog.text


def test_what_a_replayed_combine_collects_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A later job reads the source again for records that look up the totals of a first one."""
    without_spark.install(monkeypatch)
    monkeypatch.setattr(collecting, "LIMIT", 2)
    back = """
      - {type: aggregate, name: totals, input: t, config: {group_by: [n], cxl: "emit records = count(*)"}}
      - type: combine
        name: back
        input: {t: t, s: totals}
        config: {where: "t.n == s.n", cxl: "emit id = t.id\\nemit records = s.records", propagate_ck: driver}
"""
    combines.write(tmp_path, combines.COLLECT + back, last="back")
    assert pipelines.run(tmp_path, metrics_spool_dir=str(tmp_path / "spool")).result.error is None
    told = [each for each in caplog.text.splitlines() if "match: collect truncated at 2 matches" in each]
    assert len(told) == 1
    (metrics,) = (json.loads(path.read_text()) for path in (tmp_path / "spool").iterdir())
    inputs = [(tmp_path / name).read_bytes() for name in ("orders.csv", "parts.csv", "more.csv")]
    assert metrics["input_bytes"] == sum(len(data) - data.index(b"\n") - 1 for data in inputs)


def _watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The combines that are shuffled in the jobs that run from now on."""
    seen: list[str] = []
    run = passes.chain.run

    def watched(spark: object, spec: JobSpec) -> list[TaskReport]:
        seen.extend(b.step.name for b in spec.job.ops.values() if b.step.kind == "combine" and b.role == "partial")
        return run(spark, spec)  # type: ignore[arg-type]

    monkeypatch.setattr(chain, "run", watched)
    return seen


def _skewed(folder: Path, body: str) -> None:
    """Nearly all drivers have one key, and some have none."""
    combines.write(folder, body)
    numbers = random.Random(5)
    keys = (7 if i % 10 else numbers.choice(["", 1, 2, 30]) for i in range(900))
    orders = (f"{i},{key},{numbers.randrange(50)},x" for i, key in enumerate(keys))
    (folder / "orders.csv").write_text("id,key,amount,extra\n" + "\n".join(orders) + "\n")


@pytest.mark.parametrize("skewed_share", [2, 1 << 60], ids=["as they come", "when the task is done"])
@pytest.mark.parametrize("shape", ["all", "first", "a range beside the key", "collect", "three inputs"])
def test_a_key_that_most_records_have_is_looked_up_by_all_tasks(
    shape: str, skewed_share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guests are looked up at once where the build records of their partition fit beside others, or have to wait."""
    without_spark.install(monkeypatch)
    _skewed(tmp_path, combines.SHAPES[shape])
    small = pipelines.run(tmp_path)
    assert small.result.error is None
    wanted = pipelines.outputs(tmp_path)
    taken: list[int] = []
    count = Probe.enter

    def counted(probe: Probe, records: int) -> None:
        taken.append(probe.number_of_partition)
        count(probe, records)

    monkeypatch.setattr(Probe, "enter", counted)
    waited: list[int] = []
    add = spill.ExternalSorter.add

    def noted(held: spill.ExternalSorter, table: pa.Table) -> None:
        if build.key_name(0) in table.column_names:
            waited.append(table.num_rows)
        add(held, table)

    monkeypatch.setattr(spill.ExternalSorter, "add", noted)
    pipelines.cut_by(monkeypatch, 4000, 600)
    targets = []
    for rows in (10**9, 50):
        taken.clear()
        large = pipelines.run(tmp_path, force=True, tuning=Tuning(crowded_rows=rows, skewed_share=skewed_share))
        assert large.result.error is None
        targets.append(len(taken))
        found = pipelines.outputs(tmp_path)
        assert found["o.csv"] == wanted["o.csv"]
        assert combines.dead(found.get("dead.csv", b"")) == combines.dead(wanted.get("dead.csv", b""))
        assert {n: dict(node) for n, node in large.nodes.items()} == {n: dict(node) for n, node in small.nodes.items()}
    assert targets[1] > 2 * targets[0], "records of the one key go to all tasks"
    assert bool(waited) == (skewed_share > 2)


def test_grace_hash_asks_for_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint partitions a build side that would fit into every task, where the driver is worth several tasks."""
    without_spark.install(monkeypatch)
    shuffled = _watch(monkeypatch)
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "2500")
    for hint, expected in (("", []), ("strategy: grace_hash", ["c"])):
        combines.write(tmp_path, combines.combine(strategy=hint))
        assert pipelines.run(tmp_path, force=True).result.error is None
        assert shuffled == expected


def test_a_build_side_that_turns_out_small_goes_to_every_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of records are grouped to a few: planned for partitions, written in them, and read whole."""
    without_spark.install(monkeypatch)
    few = combines.GROUPS.replace("BUILDS", "more").replace("group_by: [key]", "group_by: [amount]")
    few = few.replace("last(w)", "count(*)").replace("max(f)", "max(key)")
    combines.write(tmp_path, few + combines.combine(build="groups", where="o.amount == p.amount"), more_rows=3000)
    shuffled = _watch(monkeypatch)
    assert pipelines.run(tmp_path).result.error is None
    wanted = pipelines.outputs(tmp_path)["o.csv"]
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "8000")
    assert pipelines.run(tmp_path, force=True).result.error is None
    assert pipelines.outputs(tmp_path)["o.csv"] == wanted
    assert not shuffled


@pytest.mark.parametrize(("strategy", "code"), [("fail_fast", "combine_output_row"), ("continue", "E319")])
def test_a_miss_that_is_an_error_ends_the_run(
    strategy: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under fail_fast the first failure ends it, which is a division by zero here."""
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.combine(miss="error"), strategy=strategy)
    small = pipelines.run(tmp_path).result
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "600")
    large = pipelines.run(tmp_path).result
    assert small.exit_code == large.exit_code == 3
    assert small.error is not None
    assert small.error == large.error
    assert small.error.code == code


@pytest.mark.parametrize("strategy", ["fail_fast", "continue"])
def test_of_several_misses_the_first_record_is_told(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By source and row, wherever it meets the build side, and though records of another source come before it."""
    without_spark.install(monkeypatch)
    merged = combines.MERGED.replace("[orders, more]", "[more, orders]")
    combines.write(tmp_path, merged + combines.combine(driver="both", miss="error"), strategy=strategy)
    (tmp_path / "orders.csv").write_text("id,key,amount\n" + "".join(f"{i},{900 + i},1\n" for i in range(40)))
    (tmp_path / "more.csv").write_text("id,key,amount\n" + "".join(f"{i},{800 + i},1\n" for i in range(40)))
    small = pipelines.run(tmp_path).result
    assert small.error is not None
    assert "orders.csv, row 1:" in small.error.message
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "100")
    shuffled = _watch(monkeypatch)
    assert pipelines.run(tmp_path).result.error == small.error
    assert shuffled == ["c"]


@pytest.mark.spark
def test_partitions_meet_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    combines.write(tmp_path, combines.SHAPES["merged drivers"])
    assert pipelines.run(tmp_path).result.error is None
    wanted = pipelines.outputs(tmp_path)["o.csv"]
    shuffled = _watch(monkeypatch)
    pipelines.cut_by(monkeypatch, 2500, 600)
    large = pipelines.run(tmp_path, force=True, memory_limit_bytes=8 << 20).result
    assert large.error is None
    assert shuffled == ["c"]
    assert pipelines.outputs(tmp_path)["o.csv"] == wanted


@pytest.mark.parametrize("shape", ["all", "collect", "merged drivers"])
def test_drivers_of_few_splits_come_home_to_all_partitions(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few the tasks are that send drivers, as many put the results into order as the build side has parts."""
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.SHAPES[shape])
    assert pipelines.run(tmp_path).result.error is None
    wanted = pipelines.outputs(tmp_path)
    ordered_by: set[tuple[str, int]] = set()
    receive = RestoreOrder.receive

    def noted(ordered: RestoreOrder, table: pa.Table) -> None:
        ordered_by.add((ordered.step.name, ordered.number_of_partition))
        receive(ordered, table)

    monkeypatch.setattr(RestoreOrder, "receive", noted)
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "300")
    assert pipelines.run(tmp_path, force=True).result.error is None
    found = pipelines.outputs(tmp_path)
    assert found["o.csv"] == wanted["o.csv"]
    assert combines.dead(found.get("dead.csv", b"")) == combines.dead(wanted.get("dead.csv", b""))
    numbers = sorted(number for name, number in ordered_by if name == "c")
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 8

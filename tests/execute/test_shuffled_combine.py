"""Combines with large build sides: the bytes are those of small ones, whatever is exchanged."""

from __future__ import annotations

import csv
import random
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import partitions, passes, work
from spark_jobs.execute.spark import chain
from spark_jobs.nodes.combine import collecting, joining
from spark_jobs.nodes.combine import run as combining
from spark_jobs.nodes.combine import shuffled as shuffled_combine
from spark_jobs.nodes.combine.shuffled import Probe
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from spark_jobs.execute.tasks.report import TaskReport
    from spark_jobs.execute.tasks.spec import JobSpec

HEAD = """
    pipeline: {name: p, concurrency: {threads: 2}}
    error_handling: {strategy: STRATEGY, dlq: {path: out/dead.csv}}
    nodes:
      - type: source
        name: orders
        config: {name: orders, type: csv, path: orders.csv, on_unmapped: {mode: auto_widen}, schema: KEYED}
      - {type: source, name: more, config: {name: more, type: csv, path: more.csv, schema: KEYED}}
      - type: source
        name: parts
        config: {name: parts, type: csv, path: parts.csv, schema: {key: float, f: int, w: string}}
""".replace("KEYED", "{id: int, key: int, amount: int}")
TAIL = """
      - {type: output, name: o, input: LAST, config: {name: o, type: csv, path: out/o.csv}}
"""
COMBINE = """
      - type: combine
        name: c
        input: {o: DRIVER, p: BUILD}
        config:
          where: WHERE
          match: MATCH
          on_miss: MISS
          propagate_ck: driver
          STRATEGY
          cxl: |
            emit id = o.id
            emit w = p.w
            emit part = 100 / p.f
            emit file = $source.file
            emit row = $source.row
"""
MERGED = "      - {type: merge, name: both, inputs: [orders, more], config: {}}\n"
GROUPS = """
      - type: aggregate
        name: groups
        input: BUILDS
        config: {group_by: [key], cxl: "emit w = last(w)\\nemit f = max(f)"}
"""


def _combine(
    driver: str = "orders", build: str = "parts", where: str = "o.key == p.key", match: str = "all",
    miss: str = "null_fields", strategy: str = "",
) -> str:  # fmt: skip
    text = COMBINE.replace("DRIVER", driver).replace("BUILD", build).replace("WHERE", f'"{where}"')
    return text.replace("MATCH", match).replace("MISS", miss).replace("STRATEGY", strategy)


SHAPES = {
    "all": _combine(),
    "first": _combine(match="first", miss="skip"),
    "a range beside the key": _combine(where="o.key == p.key and o.amount > p.f"),
    "two keys": _combine(where="o.key == p.key and o.amount % 3 == p.f % 3"),
    "keys that fail": _combine(where="100 / o.key == p.key"),
    "merged drivers": MERGED + _combine(driver="both"),
    "a build side of groups": GROUPS.replace("BUILDS", "parts") + _combine(build="groups"),
    "groups that drive": """
      - type: aggregate
        name: totals
        input: orders
        config: {group_by: [key], cxl: "emit id = min(id)\\nemit amount = sum(amount)"}
"""
    + _combine(driver="totals"),
}
COLLECT = """
      - type: combine
        name: c
        input: {o: orders, p: parts}
        config: {where: "o.key == p.key", match: collect, propagate_ck: driver}
      - {type: transform, name: t, input: c, config: {cxl: "emit id = id\\nemit n = p.length()"}}
"""
SHAPES["collect"] = COLLECT
THREE = """
      - type: combine
        name: c
        input: {o: orders, p: parts, m: more}
        config:
          where: "o.key == p.key and p.f == m.amount"
          match: all
          propagate_ck: driver
          drive: o
          cxl: |
            emit id = o.id
            emit w = p.w
            emit other = m.id
"""
SHAPES["three inputs"] = THREE


def _write(folder: Path, body: str, strategy: str = "continue", more_rows: int = 100) -> None:
    random_ = random.Random(3)
    orders = (f"{i},{random_.choice(['', *range(60)])},{random_.randrange(50)},x{i % 7}" for i in range(400))
    more = (f"{i},{random_.randrange(60)},{random_.randrange(9)}" for i in range(more_rows))
    parts = (f"{random_.choice(['', *range(50)])},{random_.randrange(9)},w{i}" for i in range(150))
    last = "t" if body == COLLECT else "c"
    pipelines.write(folder, {
        "pipeline.yaml": (HEAD + body + TAIL).replace("STRATEGY", strategy).replace("LAST", last),
        "orders.csv": ("id,key,amount,extra\n" + "\n".join(orders) + "\n").encode(),
        "more.csv": ("id,key,amount\n" + "\n".join(more) + "\n").encode(),
        "parts.csv": ("key,f,w\n" + "\n".join(parts) + "\n").encode(),
    })  # fmt: skip


def _dead(text: bytes) -> list[list[str]]:
    """Dead letters without their ids and times."""
    return [line.split(",")[2:] for line in text.decode().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "splits"), [*((shape, 3) for shape in SHAPES), ("all", 1)])
def test_bytes_are_those_of_a_small_build_side(
    shape: str, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, SHAPES[shape])
    shuffled = _watch(monkeypatch)
    small = pipelines.run(tmp_path)
    assert small.result.error is None
    assert not shuffled
    wanted = pipelines.outputs(tmp_path)
    size = (tmp_path / "orders.csv").stat().st_size
    monkeypatch.setenv(work.SPLIT_BYTES_VARIABLE, str(size // splits + 1))
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "600")
    large = pipelines.run(tmp_path, force=True)
    assert large.result.error is None
    assert shuffled == ["c"]
    found = pipelines.outputs(tmp_path)
    assert found["o.csv"] == wanted["o.csv"]
    assert ("dead.csv" in found) == ("dead.csv" in wanted)
    if "dead.csv" in found:
        assert _dead(found["dead.csv"]) == _dead(wanted["dead.csv"])
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
    **SHAPES,
    "all that collect tests": COLLECT.replace("o.key == p.key", "o.amount > p.f and p.f != 3"),
    "ranges alone": _combine(where="o.amount > p.f and o.amount <= p.f + 9", match="all"),
}


@pytest.mark.parametrize("shape", MANY)
def test_a_record_with_more_matches_than_fit_gives_them_in_pieces(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies that fail, too: of a driver that fails for some match nothing goes on, whatever piece that is in."""
    without_spark.install(monkeypatch)
    _write(tmp_path, SHAPES_OF_MANY[shape])
    at_once = pipelines.run(tmp_path)
    assert at_once.result.error is None
    wanted = pipelines.outputs(tmp_path)
    monkeypatch.setattr(joining, "PAIR_ROWS", 7)
    pieces = pipelines.run(tmp_path, force=True)
    assert pieces.result.error is None
    found = pipelines.outputs(tmp_path)
    assert found["o.csv"] == wanted["o.csv"]
    assert _dead(found.get("dead.csv", b"")) == _dead(wanted.get("dead.csv", b""))
    assert {n: dict(node) for n, node in pieces.nodes.items()} == {n: dict(node) for n, node in at_once.nodes.items()}


def test_so_many_matches_are_collected_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, COLLECT)
    assert pipelines.run(tmp_path).result.error is None
    wanted = [int(row["n"]) for row in csv.DictReader(pipelines.outputs(tmp_path)["o.csv"].decode().splitlines())]
    for most in (None, 1):
        monkeypatch.setattr(collecting, "LIMIT", 2)
        if most is not None:
            monkeypatch.setattr(joining, "PAIR_ROWS", most)
        caplog.clear()
        assert pipelines.run(tmp_path, force=True).result.error is None
        found = [int(row["n"]) for row in csv.DictReader(pipelines.outputs(tmp_path)["o.csv"].decode().splitlines())]
        assert found == [min(count, 2) for count in wanted]
        assert 'combine "c" match: collect truncated at 2 matches' in caplog.text


def _watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The combines that are shuffled in the jobs that run from now on."""
    seen: list[str] = []
    run = passes.chain.run

    def watched(spark: object, spec: JobSpec) -> list[TaskReport]:
        seen.extend(b.step.name for b in spec.job.boxes.values() if b.step.kind == "combine" and b.role == "partial")
        return run(spark, spec)  # type: ignore[arg-type]

    monkeypatch.setattr(chain, "run", watched)
    return seen


def _skewed(folder: Path, body: str) -> None:
    """Nearly all drivers have one key, and some have none."""
    _write(folder, body)
    numbers = random.Random(5)
    keys = (7 if i % 10 else numbers.choice(["", 1, 2, 30]) for i in range(900))
    orders = (f"{i},{key},{numbers.randrange(50)},x" for i, key in enumerate(keys))
    (folder / "orders.csv").write_text("id,key,amount,extra\n" + "\n".join(orders) + "\n")


@pytest.mark.parametrize("shape", ["all", "first", "a range beside the key", "collect", "three inputs"])
def test_a_key_that_most_records_have_is_looked_up_by_all_tasks(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    _skewed(tmp_path, SHAPES[shape])
    small = pipelines.run(tmp_path)
    assert small.result.error is None
    wanted = pipelines.outputs(tmp_path)
    taken: list[int] = []
    count = Probe.enter

    def counted(probe: Probe, records: int) -> None:
        taken.append(probe.number_of_partition)
        count(probe, records)

    monkeypatch.setattr(Probe, "enter", counted)
    monkeypatch.setenv(work.SPLIT_BYTES_VARIABLE, "4000")
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "600")
    targets = []
    for rows in (10**9, 50):
        monkeypatch.setattr(shuffled_combine, "CROWDED_ROWS", rows)
        taken.clear()
        large = pipelines.run(tmp_path, force=True)
        assert large.result.error is None
        targets.append(len(taken))
        found = pipelines.outputs(tmp_path)
        assert found["o.csv"] == wanted["o.csv"]
        assert _dead(found.get("dead.csv", b"")) == _dead(wanted.get("dead.csv", b""))
        assert {n: dict(node) for n, node in large.nodes.items()} == {n: dict(node) for n, node in small.nodes.items()}
    assert targets[1] > 2 * targets[0], "records of the one key go to all tasks"


def test_grace_hash_asks_for_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint partitions a build side that would fit into every task, where the driver is worth several tasks."""
    without_spark.install(monkeypatch)
    shuffled = _watch(monkeypatch)
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "2500")
    for hint, expected in (("", []), ("strategy: grace_hash", ["c"])):
        _write(tmp_path, _combine(strategy=hint))
        assert pipelines.run(tmp_path, force=True).result.error is None
        assert shuffled == expected


def test_a_build_side_that_turns_out_small_goes_to_every_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of records are grouped to a few: planned for partitions, written in them, and read whole."""
    without_spark.install(monkeypatch)
    few = GROUPS.replace("BUILDS", "more").replace("group_by: [key]", "group_by: [amount]")
    few = few.replace("last(w)", "count(*)").replace("max(f)", "max(key)")
    _write(tmp_path, few + _combine(build="groups", where="o.amount == p.amount"), more_rows=3000)
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
    _write(tmp_path, _combine(miss="error"), strategy=strategy)
    small = pipelines.run(tmp_path).result
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "600")
    large = pipelines.run(tmp_path).result
    assert small.exit_code == large.exit_code == 3
    assert small.error is not None
    assert small.error == large.error
    assert small.error.code == code


IN_CHUNKS = {
    **{name: text for name, text in SHAPES.items() if name != "three inputs"},
    "ranges alone": _combine(where="o.amount > p.f and o.key <= p.key"),
    "collected and tested": COLLECT.replace("o.key == p.key", "o.amount > p.f and 100 / (p.f - 3) < 40"),
    "a test that fails": _combine(where="o.key == p.key and 100 / p.f > o.amount", miss="skip"),
    "a test that fails, first match": _combine(where="o.amount > p.f and 100 / (p.f - 3) < 40", match="first"),
    "a miss is an error": _combine(where="o.amount > p.f", match="first", miss="error"),
}


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("shape", IN_CHUNKS)
def test_a_build_side_meets_its_drivers_in_chunks(
    shape: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs, dead letters and counters are those of a build side that is looked up at once."""
    without_spark.install(monkeypatch)
    _write(tmp_path, IN_CHUNKS[shape])
    whole = pipelines.run(tmp_path)
    wanted = pipelines.outputs(tmp_path)
    cut: list[int] = []

    def chunked(self: combining.Combine, qualifier: str, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        cut.append(table.num_rows)
        return ((start, table.slice(start, rows)) for start in range(0, table.num_rows, rows))

    monkeypatch.setattr(combining.Combine, "is_large", lambda *_: True)
    monkeypatch.setattr(combining.Combine, "cut", chunked)
    monkeypatch.setattr(joining, "PAIR_ROWS", 7)
    for partition_bytes in ("600", str(10**9)):
        monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, partition_bytes)
        found = pipelines.run(tmp_path, force=True)
        assert found.result.error == whole.result.error
        if whole.result.error is None:
            now = pipelines.outputs(tmp_path)
            assert now["o.csv"] == wanted["o.csv"]
            assert _dead(now.get("dead.csv", b"")) == _dead(wanted.get("dead.csv", b""))
            assert {n: dict(node) for n, node in found.nodes.items()} == {
                n: dict(node) for n, node in whole.nodes.items()
            }
    assert max(cut) > rows


@pytest.mark.slow
@pytest.mark.parametrize("where", ["o.amount > p.f", "o.key == p.key"])
def test_a_build_side_may_be_larger_than_a_tasks_memory(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, _combine(where=where, match="first"))
    wide = "\n".join(f"{i % 3},{i % 9},{'w' * 5000}{i}" for i in range(1000))
    (tmp_path / "parts.csv").write_text(f"key,f,w\n{wide}\n")
    assert pipelines.run(tmp_path).result.error is None
    wanted = pipelines.outputs(tmp_path)["o.csv"]
    small = pipelines.run(tmp_path, memory_limit_bytes=8 << 20, force=True)
    assert small.result.error is None
    assert pipelines.outputs(tmp_path)["o.csv"] == wanted


@pytest.mark.slow
def test_matches_of_one_record_that_do_not_fit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, _combine(where="o.amount > p.f", match="all"))
    wide = "\n".join(f"{i % 3},{i % 9},{'w' * 5000}{i}" for i in range(1000))
    (tmp_path / "parts.csv").write_text(f"key,f,w\n{wide}\n")
    (tmp_path / "orders.csv").write_text("id,key,amount\n1,2,30\n2,2,40\n")
    failed = pipelines.run(tmp_path, memory_limit_bytes=8 << 20).result
    assert failed.exit_code == 1
    assert failed.error is not None
    assert failed.error.code == "E310"
    assert "combine 'c': a record of 'o' has matches of" in failed.error.message


def test_one_of_several_build_sides_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    _write(tmp_path, THREE)
    monkeypatch.setattr(combining.Combine, "most_needed", 100)
    failed = pipelines.run(tmp_path).result
    assert failed.error is not None
    assert failed.error.code == "E310"
    assert "combine 'c': the build side 'p' needs" in failed.error.message


@pytest.mark.spark
def test_partitions_meet_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, SHAPES["merged drivers"])
    assert pipelines.run(tmp_path).result.error is None
    wanted = pipelines.outputs(tmp_path)["o.csv"]
    shuffled = _watch(monkeypatch)
    monkeypatch.setenv(work.SPLIT_BYTES_VARIABLE, "2500")
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "600")
    large = pipelines.run(tmp_path, force=True, memory_limit_bytes=8 << 20).result
    assert large.error is None
    assert shuffled == ["c"]
    assert pipelines.outputs(tmp_path)["o.csv"] == wanted

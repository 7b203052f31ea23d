"""Interleaved merges: their order is that of a plain model, whatever is cut, spilled or failing."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from spark_jobs.execute.run import partitions
from spark_jobs.nodes.merge import turns
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_BITS = (1 << 64) - 1


class Generator:
    """The generator behind seeds, number by number."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        self.state = (self.state + 0x2D358DCCAA6C78A5) & _BITS
        product = self.state * (self.state ^ 0x8BB84B93962EACC9)
        return (product & _BITS) ^ (product >> 64)

    def below(self, bound: int) -> int:
        while True:
            high, low = divmod(self.next() * bound, 1 << 64)
            if low >= (2**64 - bound) % bound:
                return high


def in_turn(counts: Sequence[int]) -> Iterator[int]:
    left = list(counts)
    while any(left):
        for number, count in enumerate(left):
            if count:
                left[number] -= 1
                yield number


def drawn(counts: Sequence[int], seed: int) -> Iterator[int]:
    left, generator = list(counts), Generator(seed)
    while any(left):
        ready = [number for number, count in enumerate(left) if count]
        number = ready[generator.below(len(ready))]
        left[number] -= 1
        yield number


COUNTS = [[0], [5], [5, 5], [3, 2, 2], [0, 7, 0, 1], [1000, 1], [40, 0, 300, 2, 300], [1] * 300, [*range(60)]]


def test_the_generator_gives_the_checked_values() -> None:
    checked = [0xCA71D87C76983989, 0x7E5BA61552085FC6, 0xCDF101E3BAB88B9F]
    assert [number for generator in [Generator(42)] for number in (generator.next() for _ in range(3))] == checked
    assert turns._draws(42, 3).tolist() == checked


@pytest.mark.parametrize("seed", [0, 7, 42, 2**64 - 1])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_turns_are_drawn_as_one_would_by_hand(counts: list[int], seed: int) -> None:
    expected = [*drawn(counts, seed)]
    assert [number for block in turns.draw_turns(counts, seed) for number in block.tolist()] == expected
    order = io.BytesIO()
    turns.write_drawn(counts, seed, order)
    for start in range(0, len(expected), 37):
        end = min(start + 41, len(expected))
        found = turns.read_drawn(counts, order, start, end)
        assert found.inputs.tolist() == expected[start:end]
        assert found.before.tolist() == np.bincount(expected[:start], minlength=len(counts)).tolist()


def test_many_turns_are_noted_where_they_are_read() -> None:
    counts = [100_000, 50_000, 1]
    expected = [*drawn(counts, 9)]
    order = io.BytesIO()
    turns.write_drawn(counts, 9, order)
    for start in (0, 65_535, 65_536, 65_537, 131_072, 150_000):
        found = turns.read_drawn(counts, order, start, start + 1)
        assert found.inputs.tolist() == expected[start : start + 1]
        assert found.before.tolist() == np.bincount(expected[:start], minlength=3).tolist()


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_a_stretch_of_a_round_robin_is_known_from_the_counts(counts: list[int]) -> None:
    expected = [*in_turn(counts)]
    for start in range(0, len(expected) + 1, 13):
        for end in {start, min(start + 1, len(expected)), min(start + 40, len(expected)), len(expected)}:
            found = turns.round_robin(counts, start, end)
            assert found.inputs.tolist() == expected[start:end]
            assert found.before.tolist() == np.bincount(expected[:start], minlength=len(counts)).tolist()


def _source(name: str) -> dict[str, Any]:
    config = {"name": name, "type": "csv", "path": f"{name}.csv", "schema": {"id": "int", "text": "string"}}
    return {"type": "source", "name": name, "config": config}


def _output(name: str, given: str) -> dict[str, Any]:
    return {"type": "output", "name": name, "input": given,
            "config": {"name": name, "type": "csv", "path": f"out/{name}.csv"}}  # fmt: skip


def _pipeline(inputs: int, seed: int | None, limit: str) -> dict[str, Any]:
    """Records of which some are filtered and some fail, interleaved, and grouped behind that."""
    names = [f"s{i}" for i in range(inputs)]
    nodes = [_source(name) for name in names]
    for name in names:
        program = "filter id % 5 != 1\nemit id = id + 0 / (id % 7)\nemit source = $source.name"
        nodes.append({"type": "transform", "name": f"{name}_kept", "input": name, "config": {"cxl": program}})
    config: dict[str, Any] = {"mode": "interleave"}
    if seed is not None:
        config["interleave_seed"] = seed
    nodes.append({"type": "merge", "name": "all", "inputs": [f"{name}_kept" for name in names], "config": config})
    groups = {"group_by": ["text"], "cxl": "emit first = first(id)\nemit n = count(*)"}
    nodes.append({"type": "aggregate", "name": "groups", "input": "all", "config": groups})
    nodes += [_output("records", "all"), _output("groups_file", "groups")]
    errors = {"strategy": "continue", "dlq": {"path": "dead.csv"}}
    return {"pipeline": {"name": "p", "memory": {"limit": limit}}, "nodes": nodes, "error_handling": errors}


def _inputs(sizes: Sequence[int], width: int) -> list[list[tuple[int, str]]]:
    numbers = random.Random(len(sizes))
    return [[(i, f"t{numbers.randrange(6)}" + "x" * width) for i in range(size)] for size in sizes]


def _expected(inputs: list[list[tuple[int, str]]], seed: int | None) -> tuple[list[str], list[str]]:
    """What a loop over the records gives."""
    arriving = [[(i, text) for i, text in records if i % 5 != 1 and i % 7] for records in inputs]
    counts = [len(records) for records in arriving]
    order = in_turn(counts) if seed is None else drawn(counts, seed)
    waiting = [iter(records) for records in arriving]
    merged = [(*next(waiting[number]), f"s{number}") for number in order]
    groups: dict[str, list[int]] = {}
    for i, text, _ in merged:
        groups.setdefault(text, []).append(i)
    records = [f"{i},{text},{source}" for i, text, source in merged]
    return records, [f"{text},{ids[0]},{len(ids)}" for text, ids in groups.items()]


@pytest.mark.parametrize(
    ("sizes", "width", "split", "partition", "limit"),
    [
        ([40, 0, 13], 0, 10**9, 10**9, "512MB"),
        ([40, 0, 13], 0, 50, 100, "512MB"),
        ([200, 1, 77, 200], 0, 333, 3000, "512MB"),
        ([3000, 2000], 2000, 10**6, 10**9, "16MB"),
    ],
    ids=["whole", "cut", "cut otherwise", "spilled"],
)
@pytest.mark.parametrize("seed", [None, 11])
def test_merged_records_are_those_of_a_plain_model(
    sizes: list[int], width: int, split: int, partition: int, limit: str, seed: int | None,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split, partition)
    inputs = _inputs(sizes, width)
    files = {f"s{i}.csv": "id,text\n" + "".join(f"{n},{t}\n" for n, t in rows) for i, rows in enumerate(inputs)}
    pipeline = yaml.safe_dump(_pipeline(len(sizes), seed, limit), sort_keys=False)
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, **{name: text.encode() for name, text in files.items()}})
    outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 2, outcome.error
    published = pipelines.outputs(tmp_path)
    records, groups = _expected(inputs, seed)
    assert published["records.csv"].decode().splitlines()[1:] == records
    assert published["groups_file.csv"].decode().splitlines()[1:] == groups


def test_a_thousand_lanes_are_taken_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all files that were written down one is open at a time."""
    without_spark.install(monkeypatch)
    inputs, branches = 8, 128
    nodes: list[dict[str, Any]] = [_source(f"s{i}") for i in range(inputs)]
    lanes = []
    for i in range(inputs):
        conditions = {f"b{i}_{j}": f"id % {branches} == {j}" for j in range(1, branches)}
        nodes.append({"type": "route", "name": f"r{i}", "input": f"s{i}",
                      "config": {"conditions": conditions, "default": f"b{i}_0"}})  # fmt: skip
        lanes += [f"r{i}.b{i}_{j}" for j in range(branches)]
    nodes.append({"type": "merge", "name": "all", "inputs": lanes, "config": {"mode": "interleave"}})
    nodes.append(_output("records", "all"))
    files = {f"s{i}.csv": b"id,text\n" + b"".join(b"%d,%d\n" % (n, i) for n in range(300)) for i in range(inputs)}
    pipeline = yaml.safe_dump({"pipeline": {"name": "p"}, "nodes": nodes}, sort_keys=False)
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, **files})
    outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 0, outcome.error
    rounds = ([(n, i) for i in range(inputs) for n in range(300) if n // branches == turn] for turn in range(3))
    expected = [f"{n},{i}" for turn in rounds for n, i in turn]
    assert pipelines.outputs(tmp_path)["records.csv"].decode().splitlines()[1:] == expected


@pytest.mark.parametrize("partition", [10**9, 100])
def test_records_with_other_undeclared_columns_go_on_together(
    partition: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge is kept, because a node of the init phase reads it; then a combine writes its records down again."""
    without_spark.install(monkeypatch)
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, str(partition))
    total = {"scope": "pipeline", "phase": "init", "set": [{"var": "total", "cxl": "sum(id)"}]}
    program = "emit id = l.id\nemit text = r.text\nemit total = $pipeline.total"
    nodes = [
        _source("a"),
        _source("b"),
        {"type": "merge", "name": "both", "inputs": ["a", "b"]},
        {"type": "state", "name": "init", "input": "both", "config": total},
        {"type": "combine", "name": "joined", "input": {"l": "both", "r": "both"},
         "config": {"where": "l.id == r.id", "match": "all", "cxl": program}},
        _output("o", "joined"),
    ]  # fmt: skip
    head = {"name": "p", "vars": {"pipeline": {"total": {"type": "int"}}}}
    pipeline = yaml.safe_dump({"pipeline": head, "nodes": nodes}, sort_keys=False)
    files = {"a.csv": b"id,text,left\n1,x,L1\n2,x,L2\n", "b.csv": b"id,text,right\n1,y,R1\n3,y,R3\n"}
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, **files})
    outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 0, outcome.error
    assert pipelines.outputs(tmp_path)["o.csv"].decode().splitlines() == [
        "id,text,total,left,right", "1,x,7,L1,", "1,y,7,L1,", "2,x,7,L2,", "1,x,7,,R1", "1,y,7,,R1", "3,y,7,,R3",
    ]  # fmt: skip

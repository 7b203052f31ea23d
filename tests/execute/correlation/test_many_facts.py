"""What passes find is put together range by range where it is much, and is the same as put together at once."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.execute.correlation import facts as facts_
from spark_jobs.execute.correlation import group_sizes, ordered, stored
from spark_jobs.execute.correlation.facts import FACTS, FactKind
from spark_jobs.execute.correlation.iteration import Iteration
from spark_jobs.execute.correlation.state import Goal
from spark_jobs.execute.scratch import Scratch
from spark_jobs.nodes.records.identity import KEY_BUCKETS, ROW_BITS
from spark_jobs.tuning import Tuning
from tests.execute import correlated_runs, pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.execute.correlation.state import PassState

SCHEMA = pa.schema([("group", pa.uint64()), ("record", pa.int64()), ("place", pa.int32()), ("why", pa.large_string())])
FEW = [1, 2, 7, 50]


@pytest.fixture(params=FEW, ids=lambda each: f"of-{each}")
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(stored, "MOST_ROWS", request.param)
    return int(request.param)


def drawn(seed: int, count: int) -> pa.Table:
    """Rows of few groups and of many, up to the largest numbers."""
    draw = random.Random(seed)
    groups = [0, 1, (1 << 64) - 1, 1 << 63, *(draw.getrandbits(64) for _ in range(count // 3))]
    rows = [(draw.choice(groups[: draw.choice([4, len(groups)])]), draw.randrange(-1, 20), draw.randrange(5),
             draw.choice(["", "é", "why " * draw.randrange(9)])) for _ in range(count)]  # fmt: skip
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


@pytest.mark.parametrize("seed", range(5))
def test_rows_come_in_order_each_key_once(few: int, seed: int, tmp_path: Path) -> None:
    table = drawn(seed, 200)
    for keys, then in ((["group"], ["record", "place"]), (["group", "record"], []), (["group", "record"], ["place"])):
        parts = (table.slice(at, 11) for at in range(0, 200, 11))
        found = ordered.once(str(tmp_path), SCHEMA, parts, keys, then)
        expected: dict[Any, Any] = {}
        for row in sorted(table.to_pylist(), key=lambda row: [row[name] for name in [*keys, *then]]):
            expected.setdefault(tuple(row[name] for name in keys), row)
        assert found.to_pylist() == list(expected.values())
        assert all(column.num_chunks == 1 for column in found.columns)
    assert not list(tmp_path.iterdir()), "files that are mapped have no name any more"


def test_earlier_tables_come_first(few: int, tmp_path: Path) -> None:
    first, last = (ordered.first_of_each(drawn(seed, 90), ["group"]) for seed in (1, 2))
    found = ordered.united(str(tmp_path), SCHEMA, [first, SCHEMA.empty_table(), last], ["group"])
    known = {row["group"]: row for row in [*last.to_pylist(), *first.to_pylist()]}
    assert found.to_pylist() == [known[group] for group in sorted(known)]


def test_ranges_are_short_whatever_keys_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one group with many records, of groups with one, and of groups that stand together."""
    monkeypatch.setattr(stored, "MOST_ROWS", 100)
    groups = np.concatenate([np.full(3000, 5), np.arange(3000) * 7919, 10**9 + np.arange(3000)]).astype(np.uint64)
    pairs = pa.table({"group": groups, "record": np.arange(9000)})
    tables = [ordered.first_of_each(pairs.take(list(range(start, 9000, 9))), ["group", "record"]) for start in range(9)]
    found = list(ordered.ranges(tables, ["group", "record"]))
    assert max(sum(part.num_rows for part in parts) for parts in found) <= 200
    assert sum(part.num_rows for parts in found for part in parts) == 9000
    assert len(found) < 9000 / 20


def test_ranges_of_long_texts_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes are in memory at a time, however few rows these are."""
    monkeypatch.setattr(stored, "MOST_BYTES", 100_000)
    schema = pa.schema([("record", pa.int64()), ("why", pa.large_string())])
    rows = [{"record": row, "why": "x" * (200_000 if row == 77 else 5000)} for row in range(200)]
    table = pa.Table.from_pylist(random.Random(1).sample(rows, 200), schema=schema)
    found = ordered.runs(str(tmp_path), stored.slices(table, 1), lambda some: some.sort_by("record"))
    assert len(found) >= 10
    merged = list(ordered.merged(found, ["record"], lambda some: ordered.first_of_each(some, ["record"])))
    assert max(part.nbytes for part in merged if 77 not in part.column("record").to_pylist()) <= 150_000
    assert stored.store_table(str(tmp_path), schema, merged).to_pylist() == rows


def test_stored_tables_read_as_they_were_written(few: int, tmp_path: Path) -> None:
    table = drawn(3, 120).slice(7)
    found = stored.store_table(str(tmp_path), SCHEMA, stored.slices(table, 13))
    assert found.equals(table.combine_chunks())
    assert found.slice(50, 20).equals(table.slice(50, 20).combine_chunks())
    assert stored.store_table(str(tmp_path), SCHEMA, []).equals(SCHEMA.empty_table())


def test_texts_may_all_be_empty(few: int, tmp_path: Path) -> None:
    table = pa.table([[""] * 60], schema=pa.schema([("why", pa.large_string())]))
    assert stored.store_table(str(tmp_path), table.schema, stored.slices(table, 4)).equals(table)


def test_numbers_that_come_more_often() -> None:
    values = np.array([1, 1, 1, 2, 3, 3, 9, 9, 9, 9], dtype=np.uint64)
    for count in range(6):
        many = [number for number in (1, 2, 3, 9) if values.tolist().count(number) > count]
        assert ordered.more_often_than(values, count).tolist() == many
    at, of = ordered.rows_of(values, np.array([3, 4, 1], dtype=np.uint64))
    assert (at.tolist(), of.tolist()) == ([4, 5, 0, 1, 2], [0, 0, 2, 2, 2])


# ---- iterations


def facts(seed: int, count: int) -> list[dict[str, Any]]:
    """Failures of records and of rows, some of them several times, some without a key at hand."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        split, row = draw.randrange(4), draw.randrange(count // 2)
        group = draw.choice([0, draw.randrange(1, 9), draw.getrandbits(64)])
        is_row = number % 5 == 0
        is_keyless = number % 3 == 0
        found.append({
            "record": -1 if is_row else (split << ROW_BITS) + row, "group": 0 if is_keyless else group,
            "aggregated": 2 * draw.randrange(1, 30) if is_row else 0,
            "kind": int(
                draw.choice([FactKind.ROW_FAILURE, FactKind.LAST_PASS_FAILURE]) if is_row else FactKind.FAILURE
            ),
            "source": 0, "split": split, "row": row, "why": f"why {number}", "whole": 0 if is_row else group,
            "bucket": 0 if is_keyless else group % KEY_BUCKETS, "node": 0, "at": number % 3,
            "lacks_key": int(is_keyless),
        })  # fmt: skip
    return found


def answers(given: Sequence[dict[str, Any]], kind: FactKind) -> list[dict[str, Any]]:
    """What a pass finds that looks for groups or first records."""
    found = []
    for each in given:
        group = each["group"] or each["row"] % 7 + 1
        found.append(each | {"kind": int(kind), "group": group, "whole": group, "bucket": group % KEY_BUCKETS})
    return found


def products(folder: Path, rows: Sequence[dict[str, Any]]) -> Any:
    paths = []
    for at in range(0, len(rows), 37):
        paths.append(folder / f"facts-{len(list(folder.iterdir()))}.arrow")
        with pa.ipc.new_file(paths[-1], FACTS) as file:
            file.write_table(pa.Table.from_pylist(rows[at : at + 37], schema=FACTS), max_chunksize=5)
    inputs = SimpleNamespace(one_of_several=lambda split: f"f{split}" if split % 2 else "")
    tally = SimpleNamespace(logs=[], measured={})
    return SimpleNamespace(
        fact_files=[str(path) for path in paths], rows_before={1: 7}, dlq=[], shares=1, inputs=inputs, tally=tally
    )


#: What a search finds: by the goal of its pass.
FOUND = {
    Goal.ROW_KEYS: FactKind.GROUP_KEY,
    Goal.RECORD_KEYS: FactKind.GROUP_KEY,
    Goal.FIRST_RECORDS: FactKind.FIRST_RECORD,
    Goal.RETRACTED_RECORDS: FactKind.RETRACTED_RECORD,
    Goal.GROUP_MEMBERS: FactKind.GROUP_MEMBER,
}


def played(folder: Path, seed: int, *, rows_meet: bool) -> list[Any]:
    """What is known after each pass."""
    folder.mkdir()
    node = SimpleNamespace(is_deferred=False, depth=0, depends_on=frozenset(), sources=frozenset(["s"]))
    plan = SimpleNamespace(policies={"o": "any", "p": "primary"}, limit=6, rows_meet=rows_meet, nodes={"s": node})
    run = SimpleNamespace(scratch=Scratch(str(folder)), steps={"s": None}, strategy=None)
    iteration = Iteration(run, plan)  # type: ignore[arg-type]
    told = []
    of_rows = [each for each in facts(seed, 150) if each["record"] < 0]
    for given in (facts(seed, 150), facts(seed + 1, 60), of_rows, of_rows, of_rows):
        # The passes go on though nothing new was found: other facts come.
        iteration.state = replace(iteration.state, goal=Goal.COMPUTE, subject=None)
        iteration.take(products(folder, given))
        while (goal := iteration.state.goal).is_search:
            assert iteration.state.subject is not None
            asked = pa.ipc.open_file(iteration.state.subject).read_all().to_pydict()
            name, numbers = next(iter(asked.items()))
            rows = answers(
                [each for each in facts(seed, 150) if goal is Goal.ROW_KEYS or each["record"] >= 0], FOUND[goal]
            )
            if FOUND[goal] is FactKind.GROUP_KEY:
                column = "aggregated" if name == "number" else name
                rows = [each for each in rows if each[column] in set(numbers)]
            elif goal is Goal.FIRST_RECORDS:
                by_group = {each["group"]: each for each in sorted(rows, key=lambda each: -int(each["record"]))}
                rows = [each for group, each in by_group.items() if group in set(numbers)]
            elif goal is Goal.RETRACTED_RECORDS:
                rows = [each | {"aggregated": 0} for each in rows[:20]]
            told.append((goal, *seen(iteration.state)))
            iteration.take(products(folder, rows))
        told.append((iteration.state.goal, iteration.too_large, iteration.retracted_records, *seen(iteration.state)))
        rejections = iteration.rejections
        told.append([rejections.buckets.num_rows, rejections.whole.num_rows, sorted(iteration._oversized.tolist())])
    return told


def seen(state: PassState) -> list[Any]:
    """All files that a pass starts from."""
    paths = [state.subject, state.excluded, state.retracted, *state.rejected.values(), state.failed_rows,
             state.suppressed_rows, state.oversized]  # fmt: skip
    return [path and pa.ipc.open_file(path).read_all().to_pylist() for path in paths]


@pytest.mark.parametrize("rows_meet", [False, True], ids=["alone", "meeting"])
@pytest.mark.parametrize("seed", range(3))
def test_iterations_know_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, rows_meet: bool
) -> None:
    whole = played(tmp_path / "whole", seed, rows_meet=rows_meet)
    assert {told[0] for told in whole} >= {Goal.RECORD_KEYS, Goal.FIRST_RECORDS}
    for name, few in [("MOST_BYTES", 300), ("MOST_ROWS", 2), ("MOST_ROWS", 50)]:
        monkeypatch.setattr(stored, name, few)
        assert played(tmp_path / f"of-{few}", seed, rows_meet=rows_meet) == whole


def test_portions_have_few_rows(few: int, tmp_path: Path) -> None:
    some = facts(4, 120)
    found = facts_.of(products(tmp_path, some).fact_files)
    tables = list(found.tables("row", "why"))
    assert [row for table in tables for row in table.to_pylist()] == [
        {"row": each["row"], "why": each["why"]} for each in some
    ]
    assert max(table.num_rows for table in tables) <= max(few, 5)


def test_groups_that_are_too_large(few: int, tmp_path: Path) -> None:
    """Records of theirs that failed and rows that begin with records count as such."""
    names = ("group", "record", "split", "row", "node", "why")
    rows = [(group, (1 << ROW_BITS) + row, 1, row, 3, f"k={group}") for group in (7, 8, 0) for row in range(9, 0, -1)]
    given = [dict(zip(names, row, strict=True)) for row in [*rows, *rows[:3]]]
    blank = dict.fromkeys(FACTS.names, 0) | {"kind": int(FactKind.GROUP_MEMBER)}
    came = facts_.of(products(tmp_path, [blank | each for each in given]).fact_files)
    failed = pa.table({"group": pa.array([8, 8], pa.uint64()), "record": pa.array([3, 4])})
    found = group_sizes.too_large(came, failed, 9, str(tmp_path))
    assert found is not None
    said = "group k=8 of 11 records is larger than max_group_buffer 9"
    assert found.groups.to_pylist() == [{"group": 8, "first": (1 << ROW_BITS) + 1, "why": said}]
    assert found.records.tolist() == [3, 4, *((1 << ROW_BITS) + row for row in range(1, 10))]
    assert group_sizes.too_large(came, failed, 11, str(tmp_path)) is None


def test_a_run_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are rejected, rows fail, records are taken back, a group is too large."""
    without_spark.install(monkeypatch)
    found = []
    for few in (stored.MOST_ROWS, 20):
        monkeypatch.setattr(stored, "MOST_ROWS", few)
        folder = tmp_path / str(few)
        pipelines.write(folder, correlated_runs.files(450))
        pipelines.with_splits(monkeypatch, folder, "lines.csv", 5)
        outcome = pipelines.run(folder)
        assert outcome.result.error is None
        files = pipelines.outputs(folder)
        dead = [line.split(b",")[2:] for line in files.pop("dead.csv").splitlines()]
        found.append((files, dead))
    assert found[0] == found[1]
    assert b"group_size_exceeded" in b",".join(b",".join(row) for row in found[0][1])


# ---- tasks


@pytest.mark.parametrize(
    ("limit", "held"), [("fact_rows", 1), ("fact_rows", 4), ("fact_rows", 1 << 16), ("fact_bytes", 1)]
)
def test_tasks_write_facts_as_they_come(limit: str, held: int, tmp_path: Path) -> None:
    found = facts_.FactWriter(str(tmp_path / "facts.arrow"), Tuning(**{limit: held}))
    some = facts(5, 20)
    for at in range(0, 20, 3):
        found.add(pa.Table.from_pylist(some[at : at + 3], schema=FACTS))
        assert (tmp_path / "facts.arrow").exists() is (held <= at + 3)
    assert found.close()
    (table,) = facts_.of([found.path]).tables(*FACTS.names)
    assert table.to_pylist() == some


def test_a_task_without_facts_has_no_file(tmp_path: Path) -> None:
    assert not facts_.FactWriter(str(tmp_path / "facts.arrow"), Tuning()).close()
    assert not list(tmp_path.iterdir())


def test_facts_that_cannot_be_written_name_their_file(tmp_path: Path) -> None:
    found = facts_.FactWriter(str(tmp_path / "gone" / "facts.arrow"), Tuning())
    found.add(pa.Table.from_pylist(facts(5, 2), schema=FACTS))
    with pytest.raises(OSError, match=r"facts\.arrow"):
        found.close()

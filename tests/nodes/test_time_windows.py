"""The parts of time windows by themselves: sessions, watermarks, places that travel packed, sessions without keys."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes.aggregate.timed import sessions, suspects, watermarks, windows
from spark_jobs.nodes.aggregate.timed.session_flow import Flow
from spark_jobs.nodes.aggregate.timed.time_window import Kind, TimeWindow
from spark_jobs.nodes.records import order
from spark_jobs.nodes.spill import ResourcesExhausted
from tests.execute import pipelines, without_spark
from tests.nodes.test_spill import _Room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PIECES = st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50), st.integers(0, 8)), min_size=1, max_size=40)


def _plain(pieces: Sequence[tuple[int, int, int]], gap: int) -> list[tuple[int, int]]:
    """The bounds of each piece's session, piece by piece."""
    bounds = [(0, 0)] * len(pieces)
    for key in {key for key, _, _ in pieces}:
        mine = sorted((first, first + length, number) for number, (k, first, length) in enumerate(pieces) if k == key)
        session: list[tuple[int, int, int]] = []
        for piece in [*mine, None]:
            if session and (piece is None or piece[0] - max(end for _, end, _ in session) > gap):
                for _, _, number in session:
                    bounds[number] = (session[0][0], max(end for _, end, _ in session))
                session = []
            if piece is not None:
                session.append(piece)
    return bounds


@given(_PIECES, st.integers(0, 6))
def test_sessions_are_those_that_a_plain_look_finds(pieces: list[tuple[int, int, int]], gap: int) -> None:
    keys, first, length = (np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True))
    found = sessions.Sessions.found(keys, first, first + length, gap)
    assert list(zip(found.first[found.of].tolist(), found.last[found.of].tolist(), strict=True)) == _plain(pieces, gap)


@given(_PIECES)
def test_sessions_of_times_that_need_all_bits_are_the_same(pieces: list[tuple[int, int, int]]) -> None:
    keys, first, _ = (np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True))
    far = first + np.where(keys == 0, 2**60, -(2**60))
    found = sessions.Sessions.found(keys << 40, far, far, 3)
    plain = _plain([(int(key), int(time), 0) for key, time in zip(keys, far, strict=True)], 3)
    assert list(zip(found.first[found.of].tolist(), found.last[found.of].tolist(), strict=True)) == plain


def test_equal_keys_alone_have_equal_numbers() -> None:
    columns = [pa.array(["a", None, "a", "b", None]), pa.array([1, 1, 1, None, 1])]
    a, none, again, b, other = sessions.key_numbers(columns, 5).tolist()
    assert (a, none) == (again, other)
    assert len({a, none, b}) == 3
    wide = [pa.array(np.arange(3000)) for _ in range(7)]
    assert len(set(sessions.key_numbers(wide, 3000).tolist())) == 3000


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=40), st.integers(1, 4), st.data())
def test_what_is_late_does_not_depend_on_where_tasks_begin(
    records: list[tuple[int, int]], sources: int, data: st.DataObject
) -> None:
    """A record comes with its source and time; whether all sources had passed time 12 before it is known somewhere."""
    records = [(source % sources, time) for source, time in records]
    cuts = sorted({0, len(records), *data.draw(st.lists(st.integers(0, len(records)), max_size=4))})
    received, told = watermarks.ReceivedWatermarks(sources), []
    for rank, (start, end) in enumerate(itertools.pairwise(cuts)):
        mine = np.array(records[start:end], dtype=np.int64).reshape(-1, 2)
        watch, sets = watermarks.WatermarkTracker(), watermarks.Sets()
        middle = data.draw(st.integers(0, len(mine)))
        numbers = [
            sets.of(watch.take(part[:, 1], part[:, 0]), np.arange(len(part)), np.full(len(part), 12))
            for part in (mine[:middle], mine[middle:])
            if len(part)
        ]
        received.receive_message(watermarks.message({rank: watch}, sets, []))
        told.append((rank, np.concatenate(numbers)))
    found = [late for rank, numbers in told for late in (received.reached(rank, numbers) >= 12).tolist()]
    reached: dict[int, int] = {}
    plain = []
    for source, time in records:
        plain.append(len(reached) == sources and min(reached.values()) >= 12)
        reached[source] = max(time, reached.get(source, time))
    assert found == plain


@given(st.lists(st.tuples(*[st.integers(-(2**62), 2**62)] * 3, st.just(7)), min_size=1))
def test_places_come_out_as_they_were_packed(rows: list[tuple[int, ...]]) -> None:
    names = (order.AT, suspects.FIRST, suspects.LAST, "$origin.row")
    columns = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    packed = suspects.encode_places(columns)
    assert packed.schema.field("$origin.row").type == pa.int8()
    found = suspects.decode_places(packed)
    assert {name: found.column(name).to_pylist() for name in names} == {n: c.tolist() for n, c in columns.items()}


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (10, 3), (3, 10), (10, 20), (1, 1)])
def test_a_moment_is_in_the_windows_that_begin_before_and_end_after_it(size: int, slide: int) -> None:
    window = TimeWindow(Kind.HOPPING, size, slide, 0)
    times = np.arange(-45, 45)
    spans = windows.Spans.of(window, times)
    found = [(int(row), int(number)) for rows, numbers in spans.copies() for row, number in zip(rows, numbers)]  # noqa: B905
    starts = range(-90, 90)
    assert found == [(i, n) for i, t in enumerate(times) for n in starts if n * slide <= t < n * slide + size]


@given(_PIECES, st.integers(0, 6))
def test_pieces_without_keys_come_back_session_by_session(pieces: list[tuple[int, int, int]], gap: int) -> None:
    def ends(table: pa.Table) -> np.ndarray:
        since, until = (table.column(name).to_numpy() for name in ("since", "until"))
        found = sessions.Sessions.found(np.zeros(len(since), dtype=np.int64), since, until, gap)
        return (found.last + gap)[found.of]

    room = _Room(1 << 20)
    room.memory_pool.share = 600
    room.memory_pool.hold(0)
    flow = Flow(room, "n", (), "since", ends, pa.concat_tables)
    for number, (_, first, length) in enumerate(pieces):
        flow.add(pa.table({"since": [first], "until": [first + length], order.AT: [number]}))
    plain = _plain([(0, first, length) for _, first, length in pieces], gap)
    given_back: dict[int, set[tuple[int, int]]] = {}
    try:
        for place, table in enumerate(flow.tables()):
            for number in table.column(order.AT).to_pylist():
                given_back.setdefault(place, set()).add((number, *plain[number]))
    except ResourcesExhausted:
        return  # one session that is too large
    assert sorted(number for found in given_back.values() for number, *_ in found) == list(range(len(pieces)))
    bounds = [{tuple(rest) for _, *rest in found} for found in given_back.values()]
    assert sum(map(len, bounds)) == len(set(plain))


@pytest.mark.thorough
def test_sessions_without_keys_need_no_more_memory_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million bytes of sessions in a share of four: once held as one key, they were too many."""
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "300000")
    seconds = (np.arange(60_000) * 7919 % 60_000) * 10
    times = np.datetime_as_string(np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]"))
    text = """
    pipeline: {name: p, memory: {limit: 8MB}}
    nodes:
      - type: source
        name: s
        config: {name: s, type: csv, path: in.csv, watermark: {column: at}, schema: {id: int, at: date_time}}
      - type: aggregate
        name: w
        input: s
        config:
          group_by: []
          time_window: {session: {gap: 5s}}
          allowed_lateness: 99d
          cxl: |
            emit n = count(*)
            emit total = sum(id)
      - {type: output, name: o, input: w, config: {name: o, type: csv, path: out/o.csv}}
    """
    lines = "\n".join(f"{number},{time}" for number, time in enumerate(times))
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": f"id,at\n{lines}\n"})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.exit_code == 0, outcome.result.error
    rows = pipelines.outputs(tmp_path)["o.csv"].decode().split()
    assert rows[1:] == [f"1,{number}" for number in np.argsort(seconds)]


@pytest.mark.thorough
@pytest.mark.parametrize("group_by", ["[]", "[k]"])
def test_a_session_that_never_ends_needs_no_more_memory_than_there_is(
    group_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records come in disorder; the first and the last of them are known by their places."""
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, 300000)
    text = f"""
    pipeline: {{name: p, memory: {{limit: 8MB}}}}
    nodes:
      - type: source
        name: s
        config: {{type: csv, path: in.csv, watermark: {{column: at}}, schema: {{id: int, k: string, at: date_time}}}}
      - type: aggregate
        name: w
        input: s
        config:
          group_by: {group_by}
          time_window: {{session: {{gap: 20s}}}}
          allowed_lateness: 99d
          cxl: |
            emit n = count(*)
            emit one = first(id)
            emit end = last(id)
            emit most = max(at)
      - {{type: output, name: o, input: w, config: {{type: csv, path: out/o.csv}}}}
    """
    seconds = (np.arange(60_000) * 7919 % 60_000) * 10
    times = np.datetime_as_string(np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]"))
    lines = "\n".join(f"{number},x,{time}" for number, time in enumerate(times))
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": f"id,k,at\n{lines}\n"})
    outcome = pipelines.run(tmp_path)
    assert outcome.result.exit_code == 0, outcome.result.error
    key = "" if group_by == "[]" else "x,"
    assert pipelines.outputs(tmp_path)["o.csv"].decode().split()[1:] == [f"{key}60000,0,59999,2024-01-07T22:39:50"]

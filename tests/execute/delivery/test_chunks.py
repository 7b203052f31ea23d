"""Cutting outputs into numbered files, against the rules applied record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.execute.delivery import chunks
from spark_jobs.execute.delivery.destination import Content, PartRange, whole
from spark_jobs.execute.delivery.local import joining
from spark_jobs.execute.delivery.local.files import LocalFiles
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.nodes import sorting
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output.step import ChunkRule, Oversize
from spark_jobs.nodes.terms.sort import Field

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEAM = Field("team", types.STRING)
Record = tuple[int, str | None]


def written(folder: Path, parts: Sequence[Sequence[Record]], block: int) -> list[PartRange]:
    """Parts whose records have the given sizes and groups, with an index in blocks of `block` records."""
    found = []
    for number, part in enumerate(parts):
        path = str(folder / f"{number}.part")
        file = records.IndexedFile(LocalPartStore().create, path, (records.GROUP,))
        for start in range(0, len(part), block):
            some = part[start : start + block]
            texts = b"".join(bytes([65 + number % 26]) * (size - 1) + b"\n" for size, _ in some)
            ends = np.cumsum([0, *(size for size, _ in some)])
            groups = pa.array([group for _, group in some], pa.string())
            file.write(sorting.binary(ends, texts), {records.GROUP: groups})
        found.append(whole(path, file.tell()))
        file.close()
    return found


def one_by_one(found: Sequence[Record], split: ChunkRule, first: int, later: int) -> list[list[Record]]:
    """Records fill a file up to its limit, and a group stays in one file."""
    files: list[list[Record]] = [[]]
    for record in found:
        now = files[-1]
        size = (first if len(files) == 1 else later) + sum(size for size, _ in now)
        full = split.max_records is not None and len(now) >= split.max_records
        full = full or (split.max_bytes is not None and size >= split.max_bytes)
        if now and full and (split.group_key is None or record[1] != now[-1][1]):
            files.append([])
        files[-1].append(record)
    return files


_RECORDS = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["a", "b", None])), max_size=12)


@given(
    parts=st.lists(_RECORDS, max_size=4),
    max_records=st.none() | st.integers(1, 5),
    max_bytes=st.none() | st.integers(1, 30),
    grouped=st.booleans(),
    block=st.integers(1, 5),
    starts=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_chunks_are_those_of_the_rules(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[Record]], max_records: int | None, max_bytes: int | None, grouped: bool, block: int,
    starts: tuple[int, int],
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("chunks")
    split = ChunkRule(max_records, max_bytes, TEAM if grouped else None, oversize_group=Oversize.ALLOW)
    paths = written(folder, parts, block)
    found, warnings = chunks.cut(LocalPartStore(), paths, split, *starts)
    expected = one_by_one([record for part in parts for record in part], split, *starts)
    assert [chunk.records for chunk in found] == [len(file) for file in expected]
    assert not warnings
    everything = b"".join((folder / f"{number}.part").read_bytes() for number in range(len(parts)))
    for number, (chunk, file) in enumerate(zip(found, expected, strict=True)):
        joining.join(Content(tuple(chunk.ranges)), folder / f"{number}.chunk")
        assert (folder / f"{number}.chunk").stat().st_size == sum(size for size, _ in file)
    assert b"".join((folder / f"{number}.chunk").read_bytes() for number in range(len(found))) == everything


@given(groups=st.lists(st.integers(1, 6), max_size=8), block=st.integers(1, 4), cut_at=st.integers(0, 20))
def test_every_group_that_is_too_large_is_told(
    tmp_path_factory: pytest.TempPathFactory, groups: list[int], block: int, cut_at: int
) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    found: list[Record] = [(2, f"g{number}") for number, size in enumerate(groups) for _ in range(size)]
    paths = written(folder, [found[:cut_at], found[cut_at:]], block)
    _, warnings = chunks.cut(LocalPartStore(), paths, ChunkRule(max_records=3, group_key=TEAM), 0, 0)
    large = [(number, size) for number, size in enumerate(groups) if size > 3]
    assert warnings == [
        f"the group 'g{number}' of 'team' alone has {size} records, {2 * size} bytes; max_records is 3"
        for number, size in large
    ]
    strict = ChunkRule(max_bytes=6, group_key=TEAM, oversize_group=Oversize.ERROR)
    if large:
        with pytest.raises(chunks.OversizeGroup, match=f"'g{large[0][0]}' of 'team' alone .* max_bytes is 6"):
            chunks.cut(LocalPartStore(), paths, strict, 0, 0)
    else:
        chunks.cut(LocalPartStore(), paths, strict, 0, 0)


def test_many_large_groups_are_counted(tmp_path: Path) -> None:
    found: list[Record] = [(2, f"g{number // 2}") for number in range(60)]
    _, warnings = chunks.cut(
        LocalPartStore(), written(tmp_path, [found], 7), ChunkRule(max_records=1, group_key=TEAM), 0, 0
    )
    assert len(warnings) == 21
    assert warnings[-1] == "10 more groups are larger than a file may be"


@pytest.mark.parametrize(
    ("path", "naming", "number", "name"),
    [
        ("out/result.csv", "{stem}_{seq:04}.{ext}", 7, "result_0007.csv"),
        ("out/a.v2.txt", "{stem}-part{seq}.{ext}", 12, "a.v2-part12.txt"),
        ("out/plain", "{stem}_{seq:02}.{ext}", 123, "plain_123.dat"),
    ],
)
def test_names(tmp_path: Path, path: str, naming: str, number: int, name: str) -> None:
    base = tmp_path / path
    assert chunks.existing(LocalFiles(), base, naming) == []
    final = chunks.chunk_path(base, naming, number)
    assert final == base.with_name(name)
    base.parent.mkdir()
    final.touch()
    (base.parent / f"x{name}").touch()
    base.with_name(naming.replace("{seq", "{no")).touch()
    assert chunks.existing(LocalFiles(), base, naming) == [final]

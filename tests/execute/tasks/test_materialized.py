"""Records that were written down are read in little memory, however many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.execute.tasks import materialized

_MAPS = Path("/proc/self/smaps")
_BATCHES = 64


@pytest.fixture
def files(tmp_path: Path) -> list[materialized.MaterializedFile]:
    """Two files of batches of 128 KiB."""
    found = []
    for name in ("a", "b"):
        path = str(tmp_path / name)
        schema = pa.schema([("n", pa.int64())])
        file = materialized.Writer(path, schema)
        for batch in range(_BATCHES):
            file.write_batch(pa.record_batch([np.arange(batch << 14, (batch + 1) << 14)], schema=schema), batch % 3)
        file.close()
        found.append(materialized.MaterializedFile(path, _BATCHES << 14))
    return found


def resident(path: str) -> int:
    """What of a file is mapped and counts as memory of this process, in bytes."""
    found, is_file = 0, False
    for line in _MAPS.read_text().splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            is_file = values[-1] == path
        elif is_file and name == "Rss:":
            found += int(values[0]) << 10
    return found


@pytest.mark.skipif(not _MAPS.exists(), reason="the system does not tell what is mapped")
def test_what_was_read_is_let_go(files: list[materialized.MaterializedFile], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materialized, "_TOUCHED_BYTES", 1 << 20)
    most = 0
    for table in materialized.records(files, 0, files[0].records):
        assert table.column("n").to_numpy().sum() > 0
        most = max(most, resident(files[0].path))
    assert 0 < most < 4 << 20


@pytest.mark.parametrize("touched", [0, 1 << 20, 1 << 30])
def test_records_are_those_that_were_asked_for(
    touched: int, files: list[materialized.MaterializedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialized, "_TOUCHED_BYTES", touched)
    count = files[0].records
    everything = np.concatenate([np.arange(count)] * 2)
    for start, end in ((0, 2 * count), (5, 6), (count - 3, count + 70_000), (2 * count - 1, 2 * count), (7, 7)):
        tables = [*materialized.records(files, start, end)]
        values = [each.column("n").to_numpy() for each in tables] or [np.array([], dtype=np.int64)]
        assert np.array_equal(np.concatenate(values), everything[start:end])


@pytest.mark.skipif(not _MAPS.exists(), reason="the system does not tell what is mapped")
@pytest.mark.parametrize("last", [_BATCHES, _BATCHES // 2])
def test_batches_before_and_behind_are_not_looked_at(last: int, files: list[materialized.MaterializedFile]) -> None:
    """Of the file its end is read, which has the list, and the batch that was asked for: the system maps a bit more."""
    end = last << 14
    (found,) = materialized.records(files, end - 1, end)
    assert found.column("n").to_pylist() == [end - 1]
    assert 0 < resident(files[0].path) <= 512 << 10


def test_batches_of_a_partition_are_read_alone(files: list[materialized.MaterializedFile]) -> None:
    everything = np.arange(files[0].records)
    for partition in range(4):
        mine = everything[everything // (1 << 14) % 3 == partition]
        found = materialized.whole(files, partition)
        assert found.num_rows == 2 * len(mine)
        if len(mine):
            assert np.array_equal(found.column("n").to_numpy(), np.concatenate([mine] * 2))
    assert materialized.whole(files).num_rows == 2 * len(everything)


def test_a_file_without_records_has_none(tmp_path: Path) -> None:
    file = materialized.Writer(str(tmp_path / "a"), pa.schema([("n", pa.int64())]))
    file.close()
    files = [materialized.MaterializedFile(str(tmp_path / "a"), 0)]
    assert [*materialized.records(files, 0, 10)] == []
    assert materialized.whole(files).num_rows == 0
    assert materialized.whole(files, 1).num_rows == 0

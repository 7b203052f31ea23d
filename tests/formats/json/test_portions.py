"""Lines come in portions of bounded size and number: what is odd in them is held line by line."""

from __future__ import annotations

import io

import pytest

from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.json.texts import portions as json_portions


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("most", [1, 7, 1000])
def test_short_lines_make_portions_of_so_many(monkeypatch: pytest.MonkeyPatch, end: str, most: int) -> None:
    monkeypatch.setattr(json_portions, "MOST_LINES", most)
    lines = [*(f"x{number}" for number in range(40)), "", '{"id":1}', *(f'{{"id":{number}}}' for number in range(20))]
    stats = RangeStats()
    data = end.join(lines).encode()
    portions = [*json_portions.portions(io.BytesIO(data), stats)]
    assert [line.decode() for portion in portions for line in portion.singly] == [line for line in lines if line]
    assert max(portion.count for portion in portions) <= most
    assert stats.bytes_read == len(data)

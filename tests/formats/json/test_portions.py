"""Lines come in portions of bounded size and number: what is odd in them is held line by line."""

from __future__ import annotations

import io

import pytest

from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.json.texts import portions as json_portions


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "end"])
@pytest.mark.parametrize("most", [1, 7, 61, 62, 1000])
def test_short_lines_make_portions_of_so_many(monkeypatch: pytest.MonkeyPatch, end: str, last: str, most: int) -> None:
    monkeypatch.setattr(json_portions, "MOST_LINES", most)
    lines = [*(f"x{number}" for number in range(40)), "", '{"id":1}', *(f'{{"id":{number}}}' for number in range(20))]
    stats = RangeStats()
    data = (end.join(lines) + (end if last else "")).encode()
    portions = [*json_portions.portions(io.BytesIO(data), stats)]
    assert [line.decode() for portion in portions for line in portion.singly] == [line for line in lines if line]
    assert max(portion.count for portion in portions) <= most
    assert stats.bytes_read == len(data)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("text", ["a\r\nbc\rdefg\n\nh", "a\rb\r\n", "no end at all", "\n\n", "", "x\n{1}\n"])
def test_lines_are_whole_wherever_reads_end(text: str, size: int) -> None:
    stats = RangeStats()
    portions = [*json_portions.portions(io.BytesIO(text.encode()), stats, size)]
    assert [line for portion in portions for line in portion.singly] == [
        line for line in text.encode().splitlines() if line
    ]
    assert stats.bytes_read == len(text)

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from spark_jobs.formats.csv import quotes
from spark_jobs.formats.csv.quotes import Dialect, next_record_start

DIALECT = Dialect()
messy = st.lists(st.sampled_from(["a", ",", '"', '""', "\n", "\r", '","', '"\n"', ',"x"'])).map(
    lambda parts: "".join(parts).encode()
)


def states(data: bytes, is_inside: bool = False, before: int = 10) -> tuple[list[int], list[bool]]:
    """Toggles, and for each byte whether it stands inside quotes, by the rules of the language one byte at a time."""
    toggles, inside = [], []
    at = 0
    while at < len(data):
        previous = data[at - 1] if at else before
        if data[at] == ord('"'):
            if is_inside and data[at + 1 : at + 2] == b'"':
                inside += [True, True]
                at += 2
                continue
            if is_inside or previous in b",\n\r":
                is_inside = not is_inside
                toggles.append(at)
        inside.append(is_inside)
        at += 1
    return toggles, inside


@given(messy, st.booleans(), st.sampled_from(list(b'a,\n\r"')))
def test_toggles_leave_every_line_end_where_it_stands(data: bytes, is_inside: bool, before: int) -> None:
    _, inside = states(data, is_inside, before)
    toggles = DIALECT.toggles(data, is_inside, before)
    state = is_inside
    for at, byte in enumerate(data):
        state ^= at in toggles
        if byte in b"\r\n":
            assert state == inside[at]
    assert state == (inside[-1] if inside else is_inside)


@given(messy)
def test_complete_records_end_with_the_last_line_end_outside_quotes(data: bytes) -> None:
    toggles, inside = states(data)
    ends = [at + 1 for at, byte in enumerate(data) if byte in b"\r\n" and not inside[at]]
    complete, is_open = DIALECT.last_record_end(data)
    assert complete == (ends[-1] if ends else 0)
    assert is_open == bool(len(toggles) % 2)
    assert next_record_start(data, 0, DIALECT.toggles(data)) == (ends[0] if ends else None)
    starts = [0, *ends]
    lines = [data[start:end].rstrip(b"\r\n") for start, end in zip(starts, ends, strict=False)]
    assert DIALECT.records_in(data[:complete]) == sum(1 for line in lines if line)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'x,y\n1,"a', False),
        (b'text of a cell", 7\n', True),
        (b'cell",7\n1,"other",8\n', True),
        (b'1,"other",8\n2,"more"', False),
        (b'b""c"\n1,"d"', True),
        (b"no quotes\n", False),
        (b'5" pipe,6" pipe\n7" pipe,"x"\n', False),
    ],
)
def test_the_middle_of_a_file_is_judged_by_its_quotes(data: bytes, expected: bool) -> None:
    assert DIALECT.seems_inside(data) is expected


def test_other_characters_structure_other_dialects() -> None:
    dialect = Dialect(ord("|"), ord("'"))
    assert dialect.toggles(b"a|'b\n\"'|c,'d").tolist() == [2, 6]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_records_are_told_apart_as_arrow_does(width: int) -> None:
    chance, dialect = random.Random(width), quotes.Dialect()
    compared = 0
    for _ in range(1500):
        data = "".join(chance.choice('ab,,""\n\n\r') for _ in range(chance.randrange(1, 25))).encode()
        if len(dialect.toggles(data)) % 2:
            continue
        ragged: list[csv.InvalidRow] = []
        table = parsed(data, width, ragged)
        found = quotes.Records.of(dialect, data)
        is_ragged = found.widths != width
        rest, texts, ends = found.apart(data, is_ragged)
        starts = [0, *ends.tolist()]
        mine = [texts[start:end].decode() for start, end in itertools.pairwise(starts)]
        numbers, widths = np.flatnonzero(is_ragged) + 1, found.widths[is_ragged]
        assert [*zip(numbers.tolist(), widths.tolist(), mine, strict=True)] == [
            (row.number, row.actual_columns, row.text) for row in ragged
        ]
        assert table.num_rows == 0 or parsed(rest, width, []).equals(table)
        compared += 1
    assert compared > 800


def parsed(data: bytes, width: int, ragged: list[csv.InvalidRow]) -> pa.Table:
    def put_aside(row: csv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    names = ["a", "b", "c"][:width]
    return csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        parse_options=csv.ParseOptions(invalid_row_handler=put_aside),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )

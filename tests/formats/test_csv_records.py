from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats.csv_records import Dialect, next_record_start

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

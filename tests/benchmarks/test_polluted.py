"""The benchmark of dirty files: what it measures, and that what it measures does not become worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import polluted
from spark_jobs.cli.guess import command

if TYPE_CHECKING:
    from pathlib import Path


def test_the_benchmark_has_the_files_of_its_kinds() -> None:
    found = [one.name for one in polluted.polluted()]
    assert len(found) == len(set(found)) == 2290
    rows = polluted.source()
    assert {len(row) for row in rows} == {9}
    assert len(rows) == 84


def test_points_are_given_for_header_records_and_cells() -> None:
    clean = [["a", "b"], ["1", "2"], ["3", "4"]]
    assert polluted.measures(clean, clean) == (1.0,) * 10
    assert polluted.measures(clean, None) == (0.0,) * 10
    assert polluted.measures([], []) == (1.0,) * 10
    header, records, cells = (polluted.measures(clean, clean[:2])[at : at + 3] for at in (1, 4, 7))
    assert header == (1.0, 1.0, 1.0)
    assert records == (0.5, 1.0, pytest.approx(2 / 3))
    assert cells == (pytest.approx(4 / 6), 1.0, pytest.approx(0.8))


@pytest.mark.parametrize(
    ("only", "given", "guessed"),
    [
        ("source.csv", 10.0, 10.0),
        ("file_n*", 10.0, 10.0),
        ("file_double*", 10.0, 10.0),
        ("file_record*", 10.0, 10.0),
        ("file_field_delimiter_0x[!2]*", 10.0, 10.0),
        ("file_field_delimiter_0x2C_0x20.csv", 10.0, 10.0),
        ("file_preamble.csv", 10.0, 10.0),
        ("file_[ho][en][ea]*[yw].csv", 10.0, 10.0),
        ("row_more_sep_row7_*", 9.99, 9.99),
        ("row_less_sep_row7_*", 9.97, 9.97),
    ],
)
def test_dirt_of_a_kind_is_read(only: str, given: float, guessed: float) -> None:
    assert polluted.score(guesses=False, only=only).simple >= given - 1e-9
    assert polluted.score(guesses=True, only=only).simple >= guessed - 1e-9


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("file_header_multirow_2.csv", "the header has 2 rows"),
        ("file_multitable_less.csv", "84 of 167 records have fewer than 9 cells"),
        ("file_multitable_same.csv", "records that are the header again are left out"),
        ("file_multitable_more.csv", "84 of 167 records would be dead letters"),
        ("file_field_delimiter_0x20.csv", "41 of 83 records would be dead letters"),
        ("file_quotation_char_0x27.csv", "records have empty cells after their last column"),
        ("file_escape_char_0x00.csv", "31 quotes neither begin nor end a cell"),
        ("row_less_sep_row5_col3.csv", "1 of 83 records have fewer than 9 cells (row 5)"),
        ("row_field_delimiter_9_0x20.csv", "1 of 83 records would be dead letters"),
    ],
)
def test_what_is_not_read_right_is_told(name: str, said: str, tmp_path: Path) -> None:
    (text,) = (one.text for one in polluted.polluted() if one.name == name)
    (tmp_path / name).write_bytes(text.encode())
    assert any(said in line for line in command.notes(command.look(tmp_path / name, name, set())))

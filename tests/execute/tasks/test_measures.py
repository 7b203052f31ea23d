"""Measures of splits are kept by number, whatever order they are told in."""

from __future__ import annotations

from spark_jobs.execute.report import Measure
from spark_jobs.execute.run.measures import ByNumber, Measures


def test_measures_have_a_column_for_each_field() -> None:
    told = Measures()
    for number, records in ((7, 70), (2, 20), (7, 71)):
        told.add(Measure(number, records, 1 << 40, is_consistent=True))
    assert [told.of("records")[number] for number in (2, 3, 7, 8, -1)] == [20, 0, 71, 0, 0]
    assert told.of("bytes")[2] == 1 << 40


def test_what_nobody_told_is_nothing() -> None:
    known = ByNumber([(3, 5)])
    assert (known.get(3), known.get(-1), known.get(9)) == (5, 0, 0)
    assert dict(known) == {0: 0, 1: 0, 2: 0, 3: 5}

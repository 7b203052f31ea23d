"""Both engines agree on generated programs and records, failures included."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cxl.both_engines import check_agreement, program_of
from tests.cxl.generated_programs import explosions, nested_blocks, programs, same_targets
from tests.cxl.generated_records import COLUMNS, EACH_RECORDS, RECORDS


def _check(text: str, records: list[dict[str, Any]], batch_rows: int | None = None, **scope: Any) -> None:
    """Agreement of a program that compiles; what looks dynamic may have a static type that does not fit."""
    try:
        program_of(text, COLUMNS)
    except AssertionError as refused:
        assume("CXL type error" not in str(refused))
        raise
    check_agreement(text, COLUMNS, records, batch_rows, **scope)


@given(programs(1), RECORDS)
def test_engines_agree_on_shallow_programs(text: str, records: list[dict[str, Any]]) -> None:
    _check(text, records)


@given(programs(2), RECORDS, st.sampled_from([None, 3]))
def test_engines_agree_on_nested_programs(text: str, records: list[dict[str, Any]], batch_rows: int | None) -> None:
    _check(text, records, batch_rows)


@given(explosions(), EACH_RECORDS, st.sampled_from([None, 3]))
def test_engines_agree_on_blocks(text: str, records: list[dict[str, Any]], batch_rows: int | None) -> None:
    _check(text, records, batch_rows, max_expansion=3)


@given(nested_blocks(), EACH_RECORDS, st.sampled_from([None, 3]), st.sampled_from([3, 6, 10_000]))
def test_engines_agree_on_blocks_in_and_behind_blocks(
    text: str, records: list[dict[str, Any]], batch_rows: int | None, limit: int
) -> None:
    _check(text, records, batch_rows, max_expansion=limit)


@given(same_targets(), EACH_RECORDS, st.sampled_from([None, 3]))
def test_engines_agree_on_statements_with_one_target(
    text: str, records: list[dict[str, Any]], batch_rows: int | None
) -> None:
    _check(text, records, batch_rows)

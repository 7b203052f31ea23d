"""Both engines agree on generated programs and records, failures included."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.cxl.both_engines import check_agreement, program_of
from tests.cxl.generated_programs import explosions, programs
from tests.cxl.generated_records import COLUMNS, EACH_RECORDS, RECORDS

# Filtering too much stays an error: most generated programs must compile.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def _check(text: str, records: list[dict[str, Any]], batch_rows: int | None = None) -> None:
    """Agreement of a program that compiles; what looks dynamic may have a static type that does not fit."""
    try:
        program_of(text, COLUMNS)
    except AssertionError as refused:
        assume("CXL type error" not in str(refused))
        raise
    check_agreement(text, COLUMNS, records, batch_rows)


@settings(max_examples=50, **_COMMON)
@given(programs(1), RECORDS)
def test_engines_agree_on_shallow_programs(text: str, records: list[dict[str, Any]]) -> None:
    _check(text, records)


@settings(max_examples=30, **_COMMON)
@given(programs(2), RECORDS, st.sampled_from([None, 3]))
def test_engines_agree_on_nested_programs(text: str, records: list[dict[str, Any]], batch_rows: int | None) -> None:
    _check(text, records, batch_rows)


@settings(max_examples=60, **_COMMON)
@given(explosions(), EACH_RECORDS, st.sampled_from([None, 3]))
def test_engines_agree_on_blocks(text: str, records: list[dict[str, Any]], batch_rows: int | None) -> None:
    try:
        program_of(text, COLUMNS)
    except AssertionError as refused:
        assume("CXL type error" not in str(refused))
        raise
    check_agreement(text, COLUMNS, records, batch_rows, max_expansion=3)


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("HYPOTHESIS_MAX_EXAMPLES", "60")), **_COMMON)
@given(programs(2), RECORDS, st.sampled_from([None, 5]))
def test_engines_agree_on_many_programs(text: str, records: list[dict[str, Any]], batch_rows: int | None) -> None:
    _check(text, records, batch_rows)

"""What is said of programs in the ways of other languages: whole texts, and a remedy for nearly every mistake."""

from __future__ import annotations

import pytest

from tests.messages import one_liners

#: Mistakes that nothing more is known of than what is wrong.
_WITHOUT_HELP = {
    "emit a = isnan(price)",
    'emit a = "{} x".format(name)',
    "emit a = `${name} x`",
    "emit a = (qty + 1",
    "emit 1a = qty",
    "emit",
    "else",
    "emit a = from_unixtime(qty)",
    "emit a = unix_timestamp(day)",
}
_CASES = one_liners.cases()


@pytest.mark.parametrize("start", range(0, len(_CASES), 50))
def test_what_is_said_is_what_is_shown(start: int) -> None:
    some = list(_CASES)[start : start + 50]
    assert {program: one_liners.said(program) for program in some} == {program: _CASES[program] for program in some}


def test_a_mistake_has_a_remedy() -> None:
    assert len(_CASES) > 300
    refused = {program: text for program, text in _CASES.items() if text.startswith("error")}
    assert {program for program, text in refused.items() if "help: " not in text} == _WITHOUT_HELP


def test_a_mistake_is_told_once() -> None:
    more_than_one = {program for program, text in _CASES.items() if text.count("error[") > 1}
    assert more_than_one == {"emit a = CONVERT(int, name)", "emit a = when(qty > 1, 'a').otherwise('b')",
                             "emit a = A1 + B1"}  # fmt: skip

"""What the user chose for how runs end."""

from __future__ import annotations

from typing import Any

import pytest

from clinker_provider import outcome, policy
from spark_jobs import result


def decided(code: int, chosen: policy.Policy, return_code: int | None = None, **fields: Any) -> policy.Decision:
    record = result.RunResult("x", code, **fields)
    return chosen.decide(outcome.decide(code if return_code is None else return_code, record), record)


def of(**words: Any) -> policy.Policy:
    defaults = {
        "on_partial": None, "fail_on_dlq": False, "dlq_threshold": None, "skip_on_no_data": False, "exit_codes": None
    }  # fmt: skip
    return policy.of_words(**{**defaults, **words})


@pytest.mark.parametrize(
    ("code", "action"), [(0, "success"), (1, "fail"), (2, "success"), (3, "fail"), (4, "retry"), (130, "retry")]
)
def test_by_themselves(code: int, action: str) -> None:
    assert decided(code, of(), dlq_count=2 if code == 2 else 0).action == action


@pytest.mark.parametrize("word", ["success", "skip", "fail"])
def test_a_run_with_dead_letters(word: str) -> None:
    chosen = of(on_partial=word)
    assert decided(2, chosen, dlq_count=2, dlq_path="/d.csv").action == word
    assert decided(0, chosen).action == "success"
    assert of(exit_codes={2: word}) == policy.Policy(policy.Action(word), exit_codes={2: policy.Action(word)})


@pytest.mark.parametrize(
    ("written", "dead", "is_accepted"),
    [
        (2, 2, True),
        (2, 3, False),
        ("2", 3, False),
        (0, 1, False),
        ("1%", 10, True),
        ("1 %", 11, False),
        ("0.5%", 6, False),
    ],
)
def test_the_threshold_is_exceeded_by_more(written: Any, dead: int, is_accepted: bool) -> None:
    decision = decided(2, of(dlq_threshold=written, on_partial="skip"), dlq_count=dead, records_total=1000)
    assert decision.action == ("skip" if is_accepted else "fail")
    if not is_accepted:
        assert decision.reason.startswith(f"{dead} of 1000 records died, more than the ")


@pytest.mark.parametrize("written", ["", "many", -1, 0.5, "-1", "101%", True])
def test_what_is_no_threshold(written: Any) -> None:
    with pytest.raises(ValueError, match=r"dlq_threshold: .* neither a number of records"):
        of(dlq_threshold=written)


def test_a_run_without_data() -> None:
    chosen = of(skip_on_no_data=True)
    assert decided(0, chosen).action == "skip"
    assert decided(0, chosen, records_total=1).action == "success"
    assert decided(4, chosen).action == "retry"


def test_other_meanings_of_exit_codes() -> None:
    chosen = of(exit_codes={0: "fail", 1: "retry", 3: "skip", 4: "fail"})
    assert [decided(code, chosen).action for code in (0, 1, 3, 4)] == ["fail", "retry", "skip", "fail"]
    lasting = result.RunError("E902", "an output is there already")
    assert decided(4, of(exit_codes={4: "retry"}), error=lasting).action == "retry"
    assert decided(4, of(), error=lasting).action == "fail"


def test_a_run_that_did_not_say_how_it_ended_is_about_no_choice() -> None:
    chosen = of(exit_codes={4: "skip", 130: "skip", 0: "skip"})
    assert chosen.decide(outcome.decide(4, None), None).action == "retry"
    assert chosen.decide(outcome.decide(-9, None), None).action == "retry"
    assert decided(0, chosen, return_code=1).action == "retry", "something died after the record was written"
    assert decided(0, chosen, return_code=-9).action == "retry"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"on_partial": "maybe"}, "on_partial: 'maybe' is none of success, skip, fail"),
        ({"on_partial": "retry"}, "is none of success, skip, fail: the run has published its files"),
        ({"exit_codes": {3: "success"}}, "exit_codes[3]: 'success' is none of skip, fail, retry: the run published no"),
        ({"exit_codes": {7: "skip"}}, "no run ends with 7; exit codes are 0, 1, 2, 3, 4, 130"),
        ({"exit_codes": {"4": "skip"}}, "no run ends with '4'"),
        ({"exit_codes": {2: "skip"}, "on_partial": "fail"}, "exit_codes[2] is 'skip', and on_partial is 'fail'"),
        (
            {"fail_on_dlq": True, "on_partial": "skip"},
            "fail_on_dlq=True is on_partial='fail', and on_partial is 'skip'",
        ),
    ],
)
def test_what_contradicts_itself_or_the_run(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        of(**words)
    assert message in str(raised.value)

"""Decides how a task ends after its run: by the user's policy for exit codes, and by whether files were published.

Pure, free of Airflow. A run that published files is never retried, and a run that published none never succeeds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from clinker_provider.outcome import Verdict
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clinker_provider.outcome import Outcome
    from spark_jobs.result import RunResult

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


class Action(StrEnum):
    """The end of a task. `RETRY` fails it too, and leaves it to the task's `retries`."""

    SUCCESS = "success"
    SKIP = "skip"
    FAIL = "fail"
    RETRY = "retry"


#: The allowed actions for runs that published their files, and for others.
_PUBLISHED = (Action.SUCCESS, Action.SKIP, Action.FAIL)
_UNPUBLISHED = (Action.SKIP, Action.FAIL, Action.RETRY)


@dataclass(frozen=True)
class Threshold:
    """The accepted number of dead letters: a number of records, or a share of all that were read."""

    records: int | None = None
    share: float | None = None

    @classmethod
    def of(cls, written: int | float | str) -> Threshold:
        """The threshold that a number, or a text such as `100` or `0.5%`, means.

        Raises:
            ValueError: it is neither.
        """
        text = str(written).strip()
        if found := _SHARE.fullmatch(text):
            percent = float(found[1])
            if percent <= 100:
                return cls(share=percent / 100)
        elif text.isascii() and text.isdigit() and not isinstance(written, bool):
            return cls(records=int(text))
        raise ValueError(
            f"dlq_threshold: {written!r} is neither a number of records such as 100 nor a share such as '0.5%'"
        )

    def is_exceeded(self, record: RunResult) -> bool:
        """Whether a run has more dead letters than are accepted."""
        if self.share is not None:
            return record.dlq_count > self.share * record.records_total
        return self.records is not None and record.dlq_count > self.records

    def __str__(self) -> str:
        return f"{self.share * 100:g}%" if self.share is not None else str(self.records)


@dataclass(frozen=True)
class Decision:
    """The decision about a task; `reason` explains it unless it is the run's own failure.

    `is_chosen` is True if the user's policy made the decision, and False if it is the default for the exit code.
    """

    action: Action
    reason: str = ""
    is_chosen: bool = False


@dataclass(frozen=True)
class Policy:
    """The user's choice.

    Args:
        on_partial: what becomes of a task whose run left dead letters (exit 2).
        threshold: how many dead letters are accepted; more fail the task.
        skips_without_data: whether a run that read no record skips the task.
        exit_codes: what other exit codes mean than they do by themselves.
    """

    on_partial: Action = Action.SUCCESS
    threshold: Threshold | None = None
    skips_without_data: bool = False
    exit_codes: Mapping[int, Action] = field(default_factory=dict)

    def decide(self, ended: Outcome, record: RunResult | None) -> Decision:
        """Decide about the task of a run.

        A run without a usable record has not said how it ended: no choice is about it.
        """
        if record is None or ended.exit_code != record.exit_code or ended.verdict is Verdict.NO_RESULT:
            return Decision(Action.RETRY)
        chosen = self.exit_codes.get(record.exit_code)
        if not ended.verdict.is_success:
            if chosen is None:
                return Decision(Action.RETRY if ended.verdict.may_retry else Action.FAIL)
            return Decision(chosen, is_chosen=True)
        where = f" in {record.dlq_path}" if record.dlq_path else ""
        died = f"{record.dlq_count} records died{where}"
        if self.threshold and self.threshold.is_exceeded(record):
            died = f"{record.dlq_count} of {record.records_total} records died{where}"
            return Decision(Action.FAIL, f"{died}, more than the {self.threshold} that dlq_threshold accepts")
        if self.skips_without_data and record.records_total == 0:
            return Decision(Action.SKIP, "the run read no record")
        action = chosen or (self.on_partial if record.dlq_count else Action.SUCCESS)
        return Decision(action, died if record.dlq_count else f"the run ended with exit code {record.exit_code}")


def of_words(
    *,
    on_partial: str | None,
    fail_on_dlq: bool,
    dlq_threshold: int | float | str | None,
    skip_on_no_data: bool,
    exit_codes: Mapping[int, str] | None,
) -> Policy:
    """The policy that an operator's parameters mean.

    Raises:
        ValueError: a word is none that there is, or two parameters contradict each other; the message names them.
    """
    if fail_on_dlq and on_partial not in (None, Action.FAIL):
        raise ValueError(f"fail_on_dlq=True is on_partial='fail', and on_partial is {on_partial!r}")
    partial = _action("on_partial", on_partial or (Action.FAIL if fail_on_dlq else Action.SUCCESS), _PUBLISHED)
    chosen: dict[int, Action] = {}
    for code, word in (exit_codes or {}).items():
        if code not in set(contract.ExitCode):
            known = ", ".join(str(int(each)) for each in contract.ExitCode)
            raise ValueError(f"exit_codes: no run ends with {code!r}; exit codes are {known}")
        is_published = code in (contract.ExitCode.SUCCESS, contract.ExitCode.DEAD_LETTERS)
        chosen[int(code)] = _action(f"exit_codes[{int(code)}]", word, _PUBLISHED if is_published else _UNPUBLISHED)
    dead_letters = chosen.get(contract.ExitCode.DEAD_LETTERS)
    if dead_letters and (on_partial or fail_on_dlq) and dead_letters is not partial:
        raise ValueError(f"exit_codes[2] is {dead_letters.value!r}, and on_partial is {partial.value!r}")
    threshold = None if dlq_threshold is None else Threshold.of(dlq_threshold)
    return Policy(dead_letters or partial, threshold, skip_on_no_data, chosen)


def _action(name: str, word: str, known: tuple[Action, ...]) -> Action:
    if word in known:
        return Action(word)
    choices = ", ".join(each.value for each in known)
    why = {Action.RETRY: ": the run has published its files", Action.SUCCESS: ": the run published nothing"}
    raise ValueError(f"{name}: {word!r} is none of {choices}{why.get(word, '') if word in list(Action) else ''}")  # type: ignore[call-overload]

"""The results of rules on data: records that break them, measured values, and verdicts.

A rule is broken by records, which tasks count (`spark_jobs/nodes/operator.py:Context.break_rule`) or send to the dead
letters, or by a number that the driver knows when the jobs are done.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.execute import logs
from spark_jobs.execute.dlq import display
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.nodes.records.ledger import Counters
from spark_jobs.nodes.rules import measurement
from spark_jobs.nodes.rules.step import Check, Freshness, Measured, References, RowCount, Severity, age, between
from spark_jobs.plan.physical import upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.report import BrokenRule
    from spark_jobs.execute.run.pass_results import PassResults
    from spark_jobs.execute.tally import Tally
    from spark_jobs.nodes import node
    from spark_jobs.nodes.rules.step import Rule
    from spark_jobs.plan import plan as plans


@dataclass(frozen=True)
class Outcome:
    """The outcome of a rule.

    Args:
        node: its node.
        name: its name.
        kind: its kind: `check`, `unique`, `row_count`, `sum` and so on.
        text: the rule as plans show it.
        severity: the consequence of breaking it.
        broken: how many records break it; of a rule on all records 1 where it is broken.
        value: the number, or the day or moment as text, that a rule on all records is about; None if it is about
            records, was not judged, there is no such value, or nobody may see it.
    """

    node: str
    name: str
    kind: str
    text: str
    severity: str
    broken: int
    value: float | str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The outcome as metrics have it."""
        return {
            "node": self.node,
            "name": self.name,
            "kind": self.kind,
            "rule": self.text,
            "severity": self.severity,
            "broken": self.broken,
            **({} if self.value is None else {"value": self.value}),
        }


def so_far(plan: plans.Plan, tally: Tally) -> list[Outcome]:
    """The rules that records had broken when a run ended early. Others are unknown."""
    return [each for each in outcomes(plan, tally, datetime.min, is_preview=True) if each.broken]


def outcomes(plan: plans.Plan, tally: Tally, started: datetime, *, is_preview: bool = False) -> list[Outcome]:
    """The outcomes of all rules of a plan, in its order; a preview reads too little to judge rules on all records.

    Args:
        plan: the plan.
        tally: the counts.
        started: when the run began.
        is_preview: whether only the first records were read.
    """
    steps = (planned.step for planned in plan.nodes if planned.step is not None)
    return [
        _outcome(step, rule, tally, started, is_source=step.name in plan.sources, is_preview=is_preview)
        for step in steps
        for rule in step.checked_rules
    ]


def _outcome(
    step: node.Step, rule: Rule, tally: Tally, started: datetime, *, is_source: bool, is_preview: bool
) -> Outcome:
    facts = (step.name, rule.name, rule.kind, rule.text, str(rule.severity))
    if isinstance(rule, Measured):
        if is_preview:
            return Outcome(*facts, 0)
        found = tally.measured.get((step.name, rule.name), measurement.Measurement())
        about = measurement.value(rule, found)
        is_broken = measurement.is_broken(rule, about, started.replace(tzinfo=None))
        return Outcome(*facts, int(is_broken), None if found.is_hidden else measurement.as_metric(about))
    if not isinstance(rule, RowCount):
        known = tally.broken_rules.get((step.name, rule.name))
        return Outcome(*facts, tally.dead_per_rule.get((step.stage, rule.name), 0) + (known.count if known else 0))
    if is_preview:
        return Outcome(*facts, 0)
    value = _records(step, tally, is_source=is_source)
    is_broken = (rule.least is not None and value < rule.least) or (rule.most is not None and value > rule.most)
    return Outcome(*facts, int(is_broken), value)


def _records(step: node.Step, tally: Tally, *, is_source: bool) -> int:
    """The number of records that a source gives, or an output writes.

    A source has given those too that fail downstream: values that do not convert, and, in the last pass over
    correlation groups, whatever failed in an earlier one. Its counters leave both out.
    """
    counters = tally.counters.get(step.name, Counters())
    if not is_source:
        return counters.records_out
    return counters.records_in - counters.filtered - tally.dead_per_stage.get(step.stage, 0)


def judge(plan: plans.Plan, products: PassResults, started: datetime, *, is_preview: bool = False) -> None:
    """Warn of broken rules that say so.

    Raises:
        RunFailed: a rule is broken that ends the run.
    """
    fatal = []
    for each in outcomes(plan, products.tally, started, is_preview=is_preview):
        if not each.broken or each.kind == Check.kind or each.severity == Severity.ERROR:
            continue
        text = _described(plan, each, products)
        if each.severity == Severity.FAIL:
            fatal.append((each, text))
        else:
            logs.LOG.warning("%s", text)
    if fatal:
        span = plan.by_name[fatal[0][0].node].span
        message = "; ".join(text for _, text in fatal)
        raise RunFailed(ExitCode.EVALUATION, "E350", message, str(span) if span else None)


def _described(plan: plans.Plan, outcome: Outcome, products: PassResults) -> str:
    """A broken rule in words: where, what, and the first record that breaks it."""
    planned = plan.by_name[outcome.node]
    rule = next(each for each in upstream.step(planned).checked_rules if each.name == outcome.name)
    words = f" ({rule.message})" if rule.message else ""
    known = products.tally.broken_rules.get((outcome.node, outcome.name))
    if isinstance(rule, Measured):
        what = _of_values(rule, outcome)
    elif known is None:
        assert isinstance(rule, RowCount)
        records = "1 record" if outcome.value == 1 else f"{outcome.value} records"
        what = f"{records}, {between(rule.least, rule.most)} wanted"
    else:
        what = _of_records(rule, known, products.inputs.file_name, products.rows_before)
    return f"{planned.kind} '{outcome.node}': validation '{rule.name}' is broken{words}: {what}"


def _of_values(rule: Measured, outcome: Outcome) -> str:
    """A value that is out of its bounds, and these."""
    if isinstance(rule, Freshness):
        latest = "there is no value" if outcome.value is None else f"the latest value is {outcome.value}"
        return f"{latest}, at most {age(rule.max_age_s)} before the run began is wanted"
    found = "the value is not shown" if outcome.value is None else f"the value is {outcome.value}"
    return f"{found}, {between(rule.least, rule.most)} is wanted"


def _of_records(rule: Rule, known: BrokenRule, file_of: Any, rows_before: Mapping[int, int]) -> str:
    row = rows_before.get(known.split, 0) + known.row + 1
    if isinstance(rule, References):
        records = "1 record refers" if known.count == 1 else f"{known.count} records refer"
        problem = f"to nothing in '{rule.source}'"
    else:
        records = "1 record is" if known.count == 1 else f"{known.count} records are"
        problem = "not unique"
    shown = "" if known.shown is None else f": {known.shown}"
    first = display.place_of(known.equal_to, file_of, rows_before) if known.equal_to >= 0 else ""
    place = f"{file_of(known.split, known.source)}, row {row}" if row > 0 else "a row of all records"
    return f"{records} {problem}, such as {place}{shown}{first}"

"""Runs the pipeline of an operator inside a unit test: without Spark, without Airflow's database, on given records.

ran = testing.run(dag.get_task("orders"), given={"orders": [{"order_id": 1, "quantity": 2}]})
assert ran.rows["priced"] == [{"order_id": 1, "amount": 40.0}]
assert ran.task_state == "success"
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinker_provider import outcome, policy, validation
from clinker_provider.exceptions import ClinkerConfigError
from spark_jobs import contract, result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.providers.common.compat.sdk import Context

    from clinker_provider.operators.spark import ClinkerSparkOperator
    from spark_jobs.result import RunError


@dataclass(frozen=True)
class Ran:
    """The results of a tested task.

    Args:
        rows: the records of each output, and of nodes that were asked for.
        dead_letters: each with the columns of its dead-letter file.
        error: what ended the run; None where nothing did.
        task_state: the final state of the task: `success`, `skipped` or `failed`.
    """

    rows: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    dead_letters: Sequence[Mapping[str, str]] = ()
    error: RunError | None = None
    task_state: str = "success"


_STATES = {
    policy.Action.SUCCESS: "success",
    policy.Action.SKIP: "skipped",
    policy.Action.FAIL: "failed",
    policy.Action.RETRY: "failed",
}


def run(
    operator: ClinkerSparkOperator,
    *,
    given: Mapping[str, Sequence[Mapping[str, Any]]],
    nodes: Sequence[str] = (),
    context: Context | None = None,
) -> Ran:
    """Run the pipeline of an operator on these records; nothing is read or written beside.

    The pipeline, its channel, environment, variables and the choices about dead letters and empty inputs are the
    operator's. Its folders are not used: sources have the records that are given, and outputs become `rows`.

    Args:
        operator: the task.
        given: the records of each source; one that is not named has none.
        nodes: nodes whose records to return in addition to the outputs' records.
        context: what templates are rendered with; None: they are not.

    Raises:
        ClinkerConfigError: the pipeline has errors, or the operator's choices contradict each other.
        ValueError: a source or a node is named that the pipeline does not have.
    """
    from spark_jobs.cli.cases import model, running

    if context is not None:
        operator.render_template_fields(context)
    chosen = operator.chosen_policy()
    subject = operator.subject()
    config = model.Case(
        name=operator.task_id,
        given={name: model.Given(rows=[dict(row) for row in rows]) for name, rows in given.items()},
        channel=subject.channel,
        env=subject.environment,
        environment=dict(subject.variables),
    )
    if not isinstance(subject.pipeline, Path):
        raise ValueError(f"{subject.pipeline} is in a store: cases are for local pipelines")
    ran = running.run(running.Setup(subject.pipeline, subject.pipeline.parent, config, tuple(nodes)))
    errors = validation.errors_of(ran.diagnostics)
    if errors:
        raise ClinkerConfigError(validation.message(errors), exit_code=contract.ExitCode.CONFIG)
    dead = [dict(entry.cells) for entry in ran.dead]
    if ran.error is not None:
        return Ran(ran.rows, dead, ran.error, "failed")
    code = contract.ExitCode.DEAD_LETTERS if dead else contract.ExitCode.SUCCESS
    total = sum(len(rows) for rows in given.values())
    record = result.RunResult(operator.task_id, code, records_total=total, dlq_count=len(dead))
    return Ran(ran.rows, dead, None, _STATES[chosen.decide(outcome.decide(code, record), record).action])

"""The passes of a run with correlation keys come to an end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.execute.correlation.facts import FACTS, NO_RECORD, FactKind
from spark_jobs.execute.correlation.iteration import Iteration
from spark_jobs.execute.correlation.state import Goal
from spark_jobs.execute.scratch import Scratch
from spark_jobs.execute.verdict import RunFailed

if TYPE_CHECKING:
    from pathlib import Path


def found(folder: Path, *rows: int) -> Any:
    """What a pass tells in which some rows of aggregates have failed."""
    failed = {"record": NO_RECORD, "why": "it failed", "kind": int(FactKind.LAST_PASS_FAILURE)}
    blank = dict.fromkeys(FACTS.names, 0) | failed
    path = folder / f"facts-{'-'.join(map(str, rows))}.arrow"
    facts = pa.Table.from_pylist([blank | {"aggregated": row} for row in rows], schema=FACTS)
    with pa.ipc.new_file(path, FACTS) as file:
        file.write_table(facts)
    inputs = SimpleNamespace(one_of_several=frozenset())
    tally = SimpleNamespace(measured={})
    return SimpleNamespace(fact_files=[str(path)], rows_before={}, dlq=[], shares=1, inputs=inputs, tally=tally)


@pytest.fixture
def iteration(tmp_path: Path) -> Iteration:
    run, plan = (
        SimpleNamespace(scratch=Scratch(str(tmp_path)), steps={}),
        SimpleNamespace(policies={"o": "any"}, limit=0, rows_meet=False, nodes={}),
    )
    return Iteration(run, plan)  # type: ignore[arg-type]


def test_they_are_over_when_a_pass_finds_what_was_known(iteration: Iteration, tmp_path: Path) -> None:
    for rows, goal in (((2, 4), Goal.COMPUTE), ((4,), Goal.COMPUTE), ((4,), Goal.DONE)):
        iteration.take(found(tmp_path, *rows))
        assert iteration.state.goal is goal


def test_rows_that_fail_as_they_please_end_the_run(iteration: Iteration, tmp_path: Path) -> None:
    def play() -> None:
        for number in range(100):
            iteration.take(found(tmp_path, 2 + 2 * (number % 2)))

    with pytest.raises(RunFailed, match="`now`") as raised:
        play()
    assert (raised.value.exit_code, raised.value.code) == (ExitCode.EVALUATION, "E903")
    assert iteration.passes < 10

"""The rounds of a run with correlation keys come to an end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.execute.dlq.marks import Holds
from spark_jobs.execute.run.rounds import Rounds
from spark_jobs.execute.tasks.facts import FACTS
from spark_jobs.execute.verdict import RunFailed

if TYPE_CHECKING:
    from pathlib import Path


def found(folder: Path, *rows: int) -> Any:
    """What a pass tells in which some rows of aggregates have failed."""
    blank = dict.fromkeys(FACTS.names, 0) | {"record": -1, "why": "it failed", "holds": int(Holds.IN_LAST)}
    path = folder / f"facts-{'-'.join(map(str, rows))}.arrow"
    facts = pa.Table.from_pylist([blank | {"aggregated": row} for row in rows], schema=FACTS)
    with pa.ipc.new_file(path, FACTS) as file:
        file.write_table(facts)
    inputs = SimpleNamespace(one_of_several=frozenset())
    return SimpleNamespace(dirty=[str(path)], rows_before={}, dlq=[], shares=1, inputs=inputs)


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    run, plan = (
        SimpleNamespace(scratch=str(tmp_path)),
        SimpleNamespace(policies={"o": "any"}, limit=0, rows_meet=False, standings={}),
    )
    return Rounds(run, plan)  # type: ignore[arg-type]


def test_they_are_over_when_a_pass_finds_what_was_known(rounds: Rounds, tmp_path: Path) -> None:
    for rows, are_over in (((2, 4), False), ((4,), False), ((4,), True)):
        rounds.take(found(tmp_path, *rows))
        assert rounds.are_over is are_over


def test_rows_that_fail_as_they_please_end_the_run(rounds: Rounds, tmp_path: Path) -> None:
    def play() -> None:
        for number in range(100):
            rounds.take(found(tmp_path, 2 + 2 * (number % 2)))

    with pytest.raises(RunFailed, match="`now`") as raised:
        play()
    assert (raised.value.exit_code, raised.value.code) == (ExitCode.EVALUATION, "E903")
    assert rounds.count < 10

"""Makes the `test_run` of each example, as the system tests of Airflow's own providers have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def get_test_run(dag: Any) -> Callable[[], None]:
    """A test that runs a DAG whole, through real operators, and expects that all of it succeeds."""

    def test_run() -> None:
        run = dag.test()
        states = {each.task_id: str(each.state) for each in run.get_task_instances()}
        assert str(run.state) == "success", states
        print("STATES", states)

    return test_run

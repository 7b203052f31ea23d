"""What operators share in a worker process."""

from __future__ import annotations

import pickle

from spark_jobs import plan as planning
from spark_jobs.nodes import operator


def test_a_worker_forgets_the_programs_of_jobs_that_have_ended() -> None:
    program = planning.load("examples/orders/pipeline.yaml").by_name["priced"].step.program
    pickled = pickle.dumps(program)
    for _ in range(operator.MOST_COMPILED + 44):
        latest = pickle.loads(pickled)
        compiled = operator.compiled(latest)
    assert len(operator._COMPILED) <= operator.MOST_COMPILED
    assert operator.compiled(latest) is compiled


def test_a_program_in_use_is_not_forgotten_for_those_that_came_after_it() -> None:
    program = planning.load("examples/orders/pipeline.yaml").by_name["priced"].step.program
    compiled, pickled = operator.compiled(program), pickle.dumps(program)
    for _ in range(operator.MOST_COMPILED - 1):
        operator.compiled(pickle.loads(pickled))
    assert operator.compiled(program) is compiled

"""A pass is a value: what it produced is thrown away as a whole, and it runs again with what is known by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.execute.inputs import Inputs
from spark_jobs.execute.report import Part, TaskReport
from spark_jobs.execute.run import passes
from spark_jobs.execute.run.pass_results import PassResults
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from spark_jobs.execute.correlation.state import PassState
    from spark_jobs.execute.tasks.spec import JobSpec

PIPELINE = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int}}}
      - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
"""
CORRELATED = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {type: csv, path: in.csv, correlation_key: k, schema: {k: string, v: string}}}
      - {type: transform, name: t, input: s, config: {cxl: emit n = v.to_int()}}
      - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
    error_handling: {strategy: continue}
"""


def reports() -> list[TaskReport]:
    """Of two tasks, the later one's first."""
    later, first = TaskReport(0, 1), TaskReport(0, 0)
    later.parts.append(Part("o", (0,), 1, "/later", 7))
    first.parts += [Part("o", (1,), 0, "/other path", 5), Part("o", (0,), 0, "/first", 6)]
    return [later, first]


def test_parts_are_in_record_order_whatever_task_told_first() -> None:
    products = PassResults(Inputs({}, {}, {}, ()))
    products.add(0, reports())
    assert [part.path for part in products.parts_of("o")] == ["/first", "/later", "/other path"]
    assert products.parts_of("p") == []


def test_a_pass_is_repeated_until_it_finds_nothing_more_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round knows the dead records and rejected groups of all before it, and nothing is left of them."""
    without_spark.install(monkeypatch)
    states: list[PassState] = []

    def chain(spark: object, spec: JobSpec) -> list[TaskReport]:
        states.append(spec.state)
        return without_spark.run_chain(spark, spec)

    monkeypatch.setattr(passes.chain, "run", chain)
    pipelines.write(tmp_path, {"pipeline.yaml": CORRELATED, "in.csv": "k,v\na,1\na,x\nb,2\n"})
    result = pipelines.run(tmp_path).result
    told = [(each.excluded is not None, list(each.rejected), each.number) for each in states]
    assert told == [(False, [], 0), (True, ["any", "all"], 1)]
    assert (result.error, result.records_total, result.records_written, result.dlq_count) == (None, 3, 1, 2)
    assert pipelines.outputs(tmp_path) == {"o.csv": b"k,v,n\nb,2,2\n"}

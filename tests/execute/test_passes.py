"""A pass is a value: what it produced is thrown away as a whole, and it runs again with what is known by then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.execute.run import passes
from spark_jobs.execute.run.inputs import Inputs
from spark_jobs.execute.run.products import Products
from spark_jobs.execute.tasks.report import Part, Placed, TaskReport, decode, encode
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from spark_jobs.execute.tasks.spec import JobSpec

PIPELINE = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int}}}
      - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
"""


def reports() -> list[TaskReport]:
    """Of two tasks, the later one's first."""
    later = TaskReport(0, 1, values={"$pipeline.last": Placed((0, 1, 4), "b"), "$pipeline.of_1": Placed((0, 1, 0), 1)})
    first = TaskReport(0, 0, values={"$pipeline.last": Placed((0, 0, 9), "a")})
    later.parts.append(Part("o", (0,), 1, "/later", 7))
    first.parts += [Part("o", (1,), 0, "/other lane", 5), Part("o", (0,), 0, "/first", 6)]
    return [later, first]


def test_the_value_of_the_last_record_is_final_whatever_task_told_first() -> None:
    for told in (reports(), reports()[::-1]):
        products = Products(Inputs({}, {}, {}, ()))
        products.add(0, decode(encode(told)))
        assert {path: placed.value for path, placed in products.values.items()} == {
            "$pipeline.last": "b", "$pipeline.of_1": 1,
        }  # fmt: skip


def test_parts_are_in_record_order_whatever_task_told_first() -> None:
    products = Products(Inputs({}, {}, {}, ()))
    products.add(0, reports())
    assert [part.path for part in products.parts_of("o")] == ["/first", "/later", "/other lane"]
    assert products.parts_of("p") == []


def test_a_pass_is_repeated_without_dirty_groups_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until no task tells a dirty key: each round knows those of all before it, and nothing is left of them."""
    without_spark.install(monkeypatch)
    rounds: list[tuple[str, ...]] = []

    def chain(spark: object, spec: JobSpec) -> list[TaskReport]:
        told = without_spark.run_chain(spark, spec)
        rounds.append(spec.excluded)
        if len(rounds) < 3:
            told[0] = replace(told[0], dirty=[f"/keys of round {len(rounds)}"])
        return told

    monkeypatch.setattr(passes.chain, "run", chain)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "in.csv": "id\n1\n2\n"})
    result = pipelines.run(tmp_path).result
    assert rounds == [(), ("/keys of round 1",), ("/keys of round 1", "/keys of round 2")]
    assert (result.error, result.records_total, result.records_written) == (None, 2, 2)
    assert pipelines.outputs(tmp_path)["o.csv"] == b"id\n1\n2\n"

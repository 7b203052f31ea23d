"""The helper for people's own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.airflow

testing = LazyModule("clinker_provider.testing")
exceptions = LazyModule("clinker_provider.exceptions")

PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: '${FOLDER}/in.csv', schema: {id: int, qty: int}}}
  - {type: transform, name: t, input: s, config: {cxl: 'emit twice = qty.to_int() * 2'}}
  - {type: output, name: o, input: t, config: {type: csv, path: out.csv}}
"""


def task(folder: Path, **arguments: Any) -> Any:
    from airflow.providers.common.compat.sdk import DAG

    from clinker_provider.operators.spark import ClinkerSparkOperator

    (folder / "p.yaml").write_text(PIPELINE)
    with DAG("etl", schedule=None):
        return ClinkerSparkOperator(
            task_id="run", pipeline=str(folder / "p.yaml"), env_vars={"FOLDER": "{{ day }}"}, **arguments
        )


def test_records_go_through_the_pipeline_of_a_task(tmp_path: Path) -> None:
    operator = task(tmp_path)
    ran = testing.run(operator, given={"s": [{"id": 1, "qty": 2}]}, nodes=["t"], context={"day": "monday"})
    assert ran.rows["o"] == ran.rows["t"] == [{"id": 1, "qty": 2, "twice": 4}]
    assert (ran.task_state, ran.error, ran.dead_letters) == ("success", None, [])
    assert operator.env_vars == {"FOLDER": "monday"}
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(("word", "state"), [("success", "success"), ("skip", "skipped"), ("fail", "failed")])
def test_dead_letters_end_the_task_as_it_chose(word: str, state: str, tmp_path: Path) -> None:
    ran = testing.run(task(tmp_path, on_partial=word), given={"s": [{"id": 1, "qty": "x"}]})
    assert ran.task_state == state
    assert [letter["_cxl_dlq_source_name"] for letter in ran.dead_letters] == ["s"]


def test_no_records_end_the_task_as_it_chose(tmp_path: Path) -> None:
    assert testing.run(task(tmp_path, skip_on_no_data=True), given={}).task_state == "skipped"


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    operator = task(tmp_path)
    with pytest.raises(ValueError, match="nothing"):
        testing.run(operator, given={"nothing": []})
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("qty.to_int()", "quantity"))
    with pytest.raises(exceptions.ClinkerConfigError, match="quantity"):
        testing.run(operator, given={})

"""A task's assets: declared from the pipeline, told of by the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clinker_provider import datasets, validation

pytestmark = pytest.mark.airflow

PIPELINE = """
pipeline: {name: sales}
nodes:
  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: {id: int, name: string}}}
  - {type: source, name: many, config: {type: csv, glob: 'more/*.csv', schema: {id: int}}}
  - {type: output, name: fixed, input: rows, config: {type: csv, path: 'out/fixed file.csv'}}
  - {type: output, name: dated, input: many, config: {type: csv, path: 'out/dated_{batch_id}.csv'}}
"""
REST = """
pipeline: {name: rest}
nodes:
  - type: source
    name: rows
    config: {type: json, transport: {kind: rest, url: 'https://h.example/v1?key=LEAK', max_pages: 9}, schema: {id: int}}
  - {type: output, name: out, input: rows, config: {type: csv, path: out.csv}}
"""


@pytest.fixture
def pipeline(spark: Any) -> Path:
    path: Path = spark.folder / "sales.yaml"
    path.write_text(PIPELINE)
    return path


def record(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "records_total": 9,
        "dlq_count": 1,
        "dlq_path": str(folder / "dead.csv"),
        "metrics": {"duration_ms": 70},
        "output_files": [str(folder / "out/fixed file.csv"), str(folder / "out/dated_7.csv")],
        "outputs": [{"name": "fixed", "records": 5, "files": 1}, {"name": "dated", "records": 3, "files": 1}],
        **more,
    }


def in_dag(spark: Any, job: dict[str, Any], **arguments: Any) -> Any:
    from airflow.providers.common.compat.sdk import DAG

    with DAG("etl", schedule=None):
        return spark.operator(job, emit_assets=True, **arguments)


def executed(operator: Any, context: Any) -> Any:
    from tests.provider.airflow_of import OutletEventAccessors

    context["outlet_events"] = OutletEventAccessors()
    operator.execute(context)
    return context["outlet_events"]


def names(assets: Any) -> list[str]:
    return [getattr(each, "uri", None) or each.name for each in assets]


def test_outputs_are_outlets_and_sources_inlets(spark: Any, pipeline: Path) -> None:
    operator = in_dag(spark, {}, pipeline=str(pipeline))
    folder = spark.folder.as_uri()
    assert names(operator.inlets) == [f"{folder}/in.csv"]
    assert names(operator.outlets) == [f"{folder}/out/fixed%20file.csv", "clinker.etl.run"]
    assert spark.operator({}, pipeline=str(pipeline)).outlets == [], "nobody asked"


def test_what_is_there_already_stays_alone(spark: Any, pipeline: Path) -> None:
    pytest.importorskip("airflow.sdk", reason="datasets of Airflow 2 have no names")
    from airflow.providers.common.compat.sdk import Asset

    own = Asset("fixed", uri=(spark.folder / "out/fixed file.csv").as_uri())
    operator = in_dag(spark, {}, pipeline=str(pipeline), outlets=[own])
    assert names(operator.outlets) == [own.uri, "clinker.etl.run"]
    assert operator.outlets[0].name == "fixed"


@pytest.mark.parametrize("change", [{"pipeline": "{{ ds }}.yaml"}, {"env_vars": {"A": "{{ ds }}"}}])
def test_templates_leave_everything_to_the_alias(change: dict[str, Any], spark: Any, pipeline: Path) -> None:
    operator = in_dag(spark, {}, **{"pipeline": str(pipeline), **change})
    assert (names(operator.inlets), names(operator.outlets)) == ([], ["clinker.etl.run"])


def test_events_say_what_the_run_did(spark: Any, context: Any, pipeline: Path) -> None:
    from airflow.providers.common.compat.sdk import AssetAlias

    from tests.provider.airflow_of import told_through

    job = {"exit": 2, "record": record(spark.folder)}
    operator = in_dag(spark, job, pipeline=str(pipeline))
    events = executed(operator, context)
    fixed = events[operator.outlets[0]].extra
    assert fixed["schema"] == [{"name": "id", "type": "Int"}, {"name": "name", "type": "String"}]
    expected = {
        "output": "fixed", "records": 5, "files": 1, "pipeline": "sales", "duration_ms": 70, "records_read": 9,
        "dlq_count": 1, "dlq_path": str(spark.folder / "dead.csv"),
        "execution_id": context["ti"].pushed["execution_id"],
    }  # fmt: skip
    assert {key: fixed[key] for key in expected} == expected
    ((uri, extra),) = told_through(events[AssetAlias("clinker.etl.run")])
    assert uri == f"{spark.folder.as_uri()}/out/dated_7.csv"
    assert (extra["output"], extra["records"]) == ("dated", 3)


@pytest.mark.parametrize(
    ("job", "choice"), [({"exit": 3}, {}), ({"exit": 2}, {"on_partial": "skip"}), ({"exit": 2}, {"on_partial": "fail"})]
)
def test_a_task_that_does_not_succeed_tells_nothing(
    job: dict[str, Any], choice: dict[str, Any], spark: Any, context: Any, pipeline: Path
) -> None:
    from airflow.providers.common.compat.sdk import AirflowException

    from tests.provider.airflow_of import OutletEventAccessors

    context["outlet_events"] = OutletEventAccessors()
    operator = in_dag(spark, {**job, "record": record(spark.folder)}, pipeline=str(pipeline), **choice)
    with pytest.raises(AirflowException):
        operator.execute(context)
    assert len(context["outlet_events"]) == 0


def test_a_mapped_task_tells_through_the_alias_that_it_was_given(spark: Any, context: Any, pipeline: Path) -> None:
    from airflow.providers.common.compat.sdk import AssetAlias

    from tests.provider.airflow_of import told_through

    operator = in_dag(spark, {"exit": 0, "record": record(spark.folder)}, pipeline="{{ ds }}.yaml")
    operator.outlets, operator.pipeline = [AssetAlias("mine")], str(pipeline)
    events = executed(operator, context)
    assert [extra["output"] for _, extra in told_through(events[AssetAlias("mine")])] == ["fixed", "dated"]
    operator.outlets = []
    assert len(executed(operator, context)) == 0


def test_addresses_show_no_query(tmp_path: Path) -> None:
    path = tmp_path / "rest.yaml"
    path.write_text(REST)
    found = datasets.of(validation.Subject(path))
    assert found is not None
    assert [each.uri for each in found.sources] == ["https://h.example/v1"]


def test_what_is_no_plan_has_no_assets(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("pipeline: {}\n")
    assert datasets.of(validation.Subject(path)) is None


def test_the_example_reads_what_the_example_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("airflow.sdk", reason="the examples are written for Airflow 3")
    import runpy

    file = Path(__file__).parent.parent.parent / "dags" / "clinker_assets.py"
    module = runpy.run_path(str(file))
    written = module["write"]().get_task("run").outlets
    assert module["SALES"] in written
    assert list(module["read"]().timetable.asset_condition.objects) == [module["SALES"]]

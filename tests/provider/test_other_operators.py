"""The operators that check pipelines and collect metrics, with the real planner and real files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lazily import LazyModule

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")
metrics = LazyModule("clinker_provider.operators.metrics")
validate = LazyModule("clinker_provider.operators.validate")

ORDERS = Path(__file__).resolve().parent.parent.parent / "examples" / "orders" / "pipeline.yaml"


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    return Path(shutil.copy(ORDERS, tmp_path / "p.yaml"))


def check(pipeline: object, **arguments: Any) -> Any:
    return validate.ClinkerValidateOperator(task_id="check", pipeline=str(pipeline), validate="execute", **arguments)


def test_valid_pipeline_gives_its_counts_and_plan(pipeline: Path, context: Any) -> None:
    operator = check(pipeline)
    assert operator.execute(context) == {"pipeline": str(pipeline), "errors": 0, "warnings": 0}
    assert context["ti"].pushed == {"diagnostics": []}
    assert operator.plan_text is not None
    assert "orders" in operator.plan_text


def test_broken_pipeline_fails_without_retry_and_lists_its_problems(pipeline: Path, context: Any) -> None:
    pipeline.write_text(pipeline.read_text().replace("weight_kg / quantity", "weight_kg / quantiti"))
    with pytest.raises(exceptions.ClinkerConfigError, match=r"p\.yaml:\d+:\d+ E\d+ .*quantiti") as raised:
        check(pipeline).execute(context)
    assert isinstance(raised.value, exceptions.AirflowFailException)
    assert raised.value.exit_code == 1
    (line,) = context["ti"].pushed["diagnostics"]
    assert str(raised.value).startswith(line)


def test_warnings_fail_only_when_asked_to(context: Any, diagnosed: Any) -> None:
    diagnosed.report("p.yaml:1:1 W101 odd", is_error=False)
    assert check("/p.yaml").execute(context)["warnings"] == 1
    with pytest.raises(exceptions.ClinkerConfigError, match="W101 odd"):
        check("/p.yaml", warnings_are_errors=True).execute(context)


def test_variables_of_the_task_reach_the_check(pipeline: Path, context: Any) -> None:
    pipeline.write_text(pipeline.read_text().replace("output/sales_by_region.csv", "output/${REGION_FILE}.csv"))
    with pytest.raises(exceptions.ClinkerConfigError, match="REGION_FILE"):
        check(pipeline).execute(context)
    assert check(pipeline, env_vars={"REGION_FILE": "sales"}).execute(context)["errors"] == 0


def test_check_that_is_switched_off_is_refused() -> None:
    with pytest.raises(ValueError, match="would do nothing"):
        validate.ClinkerValidateOperator(task_id="check", pipeline="p.yaml", validate="off")


def test_relative_pipeline_without_a_dag_is_refused(context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match="is relative"):
        check("p.yaml").execute(context)


def test_root_of_pipelines_is_used(pipeline: Path, context: Any) -> None:
    assert check("p.yaml", pipeline_root=str(pipeline.parent)).execute(context)["pipeline"] == str(pipeline)


def collect(folder: Path, **arguments: Any) -> Any:
    return metrics.ClinkerMetricsCollectOperator(
        task_id="collect", spool_dir=str(folder / "spool"), output_file=str(folder / "all.ndjson"), **arguments
    )


def test_metrics_are_collected_and_counted(tmp_path: Path, context: Any) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "a.json").write_text(json.dumps({"execution_id": "a", "schema_version": 1}))
    (spool / "b.json").write_text("no metrics")
    archive = str(tmp_path / "all.ndjson")
    wanted = {"collected": 1, "skipped": 1, "output_file": archive}
    assert collect(tmp_path, dry_run=True).execute(context) == wanted
    assert not Path(archive).exists()
    assert collect(tmp_path, delete_after_collect=True).execute(context) == wanted
    assert Path(archive).read_text() == '{"execution_id":"a","schema_version":1}\n'
    assert [path.name for path in spool.iterdir()] == ["b.json"]


def test_missing_spool_may_be_retried(tmp_path: Path, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerIOError, match="spool") as raised:
        collect(tmp_path).execute(context)
    assert raised.value.exit_code == 4
    assert not isinstance(raised.value, exceptions.AirflowFailException)

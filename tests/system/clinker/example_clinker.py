"""Operators and the sensor: cases, a check, a run, its dead letters, its metrics."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.providers.common.compat.sdk import DAG

from clinker_provider.operators.cases import ClinkerTestOperator
from clinker_provider.operators.metrics import ClinkerMetricsCollectOperator
from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.operators.validate import ClinkerValidateOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

SPOOL = str(Path(__file__).parent / "spool")
ARCHIVE = str(Path(__file__).parent / "metrics.ndjson")

with DAG("example_clinker", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["example"]) as dag:
    # [START howto_operator_clinker_test]
    cases = ClinkerTestOperator(task_id="cases", paths="../../../examples/orders/tests")
    # [END howto_operator_clinker_test]

    # [START howto_operator_clinker_validate]
    check = ClinkerValidateOperator(
        task_id="check",
        pipeline="../../../examples/orders/pipeline.yaml",
        preview=["by_size.large", "sales_by_region"],
    )
    # [END howto_operator_clinker_validate]

    # [START howto_operator_clinker_spark]
    run = ClinkerSparkOperator(
        task_id="run",
        pipeline="../../../examples/orders/pipeline.yaml",  # relative to the DAG file
        conn_id="spark_default",  # or master="local[*]"
        metrics_spool_dir=SPOOL,
        force=True,  # a cleared task may write its outputs again
    )
    # [END howto_operator_clinker_spark]

    # [START howto_sensor_clinker_dead_letters]
    dead_letters = ClinkerDeadLettersSensor(
        task_id="dead_letters",
        path="{{ ti.xcom_pull(task_ids='run', key='dlq_path') or '' }}",
        timeout=1,  # the run is over: one look is enough
        soft_fail=True,  # without dead letters what follows is skipped
    )
    # [END howto_sensor_clinker_dead_letters]

    # [START howto_operator_clinker_metrics]
    metrics = ClinkerMetricsCollectOperator(
        task_id="metrics", spool_dir=SPOOL, output_file=ARCHIVE, delete_after_collect=True
    )
    # [END howto_operator_clinker_metrics]

    [cases, check] >> run >> [dead_letters, metrics]

from tests.system.running import get_test_run  # noqa: E402

# What `pytest` runs of this file.
test_run = get_test_run(dag)

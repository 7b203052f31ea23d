"""A function that gives variables for a pipeline, and a folder of pipelines as a task group."""

from __future__ import annotations

from datetime import datetime

from airflow.providers.common.compat.sdk import DAG, task

from clinker_provider.task_groups.pipelines import ClinkerTaskGroup

with DAG(
    "example_clinker_taskflow", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["example"]
) as dag:
    # [START howto_decorator_clinker]
    @task.clinker(conn_id="spark_default", pipeline="../../../examples/orders/pipeline.yaml", force=True)
    def orders(ds=None):
        return {"DAY": ds}

    # [END howto_decorator_clinker]

    # [START howto_task_group_clinker]
    group = ClinkerTaskGroup(
        folder="pipelines",
        operator_args={"conn_id": "spark_default", "force": True},
        overrides={"counted": {"retries": 3}},
    )
    # [END howto_task_group_clinker]

    orders() >> group

from tests.system.running import get_test_run

# What `pytest` runs of this file.
test_run = get_test_run(dag)

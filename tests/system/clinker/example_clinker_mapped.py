"""One task for each file of a folder, as many at a time as a pool has room for."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.providers.common.compat.sdk import DAG, task

from clinker_provider.operators.spark import ClinkerSparkOperator

FOLDER = Path(__file__).parent / "regions"

with DAG(
    "example_clinker_mapped", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["example"]
) as dag:
    # [START howto_operator_clinker_regions]
    @task
    def regions() -> list[dict[str, str]]:
        return [{"REGION": path.stem} for path in sorted((FOLDER / "in").glob("*.csv"))]

    # [END howto_operator_clinker_regions]

    # [START howto_operator_clinker_mapped]
    ClinkerSparkOperator.partial(
        task_id="load",
        pipeline="regions/region.yaml",  # reads in/${REGION}.csv, writes out/${REGION}.csv
        conn_id="spark_default",
        threads=2,
        pool="default_pool",
        pool_slots=2,  # as many as threads, so that a pool bounds the processor
        force=True,
        map_index_template="{{ task.env_vars.REGION }}",  # the name in the grid
    ).expand(env_vars=regions())
    # [END howto_operator_clinker_mapped]

from tests.system.running import get_test_run  # noqa: E402

# What `pytest` runs of this file.
test_run = get_test_run(dag)

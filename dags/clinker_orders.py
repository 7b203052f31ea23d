"""Runs the orders example every day: the run, a look at its dead letters, the collection of its metrics.

The Spark connection is `spark_default`: embedded Spark when its host is `local[*]`, a cluster when it is
`spark://host:7077`. Folders come from the environment, so that the same file serves `make run` and the compose stack.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from airflow.providers.common.compat.sdk import dag, task

from clinker_provider.operators.metrics import ClinkerMetricsCollectOperator
from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

EXAMPLE = Path(os.environ.get("CLINKER_EXAMPLES", str(Path(__file__).resolve().parent.parent / "examples"))) / "orders"
# Metrics lie beside the outputs, which on a cluster is the shared volume.
SPOOL = EXAMPLE / "output" / "spool"


@dag(dag_id="clinker_orders", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["clinker"])
def clinker_orders() -> None:
    """Orders, from CSV files to priced orders and sales by region."""
    # [START howto_clinker_spark]
    run = ClinkerSparkOperator(
        task_id="run",
        pipeline=str(EXAMPLE / "pipeline.yaml"),
        # A cleared task runs again, over its own outputs.
        force=True,
        metrics_spool_dir=str(SPOOL),
    )
    # [END howto_clinker_spark]

    # [START howto_clinker_dead_letters]
    dead_letters = ClinkerDeadLettersSensor(
        task_id="dead_letters",
        path="{{ ti.xcom_pull(task_ids='run', key='dlq_path') or '' }}",
        # The run is over, so one look is enough; without dead letters what follows is skipped.
        timeout=1,
        poke_interval=1,
        soft_fail=True,
    )
    # [END howto_clinker_dead_letters]

    @task
    def report(found: dict[str, object]) -> str:
        """Say what died; the place for a ticket or a message."""
        return f"{found['count']} orders were rejected, see {found['paths']}"

    # [START howto_clinker_metrics]
    metrics = ClinkerMetricsCollectOperator(
        task_id="metrics",
        spool_dir=str(SPOOL),
        output_file=str(EXAMPLE / "output" / "metrics.ndjson"),
        delete_after_collect=True,
    )
    # [END howto_clinker_metrics]

    run >> [dead_letters, metrics]
    report(dead_letters.output)


clinker_orders()

"""Posts invoices: the run, and a look at the invoices that it rejected, which a clerk mends and another run posts.

To post rejected invoices, set the DAG's parameter `lines` to a mended copy of the file.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from airflow.providers.common.compat.sdk import Param, dag, task

from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

EXAMPLES = Path(os.environ.get("CLINKER_EXAMPLES", str(Path(__file__).resolve().parent.parent / "examples")))
EXAMPLE = EXAMPLES / "invoices"


@dag(
    dag_id="clinker_invoices",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    tags=["clinker"],
    params={"lines": Param("input/lines.csv", type="string", description="the lines, or those that were mended")},
)
def clinker_invoices() -> None:
    """Invoices and their lines, posted whole or not at all."""
    run = ClinkerSparkOperator(
        task_id="run",
        pipeline=str(EXAMPLE / "pipeline.yaml"),
        force=True,
        env_vars={"INVOICE_LINES": "{{ params.lines }}"},
    )

    rejected = ClinkerDeadLettersSensor(
        task_id="rejected",
        path=str(EXAMPLE / "output" / "rejected_lines.csv"),
        timeout=1,
        poke_interval=1,
        soft_fail=True,
    )

    @task
    def report(found: dict[str, object]) -> str:
        """Report the number and the place of rejected lines."""
        return f"{found['count']} lines of invoices were rejected, see {found['paths']}"

    run >> rejected
    report(rejected.output)


clinker_invoices()

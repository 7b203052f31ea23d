"""Two DAGs: one prices orders, the other starts whenever the sales by region have been published.

The second knows from the event how many records there are, and how many orders died.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import Asset, dag, task

from clinker_provider.operators.spark import ClinkerSparkOperator

EXAMPLE = Path(os.environ.get("CLINKER_EXAMPLES", str(Path(__file__).resolve().parent.parent / "examples"))) / "orders"
SALES = Asset(uri=(EXAMPLE / "output" / "sales_by_region.csv").as_uri())


@dag(dag_id="clinker_assets_write", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, tags=["clinker"])
def write() -> None:
    """Orders, priced."""
    # [START howto_clinker_assets]
    ClinkerSparkOperator(task_id="run", pipeline=str(EXAMPLE / "pipeline.yaml"), force=True, emit_assets=True)
    # [END howto_clinker_assets]


@dag(dag_id="clinker_assets_read", schedule=[SALES], start_date=datetime(2026, 1, 1), catchup=False, tags=["clinker"])
def read() -> None:
    """Reports each new version of the sales."""

    # [START howto_clinker_assets_read]
    @task
    def report(**context: Any) -> str:
        """Report the records of the latest event; in Airflow 2, assets are datasets."""
        events = context.get("triggering_asset_events") or context["triggering_dataset_events"]
        event = next(iter(events.values()))[-1]
        return f"{event.extra['records']} regions, {event.extra['dlq_count']} orders died"

    # [END howto_clinker_assets_read]
    report()


write()
read()

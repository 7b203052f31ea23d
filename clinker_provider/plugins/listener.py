"""Counts attempts whose worker died: nobody else is left to send their figures.

The operator sends the figures of every attempt that comes to its end, failed and killed ones included. Where the worker
itself is gone, the scheduler fails the attempt, and Airflow calls this listener there.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.providers.common.compat.sdk import hookimpl

#: The status of such an attempt in the figures.
LOST = "lost"
#: `custom_operator_name` of the operators that run pipelines, and of classes derived from them. Every process of
#: Airflow loads this module, so it imports none of them, nor anything else early.
OPERATORS = frozenset({"Clinker", "@task.clinker"})

_logger = logging.getLogger(__name__)


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """Count an attempt that the scheduler fails in the worker's stead."""
    # A mark that a person sets has no previous state. A worker's own task instance is not the database's, which alone
    # has the operator's name.
    if previous_state is None or getattr(task_instance, "custom_operator_name", None) not in OPERATORS:
        return
    try:
        from clinker_provider import compat, figures

        figures.publish(None, LOST, task_instance.dag_id, task_instance.task_id, compat.server_stats())
    except Exception:
        _logger.exception("A lost attempt of %s could not be counted", task_instance.task_id)

"""Airflow APIs that `airflow.providers.common.compat.sdk` does not have, by Airflow's version."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import XCom

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

try:
    from airflow.sdk.bases.xcom import BaseXCom

    #: Whether a task's links are made where it runs. Airflow 2 makes them in its web server, which has no task.
    MAKES_LINKS_IN_TASKS = True
except ImportError:
    from airflow.models.xcom import BaseXCom  # type: ignore[no-redef]

    MAKES_LINKS_IN_TASKS = False

try:
    from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

    #: The errors that a task resumes with if its trigger failed or took too long.
    DEFERRAL_ERRORS: tuple[type[Exception], ...] = (TaskDeferralError, TaskDeferralTimeout)
except ImportError:  # before Airflow 3.1 there is one for both
    from airflow.exceptions import TaskDeferralError as _Failed

    DEFERRAL_ERRORS = (_Failed,)

__all__ = ["DEFERRAL_ERRORS", "MAKES_LINKS_IN_TASKS", "BaseXCom", "server_stats", "stored_link"]


def stored_link(ti_key: TaskInstanceKey, key: str) -> str:
    """The address that a task has stored under a key; empty where there is none."""
    return str(XCom.get_value(ti_key=ti_key, key=key) or "")


def server_stats() -> Any:
    """The metrics client of a scheduler, triggerer or API server; a task's process uses another one."""
    try:
        return import_module("airflow.observability.stats").Stats
    except ImportError:  # Airflow 3.1 and before
        return import_module("airflow.stats").Stats

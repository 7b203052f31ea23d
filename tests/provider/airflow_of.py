"""What tests use of Airflow beside `airflow.providers.common.compat.sdk`, at the places where each version has it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_0_PLUS, AIRFLOW_V_3_1_PLUS

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.1 and before
    from airflow.models.dagbag import DagBag

try:
    from airflow.sdk.exceptions import TaskDeferralError
except ImportError:  # Airflow 3.0 and before
    from airflow.exceptions import TaskDeferralError

try:
    from airflow.sdk.execution_time.context import OutletEventAccessors
except ImportError:  # Airflow 2
    from airflow.utils.context import OutletEventAccessors

#: Whether values that Airflow knows as secrets are hidden in the rendered fields that it stores. Airflow 3.0 hides
#: only fields whose name suggests a secret, for every operator.
HIDES_VALUES_IN_FIELDS = AIRFLOW_V_3_1_PLUS or not AIRFLOW_V_3_0_PLUS

__all__ = [
    "HIDES_VALUES_IN_FIELDS",
    "DagBag",
    "OutletEventAccessors",
    "TaskDeferralError",
    "allow_this_thread",
    "forget_secrets",
    "mask_secret",
    "rendered_fields",
    "serialized",
    "told_through",
]


def allow_this_thread() -> None:
    """Let this thread execute operators. Airflow 2 knows only the thread that has loaded it."""
    if not AIRFLOW_V_3_0_PLUS:
        from airflow.models.baseoperator import ExecutorSafeguard

        ExecutorSafeguard._sentinel.callers = {}


def serialized(dag: Any) -> Any:
    """A DAG in the form in which Airflow stores it."""
    try:
        from airflow.serialization.serialized_objects import DagSerialization
    except ImportError:  # Airflow 3.1 and before
        from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization
    return DagSerialization.to_dict(dag)


def told_through(accessor: Any) -> list[tuple[str, dict[str, Any]]]:
    """The URIs of the assets that were added to an alias, with their `extra`."""
    if hasattr(accessor, "dataset_alias_events"):  # Airflow 2
        return [(each["dest_dataset_uri"], each["extra"]) for each in accessor.dataset_alias_events]
    return [(each.dest_asset_key.uri, each.extra) for each in accessor.asset_alias_events]


def forget_secrets() -> None:
    """Let Airflow hide no value any more."""
    for name in ("airflow.sdk._shared.secrets_masker", "airflow.sdk.execution_time.secrets_masker"):
        try:
            import_module(name).reset_secrets_masker()
        except ImportError:
            continue
        return
    # Airflow 2
    found = import_module("airflow.utils.log.secrets_masker")._secrets_masker()
    found.patterns, found.replacer = set(), None


def rendered_fields(task: Any) -> dict[str, Any]:
    """The rendered fields of a task as Airflow stores them."""
    try:
        from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
    except ImportError:  # Airflow 2
        from airflow.providers.common.compat.sdk import redact
        from airflow.serialization.helpers import serialize_template_field

        fields = {name: serialize_template_field(getattr(task, name), name) for name in task.template_fields}
        return {name: redact(value, name) for name, value in fields.items()}
    return dict(_serialize_rendered_fields(task))

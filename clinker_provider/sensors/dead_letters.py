"""Waits until there are dead letters, so that a task can handle them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clinker_provider import dead_letters, validation
from clinker_provider.sensors.looking import LookingSensor
from clinker_provider.triggers.dead_letters import DeadLettersTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow.triggers.base import BaseTrigger

    from clinker_provider.files import Files


class ClinkerDeadLettersSensor(LookingSensor):
    """Succeed when dead-letter files hold at least `min_count` entries; XCom `return_value`: `paths` and `count`.

    With `soft_fail=True` and a short `timeout` it skips what follows when a run was clean.

    :param path: dead-letter file or glob pattern, such as the run's XCom `dlq_path`, or a URI of such; empty or `None`,
        as a clean run gives it, is never found (templated)
    :param min_count: entries that are enough
    :param store_conn_id: connection (`aws`, `google_cloud_platform`, `wasb`) with the credentials of the store;
        without it they come from the environment (templated)
    :param deferrable: wait in the triggerer; default: Airflow's configuration `[operators] default_deferrable`
    """

    cannot_look = "dead letters cannot be read: "
    template_fields: Sequence[str] = ("path", "store_conn_id")
    ui_color = "#f3dada"
    custom_operator_name = "Clinker dead letters"

    def __init__(self, *, path: str | Path, min_count: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if min_count < 1:
            raise ValueError(f"min_count is a number of entries from 1 on, not {min_count}")
        self.path = validation.as_text(path)
        self.min_count = min_count

    def look(self, files: Files) -> dict[str, Any] | None:
        found = dead_letters.look(self.path, files)
        return _value(found.paths, found.count) if found.count >= self.min_count else None

    def trigger(self) -> BaseTrigger:
        """The trigger that waits in the triggerer."""
        return DeadLettersTrigger(
            path=self.path,
            min_count=self.min_count,
            poke_interval_s=float(self.poke_interval),
            store_conn_id=self.store_conn_id,
        )

    def value(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The XCom `return_value`, from the event of the trigger."""
        return _value(event["paths"], event["count"])

    def _looked(self) -> dict[str, Any] | None:
        # Jinja renders a missing XCom as the text "None".
        return None if not self.path or self.path == "None" else super()._looked()


def _value(paths: Sequence[str], count: int) -> dict[str, Any]:
    return {"paths": list(paths), "count": count}

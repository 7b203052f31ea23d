"""Waits until there are dead letters, so that a task can handle them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue, conf

from clinker_provider import dead_letters, validation
from clinker_provider.exceptions import ClinkerIOError
from clinker_provider.hooks import clinker_connection
from clinker_provider.triggers.dead_letters import DeadLettersTrigger
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow.providers.common.compat.sdk import Context


class ClinkerDeadLettersSensor(BaseSensorOperator):
    """Succeed when dead-letter files hold at least `min_count` entries; XCom `return_value`: `paths` and `count`.

    With `soft_fail=True` and a short `timeout` it skips what follows when a run was clean.

    :param path: dead-letter file or glob pattern, such as the run's XCom `dlq_path`, or a URI of such; empty or `None`,
        as a clean run gives it, is never found (templated)
    :param min_count: entries that are enough
    :param store_conn_id: connection (`aws`, `google_cloud_platform`, `wasb`) with the credentials of the store;
        without it they come from the environment (templated)
    :param deferrable: wait in the triggerer; default: Airflow's configuration `[operators] default_deferrable`
    """

    template_fields: Sequence[str] = ("path", "store_conn_id")
    ui_color = "#f3dada"
    custom_operator_name = "Clinker dead letters"

    def __init__(
        self,
        *,
        path: str | Path,
        min_count: int = 1,
        store_conn_id: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if min_count < 1:
            raise ValueError(f"min_count is a number of entries from 1 on, not {min_count}")
        self.path = validation.as_text(path)
        self.min_count = min_count
        self.store_conn_id = store_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        found = self._look()
        return PokeReturnValue(found.count >= self.min_count, _value(found.paths, found.count))

    def execute(self, context: Context) -> Any:
        """Wait in the worker, or look once and wait in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        found = self._look()
        if found.count >= self.min_count:
            return _value(found.paths, found.count)
        self.defer(
            trigger=DeadLettersTrigger(
                path=self.path,
                min_count=self.min_count,
                poke_interval_s=float(self.poke_interval),
                store_conn_id=self.store_conn_id,
            ),
            method_name="execute_complete",
            # Deferred tasks know no execution timeout of their own (Airflow enforces this one).
            timeout=timedelta(seconds=float(self.timeout)),
        )
        return None

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on after the trigger fired.

        Raises:
            ClinkerIOError: when the files could not be read.
        """
        if event["status"] != "found":
            raise ClinkerIOError(f"dead letters cannot be read: {event['message']}", exit_code=contract.ExitCode.IO)
        return _value(event["paths"], event["count"])

    def _look(self) -> dead_letters.Found:
        # Jinja renders a missing XCom as the text "None".
        if not self.path or self.path == "None":
            return dead_letters.Found((), 0)
        try:
            return dead_letters.look(self.path, clinker_connection.files_of(self.store_conn_id))
        except (OSError, ValueError) as error:
            raise ClinkerIOError(f"dead letters cannot be read: {error}", exit_code=contract.ExitCode.IO) from error


def _value(paths: Sequence[str], count: int) -> dict[str, Any]:
    return {"paths": list(paths), "count": count}

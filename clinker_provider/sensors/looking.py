"""Waits for the result record of a run, or for metrics files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue, conf

from clinker_provider import looking, validation
from clinker_provider.exceptions import ClinkerIOError
from clinker_provider.hooks import clinker_connection
from clinker_provider.triggers.looking import LookingTrigger
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow.providers.common.compat.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from clinker_provider.files import Files


class LookingSensor(BaseSensorOperator):
    """Waits for files, in the worker or in the triggerer."""

    #: The function of the trigger, and the beginning of error messages.
    looks_for: ClassVar[str]
    cannot_look: ClassVar[str] = ""

    def __init__(self, *, store_conn_id: str | None = None, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store_conn_id = store_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    def arguments(self) -> dict[str, Any]:
        """The arguments of `look`, from rendered values."""
        raise NotImplementedError

    def look(self, files: Files) -> dict[str, Any] | None:
        """Look once; None if nothing is found.

        Raises:
            OSError: a file cannot be read, or its store refuses.
            ValueError: a parameter is wrong.
        """
        raise NotImplementedError

    def trigger(self) -> BaseTrigger:
        """The trigger that waits in the triggerer."""
        return LookingTrigger(
            looks_for=self.looks_for,
            arguments=self.arguments(),
            poke_interval_s=float(self.poke_interval),
            store_conn_id=self.store_conn_id,
        )

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once, as Airflow asks for it."""
        found = self._looked()
        return PokeReturnValue(found is not None, found)

    def execute(self, context: Context) -> Any:
        """Wait in the worker, or look once and wait in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if (found := self._looked()) is not None:
            return found
        self.defer(
            trigger=self.trigger(),
            method_name="execute_complete",
            # Deferred tasks know no execution timeout of their own (Airflow enforces this one).
            timeout=timedelta(seconds=float(self.timeout)),
        )
        return None

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on after the trigger fired.

        Raises:
            ClinkerIOError: the trigger could not look.
        """
        if event["status"] != "found":
            raise ClinkerIOError(f"{self.cannot_look}{event['message']}", exit_code=contract.ExitCode.IO)
        return self.value(event)

    def value(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The XCom `return_value`, from the event of the trigger."""
        found: dict[str, Any] = event["value"]
        return found

    def _looked(self) -> dict[str, Any] | None:
        try:
            return self.look(clinker_connection.files_of(self.store_conn_id))
        except (OSError, ValueError) as error:
            raise ClinkerIOError(f"{self.cannot_look}{error}", exit_code=contract.ExitCode.IO) from error


class ClinkerResultSensor(LookingSensor):
    """Succeed when a run has left its result record, whatever it says; XCom `return_value`: the record.

    For runs that something else starts: `clinker run --execution-id NAME --work-dir FOLDER`.

    :param work_dir: the folder that the run was given, or a URI (templated)
    :param execution_id: the name that the run was given (templated)
    :param store_conn_id: connection (`aws`, `google_cloud_platform`, `wasb`) with the credentials of the store;
        without it they come from the environment (templated)
    :param deferrable: wait in the triggerer; default: Airflow's configuration `[operators] default_deferrable`
    """

    looks_for = "result"
    template_fields: Sequence[str] = ("work_dir", "execution_id", "store_conn_id")
    ui_color = "#dfe6ee"
    custom_operator_name = "Clinker result"

    def __init__(self, *, work_dir: str | Path, execution_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.work_dir = validation.as_text(work_dir)
        self.execution_id = execution_id

    def arguments(self) -> dict[str, Any]:
        """The folder and the name."""
        return {"work_dir": self.work_dir, "execution_id": self.execution_id}

    def look(self, files: Files) -> dict[str, Any] | None:
        return looking.for_result(files, **self.arguments())


class ClinkerMetricsSensor(LookingSensor):
    """Succeed when a spool folder has metrics files; XCom `return_value`: `paths`, `count`, `records`, `dlq_count`.

    :param spool_dir: the folder that runs write their metrics to, or a URI (templated)
    :param pipeline_name: only metrics of this pipeline (templated)
    :param min_count: files that are enough
    :param store_conn_id: connection (`aws`, `google_cloud_platform`, `wasb`) with the credentials of the store;
        without it they come from the environment (templated)
    :param deferrable: wait in the triggerer; default: Airflow's configuration `[operators] default_deferrable`
    """

    looks_for = "metrics"
    template_fields: Sequence[str] = ("spool_dir", "pipeline_name", "store_conn_id")
    ui_color = "#dfe6ee"
    custom_operator_name = "Clinker metrics"

    def __init__(
        self, *, spool_dir: str | Path, pipeline_name: str | None = None, min_count: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if min_count < 1:
            raise ValueError(f"min_count is a number of files from 1 on, not {min_count}")
        self.spool_dir = validation.as_text(spool_dir)
        self.pipeline_name = pipeline_name
        self.min_count = min_count

    def arguments(self) -> dict[str, Any]:
        """The folder, the pipeline and the number."""
        return {"spool_dir": self.spool_dir, "pipeline": self.pipeline_name, "min_count": self.min_count}

    def look(self, files: Files) -> dict[str, Any] | None:
        return looking.for_metrics(files, **self.arguments())

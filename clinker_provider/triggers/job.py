"""Waits in the triggerer for a job on a cluster, without a worker slot."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from clinker_provider import cluster, validation
from spark_jobs import result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: The time in seconds until the record of an ended job must be visible on a shared mount.
_RECORD_TIMEOUT_S = 10.0


class ClusterJobTrigger(BaseTrigger):
    """Fires when the job has left its result record, or has ended without one, or time is over.

    A record in a store is not looked for here, where nobody has the task's credentials: the job's end is waited for.

    The event has a `status`: `record`, `ended` (with the cluster's word for it as `state`) or `timeout`. A cluster that
    does not answer is asked again: the record may come all the same. A user who clears or marks the task while it is
    deferred ends the job.

    :param job: the job, as `Job.to_dict` gives it
    :param folder: where its result record will be, a path or a URI
    :param execution_id: the name of the attempt
    :param poll_interval_s: seconds between two looks
    :param deadline: POSIX time after which it is not waited for; None: for ever
    """

    def __init__(
        self,
        *,
        job: dict[str, Any],
        folder: str,
        execution_id: str,
        poll_interval_s: float,
        deadline: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = job
        self.folder = folder
        self.execution_id = execution_id
        self.poll_interval_s = poll_interval_s
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments of the constructor."""
        names = ("job", "folder", "execution_id", "poll_interval_s", "deadline")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until the job has ended, then say so once."""
        job = cluster.Job.of_dict(self.job)
        is_stored = validation.is_remote(self.folder)
        record = None if is_stored else result.path_of(Path(self.folder), self.execution_id)
        ended_at: float | None = None
        while True:
            # Files may be on slow mounts, and masters take their time; the loop belongs to all triggers.
            if record is not None and await asyncio.to_thread(record.is_file):
                yield _event({"status": "record"})
                return
            if self.deadline is not None and time.time() > self.deadline:
                yield _event({"status": "timeout"})
                return
            try:
                state = await asyncio.to_thread(cluster.state_of, job)
            except cluster.ClusterError as error:
                self.log.warning("%s is waited for all the same: %s", job, error)
                state = "UNKNOWN"
            if cluster.is_alive(state):
                ended_at = None
                await asyncio.sleep(self.poll_interval_s)
                continue
            ended_at = ended_at or time.monotonic()
            if is_stored or time.monotonic() - ended_at > min(_RECORD_TIMEOUT_S, 3 * self.poll_interval_s):
                yield _event({"status": "ended", "state": state})
                return
            await asyncio.sleep(min(1.0, self.poll_interval_s))

    async def on_kill(self) -> None:
        """End the job: the user has cleared or marked the task."""
        await asyncio.to_thread(cluster.kill, cluster.Job.of_dict(self.job))


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]

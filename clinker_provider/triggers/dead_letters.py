"""Waits for dead letters in the triggerer, without a worker slot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from clinker_provider import dead_letters
from clinker_provider.hooks import clinker_connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class DeadLettersTrigger(BaseTrigger):
    """Fires when dead-letter files hold enough entries.

    The event is `{"status": "found", "paths": [...], "count": n}` or `{"status": "error", "message": "..."}`.

    :param path: file or glob pattern, which may be a URI
    :param min_count: entries that are enough
    :param poke_interval_s: seconds between two looks
    :param store_conn_id: the connection with the credentials of the store that is looked into
    """

    def __init__(self, *, path: str, min_count: int, poke_interval_s: float, store_conn_id: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.path = path
        self.min_count = min_count
        self.poke_interval_s = poke_interval_s
        self.store_conn_id = store_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments of the constructor."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "path": self.path,
                "min_count": self.min_count,
                "poke_interval_s": self.poke_interval_s,
                "store_conn_id": self.store_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is enough, then say so once."""
        while True:
            try:
                # Files may be on slow mounts; the loop belongs to all triggers.
                found = await asyncio.to_thread(self._look)
            except (OSError, ValueError) as error:
                yield _event({"status": "error", "message": str(error)})
                return
            if found.count >= self.min_count:
                yield _event({"status": "found", "paths": list(found.paths), "count": found.count})
                return
            await asyncio.sleep(self.poke_interval_s)

    def _look(self) -> dead_letters.Found:
        return dead_letters.look(self.path, clinker_connection.files_of(self.store_conn_id))


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]

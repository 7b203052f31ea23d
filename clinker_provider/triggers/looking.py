"""Waits in the triggerer for a result record or metrics files, without a worker slot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from clinker_provider import looking
from clinker_provider.hooks import clinker_connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class LookingTrigger(BaseTrigger):
    """Fires when a look finds something: `{"status": "found", "value": …}` or `{"status": "error", "message": …}`.

    :param looks_for: `result` or `metrics`
    :param arguments: what that look is given
    :param poke_interval_s: seconds between two looks
    :param store_conn_id: the connection with the credentials of the store that is looked into
    """

    _LOOKS: dict[str, Callable[..., dict[str, Any] | None]] = {  # noqa: RUF012
        "result": looking.for_result,
        "metrics": looking.for_metrics,
    }

    def __init__(
        self, *, looks_for: str, arguments: dict[str, Any], poke_interval_s: float, store_conn_id: str | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.looks_for = looks_for
        self.arguments = arguments
        self.poke_interval_s = poke_interval_s
        self.store_conn_id = store_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments of the constructor."""
        names = ("looks_for", "arguments", "poke_interval_s", "store_conn_id")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something, then say so once."""
        while True:
            try:
                # Files may be on slow mounts; the loop belongs to all triggers.
                found = await asyncio.to_thread(self._look)
            except (OSError, ValueError) as error:
                yield TriggerEvent({"status": "error", "message": str(error)})  # type: ignore[no-untyped-call]
                return
            if found is not None:
                yield TriggerEvent({"status": "found", "value": found})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(self.poke_interval_s)

    def _look(self) -> dict[str, Any] | None:
        files = clinker_connection.files_of(self.store_conn_id)
        return self._LOOKS[self.looks_for](files, **self.arguments)

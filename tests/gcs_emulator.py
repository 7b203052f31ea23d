"""The emulator of Google Cloud Storage, with the conditions that it does not know: `python -m tests.gcs_emulator`.

It answers one request after the other, so between looking and writing nobody else writes. What it lacks of the real
store is said here: pages of lists are as long as the list, sources of a composition have no generations of their own
(added), conditions on generations are ignored (added), and a missing bucket has no message (added).
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

if TYPE_CHECKING:
    from collections.abc import Callable

_CONDITIONAL = (objects.insert, objects.compose, objects.get, objects.delete)


def _generation(storage: Any, bucket: str, name: str) -> str:
    try:
        return str(storage.get_file_obj(bucket, name)["generation"])
    except NotFound:
        return "0"


def _refuse(response: Any, status: HTTPStatus, message: str) -> None:
    response.status = status
    response.json({"error": {"code": status.value, "message": message}})


def _conditional(handler: Callable[..., None]) -> Callable[..., None]:
    def handle(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
        bucket = request.params["bucket_name"]
        if bucket not in storage.buckets:
            _refuse(response, HTTPStatus.NOT_FOUND, "The specified bucket does not exist.")
            return
        named = request.query.get("name", [""])[0] or (
            request.data["meta"]["name"] if handler is objects.insert else request.params["object_id"]
        )
        wanted, found = request.query.get("ifGenerationMatch"), _generation(storage, bucket, named)
        if wanted is not None and wanted[0] != found and not (request.method == "GET" and found == "0"):
            _refuse(response, HTTPStatus.PRECONDITION_FAILED, "At least one of the pre-conditions did not hold.")
            return
        if handler is objects.compose:
            sources = request.data["sourceObjects"]
            if len(sources) > 32:
                _refuse(response, HTTPStatus.BAD_REQUEST, "The number of source components exceeds the maximum (32)")
                return
            if any(each["generation"] != _generation(storage, bucket, each["name"]) for each in sources):
                _refuse(response, HTTPStatus.NOT_FOUND, "No such object")
                return
        handler(request, response, storage, *args, **kwargs)

    return handle


def main() -> None:
    """Serve until the standard input ends; the port is told first."""
    for _, handlers in emulator.HANDLERS:
        for method, handler in handlers.items():
            if handler in _CONDITIONAL:
                handlers[method] = _conditional(handler)
    server = emulator.create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    sys.stdout.write(f"{server._api._httpd.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

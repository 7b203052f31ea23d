"""The emulator of Google Cloud Storage, with features that it lacks: `python -m tests.gcs_emulator`.

It answers one request after the other, so no other request can write between a check and a write. The emulator differs
from the real store in these points, of which this module adds those marked with a plus:

- A list has a single page.
- The sources of a composition have no generations (+).
- Conditions on generations are ignored (+).
- A missing bucket has no message (+).
- Most of the S3-compatible protocol is missing, which `deltalake` uses (+).
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

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


def _xml(handle: Callable[..., None]) -> Callable[..., None]:
    """A handler of the second protocol, whose errors are XML."""

    def answer(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
        if request.params["bucket_name"] not in storage.buckets:
            _refuse_in_xml(response, HTTPStatus.NOT_FOUND, "NoSuchBucket")
            return
        try:
            handle(request, response, storage, *args, **kwargs)
        except NotFound:
            _refuse_in_xml(response, HTTPStatus.NOT_FOUND, "NoSuchKey")

    return answer


def _refuse_in_xml(response: Any, status: HTTPStatus, code: str) -> None:
    response.status = status
    response.write_file(f"<Error><Code>{code}</Code></Error>", "application/xml")


def _tell(response: Any, found: Any) -> None:
    """The headers of an object."""
    changed = datetime.fromisoformat(found["updated"]).astimezone(UTC)
    response["ETag"] = f'"{found["generation"]}"'
    response["x-goog-generation"] = str(found["generation"])
    response["Last-Modified"] = format_datetime(changed, usegmt=True)


@_xml
def _get(request: Any, response: Any, storage: Any) -> None:
    _tell(response, storage.get_file_obj(request.params["bucket_name"], request.params["object_id"]))
    objects.download(request, response, storage)


@_xml
def _put(request: Any, response: Any, storage: Any) -> None:
    bucket, name = request.params["bucket_name"], request.params["object_id"]
    wanted = request.get_header("x-goog-if-generation-match")
    if wanted is not None and wanted != _generation(storage, bucket, name):
        _refuse_in_xml(response, HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        return
    request._data = request.data or b""
    objects.xml_upload(request, response, storage)
    _tell(response, storage.get_file_obj(bucket, name))


@_xml
def _delete(request: Any, response: Any, storage: Any) -> None:
    objects.delete(request, response, storage)


@_xml
def _list(request: Any, response: Any, storage: Any) -> None:
    def said(name: str) -> str | None:
        return request.query.get(name, [None])[0]

    found, prefixes = storage.get_file_list(request.params["bucket_name"], said("prefix"), said("delimiter"), None)
    after = said("start-after") or ""
    entries = "".join(
        f"<Contents><Key>{escape(each['name'])}</Key><Size>{each['size']}</Size><ETag>{each['generation']}</ETag>"
        f"<LastModified>{datetime.fromisoformat(each['updated']).astimezone(UTC).isoformat()}</LastModified></Contents>"
        for each in sorted(found, key=lambda each: str(each["name"]))
        if each["name"] > after
    )
    folders = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in prefixes)
    response.write_file(f"<ListBucketResult>{entries}{folders}</ListBucketResult>", "application/xml")


class _Response(emulator.Response):  # type: ignore[misc]
    """An answer, of which those to HEAD have headers alone."""

    def close(self) -> None:
        if self._handler.command != "HEAD":
            super().close()
            return
        self._handler.send_response(self.status.value, self.status.phrase)
        for name, value in {**self._headers, "Content-Length": str(len(self._content))}.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


def _add_second_protocol() -> None:
    bucket = r"/(?P<bucket_name>[-.\w%]+)"
    of_objects = {"GET": _get, "HEAD": _get, "PUT": _put, "DELETE": _delete}
    known = emulator.HANDLERS[:-1]
    emulator.HANDLERS = (*known, (f"^{bucket}$", {"GET": _list}), (rf"^{bucket}/(?P<object_id>.+)$", of_objects))
    emulator.Response = _Response
    emulator.RequestHandler.do_HEAD = lambda handler: emulator.Router(handler).handle("HEAD")


def main() -> None:
    """Serve until the standard input ends; the port is told first."""
    for _, handlers in emulator.HANDLERS:
        for method, handler in handlers.items():
            if handler in _CONDITIONAL:
                handlers[method] = _conditional(handler)
    _add_second_protocol()
    server = emulator.create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    sys.stdout.write(f"{server._api._httpd.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

"""The messages between a client and a warm driver over their socket.

A client sends its streams and its folder as file descriptors with the length of its request, then the request, then a
byte for each signal that it receives. A driver answers with a byte, whether it accepts the command, and finally with
the command's exit status.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass

#: A driver's first byte.
TAKEN, BUSY = b"+", b"-"
_LENGTH_BYTES = 8
_STATUS_BYTES = 4
#: Standard input, output and error, and the working folder.
_DESCRIPTORS = 4
#: The environment and the arguments of a process are a few megabytes at most.
_MOST_BYTES = 1 << 26


class Unreadable(ValueError):
    """A message is not a request."""


@dataclass(frozen=True)
class Request:
    """A command, and the process that it is run for.

    Args:
        argv: the arguments of `clinker`; none asks the driver to end, after the command that it is running.
        environment: the environment.
        mask: the mask for the rights of new files.
    """

    argv: list[str]
    environment: dict[str, str]
    mask: int


def send_request(connection: socket.socket, request: Request, descriptors: list[int]) -> None:
    """Send a request, with the streams and the working folder of its command.

    Raises:
        OSError: the driver has gone.
    """
    encoded = json.dumps(asdict(request)).encode("utf-8", "surrogatepass")
    socket.send_fds(connection, [len(encoded).to_bytes(_LENGTH_BYTES)], descriptors)
    connection.sendall(encoded)


def receive_request(connection: socket.socket) -> tuple[Request, list[int]]:
    """A request, and its streams and folder, which are open.

    Raises:
        OSError: the client has gone.
        Unreadable: it is none.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, _DESCRIPTORS)
    try:
        size = int.from_bytes(head)
        if len(head) != _LENGTH_BYTES or len(descriptors) != _DESCRIPTORS or size > _MOST_BYTES:
            raise Unreadable("no request")
        fields = json.loads(_exactly(connection, size).decode("utf-8", "surrogatepass"))
        return Request(**fields), descriptors
    except (ValueError, TypeError, OSError) as problem:
        close(descriptors)
        raise problem if isinstance(problem, OSError) else Unreadable(str(problem)) from None


def close(descriptors: list[int]) -> None:
    """Close the descriptors of a request."""
    for descriptor in descriptors:
        os.close(descriptor)


def send_status(connection: socket.socket, status: int) -> None:
    """Send the exit status of a command.

    Raises:
        OSError: the client has gone.
    """
    connection.sendall(status.to_bytes(_STATUS_BYTES, signed=True))


def receive_status(connection: socket.socket) -> int | None:
    """The exit status of a command; None when the driver has died under it."""
    try:
        return int.from_bytes(_exactly(connection, _STATUS_BYTES), signed=True)
    except (OSError, EOFError):
        return None


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(min(size - len(found), 1 << 20))
        if not more:
            raise ConnectionResetError("the other end has gone")
        found += more
    return bytes(found)

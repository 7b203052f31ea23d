"""A server of S3 behind a proxy that kills a process at a request: `python -m tests.attack.killing_store`.

It prints the proxy's endpoint, and ends when its input does. These paths are for whoever attacks; each is answered with
the number of requests since the last `/!forget`:

    /!forget                        count from 0, and kill nobody
    /!pid?pid=PID                   whom to kill
    /!request?at=NUMBER&signal=S    send a signal before a request reaches the store
    /!answer?at=NUMBER&signal=S     send it once the store has done what the request asks
    /!lost?at=NUMBER&signal=S       kill nobody: close the connection without the store's answer
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from tests.stores.faults import Fault, Request, between


@dataclass
class Killer:
    """What happens to which request."""

    way: str = ""
    at: int = -1
    signal: int = 0
    pid: int = 0
    count: int = 0

    def rule(self, request: Request) -> Fault | None:
        """See `Proxy`."""
        parts = urlsplit(request.path)
        if not parts.path.startswith("/!"):
            self.count += 1
            if self.count != self.at:
                return None
            if self.way == "lost":
                return Fault(after_cut=True)
            return Fault(before=self.kill) if self.way == "request" else None
        told, count = dict(parse_qsl(parts.query)), self.count
        if parts.path == "/!pid":
            self.pid = int(told["pid"])
        elif parts.path == "/!forget":
            self.way, self.at, self.pid, self.count = "", -1, 0, 0
        else:
            self.way, self.at, self.signal = parts.path[2:], int(told["at"]), int(told["signal"])
        return Fault(status=200, body=str(count))

    def kill(self) -> None:
        """Send the signal, if somebody is to get it."""
        if self.pid:
            os.kill(self.pid, self.signal)

    def edit(self, request: Request, data: bytes) -> bytes:
        """See `Proxy`."""
        if self.way == "answer" and self.count == self.at:
            self.kill()
        return data


def main() -> None:
    """The command."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    killer = Killer()
    with between(f"http://{host}:{port}") as proxy:
        proxy.rule, proxy.edit = killer.rule, killer.edit
        print(proxy.endpoint, flush=True)
        sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

"""Detects absent masters of a standalone cluster before Spark does, which takes two minutes.

Spark connects in threads of its own, and its final error names no address. So the address is tried first.
"""

from __future__ import annotations

import re
import socket
import time
from urllib.parse import urlsplit

from spark_jobs.contract import ExitCode
from spark_jobs.execute import logs
from spark_jobs.execute.spark import executors
from spark_jobs.execute.verdict import RunFailed

#: The time that a run waits for a master, as Spark writes times; 0 is for ever.
LIMIT_SETTING = "spark.clinker.masterTimeout"
LIMIT_S = 30.0
ADVICE = (
    "see whether it runs a Spark of the same version, and whether spark.authenticate and its secret are the same here"
)
_SCHEME = "spark://"
_PAUSE_S, _ANSWER_S, _NOTICE_EVERY_S = 1.0, 5.0, 10.0
_GIVEN_UP = re.compile(r"All masters are unresponsive|stopped SparkContext|SparkContext was shut down|Master removed")


def is_given_up(text: str) -> bool:
    """True if Spark has ended an application that no master has taken."""
    return _GIVEN_UP.search(text) is not None


def addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of a standalone master and its standbys; none for other masters.

    Raises:
        RunFailed: it is none that Spark could reach.

    >>> addresses("spark://a:7077,b:7078")
    [('a', 7077), ('b', 7078)]
    """
    if not master.startswith(_SCHEME):
        return []
    return [_address(each) for each in master.removeprefix(_SCHEME).split(",")]


def _address(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(_SCHEME + text)
        host, port = parts.hostname, parts.port
        is_plain = "@" not in text and not (parts.path or parts.query or parts.fragment)
    except ValueError:
        host, port, is_plain = None, None, False
    if not host or not port or not is_plain:
        wanted = "spark://HOST:PORT, several as spark://HOST:PORT,HOST:PORT"
        raise RunFailed(ExitCode.CONFIG, "E901", f"the master's address is none that Spark takes: write {wanted}")
    return host, port


def display_address(master: str) -> str:
    """A master as messages name it."""
    return f"the Spark master {master}"


def reach(master: str, limit: str | None) -> None:
    """Return when a standalone master takes connections; at once for other masters.

    Args:
        master: Spark's master.
        limit: the value of `LIMIT_SETTING`.

    Raises:
        RunFailed: none has for too long, or the address is none.
    """
    known = addresses(master)
    limit_s = executors.limit_s(limit, LIMIT_SETTING, LIMIT_S) if known else 0
    began, noticed_at = time.monotonic(), 0.0
    while known:
        problem = ""
        for address in known:
            try:
                with socket.create_connection(address, _ANSWER_S):
                    return
            except OSError as error:
                problem = error.strerror or str(error)
        now = time.monotonic()
        left = began + limit_s - now
        if limit_s and left <= 0:
            waits = f"--conf {LIMIT_SETTING}=… waits longer than {limit_s:.0f} s"
            advice = f"see whether it runs, and whether the address is right; {waits}"
            raise RunFailed(ExitCode.IO, "E901", f"{display_address(master)} does not answer: {problem}; {advice}")
        if now - noticed_at >= _NOTICE_EVERY_S:
            noticed_at = now
            until = f" for {left:.0f} s" if limit_s else ""
            logs.LOG.warning("%s does not answer: %s; trying again%s", display_address(master), problem, until)
        time.sleep(min(_PAUSE_S, max(left, 0.0)) if limit_s else _PAUSE_S)

"""Sessions of Spark Connect: the address, the wait for an endpoint that does not answer, and its errors."""

from __future__ import annotations

import atexit
import re
import time
import warnings
from functools import partial
from typing import Any

from spark_jobs.execute import logs
from spark_jobs.execute.spark import masking

#: The time in seconds for retries of a call that the endpoint did not take. PySpark retries silently for over ten
#: minutes.
RETRY_LIMIT_S = 30.0
_FIRST_PAUSE_MS = 200
_LONGEST_PAUSE_MS = 5000
#: The first failure is logged, and then one now and then.
_NOTICE_EVERY_S = 10.0
#: A host that vanishes without a word is found by asking the connection; a server's rule is no more than once in five
#: minutes.
_KEEPALIVE_MS = 310_000
_KEEPALIVE_TIMEOUT_MS = 20_000
_STATUS = re.compile(r"status = StatusCode\.(\w+)")
_DETAILS = re.compile(r'details = "(.*?)"\s*\n')
#: Status codes of transient errors: the endpoint starts, or its machine does.
_TRANSIENT = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "RESOURCE_EXHAUSTED", "INTERNAL"}
_REFUSED = {"UNAUTHENTICATED", "PERMISSION_DENIED"}
#: The answers of a server that does not know the session (any more).
_SESSION_LOST = re.compile(r"INVALID_HANDLE\.(SESSION_\w+|OPERATION_NOT_FOUND)|RESPONSE_ALREADY_RECEIVED")


def is_session(spark: object) -> bool:
    """True if a session talks to an endpoint, so that this process has no JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def open_session(url: str) -> Any:
    """A session of an endpoint, which has answered.

    Raises:
        Exception: what PySpark raises; `reason` says it in words.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    options = {"grpc.keepalive_time_ms": _KEEPALIVE_MS, "grpc.keepalive_timeout_ms": _KEEPALIVE_TIMEOUT_MS}
    spark: Any = SparkSession.builder.channelBuilder(DefaultChannelBuilder(url, [*options.items()])).getOrCreate()
    client = spark.client
    # Its last call, for models that a run has none of, would wait for an endpoint that is gone.
    atexit.unregister(client._on_exit)
    client.set_retry_policies([_policy(masking.masked_address(url))])
    # The policy shows what PySpark would warn of.
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    spark.version  # noqa: B018 - the first call that reaches the endpoint
    atexit.register(partial(_released, client))
    return spark


def _released(client: Any) -> None:
    """The server need not keep the session for an hour; one that is away has none."""
    client.set_retry_policies([])
    try:
        client.release_session()
    except Exception as error:  # noqa: BLE001 - the run has ended
        logs.LOG.debug("the session could not be released: %s", error)


def _policy(url: str) -> Any:
    """The retry policy: which errors are retried, and for how long."""
    from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicyState

    class State(RetryPolicyState):  # type: ignore[misc]  # PySpark is read without its types
        began: float | None = None

        def next_attempt(self, exception: BaseException | None = None) -> int | None:
            now = time.monotonic()
            self.began = self.began or now
            left = self.began + RETRY_LIMIT_S - now
            if left <= 0:
                return None
            notice.show(exception, left)
            pause = super().next_attempt(exception)
            return None if pause is None else min(pause, max(int(left * 1000), 1))

    class Policy(DefaultPolicy):  # type: ignore[misc]
        def to_state(self) -> State:
            return State(self)

    notice = _WaitingNotice(url)
    return Policy(
        max_retries=None,
        initial_backoff=_FIRST_PAUSE_MS,
        backoff_multiplier=2.0,
        max_backoff=_LONGEST_PAUSE_MS,
        jitter=0,
        max_server_retry_delay=_LONGEST_PAUSE_MS,
    )


class _WaitingNotice:
    """Says that an endpoint is waited for, now and then: several calls may wait at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._noticed_at: float | None = None

    def show(self, error: BaseException | None, left: float) -> None:
        now = time.monotonic()
        if self._noticed_at is None or now - self._noticed_at >= _NOTICE_EVERY_S:
            self._noticed_at = now
            why = message_of(error) if error else "no answer"
            logs.LOG.warning("Spark Connect at %s: %s; trying again for %d s", self._url, why, left)


def message_of(error: BaseException) -> str:
    """The message of an endpoint, or of a proxy on the way to it, as one line without gRPC's frame."""
    text = str(error)
    status, details = _STATUS.search(text), _DETAILS.search(text)
    if status and details:
        return f"{status[1]}: {details[1]}"
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def status(error: BaseException) -> str:
    """The word that gRPC has for an error, empty when it has none."""
    if found := _STATUS.search(str(error)):
        return found[1]
    for name in ("getGrpcStatusCode", "code"):
        ask = getattr(error, name, None)
        if callable(ask):
            return str(getattr(ask(), "name", ""))
    return ""


def is_transient(error: BaseException) -> bool:
    """True if the same call may well succeed later."""
    return status(error) in _TRANSIENT and not _speaks_no_tls(error)


def is_lost(error: BaseException) -> bool:
    """True if the endpoint or its state of the session is gone."""
    return status(error) == "UNAVAILABLE" or _SESSION_LOST.search(str(error)) is not None


def _speaks_no_tls(error: BaseException) -> bool:
    return "WRONG_VERSION_NUMBER" in str(error)


def reason(url: str, error: BaseException) -> str:
    """Why there is no session, and what to do."""
    where = f"the Spark Connect endpoint {masking.masked_address(url)}"
    if status(error) in _REFUSED:
        advice = f"put the token into the environment variable {masking.TOKEN_VARIABLE}"
        return f"{where} refuses this client: {message_of(error)}; {advice}"
    if _speaks_no_tls(error):
        return f"{where} does not speak TLS, which a token or use_ssl=true asks for ({message_of(error)})"
    if status(error) in _TRANSIENT:
        return f"{where} does not answer: {message_of(error)}"
    return f"{where} cannot be used: {message_of(error)}"

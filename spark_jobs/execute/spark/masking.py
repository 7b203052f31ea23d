"""What of Spark's addresses and settings nobody may see: tokens, passwords, keys (decision 7).

A secret is known by where it stands, in an address `sc://…`, and by its value wherever that turns up: PySpark repeats
addresses in its own words, and so do log lines and tracebacks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.plan.options import RunOptions

HIDDEN = "***"
#: Where Spark itself, server and client, takes the token of Spark Connect from.
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
#: The parameter of an address that says who somebody is; all others may be secrets of some proxy.
_SHOWN_PARAMETER = "user_id"
#: Parameters that Spark itself takes and that are no secrets; their values are words that a text may have by chance.
_OPEN_PARAMETERS = {_SHOWN_PARAMETER, "use_ssl", "user_agent", "session_id"}
_ADDRESS = re.compile(r"(?P<scheme>sc://)(?P<user>[^\s/;@]*@)?(?P<host>[^\s;]*?);(?P<parameters>[^\s'\"`,)\]}]*)")
_USER = re.compile(r"(?P<scheme>sc://)[^\s/;@]*@")
#: Names of settings whose values are secrets; Spark's own `spark.redaction.regex` knows the first four.
_SECRET_SETTING = re.compile(
    r"secret|password|token|access[._-]?key|passwd|pwd|credential|jwt|signature|private|\bsas\b"
    r"|(account|api|storage|encryption|shared)[._-]?key",
    re.IGNORECASE,
)
#: Values of such settings that are none: switches, numbers, times.
_NO_SECRET = re.compile(r"true|false|\d+[a-z]*", re.IGNORECASE)
#: Shorter texts would turn up in words that have nothing to do with them.
_SHORTEST = 4


@dataclass(frozen=True)
class Secrets:
    """The secrets that a run was given for Spark."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: RunOptions, environ: Mapping[str, str] = os.environ) -> Secrets:
        """What the options and the environment have."""
        found = {
            *_in_address(options.remote or ""),
            *_in_address(environ.get("SPARK_REMOTE", "")),
            *_in_settings(options.spark_conf),
            environ.get(TOKEN_VARIABLE, ""),
        }
        long = {value for value in found if len(value) >= _SHORTEST}
        # A secret that is part of another one must not cut it in two.
        return cls(tuple(sorted(long, key=lambda value: (-len(value), value))))

    def masked(self, text: str) -> str:
        """A text without them.

        >>> Secrets(("s3cr3t",)).masked("sc://host:1/;token=s3cr3t;user_id=ada: s3cr3t is refused")
        'sc://host:1/;token=***;user_id=ada: *** is refused'
        """
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return masked_address(text)


def is_secret_setting(name: str) -> bool:
    """Whether a setting of Spark is called like a secret."""
    return _SECRET_SETTING.search(name) is not None


def masked_address(text: str) -> str:
    """A text in which addresses of Spark Connect have only their host, port and user."""
    return _ADDRESS.sub(_masked, _USER.sub(rf"\g<scheme>{HIDDEN}@", text))


def _masked(found: re.Match[str]) -> str:
    pairs = found["parameters"].split(";")
    shown = ";".join(pair and _masked_pair(pair) for pair in pairs)
    return f"{found['scheme']}{found['user'] or ''}{found['host']};{shown}"


def _masked_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not equals:
        return HIDDEN
    # What follows an address in a sentence is no part of it.
    end = value[len(value.rstrip(":.")) :]
    return f"{name}={value if name == _SHOWN_PARAMETER else HIDDEN + end}"


def _in_address(address: str) -> Iterator[str]:
    host, _, parameters = address.partition(";")
    yield from _spellings(host.rpartition("@")[0].removeprefix("sc://"))
    for pair in parameters.split(";"):
        name, equals, value = pair.partition("=")
        if name not in _OPEN_PARAMETERS:
            yield from _spellings(value if equals else name)


def _in_settings(settings: Mapping[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        if is_secret_setting(name) and not _NO_SECRET.fullmatch(value):
            yield from _spellings(value)
        elif "sc://" in value:
            yield from _in_address(value)


def _spellings(value: str) -> Iterator[str]:
    """As it is written, decoded, and encoded."""
    yield value
    yield unquote(value)
    yield quote(unquote(value), safe="")

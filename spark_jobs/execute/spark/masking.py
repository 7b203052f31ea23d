"""Hides the secrets in Spark's addresses and settings: tokens, passwords, keys.

A secret is known by where it stands, in an address `sc://…`, and by its value wherever that turns up: PySpark repeats
addresses in its own words, and so do log lines and tracebacks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import credentials
from spark_jobs.credentials import HIDDEN
from spark_jobs.scan import catalogs, connections

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from spark_jobs.plan.options import RunOptions
    from spark_jobs.plan.plan import Plan

#: The variable from which Spark itself, server and client, takes the token of Spark Connect.
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
#: The parameter of an address that says who somebody is; all others may be secrets of some proxy.
_SHOWN_PARAMETER = "user_id"
#: Parameters that Spark itself takes and that are no secrets; their values are words that a text may have by chance.
_OPEN_PARAMETERS = {_SHOWN_PARAMETER, "use_ssl", "user_agent", "session_id"}
_ADDRESS = re.compile(r"(?P<scheme>sc://)(?P<user>[^\s/;@]*@)?(?P<host>[^\s;]*?);(?P<parameters>[^\s'\"`,)\]}]*)")
_USER = re.compile(r"(?P<scheme>sc://)[^\s/;@]*@")


@dataclass(frozen=True)
class Secrets(credentials.Secrets):
    """The secrets that a run was given: for Spark, and as credentials of its network sources."""

    @classmethod
    def of_run(cls, options: RunOptions, plan: Plan | None = None, environ: Mapping[str, str] = os.environ) -> Self:
        """The secrets in the options, the plan and the environment."""
        endpoints = [step.endpoint for step in plan.sources.values() if step.endpoint] if plan else []
        return cls.of(
            [
                *_in_address(options.remote or ""),
                *_in_address(environ.get("SPARK_REMOTE", "")),
                *_in_settings(options.spark_conf),
                *credentials.within(options.master or ""),
                environ.get(TOKEN_VARIABLE, ""),
                *connections.secrets(environ),
                *catalogs.secrets(environ),
                *(secret for endpoint in endpoints for secret in endpoint.secrets),
            ]
        )

    def masked(self, text: str) -> str:
        """The text with all secrets masked.

        >>> Secrets(("s3cr3t",)).masked("sc://host:1/;token=s3cr3t;user_id=ada: s3cr3t is refused")
        'sc://host:1/;token=***;user_id=ada: *** is refused'
        """
        return masked_address(super().masked(text))


def is_secret_setting(name: str, value: str) -> bool:
    """True if a setting of Spark is a secret, or has one in it."""
    return credentials.is_secret_setting(name) or next(credentials.within(value), None) is not None


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
    # Punctuation after an address in a sentence is no part of it.
    end = value[len(value.rstrip(":.")) :]
    return f"{name}={value if name == _SHOWN_PARAMETER else HIDDEN + end}"


def _in_address(address: str) -> Iterator[str]:
    host, _, parameters = address.partition(";")
    yield host.rpartition("@")[0].removeprefix("sc://")
    for pair in parameters.split(";"):
        name, equals, value = pair.partition("=")
        if name not in _OPEN_PARAMETERS:
            yield value if equals else name


def _in_settings(settings: Mapping[str, str]) -> Iterator[str]:
    yield from credentials.of_settings(settings)
    for value in settings.values():
        if "sc://" in value:
            yield from _in_address(value)

"""Checks and freezes `transport:` of a source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, assert_never

from spark_jobs.diagnostics import codes
from spark_jobs.formats import registry
from spark_jobs.nodes.source.model import AuthScheme, TransportKind
from spark_jobs.scan.network import addresses
from spark_jobs.scan.network.endpoint import MAX_TIMEOUT_S, Credential, Endpoint, Pagination, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.model import Config
    from spark_jobs.nodes.source.model import AuthConfig, SourceConfig, TransportConfig

#: A code, a message, the path of the value below `config:`, and help.
Problem = tuple[Any, str, tuple[str | int, ...], str | None]

#: The required and the optional keys of each choice.
_PAGINATION: dict[Strategy, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Strategy.NONE: ((), ()),
    Strategy.OFFSET: (("limit",), ("offset_param", "limit_param")),
    Strategy.CURSOR_TOKEN: (("cursor_param", "next_token_pointer"), ()),
    Strategy.LINK_HEADER: ((), ()),
}
_AUTH: dict[AuthScheme, tuple[tuple[str, ...], tuple[str, ...]]] = {
    AuthScheme.NONE: ((), ()),
    AuthScheme.BEARER: (("token",), ()),
    AuthScheme.HEADER: (("name", "value"), ()),
}
#: The settings that select files.
OF_FILES = ("exclude", "modified_after", "modified_before", "min_size", "max_size", "files")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def problems(config: SourceConfig, name: str) -> Iterator[Problem]:
    """Problems of a network source."""
    transport = config.transport
    if config.matchers:
        message = f"source '{name}': rest transport declares file matcher(s) ({', '.join(config.matchers)})"
        yield codes.E219, message, (config.matchers[0],), "a network source has a `url` only"
    for key in OF_FILES:
        if key in config.model_fields_set:
            message = f"source '{name}': `{key}` chooses among files, and rest transport has none"
            yield codes.E219, message, (key,), f"remove `{key}:`"
    if "compression" in (config.options or {}):
        message = (
            f"source '{name}': `compression` says how files are packed; a response says so in its Content-Encoding"
        )
        yield codes.E007, message, ("options", "compression"), "remove `compression:`"
    if not registry.named(config.type).comes_in_pages:
        possible = " or ".join(each.name for each in registry.formats().values() if each.comes_in_pages)
        message = (
            f"source '{name}': rest transport decodes response bodies through the declared format, which must be "
            f"{possible} (got {config.type})"
        )
        yield codes.E220, message, ("type",), None
    for key in ("url", "max_pages"):
        if getattr(transport, key) is None:
            yield _missing("transport", key)
    yield from _choice_problems(transport.pagination, "pagination", "strategy", _PAGINATION)
    yield from _choice_problems(transport.auth, "auth", "scheme", _AUTH)
    yield from _value_problems(transport)
    yield from _header_problems(transport.auth)


def strays(transport: TransportConfig) -> Iterator[Problem]:
    """Report settings of a network source on a source that reads files."""
    for key in sorted(transport.model_fields_set - {"kind"}):
        yield _meaningless(("transport", key), "kind", TransportKind.FILE)


def _choice_problems(config: Config, key: str, chooser: str, known: Any) -> Iterator[Problem]:
    """Problems of missing keys that a choice needs, and of keys that belong to another choice."""
    chosen = getattr(config, chooser)
    needed, possible = known[chosen]
    for name in needed:
        if getattr(config, name) is None:
            yield _missing("transport", key, name)
    for name in type(config).model_fields:
        if name in config.model_fields_set and name not in (chooser, *needed, *possible):
            yield _meaningless(("transport", key, name), chooser, chosen)


def _missing(*path: str) -> Problem:
    return codes.E006, f"the key `{path[-1]}` is required here", path, f"add `{path[-1]}:`"


def _meaningless(path: tuple[str, ...], chooser: str, chosen: str) -> Problem:
    return codes.E005, f"the key `{path[-1]}` has no meaning with `{chooser}: {chosen}`", path, None


def _value_problems(transport: TransportConfig) -> Iterator[Problem]:
    if transport.url is not None and (reason := addresses.problem(transport.url)):
        yield codes.E007, f"`url`: the address {reason}", ("transport", "url"), None
    if transport.timeout_secs > MAX_TIMEOUT_S:
        message = f"`timeout_secs`: must be at most {MAX_TIMEOUT_S}, which is a day"
        yield codes.E007, message, ("transport", "timeout_secs"), None
    pointer = transport.pagination.next_token_pointer
    if pointer is not None and not pointer.startswith("/"):
        path = ("transport", "pagination", "next_token_pointer")
        yield codes.E007, "`next_token_pointer`: a JSON pointer begins with `/`", path, "write it like `/meta/next`"


def _header_problems(auth: AuthConfig) -> Iterator[Problem]:
    if auth.name is not None and not _HEADER_NAME.fullmatch(auth.name):
        yield codes.E007, "`name`: is not a header name", ("transport", "auth", "name"), None
    for key in ("token", "value"):
        text = getattr(auth, key)
        if text is not None and not (text.isascii() and text.isprintable()):
            message = f"`{key}`: contains a character that headers cannot have, such as a line end"
            yield codes.E007, message, ("transport", "auth", key), "check its environment variable"


def endpoint(transport: TransportConfig) -> Endpoint | None:
    """The endpoint of a network source; None for files."""
    if transport.kind is TransportKind.FILE:
        return None
    paging = transport.pagination
    return Endpoint(
        url=transport.url or "",
        max_pages=transport.max_pages or 1,
        max_records=transport.max_records,
        retries=transport.retries,
        timeout_s=float(transport.timeout_secs),
        pagination=Pagination(
            strategy=paging.strategy,
            offset_param=paging.offset_param,
            limit_param=paging.limit_param,
            limit=paging.limit or 1,
            cursor_param=paging.cursor_param or "",
            next_token_pointer=paging.next_token_pointer or "",
        ),
        credential=_credential(transport.auth),
        hosts=tuple(transport.hosts or ()),
    )


def _credential(auth: AuthConfig) -> Credential | None:
    scheme: AuthScheme = auth.scheme
    match scheme:
        case AuthScheme.NONE:
            return None
        case AuthScheme.BEARER:
            return Credential("Authorization", f"Bearer {auth.token or ''}")
        case AuthScheme.HEADER:
            return Credential(auth.name or "", auth.value or "")
        case _ as never:
            assert_never(never)

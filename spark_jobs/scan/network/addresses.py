"""Addresses of pages: how they are built, and which parts of them may be shown.

An address is shown in messages, dead letters, metrics and `$source.path`. Parts that look like a secret are
replaced by `***`: user names and passwords, the values of parameters with the name of a secret, long opaque values, and
the source's own credential anywhere in the address.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, unquote_plus, urljoin, urlsplit

from spark_jobs.credentials import HIDDEN, SHORTEST, is_secret_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Characters of a parameter's value from which on it is taken for a key or a signature.
OPAQUE_LENGTH = 24
#: A character in a JSON text, by its number.
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Characters that a parameter's name may have as they are; `page[offset]` is usual.
_NAME_SAFE = "-._~[]$"


def problem(url: str) -> str | None:
    """Why an address is unusable for a source, in words that do not repeat it; None if it is usable."""
    if any(character.isspace() or not character.isprintable() for character in url):
        return "has white space or control characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is no address"
    if parts.scheme.lower() not in _DEFAULT_PORTS:
        return "must begin with `http://` or `https://`"
    if not parts.hostname or port == 0:
        return "names no host"
    if parts.username is not None or parts.password is not None:
        return "has a user name or password: credentials go under `auth:`"
    return None


def with_parameters(url: str, parameters: Iterable[tuple[str, str]]) -> str:
    """The address with further parameters after its own; values are percent-encoded."""
    base = url.partition("#")[0]
    added = "&".join(f"{quote(name, safe=_NAME_SAFE)}={quote(value, safe='')}" for name, value in parameters)
    if "?" not in base:
        return f"{base}?{added}"
    return f"{base}{added}" if base.endswith(("?", "&")) else f"{base}&{added}"


def resolved(base: str, link: str) -> str:
    """The address that a link on the page `base` leads to."""
    try:
        return urljoin(base, link.strip().replace(" ", "%20")).partition("#")[0]
    except ValueError:
        return link


def is_same_place(url: str, home_url: str) -> bool:
    """True if an address has the same host and port as another: a credential for one may be sent to the other.

    From `http` to `https` on the usual ports is the same host, better protected.
    """
    target, home = _origin(url), _origin(home_url)
    return target == home or (
        target[1] == home[1] and (home[0], home[2], target[0], target[2]) == ("http", 80, "https", 443)
    )


def is_downgrade(url: str, home_url: str) -> bool:
    """True if an address gives up the protection that another has."""
    return _origin(home_url)[0] == "https" and _origin(url)[0] == "http"


def is_listed(url: str, hosts: Iterable[str]) -> bool:
    """True if an address is of one of these hosts, `host` (on its usual port) or `host:port`."""
    scheme, host, port = _origin(url)
    names = {f"{host}:{port}", f"[{host}]:{port}"}
    if port == _DEFAULT_PORTS.get(scheme):
        names |= {host, f"[{host}]"}
    return not names.isdisjoint(name.lower() for name in hosts)


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        return scheme, (parts.hostname or "").lower(), parts.port or _DEFAULT_PORTS.get(scheme, 0)
    except ValueError:
        return "", url, 0


def display_url(url: str, secrets: Sequence[str] = ()) -> str:
    """The address as everybody may see it, without what looks like a secret and without a fragment.

    >>> display_url("https://me:pw@shop.example/orders?page=2&api_key=abc")
    'https://***@shop.example/orders?page=2&api_key=***'
    """
    base, mark, query = url.partition("#")[0].partition("?")
    scheme, slashes, rest = base.partition("//")
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = f"{HIDDEN}@{host.rpartition('@')[2]}"
    pairs = "&".join(_shown_pair(pair) for pair in query.split("&")) if query else ""
    text = masked(f"{scheme}{slashes}{host}{slash}{path}{mark}{pairs}", secrets)
    return "".join(character if character.isprintable() else "?" for character in text)


def _shown_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not equals:
        return HIDDEN if len(name) >= OPAQUE_LENGTH else name
    return f"{name}={HIDDEN if is_secret_parameter(name) or len(value) >= OPAQUE_LENGTH else value}"


def secrets_in(url: str) -> tuple[str, ...]:
    """The secret texts in an address, as they are written and as a server reads them."""
    base, _, query = url.partition("#")[0].partition("?")
    user = base.partition("//")[2].partition("/")[0].rpartition("@")[0]
    found = [*user.split(":")]
    for name, equals, value in (pair.partition("=") for pair in query.split("&")):
        text = value if equals else name
        if (equals and is_secret_parameter(name)) or len(text) >= OPAQUE_LENGTH:
            found.append(text)
    spellings = (spelling for text in found for spelling in (text, unquote(text), unquote_plus(text)))
    return tuple(dict.fromkeys(spelling for spelling in spellings if len(spelling) >= SHORTEST))


def hides(text: str, secrets: Sequence[str]) -> bool:
    """True if a text holds a secret in a spelling that is not replaced: with blanks, escaped as in JSON, encoded."""
    plain = _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)
    plain = "".join(html.unescape(unquote(plain)).split())
    return any("".join(secret.split()) in plain for secret in secrets if len(secret) >= SHORTEST)


def masked(text: str, secrets: Sequence[str]) -> str:
    """A text without some secrets, as they are written and percent-encoded."""
    for secret in secrets:
        for spelling in (secret, quote(secret, safe=""), quote(secret)):
            text = text.replace(spelling, HIDDEN)
    return text

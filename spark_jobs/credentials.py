"""Which names and which texts are secrets: the one rule, for variables, settings, parameters, columns and log lines.

A secret is known by the name that it stands under, or by its form: the password of a URL, a `Bearer` header, a `-D`
option of a JVM. Whoever was given one hides its value wherever it turns up, and hides what has such a form in texts
of others. Names are read word by word, whatever separates the words: `API_KEY`, `api-key`, `apiKey` and `api.key` are
one name, and a `keyboard` has no key. Standard library only.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

HIDDEN = "***"
#: Shorter values turn up in words that have nothing to do with them: they are hidden in their places alone.
SHORTEST = 4

#: `apiKey`, `AWSAccessKeyId`, `api_key`, `page[key]`: where one word ends and the next begins.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
#: Words for secrets, also as a part of a longer word: `keyPassword`, `dbpassword`.
_SECRET_PARTS = re.compile(
    r"passwor[dt]|passwd|passphrase|secret|credential|authorization|connectionstring|bearer|^jwt|jwt$"
    r"|(api|access|account|private|signing|encryption|decryption|shared|storage|master|auth)key"
    r"|(auth|access|api|session|refresh|bearer|security|id)tokens?$"
)
_SECRET_WORDS = frozenset({"token", "tokens", "private", "cred", "creds", "jwt"})
#: A key that opens something. Keys of records (`primary_key`, `customer_key`) are none.
_KEYS_OF = frozenset(
    {
        "api", "access", "account", "private", "secret", "signing", "sign", "encryption", "encrypt", "decryption",
        "crypto", "cipher", "shared", "storage", "master", "auth", "authentication", "authorization", "service",
        "sas", "ssh", "pgp", "gpg", "rsa", "aes", "hmac", "fernet", "jwt", "subscription", "deploy", "webhook",
        "license", "admin", "root", "client", "session", "functions", "function", "host",
    }
)  # fmt: skip
#: Words that follow each other in names of secrets.
_SECRET_PAIRS = frozenset(
    {
        ("azure", "sas"), ("sas", "url"), ("sas", "uri"), ("access", "signature"), ("amz", "signature"),
        ("basic", "auth"), ("redis", "auth"), ("proxy", "auth"), ("http", "auth"), ("auth", "header"),
        ("set", "cookie"), ("session", "cookie"),
    }
)  # fmt: skip
#: Last words that a name of a secret has after the name of its owner; alone they say nothing (`PWD` is a folder).
_SECRET_ENDS = frozenset({"pwd", "pass", "sas"})
#: Ordinary words before `pass`.
_PASSES = frozenset({"first", "second", "third", "last", "final", "single", "multi", "two", "boarding", "by", "all"})
#: A name that ends so is about a secret and holds none: `token_count`, `aws.credentials.provider`.
_ABOUT = frozenset(
    {
        "count", "counts", "limit", "limits", "size", "length", "len", "max", "min", "type", "types", "kind",
        "provider", "providers", "class", "enabled", "required", "ttl", "lifetime", "expiry", "expires",
        "expiration", "interval", "timeout", "seconds", "minutes", "hours", "days", "ms", "format", "algorithm",
        "param", "parameter", "pointer", "column", "policy", "rotation",
    }
)  # fmt: skip
#: The same by their first words: `max_tokens`.
_COUNTING = frozenset({"max", "min", "num", "number", "count", "total"})
#: Names of parameters of addresses and forms that hold a secret where the whole name is such a word.
_PARAMETERS = frozenset(
    {
        "key", "keys", "token", "secret", "pass", "pwd", "sig", "signature", "auth", "authentication", "cred",
        "session", "sessionid", "jsessionid", "phpsessid", "code", "nonce", "hash", "sas", "sid", "st", "otp",
        "cookie", "apikey", "appid",
    }
)  # fmt: skip
#: The same after other words: `x-signature`, `session_id`, `auth_code`.
_PARAMETER_PAIRS = frozenset({("session", "id"), ("auth", "code"), ("access", "code"), ("authorization", "code")})
_PARAMETER_ENDS = frozenset({"sig", "signature", "nonce", "auth", "sessid", "sessionid", "authkey", "cookie"})
#: The first words of keys that are no secrets.
_ORDINARY_KEYS = frozenset(
    {
        "primary", "foreign", "sort", "partition", "correlation", "group", "join", "merge", "row", "record",
        "business", "natural", "surrogate", "public", "cache", "lookup", "unique", "composite", "dedup", "dedupe",
        "map", "object", "order", "match", "hash", "range", "cluster", "clustering", "distribution",
    }
)  # fmt: skip
#: Values that are switches, numbers or times, whatever they stand under.
_NO_SECRET = re.compile(r"(?:true|false|yes|no|on|off|none|null|\d{1,6}(?:\.\d+)?[a-z]{0,3})?", re.IGNORECASE)

_USER = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<user>[^\s/?#'\"<>\\]*)@", re.IGNORECASE)
#: In URIs of Azure Storage the user part is a container, which is no secret.
_CONTAINER = re.compile(r"abfss?://\$?[a-z0-9-]{2,63}@", re.IGNORECASE)
_ORACLE = re.compile(r"(jdbc:oracle:\w+:[^\s/@]*/)([^\s@]+)@", re.IGNORECASE)
_PAIR = re.compile(
    r"(?P<before>[?&;,\s\"'{(]|^|-D|--)(?P<name>[A-Za-z_][\w.\-%\[\]]*)(?P<equals>=)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s&;,'\"{}()]+)"
)
_OPTION = re.compile(r"(?P<before>(?:^|\s)--?)(?P<name>[A-Za-z][\w.-]*)(?P<equals>\s+)(?P<value>[^\s-]\S*)")
#: Forms that are unmistakable in a text of which nothing is known.
_SHOWN_PAIR = re.compile(
    r"(?P<before>[?&;]|(?<![\w-])-D|(?<![\w-])--conf[ =]|\bspark\.(?=[\w.-]*=))"
    r"(?P<name>[A-Za-z_][\w.\-%\[\]]*)(?P<equals>=)(?P<value>\"[^\"]*\"|'[^']*'|[^\s&;,'\"{}()]+)"
)
_HEADER = re.compile(r"(?P<scheme>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL)


def is_secret(name: str) -> bool:
    """True if a variable or a column is called like a secret.

    >>> [is_secret(name) for name in ("SHOP_API_KEY", "dbPassword", "SIGNING_KEY", "AIRFLOW_CONN_SHOP", "auth-token")]
    [True, True, True, True, True]
    >>> [is_secret(name) for name in ("primary_key", "keyboard", "token_count", "PWD", "monkey", "customer_key")]
    [False, False, False, False, False, False]
    """
    return _is_secret(name)


@lru_cache(4096)
def _is_secret(name: str) -> bool:
    if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_")):
        return True
    words = _words(name)
    if not words or words[-1] in _ABOUT or words[0] in _COUNTING:
        return False
    pairs = set(pairwise(words))
    return (
        any(map(_SECRET_PARTS.search, [*words, *map("".join, pairs)]))
        or not _SECRET_WORDS.isdisjoint(words)
        or not _SECRET_PAIRS.isdisjoint(pairs)
        or any(second == "key" and first in _KEYS_OF for first, second in pairs)
        or (len(words) > 1 and words[-1] in _SECRET_ENDS and words[-2] not in _PASSES)
    )


@lru_cache(4096)
def is_secret_setting(name: str) -> bool:
    """True if a setting is called like a secret; unlike keys of records, a key among settings opens something.

    >>> is_secret_setting("fs.azure.account.key.box.blob.core.windows.net"), is_secret_setting("x.sort.key")
    (True, False)
    """
    if _is_secret(name):
        return True
    words = _words(name)
    return len(words) > 1 and words[-1] == "key" and words[-2] not in _ORDINARY_KEYS


@lru_cache(4096)
def is_secret_parameter(name: str) -> bool:
    """True if a parameter of an address, or a header, is called like a secret: there short words are secrets, too.

    >>> [is_secret_parameter(name) for name in ("key", "X-Amz-Signature", "sig", "page", "country_code", "sort_key")]
    [True, True, True, False, False, False]
    """
    if is_secret_setting(unquote(name)):
        return True
    words = _words(unquote(name))
    if not words or words[-1] in _ABOUT:
        return False
    return "".join(words) in _PARAMETERS or words[-1] in _PARAMETER_ENDS or words[-2:] in _PARAMETER_PAIRS


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def is_value(value: str) -> bool:
    """True if a value under a secret name can be one: switches, short numbers and times are not."""
    return _NO_SECRET.fullmatch(value) is None


def within(value: str) -> Iterator[str]:
    """The secrets inside a text, under any name: in URLs, headers, connection strings and options.

    >>> sorted(within("postgres://ada:pa55word@db/x?api_key=k3y1"))
    ['k3y1', 'pa55word']
    >>> list(within("-Xss4m -Dmy.password=s3cr3t")), list(within("--token s3cr3t --name ada"))
    (['s3cr3t'], ['s3cr3t'])
    """
    for found in _USER.finditer(value):
        user, colon, password = found["user"].partition(":")
        if _CONTAINER.fullmatch(found[0]):
            continue
        if colon:
            yield password
        elif len(user) >= 20:  # who a person is may be seen, a token in the place of a name may not
            yield user
    for oracle in _ORACLE.finditer(value):
        yield oracle[2]
    for pattern in (_PAIR, _OPTION):
        for found in pattern.finditer(value):
            inner = found["value"].strip("\"'")
            if is_secret_parameter(found["name"]) and is_value(inner):
                yield inner
    for found in _HEADER.finditer(value):
        yield found["value"]
    for key in _PRIVATE_KEY.finditer(value):
        yield key[0]


def of_settings(settings: Mapping[str, object]) -> Iterator[str]:
    """The secrets of settings or variables: values under secret names, and those within other values."""
    for name, held in settings.items():
        value = "" if held is None else str(held)
        if is_secret_setting(name) and is_value(value):
            yield value
        yield from within(value)


def of_arguments(arguments: Sequence[object]) -> Iterator[str]:
    """The secrets of a command line: `--token VALUE`, `--conf NAME=VALUE`, and those within an argument."""
    texts = [str(argument) for argument in arguments]
    for option, value in pairwise(texts):
        if option.startswith("-") and "=" not in option and not value.startswith("-"):
            yield from of_settings({option.lstrip("-"): value})
    for text in texts:
        yield from within(text)


@dataclass(frozen=True)
class Secrets:
    """Secret values in all their spellings, longest first, so that a secret inside another one does not cut it."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Iterable[str]) -> Self:
        """The values with their spellings; those that are too short to be looked for are left out."""
        spellings = {spelling for value in found for spelling in _spellings(value)}
        long = {spelling for spelling in spellings if len(spelling) >= SHORTEST and is_value(spelling)}
        return cls(tuple(sorted(long, key=lambda value: (-len(value), value))))

    def masked(self, text: str) -> str:
        """A text in which these secrets, and everything in the form of a secret, are masked.

        >>> Secrets.of(["s3cr3t"]).masked("s3cr3t is refused by https://ada:pw@host/x?api_key=k")
        '*** is refused by https://***@host/x?api_key=***'
        """
        for value in self.values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return redacted(text)


def _spellings(value: str) -> Iterator[str]:
    """As it is written, decoded, encoded, and as JSON escapes it; line by line where it has several."""
    plain = unquote(value)
    yield from (value, value.strip(), plain, unquote_plus(value))
    yield quote(plain, safe="")
    yield quote(plain)
    yield quote_plus(plain)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= 16 and not line.startswith("-----"))


def redacted(text: str) -> str:
    """A text in which everything in the form of a secret is masked.

    Only forms that nothing else has: text of other programs stays readable.

    >>> redacted("-Dmy.password=a --conf spark.my.token=b; Authorization: Bearer abcdefgh, x?sig=c&page=2")
    '-Dmy.password=*** --conf spark.my.token=***; Authorization: Bearer ***, x?sig=***&page=2'
    """
    if "@" in text:
        text = _ORACLE.sub(rf"\1{HIDDEN}@", text)
        text = _USER.sub(_hidden_user, text)
    if "=" in text:
        text = _SHOWN_PAIR.sub(_hidden_pair, text)
    text = _HEADER.sub(rf"\g<scheme>{HIDDEN}", text)
    return _PRIVATE_KEY.sub(HIDDEN, text) if "PRIVATE KEY-----" in text else text


def _hidden_user(found: re.Match[str]) -> str:
    is_shown = not found["user"] or _CONTAINER.fullmatch(found[0])
    return found[0] if is_shown else f"{found['scheme']}{HIDDEN}@"


def _hidden_pair(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    is_address = found["before"] in ("?", "&", ";")
    is_named = is_secret_parameter(name) if is_address else is_secret_setting(name)
    if not is_named or not is_value(value.strip("\"'")):
        return found[0]
    mark = value[0] if value[0] in "\"'" else ""
    # Punctuation at the end of a sentence is no part of it.
    end = mark or value[len(value.rstrip(":.")) :]
    return f"{found['before']}{name}={mark}{HIDDEN}{end}"

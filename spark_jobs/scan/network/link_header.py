"""The header `Link` with the address of the next page, parsed according to RFC 8288, appendix B."""

from __future__ import annotations

import re

_TARGET = re.compile(r"[\s,]*<([^>]*)>")
#: A name, and a value in quotes or without. A parameter may be empty, and a quotation end with the header.
_PARAMETER = re.compile(r'\s*;\s*([^\s=;,]*)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)(?:"|$)|([^;,]*)))?')
_ESCAPED = re.compile(r"\\(.)")
_UP_TO_COMMA = re.compile(r"[^,]*")


def next_link(header: str) -> str | None:
    r"""The target of a `Link` header's first entry with the relation `next`, None if there is none.

    >>> next_link(r'</orders?page=1>; rel="first", </orders?page=3>; title="a \"q\", on";; rel="next last"')
    '/orders?page=3'
    """
    at = 0
    while (target := _TARGET.match(header, at)) is not None:
        relations, at = _relations(header, target.end())
        if "next" in relations:
            return target[1]
        rest = _UP_TO_COMMA.match(header, at)
        at = rest.end() if rest else at
    return None


def _relations(header: str, at: int) -> tuple[list[str], int]:
    """The relations that an entry's parameters name, in lower case, and where its parameters end."""
    rel: str | None = None
    while (parameter := _PARAMETER.match(header, at)) is not None:
        at = parameter.end()
        if rel is None and parameter[1].lower() == "rel":  # what comes after the first does not count
            rel = _ESCAPED.sub(r"\1", parameter[2]) if parameter[2] is not None else parameter[3] or ""
    return (rel or "").lower().split(), at

"""The settings of a REST endpoint: what a network source requests, and how (`docs/semantics/network.md`).

Plain frozen dataclasses without any import of Arrow: plans hold them. They hold credentials too, so they are left out
of every representation, and a source that travels to executors leaves its endpoint on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from spark_jobs.scan.network import addresses

#: The longest that one answer may be waited for, in seconds: a day.
MAX_TIMEOUT_S = 86_400


class Strategy(StrEnum):
    """The way in which the next page is requested."""

    NONE = "none"
    OFFSET = "offset"
    CURSOR_TOKEN = "cursor_token"
    LINK_HEADER = "link_header"


@dataclass(frozen=True)
class Pagination:
    """The pagination of a network source.

    Args:
        strategy: which of the ways; the other arguments belong to one of them each.
        offset_param: the parameter with the number of records before the page (`offset`).
        limit_param: the parameter with the page's size (`offset`).
        limit: the page's size in records (`offset`); a page with fewer is the last one.
        cursor_param: the parameter with the token (`cursor_token`).
        next_token_pointer: where a page has the next token, as a JSON pointer of RFC 6901 (`cursor_token`).
    """

    strategy: Strategy = Strategy.NONE
    offset_param: str = "offset"
    limit_param: str = "limit"
    limit: int = 1
    cursor_param: str = ""
    next_token_pointer: str = ""


@dataclass(frozen=True)
class Credential:
    """The header that authenticates the request."""

    header: str
    value: str = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret texts, longest first: the value, and the part after its scheme (`Bearer …`)."""
        return tuple(dict.fromkeys(text for text in (self.value, self.value.partition(" ")[2]) if text))


@dataclass(frozen=True)
class Endpoint:
    """A REST source.

    Args:
        url: the address of the first page, with `http` or `https`.
        max_pages: how many pages are fetched at most.
        max_records: how many records the source has at most; None for all.
        retries: how often a request that failed for a passing reason is repeated.
        timeout_s: how long an answer may take, in seconds: until its next bytes, and as a whole.
        pagination: how the pull goes from page to page.
        credential: the header that authenticates requests; None for none.
        hosts: where redirects and links may lead beside the place of `url`, as `host` or `host:port`.
    """

    url: str = field(repr=False)
    max_pages: int
    max_records: int | None = None
    retries: int = 3
    timeout_s: float = 30.0
    pagination: Pagination = Pagination()
    credential: Credential | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret texts of the endpoint."""
        return (*(self.credential.secrets if self.credential else ()), *addresses.secrets_in(self.url))

    def refusal(self, url: str) -> str | None:
        """Why a redirect or a link must not be followed, None when it may.

        A server that could send its reader anywhere could have it read the network that it runs in.
        """
        if reason := addresses.problem(url):
            return reason
        if addresses.is_downgrade(url, self.url):
            return "leaves https for http"
        if not addresses.is_same_place(url, self.url) and not addresses.is_listed(url, self.hosts):
            return "is another place than the one of `url`: list its host under `hosts:` of the transport to allow it"
        return None

"""Pulls a REST source: page after page into files, which are then read like any other files.

A pull is finite: it ends with the last page, or at `max_pages` or `max_records`, and requests no address twice. Pages
are requested one after the other, because each may have the address of the next one. A page goes to its file as it
arrives. If it must be examined, it is the only one in memory, however many pulls there are.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.scan.files import FormatError, InputFile, network_file
from spark_jobs.scan.matching import Matched
from spark_jobs.scan.network import addresses, http, link_header
from spark_jobs.scan.network.endpoint import Strategy

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.scan.network.endpoint import Endpoint

#: Held while a page is examined.
_LOOKING = threading.Lock()


class Pages(Protocol):
    """Answers the questions of a pull about its pages, with knowledge of their format."""

    @property
    def explodes(self) -> bool:
        """True if `array_paths` make other records of a page's own elements."""

    def records(self, file: InputFile, *, exploded: bool) -> int:
        """The number of records of a page: after `array_paths`, or its own elements."""

    def document(self, data: bytes) -> Any:
        """A page's text as a JSON document; raises `ValueError` where it is none."""

    def text(self, value: Any) -> str:
        """A value of such a document as a text."""


@dataclass(frozen=True)
class Pull:
    """A request for the records of an endpoint.

    Args:
        source: the source's name.
        endpoint: where its records come from.
        pages: knows their format.
        most_records: how many records are wanted at most, beside the endpoint's own limit; None for all.
    """

    source: str
    endpoint: Endpoint
    pages: Pages
    most_records: int | None = None


def pull(wanted: Pull, folder: Path, prefix: str, cancellation: http.Cancellation) -> Matched:
    """The pages of a source as files of a folder, in their order; `prefix` begins their names there.

    Raises:
        FormatError: a page cannot be fetched, or the next one cannot be found or was fetched before (code `E221`), or
            records cannot be counted although the next page depends on their number.
        Stopped: the run ends.
        OSError: a file cannot be written.
    """
    client = http.Client(wanted.endpoint, cancellation)
    try:
        return _Walk(wanted, client).pages(folder, prefix)
    finally:
        client.close()


class _Walk:
    """A pull in progress."""

    def __init__(self, wanted: Pull, client: http.Client) -> None:
        self._wanted = wanted
        self._endpoint = wanted.endpoint
        self._client = client
        self._counted: dict[tuple[str, bool], int] = {}
        #: The requested addresses, with the numbers of their pages.
        self._asked: dict[str, int] = {}

    def pages(self, folder: Path, prefix: str) -> Matched:
        limits = [limit for limit in (self._endpoint.max_records, self._wanted.most_records) if limit is not None]
        left = min(limits, default=None)
        files: list[InputFile] = []
        url: str | None = self._first()
        while url is not None and len(files) < self._endpoint.max_pages and left != 0:
            number = len(files) + 1
            path = folder / f"{prefix}-{number:06}.page"
            name = self._name(url, number)
            self._ask_once(url, number, name)
            reply = self._client.get(url, path, name)
            file = InputFile(str(path), name, path.stat().st_size, source_file=network_file(self._wanted.source))
            url = self._next(file, path, reply, number)
            if left is not None:
                records = self._records(file, exploded=True)
                if records > left:
                    file = replace(file, most_records=left)
                left = max(left - records, 0)
            files.append(file)
        if url is None or left == 0:
            return Matched(tuple(files))
        warning = f"source '{self._wanted.source}': the server has more than max_pages ({self._endpoint.max_pages})"
        return Matched(tuple(files), (f"{warning}; the rest is left out",))

    def _ask_once(self, url: str, number: int, name: str) -> None:
        before = self._asked.setdefault(url, number)
        if before == number:
            return
        paging = self._endpoint.pagination
        by_token = paging.strategy is Strategy.CURSOR_TOKEN
        what = f"the token at {paging.next_token_pointer}" if by_token else "the Link header"
        reason = f"{what} of page {number - 1} leads back to page {before}, whose records would be read twice"
        raise FormatError(reason, name, "E221")

    def _name(self, url: str, number: int) -> str:
        """The name of a page; the pages of one source differ by number where their addresses do not."""
        shown = addresses.display_url(url, self._endpoint.secrets)
        return shown if self._endpoint.pagination.strategy is Strategy.NONE else f"{shown}#page={number}"

    def _first(self) -> str:
        url = self._endpoint.url.partition("#")[0]
        return self._offset(url, 0) if self._endpoint.pagination.strategy is Strategy.OFFSET else url

    def _offset(self, url: str, offset: int) -> str:
        paging = self._endpoint.pagination
        return addresses.with_parameters(
            url, [(paging.offset_param, str(offset)), (paging.limit_param, str(paging.limit))]
        )

    def _next(self, file: InputFile, path: Path, reply: http.Reply, number: int) -> str | None:
        """The address of the next page, None after the last."""
        paging = self._endpoint.pagination
        match paging.strategy:
            case Strategy.NONE:
                return None
            case Strategy.OFFSET:
                # Servers count the elements of pages, not the records that `array_paths` makes of them.
                if self._records(file, exploded=False) < paging.limit:
                    return None
                return self._offset(self._endpoint.url, number * paging.limit)
            case Strategy.CURSOR_TOKEN:
                token = self._token(file, path)
                if token is None:
                    return None
                return addresses.with_parameters(self._endpoint.url, [(paging.cursor_param, token)])
            case Strategy.LINK_HEADER:
                link = link_header.next_link(reply.link)
                return None if link is None else self._followed(link, reply, file.name)

    def _followed(self, link: str, reply: http.Reply, name: str) -> str:
        url = addresses.resolved(reply.url, link)
        if reason := self._endpoint.refusal(url):
            shown = addresses.display_url(url, self._endpoint.secrets)
            raise FormatError(f"the Link header leads to {shown}, which {reason}", name, "E221")
        return url

    def _records(self, file: InputFile, *, exploded: bool) -> int:
        key = (file.path, exploded and self._wanted.pages.explodes)
        if key not in self._counted:
            with _LOOKING:
                self._counted[key] = self._wanted.pages.records(file, exploded=exploded)
        return self._counted[key]

    def _token(self, file: InputFile, path: Path) -> str | None:
        """The token for the next page; None at the end, which an empty text or false also marks."""
        with _LOOKING:
            return self._token_in(path.read_bytes(), file.name)

    def _token_in(self, data: bytes, name: str) -> str | None:
        if not data.strip():
            return None
        pointer = self._endpoint.pagination.next_token_pointer
        try:
            document = self._wanted.pages.document(data)
        except ValueError as problem:
            reason = f"the page is not a JSON document, so it has no {pointer}: {problem}"
            raise FormatError(reason, name, "E221") from None
        found = found_at(document, pointer)
        match found:
            case None | "" | False:
                return None
            case str():
                return found
            case _:
                return self._wanted.pages.text(found)


def found_at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901); None if there is none.

    >>> found_at({"meta": {"next/page": [7, 8]}}, "/meta/next~1page/1")
    8
    """
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and re.fullmatch(r"0|[1-9][0-9]{0,9}", key) and int(key) < len(document):
            document = document[int(key)]
        else:
            return None
    return document

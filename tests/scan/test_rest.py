"""Whole pulls: from page to page in every way, to the server's end or to the limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats.format import ArrayPath
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.formats.pages import Pages
from spark_jobs.scan.files import FormatError
from spark_jobs.scan.network import rest
from spark_jobs.scan.network.endpoint import Credential, Endpoint, Pagination, Strategy
from tests.scan import web

if TYPE_CHECKING:
    from spark_jobs.scan.matching import Matched

OFFSET = Pagination(Strategy.OFFSET, limit=2)
CURSOR = Pagination(Strategy.CURSOR_TOKEN, cursor_param="page[after]", next_token_pointer="/meta/next")
LINKS = Pagination(Strategy.LINK_HEADER)


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    web.without_proxies(monkeypatch)


def pull(
    server: web.Server,
    folder: Path,
    pagination: Pagination,
    *,
    path: str = "/orders",
    options: JsonRead | None = None,
    arrays: Any = (),
    most_records: int | None = None,
    **settings: Any,
) -> Matched:
    endpoint = Endpoint(url=server.url + path, pagination=pagination, **{"max_pages": 9, "timeout_s": 5.0, **settings})
    wanted = rest.Pull("shop", endpoint, Pages(JsonReader(options or JsonRead(), arrays)), most_records)
    return rest.pull(wanted, folder, "pages-0", web.Recorded())


def contents(found: Matched) -> list[Any]:
    return [json.loads(Path(file.path).read_bytes()) for file in found.files]


def by_offset(records: int) -> Any:
    def answer(request: web.Request) -> web.Answer:
        start = int(request.query["offset"])
        return web.page(*range(records)[start : start + int(request.query["limit"])])

    return answer


def endless(request: web.Request) -> web.Answer:
    """A server with a next page, always."""
    more = int(request.query.get("page[after]", "0")) + 1
    body = json.dumps({"rows": [{"id": 1}, {"id": 2}], "meta": {"next": more}})
    return web.Answer(body.encode(), headers={"Link": f'</orders?page[after]={more}>; rel="next"'})


def test_without_pagination_there_is_one_page(tmp_path: Path) -> None:
    with web.serving(endless) as server:
        found = pull(server, tmp_path, Pagination(), path="/orders?status=open&key=k#top")
    assert server.targets == ["/orders?status=open&key=k"]
    (file,) = found.files
    assert (file.name, file.source_file) == (f"{server.url}/orders?status=open&key=***", "<source:shop>")
    assert oct(Path(file.path).stat().st_mode & 0o777) == "0o600"
    assert file.size == len(json.dumps({"rows": [{"id": 1}, {"id": 2}], "meta": {"next": 1}}))
    assert found.warnings == ()


@pytest.mark.parametrize(("records", "pages"), [(0, 1), (1, 1), (2, 2), (5, 3), (6, 4)])
def test_offsets_go_on_to_the_first_page_that_is_not_full(records: int, pages: int, tmp_path: Path) -> None:
    with web.serving(by_offset(records)) as server:
        found = pull(server, tmp_path, OFFSET)
    assert server.targets == [f"/orders?offset={2 * number}&limit=2" for number in range(pages)]
    assert [row for page in contents(found) for row in page] == list(range(records))
    assert [file.name for file in found.files] == [
        f"{server.url}/orders?offset={2 * number}&limit=2#page={number + 1}" for number in range(pages)
    ]


def test_offset_parameters_have_the_names_that_the_server_wants(tmp_path: Path) -> None:
    paging = Pagination(Strategy.OFFSET, offset_param="page[skip]", limit_param="top", limit=3)
    with web.serving(lambda request: web.page()) as server:
        pull(server, tmp_path, paging, path="/orders?a=b")
    assert server.requests[0].query == {"a": "b", "page[skip]": "0", "top": "3"}


def test_a_full_page_is_full_of_what_the_server_counts(tmp_path: Path) -> None:
    """Two orders of which only one has items are a full page of two, although they make one record."""
    pages = [[{"id": 1, "items": []}, {"id": 2, "items": [{"n": 1}]}], [{"id": 3, "items": [{"n": 1}, {"n": 2}]}]]
    with web.serving(web.in_turn(*(web.page(*page) for page in pages))) as server:
        found = pull(server, tmp_path, OFFSET, arrays=(ArrayPath("items"),))
    assert contents(found) == pages


def test_bad_records_are_records(tmp_path: Path) -> None:
    lines = web.in_turn(web.Answer(b'{"id":1}\nnothing\n'), web.Answer(b'{"id":2}\n'))
    with web.serving(lines) as server:
        found = pull(server, tmp_path, OFFSET)
    assert len(found.files) == 2


@pytest.mark.parametrize(
    "end", [*({"meta": {"next": value}} for value in (None, False, "")), {"meta": {}}, {}, [], None], ids=str
)
def test_tokens_go_on_until_there_is_none(end: Any, tmp_path: Path) -> None:
    pages = [
        {"meta": {"next": "a b/ü"}},
        {"meta": {"next": 12345678901234567890}},
        {"meta": {"next": 1.50}},
        {"meta": {"next": {"at": [1, None]}}},
        end,
    ]
    bodies = [json.dumps(page).replace("1.5", "1.50").encode() for page in pages]
    if end is None:
        bodies[-1] = b""
    with web.serving(web.in_turn(*map(web.Answer, bodies))) as server:
        found = pull(server, tmp_path, CURSOR, path="/orders?a=b")
    assert len(found.files) == 5
    assert [request.query for request in server.requests] == [
        {"a": "b"},
        {"a": "b", "page[after]": "a b/ü"},
        {"a": "b", "page[after]": "12345678901234567890"},
        {"a": "b", "page[after]": "1.50"},
        {"a": "b", "page[after]": '{"at":[1,null]}'},
    ]


def test_a_page_without_json_has_no_token(tmp_path: Path) -> None:
    with (
        web.serving(lambda request: web.Answer(b"<html>log in</html>")) as server,
        pytest.raises(FormatError) as caught,
    ):
        pull(server, tmp_path, CURSOR)
    assert caught.value.code == "E221"
    assert str(caught.value).startswith(
        f"{server.url}/orders#page=1: the page is not a JSON document, so it has no /meta/next: "
    )


def test_links_are_followed(tmp_path: Path) -> None:
    with web.serving(lambda request: web.page("far")) as other:
        answers = web.in_turn(
            web.page(1, Link='<orders?page=2>; rel="next"'),
            web.page(2, Link=f'</first>; rel="first", <{other.url}/far?sig=s>; rel="next"'),
        )
        with web.serving(answers) as server:
            hosts = (other.url.partition("//")[2],)
            found = pull(server, tmp_path, LINKS, credential=Credential("X-Key", "marzipan"), hosts=hosts)
    assert contents(found) == [[1], [2], ["far"]]
    assert server.targets == ["/orders", "/orders?page=2"]
    assert [request.headers["X-Key"] for request in server.requests] == ["marzipan", "marzipan"]
    assert other.requests[0].headers["X-Key"] is None
    assert found.files[2].name == f"{other.url}/far?sig=***#page=3"


def test_links_lead_to_no_other_place_unasked(tmp_path: Path) -> None:
    with web.serving(lambda request: web.page("inner")) as other:
        answer = web.page(1, Link=f'<{other.url}/inner>; rel="next"')
        with web.serving(lambda request: answer) as server, pytest.raises(FormatError) as caught:
            pull(server, tmp_path, LINKS)
    assert caught.value.code == "E221"
    assert f"{other.url}/inner, which is another place than the one of `url`" in caught.value.message
    assert "`hosts:`" in caught.value.message
    assert other.requests == []


def test_links_start_from_where_the_page_came_from(tmp_path: Path) -> None:
    def answer(request: web.Request) -> web.Answer:
        if request.path == "/orders":
            return web.Answer(b"", 302, {"Location": "/v2/orders"})
        return web.page(1, **({"Link": '<?p=2>; rel="next"'} if not request.query else {}))

    with web.serving(answer) as server:
        pull(server, tmp_path, LINKS)
    assert server.targets == ["/orders", "/v2/orders", "/v2/orders?p=2"]


def test_links_lead_to_http_alone(tmp_path: Path) -> None:
    answer = web.page(1, Link='<file:///etc/passwd>; rel="next"')
    with web.serving(lambda request: answer) as server, pytest.raises(FormatError, match="leads to file:") as caught:
        pull(server, tmp_path, LINKS)
    assert caught.value.code == "E221"


@pytest.mark.parametrize(
    ("paging", "answers", "name", "reason"),
    [
        (
            CURSOR,
            [web.Answer(b'{"meta":{"next":"a"}}'), web.Answer(b'{"meta":{"next":"a"}}')],
            "/orders?page[after]=a#page=3",
            "the token at /meta/next of page 2 leads back to page 2, whose records would be read twice",
        ),
        (
            LINKS,
            [web.page(1, Link="<?p=2>; rel=next"), web.page(2, Link="</orders>; rel=next")],
            "/orders#page=3",
            "the Link header of page 2 leads back to page 1, whose records would be read twice",
        ),
    ],
    ids=["token", "link"],
)
def test_a_server_that_leads_back_is_refused(
    paging: Pagination, answers: list[web.Answer], name: str, reason: str, tmp_path: Path
) -> None:
    with web.serving(web.in_turn(*answers)) as server, pytest.raises(FormatError) as caught:
        pull(server, tmp_path, paging)
    assert (caught.value.code, str(caught.value)) == ("E221", f"{server.url}{name}: {reason}")
    assert len(server.requests) == 2


def test_a_server_that_leads_back_behind_what_is_wanted_is_none_of_our_business(tmp_path: Path) -> None:
    with web.serving(lambda request: web.page(1, 2, Link="</orders>; rel=next")) as server:
        assert contents(pull(server, tmp_path, LINKS, most_records=2)) == [[1, 2]]


# ---- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pagination", [OFFSET, CURSOR, LINKS], ids=lambda each: each.strategy)
def test_the_limit_of_pages_holds_whatever_the_server_offers(pagination: Pagination, tmp_path: Path) -> None:
    options = JsonRead(format=JsonLayout.OBJECT, record_path="$.rows")
    with web.serving(endless) as server:
        found = pull(server, tmp_path, pagination, options=options, max_pages=3)
    assert len(found.files) == len(server.requests) == 3
    assert found.warnings == (
        "source 'shop': the server has more than max_pages (3); the rest is left out",
    )  # fmt: skip


def test_a_server_that_ends_at_the_limit_of_pages_has_no_more(tmp_path: Path) -> None:
    with web.serving(by_offset(3)) as server:
        assert pull(server, tmp_path, OFFSET, max_pages=2).warnings == ()


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"max_records": 1}, [1]),
        ({"max_records": 2}, [None]),
        ({"max_records": 3}, [None, 1]),
        ({"max_records": 4}, [None, None]),
        ({"max_records": 9}, [None, None, None]),
        ({"max_records": 9, "most_records": 3}, [None, 1]),
        ({"max_records": 1, "most_records": 3}, [1]),
        ({"most_records": 0}, []),
    ],
    ids=str,
)
def test_the_limit_of_records_cuts_a_page(limits: dict[str, int], kept: list[int | None], tmp_path: Path) -> None:
    with web.serving(by_offset(5)) as server:
        found = pull(server, tmp_path, OFFSET, **limits)
    assert [file.most_records for file in found.files] == kept
    assert len(server.requests) == len(kept)
    assert found.warnings == ()


def test_records_are_counted_as_they_come_out(tmp_path: Path) -> None:
    page = web.page({"items": [1, 2, 3]}, {"items": []}, {"items": [4]})
    with web.serving(lambda request: page) as server:
        found = pull(server, tmp_path, Pagination(), arrays=(ArrayPath("items"),), max_records=3)
    assert [file.most_records for file in found.files] == [3]


def test_a_page_that_cannot_be_counted_is_named(tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b"[1, 2")) as server, pytest.raises(FormatError) as caught:
        pull(server, tmp_path, OFFSET)
    assert caught.value.path == f"{server.url}/orders?offset=0&limit=2#page=1"
    assert "broken JSON" in caught.value.message

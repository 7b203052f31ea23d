"""The link to the next page, in all the ways that RFC 8288 lets a server write it."""

from __future__ import annotations

import pytest

from spark_jobs.scan.network import link_header


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ('<http://h/2>; rel="next"', "http://h/2"),
        ("<http://h/2>; rel=next", "http://h/2"),
        ('<http://h/2>; REL="NEXT"', "http://h/2"),
        ('<http://h/1>; rel="prev", <http://h/3?a=1,2;b>; rel="next"', "http://h/3?a=1,2;b"),
        ('<http://h/2>; title="a, b; c"; rel="next"', "http://h/2"),
        ('<http://h/2>; rel="nextish"', None),
        ('<http://h/2>; title="rel=next"', None),
        ("<http://h/2>", None),
        (r'</2>; title="a \"q\" b"; rel="next"', "/2"),
        (r'</2>; title="a \\"; rel="next"', "/2"),
        (r'</2>; title="; rel=next \""', None),
        (r'</2>; rel="n\ext"', "/2"),
        ("</2>;; rel=next", "/2"),
        ("</2> ; rel = next ; x", "/2"),
        ("</2>; flag; rel=next", "/2"),
        ("</1>; rel=prev; rel=next", None),
        ("</1>; rel; rel=next", None),
        ("</1>; title*=UTF-8''next, </2>; rel=next", "/2"),
        (', ,</1>;rel="a b" junk, </2>; rel="last next",', "/2"),
        ('</2>; rel="next', "/2"),
        ("</2", None),
        ("junk, </2>; rel=next", None),
    ],
)
def test_the_next_link_is_found(header: str, expected: str | None) -> None:
    assert link_header.next_link(header) == expected

"""What addresses are asked, and what of them is shown."""

from __future__ import annotations

import doctest

import pytest

from spark_jobs.scan.network import addresses, link_header, rest


@pytest.mark.parametrize("module", [addresses, link_header, rest])
def test_examples_are_true(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted
    assert not outcome.failed


@pytest.mark.parametrize(
    ("url", "parameters", "expected"),
    [
        ("http://h/a", [("o", "0")], "http://h/a?o=0"),
        ("http://h/a?x=1", [("o", "0"), ("l", "5")], "http://h/a?x=1&o=0&l=5"),
        ("http://h/a?", [("o", "0")], "http://h/a?o=0"),
        ("http://h/a?o=7#part", [("o", "0")], "http://h/a?o=7&o=0"),
        ("http://h/a", [("page[after]", "ä b/+&=~-._")], "http://h/a?page[after]=%C3%A4%20b%2F%2B%26%3D~-._"),
    ],
)
def test_parameters_are_appended(url: str, parameters: list[tuple[str, str]], expected: str) -> None:
    assert addresses.with_parameters(url, parameters) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h/a?page=2&status=open", "https://h/a?page=2&status=open"),
        ("https://user:pw@h:8443/a", "https://***@h:8443/a"),
        ("https://h/a?api_key=k&X-Amz-Signature=s&sig=1&pass%77ord=p", "https://h/a?api_key=***&X-Amz-Signature=***"
         "&sig=***&pass%77ord=***"),
        ("https://h/a?after=" + "x" * 24, "https://h/a?after=***"),
        ("https://h/a?" + "x" * 24, "https://h/a?***"),
        ("https://h/a#secret", "https://h/a"),
        ("https://h/t%2Fk/a?q=t/k", "https://h/***/a?q=***"),
        ("https://h/\x1b[31m", "https://h/?[31m"),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(url: str, expected: str) -> None:
    assert addresses.display_url(url, ["t/k"]) == expected


@pytest.mark.parametrize(
    ("url", "home", "expected"),
    [
        ("https://api.example/2", "https://api.example/1", True),
        ("https://API.example:443/2", "https://api.example/1", True),
        ("https://api.example/2", "http://api.example/1", True),
        ("https://api.example:8443/2", "http://api.example/1", False),
        ("http://api.example/2", "https://api.example/1", False),
        ("https://api.example:444/2", "https://api.example/1", False),
        ("https://example/2", "https://api.example/1", False),
        ("https://api.example.evil/2", "https://api.example/1", False),
        ("https://api.example@evil/2", "https://api.example/1", False),
        ("https://[broken/2", "https://api.example/1", False),
    ],
)
def test_a_credential_goes_to_its_own_host_alone(url: str, home: str, *, expected: bool) -> None:
    assert addresses.is_same_place(url, home) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:8000/a?b=c", None),
        ("HTTPS://[::1]/ä", None),
        ("ftp://h/a", "must begin"),
        ("file:///etc/passwd", "must begin"),
        ("orders", "must begin"),
        ("http:///a", "names no host"),
        ("http://h:99999/", "is no address"),
        ("http://[::1/", "is no address"),
        ("http://h/a b", "white space"),
        ("http://h/a\r\nHost: x", "white space"),
        ("http://me:pw@h/", "credentials go under"),
    ],
)
def test_what_cannot_be_asked_is_found(url: str, expected: str | None) -> None:
    found = addresses.problem(url)
    assert (found is None) if expected is None else (found is not None and expected in found)


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [("/a", {"": 1, "b/c": [5], "~": None}), ("/a/", 1), ("/a/b~1c/0", 5), ("/a/~0", None), ("/a/b~1c/1", None),
     ("/a/b~1c/-", None), ("/a/b~1c/00", None), ("/x/y", None)],
)  # fmt: skip
def test_json_pointers_lead_to_members(pointer: str, expected: object) -> None:
    assert rest.found_at({"a": {"": 1, "b/c": [5], "~": None}}, pointer) == expected

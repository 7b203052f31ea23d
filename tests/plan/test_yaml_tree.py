"""YAML with places: every character of a scalar is found again in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import limits
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import SourceFile
from spark_jobs.plan.reading import interpolation, reader, yaml_tree
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator


def read(text: str, **variables: str) -> tuple[yaml_tree.Node | None, Diagnostics]:
    found = Diagnostics()
    return yaml_tree.read(SourceFile("p.yaml", text), variables, found), found


def scalar(text: str, **variables: str) -> Scalar:
    tree, found = read(text, **variables)
    assert not found.items
    assert isinstance(tree, Mapping)
    value = tree.get("k")
    assert isinstance(value, Scalar)
    return value


SCALARS = {
    "plain": "k: emit x = wrong",
    "plain over lines": "k: emit\n  x =\n\n  wrong\n",
    "double quoted": 'k: "emit \\"x\\" \\u0041 = wrong"',
    "double quoted over lines": 'k: "emit x\n   = \\\n   wrong"',
    "single quoted": "k: 'it''s x = wrong'",
    "literal": "a: 1\nk: |\n  emit y = 1\n    emit x = wrong\n",
    "literal, indented and stripped": "k: |2-\n    emit y\n  emit x = wrong\n",
    "literal, kept": "k: |+\n  emit y\n\n  emit x = wrong\n\n",
    "folded": "k: >\n  emit x\n  = wrong\n\n  more\n",
    "folded with deeper lines": "k: >-\n  emit x\n    indented wrong\n  end\n",
    "with anchor and tag": "k: !!str &a\n  emit wrong\n",
    "in CRLF": "a: 1\r\nk: |\r\n  emit y\r\n  emit x = wrong\r\n",
    "in flow": "{ a: [1], k: emit wrong }",
}


@pytest.mark.parametrize("text", SCALARS.values(), ids=SCALARS.keys())
def test_characters_are_found_in_every_style(text: str) -> None:
    value = scalar(text)
    located = value.located()
    at = located.value.index("wrong")
    span = located.span(at, at + 5)
    assert text[span.start : span.end] == "wrong"
    for offset, character in enumerate(located.value):
        if character.isalnum() and character != "A":
            place = located.span(offset, offset + 1)
            assert text[place.start : place.end] == character


def test_interpolated_values_keep_the_places_around_them() -> None:
    text = 'k: "${LONG_NAME} then ${OTHER:-x} wrong $$ end"'
    located = scalar(text, LONG_NAME="a: {b}").located()
    assert located.value == "a: {b} then x wrong $ end"
    for word in ("then", "wrong", "end"):
        at = located.value.index(word)
        span = located.span(at, at + len(word))
        assert text[span.start : span.end] == word


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("~", None),
        ("", None),
        ("true", True),
        ("False", False),
        ("2026-01-31", "2026-01-31"),
        ("12:30:00", "12:30:00"),
        ('"5"', "5"),
        ("!!str 5", "5"),
    ],
)
def test_plain_scalars_follow_the_core_schema(written: str, value: object) -> None:
    found = scalar(f"k: {written}").value
    assert found == value
    assert isinstance(found, type(value))


def test_an_interpolated_plain_scalar_is_read_again_and_a_quoted_one_is_not() -> None:
    assert scalar("k: ${N}", N="5").value == 5
    assert scalar('k: "${N}"', N="5").value == "5"
    assert scalar("k: ${N}", N="a: b").value == "a: b"


def test_undefined_variables_are_reported_at_their_token() -> None:
    _, found = read("a: 1\nk: |\n  emit x\n  emit ${GONE}\n")
    assert [(item.code.id, item.span.line, item.span.column) for item in found if item.span] == [("E009", 4, 8)]


def test_keys_and_comments_are_not_interpolated() -> None:
    tree, found = read("${A}: 1 # ${B}\n")
    assert not found.items
    assert isinstance(tree, Mapping)
    assert list(tree.entries) == ["${A}"]


def test_duplicate_keys_are_reported_with_both_places() -> None:
    _, found = read("a: 1\nb: 2\na: 3\n")
    (item,) = found.items
    assert (item.code.id, item.span.line if item.span else 0, item.labels[0].span.line) == ("E008", 3, 1)


def test_merge_keys_fill_what_is_absent() -> None:
    tree, found = read("base: &b {x: 1, y: 2}\nmore: &m {z: 3, y: 9}\nk: {<<: [*b, *m], x: 5}\n")
    assert not found.items
    assert tree is not None
    assert reader.data(tree)["k"] == {"x": 5, "y": 2, "z": 3}


HOSTILE = {
    "deep": "[" * 300 + "]" * 300,
    "bomb": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
    "wide": "[" + "1," * 1100 + "]",
    "tag": "k: !!python/object/apply:os.system [echo]",
    "unknown alias": "k: *nowhere",
    "alias of itself": "k: &a [*a]",
    "two documents": "a: 1\n---\nb: 2\n",
    "complex key": "? [a, b]\n: 1\n",
    "control characters": "k: \x01",
    "tab": "a:\n\tb: 1\n",
    "empty": "",
    "a scalar merged": "k: {<<: 5}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_no_pipeline_needs_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILE_VALUES", 1000)
    _, found = read(text)
    assert {item.code.id for item in found} == {"E000"}


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    _, found = read("x" * (limits.FILE_CHARACTERS + 1))
    assert [item.code.id for item in found] == ["E000"]


def test_a_number_remembers_its_spelling() -> None:
    assert scalar("k: 0010").value.text == "0010"
    assert scalar("k: 1.50").value.text == "1.50"


def test_places_are_shifted_in_one_pass() -> None:
    seen = 0

    class Counted(tuple[tuple[int, int], ...]):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            nonlocal seen
            seen += len(self)
            return super().__iter__()

    lines = Counted((10 * number, 12 * number) for number in range(1000))
    edits = tuple(interpolation.Edit(10 * number + 3, 10 * number + 8, 1) for number in range(1000))
    shifted = interpolation.shift(lines, edits)
    assert seen <= 2 * len(lines)
    assert shifted[-3:] == ((999 * 6, 999 * 12), (999 * 6 + 3, 999 * 12 + 3), (999 * 6 + 4, 999 * 12 + 8))

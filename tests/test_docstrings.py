"""Public functions have docstrings, unless they override a documented one; docstrings begin with a verb or a noun.

Ruff asks for docstrings of modules, classes and functions, and of no private name. It cannot know which methods
override another, so this test asks for the docstrings of methods.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = sorted(path for top in ("spark_jobs", "clinker_provider") for path in (ROOT / top).rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
#: Beginnings that make a sentence without a subject: "What a statement gives." is "Run a statement; gives its rows."
CLUMSY = ("What ", "Those ", "The same of ")


def base_names(node: ast.ClassDef) -> list[str]:
    """The bare names of the classes that a class derives from."""
    names = []
    for base in node.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(named, ast.Name):
            names.append(named.id)
        elif isinstance(named, ast.Attribute):
            names.append(named.attr)
    return names


class Above:
    """What a class declares, and the bare names of those that it derives from."""

    def __init__(self, node: ast.ClassDef) -> None:
        self.bases = base_names(node)
        self.methods = {item.name: item for item in node.body if isinstance(item, FUNCTIONS)}


def declared(classes: Mapping[str, list[Above]], bases: list[str], name: str, seen: frozenset[str]) -> bool:
    """Whether a class above declares a method."""
    return any(
        name in above.methods or declared(classes, above.bases, name, seen | {base})
        for base in bases
        if base not in seen
        for above in classes.get(base, ())
    )


def without_words(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """The public methods without a docstring that neither override a method of ours nor fulfil a protocol of ours."""
    classes: dict[str, list[Above]] = defaultdict(list)
    places = []
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found = Above(node)
                classes[node.name].append(found)
                places.append((file, node.name, found))
    all_of_them = [above for found in classes.values() for above in found]
    promised = {name for above in all_of_them if "Protocol" in above.bases for name in above.methods}
    for file, title, found in places:
        for name, method in found.methods.items():
            if title.startswith("_") or name.startswith("_") or name in promised or ast.get_docstring(method):
                continue
            if not declared(classes, found.bases, name, frozenset()):
                yield f"{file}:{method.lineno}: {title}.{name}"


def test_public_methods_say_what_they_do_unless_a_class_above_says_it() -> None:
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    assert list(without_words(trees)) == []


def test_a_method_without_words_is_found() -> None:
    text = (
        "class Base:\n  def given(self): 'The given number.'\n"
        "class Reader(Protocol):\n  def read(self): 'The next bytes.'\n"
        "class Some(Base):\n  def given(self): return 1\n  def read(self): return b''\n  def other(self): return 2\n"
    )
    assert list(without_words({"some.py": ast.parse(text)})) == ["some.py:8: Some.other"]


def clumsy(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """The docstrings that begin with a clause where a verb or a noun phrase belongs."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
                text = ast.get_docstring(node) or ""
                if text.startswith(CLUMSY):
                    yield f"{file}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in [*FILES, *BENCHMARKS]}
    assert list(clumsy(trees)) == []


def test_a_clumsy_beginning_is_found() -> None:
    text = (
        "'What it is.'\nclass Some:\n  'Whatever.'\n"
        "  def given(self): 'Those of others.'\n  def _own(self): 'The same of bytes.'\n  def left(self): 'The rest.'\n"
    )
    assert list(clumsy({"some.py": ast.parse(text)})) == [
        "some.py:1: What it is.",
        "some.py:4: Those of others.",
        "some.py:5: The same of bytes.",
    ]

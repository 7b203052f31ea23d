"""The sections of JSON documents, which JSON pointers (RFC 6901) lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.formats import coerce
from spark_jobs.formats.json.texts import decoding, documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.formats.format import Reading, Section


def of_document(document: Any, wanted: Reading) -> Mapping[str, Any]:
    """The values of the sections of a document by their paths; a section that it has not says nothing.

    Raises:
        UnfitSection: a section is no object, or has a value that does not convert.
    """
    found: dict[str, Any] = {}
    for section in wanted.sections:
        target = _at(document, section.where)
        if target is None:
            continue
        if not isinstance(target, dict):
            raise coerce.UnfitSection(f"section '{section.name}': what '{section.where}' leads to is not an object")
        found |= coerce.section_of(
            section,
            target,
            lambda value, kind: decoding.convert(value, kind, wanted.date_formats),
            decoding.raw_text,
        )
    return found


def parts_of(sections: Sequence[Section]) -> documents.Parts:
    """Give the parts of a document that sections need, as a tree of keys with None at its leaves.

    >>> from spark_jobs.cxl import types
    >>> from spark_jobs.formats.format import Section
    >>> parts_of([Section("h", "json_pointer", "/meta", (("a", types.INT),)), Section("i", "json_pointer", "/meta/a")])
    {'meta': {'a': None}}
    """
    found: dict[str, Any] = {}
    for section in sections:
        tree: dict[str, Any] | None = found
        for key in section.where.split("/")[1:]:
            if tree is not None:
                tree = tree.setdefault(key.replace("~1", "/").replace("~0", "~"), {})
        if tree is not None:
            tree.update((name, None) for name, _ in section.fields)
    return found


def _at(document: Any, pointer: str) -> Any:
    """Resolve a JSON pointer; None where it leads to nothing.

    >>> _at({"meta": {"a/b": [7, 8]}}, "/meta/a~1b/1")
    8
    >>> _at({"meta": 7}, "")
    {'meta': 7}
    """
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and key.isdecimal() and key.isascii() and int(key[:18]) < len(document):
            document = document[int(key[:18])]
        else:
            return None
    return document

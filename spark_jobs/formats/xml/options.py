"""The options of XML, and the names that its elements can have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.formats.format import Format, SectionPlace
from spark_jobs.formats.options import Name, Options, Packing, missing_character, unwritable

_LETTER = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = re.compile(f"[{_LETTER}][{_LETTER}0-9.\u00b7\u0300-\u036f\u203f-\u2040-]*")
#: The name of a record's own text, or of the text of an element that has more than text.
TEXT = "#text"
#: The default prefix of attribute names.
ATTRIBUTE_PREFIX = "@"
#: The attribute-like names that declare namespaces.
DECLARATION = "xmlns"


class Namespaces(StrEnum):
    """The policy for XML namespace prefixes."""

    STRIP = "strip"
    QUALIFY = "qualify"


@dataclass(frozen=True)
class XmlRead(Options):
    """`options:` of an XML source.

    Args:
        record_path: The elements that are records: `/a/b` or `a/b` from the root, `//b` anywhere; the root when absent.
        attribute_prefix: The prefix of the names of attributes.
        namespace_handling: Whether namespace prefixes are removed.
        encoding: The encoding, by its Python name; when absent, the one that the file declares.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    record_path: str | None = None
    attribute_prefix: str = ATTRIBUTE_PREFIX
    namespace_handling: Namespaces = Namespaces.STRIP
    encoding: str | None = None
    compression: Packing | None = None

    @property
    def strips(self) -> bool:
        """Whether names lose the prefixes of namespaces."""
        return self.namespace_handling is Namespaces.STRIP

    @property
    def path(self) -> list[str]:
        """The names of elements in `record_path`."""
        path = self.record_path or ""
        return path.removeprefix("//" if path.startswith("//") else "/").split("/")

    @property
    def reads_whole(self) -> bool:
        """True: the ancestors of an element are known only from the beginning."""
        return True

    def problems(self) -> list[tuple[str, str]]:
        """A path is one of names, and a point stands between names already."""
        problems = []
        for name in self.path if self.record_path is not None else ():
            if any(name_problem(part) for part in name.split(":", 1)):
                what = f"'{name}' is not an element name; a path is `/a/b` from the root, or `//b` for any depth"
                problems.append(("record_path", what))
                break
        if "." in self.attribute_prefix:
            problems.append(("attribute_prefix", "a dot separates the names of elements"))
        return problems + super().problems()


@dataclass(frozen=True)
class XmlWrite(Options):
    """`options:` of an XML output.

    Args:
        root_element: The name of the element around all records.
        record_element: The name of a record's element.
        encoding: The encoding, by its Python name.
        compression: How files are compressed; when absent, the end of their names decides.
    """

    root_element: Name = "Root"
    record_element: Name = "Record"
    encoding: str = "utf-8"
    compression: Packing | None = None

    def problems(self) -> list[tuple[str, str]]:
        """Both are names of elements, in the encoding."""
        found = super().problems()
        for key, name in (("root_element", self.root_element), ("record_element", self.record_element)):
            if (problem := name_problem(name)) is not None:
                found.append((key, problem))
            elif not found and (character := missing_character(name, self.encoding)) is not None:
                found.append((key, unwritable(character, self.encoding)))
        return found

    def writes_names(self, *, include_header: bool) -> bool:
        return True

    def name_problem(self, name: str) -> str | None:
        """`a.b` is the element `b` in `a`, `a.@b` an attribute of it, and `a.#text` its text."""
        path, attribute = attribute_of(name)
        if attribute == DECLARATION:
            return f"'{name}' would declare a namespace, which readers do not treat as an attribute"
        if attribute is None and path == TEXT:
            return None
        parts = path.removesuffix(f".{TEXT}").split(".") if path or attribute is None else []
        if attribute is not None:
            parts.append(attribute)
        return next((problem for part in parts if (problem := name_problem(part))), None)


def attribute_of(column: str) -> tuple[str, str | None]:
    """The element of a column, and its attribute that the column is, which may have points in its name."""
    if column.startswith(ATTRIBUTE_PREFIX):
        return "", column.removeprefix(ATTRIBUTE_PREFIX)
    path, found, attribute = column.partition(f".{ATTRIBUTE_PREFIX}")
    return path, attribute if found else None


def name_problem(name: str) -> str | None:
    """Why an element or an attribute cannot have a name, or None when it can."""
    if _NAME.fullmatch(name):
        return None
    if ":" in name:
        return f"'{name}' has a colon, and nothing declares a namespace"
    return f"'{name}' is not an XML name"


def _path_problem(path: str) -> str | None:
    names = path.removeprefix("/").split("/")
    return None if all(names) else "an `xml_path` has the names of elements from the root on, like `/doc/Head`"


FORMAT = Format(
    "xml",
    "XML",
    chapter=5,
    read_options=XmlRead,
    write_options=XmlWrite,
    names_in_records=True,
    has_arrays=True,
    comes_in_pages=True,
    sections=SectionPlace("xml_path", problem=_path_problem),
)

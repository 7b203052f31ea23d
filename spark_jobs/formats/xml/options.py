"""XML: what its options are. Neither read nor written yet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.formats.format import Format, SectionPlace
from spark_jobs.formats.options import Name, Options


class Namespaces(StrEnum):
    """What becomes of XML namespace prefixes."""

    STRIP = "strip"
    QUALIFY = "qualify"


@dataclass(frozen=True)
class XmlRead(Options):
    """`options:` of an XML source.

    Args:
        record_path: The element of a record, as `/a/b` or `//b`.
        attribute_prefix: What stands before the names of attributes.
        namespace_handling: Whether prefixes of namespaces are cut off.
        encoding: An encoding by its Python name; the file's own when absent.
    """

    record_path: str | None = None
    attribute_prefix: str = "@"
    namespace_handling: Namespaces = Namespaces.STRIP
    encoding: str | None = None


@dataclass(frozen=True)
class XmlWrite(Options):
    """`options:` of an XML output.

    Args:
        root_element: The name of the element around all records.
        record_element: The name of a record's element.
        encoding: An encoding by its Python name.
    """

    root_element: Name = "Root"
    record_element: Name = "Record"
    encoding: str = "utf-8"


FORMAT = Format(
    "xml",
    "XML",
    chapter=5,
    read_options=XmlRead,
    write_options=XmlWrite,
    comes_in_pages=True,
    sections=SectionPlace("xml_path"),
)

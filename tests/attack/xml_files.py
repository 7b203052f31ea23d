"""Random XML: elements that repeat with attributes and elements in them, namespaces, document types, long texts.

Each document is read by all the ways that there are, which have to agree, and what is undeclared in it is written and
read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import registry
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.xml import columns, document
from spark_jobs.formats.xml.fast.shapes import Shapes
from spark_jobs.formats.xml.options import Namespaces, XmlRead, XmlWrite
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import Tuning
from tests.formats.xml.test_reading_xml import read_xml

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.formats.csv.files import Result

_TEXTS = ["x", "", "7", "a &amp; b", " \n ", "é😀", "&lt;r&gt;", "two\nlines", '"it\'s"', "2024-02-29"]
_ODD = ["<![CDATA[<r>]]>", "<![CDATA[ y ]]>", "<!-- <r> -->", "&#65;", "<?p <r>?>", "\r\n", "own "]
_BROKEN = [
    "&nbsp;",
    "<a>",
    "</a>",
    "\x01",
    "<q:a/>",
    "<a q:k='1'/>",
    "]]>",
    "<!DOCTYPE d>",
    "<a xmlns:n=''/>",
    "\ufffe",
]
_DOCTYPES = [
    "<!DOCTYPE d>",
    "<!DOCTYPE d SYSTEM 'd.dtd'>\n",
    "<!DOCTYPE d PUBLIC '-//A//DTD B//EN' 'http://localhost:9/d'>",
    "<!DOCTYPE d [<!ELEMENT d ANY><!-- ]> --><!ATTLIST a k NMTOKEN 'v'>]>",
    "<!DOCTYPE d [<!ENTITY e 'x'>]>",
    "<!DOCTYPE d [<!ENTITY % e 'x'>]>",
    "<!DOCTYPE d [%e;]>",
]
_BEHIND = ["<d/>", "x", "\0", "</d>", "<!DOCTYPE d>", "&amp;"]
_DECLARED: list[dict[str, types.Type]] = [
    {},
    {"@id": types.INT, "a": types.STRING},
    {"a": types.ANY, "b.c": types.STRING},
    {"a.@k": types.STRING, "b": types.ARRAY, "c.#text": types.STRING},
    {"b": types.STRING, "a": types.INT},
]


def one(chance: random.Random, folder: Path) -> str:
    """A document, read in every way."""
    data = _document(chance)
    declared = chance.choice([*_DECLARED, *[_DECLARED[0]] * 5])
    handling = chance.choice([Namespaces.STRIP, Namespaces.STRIP, Namespaces.QUALIFY])
    options = XmlRead(chance.choice(["d/r", "//r"]), namespace_handling=handling)
    unmapped = chance.choice([OnUnmapped.AUTO_WIDEN, OnUnmapped.AUTO_WIDEN, OnUnmapped.DROP])

    def read(**wanted: Any) -> Result:
        return read_xml(folder / "in.xml", data, declared, options, on_unmapped=unmapped, **wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns.Columns, "regular", lambda *_: None)
        patch.setattr(Shapes, "new", lambda *_: None)
        expected = told(read)
    tuning = Tuning(xml_first_bytes=chance.choice([7, 20, 100, 1 << 16]))
    for size in (chance.randint(20, 200), 1 << 20):
        found = told(lambda size=size: read(block_bytes=size, tuning=tuning))  # type: ignore[misc]
        assert found == expected, f"{data!r} in blocks of {size}: {found} instead of {expected}"
    if expected[0] == "refused":
        return "refused"
    if declared or unmapped is OnUnmapped.DROP or options.namespace_handling is Namespaces.QUALIFY:
        return "read"
    return _written_again(read(), folder, data)


def told(read: Callable[[], Result]) -> tuple[str, Any]:
    """What reading gave, or the words of the refusal."""
    try:
        found = read()
    except FormatError as refused:
        return "refused", str(refused)
    return "read", ([[*record.items()] for record in found.records], found.failures)


def _written_again(first: Result, folder: Path, data: bytes) -> str:
    """What is undeclared is the same once it was written and read again, or an error of its record."""
    names = [name.removeprefix("$widened.") for name in (first.records or [{}])[0]]
    if not names:
        return "read without columns"
    schema = Schema(tuple(Column(name, types.ANY) for name in names))
    cells = [values.to_arrow([record[f"$widened.{name}"] for record in first.records], types.ANY) for name in names]
    writer = registry.named("xml").writer(schema, XmlWrite())
    encoded = writer.encode(pa.RecordBatch.from_arrays(cells, names=names))
    again = read_xml(folder / "in.xml", writer.start + bytes(encoded.data) + writer.end, {}, XmlRead("Root/Record"))
    lost = {failed.row for failed in encoded.failures}
    kept = [_present(record) for row, record in enumerate(first.records) if row not in lost]
    found = [_present(record) for record in again.records]
    if b"<c.d" in data:
        # It becomes a `d` in `c`, and may come together with another one.
        return "written as another"
    if lost or any(_has_border(value) for record in kept for value in record.values()):
        # What a CDATA section had at its ends is lost; an array may be one no longer without the records that are.
        assert len(found) == len(kept)
        return "written in part"
    assert found == kept, f"{data!r}: {found} instead of {kept}"
    return "written"


def _present(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}


def _has_border(value: Any) -> bool:
    if isinstance(value, str):
        return value != value.strip(document.BLANKS)
    return any(map(_has_border, value.values() if isinstance(value, dict) else value or ()))


def _document(chance: random.Random) -> bytes:
    odd = chance.choice([0.0, 0.0, 0.05])
    gap = chance.choice(["", "\n", "\n  "])
    some = [_record(chance, odd) for _ in range(chance.choice([0, 1, 3, 10, 40]))]
    if chance.random() < 0.5:
        some = [chance.choice(some or [""]) for _ in range(60)]
    if chance.random() < 0.1:
        some.append(f"<r><a>{chance.choice(['x', 'y ', 'z&amp;', '<!-- -->w']) * chance.randint(1, 60_000)}</a></r>")
    spaces = chance.choice(["", *[" xmlns:n='urn:n'"] * 20, *[" xmlns='urn:d' xmlns:n='u'"] * 5])
    text = f"<d{spaces}>{gap}{gap.join(some)}{gap}</d>" + chance.choice(["", "\n", "<!-- c -->", "<?p?>"])
    if chance.random() < 0.05:
        text += chance.choice(_BEHIND)
    if chance.random() < 0.2:
        text = chance.choice(_DOCTYPES) + text
    if chance.random() < 0.2:
        version = "1.1" if chance.random() < 0.1 else "1.0"
        text = f"<?xml version='{version}' encoding='{chance.choice(['utf-8', 'utf-8', 'latin-1'])}'?>{text}"
    if chance.random() < 0.1:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice([*_BROKEN, ""]) + text[at + chance.randrange(2) :]
    mark = b"\xef\xbb\xbf" if chance.random() < 0.05 else b""
    return mark + text.encode()


def _record(chance: random.Random, odd: float) -> str:
    told = chance.choice(["", f' id="{chance.randrange(9)}"'])
    inner = "".join(_element(chance, odd, 0) for _ in range(chance.randint(0, 4)))
    return f"<r{told}>{inner}</r>"


def _element(chance: random.Random, odd: float, depth: int) -> str:
    name = chance.choice(["a", "a", "b", "c", "n:b"]) if chance.random() < 0.98 else "c.d"
    told = "".join(f' {key}="{chance.choice(_TEXTS[:4])}"' for key in ("k", "n:m", "x.y") if chance.random() < 0.15)
    if depth < 3 and chance.random() < 0.35:
        inner = "".join(_element(chance, odd, depth + 1) for _ in range(chance.randint(1, 3)))
    else:
        inner = chance.choice(_TEXTS)
    if chance.random() < odd:
        inner += chance.choice(_ODD)
    return f"<{name}{told}/>" if chance.random() < 0.1 else f"<{name}{told}>{inner}</{name}>"

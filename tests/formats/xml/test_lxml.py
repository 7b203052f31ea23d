"""Another reader and writer of XML, lxml: it reads what we write, and we read what it writes, to the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st
from lxml import etree

from spark_jobs.cxl import types
from spark_jobs.formats.xml.document import BLANKS
from spark_jobs.formats.xml.options import XmlRead, XmlWrite
from tests.formats.xml.test_reading_xml import read_xml
from tests.formats.xml.test_xml_writer import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.formats.xml.test_xml_writer import Table

#: Whatever the end of a line is, odd blanks, marks of other languages, what stands for something in XML.
ODD = [
    "\r",
    "\r\n",
    "\n",
    "\t",
    "\x85",
    "\u2028",
    "\ufeff",
    "\x7f",
    "\xa0",
    "]]>",
    "<![CDATA[",
    "&amp;",
    "--",
    "?>",
    "𐏿",
    "é",
    "日",
]
#: Control characters, and what is no character at all.
IMPOSSIBLE = "".join(map(chr, [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF]))
TEXTS = st.one_of(st.text(max_size=6), st.lists(st.sampled_from([*ODD, "a", " "]), max_size=4).map("".join))
NAMES = ["s", "@a", "p.q", "p.@b", "p", "é.日", "p.r.@c", "q-1", "_", "xmlns", "xml", "#text", "p.#text", "l"]


def is_possible(text: str) -> bool:
    return not set(text) & set(IMPOSSIBLE)


def values_at(record: Any, name: str) -> list[str]:
    """What a column has in an element, as lxml shows it."""
    *around, last = name.split(".")
    found = [record]
    for part in around:
        found = [child for each in found for child in each.iterchildren(part)]
    if last.startswith("@"):
        return [each.get(last[1:]) for each in found if each.get(last[1:]) is not None]
    if last == "#text":
        return [each.text or "" for each in found if each.text]
    return [child.text or "" for each in found for child in each.iterchildren(last) if child.text or not len(child)]


@given(
    data=st.data(),
    encoding=st.sampled_from(
        ["utf-8", "utf-16", "utf-8-sig", "latin-1", "windows-1252", "ascii", "shift_jis", "koi8-r"]
    ),
    preserve_nulls=st.booleans(),
)
def test_lxml_reads_what_we_write(data: st.DataObject, encoding: str, preserve_nulls: bool) -> None:
    wanted = [name for name in NAMES if name.isascii() or encoding.startswith("utf")]
    names = data.draw(st.lists(st.sampled_from(wanted), min_size=1, unique=True))
    rows = data.draw(st.integers(0, 4))
    table: Table = {}
    for name in names:
        cells = st.lists(TEXTS, max_size=3) if name == "l" else TEXTS
        table[name] = (
            types.ARRAY if name == "l" else types.STRING,
            data.draw(st.lists(st.none() | cells, min_size=rows, max_size=rows)),
        )
    written, encoded = write(table, XmlWrite(encoding=encoding), preserve_nulls=preserve_nulls)
    failed = {each.row for each in encoded.failures}
    root = etree.fromstring(written)
    assert root.tag == "Root"
    kept = [row for row in range(rows) if row not in failed]
    assert [child.tag for child in root] == ["Record"] * len(kept)
    for row in range(rows):
        texts = [text for _, column in table.values() for text in flat(column[row])]
        assert (row in failed) == any(not is_possible(text) or not is_held(text, encoding) for text in texts)
    for record, row in zip(root, kept, strict=True):
        for name in names:
            value = table[name][1][row]
            expected = [*flat(value)]
            if value is None and preserve_nulls:
                expected = [""]
            found = values_at(record, name)
            if name in ("p", "p.#text") and {"p", "p.#text"} <= {*names}:
                # An element for each of them.
                either = [each for column in ("p", "p.#text") for each in flat(table[column][1][row])]
                found, expected = sorted(filter(None, values_at(record, "p.#text"))), sorted(filter(None, either))
            elif name.endswith("#text") or (name == "p" and any(other.startswith("p.") for other in names)):
                # An element that is there for what is in it has an empty text, or none.
                found, expected = [*filter(None, found)], [*filter(None, expected)]
            assert found == expected, (name, written)


def flat(value: Any) -> Iterator[str]:
    if value is not None:
        yield from [value] if isinstance(value, str) else value


def is_held(text: str, encoding: str) -> bool:
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False


WORDS = TEXTS.filter(lambda text: is_possible(text) and "]]>" not in text)
SPACES: list[Any] = [None, {"a": "urn:a", "b": "urn:b"}, {None: "urn:d"}, {"a": "urn:d"}]


@st.composite
def elements(draw: st.DrawFn, name: str, other: str, depth: int = 0) -> Any:
    """An element with odd attributes and texts, comments and instructions, and elements in it."""
    made = etree.Element(name, nsmap=draw(st.sampled_from(SPACES)))
    for key in draw(st.lists(st.sampled_from(["k", other, "{urn:a}k", "{urn:b}m"]), max_size=2, unique=True)):
        made.set(key, draw(WORDS))
    is_verbatim = draw(st.booleans())
    if depth < 3 and draw(st.booleans()):
        for inner in draw(st.lists(st.sampled_from(["p", "{urn:a}q", "{urn:d}p", other, "z"]), max_size=4)):
            made.append(draw(elements(inner, other, depth + 1)))
    else:
        text = draw(WORDS)
        made.text = etree.CDATA(text) if text and is_verbatim else text
    for between in draw(st.lists(st.sampled_from([" <p>x</p> ", "<z>", ""]), max_size=1)):
        made.append(
            draw(st.sampled_from([etree.Comment, lambda text: etree.ProcessingInstruction("p", text)]))(between)
        )
        made[-1].tail = None if is_verbatim else draw(WORDS)
    return made


def grown(element: Any, named: Callable[[Any], str]) -> Any:
    """What is in an element, as docs/semantics/xml.md has it: its text, or a map of all that it has."""
    children = [*element.iterchildren(tag=etree.Element)]
    text = "".join(element.xpath("text()"))
    # lxml does not tell sections of CDATA, but writes them again.
    if b"<![CDATA[" not in etree.tostring(element) or children:
        text = text.strip(BLANKS)
    if not children and not element.attrib:
        return text or None
    members: dict[str, Any] = {"#text": text} if text else {}
    parts = [(f"@{named(key)}", value) for key, value in element.attrib.items()]
    for key, value in [*parts, *((named(child.tag), grown(child, named)) for child in children)]:
        members[key] = [*members.get(key, []), value]
    return {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in members.items()}


def arrays_of(tree: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The ways to elements that repeat and are no texts alone, up to the first of them."""
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            yield (*way, key)
        for item in value if isinstance(value, list) else [value]:
            yield from arrays_of(item, (*way, key))


def columns_of(tree: Any, arrays: set[tuple[str, ...]], way: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The columns of a record and their values, in order."""
    for key, value in tree.items():
        here = (*way, key)
        if here in arrays:
            yield ".".join(here), value if isinstance(value, list) else [value]
        elif isinstance(value, dict):
            yield from columns_of(value, arrays, here)
        else:
            name = ".".join(way) if way and key == "#text" else ".".join(here)
            yield name, [item or None for item in value] if isinstance(value, list) else value or None


@given(
    data=st.data(),
    encoding=st.sampled_from(["utf-8", "utf-16", "us-ascii", "iso-8859-1", "windows-1252", "shift_jis"]),
    pretty=st.booleans(),
    is_standalone=st.sampled_from([None, True, False]),
)
def test_we_read_what_lxml_writes(
    data: st.DataObject, encoding: str, pretty: bool, is_standalone: bool | None, tmp_path: Path
) -> None:
    root = etree.Element("d", nsmap=data.draw(st.sampled_from(SPACES)))
    # lxml writes a name that the encoding does not have as references, which nobody reads.
    other = "é" if encoding.startswith("utf") else "o"
    root.extend(data.draw(st.lists(elements("r", other), max_size=4)))
    written = etree.tostring(
        root, encoding=encoding, xml_declaration=True, pretty_print=pretty, standalone=is_standalone
    )
    # Some take the bytes of a backslash and a tilde for a yen sign and an overline there.
    assume(encoding != "shift_jis" or not {*b"\\~"} & {*written})
    again = etree.fromstring(written, etree.XMLParser(strip_cdata=False))
    trees = []
    for record in again:
        tree = grown(record, lambda name: etree.QName(name).localname)
        trees.append(tree if isinstance(tree, dict) else {"#text": tree} if tree else {})
    arrays = {way for tree in trees for way in arrays_of(tree)}
    expected = [dict(columns_of(tree, arrays)) for tree in trees]
    got = read_xml(tmp_path / "in.xml", written, {}, XmlRead("d/r"))
    assert got.failures == []
    names = dict.fromkeys(name for found in expected for name in found)
    shown = [{name.removeprefix("$widened."): value for name, value in record.items()} for record in got.records]
    assert shown == [{name: found.get(name) for name in names} for found in expected], written

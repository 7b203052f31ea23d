"""Records that are read in stretches are what Expat alone gives, and so is what is wrong with a document."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.xml import columns
from spark_jobs.formats.xml.fast import quick
from spark_jobs.formats.xml.fast.shapes import Shapes
from spark_jobs.formats.xml.fast.tags import Irregular, Tags
from spark_jobs.formats.xml.options import Namespaces, XmlRead
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import Tuning
from tests.formats.xml.test_reading_xml import read_xml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DECLARED = {
    "@id": types.STRING,
    "a": types.STRING,
    "b": types.INT,
    "b.@cur": types.STRING,
    "c.d": types.STRING,
    "c.#text": types.STRING,
    "#text": types.STRING,
    "n:p": types.STRING,
    "p": types.STRING,
}
TEXTS = [
    "x",
    "",
    "12",
    " 7 ",
    "\n  many words \t",
    "a &amp;&lt;&gt;&quot;&apos; b",
    "&amp;lt;",
    '"quoted" it\'s',
    "ä 😀",
    "  ",
]
#: What Expat has to read.
ODD = ["<![CDATA[<r>]]>", "<!-- <r> -->", "&#65;", "<?pi x?>", "]]", "a > b", "\r\n", "\u00a0", "é", "<ä/>"]
#: What nobody can read.
BROKEN = [
    "&nbsp;",
    "<a>",
    "</a>",
    "\x01",
    "<a b=1/>",
    '<a b="1" b="2"/>',
    '<a b="<"/>',
    "]]>",
    "\ufffe",
    "< a/>",
    "<!DOCTYPE d>",
]


def element(chance: random.Random, names: str, depth: int = 0) -> str:
    name = chance.choice(names)
    name = chance.choice(["", "", "", "n:", "m:"]) + name
    told = "".join(
        f'{chance.choice([" ", "  ", chr(10)])}{key}{chance.choice(["=", " = "])}"{chance.choice(TEXTS[:6])}"'
        for key in chance.sample(["cur", "id", "n:k", "m:k"], chance.choice([0, 0, 0, 1, 2]))
    )
    if chance.random() < 0.1:
        return f"<{name}{told}/>"
    if depth < 3 and chance.random() < 0.2:
        gap = chance.choice(["", "\n  "])
        inner = gap.join(element(chance, "abcde", depth + 1) for _ in range(chance.randint(1, 3)))
        return f"<{name}{told}>{gap}{inner}{gap}</{name}>"
    return f"<{name}{told}>{chance.choice(TEXTS)}</{name}{chance.choice(['', '', ' '])}>"


def records(chance: random.Random) -> Iterator[str]:
    odd = chance.choice([0.0, 0.02])
    for number in range(chance.randint(1, 60)):
        told = chance.choice(["", "", f' id="{number}"', f" id='{number}'"])
        inner = "".join(element(chance, "abcpr") for _ in range(chance.randint(0, 4)))
        if chance.random() < odd:
            at = inner.find("<", chance.randrange(len(inner) + 1))
            inner = inner[:at] + chance.choice(ODD) + inner[at:] if at >= 0 else chance.choice(ODD)
        yield f"<r{told}>{inner}</r>" if inner or chance.random() < 0.5 else f"<r{told}/>"
        if chance.random() < odd:
            yield chance.choice(["<other/>", "</d><d>", "text", "<!-- <r/> -->"])


def made(chance: random.Random) -> bytes:
    gap = chance.choice(["", "\n", "\n    "])
    spaces = chance.choice([" xmlns:n='urn:n' xmlns:m='urn:m'"] * 4 + [" xmlns:n='u' xmlns:m='u'", " xmlns:n='u'", ""])
    text = f"<d{spaces}>{gap}{gap.join(records(chance))}{gap}</d>"
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        at = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                text = text[:at] + text[at + 1 :]
            case 1:
                text = text[:at] + chance.choice(BROKEN) + text[at:]
            case 2:
                text = text[:at] + chance.choice("<>/&\"'= \x00\r") + text[at:]
            case _:
                text = text[: at or 1]
    data = text.encode()
    return data.replace(b"x", b"\xff", 1) if chance.random() < 0.05 else data


def told(path: Path, data: bytes, options: XmlRead, **wanted: Any) -> Any:
    try:
        found = read_xml(path, data, DECLARED, options, **wanted)
    except FormatError as error:
        return str(error)
    return found.records, [list(record) for record in found.records], found.failures


@pytest.mark.parametrize("seed", range(50))
def test_stretches_are_read_as_expat_reads_them(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    data = made(chance)
    # Undeclared elements that repeat and have elements are arrays, which nothing but Expat reads.
    unmapped = chance.choice([OnUnmapped.DROP, OnUnmapped.AUTO_WIDEN])
    options = XmlRead(chance.choice(["d/r", "/d/r"]), namespace_handling=chance.choice(list(Namespaces)))
    with monkeypatch.context() as alone:
        alone.setattr(columns.Columns, "regular", lambda *_: None)
        alone.setattr(Shapes, "new", lambda *_: None)
        expected = told(tmp_path / "in.xml", data, options, on_unmapped=unmapped)
    how = {"on_unmapped": unmapped, "tuning": Tuning(xml_first_bytes=chance.choice([20, 100]))}
    for size in (60, 500, 1 << 20):
        assert told(tmp_path / "in.xml", data, options, block_bytes=size, **how) == expected


def test_regular_records_are_read_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what stands above would compare Expat with itself."""
    taken: list[int] = []
    looked: list[int] = []
    take, new = quick.take, Shapes.new

    def spied(wanted: Any, data: bytes, record: str, prefixes: Any) -> quick.QuickBatch | None:
        found = take(wanted, data, record, prefixes)
        taken.append(found.count if found else 0)
        return found

    def noted(self: Shapes, data: bytes, record: str, prefixes: Any) -> list[bytes] | None:
        found = new(self, data, record, prefixes)
        looked.append(len(data) if found is not None else 0)
        return found

    monkeypatch.setattr(quick, "take", spied)
    monkeypatch.setattr(Shapes, "new", noted)
    records = "\n".join(f'<r id="{i}"><a>t &amp; {i}</a><z>{i}</z><c>\n<d>{i % 3}</d>\n</c></r>' for i in range(5000))
    got = read_xml(
        tmp_path / "in.xml", f"<d>\n{records}\n</d>", DECLARED, block_bytes=10_000, tuning=Tuning(xml_first_bytes=100)
    )
    assert [record["a"] for record in got.records] == [f"t & {i}" for i in range(5000)]
    assert [record["$widened.z"] for record in got.records] == [str(i) for i in range(5000)]
    assert sum(taken) > 4900
    assert sum(looked) > 0.9 * len(records)


@pytest.mark.parametrize("text", [*ODD, *BROKEN, "<a b='1'/>", '<a b="\n"/>', "text"])
def test_what_is_not_regular_is_left_to_expat(text: str) -> None:
    at = "<r><a>1</a>", "</r>"
    regular = Tags("".join(at).encode(), "r")
    assert regular.count == 1
    with pytest.raises(Irregular):
        Tags(text.join(at).encode(), "r")

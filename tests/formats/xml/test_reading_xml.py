from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types, values
from spark_jobs.formats import format, reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import ArrayPath, Reading
from spark_jobs.formats.xml import document
from spark_jobs.formats.xml.exact import tree
from spark_jobs.formats.xml.options import Namespaces, XmlRead, XmlWrite
from spark_jobs.formats.xml.read import XmlReader
from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import DEFAULT, Tuning
from tests.formats.csv.files import Columns, Result, source_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.scan.files import InputFile

ROWS = XmlRead("d/r")


def read_xml(
    path: Path,
    data: bytes | str,
    declared: Columns,
    options: XmlRead = ROWS,
    *,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    required: tuple[str, ...] = (),
    arrays: Sequence[ArrayPath] = (),
    tuning: Tuning = DEFAULT,
    **wanted: Any,
) -> Result:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    file = files.describe(str(path), path.name)
    reader = XmlReader(options, tuple(arrays), tuning=tuning)
    scan = reader.plan(tuple(declared), [file], on_unmapped)
    want = Reading(source_columns(declared, required), scan.undeclared, **wanted)
    result = Result()
    for split in splits.plan(scan.files, 8):
        outcome, counted = reading.SplitOutcome(), reading.SplitOutcome()
        for block in reader.read(split, scan.files[0], want, outcome):
            result.add(block, 0)
        reader.count(split, scan.files[0], counted)
        assert outcome.records == counted.records == result.count
    for record in result.records:
        for name, static in declared.items():
            if static.is_dynamic and name in record:
                record[name] = values.decode(record[name])
        for name in scan.undeclared:
            record[format.UNDECLARED_PREFIX + name] = values.decode(record[format.UNDECLARED_PREFIX + name])
    return result


def rows(text: str) -> str:
    return f"<d>{text}</d>"


def test_elements_attributes_and_what_is_in_them_are_columns(tmp_path: Path) -> None:
    declared = {"@id": types.INT, "n": types.STRING, "p": types.FLOAT, "p.@cur": types.STRING, "a.b.c": types.BOOL}
    text = "<r id='1'><n> tea </n><p cur='EUR'>2.50</p><a><b><c>yes</c></b></a></r><r><a/><n/><p cur='X'/></r>"
    got = read_xml(tmp_path / "in.xml", rows(text), declared, on_unmapped=OnUnmapped.DROP)
    assert [list(record.values()) for record in got.records] == [
        [1, "tea", 2.5, "EUR", True],
        [None, "", None, "X", None],
    ]
    flat = got.records
    # An array among the columns makes trees of the records; they say the same.
    grown = read_xml(tmp_path / "in.xml", rows(text), {**declared, "x": types.ARRAY}, on_unmapped=OnUnmapped.DROP)
    assert grown.records == [{**record, "x": None} for record in flat]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s/i", ["a", "b"]), ("/s/i", ["a", "b"]), ("//i", ["no", "a", "c", "b"]), ("//o/i", ["c"]),
        ("/s/x/i", ["no"]), ("s/none", []), ("//none", []), ("x:s/y:i", ["a", "b"]),
    ],
)  # fmt: skip
def test_records_are_where_the_path_leads(path: str, expected: list[str], tmp_path: Path) -> None:
    text = "<s><x><i><k>no</k></i></x><i><k>a</k></i><o><i><k>c</k></i></o><note/><i><k>b</k></i></s>"
    got = read_xml(tmp_path / "in.xml", text, {"k": types.STRING}, XmlRead(path))
    assert [record["k"] for record in got.records] == expected


@pytest.mark.parametrize(("path", "missing"), [("shop/i", "/shop"), ("s/no/i", "/s/no"), ("r", "/r")])
def test_a_path_that_leads_nowhere_ends_the_reading(path: str, missing: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"the file has no element '{missing}'; its root is 's'"):
        read_xml(tmp_path / "in.xml", "<s><x/></s>", {}, XmlRead(path))


def test_without_a_path_the_root_is_the_record(tmp_path: Path) -> None:
    got = read_xml(tmp_path / "in.xml", "<r v='1'>own <k>2</k></r>", {"@v": types.INT}, XmlRead())
    assert got.records == [{"@v": 1, "$widened.#text": "own", "$widened.k": "2"}]


def test_namespaces_are_stripped_or_kept(tmp_path: Path) -> None:
    text = rows("<r xmlns:g='urn:g' g:ref='1'><g:code>A</g:code><n>5</n></r>")
    assert read_xml(tmp_path / "in.xml", text, {}).records == [
        {"$widened.@ref": "1", "$widened.code": "A", "$widened.n": "5"}
    ]
    assert read_xml(tmp_path / "in.xml", text, {"@ref": types.INT, "code": types.STRING}).records == [
        {"@ref": 1, "code": "A", "$widened.n": "5"}
    ]
    kept = XmlRead("d/r", attribute_prefix="_", namespace_handling=Namespaces.QUALIFY)
    assert read_xml(tmp_path / "in.xml", text, {"_g:ref": types.INT, "code": types.STRING}, kept).records == [
        {"_g:ref": 1, "code": None, "$widened.g:code": "A", "$widened.n": "5"}
    ]


def test_texts_are_trimmed_but_for_cdata(tmp_path: Path) -> None:
    texts = [
        " a\n&lt;b&gt;<!-- c -->\t", "<![CDATA[ <x> ]]>", " x <![CDATA[ y ]]> z ", "&#233;&#x20AC;&#128640;",
        "one <i>two</i> three ", "a<?p i?>b", "\u00a0x\u00a0", "<![CDATA[]]>",
        " a <i/> b<![CDATA[ c ]]>",
    ]  # fmt: skip
    document = rows("".join(f"<r><t>{text}</t></r>" for text in texts))
    expected = ["a\n<b>", " <x> ", "x  y  z", "é€🚀", "one  three", "ab", "\u00a0x\u00a0", "", "a  b c "]
    for declared in ({"t": types.STRING}, {"t": types.STRING, "all": types.MAP}):
        got = read_xml(tmp_path / "in.xml", document, declared, on_unmapped=OnUnmapped.DROP)
        assert [record["t"] for record in got.records] == expected


@pytest.mark.thorough
def test_a_text_in_very_many_pieces_takes_little_time(tmp_path: Path) -> None:
    began = time.process_time()
    for piece, text in (("t<b/>", "t"), ("<![CDATA[t]]>", "t")):
        whole = rows(f"<r><t>{piece * 200_000}</t></r>")
        got = read_xml(tmp_path / "in.xml", whole, {"t": types.STRING}, on_unmapped=OnUnmapped.DROP)
        assert got.records == [{"t": text * 200_000}]
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "piece", ["x" * 99 + "\n", "x" * 99 + "<!-- -->", " " * 99 + "é"], ids=["lines", "comments", "blanks"]
)
@pytest.mark.parametrize("around", ["{}", "<![CDATA[{}]]>", "<i/>{}"], ids=["text", "section", "mixed"])
@pytest.mark.parametrize("kind", [types.STRING, types.ANY], ids=str)
def test_a_long_text_is_whole(piece: str, around: str, kind: types.Type, tmp_path: Path) -> None:
    """It comes in pieces, which are joined once."""
    text = piece * 3000
    got = read_xml(tmp_path / "in.xml", rows(f"<r><k>{around.format(text)}</k></r>"), {"k": kind}, record_bytes=1 << 20)
    is_verbatim = "CDATA" in around
    expected = text if is_verbatim else text.replace("<!-- -->", "").strip(" \n")
    found = got.records[0]["k"]
    assert (found if isinstance(found, str) else found["#text"]) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("on_unmapped", [OnUnmapped.DROP, OnUnmapped.AUTO_WIDEN])
def test_the_time_of_a_long_text_grows_with_its_length(on_unmapped: OnUnmapped, tmp_path: Path) -> None:
    took = []
    for megabytes in (8, 40):
        text = rows(f"<r><k>{'x' * (megabytes << 20)}</k></r>")
        began = time.process_time()
        read_xml(tmp_path / "in.xml", text, {"k": types.STRING}, on_unmapped=on_unmapped)
        took.append(time.process_time() - began)
    assert took[1] < took[0] * 12 + 1


def test_looking_for_names_keeps_no_texts(tmp_path: Path) -> None:
    """A text that is longer than all memory is refused by who reads it."""
    text = rows(f"<r><k>{'x' * (30 << 20)}</k><l a='1'/></r>")
    (tmp_path / "in.xml").write_text(text)
    reader = XmlReader(ROWS)
    del text
    tracemalloc.start()
    try:
        scan = reader.plan((), [files.describe(str(tmp_path / "in.xml"), "in.xml")])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert scan.undeclared == ("k", "l.@a")


def test_a_record_of_very_many_elements_is_refused_by_who_looks_for_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST_PARTS", 100)
    with pytest.raises(FormatError, match="a record has more than 100 elements and attributes"):
        read_xml(tmp_path / "in.xml", rows("<r>" + "<k a='1'/>" * 51 + "</r>"), {})


@pytest.mark.parametrize("beginning", ["<!--", "<?p ", "<", "<r a='"])
def test_what_never_ends_is_refused_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginning: str) -> None:
    monkeypatch.setattr(document, "MOST_RECORD_BYTES", 1 << 20)
    text = "<d><r><t>1</t></r>" + beginning + "x" * (3 << 20)
    with pytest.raises(FormatError, match="line 1, column 19: a tag, comment or instruction is longer than 1 MB"):
        read_xml(tmp_path / "in.xml", text, {"t": types.STRING}, ROWS)


def test_several_elements_of_one_name_are_an_array(tmp_path: Path) -> None:
    text = rows("<r><t>x</t><t/><t>y</t><l><k>1</k></l><l a='2'>own<k>3</k></l></r><r><t>z</t></r>")
    declared = {"t": types.ARRAY, "l": types.ANY}
    assert read_xml(tmp_path / "in.xml", text, declared, on_unmapped=OnUnmapped.DROP).records == [
        {"t": ["x", None, "y"], "l": [{"k": "1"}, {"#text": "own", "@a": "2", "k": "3"}]},
        {"t": ["z"], "l": None},
    ]
    got = read_xml(tmp_path / "in.xml", text, {"t": types.STRING})
    assert got.records == [
        {"t": '["x",null,"y"]', "$widened.l": [{"k": "1"}, {"#text": "own", "@a": "2", "k": "3"}]},
        {"t": "z", "$widened.l": None},
    ]
    assert [value for _, _, value, *_ in read_xml(tmp_path / "in.xml", text, {"l.k": types.INT}).failures] == [
        '["1","3"]'
    ]


LINES = "<line><qty>1</qty></line><line sku='B'><qty>2</qty><note>n2</note></line>"


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("block_bytes", [200, 1 << 22])
def test_elements_that_repeat_somewhere_are_an_array_of_maps_in_all_records(
    is_last: bool, block_bytes: int, tmp_path: Path
) -> None:
    """Wherever they do, and wherever blocks end: what is one element is an array of one."""
    how = {"block_bytes": block_bytes, "tuning": Tuning(xml_first_bytes=100)}
    one, none = "<r><a>1</a><line sku='A'><qty>7</qty></line></r>", "<r><a>2</a></r>"
    lines = [one] * 300 + [none] * 300
    lines.insert(len(lines) * is_last, f"<r>{LINES}</r>")
    lines.append("<r><line>text</line></r>")
    got = read_xml(tmp_path / "in.xml", rows("\n".join(lines)), {"a": types.INT}, **how)
    several = {"a": None, "$widened.line": [{"qty": "1"}, {"@sku": "B", "qty": "2", "note": "n2"}]}
    alone = [{"a": 1, "$widened.line": [{"@sku": "A", "qty": "7"}]}] * 300 + [{"a": 2, "$widened.line": None}] * 300
    alone.insert(len(alone) * is_last, several)
    assert got.records == [*alone, {"a": None, "$widened.line": ["text"]}]


def test_a_file_that_has_elements_once_gives_arrays_where_another_repeats_them(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(rows("<r><p><line sku='A'/></p></r>"))
    (tmp_path / "b.xml").write_text(rows(f"<r><p><n>1</n>{LINES}</p></r>"))
    inputs = [files.describe(str(tmp_path / name), name) for name in ("a.xml", "b.xml")]
    scan = XmlReader(ROWS).plan((), inputs)
    assert scan.undeclared == ("p.line", "p.n")
    wanted = Reading((), scan.undeclared)
    splits_of = splits.plan(scan.files)
    found = [
        values.decode(row["$widened.p.line"])
        for split in splits_of
        for block in XmlReader(ROWS).read(split, scan.files[split.file], wanted, reading.SplitOutcome())
        for row in block.batch.to_pylist()
    ]
    assert found == [[{"@sku": "A"}], [{"qty": "1"}, {"@sku": "B", "qty": "2", "note": "n2"}]]


def test_an_array_has_all_that_is_in_its_elements(tmp_path: Path) -> None:
    text = "<r><l><m k='1'/><m>2</m><x/></l><l> own <m><m/></m></l><l/><t>1</t><t>2</t></r><r><l><m>3</m></l></r>"
    got = read_xml(tmp_path / "in.xml", rows(text), {})
    assert got.records == [
        {
            "$widened.l": [{"m": [{"@k": "1"}, "2"], "x": None}, {"#text": "own", "m": {"m": None}}, None],
            "$widened.t": ["1", "2"],
        },
        {"$widened.l": [{"m": "3"}], "$widened.t": None},
    ]


@pytest.mark.parametrize("more", [{}, {"z": types.MAP}])
def test_declared_columns_keep_their_texts_beside_an_array(more: Columns, tmp_path: Path) -> None:
    text = rows(f"<r>{LINES}</r><r><line><qty>5</qty></line></r>")
    got = read_xml(tmp_path / "in.xml", text, {"line.qty": types.ARRAY, **more})
    assert [record["line.qty"] for record in got.records] == [["1", "2"], ["5"]]
    assert [record["$widened.line"] for record in got.records] == [
        [{"qty": "1"}, {"@sku": "B", "qty": "2", "note": "n2"}],
        [{"qty": "5"}],
    ]
    only = {"line.qty": types.ARRAY, "line.@sku": types.STRING, "line.note": types.STRING, **more}
    got = read_xml(tmp_path / "in.xml", text, only)
    assert [name for name in got.records[0] if name.startswith("$")] == []


def test_beside_a_declared_text_there_is_a_place_for_each_element(tmp_path: Path) -> None:
    text = rows(
        "<r><n lang='e'>A</n><n>B</n><n lang='d'><x><y>1</y></x><s q='3'>t</s></n></r><r><n lang='f'>C</n></r><r/>"
    )
    got = read_xml(tmp_path / "in.xml", text, {"n": types.STRING, "n.s": types.STRING})
    assert got.records == [
        {
            "n": '["A","B"]',
            "n.s": "t",
            "$widened.n.@lang": ["e", None, "d"],
            "$widened.n.x": [None, None, {"y": "1"}],
            "$widened.n.s.@q": ["3"],
        },
        {"n": "C", "n.s": None, "$widened.n.@lang": ["f"], "$widened.n.x": None, "$widened.n.s.@q": None},
        {"n": None, "n.s": None, "$widened.n.@lang": None, "$widened.n.x": None, "$widened.n.s.@q": None},
    ]


def test_arrays_are_exploded_and_joined(tmp_path: Path) -> None:
    text = rows(
        "<r><no>1</no><tag>x</tag><line><sku>a</sku><p c='E'>2</p></line><tag/><line><sku>b</sku></line></r>"
        "<r><no>2</no><tag>s</tag><line k='v'>7</line></r><r><no>3</no></r>"
    )
    declared = {"no": types.INT, "tag": types.STRING, "sku": types.STRING, "p.@c": types.STRING, "line": types.INT}
    arrays = [ArrayPath("tag", explode=False, separator="+"), ArrayPath("line")]
    got = read_xml(tmp_path / "in.xml", text, declared, arrays=arrays, on_unmapped=OnUnmapped.DROP)
    assert [list(record.values()) for record in got.records] == [
        [1, "x+", "a", "E", None], [1, "x+", "b", None, None], [2, "s", None, None, 7], [3, None, None, None, None],
    ]  # fmt: skip


def test_absent_and_unconvertible_values_fail(tmp_path: Path) -> None:
    text = rows("<r><i>x</i><s/></r><r><s>a</s></r><r><i/><s>b</s></r><r><i>1</i></r><r><i>2</i><s>c</s></r>")
    for more in ({}, {"m": types.MAP}):
        declared = {"i": types.INT, "s": types.STRING, **more}
        got = read_xml(tmp_path / "in.xml", text, declared, required=("i", "s"), failure_texts=True)
        assert [record["i"] for record in got.records] == [2]
        assert [row for row, *_ in got.failures] == [0, 1, 2, 3]
        details = [detail for *_, detail in got.failures]
        assert details[0] == "conversion failed: cannot convert 'x' to Int"
        assert details[1:] == ["missing required field 'i'"] * 2 + ["missing required field 's'"]


@pytest.mark.parametrize("most", range(4))
def test_only_the_records_that_count_are_read(most: int, tmp_path: Path) -> None:
    path = tmp_path / "in.xml"
    path.write_text(rows("<r><a>1</a></r><r><a>2</a></r><r><b>3</b></r>"))
    file = replace(files.describe(str(path), "in.xml"), most_records=most)
    reader = XmlReader(ROWS)
    scan = reader.plan((), [file])
    assert scan.undeclared == ("a", "b")[: (most > 0) + (most > 2)]
    (split,) = splits.plan(scan.files)
    outcome = reading.SplitOutcome()
    blocks = list(reader.read(split, scan.files[0], Reading(()), outcome))
    assert sum(block.batch.num_rows for block in blocks) == outcome.records == most


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("<d>\n<r><k>1</r></d>", "line 2, column 10: broken XML: mismatched tag"),
        ("<d><r>", "line 1, column 7: broken XML: no element found"),
        ("<d/><d/>", "line 1, column 5: broken XML: junk after document element"),
        ("<d><r a='1' a='2'/></d>", "duplicate attribute"),
        ("<d><r>&nbsp;</r></d>", "undefined entity"),
        ("<d><r>&#0;</r></d>", "reference to invalid character number"),
        (b"<d><r><k>caf\xe9</k></r></d>", "not well-formed"),
        ("not xml", "line 1, column 1: broken XML: syntax error"),
        ("<?xml version='1.0' encoding='klingon'?><d/>", "declares the encoding 'klingon', which is unknown"),
        ("<d>" + "<x>" * 300 + "</x>" * 300 + "</d>", "more than 256 levels deep"),
        ("<d><r>" + "<x>" * 300 + "</x>" * 300 + "</r></d>", "more than 256 levels deep"),
    ],
)
@pytest.mark.parametrize("declared", [{"k": types.STRING}, {"k": types.ARRAY}], ids=["flat", "tree"])
def test_a_broken_document_ends_the_reading_with_its_place(
    data: bytes | str, message: str, declared: Columns, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=message):
        read_xml(tmp_path / "in.xml", data, declared, on_unmapped=OnUnmapped.DROP)


@pytest.mark.parametrize("data", [b"\xff", b"\xff\xff", b"\0\0", b"\xef\xbb\xbf\xff", b"\xff\xfe\xff"])
def test_bytes_that_are_no_text_are_no_empty_file(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="broken XML"):
        read_xml(tmp_path / "in.xml", data, {"k": types.STRING}, on_unmapped=OnUnmapped.DROP)


@pytest.mark.parametrize(
    "data", [b"", b" \n", b"\xef\xbb\xbf\n", b"\xff\xfe \0", b"\xfe\xff\0 ", b"\xff\xfe\0\0 \0\0\0"]
)
def test_a_mark_and_white_space_are_an_empty_file(data: bytes, tmp_path: Path) -> None:
    assert read_xml(tmp_path / "in.xml", data, {"k": types.STRING}, on_unmapped=OnUnmapped.DROP).count == 0


BOMB = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10 if n else 'ha'}'>" for n in range(12))
HOSTILE = {
    "bomb": (f"<!DOCTYPE d [{BOMB}]><d><r><k>&e11;</k></r></d>", "declares the entity 'e0'"),
    "external": (
        "<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/hostname'>]><d><r><k>&x;</k></r></d>",
        "declares the entity 'x'",
    ),
    "unparsed": (
        "<!DOCTYPE d [<!NOTATION n SYSTEM 'n'><!ENTITY x SYSTEM 'x' NDATA n>]><d/>",
        "declares the entity 'x'",
    ),
    "parameter": (
        "<!DOCTYPE d [<!ENTITY % p SYSTEM 'p.ent'> %p;]><d><r/></d>",
        "line 1, column 41: .* the parameter entity 'p'",
    ),
    "elsewhere": ("<!DOCTYPE d [%p; <!ENTITY x 'y'>]><d/>", "`%p;` refers to an entity"),
    "long": (
        f"<!DOCTYPE d [<!ENTITY x '{'a' * 100_000}'>]><d><r><k>{'&x;' * 100_000}</k></r></d>",
        "declares the entity 'x'",
    ),
    "undeclared": ("<!DOCTYPE d SYSTEM 'd.dtd'><d><r><k>&nbsp;</k></r></d>", "undefined entity"),
    "skipped": ("<!DOCTYPE d><d><r><k>&nbsp;</k></r></d>", "undefined entity"),
    "endless": (
        f"<!DOCTYPE d [{'<!ELEMENT e ANY><!-- -->' * 100_000}",
        r"the document type \(`<!DOCTYPE`\) is longer than 1 MB",
    ),
    "endless name": (f"<!DOCTYPE d SYSTEM '{'x' * 2_000_000}'><d/>", "is longer than 1 MB"),
    "broken": ("<!DOCTYPE d [<!ELEMENT d (a,,b)>]><d/>", "line 1, column 2.: broken XML: "),
    "twice": ("<!DOCTYPE d><!DOCTYPE d><d/>", "broken XML|second document type"),
    "late": ("<d/><!DOCTYPE d>", "broken XML"),
    "declared late": ("<!DOCTYPE d><?xml version='1.0'?><d/>", "line 1, column 13: broken XML"),
    "wrong in the root": ("<!DOCTYPE\nd\n><d>\n<r></d>", "line 4, column 6: broken XML: mismatched tag"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_declaration_of_an_entity_is_refused_before_it_costs_anything(name: str, tmp_path: Path) -> None:
    text, message = HOSTILE[name]
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=message):
            read_xml(tmp_path / "in.xml", text, {"k": types.STRING})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (16 if "endless" in name else 8) << 20
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE d>",
        "<!DOCTYPE d SYSTEM 'http://localhost:9/d.dtd'>",
        '<?xml version="1.0"?>\n<!-- <d> -->\n<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://x">',
        "<!DOCTYPE d [<!ELEMENT d (r)*> <!ELEMENT r ANY> <!-- ]> <d> --> <?p ]>?> <!NOTATION n SYSTEM ']>'>\n] >",
        "<!DOCTYPE d SYSTEM 'file:///etc/hostname' [<!ATTLIST r k NMTOKENS 'default' x CDATA #FIXED 'y'>]>",
        "<!DOCTYPE d [<!ATTLIST k xmlns:n CDATA 'urn:n' a ID #IMPLIED>]>",
        f"<!DOCTYPE d [{'<!ELEMENT e ANY>' * 10_000}]>",
    ],
)
@pytest.mark.parametrize("piece", [7, 1 << 16])
@pytest.mark.parametrize("kind", [types.STRING, types.ANY])
def test_a_document_type_is_passed_over(doctype: str, piece: int, kind: types.Type, tmp_path: Path) -> None:
    """Attributes get no default, and lose no blanks."""
    tuning = Tuning(xml_first_bytes=piece)
    text = rows("<r k=' a  b '><k a=' i '>1</k></r><r/>")
    expected = read_xml(tmp_path / "in.xml", text, {"k": kind}, tuning=tuning).records
    got = read_xml(tmp_path / "in.xml", doctype + text, {"k": kind}, tuning=tuning)
    assert got.records == expected
    assert expected[0]["$widened.@k"] == " a  b "
    with pytest.raises(FormatError, match=f"line {doctype.count(chr(10)) + 1}, column .*: broken XML: unbound prefix"):
        read_xml(tmp_path / "in.xml", doctype + "<d><r><n:k/></r></d>", {"k": kind}, tuning=tuning)


@pytest.mark.parametrize("piece", [7, 1 << 16])
@pytest.mark.parametrize("declared", [{"k": types.STRING}, {"k": types.ANY}, {}], ids=str)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<r><n:k>1</n:k></r>", "unbound prefix"),
        ("<n:r/>", "unbound prefix"),
        ("<r n:k='1'/>", "unbound prefix"),
        ("<x xmlns:n='urn:n'/><r><n:k/></r>", "unbound prefix"),
        ("<r xmlns:n=''/>", "must not undeclare prefix"),
        ("<r xmlns:xmlns='urn:n'/>", "reserved prefix"),
        ("<r xmlns:xml='urn:n'/>", "reserved prefix"),
        ("<r xmlns:n='http://www.w3.org/XML/1998/namespace'/>", "reserved namespace"),
        ("<r xmlns='http://www.w3.org/2000/xmlns/'/>", "reserved namespace"),
        ("<r xmlns:a='u' xmlns:b='u' a:k='1' b:k='2'/>", "duplicate attribute"),
        ("<r><a:b:c/></r>", "not well-formed"),
        ("<r><:k/></r>", "not well-formed"),
        ("<r xmlns:n='u'><n:1/></r>", "not well-formed"),
    ],
)
def test_namespaces_that_are_not_well_formed_are_refused(
    text: str, message: str, declared: Columns, piece: int, tmp_path: Path
) -> None:
    """Behind many records that are, too, which are not read one by one."""
    tuning = Tuning(xml_first_bytes=piece)
    for before in ("", "<r><k>1</k></r>" * 3000):
        with pytest.raises(FormatError, match=f"broken XML: .*{message}"):
            read_xml(tmp_path / "in.xml", rows(before + text), declared, tuning=tuning)


@pytest.mark.parametrize("piece", [7, 1 << 16])
def test_prefixes_are_declared_where_they_are_used_or_around(piece: int, tmp_path: Path) -> None:
    tuning = Tuning(xml_first_bytes=piece)
    records = "<n:r><n:k xml:lang='e'>1</n:k></n:r>" * 2000
    text = f"<d xmlns:n='urn:n' xmlns:xml='http://www.w3.org/XML/1998/namespace'>{records}"
    text += "<m:r xmlns:m='urn:m'><k xmlns='x' m:lang='e'>1</k></m:r></d>"
    for on_unmapped in OnUnmapped.AUTO_WIDEN, OnUnmapped.DROP:
        got = read_xml(
            tmp_path / "in.xml", text, {"k": types.INT, "k.@lang": types.STRING}, on_unmapped=on_unmapped, tuning=tuning
        )
        assert got.records == [{"k": 1, "k.@lang": "e"}] * 2001
    kept = XmlRead("d/n:r", namespace_handling=Namespaces.QUALIFY)
    got = read_xml(tmp_path / "in.xml", text, {"n:k": types.INT}, kept, tuning=tuning)
    assert got.records == [{"n:k": 1, "$widened.n:k.@xml:lang": "e"}] * 2000


@pytest.mark.parametrize("version", ["1.1", "1.5", "2.0"])
def test_another_version_of_xml_is_refused(version: str, tmp_path: Path) -> None:
    text = f"<?xml version='{version}'?><d><r><k>1</k></r></d>"
    with pytest.raises(FormatError, match=r"declares version .\.. of XML, which has other rules"):
        read_xml(tmp_path / "in.xml", text, {"k": types.INT})


@pytest.mark.parametrize(
    ("declared", "data", "message"),
    [
        ("iso-8859-1", "utf-8-sig", "declares the encoding 'iso-8859-1', but its byte order mark shows UTF-8"),
        ("utf-8", "utf-16", "declares the encoding 'utf-8', but its byte order mark shows UTF-16-LE"),
        ("UTF-16", "utf-8-sig", "byte order mark shows UTF-8"),
        ("utf-8", "utf-16-be", "but its first character shows UTF-16-BE"),
        ("utf-16le", "utf-16-be", "but its first character shows UTF-16-BE"),
        (
            "utf-16",
            "utf-8",
            "declares the encoding 'utf-16', but its first character shows an encoding of single bytes",
        ),
        ("klingon", "utf-8-sig", "declares the encoding 'klingon', but its byte order mark shows UTF-8"),
    ],
)
def test_an_encoding_that_a_document_surely_does_not_have_is_refused(
    declared: str, data: str, message: str, tmp_path: Path
) -> None:
    text = f"<?xml version='1.0' encoding='{declared}'?>" + rows("<r><k>1</k></r>")
    with pytest.raises(FormatError, match=message):
        read_xml(tmp_path / "in.xml", text.encode(data), {"k": types.INT})
    options = XmlRead("d/r", encoding=data)
    assert read_xml(tmp_path / "in.xml", text.encode(data), {"k": types.INT}, options).records == [{"k": 1}]


@pytest.mark.parametrize(
    ("declared", "codec"),
    [
        ("", "utf-8"), ("", "utf-8-sig"), ("", "utf-16"), ("utf-16", "utf-16-le"), ("utf-16be", "utf-16-be"),
        ("iso-8859-1", "latin-1"), ("windows-1252", "cp1252"), ("", "utf-32"), ("Shift_JIS", "shift_jis"),
        ("ISO-10646-UCS-2", "utf-16"), ("UTF8", "utf-8-sig"), ("UTF-16LE", "utf-16"), ("UCS-4", "utf-32-be"),
    ],
)  # fmt: skip
def test_the_file_says_its_encoding(declared: str, codec: str, tmp_path: Path) -> None:
    text = "日本" if codec == "shift_jis" else "café"
    head = f"<?xml version='1.0' encoding='{declared}'?>" if declared else ""
    data = (head + rows(f"<r><k>{text}</k></r>")).encode(codec)
    assert read_xml(tmp_path / "in.xml", data, {"k": types.STRING}).records == [{"k": text}]


def test_an_option_overrules_what_the_file_says(tmp_path: Path) -> None:
    data = "<?xml version='1.0' encoding='utf-8'?><d><r><k>é</k></r></d>".encode("latin-1")
    options = XmlRead("d/r", encoding="latin-1")
    assert read_xml(tmp_path / "in.xml", data, {"k": types.STRING}, options).records == [{"k": "é"}]


@pytest.mark.parametrize("data", ["", " \n\t"])
def test_a_file_without_anything_is_skipped(data: str, tmp_path: Path) -> None:
    (tmp_path / "in.xml").write_text(data)
    scan = XmlReader(ROWS).plan(("k",), [files.describe(str(tmp_path / "in.xml"), "in.xml")])
    assert (scan.files, scan.skipped) == ((), ("in.xml",))


def test_missing_columns_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(rows("<r><k>1</k><lime>2</lime></r>"))
    (tmp_path / "b.xml").write_text(rows("<r><line><x/></line></r>"))
    inputs = [files.describe(str(tmp_path / name), name) for name in ("a.xml", "b.xml")]
    scan = XmlReader(ROWS).plan(("k", "line", "limes"), inputs)
    assert scan.missing == (("k", 1), ("line", 1), ("limes", 2))
    assert scan.nowhere == ("limes",)
    assert scan.warnings == (
        "W210: no file has the declared column 'limes', which is null in every record; did you mean `lime`?",
    )
    with pytest.raises(FormatError, match="undeclared column 'lime'"):
        XmlReader(ROWS).plan(("k", "line"), inputs, OnUnmapped.REJECT)


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for count in (6_000, 24_000):
        path = tmp_path / "in.xml"
        path.write_text(rows("<x><y>1</y></x><r><k>some text</k><l>other text</l></r>" * count))
        reader = XmlReader(ROWS)
        scan = reader.plan(("k",), [files.describe(str(path), path.name)], OnUnmapped.DROP)
        want = Reading(source_columns({"k": types.STRING}), block_bytes=1 << 18)
        tracemalloc.start()
        try:
            (split,) = splits.plan(scan.files)
            outcome = reading.SplitOutcome()
            found = sum(block.count for block in reader.read(split, scan.files[0], want, outcome))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert found == count
    assert peaks[1] < peaks[0] * 1.2


@pytest.mark.parametrize(
    "data",
    [f"<d><r><k>{'x' * 3_000_000}</k></r></d>", f"<d><r k='{'x' * 3_000_000}'/></d>", f"<d><r a='{'y' * 3_000_000}"],
    ids=["text", "attribute", "endless"],
)  # fmt: skip
def test_a_record_that_is_too_long_ends_the_reading(data: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="longer than 1000000 bytes") as raised:
        read_xml(tmp_path / "in.xml", data, {"k": types.STRING}, on_unmapped=OnUnmapped.DROP, record_bytes=1_000_000)
    assert raised.value.code == "E310"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (XmlRead("a//b"), "record_path"), (XmlRead(""), "record_path"), (XmlRead("a/b/"), "record_path"),
        (XmlRead("a[1]"), "record_path"), (XmlRead(attribute_prefix="."), "attribute_prefix"),
        (XmlWrite(root_element="1a"), "root_element"), (XmlWrite(record_element="a:b"), "record_element"),
        (XmlRead(encoding="klingon"), "encoding"), (XmlWrite(encoding="klingon"), "encoding"),
        (XmlWrite(record_element="é", encoding="ascii"), "record_element"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: XmlRead | XmlWrite, key: str) -> None:
    assert [name for name, _ in options.problems()] == [key]


@pytest.mark.parametrize("behind", ["<d/>", "x", "\0", "</d>", "<!DOCTYPE d>", "&amp;", "<?xml version='1.0'?>"])
@pytest.mark.parametrize("packed", [Compression.NONE, Compression.GZIP, Compression.ZSTD, Compression.LZ4])
@pytest.mark.parametrize("count", [1, 5000])
def test_what_stands_behind_the_root_is_refused(behind: str, packed: Compression, count: int, tmp_path: Path) -> None:
    """In a member of its own, too."""
    text = rows("<r><k>1</k></r>" * count)
    path = tmp_path / "in.xml"
    for parts in ([text + behind], [text, behind]):
        path.write_bytes(b"".join(pack(part.encode(), packed) for part in parts))
        reader = XmlReader(XmlRead("d/r", compression=packed))
        file = replace(files.describe(str(path), path.name), compression=packed)
        for on_unmapped in OnUnmapped:
            with pytest.raises(FormatError, match="broken XML"):
                read_all(reader, file, on_unmapped)


def read_all(reader: XmlReader, file: InputFile, on_unmapped: OnUnmapped) -> None:
    scan = reader.plan(("k",), [file], on_unmapped)
    want = Reading(source_columns({"k": types.INT}), scan.undeclared)
    for split in splits.plan(scan.files, 8):
        list(reader.read(split, scan.files[0], want, reading.SplitOutcome()))

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import registry
from spark_jobs.formats.json.options import JsonWrite
from spark_jobs.formats.xml import inner
from spark_jobs.formats.xml.options import XmlRead, XmlWrite
from spark_jobs.formats.xml.write import XmlWriter
from tests.formats.xml.test_reading_xml import read_xml

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from spark_jobs.formats.format import Encoded

Table = dict[str, tuple[types.Type, list[Any]]]


def write(table: Table, options: XmlWrite | None = None, **wanted: bool) -> tuple[bytes, Encoded]:
    schema = Schema(tuple(Column(name, static) for name, (static, _) in table.items()))
    writer = registry.named("xml").writer(schema, options or XmlWrite(), **wanted)
    arrays = [values.to_arrow(cells, static) for static, cells in table.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(table))
    encoded = writer.encode(batch, ends=True)
    assert encoded.ends is None or [*encoded.ends][-1:] == ([len(encoded.data)] if encoded.rows else [])
    # Pieces are independent of each other.
    parts = [writer.encode(batch.slice(row, 1)) for row in range(batch.num_rows)]
    assert b"".join(part.data for part in parts) == encoded.data
    assert [row for row, part in enumerate(parts) if part.failures] == [failed.row for failed in encoded.failures]
    return writer.start + bytes(encoded.data) + writer.end, encoded


def records(table: Table, **wanted: bool) -> str:
    data, encoded = write(table, **wanted)
    ElementTree.fromstring(data)
    assert encoded.failures == []
    return (
        data.decode()
        .removeprefix("<Root><Record")
        .removeprefix(">")
        .removesuffix("</Record></Root>")
        .replace("</Record><Record>", "|")
    )


def test_values_are_elements_and_nulls_are_left_out() -> None:
    table: Table = {
        "s": (types.STRING, ["a", "", None]),
        "f": (types.FLOAT, [2.0, 1e21, None]),
        "b": (types.BOOL, [True, False, None]),
        "at": (types.DATETIME, [dt.datetime(2024, 1, 2, 3, 4, 5), dt.datetime(2024, 1, 1, 0, 0, 0, 500000), None]),
        "x": (types.ANY, [1, "<", None]),
    }
    full = "<s>a</s><f>2</f><b>true</b><at>2024-01-02T03:04:05</at><x>1</x>"
    more = "<s/><f>1000000000000000000000</f><b>false</b><at>2024-01-01T00:00:00.500</at><x>&lt;</x>"
    assert records(table) == f"{full}|{more}|"
    assert records(table, preserve_nulls=True) == f"{full}|{more}|<s/><f/><b/><at/><x/>"


def test_dotted_names_nest_and_attributes_belong_to_their_element() -> None:
    table: Table = {
        "a.x": (types.INT, [1, None, None]),
        "n": (types.INT, [5, 5, 5]),
        "a.b.y": (types.STRING, ["u", "", None]),
        "p.@cur": (types.STRING, ["<\n", None, None]),
        "p": (types.FLOAT, [1.5, None, 2.0]),
        "@id": (types.INT, [7, None, None]),
        "a": (types.STRING, ["t", None, None]),
        "#text": (types.STRING, ["own", None, None]),
        "q.@r": (types.INT, [None, 1, None]),
        "q.s": (types.INT, [None, None, 2]),
    }
    data, _ = write(table)
    assert data.decode() == (
        '<Root><Record id="7">own<a>t<x>1</x><b><y>u</y></b></a><n>5</n><p cur="&lt;&#10;">1.5</p></Record>'
        '<Record><a><b><y/></b></a><n>5</n><q r="1"/></Record>'
        "<Record><n>5</n><p>2</p><q><s>2</s></q></Record></Root>"
    )


def test_two_columns_that_are_the_text_of_an_element_are_two_elements() -> None:
    both: Table = {"p.#text": (types.STRING, ["2", None]), "p": (types.STRING, ["1", "1"])}
    assert records(both) == "<p>2</p><p>1</p>|<p>1</p>"
    attributes: Table = {"p.@a": (types.STRING, ["x", "x"])}
    assert records(both | attributes) == '<p>2</p><p a="x">1</p>|<p a="x">1</p>'


def test_an_empty_array_is_no_element_where_nulls_are_kept() -> None:
    assert records({"l": (types.ARRAY, [[], None, ["a"]])}, preserve_nulls=True) == "|<l/>|<l>a</l>"


def test_arrays_are_repeated_elements() -> None:
    table: Table = {"t": (types.ARRAY, [["a&", None, 1, [2]], [], None]), "u": (types.ANY, ["x", ["y"], None])}
    assert records(table) == "<t>a&amp;</t><t/><t>1</t><t>[2]</t><u>x</u>|<u>y</u>|"


def test_an_array_of_maps_is_an_element_for_each() -> None:
    maps = [{"@a": "<\n", "@n": None, "#text": "t&", "b": None, "c": ["1", {"@d.e": 2.0}, ""], "f": {}}, "x", None, {}]
    table: Table = {
        "p.l": (types.ANY, [maps, [{"q": True}], None, "text"]),
        "p.l.@k": (types.STRING, [None, None, "v", None]),
        "p.l.m": (types.INT, [None, None, 1, 2]),
        "z": (types.ARRAY, [[{"y": {"x": [1, 2]}}], [], [{"e": []}], None]),
    }
    first = '<p><l a="&lt;&#10;">t&amp;<b/><c>1</c><c d.e="2"/><c/><f/></l><l>x</l><l/><l/></p>'
    first += "<z><y><x>1</x><x>2</x></y></z>"
    rest = '<p><l><q>true</q></l></p>|<p><l k="v"><m>1</m></l></p><z/>|<p><l>text<m>2</m></l></p>'
    assert records(table) == f"{first}|{rest}"


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("l", {"a": 1}, r"a map cannot be written as XML; write its members as columns \(`l.name`\)"),
        ("l", [{"a b": 1}], "'a b' is not an XML name"),
        ("l", [{"n:a": 1}], "'n:a' has a colon"),
        ("l", [{"@xmlns": "u"}], "would declare a namespace"),
        ("l", [{"@": 1}], "'' is not an XML name"),
        ("l", [{"@a": {"b": 1}}], "a map cannot be written as `@a`"),
        ("l", [{"#text": [1]}], "an array cannot be written as `#text`"),
        ("l", [{"a": "\0"}], r"the character U\+0000"),
        ("l", [{"@a": "\uffff"}], r"the character U\+FFFF"),
        ("l", [1, [{"a": 1}]], "a map in an array of an array"),
        ("l", [{"a": [[{"b": 1}]]}], "a map in an array of an array"),
        ("@l", ["a", "b"], r"an array cannot be written as an attribute of XML; emit its text \(`.to_string\(\)`\)"),
        ("m.@l", [{"a": 1}], "an array cannot be written as an attribute"),
        ("m.#text", ["a"], "an array cannot be written as the text of an element"),
    ],
)
def test_what_has_no_place_in_an_element_is_an_error_of_its_record(column: str, value: Any, problem: str) -> None:
    data, encoded = write({column: (types.ANY, ["1", value, "2"]), "z": (types.INT, [1, 2, 3])})
    (failed,) = encoded.failures
    assert (failed.row, failed.failure.field, failed.failure.value) == (1, column, values.json_text(value))
    assert failed.failure.detail.startswith(f"column '{column}': ")
    assert re.search(problem, failed.failure.detail)
    assert data.count(b"<Record") == 2


def test_maps_that_stand_in_each_other_without_end_are_refused() -> None:
    deep: Any = "x"
    for _ in range(256):
        deep = {"a": deep}
    with pytest.raises(inner.Unwritable, match="more than 256 levels deep"):
        inner.elements("l", [deep])


@pytest.mark.parametrize("beside", ["l.@a", "l.b", "l.b.c.@d"])
def test_an_array_with_another_column_in_its_element_is_an_error_of_its_record(beside: str) -> None:
    """Which of the elements it belongs to is not told."""
    table: Table = {"l": (types.ANY, [["x", "y"], ["x", "y"], "x"]), beside: (types.STRING, ["1", None, "2"])}
    data, encoded = write(table)
    (failed,) = encoded.failures
    assert (failed.row, failed.failure.field) == (0, "l")
    assert f"an array of elements cannot be written as XML with '{beside}' beside it" in failed.failure.detail
    assert data.startswith(b"<Root><Record><l>x</l><l>y</l></Record>")


def test_attributes_have_names_with_points(tmp_path: Path) -> None:
    columns = {"@name.common": types.STRING, "a.@b.c": types.STRING, "a.@x.y.z.u.v.w.t": types.STRING}
    table: Table = {name: (static, [name]) for name, static in columns.items()}
    assert records(table) == ' name.common="@name.common"><a b.c="a.@b.c" x.y.z.u.v.w.t="a.@x.y.z.u.v.w.t"/>'
    data, _ = write(table)
    got = read_xml(tmp_path / "in.xml", data, columns, XmlRead("Root/Record"))
    assert got.records == [{name: name for name in columns}]


def test_what_xml_cannot_hold_is_an_error_of_its_record() -> None:
    table: Table = {
        "s": (types.STRING, ["ok", "a\0b", "\uffff", "\t\n\r\x7f", "\x1b", "z"]),
        "x": (types.ANY, [1, 2, 3, 4, 5, {"k": 1}]),
        "l": (types.ARRAY, [[], [], [], [], [], [{"k": 1}]]),
    }
    data, encoded = write(table)
    assert [(failed.row, failed.failure.field) for failed in encoded.failures] == [
        (1, "s"),
        (2, "s"),
        (4, "s"),
        (5, "x"),
    ]
    assert "U+0000 cannot be written as XML" in encoded.failures[0].failure.detail
    assert "a map cannot be written as XML" in encoded.failures[3].failure.detail
    assert data == b"<Root><Record><s>ok</s><x>1</x></Record><Record><s>\t\n&#13;\x7f</s><x>4</x></Record></Root>"


@pytest.mark.parametrize(
    "encoding", ["utf-16", "latin-1", "windows-1252", "shift_jis", "ascii", "utf-16-le", "utf-8-sig"]
)
def test_other_encodings_are_declared(encoding: str, tmp_path: Path) -> None:
    data, encoded = write({"s": (types.STRING, ["e", "🚀"])}, XmlWrite(encoding=encoding))
    is_unicode = encoding.startswith("utf")
    assert [failed.row for failed in encoded.failures] == ([] if is_unicode else [1])
    got = read_xml(tmp_path / "in.xml", data, {"s": types.STRING}, XmlRead("Root/Record"))
    assert [record["s"] for record in got.records] == (["e", "🚀"] if is_unicode else ["e"])


def test_without_records_or_columns_it_is_a_document() -> None:
    writer = XmlWriter(Schema((Column("a", types.INT),)), XmlWrite(root_element="list"))
    assert writer.empty == b"<list></list>"
    bare = XmlWriter(Schema(()), XmlWrite())
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert bare.encode(batch).data == b"<Record></Record><Record></Record>"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a b", "not an XML name"), ("1a", "not an XML name"), ("a..b", "not an XML name"), ("f:n", "has a colon"),
        ("a.@", "not an XML name"), ("", "not an XML name"), ("a.#text.b", "not an XML name"), ("@a.b", None),
        ("a.@b.c", None), ("a.b.@c.d", None), ("@a.@b", "not an XML name"),
        ("@", "not an XML name"), ("@.a", "not an XML name"),
        ("@xmlns", "would declare a namespace"), ("a.@xmlns", "would declare a namespace"), ("xmlns", None),
        ("a", None), ("é.ñ-1", None), ("@id", None), ("a.@b", None), ("#text", None), ("a.#text", None),
    ],
)  # fmt: skip
def test_columns_have_names_of_elements(name: str, problem: str | None) -> None:
    found = XmlWrite().name_problem(name)
    assert (found is None) if problem is None else problem in (found or "")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"), max_size=6).filter(
    lambda text: text == text.strip(" \t\r\n") and not any(c < " " and c not in "\t\n\r" for c in text)
)
COLUMNS: dict[str, tuple[types.Type, st.SearchStrategy[Any]]] = {
    "s": (types.STRING, TEXTS),
    "@a": (types.STRING, TEXTS),
    "p.q": (types.INT, st.integers(-(2**63), 2**63 - 1)),
    "p.@b": (types.STRING, TEXTS),
    "p": (types.FLOAT, st.floats(allow_nan=False, allow_infinity=False)),
    "d": (types.DATE, st.dates()),
    "t": (types.DATETIME, st.datetimes()),
    "y": (types.BOOL, st.booleans()),
    "#text": (types.STRING, TEXTS.filter(bool)),
    "l": (types.ARRAY, st.lists(TEXTS.filter(bool), min_size=1, max_size=3)),
}


@given(data=st.data(), encoding=st.sampled_from(["utf-8", "utf-16"]))
def test_what_is_read_is_what_was_written(data: st.DataObject, encoding: str, tmp_path: Path) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True))
    count = data.draw(st.integers(0, 4))
    table: Table = {}
    for name in names:
        static, cells = COLUMNS[name]
        table[name] = (static, data.draw(st.lists(st.none() | cells, min_size=count, max_size=count)))
    written, encoded = write(table, XmlWrite(encoding=encoding))
    assert encoded.failures == []
    root = ElementTree.fromstring(written)
    assert [child.tag for child in root] == ["Record"] * count
    got = read_xml(
        tmp_path / "in.xml", written, {name: static for name, (static, _) in table.items()}, XmlRead("Root/Record")
    )
    assert got.failures == []
    assert got.records == [{name: table[name][1][row] for name in names} for row in range(count)]


@pytest.mark.parametrize("text", ["\xa0", "\x85\u2003", "\u3000x"])
def test_text_before_a_child_is_blank_by_the_rules_of_xml(text: str, tmp_path: Path) -> None:
    """Spaces of Unicode are characters like others (XML 1.0, 2.3)."""
    columns = {"#text": types.STRING, "p.q": types.INT}
    table: Table = {name: (static, [value]) for (name, static), value in zip(columns.items(), [text, 0], strict=True)}
    written, _ = write(table, XmlWrite())
    assert read_xml(tmp_path / "in.xml", written, columns, XmlRead("Root/Record")).records == [
        {"#text": text, "p.q": 0}
    ]


NAMES = st.sampled_from(["a", "b", "c.d", "é"])
PARTS = st.recursive(
    st.none() | TEXTS.filter(bool),
    lambda cells: st.dictionaries(NAMES, cells | st.lists(cells, min_size=2, max_size=3), min_size=1, max_size=3),
    max_leaves=6,
)


def written_as(name: str, value: Any, chance: random.Random) -> str:
    """Some element, with attributes here and there."""
    if isinstance(value, list):
        return "".join(written_as(name, item, chance) for item in value)
    told = "".join(f' {key}="{chance.choice(["", "1", "é &amp;"])}"' for key in "kl" if chance.random() < 0.2)
    if not isinstance(value, dict):
        return f"<{name}{told}>{escape(value or '', {chr(13): '&#13;'})}</{name}>"
    content = "".join(written_as(key, item, chance) for key, item in value.items())
    return f"<{name}{told}>{chance.choice(['', '', 'own '])}{content}</{name}>"


@given(trees=st.lists(PARTS.filter(bool), max_size=5), chance=st.randoms(use_true_random=False))
def test_undeclared_content_is_the_same_after_it_was_written_and_read_again(
    trees: list[Any], chance: random.Random, tmp_path: Path
) -> None:
    """As XML, and as JSON by way of its objects."""
    text = f"<d>{''.join(written_as('r', tree, chance) for tree in trees)}</d>"
    first = read_xml(tmp_path / "in.xml", text, {}, XmlRead("d/r"))
    names = [name.removeprefix("$widened.") for name in (first.records or [{}])[0]]
    table: Table = {name: (types.ANY, [record[f"$widened.{name}"] for record in first.records]) for name in names}
    data, encoded = write(table)
    # What had the same attribute or text in two places has no place again.
    assert encoded.failures == []
    again = read_xml(tmp_path / "in.xml", data, {}, XmlRead("Root/Record"))
    assert again.count == first.count
    for old, new in zip(first.records, again.records, strict=True):
        assert {key: value for key, value in old.items() if value is not None} == {
            key: value for key, value in new.items() if value is not None
        }, (text, data)
    schema = Schema(tuple(Column(name, types.ANY) for name in names))
    batch = pa.RecordBatch.from_arrays([values.to_arrow(cells, types.ANY) for _, cells in table.values()], names=names)
    if names:
        json_writer = registry.named("json").writer(schema, JsonWrite())
        read_again = json.loads(json_writer.start + bytes(json_writer.encode(batch).data) + json_writer.end)
        assert read_again == [
            {name: cells[row] for name, (_, cells) in table.items() if cells[row] is not None}
            for row in range(first.count)
        ]

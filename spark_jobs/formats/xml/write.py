"""Batches to XML bytes: one document with an element for each record (`docs/semantics/xml.md`).

Like CSV and JSON, records are texts joined by Arrow kernels: tags are constants between the columns. Optional
elements become a column of whole elements first, which the join skips where they are null.
"""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, format
from spark_jobs.formats.xml import elements, inner
from spark_jobs.formats.xml.options import TEXT, attribute_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.xml.elements import Element
    from spark_jobs.formats.xml.options import XmlWrite

#: The same for Arrow, which spells characters beyond ASCII in its own way.
_REFUSED = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x{fffe}\x{ffff}]"
_NONCHARACTERS = ("\ufffe".encode(), "\uffff".encode())
#: Kinds whose texts have nothing to escape.
_PLAIN_KINDS = (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.DATE, Kind.DATETIME)
_TEXT_HELP = "emit its text (`.to_string()`)"


class XmlWriter:
    """Writes the columns of an output as XML; see `format.Writer`."""

    separator = b""

    def __init__(self, schema: Schema, options: XmlWrite, *, preserve_nulls: bool = False) -> None:
        self._columns = schema.columns
        self._preserve_nulls = preserve_nulls
        self._encoding = encoding.Encoding(options.encoding)
        self._record = elements.record(options.record_element, [column.name for column in schema.columns])
        self._repeated = list(elements.repeated(self._record))
        start = f"{_declaration(options.encoding)}<{options.root_element}>"
        self.start = self._encoding.mark + self._encoding.encode(start)
        self.continued = self.start
        self.end = self._encoding.encode(f"</{options.root_element}>")
        self.empty = self.start + self.end

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The bytes of a batch that has the writer's columns, in their order; with `ends` where its records end."""
        failures: dict[int, Failure] = {}
        texts = [_Texts(column, array, failures) for column, array in zip(self._columns, batch.columns, strict=True)]
        for element in self._repeated:
            self._refuse_other_columns(element, texts, batch.columns, failures)
        kept = pa.array([row for row in range(batch.num_rows) if row not in failures], pa.int64()) if failures else None
        if kept is not None:
            for text in texts:
                text.take(kept)
        encoded = self._bytes(texts, batch.num_rows - len(failures), ends)
        rows = range(batch.num_rows) if kept is None else kept.to_pylist()
        moved = [RowFailure(rows[failed.row], failed.failure) for failed in encoded.failures]
        found = [*moved, *(RowFailure(row, failure) for row, failure in failures.items())]
        return replace(encoded, failures=sorted(found, key=lambda failed: failed.row))

    def _refuse_other_columns(
        self, element: Element, texts: list[_Texts], arrays: Sequence[pa.Array], failures: dict[int, Failure]
    ) -> None:
        """An array is several elements, and other columns do not say in which of them they are."""
        assert element.text is not None
        column = self._columns[element.text].name
        rows = [row for row in texts[element.text].lists if row not in failures]
        for place in elements.places_in(element) if rows else ():
            array, other = arrays[place], self._columns[place].name
            for row in rows:
                if array[row].is_valid:
                    detail = (
                        f"column '{column}': an array of elements cannot be written as XML with '{other}' beside it"
                    )
                    help = f"leave one of them out, or put '{other}' into the array"
                    failures.setdefault(row, Failure(f"{detail}; {help}", value=array[row].as_py(), field=column))

    def _bytes(self, texts: list[_Texts], rows: int, ends: bool) -> format.Encoded:
        if not rows:
            return format.Encoded(b"", 0)
        try:
            lines = _Lines(texts, rows, preserve_nulls=self._preserve_nulls).of(self._record)
        except pa.ArrowCapacityError:
            # More than 2 GB of text: halves fit.
            half = rows // 2
            first = self._bytes([text.slice(0, half) for text in texts], half, ends)
            second = self._bytes([text.slice(half) for text in texts], rows - half, ends)
            return format.concatenated(first, second, half)
        return self._encoding.encode_column(lines, ends=ends)


def _declaration(name: str) -> str:
    """The declaration that tells readers the encoding; empty for UTF-8, which is the default."""
    if encoding.is_utf8(name):
        return ""
    known = codecs.lookup(name).name
    for ours, theirs in (("iso8859-", "ISO-8859-"), ("cp125", "windows-125"), ("ascii", "US-ASCII")):
        if known.startswith(ours):
            known = theirs + known.removeprefix(ours)
    return f'<?xml version="1.0" encoding="{known}"?>'


class _Texts:
    """A column as the texts of its values, and the lists among them.

    Args:
        column: the column.
        array: its values.
        failures: where records go that cannot be written, by their rows.
    """

    def __init__(self, column: Column, array: pa.Array, failures: dict[int, Failure]) -> None:
        self._is_plain = column.type.kind in _PLAIN_KINDS
        #: The elements of lists, by row.
        self.lists: dict[int, str] = {}
        if column.type.kind is Kind.STRING:
            self._texts = cast("pa.StringArray", array)
        elif column.type.is_dynamic or column.type.kind is Kind.ARRAY:
            self._texts = self._of_any_kind(column, array, failures)
        else:
            self._texts = cell_text.texts(array, column.type)
        if not self._is_plain:
            for row in _refused(self._texts):
                text = self._texts[row].as_py()
                failures.setdefault(row, _failure(column, inner.character_problem(text) or "", text))

    def _of_any_kind(self, column: Column, array: pa.Array, failures: dict[int, Failure]) -> pa.StringArray:
        """Texts of values that carry their kind; a list is elements, and null here, a map has no place in XML."""
        path, attribute = attribute_of(column.name)
        name = path.rpartition(".")[2]
        found = cell_text.containers(array, column.type)
        for row, value in found.items():
            try:
                if isinstance(value, dict):
                    where = f"write its members as columns (`{column.name}.name`), put it into an array"
                    raise inner.Unwritable(f"a map cannot be written as XML; {where}, or {_TEXT_HELP}")
                if attribute is not None or name == TEXT:
                    what = "the text of an element" if attribute is None else "an attribute"
                    raise inner.Unwritable(f"an array cannot be written as {what} of XML; {_TEXT_HELP}")
                self.lists[row] = inner.elements(name, value)
            except inner.Unwritable as problem:
                failures.setdefault(row, _failure(column, str(problem), values.json_text(value)))
        texts = cell_text.texts(array, column.type)
        if not found:
            return texts
        is_list = np.zeros(len(array), dtype=np.bool_)
        is_list[list(found)] = True
        return cast("pa.StringArray", pc.if_else(pa.array(is_list), None, texts))

    def take(self, rows: pa.Int64Array) -> None:
        """Keep only these rows, given in ascending order."""
        self._texts = self._texts.take(rows)
        self.lists = {at: self.lists[row] for at, row in enumerate(rows.to_pylist()) if row in self.lists}

    def slice(self, start: int, length: int | None = None) -> _Texts:
        """The rows from `start` on, `length` of them or all that follow."""
        part = object.__new__(_Texts)
        part._is_plain, part._texts = self._is_plain, self._texts.slice(start, length)
        last = start + len(part._texts)
        part.lists = {row - start: found for row, found in self.lists.items() if start <= row < last}
        return part

    def escaped(self, *, in_attribute: bool = False) -> pa.StringArray:
        """The texts as they are written; null stays null."""
        if self._is_plain:
            return self._texts
        return escaped(self._texts, in_attribute=in_attribute)


def escaped(texts: pa.StringArray, *, in_attribute: bool = False) -> pa.StringArray:
    """Escape texts for their place between tags, or between quotes."""
    data = cell_text.characters(texts)
    escapes = inner.ESCAPES | inner.IN_ATTRIBUTES if in_attribute else inner.ESCAPES
    for character, reference in escapes.items():
        if data.find(character.encode()) >= 0:
            texts = pc.replace_substring(texts, character, reference)
    return texts


def _refused(texts: pa.StringArray) -> list[int]:
    """The rows whose text no document can have."""
    data = np.frombuffer(cell_text.view(texts), dtype=np.uint8)
    if not len(data):
        return []
    if data.min() >= ord(" ") and not any(cell_text.characters(texts).find(one) >= 0 for one in _NONCHARACTERS):
        return []
    found: list[int] = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(texts, _REFUSED), False)).to_pylist()
    return found


def _failure(column: Column, problem: str, value: str) -> Failure:
    return Failure(f"column '{column.name}': {problem}", value=value, field=column.name)


class _Lines:
    """The elements of records as texts.

    Args:
        texts: the columns.
        rows: how many records there are.
        preserve_nulls: whether a null is an empty element; otherwise it is left out.
    """

    def __init__(self, texts: list[_Texts], rows: int, *, preserve_nulls: bool) -> None:
        self._texts = texts
        self._rows = rows
        self._preserve_nulls = preserve_nulls

    def of(self, record: Element) -> pa.StringArray:
        """The texts of all records as XML elements, a row for each record."""
        attributes = [self._attribute(name, place) for name, place in record.attributes]
        children = [part for child in record.children for part in self._parts(child)]
        own: list[Any] = [] if record.text is None else [self._texts[record.text].escaped()]
        parts = [f"<{record.name}", *attributes, ">", *own, *children, f"</{record.name}>"]
        return self._joined(parts)

    def _joined(self, parts: list[Any]) -> pa.StringArray:
        """The parts of each row in a row; null ones are left out."""
        merged: list[Any] = []
        for part in parts:
            if isinstance(part, str) and merged and isinstance(merged[-1], str):
                merged[-1] += part
            else:
                merged.append(part)
        if all(isinstance(part, str) for part in merged):
            return pa.array(["".join(merged)] * self._rows, pa.string())
        joined: pa.StringArray = pc.binary_join_element_wise(*merged, "", null_handling="skip")
        return joined

    def _parts(self, element: Element) -> list[Any]:
        """The parts of an element in each record: constants, texts, and texts that are null where there is nothing."""
        if element.attributes or (element.children and element.text is not None):
            return [self._with_attributes(element)]
        if element.children:
            return self._around(element.name, [part for child in element.children for part in self._parts(child)])
        assert element.text is not None
        return self._leaf(element.name, self._texts[element.text])

    def _leaf(self, name: str, column: _Texts) -> list[Any]:
        text = column.escaped()
        empty = f"<{name}/>"
        if not column.lists and not text.null_count and not pc.any(pc.equal(text, "")).as_py():
            return [f"<{name}>", text, f"</{name}>"]
        whole: pa.Array = pc.binary_join_element_wise(f"<{name}>", text, f"</{name}>", "")
        whole = pc.if_else(pc.equal(text, ""), empty, whole)
        if self._preserve_nulls:
            whole = pc.fill_null(whole, empty)
        return [_with_lists(column.lists, whole) if column.lists else whole]

    def _around(self, name: str, children: list[Any]) -> list[Any]:
        """An element around others; it is left out where all of them are."""
        if any(isinstance(part, str) for part in children):
            # A constant is a tag of an element that is always there.
            return [f"<{name}>", *children, f"</{name}>"]
        text = self._joined(["", *children])
        return [pc.binary_join_element_wise(f"<{name}>", _none_if_empty(text), f"</{name}>", "")]

    def _attribute(self, name: str, place: int) -> pa.Array:
        text = self._texts[place].escaped(in_attribute=True)
        found = pc.binary_join_element_wise(f' {name}="', text, '"', "")
        return pc.fill_null(found, f' {name}=""') if self._preserve_nulls else found

    def _with_attributes(self, element: Element) -> pa.Array:
        """An element with attributes, or with both text and elements; left out where there is nothing of it."""
        attributes = self._joined(["", *(self._attribute(name, place) for name, place in element.attributes)])
        parts = [part for child in element.children for part in self._parts(child)]
        is_there: Any = pc.not_equal(attributes, "")
        if element.text is not None:
            own = self._texts[element.text].escaped()
            parts = [own, *parts]
            is_there = pc.or_(is_there, pc.is_valid(own))
        content = self._joined(["", *parts])
        is_there = pc.or_(is_there, pc.not_equal(content, ""))
        full = pc.binary_join_element_wise(f"<{element.name}", attributes, ">", content, f"</{element.name}>", "")
        bare = pc.binary_join_element_wise(f"<{element.name}", attributes, "/>", "")
        whole = pc.if_else(pc.equal(content, ""), bare, full)
        whole = whole if self._preserve_nulls else pc.if_else(is_there, whole, None)
        lists = self._texts[element.text].lists if element.text is not None else {}
        return _with_lists(lists, whole) if lists else whole


def _none_if_empty(text: pa.StringArray) -> pa.Array:
    return pc.if_else(pc.equal(text, ""), None, text)


def _with_lists(lists: dict[int, str], whole: pa.Array) -> pa.StringArray:
    """Replace list elements by one element for each value, or by none for an empty list."""
    is_list = np.zeros(len(whole), dtype=np.bool_)
    is_list[list(lists)] = True
    found = pa.array([text or None for text in lists.values()], pa.string())
    return cast("pa.StringArray", pc.replace_with_mask(whole, pa.array(is_list), found))


def open_writer(
    schema: Schema, options: XmlWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> XmlWriter:
    """The writer of an output."""
    return XmlWriter(schema, options, preserve_nulls=preserve_nulls)

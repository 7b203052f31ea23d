"""The values of records as columns of a block: texts for columns of texts, trees for structured and dynamic ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns, types, values
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import format, records
from spark_jobs.formats.reading import most_rows
from spark_jobs.formats.typed import spelling
from spark_jobs.formats.xml.exact import tree
from spark_jobs.formats.xml.exact.text_columns import Column, TextColumnRecords, Values
from spark_jobs.formats.xml.exact.tree import TreeRecords
from spark_jobs.formats.xml.fast import quick
from spark_jobs.formats.xml.options import TEXT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from spark_jobs.formats.format import ArrayPath, Block, Reading, SourceColumn
    from spark_jobs.formats.xml.document import Document
    from spark_jobs.formats.xml.exact.tree import Tree
    from spark_jobs.formats.xml.fast.quick import QuickBatch
    from spark_jobs.formats.xml.options import XmlRead

#: The type of undeclared values: a text, or an array where there are several.
UNDECLARED_TYPE = types.ANY
#: Kinds that hold everything in an element.
WHOLE = (Kind.ARRAY, Kind.MAP, Kind.ANY)

#: A block has about so many records.
_BLOCK_RECORDS = 16_384


class Columns:
    """Collects the wanted values of records, and makes blocks of them.

    Args:
        reading: the requirements for reading the files.
        options: the read options.
        arrays: arrays to explode or join.
        listed: the names of arrays of undeclared elements, and of declared columns with arrays beside them.
    """

    def __init__(
        self, reading: Reading, options: XmlRead, arrays: Sequence[ArrayPath] = (), listed: Sequence[str] = ()
    ) -> None:
        self._arrays = tuple(arrays)
        self._reading = reading
        #: Records that arrays make and no block has yet.
        self._waiting: deque[Iterator[Tree]] = deque()
        #: Whether all records stand in one element.
        self._has_way = options.record_path is not None and not options.record_path.startswith("//")
        count = len(reading.columns)
        fields = format.FileColumns(0, tuple(range(count)), tuple(range(count, count + len(reading.undeclared))))
        ready = [field for field, column in enumerate(reading.columns) if column.type.kind in (Kind.ARRAY, Kind.ANY)]
        self._shape = records.RecordShape(reading, fields, has_nulls=True, ready=ready)
        needed = set(self._shape.needed)
        self._declared = [(field, column) for field, column in enumerate(reading.columns) if field in needed]
        self._undeclared = list(enumerate(reading.undeclared, count))
        names = [*(column.key for _, column in self._declared), *reading.undeclared]
        wholes = [column.key for _, column in self._declared if column.type.kind in WHOLE]
        declared = frozenset(column.key for column in reading.columns if column.type.kind not in WHOLE)
        prefixes = tuple(f"{name}." for name in listed if name in declared)
        lists = [name for name in reading.undeclared if name in listed or name.startswith(prefixes)]
        self._grown = _Grown(names, wholes, declared, lists, listed)
        #: The maximal number of records in a block, whatever their bytes.
        self.most_records, self._size = min(_BLOCK_RECORDS, most_rows(reading)), 0
        self.records: TextColumnRecords | TreeRecords
        if wholes or arrays or lists:
            self.records = TreeRecords(options, self._take)
            self._found = self._grown.texts
        else:
            self.records = TextColumnRecords(names, options)
            self._found = self.records.columns

    def _take(self, record: Tree) -> None:
        if not self._arrays:
            self._grown.take(record)
            return
        self._waiting.append(tree.explode(record, self._arrays))
        self.go_on()

    def go_on(self) -> bool:
        """Take waiting records into a block, as many as fit; returns whether the block has any."""
        while self._waiting and self._grown.count < self.most_records and self._size < self._reading.block_bytes:
            one = next(self._waiting[0], None)
            if one is None:
                self._waiting.popleft()
            else:
                # Each record made from an array repeats the values next to the array.
                self._size += sum(len(value) for value in one.values() if value.__class__ is str)
                self._grown.take(one)
        return self._grown.count > 0

    @property
    def count(self) -> int:
        """The number of records for the next block."""
        return self.records.count if isinstance(self.records, TextColumnRecords) else self._grown.count

    def block(self, first: int) -> Block:
        """The block of all records that have ended; others go into the next one.

        Args:
            first: the place of the first record in the split.
        """
        count = self.count
        found = {name: column.texts(count) for name, column in self._found.items()}
        block = self._block(first, count, found)
        if isinstance(self.records, TextColumnRecords):
            self.records.count = 0
        self._grown.count = self._size = 0
        return block

    def regular(self, data: bytes, document: Document) -> QuickBatch | None:
        """Whole records at once, where they are regular, and nothing but texts is wanted of them."""
        if not isinstance(self.records, TextColumnRecords) or not self._has_way:
            return None
        return quick.take(self.records, data, document.record, document.prefixes)

    def block_of(self, regular: QuickBatch, first: int) -> Block:
        """The block of records that were taken from a range of the document; no others have ended."""
        nothing = Values(np.array([], dtype=np.int64), pa.array([], pa.string()))
        found = {name: regular.values.get(column, nothing) for name, column in self._found.items()}
        return self._block(first, regular.count, found)

    def _block(self, first: int, count: int, found: Mapping[str, Values]) -> Block:
        arrays = {field: self._declared_array(column, count, found) for field, column in self._declared}
        arrays |= {field: self._undeclared_array(name, count, found) for field, name in self._undeclared}
        return self._shape.block(first, count, arrays, None, failure_columns.none())

    def _undeclared_array(self, name: str, count: int, found: Mapping[str, Values]) -> pa.StringArray:
        if name not in self._grown.lists:
            return _values(found[name], count)
        rows, lists = self._grown.lists[name].take(count)
        array = cast("pa.StringArray", values.to_arrow(lists, UNDECLARED_TYPE))
        return records.scatter(array, np.array(rows, dtype=np.int64), count)

    def _declared_array(self, column: SourceColumn, count: int, found: Mapping[str, Values]) -> pa.StringArray:
        if column.type.kind in WHOLE:
            rows, wholes = self._grown.wholes[column.key].take(count)
            return _wholes(column, rows, wholes, count)
        array = _texts(found[column.key], count)
        if column.type.kind is not Kind.STRING and array.null_count < len(array):
            return cast("pa.StringArray", pc.if_else(pc.equal(array, ""), None, array))
        return array


class _Grown:
    """The columns of trees.

    Args:
        names: the columns.
        wholes: the columns that hold whole elements: text, attributes and child elements.
        declared: the declared columns that hold only the text of their elements.
        lists: undeclared columns that hold an array in each record.
        listed: the names of arrays of elements, even where a declared column holds their texts.
    """

    def __init__(
        self,
        names: Sequence[str],
        wholes: Sequence[str],
        declared: Collection[str],
        lists: Sequence[str],
        listed: Sequence[str],
    ) -> None:
        self.lists = {name: Column() for name in lists}
        self.texts = {name: Column() for name in names if name not in self.lists}
        self.wholes = {name: Column() for name in wholes}
        self._declared = declared
        self._split = frozenset(declared).intersection(listed) if lists else frozenset()
        self._parents = {name[:at] for name in names for at, character in enumerate(name) if character == "."}
        self._taken: dict[str, list[Any]] = {}
        self.count = 0

    def take(self, record: Tree) -> None:
        """Take a record's values."""
        self._walk(record, "")
        if self._taken:
            for name, items in self._taken.items():
                self.lists[name].add(self.count, items)
            self._taken = {}
        self.count += 1

    def _walk(self, members: Tree, prefix: str, is_taken: bool = False) -> None:
        """Take the values of members; `is_taken` if an array already holds their undeclared values."""
        for key, value in members.items():
            name = prefix + key
            whole, texts = self.wholes.get(name), self.texts.get(name)
            items = tree.items_of(value)
            is_in = is_taken
            if not is_taken and name in self.lists:
                self._taken.setdefault(name, []).extend(items)
                is_in = True
            elif not is_taken and name in self._split:
                self._take_split(items, name)
                is_in = True
            if is_taken and name not in self._declared:
                texts = None
            for item in items:
                if whole is not None:
                    whole.add(self.count, item)
                text = item.get(TEXT) if isinstance(item, dict) else item or ""
                if texts is not None and text is not None:
                    texts.add(self.count, text)
                if isinstance(item, dict) and name in self._parents:
                    self._walk(item, name + ".", is_in)

    def _take_split(self, items: Sequence[Any], name: str) -> None:
        """Take attributes and child elements into arrays, one item per element; a declared column has the texts."""
        maps = [item if isinstance(item, dict) else {} for item in items]
        for key in dict.fromkeys(key for item in maps for key in item if key != TEXT):
            own = f"{name}.{key}"
            if own in self.lists:
                self._taken.setdefault(own, []).extend(item.get(key) for item in maps)
            elif own in self._declared:
                self._take_split([inner for item in maps if key in item for inner in tree.items_of(item[key])], own)


def _grouped(rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The records that have values, and the index of each one's first value."""
    places = np.array(rows, dtype=np.int64)
    is_first = np.ones(len(places), dtype=np.bool_)
    is_first[1:] = places[1:] != places[:-1]
    starts = np.flatnonzero(is_first)
    return places[starts], starts


def _several(found: list[Any], starts: np.ndarray) -> list[tuple[int, list[Any]]]:
    """The records with several values, by their places among the records with values; each gets a list."""
    ends = np.append(starts, len(found))[1:]
    repeated = np.flatnonzero(ends - starts > 1).tolist()
    return [(at, [item or None for item in found[starts[at] : ends[at]]]) for at in repeated]


def _texts(found: Values, count: int) -> pa.StringArray:
    """A column of texts; several of one record are JSON, as an array under a text column is."""
    places, starts = _grouped(found.rows)
    if len(starts) == len(found.texts):
        return records.scatter(found.texts, places, count)
    listed = found.texts.to_pylist()
    texts = [listed[start] for start in starts.tolist()]
    for at, several in _several(listed, starts):
        texts[at] = values.json_text(several)
    return records.scatter(pa.array(texts, pa.string()), places, count)


def _values(found: Values, count: int) -> pa.StringArray:
    """A column of values of any kind: texts, null where they are empty, and arrays of several."""
    places, starts = _grouped(found.rows)
    texts = found.texts.take(pa.array(starts))
    tagged = spelling.tagged(pc.if_else(pc.equal(texts, ""), None, texts))
    if len(starts) < len(found.texts):
        several = _several(found.texts.to_pylist(), starts)
        chosen = np.zeros(len(starts), dtype=np.bool_)
        chosen[[at for at, _ in several]] = True
        arrays = values.to_arrow((items for _, items in several), UNDECLARED_TYPE)
        tagged = pc.replace_with_mask(tagged, pa.array(chosen), arrays)
    return records.scatter(tagged, places, count)


def _wholes(column: SourceColumn, rows: Sequence[int], found: list[Any], count: int) -> pa.StringArray:
    """A column of arrays, maps or anything. One element is an array of one; a value that is not a map is its text."""
    places, starts = _grouped(rows)
    ends = np.append(starts, len(found))[1:]
    lists = [found[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    items = [several if len(several) > 1 else several[0] for several in lists]
    match column.type.kind:
        case Kind.ARRAY:
            texts = [values.encode(several) for several in lists]
        case Kind.ANY:
            texts = [values.encode(item) for item in items]
        case _:
            texts = [item if item is None or isinstance(item, str) else values.json_text(item) for item in items]
    return records.scatter(pa.array(texts, pa.string()), places, count)

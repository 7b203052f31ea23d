"""The positions of column pages in the row groups of a Parquet file, from its footer, read without Arrow.

The result limits how much Arrow reads at a time, so it must agree with Arrow's own reading of the footer. Arrow skips
fields of unexpected types, takes the last of several fields with one number, and truncates numbers to their types. No
writer produces such footers, and they are rejected here. A footer may have many megabytes. It is scanned once, and only
the beginning of each row group is stored.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.formats.parquet import footer
from spark_jobs.formats.parquet.footer import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    NOT_UNDERSTOOD,
    SET,
    STRUCT,
    TRUE,
    CompactBytes,
    Unclear,
)
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.scan.changes import Stream

_MOST_DEPTH = 32
#: The structures of a schema that are within each other.
_MOST_NESTED = 256
_REPEATED = 2
#: The number of footers that a process caches.
_REMEMBERED = 2


@dataclass(frozen=True)
class _Many:
    """A list of structures, or of other values, whose type is not looked at again where they are read."""

    kind: int
    form: Mapping[int, Any] | None = None


# The structure members that are inspected, by field number. All lists are included, because Arrow reads their values as
# of the type that it expects, whatever they say: everything after them would be something else.
_SIZES = {2: _Many(I64), 3: _Many(I64)}
_GEOMETRIES = {2: _Many(I32)}
_COLUMN_KEY = {2: {1: _Many(BINARY)}}
#: Type, codec, number of values, bytes packed, first data page, dictionary page; of each column in a row group.
_ABOUT = {
    1: I32, 2: _Many(I32), 3: _Many(BINARY), 4: I32, 5: I64, 7: I64, 8: _Many(STRUCT), 9: I64, 11: I64,
    13: _Many(STRUCT), 16: _SIZES, 17: _GEOMETRIES,
}  # fmt: skip
_CHUNK = {3: _ABOUT, 8: _COLUMN_KEY}
_GROUP = {1: _Many(STRUCT, _CHUNK), 4: _Many(STRUCT)}
#: Type, length, repetition, name, and how many members a structure has.
_ELEMENT = {1: I32, 2: I32, 3: I32, 4: BINARY, 5: I32}
_FILE = {2: _Many(STRUCT, _ELEMENT), 4: _Many(STRUCT, _GROUP), 5: _Many(STRUCT), 7: _Many(STRUCT)}
_SCHEMA, _GROUPS, _COLUMNS = 2, 4, 1
_VARINTS = (I16, I32, I64)
#: The numbers of fields are below that.
_NUMBERS_END = 1 << 15
_LEAST, _MOST = {I16: -(1 << 15), I32: -(1 << 31), I64: -(1 << 63)}, {I16: 1 << 15, I32: 1 << 31, I64: 1 << 63}


class Column(NamedTuple):
    """A column of values.

    Args:
        around: the names of the structures that it is within, the innermost one last and each with those around it.
        name: its own name.
        top: the name of the column at the top that it belongs to.
        kind: its physical type.
        length: how many bytes each value has, where all have the same.
        repetition: how many lists it is within.
    """

    around: Any
    name: str
    top: str
    kind: int
    length: int
    repetition: int

    @property
    def path(self) -> str:
        """All names that lead to it."""
        names, around = [self.name], self.around
        while around is not None:
            around, name = around
            names.append(name)
        return ".".join(reversed(names))


class Extent(NamedTuple):
    """The position of a column's pages in a row group.

    Args:
        column: the column.
        codec: how its pages are compressed; 0 where they are not.
        values: how many values it has, nulls included.
        start: where its first page begins.
        end: where its last one ends.
    """

    column: Column
    codec: int
    values: int
    start: int
    end: int


@dataclass(frozen=True)
class _Index:
    """The columns of a footer, and where its row groups begin in it."""

    columns: list[Column]
    groups: array[int]


class Extents:
    """The positions of columns in each row group of a file.

    Raises:
        FormatError: the file cannot be read, its footer is longer than a task can hold (E310), or is not understood.
    """

    def __init__(self, stream: Stream, most: int, name: str) -> None:
        size = footer.checked_size(stream, most, name)
        data = None if size is None else footer.bytes_of(stream, size)
        if data is None:
            raise _unclear(name)
        self._data, self._name = data, name
        try:
            self._index = _index_of(data)
        except NOT_UNDERSTOOD:
            raise _unclear(name) from None

    def __len__(self) -> int:
        """The number of row groups."""
        return len(self._index.groups)

    def of(self, group: int) -> list[Extent]:
        """The extents of a row group."""
        fields = _Fields(self._data, self._index.groups[group])
        try:
            return list(_extents(fields, self._index.columns))
        except NOT_UNDERSTOOD:
            raise _unclear(self._name) from None


def _unclear(name: str) -> FormatError:
    return FormatError("is not a readable Parquet file: its footer is broken", name)


#: By digests: the tasks of a process read many splits of one file, and a footer is long.
_KNOWN: dict[bytes, _Index] = {}


def _index_of(data: bytes) -> _Index:
    digest = hashlib.blake2b(data).digest()
    found = _KNOWN.pop(digest, None) or _walked(data)
    _KNOWN[digest] = found
    while len(_KNOWN) > _REMEMBERED:
        _KNOWN.pop(next(iter(_KNOWN)), None)
    return found


def _walked(data: bytes) -> _Index:
    """Index a footer. It is walked over completely, so that kept parts can be read later."""
    fields = _Fields(data)
    columns: list[Column] | None = None
    groups: array[int] | None = None
    for number, kind in fields.fields():
        if number == _SCHEMA and columns is None:
            columns = list(_columns(fields, fields.entries(kind, _Many(STRUCT))))
        elif number == _GROUPS and groups is None:
            groups = array("q")
            for _ in range(fields.entries(kind, _Many(STRUCT))):
                groups.append(fields.at)
                fields.pass_over_known(_GROUP)
        elif number in (_SCHEMA, _GROUPS):
            raise Unclear
        else:
            fields.pass_over(kind, _FILE.get(number))
    if columns is None or groups is None:
        raise Unclear
    return _Index(columns, groups)


def _columns(fields: _Fields, count: int) -> Iterator[Column]:
    """The columns of values of the schema that begins here."""
    #: The structures that are open: how many members they still have, their names, that at the top, and lists.
    opened: list[tuple[int, Any, str, int]] = []
    for place in range(count):
        element = fields.structure(_ELEMENT)
        members = _count(element.get(5, 0))
        if not place:
            opened.append((members, None, "", 0))
            continue
        while opened and not opened[-1][0]:
            opened.pop()
        left, around, top, lists = opened.pop()
        opened.append((left - 1, around, top, lists))
        name = element[4].decode()
        top = name if around is None else top
        lists += element.get(3) == _REPEATED
        if 1 in element:
            yield Column(around, name, top, element[1], _count(element.get(2, 0)), lists)
        else:
            opened.append((members, (around, name), top, lists))
        if len(opened) > _MOST_NESTED:
            raise Unclear


def _extents(fields: _Fields, columns: list[Column]) -> Iterator[Extent]:
    """The extents of the row group that begins here."""
    has_columns = False
    for number, kind in fields.fields():
        if number != _COLUMNS:
            fields.pass_over(kind, _GROUP.get(number))
            continue
        if has_columns or fields.entries(kind, _Many(STRUCT)) != len(columns):
            raise Unclear
        has_columns = True
        for column in columns:
            about = fields.structure(_CHUNK)[3]
            if about[1] != column.kind:
                raise Unclear
            start, dictionary = _count(about[9]), about.get(11, 0)
            # Arrow does the same with files of old writers, whose footer has a zero there.
            if 0 < dictionary < start:
                start = dictionary
            yield Extent(column, _count(about[4]), _count(about[5]), start, start + _count(about[7]))
    if not has_columns:
        raise Unclear


def _count(number: int) -> int:
    if number < 0:
        raise Unclear
    return number


class _Fields(CompactBytes):
    """Bytes of structures of Thrift, from a place on."""

    def fields(self) -> Iterator[tuple[int, int]]:
        """The numbers and types of the fields of the struct here; after each one, the caller moves past its value."""
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self._number(I16)
            if not 0 <= number < _NUMBERS_END:
                raise Unclear
            yield number, head & 0xF

    def structure(self, form: Mapping[int, Any]) -> dict[int, Any]:
        """The structure here: its fields that are looked at, but for lists."""
        found: dict[int, Any] = {}
        for number, kind in self.fields():
            expected = form.get(number)
            if expected is None or isinstance(expected, _Many):
                self.pass_over(kind, expected)
                continue
            if number in found:
                raise Unclear
            if isinstance(expected, int):
                if kind != expected:
                    raise Unclear
                found[number] = self._take() if kind == BINARY else self._number(kind)
            elif kind == STRUCT:
                found[number] = self.structure(expected)
            else:
                raise Unclear
        return found

    def entries(self, kind: int, expected: _Many) -> int:
        """The number of values of the list here, and skip its head."""
        if kind != LIST:
            raise Unclear
        head = self.byte()
        size = head >> 4 if head >> 4 < 0xF else self.varint()
        # Some writers give an empty list another type. Each value has a byte at least.
        if (size and head & 0xF != expected.kind) or size > len(self._data) - self.at:
            raise Unclear
        return size

    def pass_over_known(self, form: Mapping[int, Any], depth: int = 0) -> None:
        """Move past the struct here, some of whose fields are known; skips numbers and texts inline."""
        if depth > _MOST_DEPTH:
            raise Unclear
        data, at, number = self._data, self.at, 0
        while head := data[at]:
            at += 1
            if head > 0xF:
                number += head >> 4
            else:
                self.at = at
                number = self._number(I16)
                at = self.at
            if not 0 <= number < _NUMBERS_END:
                raise Unclear
            kind = head & 0xF
            if kind in _VARINTS:
                while data[at] > 0x7F:
                    at += 1
                at += 1
            elif kind == BINARY and data[at] <= 0x7F:
                at += data[at] + 1
            else:
                self.at = at
                self.pass_over(kind, form.get(number), depth)
                at = self.at
        self.at = at + 1

    def pass_over(self, kind: int, expected: Any = None, depth: int = 0) -> None:
        """Go past the value here."""
        if kind in _VARINTS:
            self._pass_over_varints(1)
        elif kind == BINARY:
            self._go(self.varint())
        elif kind == STRUCT:
            self.pass_over_known(expected if isinstance(expected, dict) else {}, depth + 1)
        elif kind in (LIST, SET):
            self._pass_over_list(kind, expected, depth + 1)
        elif kind == BYTE:
            self._go(1)
        elif kind == DOUBLE:
            self._go(8)
        elif kind == MAP:
            self._pass_over_map(depth + 1)
        elif kind not in (TRUE, FALSE):
            raise Unclear

    def _pass_over_list(self, kind: int, expected: Any, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise Unclear
        if isinstance(expected, _Many):
            size, each, form = self.entries(kind, expected), expected.kind, expected.form
        else:
            head = self.byte()
            size, each, form = head >> 4 if head >> 4 < 0xF else self.varint(), head & 0xF, None
        if size > len(self._data) - self.at:
            raise Unclear
        if each in _VARINTS:
            self._pass_over_varints(size)
            return
        for _ in range(size):
            self.pass_over(BYTE if each in (TRUE, FALSE) else each, form, depth)

    def _pass_over_varints(self, count: int) -> None:
        data, at = self._data, self.at
        for _ in range(count):
            while data[at] > 0x7F:
                at += 1
            at += 1
        self.at = at

    def _pass_over_map(self, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise Unclear
        if not (size := self.varint()):
            return
        kinds = self.byte()
        if size > len(self._data) - self.at:
            raise Unclear
        for _ in range(size):
            for kind in (kinds >> 4, kinds & 0xF):
                self.pass_over(BYTE if kind in (TRUE, FALSE) else kind, None, depth)

    def _number(self, kind: int) -> int:
        found = self.varint()
        number = (found >> 1) ^ -(found & 1)
        if not _LEAST[kind] <= number < _MOST[kind]:
            raise Unclear
        return number

    def _go(self, size: int) -> None:
        self.at += size
        if self.at > len(self._data):
            raise Unclear

    def _take(self) -> bytes:
        size = self.varint()
        self._go(size)
        return self._data[self.at - size : self.at]

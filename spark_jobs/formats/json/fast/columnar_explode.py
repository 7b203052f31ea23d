"""Explodes or joins arrays of objects by columns; `objects.spread` defines the records.

Arrow reads the needed members into a struct array. Each path transforms this array. `explode` makes a row for each
element, whose members take precedence over the members of the enclosing object. `join` puts a text in the array's
place. Arrow does not tell an absent member from a null one; where that matters, the object is marked as odd.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.json.exact import objects
from spark_jobs.formats.json.fast import arrow
from spark_jobs.formats.json.texts import decoding, portions
from spark_jobs.formats.typed import record_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.json.texts.portions import Mask, Places

    Path = tuple[str, ...]

#: Elements may hold the arrays of later paths: with every path there are twice as many places for a member.
_MOST_PATHS = 4
#: Elements that are joined by columns, and others that make records, by the class that the exact parser gives them.
_JOINED: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
_EXPLODED = {**_JOINED, decoding.Number: pa.float64()}


class TooWide(Exception):
    """The members beside arrays would be repeated too often at once."""


@dataclass
class ExplodedRecords:
    """Records, with the object that each record comes from.

    Args:
        rows: a structure of their members.
        parents: the number of each one's object, ascending.
    """

    rows: pa.Array
    parents: Places


class ColumnarExplode:
    """Applies the array paths of a source.

    Args:
        arrays: the paths.
        names: the wanted members of records, by path.
        most_bytes: how many bytes the records of a call may have.
    """

    def __init__(self, arrays: Sequence[ArrayPath], names: Sequence[Path], most_bytes: int = sys.maxsize) -> None:
        self._most_bytes = most_bytes
        self._arrays = [(tuple(each.path.split(".")), each) for each in arrays]
        self._names = list(names)
        #: Paths whose elements are no objects, and the types of these.
        self._elements: dict[Path, pa.DataType] = {}

    @property
    def is_possible(self) -> bool:
        """Whether columns can tell; false where paths or columns stand in one another's way."""
        paths = [path for path, _ in self._arrays]
        every = [*paths, *self._names]
        return (
            len(paths) <= _MOST_PATHS
            and len(set(paths)) == len(paths)
            and all(name.isprintable() and not set(name) & set('"\\') for path in paths for name in path)
            and not any(_is_below(one, other) for one in every for other in every)
            and (len(paths) == 1 or all(len(path) == 1 for path in paths))
        )

    @property
    def paths(self) -> list[Path]:
        """The paths of the arrays."""
        return [path for path, _ in self._arrays]

    def fields(self, kinds: Mapping[Path, pa.DataType], applied: int = 0) -> dict[Path, pa.DataType]:
        """Give the Arrow types to read from an object to which some array paths have been applied, by path.

        Args:
            kinds: the Arrow types of the wanted members.
            applied: the number of array paths that have been applied.
        """
        waiting = self._arrays[applied:]
        found = {}
        for path, kind in kinds.items():
            joined = [each for at, each in self._arrays[:applied] if at == path and not each.explode]
            if not any(at == path for at, _ in waiting):
                found[path] = pa.string() if joined else kind
        for number, (path, each) in enumerate(waiting, applied):
            element = self._elements.get(path)
            if each.explode:
                inner = structure(self.fields(kinds, number + 1))
                found[path] = pa.list_(inner if element is None else kinds.get(path, element))
            else:
                found[path] = pa.list_(element or pa.string())
        return found

    def learn(self, records: Sequence[dict[str, Any]], *, may_change: bool) -> tuple[list[dict[str, Any]], bool]:
        """The records that some objects make, and whether their elements are read in another way now.

        Args:
            records: the objects.
            may_change: whether they may be.
        """
        before = dict(self._elements)
        made = list(records)
        for path, each in self._arrays:
            arrays = (objects.find(record, each.path) for record in made)
            found = {item.__class__ for array in arrays if isinstance(array, list) for item in array} - {type(None)}
            if found == {int, decoding.Number}:
                found = {decoding.Number}
            if may_change and len(found) == 1:
                kind = (_EXPLODED if each.explode else _JOINED).get(found.pop())
                if kind is None:
                    self._elements.pop(path, None)
                else:
                    self._elements[path] = kind
            made = [one for record in made for one in objects.spread(record, [each])]
        return made, before != self._elements

    def of(self, rows: pa.Array, kinds: Mapping[Path, pa.DataType], text: bytes, odd: Mask) -> ExplodedRecords:
        """Give the records of some objects; notes the objects that have to be read the exact way.

        Args:
            rows: the objects.
            kinds: as for `fields`.
            text: the objects, one a line.
            odd: a mark for each of them.
        """
        made = ExplodedRecords(rows, np.arange(len(rows)))
        for number, (path, each) in enumerate(self._arrays, 1):
            target = structure(self.fields(kinds, number))
            array = at(made.rows, path)
            if each.explode:
                made = _exploded(made, array, path, target, text, odd, self._most_bytes)
            else:
                joined = _joined(array, each.separator, made.parents, odd)
                made = ExplodedRecords(_conformed(made.rows, target, path, joined), made.parents)
        return made


def structure(kinds: Mapping[Path, pa.DataType]) -> pa.DataType:
    """The Arrow type of an object with members at some paths; nested objects are structs."""
    inner: dict[str, dict[Path, pa.DataType]] = {}
    fields: dict[str, pa.Field] = {}
    for path, kind in kinds.items():
        if len(path) == 1:
            fields[path[0]] = pa.field(path[0], kind)
        else:
            inner.setdefault(path[0], {})[path[1:]] = kind
    for name, below in inner.items():
        fields[name] = pa.field(name, structure(below))
    return pa.struct(list(fields.values()))


def at(rows: pa.Array, path: Path) -> pa.Array:
    """The values at a path; null where a structure above is."""
    return pc.struct_field(rows, list(path))


def _exploded(
    made: ExplodedRecords, array: pa.Array, path: Path, target: pa.DataType, text: bytes, odd: Mask, most_bytes: int
) -> ExplodedRecords:
    """A row for each element, and one for each row without an array; raises `TooWide` when they are too long."""
    lengths = pc.list_value_length(array)
    is_absent = pc.is_null(lengths).to_numpy(zero_copy_only=False)
    counts = pc.fill_null(lengths, 1).to_numpy(zero_copy_only=False)
    source = np.repeat(np.arange(len(array)), counts)
    parents = made.parents[source]
    elements = array.flatten()
    if is_absent.any():
        has_none = np.repeat(is_absent, counts)
        elements = elements.take(pa.array(np.cumsum(~has_none) - 1, mask=has_none))
    # Without the array itself: a copy of it for each of its elements would grow with their square.
    outer = _conformed(made.rows, target, path, None)
    if len(source) != len(array) or (counts != 1).any():
        if len(source) > len(array) and int(record_sizes.of(outer.flatten(), len(outer)) @ counts) > most_bytes:
            raise TooWide
        outer = outer.take(pa.array(source))
    if not isinstance(elements, pa.StructArray):
        return ExplodedRecords(_conformed(outer, target, path, elements), parents)
    columns = [
        _over(pc.struct_field(outer, [number]), pc.struct_field(elements, [number]), field.name, text, parents, odd)
        for number, field in enumerate(target)
    ]
    return ExplodedRecords(_struct(columns, target, len(source)), parents)


def _joined(array: pa.Array, separator: str, parents: Places, odd: Mask) -> pa.Array:
    """The elements of each array as one text."""
    if array.flatten().null_count:
        has_null = np.zeros(len(array), dtype=np.bool_)
        where = pc.list_parent_indices(array).filter(pc.is_null(array.flatten()))
        has_null[where.to_numpy(zero_copy_only=False)] = True
        odd[parents[has_null]] = True
    if not pa.types.is_string(array.type.value_type):
        array = pc.cast(array, pa.list_(pa.string()))
    return pc.binary_join(array, separator)


def _over(outer: pa.Array, inner: pa.Array, name: str, text: bytes, parents: Places, odd: Mask) -> pa.Array:
    """A member of elements, or else the enclosing object's member; an element's null hides the enclosing value."""
    if not len(inner) or inner.null_count == 0 or outer.null_count == len(outer):
        return inner
    is_around = np.asarray(pc.and_(pc.is_null(inner), pc.is_valid(outer)).to_numpy(zero_copy_only=False))
    if b"null" in text and is_around.any():
        odd |= _may_be_null(name, text, len(odd)) & np.bincount(parents[is_around], minlength=len(odd)).astype(np.bool_)
    if inner.null_count == len(inner):
        return outer
    both = pa.concat_arrays([outer, inner])
    places = np.arange(len(inner))
    return both.take(pa.array(np.where(is_around, places, places + len(outer))))


def _may_be_null(name: str, text: bytes, count: int) -> Mask:
    """A mask of the objects in which a member of this name may be null, at any depth."""
    found = np.zeros(count, dtype=np.bool_)
    if b"\\" in text and arrow.ESCAPED_KEY.search(text):
        return ~found
    ends = portions.line_ends(text)
    places = [match.start() for match in arrow.member(name, b"null").finditer(text)]
    found[np.searchsorted(ends, places)] = True
    return found


def _conformed(rows: pa.Array, target: pa.DataType, path: Path, value: pa.Array | None) -> pa.Array:
    """Structures with the members of another type, and with a value in the place of an array.

    Args:
        rows: the structures.
        target: the type.
        path: where the array is.
        value: the value in its place; null where there is none.
    """
    columns = []
    for field in target:
        number = rows.type.get_field_index(field.name)
        if path == (field.name,):
            columns.append(pa.nulls(len(rows), field.type) if value is None else value)
            continue
        column = pc.struct_field(rows, [number]) if number >= 0 else pa.nulls(len(rows), field.type)
        if column.type != field.type:
            are_structures = pa.types.is_struct(field.type) and pa.types.is_struct(column.type)
            inner = path[1:] if path[0] == field.name else ("",)
            column = _conformed(column, field.type, inner, value) if are_structures else pa.nulls(len(rows), field.type)
        columns.append(column)
    return _struct(columns, target, len(rows), pc.is_null(rows) if rows.null_count else None)


def _struct(columns: Sequence[pa.Array], kind: pa.DataType, count: int, mask: pa.Array | None = None) -> pa.Array:
    if not columns:
        return pa.array([{}] * count, kind)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _is_below(path: Path, parent: Path) -> bool:
    return len(path) > len(parent) and path[: len(parent)] == parent

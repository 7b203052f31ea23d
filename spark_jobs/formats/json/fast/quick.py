"""JSON objects to typed records by columns, with Arrow's JSON reader: for records that match their declared columns.

A record is read here only if Arrow's columns are provably equal to the columns of the exact path
(`exact/one_by_one.py`). The exact path reads all others: values of another kind than declared, dates that do not
convert, numbers out of range, absent required members, names with a literal dot, and texts that Arrow's reader refuses.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, values
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import blocks, coerce
from spark_jobs.formats.json.exact import objects
from spark_jobs.formats.json.fast import arrow, columnar_explode, long_numbers, nested_columns, uniform
from spark_jobs.formats.json.texts import decoding
from spark_jobs.formats.json.texts.portions import count_of
from spark_jobs.formats.typed import spelling
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
    from spark_jobs.formats.json.fast.name_discovery import NameDiscovery
    from spark_jobs.formats.json.texts.portions import Mask, Places, Portion
    from spark_jobs.tuning import Tuning

#: Stands for the type of columns whose values are cut out of the text, of any kind as they are.
_CUT = pa.binary()
_ARROW: dict[Kind, pa.DataType] = {
    Kind.STRING: pa.string(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.DATE: pa.string(),
    Kind.DATETIME: pa.string(),
    Kind.ARRAY: _CUT,
    Kind.MAP: _CUT,
}
#: The Arrow types of values of any kind, by the class that the exact parser gives them.
_BY_CLASS: dict[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    decoding.Number: pa.float64(),
    bool: pa.bool_(),
}
#: Kinds that are made of other JSON kinds by columns, too.
_ALSO: dict[Kind, tuple[type, ...]] = {
    Kind.STRING: (int, bool),
    Kind.INT: (str, decoding.Number),
    Kind.FLOAT: (str,),
    Kind.DECIMAL: (str,),
    Kind.BOOL: (str, int),
}
#: A column that no object has, for reading objects without any column.
_NOTHING = pa.schema([pa.field("\0", pa.null())])
#: From so many columns on, a portion needs so many members for each column on average; else the exact path reads it.
_MANY_COLUMNS = 256
_LEAST_MEMBERS = 64
#: Numbers so small, or written with so many zeros, that a double may not hold all their digits.
_TINY = rb"-?(?:[0-9.]+[eE]-[0-9]{3}|0\.0{300})"
#: Numbers that Arrow accepts and Decimals cannot hold: with many zeros, or many digits after the point.
_ZEROS, _FAR = b"0" * 39, re.compile(rb"[eE]-(?:39|[4-9][0-9]|[0-9]{3})")
#: Floats below are exact ints.
_EXACT = float(1 << 53)
#: Doubles below have fewer digits than others.
_LEAST_NORMAL = sys.float_info.min


@dataclass(frozen=True)
class Part:
    """Records that were read at once, and how many each object made."""

    batch: pa.RecordBatch
    counts: Places


@dataclass(frozen=True)
class _Leaf:
    """A column to read: its name in the object, its path, and its declaration (None if it is undeclared)."""

    name: str
    path: tuple[str, ...]
    column: SourceColumn | None

    @property
    def is_dynamic(self) -> bool:
        return self.column is None or self.column.type.is_dynamic

    @property
    def is_container(self) -> bool:
        return self.column is not None and self.column.type.kind in (Kind.ARRAY, Kind.MAP)

    @property
    def may_be_cut(self) -> bool:
        """Whether the column takes its values as JSON texts, without a type."""
        return self.column is None or self.column.type.kind is Kind.ANY or self.is_container


class QuickRecords:
    """Makes the columns of a source of many objects at once.

    Args:
        reading: the requirements for reading the files.
        arrays: arrays that are exploded or joined.
        noticing: is shown all that is read, where names are noticed.
        tuning: how many objects are read as arrays of bytes.
    """

    def __init__(
        self,
        reading: Reading,
        arrays: Sequence[ArrayPath] = (),
        noticing: NameDiscovery | None = None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._reading = reading
        self._tuning = tuning
        self._noticing = noticing
        leaves = _leaves(reading, [each.path for each in arrays])
        if arrays and leaves and any(leaf.is_container for leaf in leaves):
            leaves = None
        self._leaves = leaves or []
        self._spreading = (
            columnar_explode.ColumnarExplode(arrays, [leaf.path for leaf in self._leaves], reading.record_bytes)
            if arrays
            else None
        )
        #: Whether any record can be read in this way.
        self.is_possible = leaves is not None and (self._spreading is None or self._spreading.is_possible)
        #: What stands inside of lists is found in the text in another way.
        self._listed = {each.path for each in arrays}
        self._types = {leaf.name: _declared_arrow(leaf.column) if leaf.column else None for leaf in self._leaves}
        paths = [leaf.path for leaf in self._leaves] + (self._spreading.paths if self._spreading else [])
        self._dotted = tuple({key for path in paths for key in _dotted_keys(path)})
        self._schema: pa.Schema | None = None
        self._retyped: set[str] = set()
        self._may_respread = True

    def is_worth(self, lines: Portion) -> bool:
        """Whether there is enough in a portion: each column costs something, and of many most may be empty."""
        if len(self._leaves) < _MANY_COLUMNS:
            return True
        return count_of(lines.objects, b":") >= _LEAST_MEMBERS * len(self._leaves)

    def begin(self, lines: Portion) -> set[int]:
        """Begin a portion, in which each column may change its Arrow type once.

        Returns the rows of objects that must not be read: traps, and objects that may have a dotted name as one key,
        which takes precedence over the members of nested objects.
        """
        self._retyped.clear()
        self._may_respread = True
        rows = arrow.traps(lines)
        for key in self._dotted:
            if key in lines.objects:
                rows.update(lines.row(found.start()) for found in re.finditer(re.escape(key), lines.objects))
        if self._dotted and b"\\" in lines.objects:
            rows.update(lines.row(found.start()) for found in arrow.ESCAPED_KEY.finditer(lines.objects))
        return rows

    def read(self, text: bytes, count: int) -> tuple[Part, Mask | None]:
        """The records of some objects, and which of these are not among them (None: all are).

        Raises:
            Refused: Arrow cannot read one of them.
            NoInt: the same because of its number.
        """
        kinds = self._kinds()
        written = uniform.Written()
        if self._schema is None:
            fields = kinds if self._spreading is None else self._spreading.fields(kinds)
            self._schema = pa.schema(list(columnar_explode.structure(fields))) if fields else _NOTHING
        if self._noticing is None:
            table = arrow.read(text, count, self._schema, tuning=self._tuning, written=written)
        else:
            table = self._noticing.read(text, count, kinds, self._schema, written)
        if self._spreading is not None:
            return self._read_spread(self._spreading, table, text, kinds)
        odd = np.zeros(count, dtype=np.bool_)
        exact = [leaf for leaf in self._leaves if _keeps_digits(leaf, self._types[leaf.name])]
        if exact and not written.is_known:
            odd[long_numbers.rows(text)] = True
        arrays: dict[str, pa.Array] = {}
        objects: nested_columns.NestedColumns | None = None
        for leaf in self._leaves:
            if self._types[leaf.name] == _CUT:
                objects = nested_columns.NestedColumns(text) if objects is None else objects
                array = objects.column(leaf.path, leaf.column.type.kind if leaf.column else None, odd)
                arrays[leaf.name] = self._required(leaf, array, odd)
            else:
                arrays[leaf.name] = self._converted(leaf, _member(table, leaf.path), text, odd)
        if written.texts:
            for leaf in exact:
                if len(leaf.path) == 1 and leaf.path[0] in written.texts:
                    odd |= long_numbers.differing(arrays[leaf.name], written.texts[leaf.path[0]])
        batch = self._batch(arrays, count)
        if odd.any():
            batch = batch.filter(pa.array(~odd))
        return Part(batch, np.ones(batch.num_rows, dtype=np.int64)), odd if odd.any() else None

    def _read_spread(
        self,
        spread: columnar_explode.ColumnarExplode,
        table: pa.Table,
        text: bytes,
        kinds: Mapping[tuple[str, ...], pa.DataType],
    ) -> tuple[Part, Mask]:
        """Read objects that make several records, or none."""
        odd = np.zeros(table.num_rows, dtype=np.bool_)
        rows = pa.StructArray.from_arrays(
            [_chunk(table, name) for name in table.column_names], fields=list(table.schema)
        )
        made = spread.of(rows, kinds, text, odd)
        odd_rows = np.zeros(len(made.rows), dtype=np.bool_)
        found = {leaf.name: columnar_explode.at(made.rows, leaf.path) for leaf in self._leaves}
        if any(_keeps_digits(leaf, found[leaf.name].type) for leaf in self._leaves):
            odd[long_numbers.rows(text)] = True
        arrays = {leaf.name: self._converted(leaf, found[leaf.name], text, odd_rows) for leaf in self._leaves}
        odd[made.parents[odd_rows]] = True
        batch = self._batch(arrays, len(made.rows))
        counts = np.bincount(made.parents, minlength=len(odd))
        return Part(batch.filter(pa.array(~odd[made.parents])), counts[~odd]), odd

    def _kinds(self) -> dict[tuple[str, ...], pa.DataType]:
        return {
            leaf.path: self._types[leaf.name] or pa.string() for leaf in self._leaves if self._types[leaf.name] != _CUT
        }

    def learn(self, records: Sequence[dict[str, Any]], *, is_first: bool = False) -> bool:
        """Take the kinds of values from some records; tells whether that changed anything."""
        changed = False
        if self._noticing is not None:
            self._noticing.learn(records)
        if self._spreading is not None:
            records, changed = self._spreading.learn(records, may_change=self._may_respread)
            self._may_respread &= not changed
            self._schema = None if changed else self._schema
        for leaf in self._leaves:
            found = {_class_of(objects.find(record, leaf.name)) for record in records} - {type(None)}
            kind = _arrow_type(leaf, found)
            if kind == _CUT and self._spreading is not None:
                continue
            if kind is not None:
                changed |= self._retype(leaf, kind)
        if is_first:
            self._retyped.clear()
            self._may_respread = True
        return changed

    def widen_ints(self, text: bytes, number: str) -> bool:
        """Read an int column in another way because of a number that is none; tells whether there is one.

        With `3.0` it is a column of floats; an int beyond 64 bits is cut out of the text where that can be.
        """
        for leaf in self._leaves:
            is_int = leaf.is_dynamic or (leaf.column is not None and leaf.column.type.kind is Kind.INT)
            if (
                is_int
                and self._types[leaf.name] == pa.int64()
                and (leaf.name in self._listed or _finds(leaf, number, text))
            ):
                is_cut = leaf.may_be_cut and self._spreading is None and number.lstrip("-").isdecimal()
                return self._retype(leaf, _CUT if is_cut else pa.float64())
        return False

    def _retype(self, leaf: _Leaf, kind: pa.DataType) -> bool:
        if kind == self._types[leaf.name] or leaf.name in self._retyped:
            return False
        self._retyped.add(leaf.name)
        self._types[leaf.name] = kind
        self._schema = None
        return True

    def _converted(self, leaf: _Leaf, array: pa.Array, text: bytes, odd: Mask) -> pa.Array:
        """The values of a column; notes the records that need the exact way."""
        if leaf.column is None or leaf.is_dynamic:
            array = _tagged(leaf, array, text, odd, is_listed=leaf.name in self._listed)
        elif leaf.column.type.kind is not Kind.STRING and isinstance(array, pa.StringArray):
            done = coerce.convert(array, leaf.column.type, self._reading.forms(leaf.column))
            odd[done.failed] = True
            array = done.array
        else:
            if leaf.column.type.kind is Kind.DECIMAL:
                _note_decimals(leaf.column.type, array, text, odd)
            if leaf.column.type.kind is Kind.INT and pa.types.is_floating(array.type):
                # `1e-400` is no int, though the double that Arrow's reader gives is zero.
                _note_tiny(leaf, array, text, odd, is_listed=leaf.name in self._listed)
            array = _of_kind(leaf.column.type.kind, array, text, odd)
        return self._required(leaf, array, odd)

    def _required(self, leaf: _Leaf, array: pa.Array, odd: Mask) -> pa.Array:
        """The values; notes the records that lack one which has to be there."""
        if leaf.column is not None and leaf.column.required and array.null_count:
            _note(odd, pc.is_null(array))
        return array

    def _batch(self, arrays: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
        declared = [
            arrays[column.key] if self._reading.carries(column.name) else None for column in self._reading.columns
        ]
        # Where there are columns below the name, only odd records have a value of the name's own.
        undeclared = [
            arrays[name] if name in arrays else pa.nulls(count, pa.string()) for name in self._reading.undeclared
        ]
        return blocks.batch(self._reading, declared, undeclared, count)


def _leaves(reading: Reading, arrays: Sequence[str]) -> list[_Leaf] | None:
    """Give the members to read from each object; None where only the exact way can read them."""
    columns = {column.key: column for column in reading.columns}
    parents = objects.parents([*columns, *reading.undeclared, *arrays])
    leaves = []
    for name in (*columns, *reading.undeclared):
        column = columns.get(name)
        path = tuple(name.split("."))
        if name in parents:
            if column is not None:
                return None
            continue
        if column is not None:
            if not column.spelling.is_usual:
                return None
            if _declared_arrow(column) is None and column.type.kind not in (Kind.ANY, Kind.NUMERIC):
                return None
            if not (reading.carries(column.name) or column.required or _can_fail(column)):
                continue
        if len(path) > objects.MAX_DEPTH or (len(path) > 1 and not name.isprintable()) or '"' in name or "\\" in name:
            return None
        leaves.append(_Leaf(name, path, column))
    return leaves


def _declared_arrow(column: SourceColumn) -> pa.DataType | None:
    """Give the Arrow type as which a declared column is read; None where each value decides."""
    if column.type.kind is Kind.DECIMAL and not column.type.is_dynamic:
        return values.arrow_type(column.type)
    return _ARROW.get(column.type.kind)


def _keeps_digits(leaf: _Leaf, kind: pa.DataType | None) -> bool:
    """Whether doubles are read where a value has all digits that are written; a Numeric is the nearest double."""
    if kind is None or not pa.types.is_floating(kind):
        return False
    return leaf.column is None or leaf.column.type.kind in (Kind.ANY, Kind.INT)


def _can_fail(column: SourceColumn) -> bool:
    return column.type.kind not in (Kind.STRING, Kind.ANY)


def _dotted_keys(path: tuple[str, ...]) -> Iterator[bytes]:
    """The keys that could stand for several steps of a path at once, as they are written."""
    for start in range(len(path)):
        for stop in range(start + 2, len(path) + 1):
            yield values.json_text(".".join(path[start:stop])).encode()


class _Beyond:
    """Stands for the class of numbers that neither an int nor a double keeps."""


def _class_of(value: Any) -> type:
    return _Beyond if value.__class__ is decoding.Number and value.is_beyond else value.__class__


def _arrow_type(leaf: _Leaf, found: set[type]) -> pa.DataType | None:
    """Give the Arrow type for a column with values of some classes; None if they do not decide."""
    if _Beyond in found and not leaf.may_be_cut:
        found = found - {_Beyond} | {decoding.Number}
    if leaf.column is not None and leaf.column.type.kind is Kind.DECIMAL:
        # Arrow takes all digits of a number, and of a text that spells one.
        return pa.string() if found == {str} else _declared_arrow(leaf.column)
    if found == {int, decoding.Number}:
        found = {decoding.Number}
    if leaf.may_be_cut and (leaf.is_container or len(found) > 1 or found & {list, dict, _Beyond}):
        # Objects are no values of an undeclared column: their members are.
        return None if leaf.column is None and dict in found else _CUT
    if len(found) != 1:
        return None
    (cls,) = found
    if leaf.column is None or leaf.is_dynamic or cls in _ALSO.get(leaf.column.type.kind, ()):
        return _BY_CLASS.get(cls)
    return _ARROW[leaf.column.type.kind]


def _member(table: pa.Table, path: tuple[str, ...]) -> pa.Array:
    array = _chunk(table, path[0])
    return pc.struct_field(array, list(path[1:])) if len(path) > 1 else array


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _tagged(leaf: _Leaf, array: pa.Array, text: bytes, odd: Mask, *, is_listed: bool) -> pa.Array:
    """Values whose kind JSON says, as dynamic columns hold them."""
    if leaf.column is not None and leaf.column.type.kind is Kind.NUMERIC and not _is_number(array.type):
        # Texts and bools convert under Numeric, each by the exact rule.
        _note(odd, pc.is_valid(array))
    if pa.types.is_floating(array.type):
        is_float = pc.is_finite(array)
        whole = pc.equal(pc.trunc(array), array)
        if pc.any(whole).as_py() and (is_listed or arrow.may_have(leaf.path[-1], rb"-?[0-9]+\s*[,}]", text)):
            # A whole number may have been written as an int, and then it is one.
            is_float = pc.and_(is_float, pc.invert(whole))
        _note(odd, pc.invert(is_float))
        _note_tiny(leaf, array, text, odd, is_listed=is_listed)
    return spelling.tagged(array)


def _note_tiny(leaf: _Leaf, array: pa.Array, text: bytes, odd: Mask, *, is_listed: bool) -> None:
    """Notes the least of a column of doubles, in whose text a number may be so small that no double keeps it."""
    least = pc.less(pc.abs(array), _LEAST_NORMAL)
    if pc.any(least).as_py() and (is_listed or arrow.may_have(leaf.path[-1], _TINY, text)):
        _note(odd, least)


def _note_decimals(static: Type, array: pa.Array, text: bytes, odd: Mask) -> None:
    """Notes Decimals with more digits than declared, and all of them where some may be none as they are written."""
    if _ZEROS in text or ((b"e-" in text or b"E-" in text) and _FAR.search(text)):
        _note(odd, pc.is_valid(array))
    else:
        odd |= decimal_columns.unsure(array, static.precision)


def _of_kind(kind: Kind, array: pa.Array, text: bytes, odd: Mask) -> pa.Array:
    """Numbers, bools and texts as values of a declared kind."""
    is_float = pa.types.is_floating(array.type)
    match kind:
        case Kind.FLOAT:
            _note(odd, pc.invert(pc.is_finite(array)))
        case Kind.INT if is_float:
            is_int = pc.and_(pc.equal(pc.trunc(array), array), pc.less(pc.abs(array), _EXACT))
            _note(odd, pc.invert(is_int))
            array = pc.cast(pc.if_else(is_int, array, None), pa.int64())
        case Kind.BOOL if pa.types.is_integer(array.type):
            array = pc.not_equal(array, 0)
        case Kind.STRING if not pa.types.is_string(array.type):
            if pa.types.is_integer(array.type) and b"-0" in text:
                # A text keeps the sign that the int has lost.
                _note(odd, pc.equal(array, 0))
            array = pc.cast(array, pa.string())
        case _:
            # Arrow's reader has checked that all values are of the kind.
            return array
    return array


def _finds(leaf: _Leaf, number: str, text: bytes) -> bool:
    """Whether a number is found in a text as the value of a column, or of a member of the same name elsewhere."""
    return arrow.member(leaf.path[-1], re.escape(number.encode())).search(text) is not None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _note(odd: Mask, mask: pa.BooleanArray) -> None:
    odd |= pc.fill_null(mask, False).to_numpy(zero_copy_only=False)

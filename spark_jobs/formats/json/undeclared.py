"""The names of undeclared leaves in lines of JSON objects in first-seen order, mostly without a look at the objects.

Arrow's reader tells which members a portion of lines has. As long as they are known there is nothing to do; only where
there is a new one, or a record that Arrow refuses, are objects looked at, which gives the names in their order.
"""

from __future__ import annotations

import io
import itertools
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.json.exact import objects, one_by_one
from spark_jobs.formats.json.fast import arrow, bisection
from spark_jobs.formats.json.texts import decoding, portions
from spark_jobs.limits import FILE_COLUMNS
from spark_jobs.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.json.exact.one_by_one import Item
    from spark_jobs.formats.json.texts.portions import Portion

#: Lines that are looked at first, so that most names are known.
_SAMPLE = 16
#: Arrow makes a place for each name in each line, and any few bytes may be a name. So the lines that are looked at
#: together have no more bytes than this, multiplied by how many they are; twice that where they are of unequal length.
_MOST_PRODUCT = 1 << 26
#: Arrow types of members by the class of their values; others are inferred, which takes longer.
ARROW: dict[type, pa.DataType] = {
    str: pa.string(),
    int: pa.float64(),
    decoding.Number: pa.float64(),
    bool: pa.bool_(),
}


class TooMany(Exception):
    """There are more names than a run can carry columns."""


class Names:
    """The undeclared leaves of a range of lines, as far as seen.

    Args:
        declared: the names of the declared columns.
        arrays: arrays that are exploded or joined.
        known: names that were seen before.
        tuning: how many bytes are looked at in the exact way before Arrow's reader begins.
    """

    def __init__(
        self,
        declared: Sequence[str],
        arrays: Sequence[ArrayPath] = (),
        known: Sequence[str] = (),
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._tuning = tuning
        self._undeclared = objects.Undeclared(declared)
        self._arrays = tuple(arrays)
        self.known: dict[str, None] = dict.fromkeys(known)
        self._before = len(self.known)
        self._members = _Members(self._undeclared, self.known, self._arrays)
        self._attempts = bisection.Bisection(self._members, tuning.json_quick_lines)
        self._is_first = True

    @property
    def has_news(self) -> bool:
        """Whether there are names that were not seen before."""
        return len(self.known) > self._before

    def add(self, lines: Portion, *, all_of_them: bool = False) -> bool:
        """Look at the next lines; false, and nothing is noted, where all of them must be objects and one is not."""
        most = max(math.isqrt(_MOST_PRODUCT * lines.count // max(lines.size, 1)), 1)
        # If lines are no elements, the first one is no object: names noted before it are right.
        return all(self._add(part, all_of_them=all_of_them) for part in lines.parts(most))

    def _add(self, lines: Portion, *, all_of_them: bool) -> bool:
        if lines.size <= self._tuning.json_names_bytes or lines.size * lines.count > 2 * _MOST_PRODUCT:
            return self._add_items(one_by_one.of_lines(lines.singly, "utf-8"), all_of_them=all_of_them)
        if self._is_first:
            if not self._add_items(one_by_one.of_lines(lines.singly[:_SAMPLE], "utf-8"), all_of_them=all_of_them):
                return False
            self._is_first = False
        left = self._attempts.read(lines).left(lines.count)
        if self._members.has_news:
            return self._add_items(one_by_one.of_lines(lines.singly, "utf-8"), all_of_them=all_of_them)
        singly = lines.singly if left else []
        return self._add_items(one_by_one.of_lines([singly[at] for at in left], "utf-8"), all_of_them=all_of_them)

    def _add_items(self, items: Iterable[Item], *, all_of_them: bool) -> bool:
        items = list(items)
        if all_of_them and not all(isinstance(item, dict) for item in items):
            return False
        self.look_at(made for item in items if isinstance(item, dict) for made in objects.spread(item, self._arrays))
        return True

    def add_files(self, files: Sequence[bytes]) -> list[tuple[str, ...]]:
        """Look at all lines of some files at once; of each file the names that none before it has."""
        found: list[tuple[str, ...]] = []
        sizes = itertools.accumulate(map(len, files))
        # Mostly the first files have all names.
        for data in itertools.compress(files, (size <= self._tuning.json_names_bytes for size in sizes)):
            before = len(self.known)
            self.look_at(_items(data))
            found.append(self._since(before))
        rest = files[len(found) :]
        before = len(self.known)
        for lines in portions.portions(
            io.BytesIO(portions.joined(rest)), RangeStats(), self._tuning.json_portion_bytes
        ):
            self.add(lines)
        news = set(self._since(before))
        for data in rest:
            mine = self._leaves_of(_items(data)) if news else {}
            found.append(tuple(name for name in mine if name in news))
            news.difference_update(found[-1])
        return found

    def _since(self, count: int) -> tuple[str, ...]:
        """The names that were found after so many."""
        return tuple(itertools.islice(self.known, count, None))

    def look_at(self, items: Iterable[Item]) -> None:
        """Note the leaves of records.

        Raises:
            TooMany: they are more than a run can carry.
        """
        for item in items:
            self.known.update(self._leaves_of([item]))
            if len(self.known) > FILE_COLUMNS:
                raise TooMany

    def _leaves_of(self, items: Iterable[Item]) -> dict[str, None]:
        records = (item for item in items if isinstance(item, dict))
        return {name: None for record in records for name, _ in self._undeclared.leaves(record)}


def _items(data: bytes) -> Iterable[Item]:
    """Parse a few lines to records, or to the failures of lines that are none."""
    return one_by_one.of_lines(portions.Portion(data).singly, "utf-8")


class _Members:
    """The members that objects had so far, and whether others have more."""

    def __init__(self, undeclared: objects.Undeclared, known: dict[str, None], arrays: Sequence[ArrayPath]) -> None:
        self._undeclared = undeclared
        self._known = known
        self._exploded = {each.path for each in arrays if each.explode}
        self._tree: dict[str, Any] = {}
        self._schema = pa.schema([])
        self._has_changed = False
        #: Whether a leaf was found that is not known yet.
        self.has_news = False

    def begin(self, lines: Portion) -> set[int]:
        """Begin a portion, in which members may change their types once; returns the rows that must not be read."""
        self.has_news = self._has_changed = False
        return arrow.traps(lines)

    def read(self, text: bytes, count: int) -> tuple[None, None]:
        """Look whether some objects have a new leaf.

        Raises:
            Refused: Arrow cannot read one of them.
        """
        if not self.has_news:
            table = arrow.read(text, count, self._schema, "infer")
            # One block is one chunk. It must not be copied: Arrow counts the nulls of inferred arrays of nulls wrongly.
            columns = [(name, column.chunk(0)) for name, column in zip(table.schema.names, table.columns, strict=True)]
            self.has_news = any(name not in self._known for name in self._leaves(columns, "", 0, text))
        return None, None

    def learn(self, records: Sequence[dict[str, Any]], *, is_first: bool = False) -> bool:
        """Take the members of some records; tells whether there were new ones."""
        if self._has_changed:
            return False
        before = self._schema
        for record in records:
            _grow(self._tree, record)
        self._schema = pa.schema(_fields(self._tree))
        self._has_changed = not is_first and not before.equals(self._schema)
        return self._has_changed

    def widen_ints(self, text: bytes, number: str) -> bool:
        """All numbers are floats here."""
        return False

    def _leaves(self, columns: Sequence[tuple[str, pa.Array]], prefix: str, depth: int, text: bytes) -> Iterator[str]:
        """The names of leaves that some objects may have."""
        for key, array in columns:
            name = prefix + key
            if name in self._undeclared.declared:
                continue
            if isinstance(array, pa.ListArray) and name in self._exploded:
                yield from self._elements(array, name, key, text)
                continue
            if not isinstance(array, pa.StructArray) or depth >= objects.MAX_DEPTH:
                if not (pa.types.is_null(array.type) and name in self._undeclared.parents):
                    yield name
                continue
            if array.null_count and name not in self._undeclared.parents and arrow.may_have(key, b"null", text):
                # Absent or null: Arrow does not say which, and a null is a leaf.
                yield name
            inner = [(field.name, array.field(at)) for at, field in enumerate(array.type)]
            yield from self._leaves(inner, name + ".", depth + 1, text)

    def _elements(self, array: pa.ListArray, name: str, key: str, text: bytes) -> Iterator[str]:
        """The names of leaves that records may have which are made of elements: their own members, and the array's."""
        elements = array.flatten()
        is_object = pa.types.is_struct(elements.type)
        if (array.null_count and arrow.may_have(key, b"null", text)) or (
            len(elements) and (not is_object or elements.null_count)
        ):
            yield name
        if is_object:
            inner = [(field.name, pc.struct_field(elements, [at])) for at, field in enumerate(elements.type)]
            yield from self._leaves(inner, "", 0, text)


def _grow(tree: dict[str, Any], record: dict[str, Any], depth: int = 0) -> None:
    """Take a record's members into a tree of Arrow types, in which objects are trees."""
    for key, value in record.items():
        if isinstance(value, dict):
            if depth < objects.MAX_DEPTH:
                inner = tree.get(key)
                tree[key] = inner = inner if isinstance(inner, dict) else {}
                _grow(inner, value, depth + 1)
        elif value.__class__ in ARROW:
            tree[key] = ARROW[value.__class__]


def _fields(tree: dict[str, Any]) -> list[pa.Field]:
    return [pa.field(key, pa.struct(_fields(kind)) if isinstance(kind, dict) else kind) for key, kind in tree.items()]

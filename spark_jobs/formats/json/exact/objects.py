"""JSON objects as records: declared columns, undeclared leaves, arrays to explode or join.

A column declared under an object's name takes the whole object, one with a dotted name the member that it leads to;
other objects are undeclared columns by their leaves.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.json.texts import decoding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.format import ArrayPath

_ABSENT = object()
#: Objects nested deeper than this are kept as one value.
MAX_DEPTH = 64


def spread(record: dict[str, Any], paths: Sequence[ArrayPath]) -> Iterator[dict[str, Any]]:
    """The records that a record makes, one at a time: each path applies to all that the one before it made."""
    records = iter((record,))
    for path in paths:
        records = itertools.chain.from_iterable(map(_apply, records, itertools.repeat(path)))
    return records


def _apply(record: dict[str, Any], path: ArrayPath) -> Iterator[dict[str, Any]]:
    array = find(record, path.path)
    if not isinstance(array, list):
        return iter((record,))
    if not path.explode:
        text = path.separator.join(item if isinstance(item, str) else decoding.json_text(item) for item in array)
        return iter((_with(record, path.path, text),))
    return map(_exploded, itertools.repeat(record), itertools.repeat(path.path), array)


def _exploded(record: dict[str, Any], path: str, item: Any) -> dict[str, Any]:
    """The record with an element in the array's place: an object's members join the record's own and win over them."""
    if isinstance(item, dict):
        return _with(record, path, _ABSENT) | item
    return _with(record, path, item)


def _with(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a record with another value at a path that it has; without the member when there is no value."""
    if path in record:
        changed = {key: value if key == path else item for key, item in record.items()}
        return {key: item for key, item in changed.items() if item is not _ABSENT}
    key, _, rest = path.partition(".")
    return record | {key: _with(record[key], rest, value)}


def find(record: dict[str, Any], name: str) -> Any:
    """Give the value of a column: the member of that name, else the member at a dotted path; None when absent."""
    value = record.get(name, _ABSENT)
    if value is not _ABSENT:
        return value
    if "." in name:
        at = name.find(".")
        while at >= 0:
            inner = record.get(name[:at])
            if isinstance(inner, dict):
                return find(inner, name[at + 1 :])
            at = name.find(".", at + 1)
    return None


def is_doubled(record: dict[str, Any], name: str) -> bool:
    """Whether members of several names are the column of a dotted name, with values that differ."""
    found = list(_ways(record, name))
    return any(value != found[0] for value in found[1:])


def _ways(record: dict[str, Any], name: str) -> Iterator[Any]:
    """The values of all members that are a column: the one of its name, and those at dotted paths."""
    if name in record:
        yield record[name]
    at = name.find(".")
    while at >= 0:
        inner = record.get(name[:at])
        if isinstance(inner, dict):
            yield from _ways(inner, name[at + 1 :])
        at = name.find(".", at + 1)


def has_dotted_key(record: dict[str, Any]) -> bool:
    """Whether a key has a dot, at any depth of objects."""
    return any("." in key or (value.__class__ is dict and has_dotted_key(value)) for key, value in record.items())


def has(record: dict[str, Any], name: str) -> bool:
    """Whether a record has a column's member, be it null; or null where an object that holds it could stand."""
    if name in record:
        return True
    at = name.find(".")
    while at >= 0:
        inner = record.get(name[:at], _ABSENT)
        if isinstance(inner, dict):
            return has(inner, name[at + 1 :])
        if inner is None:
            return True
        at = name.find(".", at + 1)
    return False


def parents(names: Sequence[str]) -> frozenset[str]:
    """Give the dotted names of all parents of columns: `a` and `a.b` for `a.b.c`."""
    return frozenset(name[:at] for name in names for at, character in enumerate(name) if character == ".")


class Undeclared:
    """Finds the leaves of records that no declared column takes, by dotted names in document order."""

    def __init__(self, declared: Sequence[str]) -> None:
        self.declared = frozenset(declared)
        self.parents = parents(declared)

    def leaves(self, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Names and values. Objects are taken apart, and empty ones have no leaf; arrays stay whole.

        A null where an object with a declared leaf could stand is not a leaf either.
        """
        return self._leaves(record, "", 0)

    def values(self, record: dict[str, Any]) -> dict[str, Any]:
        """The values by name. If a key with dots and a path share a name, `find` decides which value counts."""
        found: dict[str, Any] = {}
        for name, value in self.leaves(record):
            found[name] = find(record, name) if name in found else value
        return found

    def _leaves(self, record: dict[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
        for key, value in record.items():
            name = prefix + key
            if name in self.declared:
                continue
            if isinstance(value, dict) and depth < MAX_DEPTH:
                yield from self._leaves(value, name + ".", depth + 1)
            elif value is not None or name not in self.parents:
                yield name, value


class Declared:
    """Which declared columns the records of a file have.

    Args:
        names: the names of the declared columns.
        leaves: finds the undeclared ones; the same for all files of a source.
    """

    __slots__ = ("_leaves", "_names", "foreign", "missing", "others")

    def __init__(self, names: tuple[str, ...], leaves: Undeclared) -> None:
        self._names = names
        self._leaves = leaves
        #: The columns that no record has so far.
        self.missing = names
        #: The first record, as long as no record has a declared column.
        self.foreign: dict[str, Any] | None = None
        #: Undeclared leaves, as long as a declared column is missing: it may be meant by one of them.
        self.others: dict[str, None] = {}

    def note(self, record: dict[str, Any]) -> None:
        """Note which of the missing columns a record has."""
        if not self.missing:
            return
        self.missing = tuple(name for name in self.missing if not has(record, name))
        if self.missing != self._names:
            self.foreign = None
        elif self.foreign is None:
            self.foreign = record
        if self.missing:
            self.others.update(dict.fromkeys(name for name, _ in self._leaves.leaves(record)))

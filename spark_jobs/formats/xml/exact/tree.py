"""Records as trees, where arrays, maps or values of any kind are declared, with `array_paths`, and to find names.

A tree is what JSON would have: an element with elements or attributes is a dictionary, several elements of one name are
a list, others are texts, and an empty one is null. Columns are found by the same names as in `text_columns.py`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import values
from spark_jobs.formats.xml.document import BLANKS, MOST_DEPTH, Broken, local, written
from spark_jobs.formats.xml.exact.mixed import MixedText
from spark_jobs.formats.xml.options import TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.xml.options import XmlRead

Tree = dict[str, Any]
#: Between the names of elements that lead to a text. No document has this character.
STEP = "\x0c"
#: The most names that are remembered; a file with more names is an attack.
_MOST_SPELLINGS = 4096
#: The most elements and attributes of a record whose names are read.
MOST_PARTS = 1 << 23


class _Open:
    """An element that has begun: its members so far, and its text."""

    __slots__ = ("members", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: Tree = {}
        #: Its text, once there is some.
        self.text: MixedText | None = None


#: Stands for any text, where only names count.
_SOME_TEXT = MixedText()


class TreeRecords:
    """Makes a tree of each record; `taken` gets them."""

    ended: Callable[[], None]

    def __init__(self, options: XmlRead, taken: Callable[[Tree], None]) -> None:
        self._prefix = options.attribute_prefix
        self._strips = options.strips
        self._taken = taken
        self._open: list[_Open] = []
        #: Element and attribute names by the names that Expat gives.
        self._names: dict[str, str] = {}
        self._is_verbatim = False

    def begin(self, attributes: list[str]) -> None:
        """A record begins."""
        self.start("", attributes)

    def start(self, name: str, attributes: list[str], /) -> None:
        """An element in it begins."""
        if len(self._open) > MOST_DEPTH:
            raise Broken(f"elements of a record are nested more than {MOST_DEPTH} levels deep")
        names = self._names
        opened = _Open(names[name] if name in names else self._named(name))
        for at in range(0, len(attributes), 2):
            key = attributes[at]
            key = self._prefix + (names[key] if key in names else self._named(key))
            _add(opened.members, key, attributes[at + 1])
        self._open.append(opened)

    def _named(self, given: str) -> str:
        """The name of an element or attribute from Expat's name."""
        name = written(given)
        name = local(name) if self._strips else name
        if len(self._names) < _MOST_SPELLINGS:
            self._names[given] = name
        return name

    def end(self, name: str, /) -> None:
        """The last element that began ends, or the record itself."""
        done = self._open.pop()
        text = "" if done.text is None else done.text.value()
        self._close(done, text)

    def _close(self, done: _Open, text: str) -> None:
        if not self._open:
            record = {TEXT: text, **done.members} if text else done.members
            self.ended()
            self._taken(record)
            return
        value: Any = text or None
        if done.members:
            value = {TEXT: text, **done.members} if text else done.members
        _add(self._open[-1].members, done.name, value)

    def characters(self, text: str, /) -> None:
        """A piece of text."""
        last = self._open[-1]
        if last.text is None:
            last.text = MixedText()
        last.text.add(text, is_verbatim=self._is_verbatim)

    def begin_verbatim(self) -> None:
        """A CDATA section begins."""
        self._is_verbatim = True

    def end_verbatim(self) -> None:
        """The CDATA section ends."""
        self._is_verbatim = False


class NamedRecords(TreeRecords):
    """Makes trees for the names in them: every text that is not empty becomes `-`."""

    def __init__(self, options: XmlRead, taken: Callable[[Tree], None]) -> None:
        super().__init__(options, taken)
        #: The number of complete elements in the record.
        self._count = 0

    def begin(self, attributes: list[str]) -> None:
        self._count = 0
        super().begin(attributes)

    def end(self, name: str, /) -> None:
        """The last element that began ends, or the record itself."""
        done = self._open.pop()
        text = "" if done.text is None else "-"
        self._count += 1 + len(done.members)
        if self._count > MOST_PARTS:
            raise Broken(f"a record has more than {MOST_PARTS:,} elements and attributes")
        self._close(done, text)

    def characters(self, text: str, /) -> None:
        last = self._open[-1]
        if last.text is None and (self._is_verbatim or text.strip(BLANKS)):
            last.text = _SOME_TEXT


def _add(members: Tree, name: str, value: Any) -> None:
    """Add a member. Several members with the same name become a list."""
    if name not in members:
        members[name] = value
    elif isinstance(members[name], list):
        members[name].append(value)
    else:
        members[name] = [members[name], value]


def items_of(value: Any) -> Sequence[Any]:
    """The values of a member: several elements of one name are a list."""
    return value if isinstance(value, list) else (value,)


def is_array(value: Any) -> bool:
    """Whether a member stands for several elements, and some of these have attributes or child elements."""
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def undeclared(
    tree: Tree, declared: Collection[str], wholes: Collection[str] = (), prefix: str = "", way: str = ""
) -> Iterator[str]:
    """The paths of a record's texts that no declared column takes, in document order; see `Undeclared`.

    A declared column takes the text of its elements; a column of `wholes` also takes attributes and child elements.
    """
    for key, value in tree.items():
        name, here = prefix + key, way + key
        if name in wholes:
            continue
        if not isinstance(value, (dict, list)):
            if name not in declared and not (prefix and key == TEXT):
                yield here
        elif not is_array(value):
            yield from _undeclared_in(items_of(value), name, here, declared, wholes)
        else:
            inside = _undeclared_in(items_of(value), name, here, declared, wholes)
            if (first := next(inside, None)) is not None:
                yield here + STEP
                if name in declared:
                    yield first
                    yield from inside


def _undeclared_in(
    items: Sequence[Any], name: str, here: str, declared: Collection[str], wholes: Collection[str]
) -> Iterator[str]:
    """The paths of the undeclared texts in elements that have the same name."""
    for item in items:
        if isinstance(item, dict):
            if TEXT in item and name not in declared:
                yield here
            yield from undeclared(item, declared, wholes, name + ".", here + STEP)
        elif name not in declared:
            yield here


class Undeclared:
    """The undeclared columns of a source, from the paths of its texts.

    Elements that repeat within some record and have attributes or child elements become an array of maps in all
    records. If a declared column has their text, each attribute and child becomes an array with one item per element.

    Args:
        declared: the declared columns.
        ways: paths: element names from the record down to the text, joined with `STEP`. The path of an array ends with
            `STEP`.
    """

    def __init__(self, declared: Collection[str], ways: Iterable[str]) -> None:
        self._declared = frozenset(declared)
        found = dict.fromkeys(way[:-1].replace(STEP, ".") for way in ways if way.endswith(STEP))
        #: The names of arrays, and of declared columns with arrays beside their text.
        self.arrays = tuple(found)
        self._arrays = frozenset(found)

    def column(self, way: str) -> str | None:
        """The column of a text; None where it is a declared one."""
        name = ""
        has_array = False
        for part in way.removesuffix(STEP).split(STEP):
            name = f"{name}.{part}" if name else part
            if name not in self._declared and (has_array or name in self._arrays):
                return name
            has_array = name in self._declared and (has_array or name in self._arrays)
        return None if name in self._declared else name


def present(tree: Tree, prefix: str = "") -> Iterator[str]:
    """The names of everything in a record."""
    for key, value in tree.items():
        yield prefix + key
        for item in items_of(value):
            if isinstance(item, dict):
                yield from present(item, f"{prefix}{key}.")


def explode(record: Tree, paths: Sequence[ArrayPath]) -> Iterator[Tree]:
    """The records that `array_paths` make of a record, one at a time.

    Each path applies to every record that the path before it made.

    An element that occurs once is an array of one.
    """
    records = iter((record,))
    for path in paths:
        records = itertools.chain.from_iterable(map(_apply, records, itertools.repeat(path)))
    return records


def _apply(record: Tree, path: ArrayPath) -> Iterator[Tree]:
    holder, key = _holder(record, path.path)
    if holder is None:
        return iter((record,))
    items = holder[key] if isinstance(holder[key], list) else [holder[key]]
    if path.explode:
        return map(_exploded, itertools.repeat(record), itertools.repeat(path.path), items)
    texts = ("" if item is None else item if isinstance(item, str) else values.json_text(item) for item in items)
    return iter((_with(record, path.path, {key: path.separator.join(texts)}),))


def _exploded(record: Tree, path: str, item: Any) -> Tree:
    """The record with one element in the place of all: its members join the record's own and win over them."""
    _, key = _holder(record, path)
    if not isinstance(item, dict):
        return _with(record, path, {key: item})
    own = {key: item[TEXT]} if TEXT in item else {}
    return _with(record, path, own) | {name: value for name, value in item.items() if name != TEXT}


def _holder(tree: Tree, path: str) -> tuple[Tree | None, str]:
    """The dictionary that holds a path's last member, and the member's key; None and the path if there is none."""
    if path in tree:
        return tree, path
    at = path.find(".")
    while at >= 0:
        inner = tree.get(path[:at])
        if isinstance(inner, dict):
            found, key = _holder(inner, path[at + 1 :])
            if found is not None:
                return found, key
        at = path.find(".", at + 1)
    return None, path


def _with(tree: Tree, path: str, replacement: Tree) -> Tree:
    """A copy of a tree in which the members of `replacement` stand in place of the member at a path."""
    if path in tree:
        changed: Tree = {}
        for key, value in tree.items():
            changed.update(replacement if key == path else {key: value})
        return changed
    at = path.find(".")
    while True:
        inner = tree.get(path[:at])
        if isinstance(inner, dict) and _holder(inner, path[at + 1 :])[0] is not None:
            return tree | {path[:at]: _with(inner, path[at + 1 :], replacement)}
        at = path.find(".", at + 1)

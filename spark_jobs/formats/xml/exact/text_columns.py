"""Records whose columns are texts: each element and attribute that is wanted goes straight to its column."""

from __future__ import annotations

import bisect
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats.xml.document import BLANKS, MOST_DEPTH, Broken, local, written
from spark_jobs.formats.xml.exact.mixed import MixedText
from spark_jobs.formats.xml.options import DECLARATION, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_jobs.formats.xml.options import XmlRead

#: The most spellings of a name that are remembered; a file with more is an attack.
_MOST_SPELLINGS = 256
#: A text of more characters is kept in pieces until it ends.
_LONG = 1 << 16
#: A name of more parts is taken apart at each of its points.
_MOST_PARTS = 6


@dataclass(frozen=True)
class Values:
    """Texts, and the record of each in ascending order; a record may have several."""

    rows: np.ndarray
    texts: pa.StringArray


class Column:
    """The values of one name, and the record of each; a record may have several."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows = array("i")
        self.values: list[Any] = []

    def add(self, row: int, value: Any) -> None:
        """Another value, of the last record or a later one."""
        self.rows.append(row)
        self.values.append(value)

    def take(self, count: int) -> tuple[array[int], list[Any]]:
        """Take out the values of the first records; the others are then counted from there."""
        at = bisect.bisect_left(self.rows, count)
        taken = self.rows[:at], self.values[:at]
        self.rows = array("i", [row - count for row in self.rows[at:]])
        self.values = self.values[at:]
        return taken

    def texts(self, count: int) -> Values:
        """The values of a column whose values are all texts."""
        rows, found = self.take(count)
        return Values(np.array(rows, dtype=np.int64), pa.array(found, pa.string()))


class WantedElement:
    """The wanted parts of an element: its text, its attributes, and its children."""

    __slots__ = ("attributes", "children", "column")

    def __init__(self, strips: bool) -> None:
        self.column: Column | None = None
        self.children = _Children(strips)
        self.attributes = _Attributes(strips)


class _Children(dict[str, WantedElement]):
    """Wanted elements by their names, as they are written or as Expat gives them; nothing is wanted of all others."""

    def __init__(self, strips: bool) -> None:
        self._strips = strips
        self.other: WantedElement | None = None

    def __missing__(self, name: str) -> WantedElement:
        found: WantedElement | None = _named(self, name, self._strips)
        if found is None:
            assert self.other is not None
            return self.other
        if len(self) < _MOST_SPELLINGS:
            self[name] = found
        return found


class _Attributes(dict[str, "Column | None"]):
    """Wanted attributes by their names, as they are written or as Expat gives them."""

    def __init__(self, strips: bool) -> None:
        self._strips = strips

    def __missing__(self, name: str) -> Column | None:
        found: Column | None = _named(self, name, self._strips)
        return found


def _named(wanted: dict[str, Any], name: str, strips: bool) -> Any:
    """The wanted element with a name in another spelling."""
    own = written(name)
    found = wanted.get(own)
    return wanted.get(local(own)) if found is None and strips and ":" in own else found


def is_declaration(name: str) -> bool:
    """Whether an attribute declares a namespace."""
    return name == DECLARATION or name.startswith(f"{DECLARATION}:")


class TextColumnRecords:
    """Takes the texts of some columns out of records.

    Args:
        names: the columns.
        options: the read options.
    """

    ended: Callable[[], None]

    def __init__(self, names: Iterable[str], options: XmlRead) -> None:
        self._options = options
        self._nothing = WantedElement(False)
        self._nothing.children.other = self._nothing
        #: The wanted parts of a record.
        self.record = self._element()
        self.columns = {name: Column() for name in names}
        for name, column in self.columns.items():
            self._want(name, column)
        #: The number of complete records.
        self.count = 0
        self._stack: list[WantedElement] = []
        self._now = self.record
        #: The text of the element so far, or since its last child or CDATA section.
        self._text = ""
        #: What CDATA sections, texts before children and beginnings of long texts gave, by the depth of the element.
        self._kept: dict[int, MixedText] = {}
        self._is_verbatim = False
        #: Whether the element has neither attributes nor elements so far: it has a value even if it is empty.
        self._is_leaf = False

    def _element(self) -> WantedElement:
        element = WantedElement(self._options.strips)
        element.children.other = self._nothing
        return element

    def _want(self, name: str, column: Column) -> None:
        """Names of elements may have points, too: `a.b` is `b` in `a`, or an element of that name."""
        parts = name.split(".")
        for parents, last in _ways(parts) if len(parts) <= _MOST_PARTS else [self._plain_way(name)]:
            element = self.record
            for parent in parents:
                element = element.children.setdefault(parent, self._element())
            self._want_in(element, last, column, is_own=not parents)

    def _plain_way(self, name: str) -> tuple[list[str], str]:
        """The way to a name where only an attribute has points in its own."""
        prefix = self._options.attribute_prefix
        at = name.find(f".{prefix}") if prefix else name.rfind(".")
        if prefix and name.startswith(prefix):
            return [], name
        at = at if at >= 0 else name.rfind(".")
        return name[:at].split("."), name[at + 1 :]

    def _want_in(self, element: WantedElement, name: str, column: Column, *, is_own: bool) -> None:
        prefix = self._options.attribute_prefix
        if name.startswith(prefix):
            element.attributes[name.removeprefix(prefix)] = column
            if prefix:
                return
        if is_own and name == TEXT:
            element.column = column
        else:
            element.children.setdefault(name, self._element()).column = column

    def begin(self, attributes: list[str]) -> None:
        """A record begins."""
        self._now = self.record
        self._is_leaf = False
        self._text = ""
        if attributes:
            self._take(attributes)

    def start(self, name: str, attributes: list[str], /) -> None:
        """An element in it begins."""
        stack = self._stack
        if self._text:
            self._keep_before_child()
        stack.append(self._now)
        if len(stack) == MOST_DEPTH:
            raise Broken(f"elements of a record are nested more than {MOST_DEPTH} levels deep")
        self._now = self._now.children[name]
        self._is_leaf = True
        if attributes:
            # Without a text there is nothing but its attributes then.
            self._is_leaf = False
            self._take(attributes)

    def end(self, name: str, /) -> None:
        """The last element that began ends, or the record itself."""
        column = self._now.column
        if column is not None and (self._is_leaf or self._text or self._kept):
            text = self._text.strip(BLANKS) if not self._kept else self._whole()
            if text or self._is_leaf:
                column.rows.append(self.count)
                column.values.append(text)
        elif self._kept:
            self._whole()
        self._is_leaf = False
        self._text = ""
        if self._stack:
            self._now = self._stack.pop()
        else:
            self.count += 1
            self.ended()

    def characters(self, text: str, /) -> None:
        """A piece of text."""
        if not self._text:
            self._text = text
        elif len(self._text) < _LONG:
            self._text += text
        else:
            # Each piece would copy all that were before it.
            self._keep(is_verbatim=self._is_verbatim)
            self._text = text

    def begin_verbatim(self) -> None:
        """A CDATA section begins: the text before it is all but its beginning."""
        self._keep()
        self._is_verbatim = True

    def end_verbatim(self) -> None:
        """The CDATA section ends."""
        self._keep(is_verbatim=True)
        self._is_verbatim = False

    def _keep_before_child(self) -> None:
        """The text of an element continues after its children."""
        if len(self._stack) in self._kept or self._text.strip(BLANKS):
            self._keep()
        self._text = ""

    def _keep(self, *, is_verbatim: bool = False) -> None:
        depth = len(self._stack)
        kept = self._kept.get(depth)
        if kept is None:
            kept = self._kept[depth] = MixedText()
        kept.add(self._text, is_verbatim=is_verbatim)
        self._text = ""

    def _whole(self) -> str:
        """The text of the element, of which several parts may be buffered."""
        kept = self._kept.pop(len(self._stack), None)
        if kept is None:
            return self._text.strip(BLANKS)
        kept.add(self._text)
        return kept.value()

    def _take(self, attributes: list[str]) -> None:
        wanted = self._now.attributes
        if wanted:
            for at in range(0, len(attributes), 2):
                column = wanted[attributes[at]]
                if column is not None:
                    column.rows.append(self.count)
                    column.values.append(attributes[at + 1])


def _ways(parts: list[str]) -> Iterator[tuple[list[str], str]]:
    """The ways to join neighbouring parts of a name: the names of elements around, and the last one."""
    for cut in range(len(parts)):
        last = ".".join(parts[cut:])
        if cut == 0:
            yield [], last
        else:
            for parents, parent in _ways(parts[:cut]):
                yield [*parents, parent], last

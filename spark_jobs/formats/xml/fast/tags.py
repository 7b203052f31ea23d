"""Whole records of a document as arrays: the positions of tags and texts, found for all records at once.

Most documents are regular: tags with attributes in double quotes, and texts between. A range of such a document is
scanned here without a step for each element. Everything else in XML (comments, sections, declarations, references by
number, other quotes, names beyond ASCII) is left to Expat, and so are errors: the records found here are well-formed
XML that Expat would read in the same way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_NAME = rb"[A-Za-z_:][A-Za-z0-9_:.\-]*"
_BLANK = rb"[ \t\n]"
#: A name without a prefix.
_OWN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
#: A tag is one part, or has one part before each attribute value and one after the last.
_PART = re.compile(
    rb"<(?P<start>%(name)s)(?:%(blank)s*(?P<empty>/)?>|%(blank)s+(?P<first>%(name)s)%(blank)s*=%(blank)s*\")"
    rb"|</(?P<end>%(name)s)%(blank)s*>"
    rb"|\"(?:%(blank)s+(?P<next>%(name)s)%(blank)s*=%(blank)s*\"|%(blank)s*(?P<closed>/)?>)"
    % {b"name": _NAME, b"blank": _BLANK}
)
_LT, _GT, _QUOTE, _APOSTROPHE, _AMPERSAND, _SLASH = b"<>\"'&/"
_TAB, _NEWLINE, _SPACE = b"\t\n "
_ENTITIES = (b"amp;", b"lt;", b"gt;", b"quot;", b"apos;")
#: More tags of different spelling in one range are no regular records.
_MOST_PIECES = 4096
#: More tags, as in a range of megabytes that has nothing else, are not looked at together.
_MOST_TAGS = 1 << 20
#: Elements that stand deeper in each other are left to Expat.
_MOST_LEVELS = 32


class Irregular(Exception):
    """A range has something that is not for here."""


class TagPartKind(IntEnum):
    """The shape of a part of a tag."""

    START = 0
    END = 1
    EMPTY = 2
    #: Up to the first value of an attribute.
    FIRST = 3
    #: Up to another.
    NEXT = 4
    #: After the last.
    CLOSE = 5
    CLOSE_EMPTY = 6


@dataclass(frozen=True)
class TagPart:
    """A part of a tag: its shape, and the names of its element and of the attribute whose value follows."""

    kind: TagPartKind
    element: str = ""
    attribute: str = ""

    @classmethod
    def of(cls, text: bytes) -> TagPart:
        """Classify a part.

        Raises:
            Irregular: it is none of these.
        """
        found = _PART.fullmatch(text)
        if found is None:
            raise Irregular
        start, end, first, after = (found[name] for name in ("start", "end", "first", "next"))
        if end is not None:
            return cls(TagPartKind.END, end.decode())
        if start is not None:
            if first is not None:
                return cls(TagPartKind.FIRST, start.decode(), first.decode())
            return cls(TagPartKind.EMPTY if found["empty"] else TagPartKind.START, start.decode())
        if after is not None:
            return cls(TagPartKind.NEXT, "", after.decode())
        return cls(TagPartKind.CLOSE_EMPTY if found["closed"] else TagPartKind.CLOSE)


@dataclass(frozen=True)
class Attributes:
    """The attributes of tags: a row each.

    Args:
        tags: whose they are.
        names: the names that there are.
        codes: which of them each has.
        begins: where its value begins.
        ends: where it ends.
    """

    tags: np.ndarray
    names: Sequence[str]
    codes: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


class Tags:
    """The tags of a range: a row each.

    Args:
        data: whole records in UTF-8, and nothing but blanks between them.
        record: the name of their element, as it is written.
        prefixes: the prefixes that the elements around the records bind to a namespace.

    Raises:
        Irregular: Expat has to read them.
    """

    def __init__(self, data: bytes, record: str, prefixes: Collection[str] = ()) -> None:
        self.data = np.frombuffer(data, dtype=np.uint8)
        #: Whether there are references to XML's reserved characters.
        self.has_entities = False
        self._check_characters(data)
        #: The starts of tags, and their ends at `>`.
        self.starts, self.ends = self._tags()
        self._split_tags()
        self._check_prefixes(prefixes)
        self._stand_in_each_other(record)
        self.attributes = self._attributes()

    def _check_characters(self, data: bytes) -> None:
        #: Find tabs and line ends. Other characters below the space are illegal in XML, and a parser would change
        #: `\\r`.
        self.controls = np.flatnonzero(self.data < _SPACE)
        found = self.data[self.controls]
        if ((found != _NEWLINE) & (found != _TAB)).any():
            raise Irregular
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                raise Irregular from None
            if b"\xef\xbf\xbe" in data or b"\xef\xbf\xbf" in data:  # U+FFFE and U+FFFF, which are no characters
                raise Irregular
        at = np.flatnonzero(self.data == _AMPERSAND)
        if len(at):
            self.has_entities = True
            self._check_references(at)

    def _check_references(self, at: np.ndarray) -> None:
        last = len(self.data) - 1
        is_known = np.zeros(len(at), dtype=np.bool_)
        for entity in _ENTITIES:
            is_this = np.ones(len(at), dtype=np.bool_)
            for offset, character in enumerate(entity, 1):
                is_this &= self.data[np.minimum(at + offset, last)] == character
            is_known |= is_this
        if not is_known.all():
            raise Irregular

    def _tags(self) -> tuple[np.ndarray, np.ndarray]:
        starts, ends = np.flatnonzero(self.data == _LT), np.flatnonzero(self.data == _GT)
        if not len(starts) or len(starts) != len(ends) or (starts >= ends).any() or (ends[:-1] >= starts[1:]).any():
            raise Irregular
        return starts, ends

    def _inside(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places that are inside of tags, and their tags."""
        tag = np.searchsorted(self.starts, at, side="right") - 1
        is_inside = (tag >= 0) & (at < self.ends[tag])
        return at[is_inside], tag[is_inside]

    def _split_tags(self) -> None:
        """Find the parts of tags, and what each is."""
        quotes, tag_of_quote = self._inside(np.flatnonzero(self.data == _QUOTE))
        if (
            len(self._inside(np.flatnonzero(self.data == _APOSTROPHE))[0])
            or (np.bincount(tag_of_quote, minlength=1) % 2).any()
        ):
            raise Irregular
        # A part ends at each opening quote, and one begins at each closing one.
        begins = np.sort(np.concatenate([self.starts, quotes[1::2]]), kind="stable")
        self.part_ends = np.sort(np.concatenate([self.ends, quotes[0::2]]), kind="stable") + 1
        self.part_begins = begins
        encoded = self.slices(begins, self.part_ends).cast(pa.binary()).dictionary_encode()
        if len(encoded.dictionary) > _MOST_PIECES:
            raise Irregular
        #: The parts that there are, as they are written, and which of them each one is.
        self.spellings: list[bytes] = encoded.dictionary.to_pylist()
        self.parts = [TagPart.of(text) for text in self.spellings]
        self.codes = encoded.indices.to_numpy()
        kinds = np.array([part.kind for part in self.parts], dtype=np.int8)[self.codes]
        #: The first part of each tag.
        self.first = np.searchsorted(begins, self.starts)
        self.has_attributes = kinds[self.first] == TagPartKind.FIRST
        last = np.append(self.first[1:], len(begins)) - 1
        self.is_end = kinds[self.first] == TagPartKind.END
        self.is_empty = (kinds[last] == TagPartKind.EMPTY) | (kinds[last] == TagPartKind.CLOSE_EMPTY)
        self._is_before_value = (kinds == TagPartKind.FIRST) | (kinds == TagPartKind.NEXT)

    def _check_prefixes(self, prefixes: Collection[str]) -> None:
        """Prefixes are declared around the records, and two attributes cannot be one by their namespaces."""
        elements = {part.element for part in self.parts if ":" in part.element}
        attributes = {part.attribute for part in self.parts if ":" in part.attribute}
        if len({name.partition(":")[2] for name in attributes}) < len(attributes):
            raise Irregular
        for name in elements | attributes:
            prefix, _, own = name.partition(":")
            if not _OWN_NAME.fullmatch(own) or (prefix != "xml" and prefix not in prefixes):
                raise Irregular

    def _stand_in_each_other(self, record: str) -> None:
        """Find how deep each tag stands, and check that each element ends as it began."""
        is_open = ~self.is_end & ~self.is_empty
        deep = np.cumsum(is_open.astype(np.int8) - self.is_end, dtype=np.int16)
        #: The level of each tag's element; records have 0.
        self.levels = deep - is_open
        if len(deep) > _MOST_TAGS or deep[-1] or self.levels.min() < 0 or self.levels.max() > _MOST_LEVELS:
            raise Irregular
        self.names, self.name_codes = _numbered([part.element for part in self.parts], self.codes[self.first])
        paired = np.flatnonzero(~self.is_empty)
        paired = paired[np.argsort(self.levels[paired], kind="stable")]
        if (self.name_codes[paired[0::2]] != self.name_codes[paired[1::2]]).any():
            raise Irregular
        begins = (self.levels == 0) & ~self.is_end
        if {self.names[code] for code in np.unique(self.name_codes[begins]).tolist()} != {record}:
            raise Irregular
        #: The record of each tag.
        self.records = np.cumsum(begins) - 1
        self.count = int(self.records[-1]) + 1
        self._check_gaps(is_open)

    def _check_gaps(self, is_open: np.ndarray) -> None:
        """Texts are between the tags of one element alone; between others there are blanks."""
        #: Whether an element has no elements in it.
        self.is_leaf = np.zeros(len(self.starts), dtype=np.bool_)
        self.is_leaf[:-1] = is_open[:-1] & self.is_end[1:]
        #: The ends of the texts after tags.
        self.text_ends = np.append(self.starts[1:], len(self.data))
        begins = self.ends + 1
        #: Whether an element has a text that is not only blanks.
        self.has_text = (begins < self.text_ends) & (self.data[self.text_ends - 1] > _SPACE)
        others = np.flatnonzero((begins < self.text_ends) & ~self.has_text)
        self.has_text[others] = self._are_filled(begins[others], self.text_ends[others])
        may_have = self.is_leaf & (self.levels > 0)
        if (self.has_text & ~may_have).any() or self._are_filled(*np.array([[0], [self.starts[0]]])).any():
            raise Irregular

    def _are_filled(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether each of some ranges has something else than blanks."""
        sizes = ends - begins
        filled = np.zeros(len(sizes), dtype=np.bool_)
        starts = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(begins - starts, sizes)
        if len(places):
            solid = self.data[places] > _SPACE
            filled[sizes > 0] = np.logical_or.reduceat(solid, starts[sizes > 0])
        return filled

    def _attributes(self) -> Attributes:
        """All attributes.

        Raises:
            Irregular: a tag has one twice, or a value has blanks that a parser changes.
        """
        parts = np.flatnonzero(self._is_before_value)
        tags = np.searchsorted(self.first, parts, side="right") - 1
        names, codes = _numbered([part.attribute for part in self.parts], self.codes[parts])
        begins = self.part_ends[parts]
        ends = self.part_begins[parts + 1]
        each = np.sort(tags * len(names) + codes)
        if (each[1:] == each[:-1]).any():
            raise Irregular
        at = self._inside(self.controls)[0]
        value = np.searchsorted(begins, at, side="right") - 1
        if len(parts) and ((value >= 0) & (at < ends[value])).any():
            raise Irregular
        return Attributes(tags, names, codes, begins, ends)

    def slices(self, begins: np.ndarray, ends: np.ndarray) -> pa.StringArray:
        """Ranges of the data that follow one another, as texts."""
        if not len(begins):
            return pa.array([], pa.string())
        borders = np.empty(2 * len(begins), dtype=np.int32)
        borders[0::2], borders[1::2] = begins, ends
        data = pa.py_buffer(self.data)
        array = pa.StringArray.from_buffers(len(borders) - 1, pa.py_buffer(borders), data)
        return array.take(pa.array(np.arange(0, len(borders) - 1, 2)))


def _numbered(texts: Sequence[str], codes: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Different texts by new numbers, in place of codes that have the same text several times."""
    numbers: dict[str, int] = {}
    known = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
    return list(numbers), known[codes]

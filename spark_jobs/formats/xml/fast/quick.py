"""Columns of regular records, a chunk of a document at once, with the same results as `exact/text_columns.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.xml.document import BLANKS
from spark_jobs.formats.xml.exact.text_columns import Values, is_declaration
from spark_jobs.formats.xml.fast.tags import Irregular, Tags

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spark_jobs.formats.xml.exact.text_columns import Column, TextColumnRecords, WantedElement

#: References to characters, in the order in which they can be replaced.
_REFERENCES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}


@dataclass(frozen=True)
class QuickBatch:
    """Records: how many, and what columns have of them."""

    count: int
    values: dict[Column, Values]


def take(wanted: TextColumnRecords, data: bytes, record: str, prefixes: Collection[str] = ()) -> QuickBatch | None:
    """The wanted columns of whole records; None where Expat has to read them.

    Args:
        wanted: the wanted parts of a record.
        data: the records in UTF-8, with nothing but blanks between them.
        record: the name of their element, as it is written.
        prefixes: the prefixes that the elements around the records bind to a namespace.
    """
    try:
        tags = Tags(data, record, prefixes)
        found: dict[Column, Values] = {}
        for column, values in _Taken(tags, wanted).values():
            if column in found:  # two names lead to one column, in whatever order
                return None
            found[column] = values
    except Irregular:
        return None
    return QuickBatch(tags.count, found)


class _Taken:
    """The wanted values among the tags of a range."""

    def __init__(self, tags: Tags, wanted: TextColumnRecords) -> None:
        self._tags = tags
        #: The wanted elements by the numbers of their paths.
        self._ways: list[WantedElement] = [wanted.record]
        self._way = self._find_ways()

    def _find_ways(self) -> np.ndarray:
        """The way to each element, level by level."""
        tags = self._tags
        way = np.zeros(len(tags.starts), dtype=np.int64)
        outer = np.flatnonzero((tags.levels == 0) & ~tags.is_end)
        for level in range(1, int(tags.levels.max()) + 1):
            here = np.flatnonzero((tags.levels == level) & ~tags.is_end)
            parents = outer[np.searchsorted(outer, here) - 1]
            steps = way[parents] * len(tags.names) + tags.name_codes[here]
            numbers = np.zeros(len(self._ways) * len(tags.names), dtype=np.int64)
            for step in np.flatnonzero(np.bincount(steps, minlength=len(numbers))).tolist():
                parent, name = divmod(step, len(tags.names))
                numbers[step] = len(self._ways)
                self._ways.append(self._ways[parent].children[tags.names[name]])
            way[here] = numbers[steps]
            outer = here
        return way

    def values(self) -> Iterator[tuple[Column, Values]]:
        """The values of all columns; a column may come several times."""
        tags = self._tags
        may_have = np.flatnonzero(~tags.is_end & (tags.is_leaf | tags.is_empty) & (tags.levels > 0))
        for number, here in _by_number(self._way[may_have], may_have):
            column = self._ways[number].column
            if column is not None:
                # Beside attributes only a text counts; without them an element has a value even if it is empty.
                kept = here[~tags.has_attributes[here] | tags.has_text[here]]
                # An element without text ends where it begins, whatever blanks it has.
                begins = tags.ends[kept] + 1
                ends = np.where(tags.has_text[kept] & ~tags.is_empty[kept], tags.text_ends[kept], begins)
                yield column, Values(tags.records[kept], self._trimmed(begins, ends))
        yield from self._of_attributes()

    def _of_attributes(self) -> Iterator[tuple[Column, Values]]:
        tags, found = self._tags, self._tags.attributes
        names = found.names
        if any(is_declaration(name) for name in names):
            raise Irregular
        steps = self._way[found.tags] * len(names) + found.codes
        for step, here in _by_number(steps, np.arange(len(steps))):
            way, name = divmod(step, len(names))
            column = self._ways[way].attributes[names[name]]
            if column is not None:
                texts = self._resolved(tags.slices(found.begins[here], found.ends[here]))
                yield column, Values(tags.records[found.tags[here]], texts)

    def _trimmed(self, begins: np.ndarray, ends: np.ndarray) -> pa.StringArray:
        """Texts without the blanks around them."""
        texts = self._resolved(self._tags.slices(begins, ends))
        data = self._tags.data
        filled = ends > begins
        outer = np.concatenate([data[begins[filled]], data[ends[filled] - 1]])
        if (outer <= 32).any():
            return pc.utf8_trim(texts, characters=BLANKS)
        return texts

    def _resolved(self, texts: pa.StringArray) -> pa.StringArray:
        """Texts with characters in the place of references to them."""
        if self._tags.has_entities and pc.any(pc.match_substring(texts, "&")).as_py():
            for reference, character in _REFERENCES.items():
                texts = pc.replace_substring(texts, reference, character)
        return texts


def _by_number(numbers: np.ndarray, places: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Places by their numbers, in order."""
    if not len(numbers):
        return
    if numbers.max() < 1 << 16:
        numbers = numbers.astype(np.uint16)  # which NumPy sorts in linear time
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    borders = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    for first, last in zip(borders.tolist(), [*borders[1:].tolist(), len(order)], strict=True):
        yield int(ordered[first]), places[order[first:last]]

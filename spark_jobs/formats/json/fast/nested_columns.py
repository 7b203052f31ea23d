"""Columns of arrays, maps and values of mixed kinds, cut out of the text of objects.

Dynamic columns hold most values exactly as the file writes them. The caller has parsed the objects before, so each
value is valid JSON. Spaces between the parts of a value are removed. A value that dynamic columns write in any other
way than the file is parsed on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.types import Kind
from spark_jobs.formats.json.fast import arrow
from spark_jobs.formats.json.texts import decoding, spans

if TYPE_CHECKING:
    from spark_jobs.formats.json.texts.portions import Mask

_TEXT = r'"(?:[^"\\]|\\["\\bfnrt])*"'
#: Numbers of few digits have one text. With many digits, large, and close to 0 there are others.
_NUMBER = (
    r"-?[1-9][0-9]{0,17}|0"
    r"|-?[1-9][0-9]{0,7}\.(?:0|[0-9]{0,6}[1-9])"
    r"|-?0\.(?:0|[0-9]{0,3}[1-9](?:[0-9]{0,9}[1-9])?)"
)
#: JSON that dynamic columns hold without a change.
_AS_IT_IS = rf"^(?:[\[\]{{}},:]|{_TEXT}|(?:{_NUMBER}|true|false|null)(?:[,\]}}]|$))*$"
#: A whole text (captured), or spaces between parts.
_SPACES = r'("(?:[^"\\]|\\.)*")|[ \t]+'
#: The first characters of a text that encodes a value of another kind. Keys that begin like this are escaped.
_TAG = '"$'
#: How values of a declared kind begin.
_BEGINNING = {Kind.ARRAY: ord("["), Kind.MAP: ord("{")}


class NestedColumns:
    """The text of JSON objects, from which members are cut out as columns.

    Args:
        text: one object a line, with LF between them; Arrow's reader has taken all of them.
    """

    def __init__(self, text: bytes) -> None:
        self._objects = spans.Objects(text)
        self._escaped = [match.start() for match in arrow.ESCAPED_KEY.finditer(text)] if b"\\" in text else []

    def column(self, path: tuple[str, ...], kind: Kind | None, odd: Mask) -> pa.StringArray:
        """The values of a column as dynamic columns hold them; notes the lines that need the exact way.

        Args:
            path: where it is.
            kind: the declared type; None if it is not declared, which excludes objects.
            odd: a mark for each line.
        """
        found, unclear = self._objects.member(path)
        odd |= unclear
        # A key with an escape may spell any name.
        odd[self._objects.rows(self._escaped)] = True
        is_value = found.is_there & (found.firsts != ord("n"))
        if kind is None:
            odd |= found.firsts == ord("{")
        elif kind in _BEGINNING:
            odd |= is_value & (found.firsts != _BEGINNING[kind])
        texts = pc.if_else(pa.array(is_value, pa.bool_()), found.texts(), None)
        assert isinstance(texts, pa.StringArray)
        return _plain(texts, pa.array(self._objects.repeats(found), pa.bool_()), odd)


def _plain(texts: pa.StringArray, repeats: pa.Array, odd: Mask) -> pa.StringArray:
    """Values as dynamic columns hold them; where a key stands twice, they are read on their own. Notes odd ones."""
    differs = _differs(texts)
    if pc.any(differs, min_count=0).as_py():
        texts = pc.replace_with_mask(texts, differs, pc.replace_substring_regex(texts.filter(differs), _SPACES, r"\1"))
        repeats = pc.or_(repeats, _differs(texts))
    alone = pc.and_(repeats, pc.is_valid(texts))
    if not pc.any(alone, min_count=0).as_py():
        return texts
    read: list[str | None] = []
    for row, text in zip(pc.indices_nonzero(alone).to_pylist(), texts.filter(alone).to_pylist(), strict=True):
        try:
            read.append(values.encode(decoding.plain(decoding.parse(text))))
        except ValueError:
            odd[row] = True
            read.append(None)
    return pc.replace_with_mask(texts, alone, pa.array(read, pa.string()))


def _differs(texts: pa.StringArray) -> pa.BooleanArray:
    """The values that are written in another way in dynamic columns, and some others."""
    same = pc.and_not(pc.match_substring_regex(texts, _AS_IT_IS), pc.match_substring(texts, _TAG))
    return pc.invert(pc.fill_null(same, True))

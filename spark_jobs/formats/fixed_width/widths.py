"""The width of texts in a file: in bytes of its encoding, however many characters they are."""

from __future__ import annotations

import codecs
import importlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import cell_text, encoding

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_SINGLE_BYTES = ("ascii", "iso8859-1")


class Widths:
    """Measures, cuts and fills the texts of fields.

    Args:
        charset: the encoding of the file, in which fillers are one byte.
    """

    def __init__(self, charset: str) -> None:
        self._is_utf8 = encoding.is_utf8(charset)
        self._is_single = not self._is_utf8 and _is_single(charset)
        self._charset = charset

    def sizes(self, texts: pa.StringArray) -> pa.Array:
        """The bytes of each text. A character that the encoding lacks counts as one, and fails its record."""
        if self._is_utf8 or self._is_ascii(texts):
            return pc.binary_length(texts)
        if self._is_single:
            return pc.utf8_length(texts)
        return pa.array([self._size(text) for text in texts.to_pylist()], pa.int32())

    def _size(self, text: str) -> int:
        return len(text.encode(self._charset, "replace"))

    def _is_ascii(self, texts: pa.StringArray) -> bool:
        return cell_text.characters(texts).isascii()

    def cut(self, text: str, width: int) -> str:
        """The beginning of a text that fits, of whole characters."""
        if self._is_utf8:
            return text.encode()[:width].decode(errors="ignore")
        if self._is_single:
            return text[:width]
        size = 0
        for place, character in enumerate(text):
            size += self._size(character)
            if size > width:
                return text[:place]
        return text

    def filled(self, texts: pa.StringArray, width: int, pad: str, *, is_right: bool) -> pa.StringArray:
        """Texts that fit, made as long as a field, on the right of it or on the left."""
        fill: Callable[..., pa.StringArray]
        if self._is_utf8:
            fill = pc.ascii_lpad if is_right else pc.ascii_rpad
        elif self._is_single or self._is_ascii(texts):
            fill = pc.utf8_lpad if is_right else pc.utf8_rpad
        else:
            fillers = [pad * (width - self._size(text)) for text in texts.to_pylist()]
            around = (pa.array(fillers, pa.string()), texts)
            joined: pa.StringArray = pc.binary_join_element_wise(*(around if is_right else around[::-1]), "")
            return joined
        return fill(texts, width, pad)


def _is_single(charset: str) -> bool:
    """Whether every character is one byte."""
    name = codecs.lookup(charset).name
    if name in _OF_SINGLE_BYTES:
        return True
    module = importlib.import_module(f"encodings.{name.replace('-', '_')}")
    return hasattr(module, "decoding_table")

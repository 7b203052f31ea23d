"""CSV files with unusual signs, rewritten so that they have the usual ones.

A delimiter of several characters, an escape character, records that are ended by other signs, a quote beyond ASCII or
none at all, quotes that nobody escaped: the bytes of such a file are rewritten with one byte for each delimiter and a
newline for each end of a record, and the parser reads this rewritten text. A sign that the parser would then
misunderstand, such as an escaped quote, becomes a *stand-in*: a character for private use and a letter. So rewriting
can be undone to the last byte: the original length of the text before a record tells where the record begins in its
file, and dead letters show the bytes of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from spark_jobs.formats import cell_text
from spark_jobs.formats.csv import quotes, repairing
from spark_jobs.formats.csv.options import Quoting

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.csv.options import CsvRead

#: The prefix of stand-ins. If a text contains it, a stand-in replaces it, too.
_LEAD = "\U0010fffd".encode()
#: Candidates for the delimiter and the quote of rewritten files, if the file's own signs cannot be kept.
_FREE = "\x1f\x1e\x1d\x1c"


@dataclass(frozen=True)
class _StandIn:
    """A stand-in: its letter, the bytes of the file that it replaces, and the bytes that a cell gets for it."""

    letter: bytes
    written: bytes
    cell: bytes

    @property
    def sign(self) -> bytes:
        """The stand-in itself."""
        return _LEAD + self.letter


@dataclass(frozen=True)
class Rewriting:
    """The rules by which the special characters of a file are rewritten.

    Args:
        delimiter: the file's delimiter.
        quote: the file's quote; empty where there is none.
        escape: takes the special meaning from the character after it; empty where there is none.
        separator: ends records; empty where every usual line end does.
        repairs: whether quotes that nobody escaped become text.
        comment: the beginning of lines that are comments; empty where there are none.
        trims: whether blanks around a field are dropped.
    """

    delimiter: str
    quote: str
    escape: str
    separator: str
    repairs: bool = False
    comment: str = ""
    trims: bool = False

    @cached_property
    def dialect(self) -> quotes.Dialect:
        """The bytes that structure the rewritten file."""
        return quotes.Dialect(ord(self.plain_delimiter), ord(self.plain_quote), self.comment.encode(), self.trims)

    @cached_property
    def plain_delimiter(self) -> str:
        """The delimiter of the rewritten file."""
        return self.delimiter if is_plain(self.delimiter) else self._free[0]

    @cached_property
    def plain_quote(self) -> str:
        """The quote of the rewritten file."""
        return self.quote if is_plain(self.quote) else self._free[1]

    @cached_property
    def _free(self) -> list[str]:
        written = self.delimiter + self.quote + self.escape + self.separator
        return [character for character in (*_FREE, *map(chr, range(1, 9))) if character not in written]

    @cached_property
    def _signs(self) -> list[tuple[bytes, bytes, bytes]]:
        """The signs to replace, longest first: the sign, an interim stand-in, and the final replacement."""
        signs = []
        if self.separator:
            signs.append((self.separator.encode(), _LEAD + b"S", b"\n"))
        if self.plain_delimiter != self.delimiter:
            signs.append((self.delimiter.encode(), _LEAD + b"D", self.plain_delimiter.encode()))
        if self.quote and self.plain_quote != self.quote:
            signs.append((self.quote.encode(), _LEAD + b"Q", self.plain_quote.encode()))
        return sorted(signs, key=lambda sign: -len(sign[0]))

    @cached_property
    def _escaped(self) -> list[_StandIn]:
        """Stand-ins for escaped signs, in the order in which they are searched."""
        if not self.escape:
            return []
        escape = self.escape.encode()
        ends = [(b"s", self.separator.encode())] if self.separator else [(b"c", b"\r\n"), (b"n", b"\n"), (b"r", b"\r")]
        signs = [(b"d", self.delimiter.encode()), (b"q", self.quote.encode()), *ends]
        signs = [(letter, sign) for letter, sign in signs if sign and sign != escape]
        signs.sort(key=lambda sign: -len(sign[1]))
        return [_StandIn(letter, escape + sign, sign) for letter, sign in [(b"e", escape), *signs]]

    @cached_property
    def _others(self) -> list[_StandIn]:
        """Stand-ins for characters that mean nothing in the file but something in the rewritten one."""
        found = []
        if self.separator:
            found += [(b"N", b"\n"), (b"R", b"\r")]
        if self.plain_delimiter != self.delimiter:
            found.append((b"u", self.plain_delimiter.encode()))
        if self.plain_quote != self.quote:
            found.append((b"v", self.plain_quote.encode()))
        return [_StandIn(letter, character, character) for letter, character in found]

    @cached_property
    def _repaired(self) -> list[_StandIn]:
        """Stand-ins for unescaped quotes."""
        return [_StandIn(b"x", self.quote.encode(), self.quote.encode())] if self.repairs else []

    @property
    def repaired_quote(self) -> bytes:
        """The stand-in for unescaped quotes; empty where none is repaired."""
        return self._repaired[0].sign if self._repaired else b""

    @cached_property
    def special(self) -> bytes:
        """The bytes that signs consist of: after any other byte a file may be cut."""
        signs = (self.delimiter, self.quote, self.escape, self.separator, "\r\n")
        return b"".join(sign.encode() for sign in signs) + _LEAD

    def rewritten(self, data: bytes) -> bytes:
        """Bytes of the file with the usual signs; they begin and end between signs."""
        data = data.replace(_LEAD, _LEAD + b"l")
        for stand_in in self._escaped:
            data = data.replace(stand_in.written, stand_in.sign)
        for sign, on_the_way, _ in self._signs:
            data = data.replace(sign, on_the_way)
        for stand_in in self._others:
            data = data.replace(stand_in.written, stand_in.sign)
        for _, on_the_way, becomes in self._signs:
            data = data.replace(on_the_way, becomes)
        return data

    def original(self, data: bytes) -> bytes:
        """The original bytes of rewritten ones."""
        for sign, _, becomes in reversed(self._signs):
            data = data.replace(becomes, sign)
        for stand_in in (*self._escaped, *self._others, *self._repaired):
            data = data.replace(stand_in.sign, stand_in.written)
        return data.replace(_LEAD + b"l", _LEAD)

    def original_text(self, text: str) -> str:
        """The text as it is in the file."""
        return self.original(text.encode()).decode(errors="replace")

    def cells(self, column: pa.StringArray) -> pa.StringArray:
        """Restore the original cells from the cells of a rewritten file."""
        data = cell_text.characters(column)
        for old, new in self._restored:
            if old in data:
                column = pc.replace_substring(column, old.decode(), new.decode())
        return column

    def cell(self, text: str) -> str:
        """The text of a single cell as it is in the file."""
        data = text.encode()
        for old, new in self._restored:
            data = data.replace(old, new)
        return data.decode()

    @cached_property
    def _restored(self) -> list[tuple[bytes, bytes]]:
        """Replacements within cells, in order. An escape before any other character is dropped."""
        found = [(self.escape.encode(), b"")] if self.escape else []
        found += [(becomes, sign) for sign, _, becomes in reversed(self._signs)]
        found += [(stand_in.sign, stand_in.cell) for stand_in in (*self._escaped, *self._others, *self._repaired)]
        return [*found, (_LEAD + b"l", _LEAD)]

    def stream(self, stream: ByteStream, width: int = 0) -> ByteStream:
        """A stream of the file, rewritten; `width` is how many fields its records have, 0 where that is not known."""
        made = Rewritten(stream, self)
        return repairing.Repaired(made, self.dialect, self.repaired_quote, width) if self.repairs else made


class Rewritten:
    """A stream of a file's bytes, from the beginning of a record on, rewritten."""

    def __init__(self, stream: ByteStream, rewriting: Rewriting) -> None:
        self._stream = stream
        self._rewriting = rewriting
        self._rest = b""
        self._ready = b""
        self._last = b"\n"
        self._at_end = False

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        while not self._ready and not self._at_end:
            chunk = self._stream.read(max(size, 1))
            self._at_end = not chunk
            data = self._rest + chunk
            end = len(data) if self._at_end else len(data.rstrip(self._rewriting.special))
            self._ready, self._rest = self._rewriting.rewritten(data[:end]), data[end:]
            if self._at_end:
                self._ready = self._without_last_line_end(self._ready)
        taken, self._ready = self._ready[:size], self._ready[size:]
        self._last = taken[-1:] or self._last
        return taken

    def _without_last_line_end(self, data: bytes) -> bytes:
        """The end of a file, without the line ends that editors put after the end of the last record."""
        kept = data
        while kept.endswith((_LEAD + b"N", _LEAD + b"R")):
            kept = kept[: -len(_LEAD) - 1]
        return kept if (kept[-1:] or self._last) == b"\n" else data


def is_plain(sign: str) -> bool:
    """Whether a sign is a single byte that Arrow takes for a delimiter or a quote."""
    return len(sign) == 1 and sign.isascii() and sign not in "\r\n\0"


@lru_cache(maxsize=64)
def of(options: CsvRead) -> Rewriting | None:
    """The rewriting for some options; None if files can be read as they are."""
    escape = options.escape_char if options.escape_char != options.quote_char else ""
    repairs = options.quotes is Quoting.REPAIR
    is_usual = is_plain(options.delimiter) and is_plain(options.quote_char) and not escape
    if is_usual and not options.record_separator and not repairs:
        return None
    return Rewriting(
        options.delimiter,
        options.quote_char,
        escape,
        options.record_separator,
        repairs,
        options.comment,
        options.trim,
    )

"""The encoding of a file's texts, by its bytes alone."""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Encodings whose bytes have an order of their own, so that most other files do not decode as them.
_DOUBLE = ("shift_jis", "gb18030", "euc_jp", "big5", "euc_kr")
#: Of two encodings that fit equally well, the first one here wins.
_SINGLE = ("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "koi8-r", "iso8859-2", "iso8859-5", "cp850", "cp866",
           "mac-roman")  # fmt: skip
#: The letters that texts of a script's languages have most, beyond ASCII.
_WESTERN = set("äöüßéèêàâçñóíáúôîûëïœæøåãõìòùÄÖÜÉÈÀÂÇÑÓÍÁÚØÅÆ")
_CENTRAL = set("ąćęłńóśźżĄĆĘŁŃÓŚŹŻáčďéěíňřšťúůýžÁČĎÉĚÍŇŘŠŤÚŮÝŽőűŐŰăâîșțöüäß")
_TURKISH = set("ğışİçöüâîĞŞÇÖÜ")
_SIGNS = set("€£§°«»„“”‘’–—…·©®™²³¼½¿¡ªº%‰µ\u00a0")
_QUOTES = set("«»„“”‘’")
_APOSTROPHES = set("‘’")
#: Signs that stand between letters, and signs that stand after a word or a number alone.
_BETWEEN = set("–—…·°\u00a0µ")
_ENDING = set("®™²³¼½")
#: Letters that are words of their own.
_WORDS = set("àáéèíóöåôûýÀ")
_SAMPLE_LETTERS = 20_000
#: Encodings that fit texts of ISO 8859-15 as well, whose euro sign is another sign there.
_LIKE_LATIN_9 = ("cp1252", "shift_jis")
_EURO = b"\xa4"
#: Control characters, and the byte of the euro sign beside letters.
_NO_LATIN_9 = re.compile(rb"[\x80-\x9f]|[A-Za-z\xa0-\xff]\xa4|\xa4[A-Za-z\xa0-\xff]")


@dataclass(frozen=True)
class Charset:
    """An encoding, and how sure it is.

    Args:
        name: its Python name.
        is_certain: whether the bytes can hardly be anything else.
        rival: another encoding that reads the bytes as other letters, and nearly as well.
    """

    name: str
    is_certain: bool = True
    rival: str | None = None


def guess(head: bytes, pieces: tuple[bytes, ...] = ()) -> Charset:
    """The encoding of a file.

    Args:
        head: its first bytes.
        pieces: others, which may begin and end within a character.
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Charset(name)
    order = _order_of_zeros(head[:4096])
    if order:
        return Charset(order)
    if all(_is_utf8(data, is_cut=number > 0 or bool(pieces)) for number, data in enumerate((head, *pieces))):
        return Charset("utf-8")
    return _of_letters(b"".join((head, *pieces)))


def decoded(data: bytes, charset: str) -> str:
    """Decode bytes without a byte order mark; bytes that are no text become U+FFFD."""
    return data.decode(charset, errors="replace").removeprefix("\ufeff")


def _order_of_zeros(data: bytes) -> str | None:
    """UTF-16 without a mark has a zero in every other byte, where most letters are of ASCII."""
    if len(data) < 4 or not data.count(0):
        return None
    even, odd = data[::2].count(0), data[1::2].count(0)
    half = len(data) // 2
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    return None


def _is_utf8(data: bytes, *, is_cut: bool) -> bool:
    if data.isascii():
        return True
    if is_cut:  # up to three bytes of a character at either end are missing
        while data and data[0] & 0xC0 == 0x80:
            data = data[1:]
        for back in range(1, min(4, len(data) + 1)):
            if data[-back] >= 0xC0:
                data = data[:-back]
                break
            if data[-back] < 0x80:
                break
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return is_cut and error.end >= len(data) - 4 and error.start >= len(data) - 4
    return True


def _of_letters(data: bytes) -> Charset:
    """The encoding in which the text looks most like a language."""
    beyond = _around_others(data)
    scores = []
    for place, name in enumerate((*_DOUBLE, *_SINGLE)):
        try:
            text = beyond.decode(name, errors="strict" if name in _DOUBLE else "replace")
        except UnicodeDecodeError:
            continue
        scores.append((_likeness(text, name), -place, name))
    scores.sort(reverse=True)
    best = scores[0] if scores and scores[0][0] >= 0.3 else None
    if (best is None or best[2] in _LIKE_LATIN_9) and _has_euros(beyond):
        return Charset("iso8859-15", is_certain=best is not None)
    if best is None:
        return Charset("cp1252", is_certain=False)
    text = beyond.decode(best[2], errors="replace")
    rivals = [
        name
        for score, _, name in scores[1:]
        if score >= best[0] - 0.05 and beyond.decode(name, errors="replace") != text
    ]
    return Charset(best[2], is_certain=not rivals, rival=rivals[0] if rivals else None)


def _has_euros(data: bytes) -> bool:
    """Whether a text has euro signs of ISO 8859-15, and no byte that is a control character there.

    In cp1252 the byte is a currency sign that nobody writes. A letter would have other letters beside it.
    """
    return _EURO in data and not _NO_LATIN_9.search(data)


def _around_others(data: bytes) -> bytes:
    """The lines that have bytes beyond ASCII, as far as they are needed."""
    found, size = [], 0
    for line in data.replace(b"\r", b"\n").split(b"\n"):
        if not line.isascii():
            found.append(line)
            size += sum(byte > 127 for byte in line)
            if size > _SAMPLE_LETTERS:
                break
    return b"\n".join(found)


def _likeness(text: str, name: str) -> float:
    """A score for the characters beyond ASCII: how much they look like text, from -1 to 1."""
    points, count = 0.0, 0
    padded = f" {text} "
    for before, letter, after in zip(padded, text, padded[2:], strict=False):
        if not letter.isascii():
            count += 1
            points += _point(letter, before, after, name)
    if name not in _DOUBLE:
        points -= max(text.count("„") - text.count("“") - text.count("”"), 0)  # quotes that nothing closes
    return points / count if count else 0.0


def _point(letter: str, before: str, after: str, name: str) -> float:
    category = unicodedata.category(letter)
    if letter == "\ufffd" or category in ("Cc", "Cn", "Co", "Cf"):
        return -1.0
    if name in _DOUBLE:
        is_kana = "\u3040" <= letter <= "\u30ff"
        if is_kana and name not in ("shift_jis", "euc_jp"):
            return 0.3
        is_common = is_kana or "\u4e00" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7a3"
        return 0.9 if is_common or "\u3000" <= letter <= "\u303f" or "\uff00" <= letter <= "\uffef" else -0.5
    if letter in _SIGNS:
        return _of_sign(letter, before, after)
    if not category.startswith("L"):
        return -0.7
    if after.isdigit() or (before.isdigit() and not after.isalpha()):
        return -0.5  # as a blank or a sign beside a number looks in a wrong encoding
    if category == "Lu" and before.isalpha() and before.islower():
        return -0.8
    is_lone = not before.isalpha() and not after.isalpha()
    if "\u0400" <= letter <= "\u04ff" or "\u0370" <= letter <= "\u03ff":
        # Words of these scripts have no letters of ASCII among them.
        return -0.5 if before.isascii() and before.isalpha() else 0.5 if is_lone else 0.95
    if is_lone and letter not in _WORDS and after != ".":
        return -0.5
    usual = _TURKISH if name == "cp1254" else _CENTRAL if name in ("cp1250", "iso8859-2") else _WESTERN
    return 1.0 if letter in usual else 0.1


def _of_sign(letter: str, before: str, after: str) -> float:
    """A score for a sign in its context."""
    follows, precedes = before.isalpha(), after.isalpha()
    if letter in _APOSTROPHES and follows and precedes:
        return 1.0
    if letter in _QUOTES:
        return -0.8 if follows and precedes else 1.0
    if letter in "€£":
        return -0.8 if follows and precedes else 0.5 if follows or precedes else 1.0
    if letter in "¿¡":
        return 1.0 if precedes and not follows else 0.5
    if letter in "ªº":
        return -0.8 if precedes else 1.0 if follows or before.isdigit() else 0.5
    if letter == "\u00a0":
        return 1.0 if before.isdigit() or after.isdigit() else 0.5
    if precedes and (follows or letter in _ENDING):
        return 0.5 if letter in _BETWEEN else -0.8
    return 0.5

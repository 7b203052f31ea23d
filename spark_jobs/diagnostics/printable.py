"""Texts that others wrote, made fit to be shown: on terminals, in logs, in messages."""

from __future__ import annotations

import unicodedata

#: Control characters, characters that only steer how text is shown, line and paragraph separators, halves of pairs.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, *, keep: str = "") -> str:
    """The text on one line and without control characters: they are escaped, but for those to `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _UNSEEN else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")

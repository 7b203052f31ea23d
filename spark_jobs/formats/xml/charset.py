"""The encoding of an XML document: by a byte order mark, by its declaration, else UTF-8."""

from __future__ import annotations

import codecs
import re

from spark_jobs.formats import options

#: The bytes of a file that determine its encoding.
HEAD_BYTES = 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: How the first character, which is `<`, looks without a mark.
_FIRST = ((b"<\0\0\0", "utf-32-le"), (b"\0\0\0<", "utf-32-be"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_DECLARED = re.compile(r"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
#: Names that documents have for encodings of more than one byte, which Python does not know.
_WIDE = {
    "iso-10646-ucs-2": "utf-16",
    "ucs-2": "utf-16",
    "unicode": "utf-16",
    "iso-10646-ucs-4": "utf-32",
    "ucs-4": "utf-32",
}
_ALIGNED = ("utf-16", "utf-32")


def encoding_of(head: bytes) -> str:
    """The encoding of a document that begins with some bytes.

    Raises:
        ValueError: the document declares one that is not known, or that it does not have.
    """
    for start, name in _MARKS:
        if head.startswith(start):
            is_little = start.startswith(codecs.BOM_UTF16_LE)
            exact = name if name == "utf-8" else f"{name}-{'le' if is_little else 'be'}"
            _check(head[len(start) :], exact, "its byte order mark")
            return name
    for start, name in _FIRST:
        if head.startswith(start):
            _check(head, name, "its first character")
            return name
    declared = _DECLARED.match(head.decode("latin-1"))
    if declared is None:
        return "utf-8"
    name = declared[1]
    if _plain(name).startswith(_ALIGNED):
        raise ValueError(_contradiction(name, "an encoding of single bytes", "its first character"))
    if options.encoding_problem(name) is not None:
        message = f"the file declares the encoding '{name}', which is unknown; `options.encoding` can name another"
        raise ValueError(message)
    return name


def _check(head: bytes, name: str, what: str) -> None:
    """Check that a document does not declare another encoding than it surely has."""
    declared = _DECLARED.match(head.decode(name, "replace"))
    if declared is not None and not name.startswith(_plain(declared[1])):
        raise ValueError(_contradiction(declared[1], name.upper(), what))


def _plain(name: str) -> str:
    """The canonical name of an encoding."""
    known = _WIDE.get(name.lower(), name)
    try:
        return codecs.lookup(known).name.removesuffix("-sig")
    except LookupError:
        return known


def _contradiction(declared: str, found: str, what: str) -> str:
    return (
        f"the file declares the encoding '{declared}', but {what} shows {found}; correct one of them, or name the "
        "encoding with `options.encoding`"
    )


def is_blank(data: bytes, encoding: str | None) -> bool:
    """Whether a whole file has nothing but a mark and white space."""
    marked = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), None)
    rest, name = (data, encoding or "utf-8") if marked is None else (data[len(marked[0]) :], marked[1])
    if marked is not None and name != "utf-8":
        name += "-le" if marked[0][0] == 0xFF else "-be"
    try:
        return not rest.decode(name).strip("\ufeff \t\r\n")
    except UnicodeDecodeError:
        return False

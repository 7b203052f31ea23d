"""The encoding of an XML document: by a byte order mark, by its declaration, else UTF-8."""

from __future__ import annotations

import codecs
import re

from spark_jobs.formats import options

#: How much of a file tells.
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
_DECLARED = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")


def encoding_of(head: bytes) -> str:
    """The encoding of a document that begins with some bytes.

    Raises:
        ValueError: the document declares one that is not known.
    """
    for start, name in (*_MARKS, *_FIRST):
        if head.startswith(start):
            return name
    declared = _DECLARED.match(head)
    if declared is None:
        return "utf-8"
    name = declared[1].decode()
    if options.encoding_problem(name) is not None:
        message = f"the file declares the encoding '{name}', which is unknown; `options.encoding` can name another"
        raise ValueError(message)
    return name


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

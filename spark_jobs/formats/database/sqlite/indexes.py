"""Unique indexes of SQLite on expressions and on some rows: their statements taken apart, and their values.

An empty copy of the table, in memory, computes the values of one record after the other, with the types and collations
that its columns have.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.database.tables import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from spark_jobs.formats.database.targets import Constraint, Target

#: A token of a statement: a text, a name in one of its forms, a comment, a word, or a character.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|$)|\w+|\s+|.""", re.DOTALL
)
_DIRECTION = re.compile(r"\s+(?:ASC|DESC)\s*$", re.IGNORECASE)
#: How the values of keys are compared, where that is not byte by byte.
_FOLDED: dict[str, Callable[[str], str]] = {
    "NOCASE": lambda text: "".join(each.lower() if each.isascii() else each for each in text),
    "RTRIM": lambda text: text.rstrip(" "),
}
#: The collations that SQLite itself has.
COLLATIONS = frozenset(["BINARY", *_FOLDED])


def parts(statement: str) -> tuple[list[str], str]:
    """Give the keys of a `CREATE INDEX` statement as SQL has them, and the condition for its rows; empty without one.

    >>> parts("CREATE UNIQUE INDEX u ON t (lower(a) COLLATE NOCASE DESC, b) WHERE b > ')'")
    (['lower(a) COLLATE NOCASE', 'b'], "b > ')'")
    """
    keys, depth, held = list[str](), 0, list[str]()
    tokens = [each for each in _TOKEN.findall(statement) if not each.startswith(("--", "/*"))]
    for at, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if (token == "," and depth == 1) or (token == ")" and not depth):
            keys.append(_DIRECTION.sub("", "".join(held)).strip())
            held = []
        elif depth > 1 or (depth == 1 and (token != "(" or held)):
            held.append(token)
        if token == ")" and not depth:
            rest = "".join(tokens[at + 1 :]).strip()
            return keys, rest[len("WHERE") :].strip()
    return keys, ""


def named_in(texts: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """The columns that some expressions name, or may name."""
    words = {_bare(token).lower() for text in texts for token in _TOKEN.findall(text)}
    return tuple(name for name in names if name.lower() in words)


def _bare(token: str) -> str:
    if token[:1] in ('"', "`", "'"):  # a text may stand for a column, too
        return token[1:-1].replace(token[0] * 2, token[0])
    return token[1:-1] if token[:1] == "[" else token


class Values:
    """Computes the values that a unique index has of records.

    Args:
        target: the table.
        index: a unique index with `keys`; its `text` is the definition of the table.
    """

    def __init__(self, target: Target, index: Constraint) -> None:
        self._index = index
        self._opened = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._opened.close)
        self._opened.execute(index.text)
        # Columns that the index does not name get what any type takes, so that the record is there.
        self._opened.execute("PRAGMA ignore_check_constraints = ON")
        more = [
            each
            for each in target.columns
            if each.name not in index.columns and each.needs_value and not each.has_default and each.is_written
        ]
        self._filler: list[Any] = [b"" if "BLOB" in each.type.upper() else 0 for each in more]
        relation = quoted(target.name)
        names = ", ".join(map(quoted, [*index.columns, *(each.name for each in more)]))
        marks = ", ".join("?" * (len(index.columns) + len(more)))
        about = f" WHERE {index.condition}" if index.condition else ""
        self._add = f"INSERT OR ABORT INTO {relation} ({names}) VALUES ({marks})"
        self._look = f"SELECT {', '.join(index.keys)} FROM {relation}{about}"
        self._empty = f"DELETE FROM {relation}"

    def of(self, values: dict[str, list[Any]]) -> Iterator[tuple[Any, ...] | None]:
        """Give the keys of each record; None for a record that the index is not about, or has with any other."""
        for row in zip(*(values[name] for name in self._index.columns), strict=True):
            try:
                self._opened.execute(self._add, [*row, *self._filler])
                found = self._opened.execute(self._look).fetchone()
            except sqlite3.Error:  # the database says the same of the record itself, or has a function that is not here
                found = None
            self._opened.execute(self._empty)
            yield None if found is None or None in found else found

    def text(self, keys: tuple[Any, ...] | None) -> str | None:
        """A text that is the same only for keys that the index has as one."""
        if keys is None:
            return None
        folded = zip(keys, self._index.collations, strict=True)
        texts = [_text(key, collation.upper()) for key, collation in folded]
        return "".join(f"{len(each)}:{each}" for each in texts)


def _text(key: Any, collation: str) -> str:
    match key:
        case str():
            return "'" + (_FOLDED[collation](key) if collation in _FOLDED else key)
        case bytes():
            return "x" + key.hex()
        case float() if not key.is_integer():
            return repr(key)
        case _:
            return str(int(key))

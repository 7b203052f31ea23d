"""Did you mean: the name in scope that is closest to one that is not."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: Names longer than this are not compared: no typo, and hostile input must not cost time.
_LONGEST = 100


def distance(left: str, right: str) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbours between two words."""
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        current = [row]
        for column, b in enumerate(right, 1):
            cost = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and left[row - 2] == b:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, previous = previous, current
    return previous[-1]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a typist may have meant, or None when all are too far; case does not count.

    Near is a third of the word's length, at least one change and at most three; otherwise a candidate that starts
    with the name.
    """
    if not name or len(name) > _LONGEST:
        return None
    word = name.casefold()
    allowed = min(3, max(1, len(word) // 3))
    pool = [candidate for candidate in dict.fromkeys(candidates) if len(candidate) <= _LONGEST]
    ranked = sorted(
        (
            (distance(word, candidate.casefold()), candidate)
            for candidate in pool
            if abs(len(candidate) - len(word)) <= allowed
        ),
        key=lambda pair: (pair[0], -SequenceMatcher(None, word, pair[1].casefold()).ratio()),
    )
    if ranked and ranked[0][0] <= allowed:
        return ranked[0][1]
    return next((candidate for candidate in pool if len(word) > 2 and candidate.casefold().startswith(word)), None)


def hint(name: str, candidates: Iterable[str], quote: str = "`") -> str | None:
    """The sentence that proposes the nearest candidate, or None."""
    found = nearest(name, candidates)
    return f"did you mean {quote}{found}{quote}?" if found else None


def unqualified(name: str, columns: Collection[str]) -> str | None:
    """The sentence for a column that is written with the name of a table or node before it, as in SQL; or None.

    >>> unqualified("orders.price", ["id", "price"])
    'no name stands before a column here: write `price`'
    """
    column = name.partition(".")[2]
    return f"no name stands before a column here: write `{column}`" if column in columns else None


def column_hint(name: str, columns: Collection[str]) -> str | None:
    """A suggestion for a column that does not exist; None if there is none."""
    return unqualified(name, columns) or hint(name, columns)

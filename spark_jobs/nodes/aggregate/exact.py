"""Float sums that do not depend on how the rows were split (decision 69).

A sum of doubles is exact when all terms are multiples of a unit and the total stays below 2^53 units. So every term is
cut into pieces on a coarse and a fine grid; the sums of the pieces are exact in plain double arithmetic (what Arrow's
kernels do), and only what lies some seventy bits below the largest term is rounded. Totals are carried as a head and a
tail: the double nearest to the sum, and the rest.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

#: Columns that `cut` makes of one column of terms.
PIECES = 3


def cut(terms: pa.Array) -> list[pa.Array]:
    """The terms as three columns that add up to them; sums of the first two are exact. Nulls stay null.

    NaN and infinities go through the first column.
    """
    mask = terms.is_null().to_numpy(zero_copy_only=False) if terms.null_count else None
    values = terms.fill_null(0.0) if terms.null_count else terms
    x = values.to_numpy(zero_copy_only=False)
    finite = np.isfinite(x)
    special = None
    if not finite.all():
        special, x = x, np.where(finite, x, 0.0)
    largest = float(np.abs(x).max()) if len(x) else 0.0
    pieces = [x, np.zeros_like(x), np.zeros_like(x)]
    if 0.0 < largest < 2.0**900:
        bits = len(x).bit_length() + 1
        grid = math.ldexp(1.5, math.frexp(largest)[1] + bits)
        coarse = (x + grid) - grid
        rest = x - coarse
        grid = math.ldexp(1.5, math.frexp(largest)[1] + 2 * bits - 52)
        fine = (rest + grid) - grid
        pieces = [coarse, fine, rest - fine]
    if special is not None:
        pieces[0] = np.where(finite, pieces[0], special)
    return [pa.array(piece, mask=mask) for piece in pieces]


def head_and_tail(*pieces: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The sum of some columns, row by row: the nearest double and what is left. Nulls (no term at all) stay null."""
    mask = pieces[0].is_null().to_numpy(zero_copy_only=False)
    columns = [piece.fill_null(0.0).to_numpy(zero_copy_only=False) for piece in pieces]
    with np.errstate(invalid="ignore", over="ignore"):
        head, tail = columns[0], np.zeros_like(columns[0])
        for column in columns[1:]:
            total = head + column
            shifted = total - head
            error = (head - (total - shifted)) + (column - shifted)
            tail = tail + np.where(np.isfinite(total), error, 0.0)
            head = total
        total = head + tail
        tail = np.where(np.isfinite(total), tail - (total - head), 0.0)
    return pa.array(total, mask=mask), pa.array(tail, mask=mask)

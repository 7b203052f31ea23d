"""The turns of an interleaved merge: the order in which its inputs deliver records.

Round robin: each input that has records left delivers one in its turn; a task computes any range from the counts.
Drawn: a seeded generator draws the next input among the inputs that have records left. Each draw depends on all earlier
ones, so the driver draws once and stores the result, with checkpoints of how many records each input had delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The generator: WyRand, as in fastrand 2.3.
_STEP = 0x2D358DCCAA6C78A5
_BITS = 0xFFFF_FFFF_FFFF_FFFF
_MIXED = np.uint64(0x8BB84B93962EACC9)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
_LEAST_BLOCK, _MOST_BLOCK = 256, 1 << 18
#: The least number of turns between two checkpoints of the counts, overall and for each input.
_NOTED, _NOTED_PER_INPUT = 1 << 16, 1 << 10


@dataclass(frozen=True)
class Turns:
    """A range of the order.

    Args:
        before: the number of records that each input delivered before the range.
        inputs: the number of the input that delivers each record.
    """

    before: np.ndarray
    inputs: np.ndarray


def round_robin(counts: Sequence[int], start: int, end: int) -> Turns:
    """The turns `start` to `end` when inputs with these counts of records take turns."""
    sizes = np.asarray(counts, dtype=np.int64)
    done = _whole_rounds(sizes, start)
    before = np.minimum(sizes, done)
    active = np.flatnonzero(sizes > done)
    into = start - int(before.sum())  # turns of the round that `start` is in
    before[active[:into]] += 1
    found, missing = [active[into:]], end - start - (len(active) - into)
    done += 1
    while missing > 0:
        active = np.flatnonzero(sizes > done)
        rounds = min(int(sizes[active].min()) - done, -(-missing // len(active)))
        found.append(np.tile(active, rounds))
        missing -= rounds * len(active)
        done += rounds
    return Turns(before, np.concatenate(found)[: end - start])


def _whole_rounds(sizes: np.ndarray, start: int) -> int:
    """The number of complete rounds after `start` records."""
    low, high = 0, int(sizes.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if int(np.minimum(sizes, middle).sum()) <= start else (low, middle - 1)
    return low


def write_drawn(counts: Sequence[int], seed: int, file: IO[bytes]) -> None:
    """Draw all turns, and write them for `read_drawn`."""
    kind, interval = _layout(counts)
    given = np.zeros(len(counts), dtype=np.int64)
    notes = [given.copy()]
    since = 0
    for block in draw_turns(counts, seed):
        start = 0
        while start < len(block):
            piece = block[start : start + interval - since]
            file.write(piece.astype(kind).tobytes())
            given += np.bincount(piece, minlength=len(counts))
            start, since = start + len(piece), since + len(piece)
            if since == interval:
                notes.append(given.copy())
                since = 0
    for note in notes:
        file.write(note.tobytes())


def read_drawn(counts: Sequence[int], file: IO[bytes], start: int, end: int) -> Turns:
    """The turns `start` to `end` from the file of `write_drawn`."""
    kind, interval = _layout(counts)
    total, note = sum(counts), start // interval
    size = np.dtype(kind).itemsize
    file.seek(total * size + note * len(counts) * 8)
    before = np.frombuffer(file.read(len(counts) * 8), dtype=np.int64).copy()
    file.seek(note * interval * size)
    inputs: np.ndarray = np.frombuffer(file.read((end - note * interval) * size), dtype=kind)
    skipped = start - note * interval
    return Turns(before + np.bincount(inputs[:skipped], minlength=len(counts)), inputs[skipped:])


def _layout(counts: Sequence[int]) -> tuple[type, int]:
    """The type of a turn in the file, and the number of turns between two checkpoints."""
    kind = np.uint8 if len(counts) <= 1 << 8 else np.uint16 if len(counts) <= 1 << 16 else np.uint32
    return kind, max(_NOTED, _NOTED_PER_INPUT * len(counts))


def draw_turns(counts: Sequence[int], seed: int) -> Iterator[np.ndarray]:
    """All turns, block by block."""
    left = np.asarray(counts, dtype=np.int64).copy()
    state = seed
    ready = np.flatnonzero(left)
    while len(ready) > 1:
        values = _draws(state, _block(left[ready]))
        chosen, drawn_at = _below(values, len(ready))
        if end := _first_exhausted(chosen, left[ready]):
            chosen = chosen[:end]
        used = int(drawn_at[end - 1]) + 1 if end else len(values)
        state += _STEP * used
        block = ready[chosen]
        left -= np.bincount(block, minlength=len(left))
        ready = np.flatnonzero(left)
        yield block
    if len(ready):  # the remaining draws have only one candidate
        rest = int(left[ready[0]])
        for start in range(0, rest, _MOST_BLOCK):
            yield np.full(min(_MOST_BLOCK, rest - start), ready[0])


def _block(left: np.ndarray) -> int:
    """The number of turns to draw at once: about as many as come before some input is exhausted."""
    least = int(left.min())
    wanted = len(left) * least // int((left == least).sum())
    return min(max(wanted, _LEAST_BLOCK), _MOST_BLOCK)


def _first_exhausted(chosen: np.ndarray, left: np.ndarray) -> int:
    """The number of turns until some input is exhausted; 0 if none is."""
    if not (np.bincount(chosen, minlength=len(left)) >= left).any():
        return 0
    order = np.argsort(chosen, kind="stable")
    grouped = chosen[order]
    nth = np.arange(len(grouped)) - np.searchsorted(grouped, grouped)
    return int(order[nth == left[grouped] - 1].min()) + 1


def _draws(state: int, count: int) -> np.ndarray:
    """The next numbers of the generator."""
    states = np.uint64(state & _BITS) + np.uint64(_STEP) * np.arange(1, count + 1, dtype=np.uint64)
    other = states ^ _MIXED
    numbers: np.ndarray = (states * other) ^ _high(states, other)
    return numbers


def _below(values: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers below a bound, and the draw of each. Draws that would bias the result are drawn again."""
    wide = np.uint64(bound)
    refused = values * wide < np.uint64(((1 << 64) - bound) % bound)
    kept = np.flatnonzero(~refused)
    return _high(values[kept], np.broadcast_to(wide, kept.shape)).astype(np.int64), kept


def _high(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The high half of the product of 64-bit numbers."""
    left_high, left_low = left >> _HALF, left & _LOW
    right_high, right_low = right >> _HALF, right & _LOW
    middle = left_high * right_low + (left_low * right_low >> _HALF)
    other = left_low * right_high + (middle & _LOW)
    high: np.ndarray = left_high * right_high + (middle >> _HALF) + (other >> _HALF)
    return high

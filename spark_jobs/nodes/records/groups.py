"""Correlation groups as numbers: 64 bits that are the same for all records of a group, whatever task looks at them.

A group is known by its source, the fields of the key that count, and their values as texts, so that 1 and 1.0 are one
key. A record whose values are all null or empty stands alone: it has the number 0, which no group has.

The row of an aggregate has a number of its own, in the column `$group`. It is odd where the aggregate's groups mix
correlation groups, so a row can be told from a record, and such a row from one that is of a single correlation group.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import partition
from spark_jobs.nodes.records.columns import GROUP, JOINED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.nodes.records.batches import Batch

#: The number of no group.
NONE = np.uint64(0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
#: Up to so many numbers are told apart from most others by their last bits, of which so many kinds are for each.
_FEW, _SPARSE = 1 << 16, 32


def numbers(source: str, fields: Sequence[str], keys: Mapping[str, pa.Array]) -> np.ndarray:
    """The group of each record of a source."""
    columns = [keys[field] for field in fields]
    found = partition.hashes(columns) + _salt(source, *fields)
    found[found == NONE] = np.uint64(1)
    is_empty = np.ones(len(found), dtype=bool)
    for column in columns:
        is_empty &= pc.equal(column, "").to_numpy(zero_copy_only=False)
    found[is_empty] = NONE
    return found


def buckets(columns: Sequence[pa.Array], count: int) -> np.ndarray:
    """One of `count` buckets for each key, a power of two, and -1 where nothing is in it.

    It looks at the last eight bytes of each text alone: that costs next to nothing, and equal keys are in one bucket.
    """
    mixed, is_empty = np.zeros(len(columns[0]), dtype=np.uint64), np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        tails, lengths = _tails(column)
        mixed = (mixed ^ tails) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
        is_empty &= lengths == 0
    found: np.ndarray = ((mixed * _MULTIPLIER) >> np.uint64(65 - count.bit_length())).astype(np.int64)
    found[is_empty] = -1
    return found


def _tails(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The last eight bytes of each text as a number, and the lengths of the texts."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    ends, lengths = offsets[1:].astype(np.int64), np.diff(offsets)
    used = int(offsets[-1]) if len(offsets) else 0
    if not used:
        return np.zeros(len(column), dtype=np.uint64), lengths
    data = np.frombuffer(column.buffers()[2], dtype=np.uint8)
    if len(data) < 8:
        data = np.concatenate([data, np.zeros(8, dtype=np.uint8)])
    words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    starts = np.maximum(ends - 8, 0)
    ahead = ((8 - (ends - starts)) * 8).astype(np.uint64)
    cut = ((8 - np.minimum(lengths, 8)) * 8).astype(np.uint64)
    found = (words[starts] << ahead) >> np.minimum(cut, np.uint64(63))
    found[lengths == 0] = 0
    return found, lengths


def or_own(known: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The groups of rows of aggregates: a row whose key is empty is a group of its own, by its number."""
    found: np.ndarray = np.where(known == NONE, rows.view(np.uint64), known)
    return found


def of_aggregate(name: str, keys: Sequence[pa.Array], count: int, *, mixes: bool) -> pa.Array:
    """The numbers of an aggregate's groups by their comparable keys."""
    found = partition.hashes(keys) if keys else np.zeros(count, dtype=np.uint64)
    found = (found + _salt(name)) & ~np.uint64(1)
    found[found == NONE] = np.uint64(2)
    return pa.array((found | np.uint64(mixes)).view(np.int64))


def aggregated(batch: Batch) -> np.ndarray:
    """The number of the aggregate's group that each row is; 0 for records."""
    if GROUP.name not in batch.data.schema.names:
        return np.zeros(batch.count, dtype=np.int64)
    found: np.ndarray = pc.fill_null(batch.data.column(GROUP.name), 0).to_numpy(zero_copy_only=False)
    return found


def joined(batch: Batch) -> np.ndarray:
    """Which rows a combine made."""
    if JOINED.name not in batch.data.schema.names:
        return np.zeros(batch.count, dtype=bool)
    found: np.ndarray = pc.fill_null(batch.data.column(JOINED.name), fill_value=False).to_numpy(zero_copy_only=False)
    return found


def among(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Where each number stands among some that are sorted; -1 where it does not."""
    found = np.full(len(wanted), -1, dtype=np.int64)
    if not len(known) or not len(wanted):
        return found
    likely: np.ndarray | slice = slice(None)
    if len(known) <= min(_FEW, len(wanted)):
        # Most are not there, and their last bits say so in a part of the time of a search.
        ends = 1 << (_SPARSE * len(known)).bit_length()
        is_end = np.zeros(ends, dtype=bool)
        is_end[known & known.dtype.type(ends - 1)] = True
        likely = np.flatnonzero(is_end[wanted & wanted.dtype.type(ends - 1)])
    looked_up = wanted[likely]
    at = np.searchsorted(known, looked_up).clip(max=len(known) - 1)
    found[likely] = np.where(known[at] == looked_up, at, -1)
    return found


def _salt(*names: str) -> np.uint64:
    """A number for some names."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))

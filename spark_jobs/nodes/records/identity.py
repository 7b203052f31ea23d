"""Records, rows of aggregates and correlation groups as numbers of 64 bits, the same in every task.

A record is identified by its split and its row there. A correlation group is identified by its source, the fields of
the key, and their values as texts, so that 1 and 1.0 are one key. A record whose key values are all null or empty
belongs to no group: its group has the number `NO_GROUP`.

A row of an aggregate has its number in the column `$group`, in which records have none. The number is odd if rows of
the aggregate mix correlation groups (`are_mixed`).
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

#: The bits of a record's number for its row. The other bits are for the number of the split.
ROW_BITS = 34
#: The number of buckets of keys, for facts that may be true of a whole bucket instead of a single group.
KEY_BUCKETS = 1 << 23
#: The number of buckets for the sizes of groups, each of several key buckets. The groups of a bucket are together at
#: least as large as any of them.
SIZE_BUCKETS = 1 << 18
#: Replaces the number of an aggregate's row for a record.
NO_ROW = 0
#: The number of "no group".
NO_GROUP = np.uint64(0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
#: Sets of up to `_FEW` numbers are searched by a filter of the last bits, with `_SPARSE` filter entries for each.
_FEW, _SPARSE = 1 << 16, 32


def record_numbers(split: pa.Array | pa.ChunkedArray, row: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The number of each record; negative for split -1, which stands for no split."""
    found: np.ndarray = (split.to_numpy().astype(np.int64) << ROW_BITS) + row.to_numpy()
    return found


def group_numbers(source: str, fields: Sequence[str], keys: Mapping[str, pa.Array]) -> np.ndarray:
    """The group of each record of a source."""
    columns = [keys[field] for field in fields]
    found = partition.hashes(columns) + _salt(source, *fields)
    found[found == NO_GROUP] = np.uint64(1)
    is_empty = np.ones(len(found), dtype=bool)
    for column in columns:
        is_empty &= pc.equal(column, "").to_numpy(zero_copy_only=False)
    found[is_empty] = NO_GROUP
    return found


def key_buckets(columns: Sequence[pa.Array], count: int) -> np.ndarray:
    """The bucket of each key, one of `count` (a power of two); -1 for empty keys.

    Only the last eight bytes of each text count. That costs next to nothing, and equal keys share a bucket.
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
    shifts = ((8 - (ends - starts)) * 8).astype(np.uint64)
    cut = ((8 - np.minimum(lengths, 8)) * 8).astype(np.uint64)
    found = (words[starts] << shifts) >> np.minimum(cut, np.uint64(63))
    found[lengths == 0] = 0
    return found, lengths


def own_group_if_empty(known: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The groups of rows of aggregates. A row whose key is empty forms a group of its own, with its number."""
    found: np.ndarray = np.where(known == NO_GROUP, rows.view(np.uint64), known)
    return found


def aggregate_rows(name: str, keys: Sequence[pa.Array], count: int, *, mixes: bool) -> pa.Array:
    """The numbers of an aggregate's rows by their comparable keys. `mixes`: the rows mix correlation groups."""
    found = partition.hashes(keys) if keys else np.zeros(count, dtype=np.uint64)
    found = (found + _salt(name)) & ~np.uint64(1)
    found[found == NO_GROUP] = np.uint64(2)
    return pa.array((found | np.uint64(mixes)).view(np.int64))


def are_mixed(rows: np.ndarray) -> np.ndarray:
    """A mask of the aggregate rows, by number, that mix correlation groups. Records never do."""
    found: np.ndarray = rows & 1 == 1
    return found


def aggregate_row_numbers(batch: Batch) -> np.ndarray:
    """The number of each row that an aggregate made; `NO_ROW` for records."""
    if GROUP.name not in batch.data.schema.names:
        return np.full(batch.count, NO_ROW, dtype=np.int64)
    found: np.ndarray = pc.fill_null(batch.data.column(GROUP.name), NO_ROW).to_numpy(zero_copy_only=False)
    return found


def joined_mask(batch: Batch) -> np.ndarray:
    """A mask of the rows that a combine made."""
    if JOINED.name not in batch.data.schema.names:
        return np.zeros(batch.count, dtype=bool)
    found: np.ndarray = pc.fill_null(batch.data.column(JOINED.name), fill_value=False).to_numpy(zero_copy_only=False)
    return found


def sorted_index(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The index of each number in a sorted array; -1 if it is not there."""
    found = np.full(len(wanted), -1, dtype=np.int64)
    if not len(known) or not len(wanted):
        return found
    likely: np.ndarray | slice = slice(None)
    if len(known) <= min(_FEW, len(wanted)):
        # Most numbers are absent. A filter of their last bits finds that in a fraction of the time of a search.
        ends = 1 << (_SPARSE * len(known)).bit_length()
        is_end = np.zeros(ends, dtype=bool)
        is_end[known & known.dtype.type(ends - 1)] = True
        likely = np.flatnonzero(is_end[wanted & wanted.dtype.type(ends - 1)])
    looked_up = wanted[likely]
    at = np.searchsorted(known, looked_up).clip(max=len(known) - 1)
    found[likely] = np.where(known[at] == looked_up, at, -1)
    return found


def _salt(*names: str) -> np.uint64:
    """A number derived from some names."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))

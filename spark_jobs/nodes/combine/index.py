"""The index of a build side: rows grouped by key, and sorted within groups by the values that ranges compare.

Compared values are replaced by their ranks among the build side's values, so that texts, dates and numbers are all
numbers here. Each group of equal keys is sorted by one range, the *leading* one, so the rows for which it holds are a
run of the group. For a range in the other direction the highest rank so far is stored, which excludes the front of the
run. For intervals with little overlap these two suffice. If runs stay long, blocks that cannot contain a match are
skipped, eight at a time, by their lowest and highest ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import packed_sort
from spark_jobs.nodes.records import batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.nodes.combine.step import Range


@dataclass
class Compared:
    """One side of some ranges.

    Args:
        values: for each range the values, in the order of the records.
        failing: the records for which some value fails; it is null.
    """

    values: list[pa.Array]
    failing: np.ndarray

    @classmethod
    def of(cls, results: Sequence[tuple[pa.Array, pa.Array | None]], count: int) -> Compared:
        """Combine results of programs for `count` records.

        Each covers the given rows, or all records if they are None.
        """
        values, failing = [], np.zeros(count, dtype=np.bool_)
        for found, rows in results:
            if rows is None:
                values.append(found)
                continue
            at = np.full(count, -1, dtype=np.int64)
            at[rows.to_numpy(zero_copy_only=False)] = np.arange(len(rows))
            values.append(found.take(pa.array(at, mask=at < 0)))
            failing |= at < 0
        return cls(values, failing)

    @classmethod
    def together(cls, parts: Sequence[Compared]) -> Compared:
        """Concatenate the values of several batches."""
        columns = zip(*(part.values for part in parts), strict=True)
        values = [pa.chunked_array(column).combine_chunks() for column in columns]
        return cls(values, np.concatenate([part.failing for part in parts]))

    def take(self, rows: pa.Array) -> Compared:
        """The values of some of the records."""
        return Compared([each.take(rows) for each in self.values], self.failing[rows.to_numpy()])


@dataclass
class Scale:
    """The distinct values of a column, in order; texts as Arrow strings, all other types as numbers."""

    values: np.ndarray | pa.Array

    @classmethod
    def of(cls, column: pa.Array) -> Scale:
        """The scale of a column's values, without nulls, and without NaN, for which no comparison holds."""
        if pa.types.is_string(column.type):
            unique = pc.unique(column.drop_null())
            return cls(unique.take(pc.sort_indices(unique)))
        numbers, is_value = _numbers(column)
        return cls(packed_sort.distinct(numbers[is_value]))

    @property
    def width(self) -> int:
        """A number greater than every rank on the scale."""
        return len(self.values) + 1

    def ranks(self, column: pa.Array) -> np.ndarray:
        """The rank of each value of the scale's column; -1 for values that are not on the scale."""
        found, is_value = self.places(column, "left")
        return np.where(is_value, found, -1)

    def places(self, column: pa.Array, side: Literal["left", "right"]) -> tuple[np.ndarray, np.ndarray]:
        """The place of each value on the scale (`side` as in `searchsorted`), and whether it can be compared at all."""
        if isinstance(self.values, pa.Array):
            return _text_places(self.values, column, side)
        numbers, is_value = _numbers(column)
        return packed_sort.search(self.values, numbers, side), is_value


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    is_value = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        is_value = is_value & ~np.isnan(numbers)
    return numbers, is_value


def _text_places(values: pa.Array, column: pa.Array, side: str) -> tuple[np.ndarray, np.ndarray]:
    """The places of texts. They are sorted together with the distinct texts of the scale."""
    is_value = column.is_valid().to_numpy(zero_copy_only=False)
    texts = pc.unique(column.drop_null())
    order = pc.sort_indices(pa.concat_arrays([values, texts])).to_numpy()  # stable: equal values keep their order
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(order < len(values))
    found = places[len(values) :]
    if side == "left":
        found = found - pc.is_in(texts, value_set=values).to_numpy(zero_copy_only=False)
    if not len(texts):
        return np.zeros(len(column), dtype=np.int64), is_value
    which = pc.index_in(column, value_set=texts).fill_null(0).to_numpy(zero_copy_only=False)
    return found[which], is_value


@dataclass
class Uniques:
    """The distinct values of a column without null, numbered by their positions."""

    values: pa.Array | np.ndarray

    @classmethod
    def of(cls, column: pa.Array) -> tuple[Uniques, np.ndarray]:
        """The distinct values of a column, and the number of each value; -1 for null."""
        numbers = _whole_numbers(column)
        if numbers is None:
            encoded = column.dictionary_encode()
            return cls(encoded.dictionary), _filled(encoded.indices)
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)) if column.null_count else None
        known = numbers if rows is None else numbers[rows]
        order = packed_sort.order(known)
        ascending = known[order]
        is_new = np.ones(len(ascending), dtype=np.bool_)
        is_new[1:] = ascending[1:] != ascending[:-1]
        codes = np.empty(len(order), dtype=np.int64)
        codes[order] = np.cumsum(is_new) - 1
        if rows is None:
            return cls(ascending[is_new]), codes
        found = np.full(len(column), -1, dtype=np.int64)
        found[rows] = codes
        return cls(ascending[is_new]), found

    def find(self, column: pa.Array) -> np.ndarray:
        """The number of each value of another column of the same type; -1 for null and for values that are not here."""
        if not len(self.values):
            return np.full(len(column), -1, dtype=np.int64)
        if isinstance(self.values, pa.Array):
            return _filled(pc.index_in(column, value_set=self.values, skip_nulls=True))
        numbers = _whole_numbers(column)
        assert numbers is not None
        found = packed_sort.search(self.values, numbers).clip(max=len(self.values) - 1)
        is_here = self.values[found] == numbers
        if column.null_count:
            is_here &= column.is_valid().to_numpy(zero_copy_only=False)
        return np.where(is_here, found, -1)

    def __len__(self) -> int:
        return len(self.values)


def _whole_numbers(column: pa.Array) -> np.ndarray | None:
    """Values that Arrow stores as whole numbers, with an arbitrary number for null; None for other types."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif kind != pa.int64():
        return None
    found: np.ndarray = column.fill_null(0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False)


def _filled(numbers: pa.Array) -> np.ndarray:
    found: np.ndarray = numbers.fill_null(-1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


#: The number of blocks, or of rows, in a block of the next level.
_FAN_OUT = 8
#: Runs that are longer on average are not scanned row by row.
_LONG = 64


@dataclass
class Located:
    """The positions of the candidates of some probe rows in the index.

    Args:
        starts: the first position of each row's run.
        counts: the length of each run, as found by keys and the leading ranges.
        bounds: for each range the rank with which the ranks of candidates are compared.
        others: further candidates that are found by their keys alone.
    """

    starts: np.ndarray
    counts: np.ndarray
    bounds: list[np.ndarray] = field(default_factory=list)
    others: list[tuple[_Group, np.ndarray, np.ndarray]] = field(default_factory=list)

    def slice(self, start: int, end: int) -> Located:
        """The values of a range of the rows."""
        return Located(
            self.starts[start:end],
            self.counts[start:end],
            [each[start:end] for each in self.bounds],
            [(group, starts[start:end], counts[start:end]) for group, starts, counts in self.others],
        )

    def most(self) -> np.ndarray:
        """An upper bound of the number of candidates of each row, at least 1."""
        total: np.ndarray = np.sum([self.counts, *(counts for _, _, counts in self.others)], axis=0)
        return total.clip(min=1)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass
class _Group:
    """Build rows by their keys, in build order: either the rows for which a side of a range fails, or all rows."""

    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, codes: np.ndarray, rows: np.ndarray) -> _Group:
        """Group some rows by the codes of their keys."""
        rows = rows[codes[rows] >= 0]
        order = rows[packed_sort.order(codes[rows])]
        sorted_codes = codes[order]
        size = int(sorted_codes[-1]) + 1 if len(order) else 0
        return cls(order, np.searchsorted(sorted_codes, np.arange(size + 1)))

    def find(self, codes: np.ndarray, wanted: np.ndarray) -> tuple[_Group, np.ndarray, np.ndarray]:
        """For each probe row the positions of the rows with an equal key; none for rows that are not `wanted`."""
        is_known = wanted & (codes >= 0) & (codes < len(self.starts) - 1)
        safe = np.where(is_known, codes, 0)
        if len(self.starts) < 2:
            return self, safe, np.zeros(len(codes), dtype=np.int64)
        return self, self.starts[safe], np.where(is_known, self.starts[safe + 1] - self.starts[safe], 0)


@dataclass
class _Ranked:
    """A range: the ranks of the build rows by their position, and by blocks."""

    step: Range
    scale: Scale
    ranks: np.ndarray
    blocks: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, step: Range, scale: Scale, ranks: np.ndarray) -> _Ranked:
        made = cls(step, scale, ranks)
        reduce_, level = (np.maximum if step.is_upper else np.minimum), ranks
        while len(level) > 1:
            level = reduce_.reduceat(level, np.arange(0, len(level), _FAN_OUT))
            made.blocks.append(level)
        return made

    def holds(self, ranks: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        found: np.ndarray = ranks >= bounds if self.step.is_upper else ranks < bounds
        return found


@dataclass
class BuildTable:
    """The build records, and an index from keys and ranges to rows; pairs come in build order."""

    records: pa.RecordBatch
    order: np.ndarray
    uniques: list[Uniques] = field(default_factory=list)
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    pairs: list[np.ndarray] = field(default_factory=list)
    ranges: list[_Ranked] = field(default_factory=list)
    #: The index of the leading range, and of the range that cuts off the front of runs.
    leading: int | None = None
    opposite: int | None = None
    #: The codes of the keys, by row, and the rows for which a side of a range fails; None if none can fail.
    codes: np.ndarray | None = None
    failing: _Group | None = None
    #: By position: the number of the group combined with the rank in the leading range, and with the highest rank so
    #: far.
    _led: packed_sort.Ascending | None = None
    _highest: packed_sort.Ascending | None = None

    @classmethod
    def index(
        cls,
        table: pa.Table,
        keys: Sequence[str],
        ranges: Sequence[Range] = (),
        compared: Sequence[str] = (),
        failing: str = "",
    ) -> BuildTable:
        """Index a build side by its stored keys and the values of its ranges. Rows with a null in one are not found.

        Args:
            table: the records.
            keys: the columns of the keys.
            ranges: the ranges of the build side.
            compared: the column of the build side's value in each range.
            failing: the mask column of records for which a value fails; such records are found by their keys.
        """
        records = batches.gather(table)
        built = cls(records, np.arange(records.num_rows))
        codes = np.zeros(records.num_rows, dtype=np.int64)
        for number, name in enumerate(keys):
            unique, more = Uniques.of(records.column(name))
            built.uniques.append(unique)
            codes = built._joined(codes if number else None, more, len(unique), learn=True)
        scales = [Scale.of(records.column(name)) for name in compared]
        ranks = [scale.ranks(records.column(name)) for scale, name in zip(scales, compared, strict=True)]
        built._choose(ranges)
        usable = np.all([codes >= 0, *(each >= 0 for each in ranks)], axis=0)
        if any(each.may_fail for each in ranges):
            broken = records.column(failing).to_numpy(zero_copy_only=False)
            usable &= ~broken
            built.codes, built.failing = codes, _Group.of(codes, np.flatnonzero(broken))
        numbers = codes
        if built.leading is not None:
            numbers = codes * scales[built.leading].width + ranks[built.leading]
        order = packed_sort.order(numbers)
        built.order = order[usable[order]]
        codes = codes[built.order]
        size = int(codes[-1]) + 1 if len(codes) else 0
        built.starts = np.searchsorted(codes, np.arange(size + 1))
        built.ranges = [
            _Ranked.of(*each) for each in zip(ranges, scales, (ranks_[built.order] for ranks_ in ranks), strict=True)
        ]
        if size and built.leading is not None:
            built._lead(built.starts[codes])
        return built

    def _choose(self, ranges: Sequence[Range]) -> None:
        """Choose the leading range: one that bounds build rows from above, if there is one."""
        lowers = [number for number, each in enumerate(ranges) if not each.is_upper]
        uppers = [number for number, each in enumerate(ranges) if each.is_upper]
        if ranges:
            self.leading = (lowers or uppers)[0]
            self.opposite = uppers[0] if lowers and uppers else None

    def _lead(self, groups: np.ndarray) -> None:
        assert self.leading is not None
        leading = self.ranges[self.leading]
        self._led = packed_sort.Ascending(groups * leading.scale.width + leading.ranks)
        if self.opposite is not None:
            other = self.ranges[self.opposite]
            highest = np.maximum.accumulate(groups * other.scale.width + other.ranks)
            self._highest = packed_sort.Ascending(highest)

    def _joined(self, codes: np.ndarray | None, more: np.ndarray, size: int, *, learn: bool) -> np.ndarray:
        """Combine the codes of earlier keys with one more key; -1 if either is missing."""
        if codes is None:
            return more
        step = len(self.pairs) if learn else self._step
        pair = np.where((codes >= 0) & (more >= 0), codes * max(size, 1) + more, -1)
        if learn:
            self.pairs.append(packed_sort.distinct(pair[pair >= 0]))
        known = self.pairs[step]
        if not learn:
            self._step += 1
        if not len(known):
            return np.full(len(pair), -1)
        found = packed_sort.search(known, pair).clip(max=len(known) - 1)
        return np.where((pair >= 0) & (known[found] == pair), found, -1)

    def find(self, count: int, columns: Sequence[pa.Array], compared: Compared | None = None) -> Located:
        """Find the candidates of some probe rows.

        Args:
            count: the number of probe rows.
            columns: the probe side of the keys.
            compared: the probe side of the ranges.
        """
        compared = compared or Compared.of([], count)
        codes = np.zeros(count, dtype=np.int64)
        self._step = 0
        for number, (column, unique) in enumerate(zip(columns, self.uniques, strict=True)):
            codes = self._joined(codes if number else None, unique.find(column), len(unique), learn=False)
        others = self._others(codes, compared.failing)
        if len(self.starts) < 2:
            nothing = np.zeros(count, dtype=np.int64)
            return Located(nothing, nothing, [codes] * len(self.ranges), others)
        # Keys that only rows without values have are numbered after all groups.
        is_known = (codes >= 0) & (codes < len(self.starts) - 1)
        safe = np.where(is_known, codes, 0)
        starts, ends = self.starts[safe], self.starts[safe + 1]
        bounds = []
        for each, column in zip(self.ranges, compared.values, strict=True):
            # If build rows must be below, their ranks are lower than the rank of the first value that is not, and so
            # on.
            side: Literal["left", "right"] = "right" if each.step.is_strict == each.step.is_upper else "left"
            bound, is_value = each.scale.places(column, side)
            bounds.append(bound)
            is_known &= is_value
        if self.leading is not None:
            starts, ends = self._narrowed(starts, ends, bounds)
        is_known &= ~compared.failing
        return Located(starts, np.where(is_known, (ends - starts).clip(min=0), 0), bounds, others)

    def _others(self, codes: np.ndarray, failing: np.ndarray) -> list[tuple[_Group, np.ndarray, np.ndarray]]:
        """The candidates that ranges do not find: pairs of which one side fails."""
        if self.failing is None or self.codes is None:
            return []
        found = [self.failing.find(codes, ~failing)] if len(self.failing.order) else []
        if failing.any():
            found.append(_Group.of(self.codes, np.arange(len(self.codes))).find(codes, failing))
        return found

    def _narrowed(
        self, starts: np.ndarray, ends: np.ndarray, bounds: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The part of each group for which the leading range holds, without rows that the opposite range excludes."""
        assert self.leading is not None
        assert self._led is not None
        leading = self.ranges[self.leading]
        cut = self._led.places(starts * leading.scale.width + bounds[self.leading])
        if leading.step.is_upper:
            return cut, ends
        # A group whose rows all lack a value is empty, and begins where the next one does.
        cut = np.minimum(cut, ends)
        if self.opposite is not None:
            assert self._highest is not None
            width = self.ranges[self.opposite].scale.width
            return self._highest.places(starts * width + bounds[self.opposite]), cut
        return starts, cut

    def candidates(self, located: Located, most: int) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Runs of probe rows, each with its pairs: positions in the run, ascending, and rows in build order.

        A run has at most `most` pairs, unless it is a single row with more.
        """
        waiting = [(0, len(located))]
        while waiting:
            start, end = waiting.pop()
            if start == end:
                continue
            part = located.slice(start, end)
            total = int(part.most().sum())
            pairs = None
            if end - start == 1 or (total <= most and (not self.ranges or total <= _LONG * (end - start))):
                pairs = self._row_by_row(part)
            elif self.ranges and sum(int(counts.sum()) for _, _, counts in part.others) <= most // 2:
                pairs = self._block_by_block(part, most)
            if pairs is not None:
                yield start, end, *(self._with_others(part, *pairs) if part.others else pairs)
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]

    def _row_by_row(self, located: Located) -> tuple[np.ndarray, np.ndarray]:
        """All positions of the runs. Most keys have one record, or none."""
        counts = located.counts
        if counts.max(initial=0) < 2:
            chosen = np.flatnonzero(counts)
            return self._rows(located, chosen, located.starts[chosen])
        chosen = np.repeat(np.arange(len(located)), counts)
        offsets = np.arange(len(chosen)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._rows(located, chosen, np.repeat(located.starts, counts) + offsets)

    def _with_others(self, located: Located, chosen: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The candidates merged with those that were found by keys alone, in build order."""
        for group, starts, counts in located.others:
            more = np.repeat(np.arange(len(located)), counts)
            offsets = np.arange(len(more)) - np.repeat(np.cumsum(counts) - counts, counts)
            chosen = np.concatenate([chosen, more])
            rows = np.concatenate([rows, group.order[np.repeat(starts, counts) + offsets]])
        order = np.lexsort((rows, chosen))
        return chosen[order], rows[order]

    def _block_by_block(self, located: Located, most: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The positions in blocks in which all ranges may hold; None if that are too many to look at."""
        chosen = np.flatnonzero(located.counts)
        starts, ends = located.starts, located.starts + located.counts
        blocks = np.zeros(len(chosen), dtype=np.int64)
        for level in reversed(range(len(self.ranges[0].blocks))):
            if level < len(self.ranges[0].blocks) - 1:
                chosen = np.repeat(chosen, _FAN_OUT)
                blocks = (blocks[:, None] * _FAN_OUT + np.arange(_FAN_OUT)).ravel()
            size = _FAN_OUT ** (level + 1)
            kept = (blocks * size < ends[chosen]) & ((blocks + 1) * size > starts[chosen])
            chosen, blocks = chosen[kept], blocks[kept]
            for each, bounds in zip(self.ranges, located.bounds, strict=True):
                kept = each.holds(each.blocks[level][blocks], bounds[chosen])
                chosen, blocks = chosen[kept], blocks[kept]
            if len(chosen) * _FAN_OUT > most:
                return None
        if len(chosen) * _FAN_OUT > most:
            return None
        chosen = np.repeat(chosen, _FAN_OUT)
        positions = (blocks[:, None] * _FAN_OUT + np.arange(_FAN_OUT)).ravel()
        kept = (positions < ends[chosen]) & (positions >= starts[chosen])
        return self._rows(located, chosen[kept], positions[kept])

    def _rows(self, located: Located, chosen: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs for which all ranges hold, in build order."""
        for each, bounds in zip(self.ranges, located.bounds, strict=True):
            kept = each.holds(each.ranks[positions], bounds[chosen])
            if not kept.all():
                chosen, positions = chosen[kept], positions[kept]
        rows = self.order[positions]
        if self.ranges and len(rows) > 1:
            together = chosen * self.records.num_rows + rows
            if (np.diff(together) < 0).any():
                rows = rows[np.argsort(together, kind="stable")]
        return chosen, rows

"""Converts entries to the columns of a dead-letter file: names for numbers, details in words, the original record."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs import credentials
from spark_jobs.contract import MERGED
from spark_jobs.cxl.failure import Category
from spark_jobs.execute.dlq import buffer
from spark_jobs.nodes.records import guarded
from spark_jobs.nodes.records.identity import ROW_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.cxl.failure_columns import Rows
    from spark_jobs.execute.dlq.buffer import ReasonKey
    from spark_jobs.execute.dlq.reread import Rereader
    from spark_jobs.execute.inputs import Inputs


class Shown:
    """Some entries as people read them.

    Args:
        part: the entries.
        whys: what their column `reason` counts.
        inputs: the run's inputs.
        rows_before: the records of a split's file before it, by the split's number.
    """

    def __init__(
        self, part: pa.Table, whys: Sequence[ReasonKey], inputs: Inputs, rows_before: Mapping[int, int]
    ) -> None:
        self._part = part
        self._whys = whys
        self._inputs = inputs
        self._before = rows_before
        self._reason = single(part.column("reason"))

    def each(self, name: str) -> pa.Array:
        """The values that the reasons have under a name."""
        return pa.array([getattr(why, name) for why in self._whys], pa.string()).take(self._reason)

    @property
    def files(self) -> pa.Array:
        """The file of each record."""
        return self._files("")

    def _files(self, of: str) -> pa.Array:
        splits, sources = (self._part.column(of + name).to_numpy().astype(np.int64) for name in ("split", "source"))
        both = pa.array((splits << 32) + sources + 1)
        return _named(both, lambda key: self._inputs.file_name(key >> 32, (key & 0xFFFFFFFF) - 1))

    @property
    def sources(self) -> pa.Array:
        """The source of each record; `<merged>` for the row of an aggregate, which has no single source."""
        names = _named(single(self._part.column("source")), self._inputs.source_name)
        return pc.if_else(pc.equal(single(self._part.column("group")), 0), names, MERGED)

    @cached_property
    def row_texts(self) -> pa.Array:
        """The number of each record in its file; empty if there is no record."""
        return self._row_texts("")

    def _row_texts(self, of: str) -> pa.Array:
        splits = single(self._part.column(of + "split")).dictionary_encode()
        before = pa.array([self._before.get(split, 0) for split in splits.dictionary.to_pylist()], pa.int64())
        numbers = pc.add(pc.add(before.take(splits.indices), single(self._part.column(of + "row"))), 1)
        return pc.if_else(pc.greater(numbers, 0), numbers.cast(pa.string()), "")

    @property
    def _drivers(self) -> pa.Array:
        """A text that names the driver record with which a build record was refused; empty for other entries."""
        is_joined = pc.greater_equal(single(self._part.column("cause_split")), 0)
        if not pc.any(is_joined).as_py():
            return pa.repeat(pa.scalar(""), self._part.num_rows)
        place = pc.binary_join_element_wise(
            " (joined to ", self._files("cause_"), ", row ", self._row_texts("cause_"), ")", ""
        )
        return pc.if_else(is_joined, place, "")

    @property
    def _equals(self) -> pa.Array:
        """A text that names the record that each one must not equal but does; empty for other entries."""
        numbers = single(self._part.column("equal_to"))
        is_equal = pc.greater_equal(numbers, 0)
        if not pc.any(is_equal).as_py():
            return pa.repeat(pa.scalar(""), self._part.num_rows)
        known = pc.unique(numbers).to_pylist()
        places = {number: self._place(number) if number >= 0 else "" for number in known}
        return _named(numbers, places.__getitem__)

    def _place(self, number: int) -> str:
        return place_of(number, self._inputs.file_name, self._before)

    @property
    def values(self) -> pa.Array:
        """The offending values; null for records that were only rejected with their group."""
        is_good = pa.array([why.category in (Category.CORRELATED, Category.GROUP_SIZE) for why in self._whys])
        return pc.if_else(is_good.take(self._reason), None, single(self._part.column("value")))

    def details(self, *, with_places: bool) -> pa.Array:
        """`row N: field 'f': detail`.

        Without `with_places`, a validation has the rule's own words, and a rejected record names the failing row
        instead of its own. A build side's record names the driver record with which it failed, and a duplicate names
        the record that it equals.

        Details with places are shown outside of the file, so secret values are hidden in them.
        """
        plain = () if with_places else (Category.CORRELATED, Category.VALIDATION)
        is_plain = [why.category in plain for why in self._whys]
        fields = [f"field '{why.field}': " if why.field else "" for why in self._whys]
        has_row = pc.and_(pc.not_equal(self.row_texts, ""), pc.invert(pa.array(is_plain).take(self._reason)))
        place = pc.if_else(has_row, pc.binary_join_element_wise("row ", self.row_texts, ": ", ""), "")
        has_value = pa.array([why.after is not None for why in self._whys]).take(self._reason)
        value = pc.if_else(has_value, single(self._part.column("value")), "")
        detail = single(self._part.column("detail"))
        if with_places:
            detail, value = self._guarded(detail, value)
        return pc.binary_join_element_wise(
            place, pa.array(fields).take(self._reason), detail,
            self.each("before"), value, self.each("after"), self._drivers, self._equals, "", null_handling="replace",
        )  # fmt: skip

    def _guarded(self, details: pa.Array, said: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The texts about records, and the values in them, without secrets."""
        own = single(self._part.column("value")).to_pylist()
        found, values = details.to_pylist(), said.to_pylist()
        for row, reason in enumerate(self._reason.to_pylist()):
            why = self._whys[reason]
            if why.category == Category.CORRELATED:
                values[row] = values[row] and guarded.cause(values[row], is_open=not why.is_hidden)
            elif why.is_hidden:
                values[row] = values[row] and credentials.HIDDEN
                found[row] = found[row] and guarded.detail(found[row], own[row])
        return pa.array(found, pa.string()), pa.array(values, pa.string())


def place_of(number: int, file_of: Callable[[int, int], str], rows_before: Mapping[int, int]) -> str:
    """The record that another equals and should not, in words, by its number (see `nodes/records/identity.py`)."""
    split, row = number >> ROW_BITS, number & ((1 << ROW_BITS) - 1)
    return f" (the first is in {file_of(split, -1)}, row {rows_before.get(split, 0) + row + 1})"


def _named(keys: pa.Array, name_of: Callable[[int], str]) -> pa.Array:
    """Texts for numbers of which few are distinct."""
    encoded = keys.dictionary_encode()
    return pa.array([name_of(key) for key in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def records(part: pa.Table, columns: Sequence[str], again: Rereader) -> list[pa.Array]:
    """The source columns: each record's own columns by name."""
    # Rows of aggregates show the columns of all sources.
    source = buffer.sources_of(part)
    places: list[Rows] = []
    found: list[dict[str, pa.Array]] = []
    for number in pc.unique(pa.array(source)).to_pylist():
        mine = np.flatnonzero(source == number)
        entries = part if len(mine) == part.num_rows else part.take(pa.array(mine))
        names = again.inputs.all_columns if number == buffer.AGGREGATED else again.inputs.column_names(number)
        places.append(mine)
        found.append(dict(zip(names, _texts(entries, len(names), again), strict=True)))
    order = pa.array(np.argsort(np.concatenate(places)))
    whole = []
    for name in columns:
        texts = [
            known[name] if name in known else pa.nulls(len(mine), pa.string())
            for mine, known in zip(places, found, strict=True)
        ]
        whole.append(texts[0] if len(texts) == 1 else pa.concat_arrays(texts).take(order))
    return whole


def keys(part: pa.Table, wanted: Sequence[str], fields: Sequence[str]) -> list[pa.Array]:
    """Some fields of the correlation key, of all that entries have."""
    if not wanted:
        return []
    lists = single(part.column("key"))
    flat = lists.flatten()
    place = pa.array(np.arange(part.num_rows) * len(fields))
    return [flat.take(pc.add(place, fields.index(name))) for name in wanted]


def _texts(part: pa.Table, width: int, again: Rereader) -> list[pa.Array]:
    """The texts of one source's records, column by column; those that are not at hand are read again."""
    lists = single(part.column("record"))
    is_known = lists.is_valid().to_numpy(zero_copy_only=False)
    known = np.flatnonzero(is_known)
    flat = lists.filter(pa.array(is_known)).flatten()
    pieces: list[list[Any]] = [[flat.take(pa.array(np.arange(len(known)) * width + column))] for column in range(width)]
    if len(known) == part.num_rows:
        return [texts for (texts,) in pieces]
    place = np.full(part.num_rows, -1, dtype=np.int64)
    place[known] = np.arange(len(known))
    count = len(known)
    split, row = (part.column(name).to_numpy() for name in ("split", "row"))
    for number in np.unique(split[~is_known & (split >= 0)]).tolist():
        wanted = np.flatnonzero(~is_known & (split == number))
        rows, texts = again.texts(number, np.unique(row[wanted]))
        at = np.searchsorted(rows, row[wanted])
        is_there = np.isin(row[wanted], rows)
        place[wanted[is_there]] = count + at[is_there]
        count += len(rows)
        for column, piece in enumerate(pieces):
            piece.append(texts.column(column))
    indices = pa.array(place, mask=place < 0)
    return [pa.concat_arrays([single(text) for text in piece]).take(indices) for piece in pieces]


def single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

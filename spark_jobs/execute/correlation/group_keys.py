"""Finds the correlation groups of a batch's rows, and the key values that dead letters show, for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.formats import cell_text
from spark_jobs.nodes.correlation import KeyOrigin
from spark_jobs.nodes.records import identity
from spark_jobs.nodes.records.columns import CORRELATION
from spark_jobs.nodes.records.identity import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes.correlation import CorrelationPlan, GroupKey
    from spark_jobs.nodes.records.batches import Batch


class GroupKeys:
    """The keys of rows.

    Args:
        plan: the keys at each node.
        sources: the names of the sources by their numbers.
    """

    def __init__(self, plan: CorrelationPlan, sources: Sequence[str]) -> None:
        self._plan = plan
        self._sources = sources

    def by_fields(
        self, output: str, batch: Batch, *, joined: bool = False
    ) -> Iterable[tuple[Mapping[str, pa.Array], np.ndarray]]:
        """The keys of rows by some fields, each with the rows that belong to groups by these fields.

        With `joined` also groups to which a row was only joined. Such rows do not count for the size of the group, but
        are rejected with it if it is too large.
        """
        found: dict[tuple[str, ...], tuple[dict[str, pa.Array], np.ndarray]] = {}
        for key in self._plan.nodes[output].keys:
            texts = self.texts(output, batch, key)
            if texts is not None and (joined or key.origin is not KeyOrigin.JOINED):
                _, rows = found.setdefault(key.columns, (texts, np.zeros(batch.count, dtype=bool)))
                for _, are_of in self.of_sources(key, batch, joined=joined):
                    rows |= are_of
        return found.values()

    def of_sources(self, key: GroupKey, batch: Batch, *, joined: bool = True) -> list[tuple[str, np.ndarray]]:
        """The rows of a key's groups, source by source; with `joined`, also the rows of joined records."""
        aggregated = identity.aggregate_row_numbers(batch)
        is_record = aggregated == NO_ROW
        match key.origin:
            case KeyOrigin.JOINED:
                found = dict.fromkeys(key.domain, np.ones(batch.count, dtype=bool))
            case KeyOrigin.AGGREGATE:
                found = dict.fromkeys(key.domain, ~is_record & ~identity.are_mixed(aggregated))
            case KeyOrigin.RECORD:
                own = batch.origin.identify(batch, pa.array(np.arange(batch.count)))[0].to_numpy()
                found = dict.fromkeys(key.shared if joined else (), identity.joined_mask(batch) & is_record)
                for name in key.sources:
                    mine = is_record & (own == self._sources.index(name))
                    found[name] = found[name] | mine if name in found else mine
        return [(name, rows) for name, rows in found.items() if rows.any()]

    def texts(self, name: str, batch: Batch, key: GroupKey) -> dict[str, pa.Array] | None:
        """A key of rows at a node, field by field, as texts; None if they belong to no groups by it."""
        texts = [self._text(name, batch, column) for column in key.columns]
        if any(text is None for text in texts):
            return None
        return {field: text for field, text in zip(key.fields, texts, strict=True) if text is not None}

    def _text(self, name: str, batch: Batch, column: str) -> pa.Array | None:
        """A column of a key as texts, empty for null; None if the rows have no such column."""
        if column not in batch.data.schema.names:
            return None
        text = _text(batch.data.column(column), self._plan.nodes[name].types.get(column, ()))
        return None if text is None else pc.fill_null(text, "")

    def all_texts(self, name: str, batch: Batch) -> dict[str, pa.Array]:
        """The correlation keys of a batch at a node, as texts by field; empty without keys."""
        found = {field: self._text(name, batch, CORRELATION.of(field)) for field in self._plan.fields}
        return {field: text for field, text in found.items() if text is not None}

    def shown(self, name: str, batch: Batch) -> pa.RecordBatch:
        """The columns of rows that are no records, as far as dead letters have columns of these names."""
        kinds, present = self._plan.nodes[name].types, batch.data.schema.names
        nothing = pa.nulls(batch.count, pa.string())
        found = {}
        for column in self._plan.columns:
            text = _text(batch.data.column(column), kinds.get(column, ())) if column in present else None
            found[column] = nothing if text is None else text
        return pa.RecordBatch.from_pydict(found)

    def remarks(self, name: str, batch: Batch) -> pa.StringArray | None:
        """The grouping values of aggregate rows that no dead-letter column shows; None for records."""
        node, present = self._plan.nodes[name], batch.data.schema.names
        texts = {
            column: _text(batch.data.column(column), node.types.get(column, ()))
            for column in node.grouped
            if column in present
        }
        shown = {column: pc.fill_null(text, "null") for column, text in texts.items() if text is not None}
        are_rows = identity.aggregate_row_numbers(batch) != NO_ROW
        if not shown or not are_rows.any():
            return None
        remarks = pc.binary_join_element_wise(" (row with ", group_names(shown), ")", "")
        found: pa.StringArray = pc.if_else(pa.array(are_rows), remarks, None)  # type: ignore[assignment]  # texts
        return found


def identities(batch: Batch) -> np.ndarray:
    """A number for each row: the number of its record, or its own if an aggregate made it."""
    aggregated = identity.aggregate_row_numbers(batch)
    _, split, row = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
    return np.where(aggregated == NO_ROW, identity.record_numbers(split, row), aggregated)


def group_names(keys: Mapping[str, pa.Array]) -> pa.Array:
    """The names of groups, from the fields of their keys."""
    parts = [pc.binary_join_element_wise(name, text, "=") for name, text in keys.items()]
    found: pa.Array = pc.binary_join_element_wise(*parts, ", ")
    return found


def _text(column: pa.Array, kinds: Sequence[types.Type]) -> pa.Array | None:
    """A column as texts, by the first of several possible types that fits it."""
    fitting = next((kind for kind in kinds if values.arrow_type(kind) == column.type), None)
    return None if fitting is None else cell_text.texts(column, fitting)

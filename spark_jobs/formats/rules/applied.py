"""Applies the rules of a format schema to whole columns: defaults, allowed values, numbers of digits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.failure_columns import Reason
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, coerce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.failure_columns import Failures, Rows
    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.rules.declared import Rules

#: The most values of `enum` that a message shows.
_SHOWN = 8


@dataclass(frozen=True)
class Rule:
    """A rule that values fail.

    Args:
        bad: whether each value fails it; nulls fail none.
        says: the problem, in words that follow the value.
    """

    bad: pa.Array
    says: str


def filled(array: pa.Array, rules: Rules, static: Type, forms: tuple[str, ...] = (), *, blanks: bool) -> pa.Array:
    """A column with its default for nothing; with `blanks` empty texts are nothing too."""
    if rules.default is None:
        return array
    default = coerce.convert(pa.array([rules.default], pa.string()), static, forms).array[0]
    if blanks and static.kind is Kind.STRING:
        array = pc.if_else(pc.equal(array, ""), default, array)
    return pc.fill_null(array, default) if array.null_count else array


def broken(
    array: pa.Array, rules: Rules, static: Type, forms: tuple[str, ...] = (), *, blanks: bool = False
) -> Iterator[Rule]:
    """The rules that some values of a column fail; with `blanks` empty texts are nothing, and fail none."""
    if rules.enum:
        allowed = coerce.convert(pa.array(rules.enum, pa.string()), static, forms).array
        bad = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, value_set=allowed)))
        if blanks and static.kind is Kind.STRING:
            bad = pc.and_(bad, pc.fill_null(pc.not_equal(array, ""), False))
        more = ", …" if len(rules.enum) > _SHOWN else ""
        yield from _some(bad, f"is none of {', '.join(rules.enum[:_SHOWN])}{more}")
    if rules.whole is None and rules.fraction is None:
        return
    texts = cell_text.texts(array, static)
    if rules.whole is not None:
        pattern = rf"^-?0*[1-9][0-9]{{{rules.whole},}}"
        has_more = pc.match_substring_regex(texts, pattern)
        yield from _some(has_more, f"has more than {rules.whole} digits before the point")
    if rules.fraction is not None:
        pattern = rf"\.[0-9]{{{rules.fraction + 1},}}$"
        has_more = pc.match_substring_regex(texts, pattern)
        yield from _some(has_more, f"has more than {rules.fraction} digits after the decimal point")


def _some(bad: pa.Array, says: str) -> Iterator[Rule]:
    found = pc.fill_null(bad, False)
    if pc.any(found, min_count=0).as_py():
        yield Rule(found, says)


def rows_of(rule: Rule) -> Rows:
    """The rows that fail a rule, ascending."""
    found: Rows = pc.indices_nonzero(rule.bad).to_numpy().astype(np.int64)
    return found


def checked(block: Block, wanted: Reading, *, blanks: bool) -> Block:
    """A block with the defaults of its columns; records with values that do not fit are failures.

    Args:
        block: some records; it has all columns that have rules.
        wanted: the requirements for reading the file.
        blanks: whether an empty text is nothing, as in files of texts.
    """
    batch = block.batch
    size = batch.num_rows
    first = np.full(size, -1, dtype=np.int64)
    reasons: list[tuple[Reason, pa.StringArray]] = []
    for column in wanted.columns:
        if column.rules is None:
            continue
        forms = wanted.forms(column)
        at = batch.schema.get_field_index(column.name)
        array = filled(batch.column(at), column.rules, column.type, forms, blanks=blanks)
        batch = batch.set_column(at, column.name, array)
        for rule in broken(array, column.rules, column.type, forms, blanks=blanks):
            rows = rows_of(rule)
            first[rows[first[rows] < 0]] = len(reasons)
            category = Category.REQUIRED_CONVERSION if column.required else Category.TYPE_COERCION
            reason = Reason(category, column.name, "'", f"' {rule.says}")
            reasons.append((reason, cell_text.texts(array, column.type)))
    if not reasons:
        return replace(block, batch=batch)
    return _without(replace(block, batch=batch), first, reasons, wanted)


def _without(block: Block, first: Rows, reasons: list[tuple[Reason, pa.StringArray]], wanted: Reading) -> Block:
    """A block in which the records that fail a rule are failures; `first` has the number of the rule."""
    size = block.batch.num_rows
    places = np.arange(block.first_row, block.first_row + size) if block.rows is None else block.rows.to_numpy()
    found: list[Failures] = [block.failures]
    for number, (reason, texts) in enumerate(reasons):
        rows = np.flatnonzero(first == number)
        failing = failure_columns.alike(rows, reason, failure_columns.chosen(texts, rows))
        found.append(replace(failing, rows=places[rows]))
    bad = np.flatnonzero(first >= 0)
    failed_rows = None
    if wanted.failure_texts:
        chosen = block.batch.take(pa.array(bad))
        shown = pa.RecordBatch.from_arrays(
            [cell_text.texts(chosen.column(column.name), column.type) for column in wanted.columns],
            names=[column.name for column in wanted.columns],
        )
        known = [shown] if block.failed_rows is None else [block.failed_rows, shown]
        order = np.argsort(np.concatenate([block.failures.rows, places[bad]]), kind="stable")
        failed_rows = pa.Table.from_batches(known).combine_chunks().take(pa.array(order)).to_batches()[0]
    kept = pa.array(np.flatnonzero(first < 0))
    return replace(
        block,
        batch=block.batch.take(kept),
        rows=pa.array(places, pa.int64()).take(kept),
        failures=failure_columns.concatenated(found),
        failed_rows=failed_rows,
        documents={
            path: value.take(kept) if isinstance(value, pa.Array) else value for path, value in block.documents.items()
        },
    )

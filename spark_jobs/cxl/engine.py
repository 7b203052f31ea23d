"""The interface of both engines to the nodes that run CXL: contexts, compiled programs, and their results.

`interpreter.compile(program)` returns a `RecordProgram`, `kernels.compile(program)` a `BatchProgram`; they agree on
every value and every failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from spark_jobs.cxl.failure import Failure
    from spark_jobs.cxl.failure_columns import Failures


@dataclass
class EvaluationContext:
    """The values of `$...` members for a record or a batch, by path without the dollar sign (`source.row`).

    For a record all values are Python values. For a batch a value is a Python value that holds for every row, or a
    `pa.Array` with one value per row. A path that is missing is null.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    #: Seen keys of each `distinct` statement by its number; lives as long as the node runs.
    seen: dict[int, set[Any]] = field(default_factory=dict)


@dataclass
class RecordResult:
    """The results of a program for one record: its output records; none if it was filtered or a duplicate.

    Each output is the emitted fields in order of first emission; `metas` has the metadata written for each output.
    """

    outputs: list[dict[str, Any]]
    metas: list[dict[str, Any]]
    filtered: bool = False
    duplicate: bool = False


class RecordProgram(Protocol):
    """A program compiled for one record at a time. Raises `Failure`."""

    def __call__(self, record: Mapping[str, Any], context: EvaluationContext) -> RecordResult:
        """Run the program on a record: column name to Python value (missing is null)."""


@dataclass
class RowFailure:
    """A failing row of a batch: its 0-based index and its failure."""

    row: int
    failure: Failure


@dataclass
class BatchResult:
    """The results of a program for a batch of n rows.

    `rows` has the input row of every output record, ascending (None: all n rows, one record each); `emits` and
    `metas` have arrays of that length. Failing, filtered and duplicate rows are not in `rows`. A column that a record
    of an `emit each` did not emit is null in `emits` and false in `emitted[name]` (absent: every record emitted it).
    """

    rows: pa.Array | None
    emits: dict[str, pa.Array]
    metas: dict[str, pa.Array]
    emitted: dict[str, pa.Array] = field(default_factory=dict)
    filtered: int = 0
    duplicates: int = 0
    failures: Sequence[RowFailure] | Failures = ()


class BatchProgram(Protocol):
    """A program compiled to Arrow kernels."""

    #: Places that run in the interpreter, with the reason, for `explain`.
    interpreted: tuple[tuple[str, str], ...]

    def __call__(self, batch: pa.RecordBatch, context: EvaluationContext) -> BatchResult:
        """Run the program on a batch that has (at least) the program's columns, typed by `values.arrow_type`."""

"""Record-level errors are data: what went wrong with one record, by category.

The interpreter raises `Failure` for the record at hand; its caller turns it into a row of the dead-letter part. Kernels mark failing rows
and let the interpreter find each one's exact failure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Category(StrEnum):
    """The categories of the dead-letter file (spec/exec.md 5.5 and decisions 26, 28, 62, 82)."""

    TYPE_COERCION = "type_coercion_failure"
    EXPANSION_LIMIT = "expansion_limit_exceeded"
    MISSING_REQUIRED = "missing_required_field"
    REQUIRED_CONVERSION = "required_field_conversion_failure"
    NAN_IN_OUTPUT = "nan_in_output_field"
    VALIDATION = "validation_failure"
    AGGREGATE = "aggregate_finalize"
    AGGREGATE_TYPE = "aggregate_type_error"
    COMBINE_ROW = "combine_output_row"
    LATE_RECORD = "late_record"
    CORRELATED = "correlated"
    GROUP_SIZE = "group_size_exceeded"
    MALFORMED = "malformed_record"


class Failure(Exception):
    """One record failed.

    Args:
        detail: the kind of error in the words of spec/exec.md 2.9, without row or field.
        category: the dead-letter category.
        value: the offending value, for `_cxl_dlq_triggering_value`.
        field: the emit that was being computed, filled in by the statement.
    """

    def __init__(
        self, detail: str, category: Category = Category.TYPE_COERCION, value: Any = None, field: str | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.category = category
        self.value = value
        self.field = field

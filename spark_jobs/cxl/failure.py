"""The failure of one record: data, with a category, a message and the place of its cause.

The interpreter raises `Failure` for the record at hand; its caller turns it into a row of the dead-letter part.
Kernels mark failing rows and let the interpreter find each one's exact failure.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from spark_jobs.cxl import values


class Category(StrEnum):
    """The categories of the dead-letter file."""

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
    """The failure of one record: its message, category, value and field.

    Args:
        detail: the kind of error as messages name it, without row or field.
        category: the dead-letter category.
        value: the offending value, for `_cxl_dlq_triggering_value`.
        field: the emit that was being computed, filled in by the statement; None for what is no field of the user's,
            like the argument of an aggregate.

    `expression` is the failing statement and its place in the pipeline's file, filled in by who ran it.
    """

    expression: tuple[str, str] | None = None

    def __init__(
        self, detail: str, category: Category = Category.TYPE_COERCION, value: Any = None, field: str | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.category = category
        self.value = value
        self.field = field


def restated(found: Failure, detail: str, category: Category) -> Failure:
    """A failure as the node reports it in which it happened."""
    copied = Failure(detail, category, found.value, found.field)
    copied.expression = found.expression
    return copied


def encode(found: Failure) -> str:
    """A failure as a text, for a column: it may happen in one place and be reported in another."""
    value = found.value if found.value is None or isinstance(found.value, str) else values.text_of(found.value)
    return json.dumps([found.detail, found.category, value])


def decode(text: str) -> Failure:
    """Decode a failure from its text; see `packed`."""
    detail, category, value = json.loads(text)
    return Failure(detail, Category(category), value)


def type_mismatch(expected: str, got: str) -> Failure:
    """A value of the wrong kind where only one kind makes sense."""
    return Failure(f"type mismatch: expected {expected}, got {got}")


def division_by_zero() -> Failure:
    """`x / 0`, `x % 0` and their Float forms: one error for all four."""
    return Failure("division by zero")


def conversion(value: str, target: str, hint: str = "") -> Failure:
    """A strict conversion that did not succeed; `value` is the text, `target` the type's name, `hint` helps."""
    return Failure(f"conversion failed: cannot convert '{value}' to {target}{hint}", value=value)


def overflow(operation: str) -> Failure:
    """An Int result outside 64 bits.

    `operation` is addition, subtraction, multiplication, division, modulo or negation.
    """
    return Failure(f"integer overflow in {operation} operation")


def invalid_pattern(pattern: str, reason: str) -> Failure:
    """A computed regular expression that RE2 refuses; literal ones are checked before the run."""
    return Failure(f"invalid regex '{pattern}': {reason}", value=pattern)


def text_too_large(size: int, limit: int) -> Failure:
    """A text that `repeat` or a padding method would make larger than the limit, in bytes."""
    return Failure(f"string output exceeds maximum size ({size} bytes, limit {limit})")


def expansion_limit(limit: int) -> Failure:
    """More records from one `emit each` than the cap allows."""
    return Failure(f"emit_each fan-out exceeded max_expansion (limit {limit})", Category.EXPANSION_LIMIT)


def not_finite(value: Any) -> Failure:
    """A NaN or an infinity that reached an emitted field."""
    return Failure(f"not a finite number: {value}", Category.NAN_IN_OUTPUT, value=value)

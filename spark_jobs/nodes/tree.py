"""Walking typed CXL trees: what a program or expression is made of."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed, types

if TYPE_CHECKING:
    from collections.abc import Iterator


def parts(node: Any) -> Iterator[Any]:
    """The node and everything below it, outermost first. Types are leaves and left out."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(reversed(current))
        elif is_dataclass(current) and not isinstance(current, types.Type):
            yield current
            stack.extend(getattr(current, field.name) for field in reversed(fields(current)))


def columns(expression: typed.Expression) -> frozenset[str]:
    """The input columns that an expression reads."""
    return frozenset(part.name for part in parts(expression) if isinstance(part, typed.Column))


def system(expression: typed.Expression) -> frozenset[str]:
    """The values of the surroundings that an expression reads, by path."""
    return frozenset(part.path for part in parts(expression) if isinstance(part, typed.System))


def conjuncts(expression: typed.Expression) -> list[typed.Expression]:
    """The operands of a chain of `and`, in order."""
    found: list[typed.Expression] = []
    stack = [expression]
    while stack:
        current = stack.pop()
        if isinstance(current, typed.And):
            stack.extend((current.right, current.left))
        else:
            found.append(current)
    return found

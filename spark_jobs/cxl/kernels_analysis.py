"""What the kernel compiler knows of an expression before it runs: what it reads, whether it can fail, what is the same."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.typed import Operator
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


def parts(node: object) -> Iterator[object]:
    """The nodes directly inside a node of a typed tree."""
    if not is_dataclass(node):
        return
    for field in fields(node):
        value = getattr(node, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, typed.Expression | typed.Statement | typed.Closure | typed.Arm):
                yield item


def walk(node: object) -> Iterator[object]:
    """A node and all nodes inside it, in preorder."""
    yield node
    for part in parts(node):
        yield from walk(part)


def is_constant(node: typed.Expression) -> bool:
    """Whether an expression has the same value for every record."""
    return not any(
        isinstance(part, typed.Column | typed.Local | typed.System | typed.Now | typed.WindowCall)
        for part in walk(node)
    )


def columns_of(node: object) -> dict[str, types.Type]:
    """The columns that a tree reads, with their types."""
    return {part.name: part.type for part in walk(node) if isinstance(part, typed.Column)}


def systems_of(node: object) -> dict[str, types.Type]:
    """The surroundings that a tree reads, with their types."""
    return {part.path: part.type for part in walk(node) if isinstance(part, typed.System)}


def slots_of(node: object) -> dict[int, types.Type]:
    """The slots that a tree reads and does not bind itself, with their types."""
    bound = {part.slot for part in walk(node) if isinstance(part, typed.Closure)}
    return {part.slot: part.type for part in walk(node) if isinstance(part, typed.Local) and part.slot not in bound}


def can_fail(node: typed.Expression) -> bool:
    """Whether some record can make an expression raise `Failure`."""
    return any(_fails(part) for part in walk(node))


def _fails(node: object) -> bool:
    match node:
        case typed.Binary(operator=Operator.DIVIDE | Operator.MODULO):
            return True
        case typed.Binary(operator=Operator.ADD | Operator.SUBTRACT | Operator.MULTIPLY, type=result):
            return result.kind not in (Kind.FLOAT, Kind.STRING)
        case typed.Negate(type=result):
            return result.kind is not Kind.FLOAT
        case typed.Call(builtin=key):
            return any(overload.fails for overload in declare.overloads(declare.registry()[key].name))
        case typed.WindowCall():
            return True
        case _:
            return False


_CHEAP = (
    typed.Literal,
    typed.Column,
    typed.Local,
    typed.System,
    typed.Widen,
    typed.Negate,
    typed.Not,
    typed.Binary,
    typed.And,
    typed.Or,
)


def is_cheap(node: typed.Expression) -> bool:
    """Whether evaluating an expression on all rows costs less than cutting out the rows that need it."""
    return all(
        isinstance(part, _CHEAP)
        and not part.type.is_dynamic
        and (part.type.kind is not Kind.STRING or not isinstance(part, typed.Binary))
        for part in walk(node)
    )


def signature(node: object, versions: dict[int, int]) -> Any:
    """A key that equal computations share wherever they stand; None for what differs from evaluation to evaluation.

    `versions` counts the assignments of each slot so far: a slot that was assigned again is another value.
    """
    match node:
        case typed.Now() | typed.WindowCall():
            return None
        case typed.Local(slot=slot):
            return ("slot", slot, versions.get(slot, 0))
        case typed.Literal(value=value):
            return ("literal", type(value).__name__, repr(value))
        case typed.Column(name=name):
            return ("column", name)
    inside = [signature(part, versions) for part in parts(node)]
    if any(part is None for part in inside):
        return None
    own = tuple(
        getattr(node, field.name)
        for field in fields(node)  # type: ignore[arg-type]
        if field.name in ("operator", "path", "builtin", "slot", "function", "field")
    )
    return (type(node).__name__, own, tuple(inside), str(getattr(node, "type", "")))

"""Walks typed CXL trees: the columns, values and calls in a program or expression."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.records import columns as engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def parts(node: Any) -> Iterator[Any]:
    """The node and all its descendants, outermost first, without types."""
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
    """The system values that an expression reads, by path."""
    return frozenset(part.path for part in parts(expression) if isinstance(part, typed.System))


def values(program: typed.Program) -> Iterator[tuple[int | None, str | None, typed.Expression]]:
    """All expressions that are assigned to slots or names, including the sources of loops."""
    for part in parts(program.statements):
        match part:
            case typed.Emit(slot=slot, name=name, value=value):
                yield slot, name, value
            case typed.Let(slot=slot, value=value):
                yield slot, None, value
            case typed.Each(slot=slot, source=value):
                yield slot, None, value


def inputs_of(program: typed.Program | typed.AggregateProgram, name: str) -> list[str]:
    """The input columns and `$…` members from which an emitted field is computed, through lets and earlier emits.

    For an aggregated field: the inputs of its functions' arguments, and the fields that it names directly.
    """
    if isinstance(program, typed.Program):
        return list(dict.fromkeys(column for _, column in reads(program, name)))
    calls = {call.result: call for call in program.calls}
    found: dict[str, None] = {}
    for read in inputs_of(program.after, name):
        for argument in calls[read].arguments if read in calls else (read,):
            is_column = read not in calls or not engine.is_engine(argument)
            found |= dict.fromkeys([argument] if is_column else inputs_of(program.before, argument))
    return list(found)


def reads(program: typed.Program, name: str) -> list[tuple[bool, str]]:
    """The columns from which a field is computed, each with True if it is read on the rows of a window."""
    given = list(values(program))
    slots: dict[int, list[typed.Expression]] = {}
    for slot, _, value in given:
        if slot is not None:
            slots.setdefault(slot, []).append(value)
    found: dict[tuple[bool, str], None] = {}
    seen: set[int] = set()
    stack = [value for _, emitted, value in given if emitted == name]
    while stack:
        for in_frame, part in _framed(stack.pop()):
            if isinstance(part, typed.Column):
                found[in_frame, part.name] = None
            elif isinstance(part, typed.WindowCall) and part.field is not None:
                found[True, part.field] = None
            elif isinstance(part, typed.System):
                found[in_frame, engine.value(part.path)] = None
            elif isinstance(part, typed.Local) and part.slot not in seen:
                seen.add(part.slot)
                stack.extend(slots.get(part.slot, ()))
    return list(found)


def _framed(expression: typed.Expression) -> Iterator[tuple[bool, Any]]:
    """The parts of an expression, each with True if it is evaluated on a window's rows; offsets are not."""
    stack: list[tuple[bool, Any]] = [(False, expression)]
    while stack:
        in_frame, current = stack.pop()
        if isinstance(current, tuple):
            stack.extend((in_frame, each) for each in reversed(current))
        elif is_dataclass(current) and not isinstance(current, types.Type):
            yield in_frame, current
            if isinstance(current, typed.WindowCall):
                in_frame = declare.windows()[current.function].takes is not declare.Takes.OFFSET
            stack.extend((in_frame, getattr(current, field.name)) for field in reversed(fields(current)))


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


def with_constants(node: Any, constants: Mapping[str, Any]) -> Any:
    """The tree with known system values (by path) as literals. Unchanged parts are shared with the original."""
    if isinstance(node, tuple):
        changed = tuple(with_constants(item, constants) for item in node)
        return node if all(new is old for new, old in zip(changed, node, strict=True)) else changed
    if isinstance(node, typed.System) and node.path in constants:
        return typed.Literal(node.type, node.place, constants[node.path])
    if not is_dataclass(node) or isinstance(node, (type, types.Type)):
        return node
    old = {field.name: getattr(node, field.name) for field in fields(node)}
    new = {name: with_constants(value, constants) for name, value in old.items()}
    if isinstance(node, typed.Program):
        new["system"] = node.system - set(constants)
    return node if all(new[name] is old[name] for name in old) else replace(node, **new)

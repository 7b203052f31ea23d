"""Facts for the kernel compiler: which expressions are constant, cheap, or equal to one another."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from spark_jobs.cxl import tree_walk, typed
from spark_jobs.cxl.types import Kind


@dataclass(frozen=True)
class Facts:
    """The properties of a node.

    `key` is a number that equal computations share wherever they stand. `is_constant`: it has the same value for
    every record. `is_cheap`: evaluating it on all rows costs less than cutting out the rows that need it.
    """

    key: int
    is_constant: bool
    is_cheap: bool


_VARYING = (typed.Column, typed.Local, typed.System, typed.Now, typed.WindowCall, typed.Windowed)
_CHEAP = (
    typed.Literal,
    typed.Column,
    typed.Local,
    typed.System,
    typed.Windowed,
    typed.Widen,
    typed.Negate,
    typed.Not,
    typed.Binary,
    typed.And,
    typed.Or,
    typed.If,
    typed.Coalesce,
)
#: The attributes that distinguish two nodes with equal children.
_OWN = ("operator", "path", "builtin", "slot", "function", "field", "name", "keys", "column")


class Analysis:
    """The facts of one program's nodes, found once each.

    `versions` counts the assignments of each slot so far: a slot that was assigned again is another value. A node is
    asked for first where it stands, so its facts hold for good.
    """

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self._facts: dict[int, tuple[object, Facts]] = {}
        self._keys: dict[Any, int] = {}

    def facts(self, node: object) -> Facts:
        """The facts of a node."""
        known = self._facts.get(id(node))
        if known is None:
            # The node is kept, so that its identity is not given to another one.
            known = self._facts[id(node)] = (node, self._find(node))
        return known[1]

    def _find(self, node: object) -> Facts:
        inside = [self.facts(part) for part in tree_walk.parts(node)]
        own = tuple(getattr(node, field.name) for field in fields(node) if field.name in _OWN)  # type: ignore[arg-type]
        if isinstance(node, typed.Local):
            own = (node.slot, self.versions.get(node.slot, 0))
        elif isinstance(node, typed.Literal):
            own = (type(node.value).__name__, repr(node.value))
        identity = (type(node).__name__, own, getattr(node, "type", None), tuple(facts.key for facts in inside))
        return Facts(
            key=self._keys.setdefault(identity, len(self._keys)),
            is_constant=not isinstance(node, _VARYING) and all(facts.is_constant for facts in inside),
            is_cheap=_is_cheap(node) and all(facts.is_cheap for facts in inside),
        )


def _is_cheap(node: object) -> bool:
    if not isinstance(node, _CHEAP):
        return False
    makes_text = isinstance(node, typed.Binary) and node.type.kind is Kind.STRING
    return not node.type.is_dynamic and not makes_text

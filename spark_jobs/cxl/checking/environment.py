"""The names a program makes: lets, emitted fields, metadata, closure parameters, `emit each` bindings, and their slots.

A name is looked up among lets and bindings, from the innermost block outwards; the caller then looks among the input
columns, and last among the emitted fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.cxl import types
    from spark_jobs.cxl.syntax.ast import Place


@dataclass
class Binding:
    """A name's value: in a slot, or `value`, which stands for it wherever it is read (arguments of inlined functions).

    `prepare` is called before the first use; aggregates move lets to where they are needed with it.
    """

    name: str
    type: types.Type
    place: Place
    slot: int = -1
    value: typed.Expression | None = None
    is_let: bool = False
    used: bool = False
    prepare: Callable[[], None] | None = None

    def read(self, place: Place) -> typed.Expression:
        """The expression that reads it."""
        self.used = True
        if self.prepare:
            self.prepare()
        return self.value if self.value is not None else typed.Local(self.type, place, self.slot, self.name)


@dataclass
class _Block:
    names: dict[str, Binding] = field(default_factory=dict)
    emits: dict[str, Binding] = field(default_factory=dict)
    metas: dict[str, Binding] = field(default_factory=dict)
    #: Inside a function's body nothing outside is visible.
    closed: bool = False


@dataclass
class Environment:
    """Nested blocks of names; slots are numbered over the whole program."""

    slots: int = 0
    blocks: list[_Block] = field(default_factory=lambda: [_Block()])
    lets: list[Binding] = field(default_factory=list)

    def new_slot(self) -> int:
        """The next free slot."""
        self.slots += 1
        return self.slots - 1

    def enter(self, *, closed: bool = False) -> None:
        """Open a block scope."""
        self.blocks.append(_Block(closed=closed))

    def leave(self) -> None:
        """Close the innermost block: its names are gone."""
        self.blocks.pop()

    def bind(self, binding: Binding) -> Binding:
        """Make a name visible from here to the end of the block."""
        self.blocks[-1].names[binding.name] = binding
        if binding.is_let:
            self.lets.append(binding)
        return binding

    def emit(self, binding: Binding) -> Binding:
        """Make an emitted field visible from here to the end of the block."""
        self.blocks[-1].emits[binding.name] = binding
        return binding

    def write_meta(self, binding: Binding) -> Binding:
        """Make a metadata key readable from here to the end of the block."""
        self.blocks[-1].metas[binding.name] = binding
        return binding

    def _visible(self) -> Iterator[_Block]:
        for block in reversed(self.blocks):
            yield block
            if block.closed:
                return

    def local(self, name: str) -> Binding | None:
        """The let, closure parameter or binding of this name."""
        return next((block.names[name] for block in self._visible() if name in block.names), None)

    def emitted(self, name: str) -> Binding | None:
        """The field emitted last under this name."""
        return next((block.emits[name] for block in self._visible() if name in block.emits), None)

    def meta(self, key: str) -> Binding | None:
        """The metadata written last under this key."""
        return next((block.metas[key] for block in self._visible() if key in block.metas), None)

    def emitted_so_far(self) -> list[Binding]:
        """Every emitted field, the last of each name, in order of first emission."""
        found: dict[str, Binding] = {}
        for block in self.blocks:
            found.update(block.emits)
        return list(found.values())

    @property
    def is_closed(self) -> bool:
        """True if a function's body is being checked, where the record is out of sight."""
        return any(block.closed for block in self.blocks)

    def names(self) -> list[str]:
        """Every name in sight that the program made, for suggestions."""
        found = [name for block in self._visible() for name in (*block.names, *block.emits)]
        return list(dict.fromkeys(found))

"""Where the fields of a fixed-width record are, by its format schema (spec/formats.md 6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Layout types whose fields hold numbers.
NUMBERS = frozenset({"integer", "int", "float", "decimal", "number"})
#: What a field may say; the other keys of format schemas are not built yet.
_KNOWN = frozenset(
    {
        *("name", "type", "required", "format", "alias", "description", "inherits", "drop", "record"),
        *("start", "width", "end", "justify", "pad", "trim", "truncation"),
    }
)


@dataclass(frozen=True)
class Field:
    """A field of a record.

    Args:
        name: what the field is called.
        start: where it begins, in bytes from 0.
        width: how many bytes it has.
        type: its type in the layout; None where nothing is said.
        justify: `left` or `right`; None where nothing is said.
        pad: the character that fills it.
        trim: whether fillers and blanks around a value are cut off on reading.
        truncation: what happens to a text that is too long on writing; None where nothing is said.
        format: the form of its dates.
    """

    name: str
    start: int
    width: int
    type: str | None = None
    justify: str | None = None
    pad: str = " "
    trim: bool = True
    truncation: str | None = None
    format: str | None = None

    @property
    def end(self) -> int:
        """Where it ends, excluded."""
        return self.start + self.width

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.type in NUMBERS


def _written(layout: Any) -> list[dict[str, Any]]:
    return [dict(one) for one in dict(layout).get("fields_", ())]


def fields_of(layout: Any) -> tuple[Field, ...]:
    """The fields of a layout without problems, in plain form."""
    return tuple(
        Field(
            name=one.get("alias", one["name"]),
            start=one["start"],
            width=one["width"] if "width" in one else one["end"] - one["start"],
            type=one.get("type"),
            justify=one.get("justify"),
            pad=one.get("pad", " "),
            trim=one.get("trim", True),
            truncation=one.get("truncation"),
            format=one.get("format"),
        )
        for one in _written(layout)
    )


def problems(layout: Any) -> Iterator[str]:
    """What is wrong with the places and fillers of a layout."""
    if not _written(layout) and not dict(layout).get("records"):
        yield "the format schema has no fields"
    names: set[str] = set()
    for one in _written(layout):
        what = f"field `{one['name']}`"
        if one["name"] in names:
            yield f"{what} stands there twice"
        names.add(one["name"])
        if "start" not in one:
            yield f"{what}: `start` is missing, the place of its first byte, from 0"
        elif "width" not in one and "end" not in one:
            yield f"{what}: `width` is missing, the number of its bytes"
        elif "width" not in one and one["end"] <= one["start"]:
            yield f"{what}: `end` must be greater than `start`"
        pad = one.get("pad", " ")
        if len(pad) != 1 or not pad.isascii() or pad in "\r\n":
            yield f"{what}: `pad` is one ASCII character that is no line end"


def unbuilt(layout: Any) -> str | None:
    """What a layout asks for that is not built yet; None where that is nothing."""
    if dict(layout).get("records"):
        return "a `format_schema` with `records`"
    keys = sorted({key for one in _written(layout) for key in one}.difference(_KNOWN))
    return f"`{keys[0]}` in a `format_schema`" if keys else None

"""The rules of a format schema for the values of a column, in addition to its type: defaults, value lists, digits.

Plans check the rules here; `spark_jobs/formats/rules/applied.py` applies the rules. No Arrow here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import date_forms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.cxl.types import Type

_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)
_FLAGS = ("true", "yes", "1", "on", "false", "no", "0", "off")


@dataclass(frozen=True)
class Rules:
    """The rules for a column's values.

    Args:
        default: the text of what stands for nothing; None where nothing does.
        enum: the texts of the values that there may be; none allow all.
        whole: how many digits there may be before the point; None allows any number of them.
        fraction: how many there may be after it.
    """

    default: str | None = None
    enum: tuple[str, ...] = ()
    whole: int | None = None
    fraction: int | None = None


def of(field: Mapping[str, Any], *, is_pointed: bool = True) -> Rules | None:
    """The rules of a field of a format schema; None where it has none.

    Args:
        field: its keys.
        is_pointed: whether its numbers have their points; else `scale` says where they belong, and is no rule.
    """
    precision, scale = field.get("precision"), field.get("scale")
    default = field.get("default")
    found = Rules(
        default=None if default is None else text_of(default),
        enum=tuple(text_of(value) for value in field.get("enum") or ()),
        whole=None if precision is None else precision - (scale or 0),
        fraction=scale if is_pointed else None,
    )
    return None if found == Rules() else found


def text_of(value: Any) -> str:
    """A scalar of a format schema as the text that a file has."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def problems(field: Mapping[str, Any], static: Type, forms: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The problems of a field's rules: pairs of a key and a message.

    Args:
        field: the keys of the field.
        static: the type of its column.
        forms: the forms that its dates may have.
    """
    for key in ("default", "enum"):
        written = field.get(key)
        if written is None:
            continue
        for value in written if key == "enum" else (written,):
            if isinstance(value, dict | list | tuple) or value is None:
                yield key, f"`{key}` holds single values"
            elif _has_kinds(static) or static.kind is Kind.ARRAY:
                yield key, f"`{key}` is for columns of one kind of values, and this one is `{static.kind}`"
            elif not _is_of(text_of(value), static, forms):
                yield key, f"`{text_of(value)}` under `{key}` is no {static.kind}"
    if field.get("enum") is not None and not field["enum"]:
        yield "enum", "`enum` is empty, so that no value fits"
    for key in ("precision", "scale"):
        if field.get(key) is not None and static.kind not in _NUMBERS:
            yield key, f"`{key}` is for numbers, and this column is `{static.kind}`"
            return
    precision, scale = field.get("precision"), field.get("scale") or 0
    if precision is not None and precision < max(scale, 1):
        yield "precision", f"`precision` counts all digits, those of `scale` too: {precision} are too few"


def _has_kinds(static: Type) -> bool:
    """Whether single values do not say how they are compared: of several kinds, or Decimals each with its own scale."""
    return static.scale is None if static.kind is Kind.DECIMAL else static.is_dynamic


def _is_of(text: str, static: Type, forms: tuple[str, ...]) -> bool:
    """Whether a text is a value of a type; what `formats/coerce.py` reads in full, here without Arrow."""
    try:
        match static.kind:
            case Kind.INT:
                return -(2**63) <= int(text) < 2**63
            case Kind.FLOAT:
                return not math.isnan(float(text))
            case Kind.DECIMAL:
                return decimals.of_declared(text, static.precision, static.scale) is not None
            case Kind.BOOL:
                return text.lower() in _FLAGS
            case Kind.DATE:
                date_forms.to_date(text, forms)
            case Kind.DATETIME:
                date_forms.to_datetime(text, forms)
            case _:
                pass
    except ValueError:
        return False
    return True

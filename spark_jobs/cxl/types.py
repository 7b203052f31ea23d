"""The types of CXL, and their common types.

A type is the set of values that an expression can have, with or without null. `Any` is the dynamic type of undeclared
columns; an `Array` may know its element type, a `Map` may know the types of its keys (a declared structure).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

#: The digits of a Decimal that is declared with none.
MOST_DIGITS = 38


class Kind(StrEnum):
    """The kind of a type's values, with the names that messages and `type_of` print."""

    NULL = "Null"
    BOOL = "Bool"
    INT = "Int"
    FLOAT = "Float"
    DECIMAL = "Decimal"
    STRING = "String"
    DATE = "Date"
    DATETIME = "DateTime"
    ARRAY = "Array"
    MAP = "Map"
    NUMERIC = "Numeric"
    ANY = "Any"


@dataclass(frozen=True)
class Type:
    """A static type: its kind, whether it includes null, and the known contents of a container.

    `element` is an Array's element type (None: unknown). `fields` are a Map's declared keys with their types, in order
    (None: undeclared). `scale` is how many digits after the point every Decimal of the type has (None: each its own),
    `precision` how many digits it has at most (None: 38).
    """

    kind: Kind
    nullable: bool = False
    element: Type | None = None
    fields: tuple[tuple[str, Type], ...] | None = None
    scale: int | None = None
    precision: int | None = None

    def or_null(self) -> Type:
        """This type with null."""
        return _nullable(self)

    def non_null(self) -> Type:
        """This type without null."""
        return replace(self, nullable=False) if self.nullable else self

    @property
    def may_be_null(self) -> bool:
        """True if an expression of this type can yield null."""
        return self.nullable or self.kind in (Kind.ANY, Kind.NULL)

    @property
    def is_numeric(self) -> bool:
        """True if every non-null value is a number."""
        return self.kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.NUMERIC)

    @property
    def is_dynamic(self) -> bool:
        """True if the values carry their kind at run time (`Any`, `Numeric`, containers of unknown things).

        Arrow has no column for such values: a batch holds them as their tagged JSON text (see `values.py`). Decimals
        that may each have a scale of its own are among them, for a column of Arrow has one scale.
        """
        match self.kind:
            case Kind.ANY | Kind.NUMERIC | Kind.MAP | Kind.NULL:
                return True
            case Kind.DECIMAL:
                return self.scale is None
            case Kind.ARRAY:
                return self.element is None or self.element.is_dynamic or self.element.kind is Kind.ARRAY
            case _:
                return False

    def __str__(self) -> str:
        digits = "" if self.scale is None else f"({self.precision or MOST_DIGITS},{self.scale})"
        shown = f"{self.kind}{digits}"
        return f"Nullable({shown})" if self.nullable else shown


@cache
def _nullable(of: Type) -> Type:
    """The nullable type, as one object per type, so that trees with thousands of nodes stay small when pickled."""
    return of if of.nullable or of.kind in (Kind.ANY, Kind.NULL) else replace(of, nullable=True)


NULL = Type(Kind.NULL)
BOOL = Type(Kind.BOOL)
INT = Type(Kind.INT)
FLOAT = Type(Kind.FLOAT)
DECIMAL = Type(Kind.DECIMAL)
STRING = Type(Kind.STRING)
DATE = Type(Kind.DATE)
DATETIME = Type(Kind.DATETIME)
ARRAY = Type(Kind.ARRAY)
MAP = Type(Kind.MAP)
NUMERIC = Type(Kind.NUMERIC)
ANY = Type(Kind.ANY)


def array_of(element: Type) -> Type:
    """The type of arrays whose elements have a known type."""
    return Type(Kind.ARRAY, element=element)


def decimal_of(precision: int | None, scale: int | None) -> Type:
    """The type of Decimals with declared digits."""
    return Type(Kind.DECIMAL, precision=precision, scale=scale)


def unify(left: Type, right: Type) -> Type | None:
    """The type that holds the values of both, or None if only `Any` does.

    Int and Float meet in Float, Decimal and Int in Decimal, Decimal and Float in Float, Null makes the other nullable,
    `Any` stays `Any`.
    """
    if left == right:
        return left
    if left.kind is Kind.NULL:
        return right.or_null()
    if right.kind is Kind.NULL:
        return left.or_null()
    if Kind.ANY in (left.kind, right.kind):
        return ANY
    nullable = left.nullable or right.nullable
    if left.is_numeric and right.is_numeric:
        return _unified_numbers(left, right, nullable)
    if left.kind is not right.kind:
        return None
    if left.kind is Kind.ARRAY:
        element = unify(left.element, right.element) if left.element and right.element else None
        return Type(Kind.ARRAY, nullable, element=element)
    if left.kind is Kind.MAP:
        return Type(Kind.MAP, nullable, fields=left.fields if left.fields == right.fields else None)
    return Type(left.kind, nullable)


def _unified_numbers(left: Type, right: Type, nullable: bool) -> Type:
    kinds = {left.kind, right.kind}
    if kinds == {Kind.DECIMAL}:
        scale = left.scale if left.scale == right.scale else None
        precision = left.precision if left.precision == right.precision else None
        return Type(Kind.DECIMAL, nullable, scale=scale, precision=None if scale is None else precision)
    if len(kinds) == 1:
        return Type(left.kind, nullable)
    return Type(next(kind for kind in _WIDEST if kind in kinds), nullable)


#: The first of these that is present holds the result when kinds of numbers meet.
_WIDEST = (Kind.NUMERIC, Kind.FLOAT, Kind.DECIMAL)

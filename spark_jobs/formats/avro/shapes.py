"""The schemas of Avro files as columns of ours.

| in the file | here |
|---|---|
| boolean, int, long, float, double, string | Bool, Int, Int, Float, Float, String |
| enum, uuid | String |
| date, timestamps | Date, DateTime to the microsecond, moments in UTC; outside all years as in Parquet |
| decimal | Int where it has no fraction digits and fits, else the text of all digits |
| a union with null | the other type in it |
| array, map, other unions | Array, Map, Any |
| records | a column for each member, with a dotted name, as in JSON; Map where they are declared themselves |

There is no type for bytes, times of day and durations. Recursive schemas are refused, and so are arrays of elements
without bytes: a small file could then have any number of values.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.cxl.types import Type
from spark_jobs.formats.avro.container import broken
from spark_jobs.formats.typed.natural import natural, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

#: The maximal nesting of schemas.
MAX_DEPTH = 64
#: The maximal number of type lookups beyond the schema's own size, since references to references multiply.
_MOST_REFERENCES = 1 << 16
#: The maximal number of lookups per written type.
_LOOKS = 8

#: The maximal number of digits of a decimal. Larger ones are written by no known system, and each digit costs memory.
MOST_DIGITS = 1000
#: The number of bytes with so many digits.
_DECIMAL_BYTES = 416

#: The bytes of a value as a Python object in a list, and the overhead of a record, an array or a map.
VALUE_BYTES, CONTAINER_BYTES = 50, 300
#: Plain values take so many times their bytes.
_LIST_FORMS = 16

_PLAIN: dict[str, tuple[Type, pa.DataType]] = {
    "null": (types.ANY, pa.string()),
    "boolean": (types.BOOL, pa.bool_()),
    "int": (types.INT, pa.int64()),
    "long": (types.INT, pa.int64()),
    "float": (types.FLOAT, pa.float64()),
    "double": (types.FLOAT, pa.float64()),
    "string": (types.STRING, pa.string()),
    "enum": (types.STRING, pa.string()),
}
_MOMENTS = (
    "timestamp-millis", "timestamp-micros", "timestamp-nanos",
    "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos",
)  # fmt: skip
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
#: The logical types that a plain one has here; of others only the plain one counts.
_LOGICAL = {
    ("int", "date"): "date",
    **{("long", name): "moment" for name in _MOMENTS},
    ("bytes", "decimal"): "decimal",
    ("fixed", "decimal"): "decimal",
    ("string", "uuid"): "string",
    ("int", "time-millis"): "time",
    ("long", "time-micros"): "time",
    ("fixed", "duration"): "time",
}

#: A column of ours, and its type.
Found = tuple[pa.Array, Type]


@dataclass(frozen=True)
class Leaf:
    """A column of a file.

    Args:
        name: its dotted name.
        path: the members that lead to it.
        title: what its type is called in the file.
        make: its values as a column of ours; None where nothing stands for the type.
    """

    name: str
    path: tuple[str, ...]
    title: str
    make: Callable[[list[Any]], Found] | None
    #: The type to read it as, where that is not the one of the file: days and moments are made of numbers.
    stored: Any = None

    def of(self, records: list[dict[str, Any]]) -> Found:
        """The column of some records."""
        assert self.make is not None, f"{self.title} was refused"
        if len(self.path) == 1:
            return self.make([*map(itemgetter(self.path[0]), records)])
        found: list[Any] = list(records)
        for name in self.path:
            # A member of a null record is null.
            found = [None if each is None else each[name] for each in found]
        return self.make(found)


class Shape:
    """The columns of a file.

    Args:
        schema: the schema of its records.
        name: the file's name.
        declared: the names of the declared columns. A nested record whose name is declared is a column, too.

    Raises:
        FormatError: it is no schema of records, or one that could stand for any number of values.
    """

    def __init__(self, schema: Any, name: str, declared: Collection[str] = ()) -> None:
        self._file = name
        self._declared = declared
        self._names: dict[str, Any] = {}
        self._within: set[int] = set()
        self._looks_left = _MOST_REFERENCES
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise broken("its schema is not one of records", name)
        self._note_names(schema, schema.get("namespace", ""), 0)
        #: The fewest bytes that a record can have.
        self.least = self._least(schema, 0)
        if not self.least:
            raise broken("its records have no bytes", name)
        #: Whether days and moments within values may be read as numbers. A union could not tell them from numbers.
        self.has_plain_times = not self._is_mixed(schema, is_one_of_several=False)
        self.leaves = tuple(self._leaves(schema, (), 0))
        #: The number of values of a record, without the elements of arrays and maps.
        self.places = self._places(schema)
        #: The maximal number of bytes of Python values for one byte within an array or map; 1 without such.
        self.list_forms = self._list_forms(schema)

    def _note_names(self, schema: Any, space: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise broken(f"its schema is nested more than {MAX_DEPTH} deep", self._file)
        self._looks_left += _LOOKS
        if isinstance(schema, list):
            for each in schema:
                self._note_names(each, space, depth + 1)
        if not isinstance(schema, dict):
            return
        if schema.get("type") in ("record", "error", "enum", "fixed"):
            space = str(schema.get("namespace", space))
            name = str(schema.get("name", ""))
            full = name if "." in name or not space else f"{space}.{name}"
            self._names[full] = schema
            self._names.setdefault(full.rpartition(".")[2], schema)
            space = full.rpartition(".")[0]
        fields = schema.get("fields", ())
        for field in fields if isinstance(fields, list) else ():
            self._note_names(field, space, depth + 1)
        for key in ("type", "items", "values"):
            if isinstance(schema.get(key), list | dict):
                self._note_names(schema[key], space, depth + 1)

    def _resolved(self, schema: Any) -> Any:
        """A schema without references and without wrapping."""
        self._looks_left -= 1
        if self._looks_left < 0:
            raise broken("its schema refers to records so often that it would have no end of columns", self._file)
        for _ in range(MAX_DEPTH):
            if isinstance(schema, str) and schema in self._names:
                return self._names[schema]
            if isinstance(schema, dict) and isinstance(schema.get("type"), list | dict):
                schema = schema["type"]
                continue
            if isinstance(schema, dict) and schema.get("type") in self._names:
                return self._names[schema["type"]]
            return schema
        raise broken("its schema refers to itself", self._file)

    def _kind(self, schema: Any) -> str:
        if isinstance(schema, list):
            return "union"
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if not isinstance(kind, str) or kind not in (*_PLAIN, "bytes", "fixed", "record", "array", "map"):
            raise broken(f"its schema has an unknown type: {str(kind)[:100]}", self._file)
        return kind

    def _least(self, schema: Any, depth: int) -> int:
        """The fewest bytes of a value; refuses what could be endless."""
        found = self._resolved(schema)
        kind = self._kind(found)
        if depth > MAX_DEPTH or id(found) in self._within:
            raise broken("its schema refers to itself, or is nested too deep", self._file)
        if kind in ("record", "array", "map"):
            self._within.add(id(found))
            least = self._least_within(found, kind, depth)
            self._within.discard(id(found))
            return least
        if kind == "union":
            for each in found:
                self._least(each, depth + 1)
            return 1
        if kind == "fixed":
            return max(int(found["size"]), 0) if isinstance(found.get("size"), int) else 0
        return {"null": 0, "float": 4, "double": 8}.get(kind, 1)

    def _places(self, schema: Any) -> int:
        found = self._resolved(schema)
        kind = self._kind(found)
        inner = found if kind == "union" else [each["type"] for each in self._fields(found)] if kind == "record" else ()
        return 1 + sum(map(self._places, inner))

    def _list_forms(self, schema: Any) -> int:
        found = self._resolved(schema)
        kind = self._kind(found)
        if kind in ("array", "map"):
            item = found["items" if kind == "array" else "values"]
            # Each entry of a map has a key, which has a byte at least.
            least = max(self._least(item, 0), 1) + (kind == "map")
            own = (self._item_bytes(item) + (VALUE_BYTES if kind == "map" else 0)) // least
            return max(_LIST_FORMS, own, self._list_forms(item))
        inner = found if kind == "union" else [each["type"] for each in self._fields(found)] if kind == "record" else ()
        return max((self._list_forms(each) for each in inner), default=1)

    def _item_bytes(self, schema: Any) -> int:
        """The bytes of a value as a Python object, without the elements of its lists."""
        found = self._resolved(schema)
        match self._kind(found):
            case "record":
                return CONTAINER_BYTES + sum(self._item_bytes(field["type"]) for field in self._fields(found))
            case "union":
                return max(map(self._item_bytes, found), default=VALUE_BYTES)
            case "array" | "map":
                return CONTAINER_BYTES
        return VALUE_BYTES

    def _least_within(self, found: Any, kind: str, depth: int) -> int:
        if kind == "record":
            return sum(self._least(field["type"], depth + 1) for field in self._fields(found))
        if not self._least(found.get("items" if kind == "array" else "values"), depth + 1) and kind == "array":
            raise broken("its schema has an array of what has no bytes", self._file)
        return 1

    def _fields(self, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(field, dict) and isinstance(field.get("name"), str) and "type" in field for field in fields
        ):
            raise broken("its schema has a record without fields", self._file)
        return fields

    def _leaves(self, schema: Any, path: tuple[str, ...], depth: int, *, inside: bool = False) -> Iterator[Leaf]:
        """The columns of a record; `inside` a declared nested record, only its declared members are columns."""
        for field in self._fields(schema):
            given = inner = self._resolved(field["type"])
            if isinstance(inner, list):
                others = [each for each in inner if each != "null"]
                inner = self._resolved(others[0]) if len(others) == 1 else inner
            here = (*path, field["name"])
            is_declared = ".".join(here) in self._declared
            if self._kind(inner) == "record" and self._fields(inner):
                if is_declared:
                    yield Leaf(".".join(here), here, _title(inner), self._maker(inner))
                yield from self._leaves(inner, here, depth + 1, inside=inside or is_declared)
            elif inside and not is_declared:
                continue
            elif (not depth or self.has_plain_times) and (times := _times(inner)) is not None:
                plain = str(inner["type"])
                stored = [each if each == "null" else plain for each in given] if isinstance(given, list) else plain
                yield Leaf(".".join(here), here, _title(inner), times, None if depth else stored)
            else:
                yield Leaf(".".join(here), here, _title(inner), self._maker(inner))

    def _maker(self, schema: Any) -> Callable[[list[Any]], Found] | None:
        kind = self._kind(schema)
        logical = _LOGICAL.get((kind, str(schema.get("logicalType")))) if isinstance(schema, dict) else None
        match logical or kind:
            case "date":
                return lambda found: (pa.array(found, pa.date32()), types.DATE)
            case "moment":
                return lambda found: (pa.array(map(_moment, found), pa.timestamp("us")), types.DATETIME)
            case "decimal":
                scale = schema.get("scale", 0)
                if not isinstance(scale, int) or not 0 <= scale <= MOST_DIGITS:
                    raise broken(f"its schema has a decimal of scale {str(scale)[:100]}", self._file)
                return _decimals
            case "time" | "bytes" | "fixed":
                return None
            case "union" | "array" | "map" | "record":
                return self._wholes(schema) if self._is_known(schema, 0) else None
            case "null":
                return lambda found: (pa.nulls(len(found), pa.string()), types.ANY)
            case "string" if logical:
                return lambda found: (pa.array([each and str(each) for each in found], pa.string()), types.STRING)
            case plain:
                static, arrow = _PLAIN[plain]
                return lambda found: (pa.array(found, arrow), static)

    def _is_mixed(self, schema: Any, *, is_one_of_several: bool) -> bool:
        """Whether a union of several types has days or moments."""
        found = self._resolved(schema)
        match self._kind(found):
            case "union":
                others = [each for each in found if each != "null"]
                several = is_one_of_several or len(others) > 1
                return any(self._is_mixed(each, is_one_of_several=several) for each in others)
            case "array" | "map" as kind:
                inner = found["items" if kind == "array" else "values"]
                return self._is_mixed(inner, is_one_of_several=is_one_of_several)
            case "record":
                fields = self._fields(found)
                return any(self._is_mixed(each["type"], is_one_of_several=is_one_of_several) for each in fields)
        return is_one_of_several and _time_kind(found) is not None

    def _wholes(self, schema: Any) -> Callable[[list[Any]], Found]:
        made = self._value(schema)
        return lambda found: (values.to_arrow(map(made, found), types.ANY), types.ANY)

    def _value(self, schema: Any) -> Callable[[Any], Any]:
        """A function that converts values in which dates and moments are numbers."""
        found = self._resolved(schema)
        match self._kind(found):
            case "union":
                others = [each for each in found if each != "null"]
                return self._value(others[0]) if len(others) == 1 else _plain
            case "array":
                item = self._value(found["items"])
                return lambda value: None if value is None else [item(each) for each in value]
            case "map":
                item = self._value(found["values"])
                return lambda value: None if value is None else {name: item(each) for name, each in value.items()}
            case "record":
                items = {each["name"]: self._value(each["type"]) for each in self._fields(found)}
                return lambda value: None if value is None else {name: items[name](value[name]) for name in items}
        kind = _time_kind(found)
        if kind is None or not self.has_plain_times:
            return _plain
        return lambda value: None if value is None else time_of(value, kind)

    def _is_known(self, schema: Any, depth: int) -> bool:
        """Whether all parts of a value have a type here."""
        found = self._resolved(schema)
        kind = self._kind(found)
        if kind == "union":
            return all(self._is_known(each, depth + 1) for each in found)
        if kind in ("array", "map"):
            return self._is_known(found["items" if kind == "array" else "values"], depth + 1)
        if kind == "record":
            return all(self._is_known(field["type"], depth + 1) for field in self._fields(found))
        return self._maker(found) is not None


def _title(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("type"))
    return str(schema)


def _times(schema: Any) -> Callable[[list[int | None]], Found] | None:
    """A function that converts a column's numbers to dates or moments; None for other columns."""
    kind = _time_kind(schema)
    if kind is None:
        return None
    numbers = pa.int32() if pa.types.is_date(kind) else pa.int64()
    return lambda found: natural(pa.array(found, numbers).cast(kind))


def _time_kind(schema: Any) -> pa.DataType | None:
    """The Arrow type of dates or moments; None for other types."""
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    match _LOGICAL.get((str(schema.get("type")), str(logical))) if logical else None:
        case "date":
            return pa.date32()
        case "moment":
            return pa.timestamp(_UNITS[str(logical).rpartition("-")[2]])
    return None


def stored(schema: Any) -> Any:
    """A schema of the same bytes in which days and moments are numbers."""
    if isinstance(schema, list):
        return [stored(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if _time_kind(schema) is not None:
        return schema["type"]
    inner = {key: stored(schema[key]) for key in ("type", "items", "values") if key in schema}
    fields = {"fields": [stored(each) for each in schema["fields"]]} if isinstance(schema.get("fields"), list) else {}
    return {**schema, **inner, **fields}


def _moment(found: datetime | None) -> datetime | None:
    """A moment in UTC, or one without a zone."""
    return found if found is None or found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def bounded(read: Callable[..., Decimal]) -> Callable[..., Decimal]:
    """Limit a decoder of decimals to the maximal number of digits, since more would take minutes."""

    def checked(data: bytes, *about: Any) -> Decimal:
        if len(data) > _DECIMAL_BYTES:
            raise ValueError(f"a decimal has more than {MOST_DIGITS} digits")
        return read(data, *about)

    return checked


class TooMany(Exception):
    """The values of a record do not fit into a task's memory."""


class _Allowance(threading.local):
    """The bytes that the next decoded values may take, per thread."""

    left = 0


allowance = _Allowance()
_COUNTED = "counted"
_CONTAINERS = ("record", "array", "map")


def counted(schema: Any) -> Any:
    """A schema of the same values whose decoder takes each value out of the `allowance`.

    fastavro asks a function for each value of a logical type, so every type becomes a logical one.
    """
    if isinstance(schema, list):
        return [counted(each) for each in schema]
    if isinstance(schema, str):
        return {"type": schema, "logicalType": _counted_name(schema, None)} if schema in _SIMPLE else schema
    found = dict(schema)
    if isinstance(found["type"], list | dict):
        return {**found, "type": counted(found["type"])}
    for key in ("items", "values"):
        if key in found:
            found[key] = counted(found[key])
    if "fields" in found:
        found["fields"] = [{**field, "type": counted(field["type"])} for field in found["fields"]]
    if found["type"] in (*_SIMPLE, *_CONTAINERS, "enum", "fixed"):
        found["logicalType"] = _counted_name(found["type"], found.get("logicalType"))
    return found


_SIMPLE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def _counted_name(kind: str, logical: Any) -> str:
    """The logical type that counts values of a type, and makes of them what their own logical type makes."""
    from fastavro import read

    name = f"{_COUNTED} {logical}" if isinstance(logical, str) else _COUNTED
    inner = read.LOGICAL_READERS.get(f"{kind}-{logical}")
    cost = CONTAINER_BYTES if kind in _CONTAINERS else VALUE_BYTES

    def take(data: Any, *about: Any) -> Any:
        allowance.left -= cost
        if allowance.left < 0:
            raise TooMany
        return data if inner is None else inner(data, *about)

    read.LOGICAL_READERS.setdefault(f"{kind}-{name}", take)
    return name


def _decimals(found: list[Decimal | None]) -> Found:
    if all(each is None or each.as_tuple().exponent == 0 for each in found):
        try:
            return pa.array([None if each is None else int(each) for each in found], pa.int64()), types.INT
        except (OverflowError, pa.ArrowException):
            return _anything(found)
    return pa.array([None if each is None else format(each, "f") for each in found], pa.string()), types.STRING


def _anything(found: list[Any]) -> Found:
    return values.to_arrow(map(_plain, found), types.ANY), types.ANY


def _plain(value: Any) -> Any:
    """A value with values of ours inside."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return (
            int(value)
            if value.as_tuple().exponent == 0 and values.MIN_INT <= value <= values.MAX_INT
            else format(value, "f")
        )
    if isinstance(value, UUID):
        return str(value)
    return _moment(value) if isinstance(value, datetime) else value

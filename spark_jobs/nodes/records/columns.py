"""Engine columns, which travel with the fields of a record. Each family is declared once, with its fate at each node.

Their names begin with `$`, so no field can have the same name. Programs see them as `$…` or not at all. Nodes ask
`with_fate` which columns to keep and never look at names themselves. A new column needs a new `Family` in `FAMILIES`,
and code that makes and reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.formats import format

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    import pyarrow as pa

#: The engine column that stands for all undeclared columns of records in a planned row.
UNDECLARED_MAP = format.UNDECLARED_PREFIX[:-1]


class Fate(StrEnum):
    """The ways in which a kind of node treats a column."""

    KEPT = "goes on"
    GONE = "ends there"
    MADE = "is made anew"
    #: At a merge: inputs that lack it give nulls.
    FILLED = "goes on, null where an input lacks it"
    #: At a merge.
    SHARED = "goes on where all inputs have it"
    #: At a combine.
    OF_DRIVER = "goes on with the driver's records"
    #: At an aggregate.
    OF_FIRST = "a group has the value of its first record"
    #: Keys of the node's `config:` decide.
    CHOSEN = "goes on where the node's keys say so"


@dataclass(frozen=True)
class Fates:
    """The fate of a column at each kind of node; `meet` is for nodes whose records change tasks."""

    transform: Fate = Fate.KEPT
    route: Fate = Fate.KEPT
    merge: Fate = Fate.KEPT
    meet: Fate = Fate.KEPT
    combine: Fate = Fate.GONE
    aggregate: Fate = Fate.GONE
    output: Fate = Fate.GONE


@dataclass(frozen=True)
class Family:
    """Engine columns of one purpose: a single column, or one for each key if the name ends with a point.

    Args:
        name: the column's name, or the prefix of the columns of all keys.
        holds: a description of its values.
        maker: the part of the engine that creates it.
        fates: its fate at each kind of node.
        arrow: the name of its Arrow type; None if values may have any type.
        is_value: programs read it, as `$…`.
        is_context: system values that programs read are looked up by it.
    """

    name: str
    holds: str
    maker: str
    fates: Fates = Fates()
    arrow: str | None = None
    is_value: bool = False
    is_context: bool = False

    def __contains__(self, name: str) -> bool:
        return name.startswith(self.name) if self.name.endswith(".") else name == self.name

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the columns, if it is the same for all of them."""
        import pyarrow as pa

        assert self.arrow is not None
        return pa.type_for_alias(self.arrow)

    def of(self, key: str) -> str:
        """The column of a key."""
        return self.name + key

    def key(self, name: str) -> str:
        """The key of a column."""
        return name.removeprefix(self.name)

    def keys(self, names: Iterable[str]) -> tuple[str, ...]:
        """The keys of the columns that belong to the family."""
        return tuple(self.key(name) for name in names if name in self)


META = Family(
    "$meta.", "metadata of a record by its key", "`emit meta` of a transform, a source with provenance",
    Fates(merge=Fate.FILLED, output=Fate.CHOSEN), is_value=True,
)  # fmt: skip
UNDECLARED = Family(
    format.UNDECLARED_PREFIX, "an undeclared column of the files: texts, or dynamic values", "sources",
    Fates(combine=Fate.OF_DRIVER, output=Fate.CHOSEN),
)  # fmt: skip
CORRELATION = Family(
    "$ck.", "a field of the correlation key as it was read, or a group's own number", "sources, aggregates",
    Fates(merge=Fate.SHARED, combine=Fate.CHOSEN, aggregate=Fate.CHOSEN, output=Fate.CHOSEN),
)  # fmt: skip
SOURCE = Family(
    "$source.", "facts about its source: the event time of a record, totals of a group", "sources, aggregates",
    Fates(combine=Fate.OF_DRIVER, aggregate=Fate.MADE), is_value=True,
)  # fmt: skip
PIPELINE = Family(
    "$pipeline.", "totals of a group", "aggregates", Fates(combine=Fate.OF_DRIVER, aggregate=Fate.MADE), is_value=True
)
DOCUMENT = Family(
    f"${format.DOCUMENT}", "a field of the envelope around a record in its file, by section and field", "sources",
    Fates(combine=Fate.OF_DRIVER), is_value=True,
)  # fmt: skip
RECORD = Family("$record.", "a variable of the record", "state nodes", Fates(merge=Fate.FILLED), is_value=True)
_WAY = Fates(combine=Fate.OF_DRIVER, aggregate=Fate.OF_FIRST)
ORIGIN = (
    Family("$origin.source", "the number of a record's source", "exchanges", _WAY, "int32", is_context=True),
    Family("$origin.split", "the number of its split", "exchanges", _WAY, "int32", is_context=True),
    Family("$origin.row", "its row in the split", "exchanges", _WAY, "int64", is_context=True),
)
#: Their names.
ORIGIN_NAMES = tuple(each.name for each in ORIGIN)
IS_GROUP = Family(
    "$origin.group", "true for a group, which is no record of a file", "exchanges, on groups",
    Fates(combine=Fate.OF_DRIVER), "bool", is_context=True,
)  # fmt: skip
ROUTE = Family(
    "$origin.route", "the number of the branch of its last route, if records of a batch differ", "exchanges",
    Fates(route=Fate.MADE, combine=Fate.OF_DRIVER, aggregate=Fate.OF_FIRST), "int16", is_context=True,
)  # fmt: skip
PLACE = Family(
    "$at", "the place of a record that is sent between tasks, see `order.py`", "exchanges",
    Fates(meet=Fate.GONE, combine=Fate.OF_DRIVER, aggregate=Fate.OF_FIRST), "int64",
)  # fmt: skip
GROUP = Family(
    "$group", "the number of an aggregate's group, see `identity.py`; null for a record", "aggregates, with "
    "correlation keys", Fates(combine=Fate.OF_DRIVER, aggregate=Fate.MADE), "int64",
)  # fmt: skip
INHERITED = Family(
    "$inherited.", "a field of the correlation key of a record that a combine joined, by the combine, its input "
    "and the field", "combines", Fates(merge=Fate.FILLED, combine=Fate.OF_DRIVER, aggregate=Fate.CHOSEN),
)  # fmt: skip
JOINED = Family(
    "$joined", "true if a combine made it, so that it has no single source; null otherwise", "combines, with "
    "correlation keys", Fates(combine=Fate.MADE), "bool",
)  # fmt: skip
_INSIDE = Fates(transform=Fate.MADE, meet=Fate.KEPT)
SLOT = Family("$slot.", "a value that a later part of the program reads", "parts of a transform", _INSIDE)
KEY = Family("$key.", "a key of a `distinct`", "parts of a transform", Fates(meet=Fate.GONE))
FILE = Family("$file", "the file whose variables a record sets", "shuffle writers", Fates(meet=Fate.GONE), "string")
RANGED = Family(
    "$ranged.", "the result of a window function, or its failure", "windows of a transform",
    Fates(transform=Fate.MADE, meet=Fate.KEPT),
)  # fmt: skip
OWN = Family("$own.", "a value of the record itself that a window's predicate reads", "windows of a transform")
SORTED = Family(
    "$sorted.", "a number or bytes by which a window's rows are ordered", "windows, on rows that are spilled"
)
HASHED = Family("$hashed.", "a key in comparable form (`keys.py`)", "shuffle writers", Fates(meet=Fate.GONE))
MATCHED = Family("$match.", "a key of a combine in comparable form", "both sides of a combine", Fates(meet=Fate.GONE))
ARGUMENT = Family("$arg.", "an argument of an aggregate function, for each record", "aggregates")
RESULT = Family("$agg.", "the result of an aggregate function, for each group", "aggregates")
WINDOW = Family("$window.", "facts about the time window of records and groups", "aggregates with time windows")
NONE = Family("$none", "nulls that give a batch without other columns its length", "sources, combines")

#: For each key of joined records, the columns that hold its fields.
InheritedKeys = tuple[tuple[str, ...], ...]
#: The prefix of keys that number groups.
_OF_AGGREGATE = "aggregate."
#: Separates the parts of an inherited column's name. Names do not contain it.
_SEPARATOR = "\x1f"
#: All families.
FAMILIES = (
    META, UNDECLARED, CORRELATION, SOURCE, PIPELINE, DOCUMENT, RECORD, *ORIGIN, IS_GROUP, ROUTE, GROUP, INHERITED,
    JOINED, PLACE, SLOT, KEY, RANGED, OWN, SORTED, FILE, HASHED, MATCHED, ARGUMENT, RESULT, WINDOW, NONE,
)  # fmt: skip


def group_number(aggregate: str) -> str:
    """The column that numbers the groups of a retractable aggregate."""
    return CORRELATION.of(_OF_AGGREGATE + aggregate)


def inherited_column(combine: str, qualifier: str, key: str) -> str:
    """The column for a field of the correlation key of records that a combine has joined; `key` may be nested."""
    return INHERITED.of(_SEPARATOR.join((combine, qualifier, key)))


def inherited_field(key: str) -> str:
    """The field of an inherited column, by its key. A plain field stands for itself."""
    return key.rpartition(_SEPARATOR)[2]


def inherited_keys(names: Iterable[str], fields: Container[str]) -> InheritedKeys:
    """The inherited columns that hold the given key fields, grouped by key."""
    found: dict[str, list[str]] = {}
    for name in names:
        way, _, field = INHERITED.key(name).rpartition(_SEPARATOR)
        if name in INHERITED and field in fields:
            found.setdefault(way, []).append(name)
    return tuple(map(tuple, found.values()))


def numbered(field: str) -> str | None:
    """The aggregate whose groups a correlation key numbers; None for a field of sources."""
    return field.removeprefix(_OF_AGGREGATE) if field.startswith(_OF_AGGREGATE) else None


def is_engine(name: str) -> bool:
    """True if a column is an engine column."""
    return name.startswith("$")


@lru_cache(maxsize=4096)
def family(name: str) -> Family:
    """The family of an engine column.

    Raises:
        KeyError: it is not declared.
    """
    if name == UNDECLARED_MAP:
        return UNDECLARED
    for each in FAMILIES:
        if name in each:
            return each
    raise KeyError(name)


def with_fate(fate: Fate, kind: str, names: Iterable[str]) -> list[str]:
    """The columns that have the given fate at a kind of node."""
    return [name for name in names if is_engine(name) and getattr(family(name).fates, kind) is fate]


def values(names: Iterable[str]) -> dict[str, str]:
    """The names of columns that programs read, without their `$`."""
    return {name[1:]: name for name in names if is_engine(name) and family(name).is_value}


def value(path: str) -> str:
    """The column that programs read as `$path`."""
    return f"${path}"


def path(name: str) -> str:
    """The path by which programs read a value column: the inverse of `value`."""
    return name[1:]


def context_columns(names: Iterable[str]) -> list[str]:
    """The columns from which system values of programs are read."""
    found = [(name, family(name)) for name in names if is_engine(name)]
    return [name for name, known in found if known.is_value or known.is_context]

"""The target of a database output: columns and constraints of its table, privileges, and the columns that fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import nearest
from spark_jobs.formats import format
from spark_jobs.formats.database.tables import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa

    from spark_jobs.scan.connections import Connection


@dataclass(frozen=True)
class TargetColumn:
    """A column of a table.

    Args:
        name: its name.
        kind: the name of its type as its database calls it, such as `int8` or `_text`.
        type: the type as statements have it, such as `numeric(12,2)`.
        needs_value: whether it takes no null.
        has_default: whether it has a value where none is given.
        is_written: whether values can be given; the database computes all others.
        length: the most characters of a text, or bytes, or bits.
        precision: the digits of a number, `scale` of them after the point; of times, the digits of their seconds.
        scale: see there.
        is_unsigned: whether a number is never less than 0.
        choices: the texts that are values, where no others are.
        charset: which characters its texts have, and how these are compared, as its database calls that.
    """

    name: str
    kind: str
    type: str
    needs_value: bool = False
    has_default: bool = False
    is_written: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    is_unsigned: bool = False
    choices: tuple[str, ...] = ()
    charset: tuple[str, str] | None = None

    def to_json(self) -> str:
        """Give everything but the name as JSON, for the note of a staging table."""
        return json.dumps({key: value for key, value in vars(self).items() if key != "name"})

    @classmethod
    def from_json(cls, name: str, text: str) -> TargetColumn:
        """Give the column that `to_json` has described."""
        found = json.loads(text)
        charset = found.pop("charset")
        return cls(
            name=name,
            **{**found, "choices": tuple(found["choices"]), "charset": None if charset is None else tuple(charset)},
        )


@dataclass(frozen=True)
class Constraint:
    """A constraint on records: unique among the rows of a table, backed by a row of another table, or a condition.

    Args:
        kind: `unique`, `foreign key` or `check`.
        name: its name.
        columns: the columns that it is about.
        other: of foreign keys, the table that has to have the row, as statements have it.
        others: the columns there.
        text: of checks, the condition on columns of the record.
        collations: how the values of each column are compared, where that is not as the column says.
        nulls_are_equal: of unique indexes, whether a null equals another one (`NULLS NOT DISTINCT`).
        is_full: of foreign keys, whether either all columns are null or none (`MATCH FULL`).
        keys: of unique indexes whose values only the database computes or compares, these values as SQL has them, made
            of `columns`; empty where the values are those of the columns.
        condition: of these indexes, the condition on columns for rows that they are about; empty where it is about all.
        prefixes: of unique indexes that compare only the first characters of some columns, how many of each; 0: all.
        is_of_columns: of unique indexes, whether they are about the values of columns in all rows.
    """

    kind: str
    name: str
    columns: tuple[str, ...]
    other: str = ""
    others: tuple[str, ...] = ()
    text: str = ""
    collations: tuple[str, ...] = ()
    nulls_are_equal: bool = False
    is_full: bool = False
    keys: tuple[str, ...] = ()
    condition: str = ""
    prefixes: tuple[int, ...] = ()
    is_of_columns: bool = True

    def is_decided_by(self, written: Sequence[str], key: tuple[str, ...], *, replaces: bool) -> bool:
        """Whether records with some columns tell, before they are in the table.

        Args:
            written: the columns of the records.
            key: the key columns of an upsert; empty otherwise.
            replaces: whether the table's rows go.
        """
        if not set(self.columns) <= set(written):
            return False
        # The rows that an upsert changes have its key; a replacement leaves no rows.
        return self.kind != "unique" or not (replaces or self.is_of(key))

    def is_of(self, columns: Collection[str]) -> bool:
        """Whether it is a unique index of just these columns, about all rows."""
        return set(self.columns) == set(columns) and self.is_of_columns

    def asked_for(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of records that tell."""
        more = key if self.kind == "unique" else ()
        return tuple(dict.fromkeys([*self.columns, *more]))

    def refusing(self, relation: str, key: tuple[str, ...], quoted: Callable[[str], str] = quoted) -> str:
        """The condition of records, `r`, that it refuses.

        Args:
            relation: the table, as statements have it.
            key: the key columns of an upsert; empty otherwise.
            quoted: how the database quotes names.
        """
        if self.kind == "check":
            return f"NOT ({self.text})"
        if self.keys:
            return self._refusing_computed(relation, key, quoted)
        pairs = [
            (f"t.{quoted(there)}", f"r.{quoted(here)}")
            for there, here in zip(self.others or self.columns, self.columns, strict=True)
        ]
        if self.prefixes:
            pairs = [
                (f"LEFT({there}, {count})", f"LEFT({here}, {count})") if count else (there, here)
                for (there, here), count in zip(pairs, self.prefixes, strict=True)
            ]
        compared = [f"{there} = {here}" for there, here in pairs]
        if self.collations:
            compared = [f"{each} COLLATE {name}" for each, name in zip(compared, self.collations, strict=True)]
        if self.nulls_are_equal:
            both_null = (f"t.{quoted(name)} IS NULL AND r.{quoted(name)} IS NULL" for name in self.columns)
            compared = [f"({each} OR ({nulls}))" for each, nulls in zip(compared, both_null, strict=True)]
        equal = " AND ".join(compared)
        if self.kind == "unique":
            same = " AND ".join(f"t.{quoted(name)} = r.{quoted(name)}" for name in key)
            return f"EXISTS (SELECT 1 FROM {relation} t WHERE {equal}{f' AND NOT ({same})' if same else ''})"
        given = " AND ".join(f"r.{quoted(name)} IS NOT NULL" for name in self.columns)
        missing = f"NOT EXISTS (SELECT 1 FROM {self.other} t WHERE {equal})"
        if self.is_full and len(self.columns) > 1:
            nulls = " AND ".join(f"r.{quoted(name)} IS NULL" for name in self.columns)
            return f"NOT ({nulls}) AND (NOT ({given}) OR {missing})"
        return f"{given} AND {missing}"

    def computed(self, quoted: Callable[[str], str] = quoted) -> dict[str, str]:
        """The names of the computed values in statements, each with its SQL expression."""
        return {quoted(f"$key{at}"): text for at, text in enumerate(self.keys)}

    def _refusing_computed(self, relation: str, key: tuple[str, ...], quoted: Callable[[str], str]) -> str:
        computed = self.computed(quoted)
        values = ", ".join([*(f"{text} AS {name}" for name, text in computed.items()), *map(quoted, key)])
        about = f" WHERE {self.condition}" if self.condition else ""
        compared = [f"t.{name} = r.{name}" for name in computed]
        if self.nulls_are_equal:
            compared = [f"({each} OR (t.{name} IS NULL AND r.{name} IS NULL))" for each, name in
                        zip(compared, computed, strict=True)]  # fmt: skip
        same = " AND ".join(f"t.{quoted(name)} = r.{quoted(name)}" for name in key)
        compared += [f"NOT ({same})"] if same else []
        exists = f"EXISTS (SELECT 1 FROM (SELECT {values} FROM {relation}{about}) t WHERE {' AND '.join(compared)})"
        return f"({self.condition}) AND {exists}" if self.condition else exists

    @property
    def why(self) -> str:
        """The reason why a record is refused, as messages have it."""
        named = f"{self.kind} '{self.name}'"
        match self.kind:
            case "unique":
                return f"the table has a row with this value already ({named})"
            case "foreign key":
                full = "; its columns have values together or not at all" if self.is_full else ""
                return f"table {self.other} has no row with this value ({named}{full})"
            case _:
                return f"{named} does not hold: {self.text}"


@dataclass(frozen=True)
class Target:
    """A table that takes records.

    Args:
        name: its name in messages.
        relation: its name as statements have it, with its schema.
        schema: the schema that staging tables are made in.
        columns: its columns.
        keys: the key columns of an upsert, as the pipeline has them.
        constraints: the constraints on records, including references to other tables.
        place: the connection by which tasks ask about records; None where they do not ask.
        engine: which package has the rules of its database (`scan/connections.py:ENGINES`).
        most_bytes: the most bytes that a statement with the values of a record may have; None where nothing says so.
        seen: a text that identifies the database, where tasks may not see it.
        unique_indexes: its unique indexes, whoever may read it.
    """

    name: str
    relation: str
    schema: str
    columns: tuple[TargetColumn, ...]
    keys: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    place: Connection | None = None
    engine: str = "postgres"
    most_bytes: int | None = None
    seen: str = ""
    unique_indexes: tuple[Constraint, ...] = ()


def kind_of(found: pa.DataType) -> str:
    """The kind of a column's values: `bool`, `int`, `float`, `decimal`, `date`, `moment`, `list`, or else `text`."""
    import pyarrow as pa

    for name, test in (
        ("bool", pa.types.is_boolean), ("int", pa.types.is_integer), ("float", pa.types.is_floating),
        ("date", pa.types.is_date), ("moment", pa.types.is_timestamp), ("list", pa.types.is_list),
        ("decimal", pa.types.is_decimal),
    ):  # fmt: skip
        if test(found):
            return name
    return "text"


def problems(target: Target, written: pa.Schema, takes: Callable[[TargetColumn, pa.DataType], bool]) -> list[str]:
    """Why a table does not take records with some columns; nothing where it does.

    Args:
        target: the table.
        written: the columns of the records.
        takes: whether the database puts values of a type into a column.
    """
    known = {column.name: column for column in target.columns}
    found = []
    for field in written:
        column = known.get(field.name)
        if column is None:
            hint = nearest.hint(field.name, known)
            found.append(f"table {target.name} has no column '{field.name}'{f'; {hint}' if hint else ''}")
        elif not column.is_written:
            found.append(f"column '{field.name}' of table {target.name} is computed by the database")
        elif not takes(column, field.type):
            found.append(
                f"column '{field.name}' of table {target.name} is {column.type}, and the records have {field.type}"
            )
    names = set(written.names)
    found += [
        f"column '{column.name}' of table {target.name} needs a value, and the records have none"
        for column in target.columns
        if column.needs_value and not column.has_default and column.is_written and column.name not in names
    ]
    missing = [key for key in target.keys if key not in names]
    found += [f"`key` names '{key}', which is not among the columns to write" for key in missing]
    return found


def refuse_following(table: str, following: Sequence[tuple[str, str]]) -> None:
    """Refuse to replace the rows of a table where rows of other tables would go, or change, with them.

    Args:
        table: its name in messages.
        following: the referring tables, each with the action of its foreign key, such as `CASCADE`.

    Raises:
        Unfit: there are some.
    """
    if following:
        shown = ", ".join(f"{other} (ON DELETE {rule})" for other, rule in following)
        raise format.UnwritableFile(
            f"`mode: replace` removes all rows of table {table}, and with them rows of other tables would go or lose "
            f"what they refer to: {shown}; use `mode: upsert`, or a foreign key without this action"
        )

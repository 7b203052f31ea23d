"""Columns of an output with a format schema: their selection, order and form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import schema, types
from spark_jobs.nodes.records.columns import UNDECLARED, value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.rules.declared import Rules
    from spark_jobs.nodes.output.step import OutputColumn, OutputStep

#: The types with a date format. Their column contains texts, in this format.
_DATES = (types.Kind.DATE, types.Kind.DATETIME)


@dataclass(frozen=True)
class Shape:
    """A field of the format schema.

    Args:
        name: the column, as `mapping` names it.
        label: its name in the file.
        type: the type to which its values are converted; None keeps their type.
        form: the format of its dates, with the names of the pipeline's language.
        is_required: a record without a value is an error.
        rules: constraints on its values, and the values that stand for null.
        scale: the number of digits after the decimal point to which its numbers are rounded.
        keeps_decimals: Decimals keep their scale, whatever `type` is: the schema says `decimal`.
    """

    name: str
    label: str
    type: types.Type | None = None
    form: str | None = None
    is_required: bool = False
    rules: Rules | None = None
    scale: int | None = None
    keeps_decimals: bool = False

    def value_type(self, static: types.Type) -> types.Type:
        """The type to which values of a column type are converted."""
        if static.kind is types.Kind.DECIMAL and (self.type is None or self.keeps_decimals):
            return static if self.scale is None else types.decimal_of(None, self.scale)
        return self.type or static

    def written(self, static: types.Type) -> types.Type:
        """The type that is written for a column type."""
        found = self.value_type(static)
        return types.STRING.or_null() if self.form is not None and found.kind in _DATES else found.or_null()


def arranged(columns: Sequence[OutputColumn], shapes: Sequence[Shape] | None) -> tuple[OutputColumn, ...]:
    """The columns of a format schema, in its order, with their names and types in the file."""
    if shapes is None:
        return tuple(columns)
    by_name = {column.name: column for column in columns}
    chosen = ((by_name[shape.name], shape) for shape in shapes if shape.name in by_name)
    return tuple(
        replace(column, name=shape.label, type=shape.written(column.type), shape=shape, read=column.type)
        for column, shape in chosen
    )


@dataclass(frozen=True)
class Written:
    """A column of the file.

    Args:
        source: the record's column; None if it has none.
        name: its name in the file.
        read: the type of the record's column.
        type: the type in the file.
        shape: its field of the format schema; None if that asks for nothing.
    """

    source: str | None
    name: str
    read: types.Type
    type: types.Type
    shape: Shape | None = None


#: The remedy if two columns would have the same name.
TAKEN_HELP = "write it under another name by `mapping`, or leave it out by `exclude`"


def name_taken_message(name: str, source: str | None) -> str:
    """The message that a column is not written because `source`, or a declared column, takes its name."""
    if source is None:
        return f"the column '{name}' of the files is not written: another one is called so"
    return f"the column '{name}' is not written: `mapping` gives its name to '{source}'"


def written_columns(step: OutputStep, undeclared: Sequence[str], kind: types.Type) -> list[Written]:
    """The columns that are written, in order, each name once.

    Undeclared columns, all of type `kind`, follow the others unless their name is already taken. `exclude` and
    `mapping` apply to them too, and a name given by `mapping` replaces a column with that name. A format schema decides
    the order, and may add columns that no record has. The columns of a header come last.
    """
    late, hidden = _undeclared(step, undeclared)
    found = [
        Written(one.source, one.name, one.read or one.type, one.type, one.shape)
        for one in step.columns
        if _plain_name(one) not in hidden
    ]
    appended = [Written(UNDECLARED.of(source), name, kind, kind) for name, source in late.items()]
    if step.shapes is None:
        found += appended
    else:
        known = {one.name: one for one in found}
        by_name = {one.name: one for one in appended}
        found = [known.get(shape.label) or _late(shape, by_name.get(shape.name)) for shape in step.shapes]
    found += [Written(value(path), value(path), static, static) for path, static in step.header]
    return found


def takes_all(step: OutputStep, undeclared: Sequence[str], kind: types.Type) -> bool:
    """True if every record that reaches an output can be written: none fails there."""
    found = written_columns(step, undeclared, kind)
    return all(one.shape is None for one in found) and step.options.takes_all([one.type for one in found])


def left_out(step: OutputStep, undeclared: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The columns that are not written because of undeclared ones in the files or beside them; see `taken`."""
    late, hidden = _undeclared(step, undeclared)
    yield from hidden.items()
    written = {*late.values()}
    mapped = dict(step.mapping)
    for name in _reaching(step, undeclared):
        if name not in written:
            yield name, mapped.get(name)


def _plain_name(column: OutputColumn) -> str:
    """The column's name before a format schema renames it."""
    return column.shape.name if column.shape else column.name


def _reaching(step: OutputStep, undeclared: Sequence[str]) -> list[str]:
    """The undeclared columns that are neither left out by name nor declared."""
    present = {column.source for column in step.columns}
    return [name for name in undeclared if step.writes_undeclared and name not in present and name not in step.exclude]


def _undeclared(step: OutputStep, undeclared: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The undeclared columns that are written, by their names in the file, and declared ones whose names they take."""
    there = _reaching(step, undeclared)
    declared = {_plain_name(column) for column in step.columns}
    given = {name: source for name, source in step.mapping if source in there}
    names: dict[str, list[str]] = {}
    for name, source in given.items():
        names.setdefault(source, []).append(name)
    found = {}
    for source in there:
        own = names.get(source, [] if source in given or source in declared else [source])
        found.update(dict.fromkeys(own, source))
    return found, {name: source for name, source in given.items() if name in declared}


def _late(shape: Shape, found: Written | None) -> Written:
    """The column of a field that no schema declares: an undeclared column of the files, or one that is always null."""
    read = types.STRING.or_null() if found is None else found.read
    return Written(found.source if found else None, shape.label, read, shape.written(read), shape)


def file_schema(columns: Sequence[Written]) -> schema.Schema:
    """The columns of the file."""
    return schema.Schema(tuple(schema.Column(one.name, one.type) for one in columns))


def takes_undeclared(shapes: Sequence[Shape] | None, columns: Sequence[Any]) -> bool:
    """True if undeclared columns are written: there is no format schema, or it has fields that are no columns."""
    return shapes is None or len(columns) < len(shapes)

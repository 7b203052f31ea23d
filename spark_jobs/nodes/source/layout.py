"""The columns of a source from all keys that declare them: `format_schema`, `schema`, `schema_overrides`.

`schema_overrides` takes precedence. It patches a format schema that stands in a file of its own, and so also the
columns that are read by it. A patch drops a field, changes the keys that it names, or appends a field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import nearest
from spark_jobs.formats import registry
from spark_jobs.formats.format import SourceColumn
from spark_jobs.formats.rules import declared as rules
from spark_jobs.formats.spelling import USUAL
from spark_jobs.nodes import formats
from spark_jobs.nodes.formats import LAYOUT_TYPES, Layout, LayoutField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.source.model import SourceColumnConfig, SourceConfig


#: Types that undeclared fields may have besides text.
_TYPED = (Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.DATE, Kind.DATETIME)


@dataclass(frozen=True)
class Mistake:
    """A mistake in a patch: its number, the key at fault (None for the whole patch), and a remedy."""

    patch: int
    key: str | None
    message: str
    help: str | None = None


@dataclass(frozen=True)
class Change:
    """A column that a patch made, changed or dropped."""

    column: str
    patch: int
    dropped: bool = False


@dataclass(frozen=True)
class Declared:
    """The resolved declarations of a source.

    Args:
        columns: the columns in order.
        layout: the patched format schema, templates filled in; None if there is none.
        changes: the last change by `schema_overrides` of each column.
        mistakes: the patches that cannot be applied. They are ignored.
    """

    columns: tuple[SourceColumn, ...]
    layout: Layout | None = None
    changes: tuple[Change, ...] = ()
    mistakes: tuple[Mistake, ...] = ()


def declared(config: SourceConfig, layout: Layout | None) -> Declared:
    """The columns of a source, and its layout after `schema_overrides`.

    Args:
        config: the source.
        layout: its parsed format schema; None if there is none or it is broken.
    """
    own = tuple(map(_declared, config.columns or ()))
    if layout is None:
        return Declared(own)
    has_places = registry.named(config.type).layout is not None
    patched = _Patched(layout)
    for number, patch in enumerate(config.schema_overrides or ()):
        patched.apply(number, patch, {column.name for column in own})
    result = patched.layout()
    fields = {one.name: one for one in reversed(result.all_fields)}
    names = [one.name for one in result.all_fields]
    if config.columns is None:
        columns = [_column(fields[name], has_places) for name in dict.fromkeys(names)]
    else:
        kept = [column for column in own if column.name in fields or column.name not in patched.dropped]
        columns = [_refined(column, fields.get(column.name), patched.said, has_places) for column in kept]
        known = {column.name for column in own}
        more = patched.appended - known
        columns += [_column(fields[name], has_places) for name in dict.fromkeys(names) if name in more]
    return Declared(tuple(columns), result, _changes(patched, columns), tuple(patched.mistakes))


def _declared(column: SourceColumnConfig) -> SourceColumn:
    return SourceColumn(
        column.name,
        column.type,
        column.required,
        tuple(column.format or ()),
        zone=column.timezone,
        spelling=replace(USUAL, **column.spelling) if column.spelling else USUAL,
    )


def _changes(patched: _Patched, columns: Sequence[SourceColumn]) -> tuple[Change, ...]:
    names = {column.name for column in columns}
    made = [Change(name, patch) for name, patch in patched.last.items() if name in names]
    gone = [Change(name, patch, True) for name, patch in patched.dropped.items() if name not in names]
    return tuple(sorted((*made, *gone), key=lambda change: change.patch))


def _column(one: LayoutField, has_places: bool) -> SourceColumn:
    """The column of a field. If fields have positions, the reader handles their defaults and decimal points."""
    keys = dict(one)
    if has_places:
        keys["default"] = None
    return SourceColumn(
        name=one.name,
        type=formats.column_type_of(one),
        required=bool(one.required) and keys["default"] is None,
        formats=_formats(one),
        alias=one.alias if one.path is None else key_of(one.path),
        rules=rules.of(keys, is_pointed=not has_places),
        zone=one.timezone,
    )


def _formats(one: LayoutField) -> tuple[str, ...]:
    return () if one.format is None else (one.format,)


def undeclared(declared: Declared) -> tuple[SourceColumn, ...]:
    """The fields with positions that are no columns and have another type than text, as columns."""
    if declared.layout is None:
        return ()
    known = {column.key for column in declared.columns}
    fields = {one.alias or one.name: one for one in reversed(declared.layout.all_fields)}
    kinds = {name: LAYOUT_TYPES[one.type or "string"] for name, one in fields.items() if name not in known}
    return tuple(
        SourceColumn(name, kind, formats=_formats(fields[name]), zone=fields[name].timezone)
        for name, kind in kinds.items()
        if kind.kind in _TYPED
    )


def key_of(path: str) -> str:
    """The flat name of a nested value: `$.a.b`, `/a/b` and `a/b` are `a.b`."""
    return path.removeprefix("$").strip("./").replace("/", ".")


def _refined(
    column: SourceColumn, one: LayoutField | None, said: dict[str, set[str]], has_places: bool
) -> SourceColumn:
    """A column of `schema:` changed by patches, with keys that `schema:` leaves out taken from the field."""
    if one is None:
        return column
    patched = said.get(column.name, set())
    from_field = _column(one, has_places)
    is_filled = from_field.rules is not None and from_field.rules.default is not None
    return SourceColumn(
        column.name,
        from_field.type if "type" in patched else column.type,
        from_field.required if "required" in patched else from_field.required or (column.required and not is_filled),
        from_field.formats if "format" in patched else column.formats or from_field.formats,
        from_field.alias,
        from_field.rules,
        from_field.zone if "timezone" in patched else column.zone or from_field.zone,
        column.spelling,
    )


@dataclass
class _Patched:
    """A layout while patches are applied to it."""

    original: Layout
    groups: dict[str | None, list[LayoutField]] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    #: The number of each field's last patch, the same for dropped fields, and the keys that patches set.
    last: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    appended: set[str] = field(default_factory=set)
    said: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.original.records is None:
            self.groups[None] = list(self.original.fields_ or ())
        for record in self.original.records or ():
            self.groups[record.tag] = list(record.fields)

    @property
    def _tags(self) -> list[str]:
        return [str(tag) for tag in self.groups]

    def apply(self, number: int, patch: LayoutField, own: set[str]) -> None:
        """Apply a patch. `own` are the columns that `schema:` declares."""
        mistake = self._mistake(number, patch, own)
        if mistake is not None:
            self.mistakes.append(mistake)
            return
        fields = self.groups[patch.record]
        at = next((index for index, one in enumerate(fields) if one.name == patch.name), None)
        if patch.drop:
            if at is not None:
                del fields[at]
            self.dropped[patch.name] = number
            self.said.pop(patch.name, None)
            self.appended.discard(patch.name)
            return
        said = {key: value for key, value in patch if value is not None and key not in ("drop", "record", "name")}
        self.last[patch.name] = number
        self.said.setdefault(patch.name, set()).update(said)
        if at is None:
            self.appended.add(patch.name)
            fields.append(patch.model_copy(update={"drop": None, "record": None}))
        else:
            fields[at] = fields[at].model_copy(update=_consistent(said))

    def _mistake(self, number: int, patch: LayoutField, own: set[str]) -> Mistake | None:
        what = f"schema_overrides: field '{patch.name}'"
        if patch.record is not None and self.original.records is None:
            message = f"{what}: `record` is for format schemas with `records`; this one has `fields`"
            return Mistake(number, "record", message, "remove `record`")
        if patch.record is None and self.original.records is not None:
            message = f"{what}: the format schema has several kinds of records, and `record` says which"
            return Mistake(number, None, message, f"add `record:` with one of {', '.join(self._tags)}")
        if patch.record not in self.groups:
            message = f"{what}: no record has the tag `{patch.record}`"
            known = f"tags: {', '.join(self._tags)}"
            return Mistake(number, "record", message, nearest.hint(str(patch.record), self._tags) or known)
        if patch.inherits is not None and patch.inherits not in (self.original.defs or {}):
            message = f"{what} inherits `{patch.inherits}`, which is not among `defs`"
            return Mistake(number, "inherits", message, nearest.hint(patch.inherits, self.original.defs or {}))
        names = [one.name for one in self.groups[patch.record]]
        if patch.drop and patch.name not in names and (patch.record is not None or patch.name not in own):
            message = f"schema_overrides: cannot drop field '{patch.name}' — not found in schema"
            return Mistake(number, "name", message, nearest.hint(patch.name, names))
        return None

    def layout(self) -> Layout:
        """The format schema with all patches applied and templates filled in."""
        if self.original.records is None:
            return formats.with_templates(self.original.model_copy(update={"fields_": self.groups[None]}))
        records = [one.model_copy(update={"fields": self.groups[one.tag]}) for one in self.original.records]
        return formats.with_templates(self.original.model_copy(update={"records": records}))


def _consistent(said: dict[str, Any]) -> dict[str, Any]:
    """The values that a patch sets. A width replaces an end, and an end replaces a width."""
    for key, other in (("width", "end"), ("end", "width")):
        if key in said:
            return {**said, other: None}
    return said

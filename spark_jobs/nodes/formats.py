"""The configuration of formats: their names under `type:`, the models of their `options:`, and format schemas.

Each format and its options are declared in its package in `formats/`.
"""

from __future__ import annotations

import types as python_types
import typing
from dataclasses import fields
from encodings import aliases
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, create_model

from spark_jobs import limits
from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.formats import options as declared
from spark_jobs.formats import registry
from spark_jobs.formats.rules import declared as rules
from spark_jobs.nodes import model
from spark_jobs.nodes.binding import report
from spark_jobs.nodes.model import Config, Flag, Name, Text, Texts, Timezone, choice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel
    from pydantic_core import PydanticCustomError

    from spark_jobs.formats.format import Format
    from spark_jobs.nodes.binding import BindScope

#: The words under `type:` of sources and outputs.
FormatName = StrEnum("FormatName", {name: name for name in registry.formats()})  # type: ignore[misc]  # known when it runs
_USUAL_ENCODINGS = ("utf-8", "utf-16", "latin-1", "windows-1252")
#: The models used so far.
_MODELS: dict[type[declared.Options], type[Config]] = {}
_WORDS: dict[Any, Any] = {str: Text, bool: Flag, declared.Name: Name}


def model_of(options: type[declared.Options]) -> type[Config]:
    """The model that checks `options:`, made from the dataclass that readers and writers use."""
    if options not in _MODELS:
        _MODELS[options] = _model(options)
    return _MODELS[options]


def _model(options: type[Any]) -> type[Config]:
    hints = typing.get_type_hints(options, include_extras=True)
    members: dict[str, Any] = {one.name: (_kind(hints[one.name]), one.default) for one in fields(options)}
    about = (options.__doc__ or "").partition("\n")[0]
    made: type[Config] = create_model(options.__name__, __base__=Config, __doc__=about, **members)
    return made


def _kind(hint: Any) -> Any:
    """The model type for values of an option."""
    if hint in _WORDS:
        return _WORDS[hint]
    words = declared.Words()
    if typing.get_origin(hint) is Annotated:
        hint, words = typing.get_args(hint)
    if isinstance(words, declared.OneOrMore):
        return Texts
    if isinstance(words, declared.Between):
        return Annotated[int, *model.bounds(words.minimum, words.maximum)]
    if typing.get_origin(hint) in (typing.Union, python_types.UnionType):
        inner, _ = typing.get_args(hint)
        return _kind(Annotated[inner, words] if words != declared.Words() else inner) | None
    if typing.get_origin(hint) is tuple:
        return list[_kind(typing.get_args(hint)[0])]  # type: ignore[misc]
    return choice(hint, words.among, **dict(words.spellings))


def parts(
    values: Mapping[str, Any], layout_key: str, options: Callable[[Format], type[declared.Options]]
) -> dict[tuple[str | int, ...], type[Config]]:
    """The models of `options:` and of the format schema, if the format is known."""
    format = registry.formats().get(str(values.get("type")))
    found: dict[tuple[str | int, ...], type[Config]] = {("options",): model_of(options(format))} if format else {}
    if values.get(layout_key) is not None:
        found[layout_key,] = Layout
    return found


def checked_options(options: type[declared.Options], written: BaseModel | None, layout: Any = None) -> Any:
    """Checked options as the dataclass that readers and writers use.

    If the options set no encoding, the format schema may set it.
    """
    values = dict(written) if written else {}
    if _says_encoding(options, written, layout):
        values["encoding"] = layout.encoding
    return options(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _says_encoding(options: type[declared.Options], written: BaseModel | None, layout: Any) -> bool:
    """True if the format schema sets the encoding of the files."""
    if not isinstance(layout, Layout) or layout.encoding is None or not options.has_encoding():
        return False
    return written is None or "encoding" not in written.model_fields_set


def check(options: type[declared.Options], scope: BindScope, layout_key: str) -> None:
    """Report problems of the options of a source or an output.

    Args:
        options: the options of the format.
        scope: the node.
        layout_key: the node's key for its format schema.
    """
    written, layout = scope.part("options"), scope.part(layout_key)
    found = checked_options(options, written, layout)
    for key, message in found.problems():
        help_text = _encoding_help(str(found.encoding)) if key == "encoding" else None
        is_of_layout = key == "encoding" and _says_encoding(options, written, layout)
        place = (layout_key,) if is_of_layout else ("options", key)
        report(scope, codes.E007, f"`{key}`: {message}", "config", *place, help=help_text)


def _encoding_help(written: str) -> str:
    proposed = nearest.nearest(written, (*_USUAL_ENCODINGS, *aliases.aliases))
    if proposed and declared.encoding_problem(proposed) is None:
        return f"did you mean `{proposed}`?"
    return f"{', '.join(f'`{name}`' for name in _USUAL_ENCODINGS)} and Python's other names of text encodings are known"


#: The types of layout fields, and the types of their columns.
LAYOUT_TYPES: dict[str, types.Type] = {
    "string": types.STRING,
    "integer": types.INT,
    "float": types.FLOAT,
    "decimal": types.FLOAT,
    "boolean": types.BOOL,
    "date": types.DATE,
    "datetime": types.DATETIME,
    "object": types.MAP,
    "array": types.ARRAY,
    "int": types.INT,
    "bool": types.BOOL,
    "date_time": types.DATETIME,
    "number": types.FLOAT,
}


def column_type_of(field: LayoutField) -> types.Type:
    """The type of the column for a field of a format schema. A Decimal has the scale of the field."""
    if field.type == "decimal" and model.decimals_are_exact():
        return types.decimal_of(None, field.scale)
    return LAYOUT_TYPES[field.type or "string"]


_Place = Annotated[int, *model.bounds(0, limits.LAYOUT_BYTES)]
_Width = Annotated[int, *model.bounds(1, limits.LAYOUT_BYTES)]
_Digits = Annotated[int, *model.bounds(0, limits.NUMBER_DIGITS)]


class LayoutField(Config):
    """A field of a format schema."""

    name: Name
    type: Text | None = None
    required: Flag | None = None
    format: Text | None = None
    timezone: Timezone | None = None
    coerce: Any = None
    default: Any = None
    enum: list[Any] | None = None
    alias: Text | None = None
    inherits: Text | None = None
    start: _Place | None = None
    width: _Width | None = None
    end: _Width | None = None
    justify: choice(StrEnum("Justify", {"LEFT": "left", "RIGHT": "right"})) | None = None  # type: ignore[valid-type]
    pad: Text | None = None
    trim: Flag | None = None
    truncation: choice(StrEnum("Truncation", {"ERROR": "error", "WARN": "warn", "SILENT": "silent"})) | None = None  # type: ignore[valid-type]
    precision: _Digits | None = None
    scale: _Digits | None = None
    path: Text | None = None
    drop: Flag | None = None
    record: Text | None = None
    description: Text | None = None

    @model.model_validator(mode="after")
    def _fits(self) -> LayoutField:
        if self.type is not None and self.type not in LAYOUT_TYPES:
            raise unfit_layout(f"field `{self.name}`: `{self.type}` is none of {', '.join([*LAYOUT_TYPES][:9])}")
        if self.width is not None and self.end is not None:
            raise unfit_layout(f"field `{self.name}`: width and end exclude each other")
        return self


class Discriminator(Config):
    """The place or the field that identifies the kind of a record in a multi-record file."""

    start: _Place | None = None
    width: _Width | None = None
    field: Text | None = None


class LayoutRecord(Config):
    """A kind of record in a multi-record file."""

    id: Name
    tag: Text
    description: Text | None = None
    parent: Text | None = None
    join_key: Text | None = None
    fields: list[LayoutField]


class LayoutGroup(Config):
    """The number of times that a kind of record occurs."""

    record: Name
    count: Text | None = None


def _named(templates: Any) -> Any:
    """Templates as fields: the key of each is its name."""
    if not isinstance(templates, dict):
        return templates
    return {key: {"name": key, **one} if isinstance(one, dict) else one for key, one in templates.items()}


class Layout(Config):
    """A format schema: the fields of a fixed-width record by position."""

    version: Text | None = None
    format: Text | None = None
    encoding: Text | None = None
    description: Text | None = None
    defs: Annotated[dict[str, LayoutField], BeforeValidator(_named)] | None = None
    fields_: list[LayoutField] | None = model.Field(None, alias="fields")
    records: list[LayoutRecord] | None = None
    discriminator: Discriminator | None = None
    structure: list[LayoutGroup] | None = None

    @model.model_validator(mode="after")
    def _one_kind(self) -> Layout:
        if self.fields_ is not None and self.records is not None:
            raise unfit_layout("schema cannot have both 'fields' and 'records' at the top level")
        if self.fields_ is None and self.records is None:
            raise unfit_layout("schema must have either 'fields' (single-record) or 'records' (multi-record)")
        if self.records is not None and self.discriminator is None:
            raise unfit_layout("multi-record schema requires a 'discriminator' section")
        for template in (self.defs or {}).values():
            if template.inherits is not None:
                message = f"defs entry '{template.name}' cannot use 'inherits': inherits chains are not allowed"
                raise unfit_layout(message)
        for field in self.all_fields:
            if field.inherits is not None and field.inherits not in (self.defs or {}):
                raise unfit_layout(f"field `{field.name}` inherits `{field.inherits}`, which is not among `defs`")
            if field.drop is not None or field.record is not None:
                raise unfit_layout(f"field `{field.name}`: `drop` and `record` are for `schema_overrides`")
        return self

    @property
    def all_fields(self) -> list[LayoutField]:
        """The fields of all kinds of records, in order."""
        return [*(self.fields_ or ()), *(field for record in self.records or () for field in record.fields)]


def with_templates(layout: Layout) -> Layout:
    """A format schema whose fields have inherited the keys of their templates."""
    templates = layout.defs or {}
    if layout.records is None:
        fields = [_filled(one, templates) for one in layout.fields_ or ()]
        return layout.model_copy(update={"fields_": fields, "defs": None})
    records = [
        one.model_copy(update={"fields": [_filled(field, templates) for field in one.fields]}) for one in layout.records
    ]
    return layout.model_copy(update={"records": records, "defs": None})


def _filled(one: LayoutField, templates: Mapping[str, LayoutField]) -> LayoutField:
    """A field that takes the keys it does not set from its template."""
    if one.inherits is None:
        return one
    template = templates[one.inherits]
    taken = {key: value for key, value in template if value is not None and getattr(one, key) is None}
    if one.width is not None or one.end is not None:
        taken = {key: value for key, value in taken.items() if key not in ("width", "end")}
    return one.model_copy(update={**taken, "inherits": None})


def check_layout(layout: Layout, format: Format, scope: BindScope, key: str) -> None:
    """Report keys of a format schema that its format does not support.

    Positions and fillers are ignored in files with named fields, so one format schema can serve both.

    Args:
        layout: the format schema, templates filled in.
        format: the format of the files.
        scope: the node.
        key: the node's key for its format schema.
    """
    complain = partial(_complain, scope, key)
    if format.layout is None and (layout.records is not None or layout.discriminator is not None):
        complain(
            f"several kinds of records are told apart by their places, and {format.title} records have none",
            "declare the fields of all kinds under `fields`, and distinguish the kinds in CXL",
        )
    if layout.encoding is not None and not format.read_options.has_encoding():
        complain(f"`encoding` is one of texts, and {format.title} files have none", "remove it")
    nesting = [layout.structure, *(value for each in layout.records or () for value in (each.parent, each.join_key))]
    if any(value is not None for value in nesting):
        complain(
            "`structure`, `parent` and `join_key` relate records to one another, but a source reads each independently",
            "remove them, and join the records with a combine",
        )
    for field in layout.all_fields:
        what = f"field `{field.name}`"
        if field.coerce is not None:
            complain(f"{what}: `coerce` is not known: values always get the type of their column", "remove it")
        if field.path is not None and not (format.has_arrays and key == "format_schema"):
            complain(
                f"{what}: `path` leads into nested records, which are read of JSON and XML", "use `alias` for a name"
            )
        elif field.path is not None and field.alias is not None:
            complain(f"{what}: `path` and `alias` both say where the value is", "keep one of them")


def check_rules(layout: Layout, format: Format, kinds: Mapping[str, types.Type], scope: BindScope, key: str) -> None:
    """Report keys of a format schema that the types of their columns, in `kinds`, do not allow."""
    for field in layout.all_fields:
        if (kind := kinds.get(field.name)) is None:
            continue
        for wrong, message in rules.problems(dict(field), kind, (field.format,) if field.format else ()):
            if wrong != "scale" or format.layout is None:
                _complain(
                    scope, key, f"field `{field.name}`: {message}", f"change `{wrong}`, or the type of the column"
                )


def _complain(scope: BindScope, key: str, message: str, help: str) -> None:
    node = f"{'source' if key == 'format_schema' else 'output'} '{scope.name}'"
    report(scope, codes.E224, f"{node}: {message}", "config", key, help=help)


def unfit_layout(message: str) -> PydanticCustomError:
    """The error for an invalid format schema."""
    return model.unfit(message)

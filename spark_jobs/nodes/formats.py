"""The `options:` of each format as users write them, for sources and for outputs."""

from __future__ import annotations

from dataclasses import dataclass
from encodings import aliases
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.formats import options as format_options
from spark_jobs.formats.csv.options import CsvOptions, csv_problems
from spark_jobs.formats.json.options import JsonLayout, JsonOptions, json_problems
from spark_jobs.nodes import model
from spark_jobs.nodes.binding import report
from spark_jobs.nodes.model import Config, Flag, Name, Natural, Positive, Text, choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from pydantic_core import PydanticCustomError

    from spark_jobs.nodes.binding import BindScope


class Format(StrEnum):
    """The formats of sources and outputs."""

    CSV = "csv"
    JSON = "json"
    XML = "xml"
    FIXED_WIDTH = "fixed_width"
    EDIFACT = "edifact"
    X12 = "x12"


#: Formats whose files are read, and those that are written; the others bind and explain only.
READABLE = frozenset({Format.CSV, Format.JSON})
WRITABLE = frozenset({Format.CSV, Format.JSON})
_USUAL_ENCODINGS = ("utf-8", "utf-16", "latin-1", "windows-1252")


class LineSeparator(StrEnum):
    """What stands between fixed-width records."""

    LF = "lf"
    CR_LF = "cr_lf"
    NONE = "none"


class Namespaces(StrEnum):
    """What becomes of XML namespace prefixes."""

    STRIP = "strip"
    QUALIFY = "qualify"


class CsvRead(Config):
    """`options:` of a CSV source."""

    delimiter: Text = ","
    quote_char: Text = '"'
    has_header: Flag = True
    encoding: Text = "utf-8"


class CsvWrite(Config):
    """`options:` of a CSV output."""

    delimiter: Text = ","
    quote_char: Text = '"'
    encoding: Text = "utf-8"


class JsonRead(Config):
    """`options:` of a JSON source."""

    format: choice(JsonLayout) | None = None  # type: ignore[valid-type]
    record_path: Text | None = None
    encoding: Text = "utf-8"


class JsonWriteLayout(StrEnum):
    """How records are written: one array, or one object per line."""

    ARRAY = "array"
    NDJSON = "ndjson"


class JsonWrite(Config):
    """`options:` of a JSON output."""

    format: choice(JsonWriteLayout) | None = None  # type: ignore[valid-type]
    pretty: Flag = False
    encoding: Text = "utf-8"


class XmlRead(Config):
    """`options:` of an XML source."""

    record_path: Text | None = None
    attribute_prefix: Text = "@"
    namespace_handling: choice(Namespaces) = Namespaces.STRIP  # type: ignore[valid-type]
    encoding: Text | None = None


class XmlWrite(Config):
    """`options:` of an XML output."""

    root_element: Name = "Root"
    record_element: Name = "Record"
    encoding: Text = "utf-8"


class FixedWidthRead(Config):
    """`options:` of a fixed-width source."""

    line_separator: choice(LineSeparator, crlf="cr_lf") = LineSeparator.LF  # type: ignore[valid-type]
    encoding: Text = "utf-8"


class FixedWidthWrite(FixedWidthRead):
    """`options:` of a fixed-width output."""


class EdiRead(Config):
    """`options:` of an EDIFACT or X12 source."""

    max_elements: Positive = 32
    encoding: Text = "utf-8"


class EdifactWrite(Config):
    """`options:` of an EDIFACT output."""

    interchange: list[Text] | None = None
    interchange_from_doc: Name | None = None
    message_type: Text | None = None
    write_una: Flag = False
    segment_newline: Flag = True
    encoding: Text = "utf-8"


class X12Write(Config):
    """`options:` of an X12 output."""

    interchange: list[Text] | None = None
    interchange_from_doc: Name | None = None
    group_header: list[Text] | None = None
    set_type: Text | None = None
    segment_newline: Flag = True
    encoding: Text = "utf-8"


READ: dict[Format, type[Config]] = {
    Format.CSV: CsvRead,
    Format.JSON: JsonRead,
    Format.XML: XmlRead,
    Format.FIXED_WIDTH: FixedWidthRead,
    Format.EDIFACT: EdiRead,
    Format.X12: EdiRead,
}
WRITE: dict[Format, type[Config]] = {
    Format.CSV: CsvWrite,
    Format.JSON: JsonWrite,
    Format.XML: XmlWrite,
    Format.FIXED_WIDTH: FixedWidthWrite,
    Format.EDIFACT: EdifactWrite,
    Format.X12: X12Write,
}


@dataclass(frozen=True)
class PlainOptions:
    """Checked options of a format that has no dataclass of its own in `formats/options.py` yet, by key."""

    values: tuple[tuple[str, Any], ...] = ()


def parts(
    options: Mapping[Format, type[Config]], values: Mapping[str, Any], layout_key: str
) -> dict[tuple[str | int, ...], type[Config]]:
    """The models of `options:` and of the format schema, as far as the format is known."""
    written = values.get("type")
    known = isinstance(written, str) and written in set(Format)
    found: dict[tuple[str | int, ...], type[Config]] = {("options",): options[Format(str(written))]} if known else {}
    if values.get(layout_key) is not None:
        found[layout_key,] = Layout
    return found


def frozen(format: Format, options: BaseModel | None) -> Any:
    """The options as the dataclass that readers and writers take."""
    values = dict(options) if options else {}
    match format:
        case Format.CSV:
            return CsvOptions(**values)
        case Format.JSON:
            layout = values.pop("format", None)
            return JsonOptions(format=JsonLayout(str(layout)) if layout else None, **values)
        case _:
            return PlainOptions(tuple((key, str(v) if isinstance(v, StrEnum) else v) for key, v in values.items()))


def check(format: Format, scope: BindScope) -> None:
    """Report what is wrong with the options of a source or an output."""
    options = frozen(format, scope.part("options"))
    for key, message in problems(options):
        help_text = None
        if key == "encoding":
            help_text = _encoding_help(str(_encoding(options)))
        report(scope, codes.E007, f"`{key}`: {message}", "config", "options", key, help=help_text)


def problems(options: Any) -> list[tuple[str, str]]:
    """What is wrong with frozen options: pairs of an option's key and a message."""
    match options:
        case CsvOptions():
            return csv_problems(options)
        case JsonOptions():
            return json_problems(options)
        case _:
            encoding = _encoding(options)
            problem = format_options.encoding_problem(encoding) if encoding else None
            return [("encoding", problem)] if problem else []


def _encoding_help(written: str) -> str:
    proposed = nearest.nearest(written, (*_USUAL_ENCODINGS, *aliases.aliases))
    if proposed and format_options.encoding_problem(proposed) is None:
        return f"did you mean `{proposed}`?"
    return f"{', '.join(f'`{name}`' for name in _USUAL_ENCODINGS)} and Python's other names of text encodings are known"


def _encoding(options: Any) -> str | None:
    found: str | None = dict(options.values).get("encoding") if isinstance(options, PlainOptions) else options.encoding
    return found


#: The types of layout fields, and the types of columns that they give.
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


class LayoutField(Config):
    """A field of a format schema (spec/formats.md 6.1)."""

    name: Name
    type: Text | None = None
    required: Flag | None = None
    format: Text | None = None
    coerce: Any = None
    default: Any = None
    enum: list[Any] | None = None
    alias: Text | None = None
    inherits: Text | None = None
    start: Natural | None = None
    width: Positive | None = None
    end: Positive | None = None
    justify: choice(StrEnum("Justify", {"LEFT": "left", "RIGHT": "right"})) | None = None  # type: ignore[valid-type]
    pad: Text | None = None
    trim: Flag | None = None
    truncation: choice(StrEnum("Truncation", {"ERROR": "error", "WARN": "warn", "SILENT": "silent"})) | None = None  # type: ignore[valid-type]
    precision: Natural | None = None
    scale: Natural | None = None
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
    """What tells the records of a multi-record file apart."""

    start: Natural | None = None
    width: Positive | None = None
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
    """How often a kind of record occurs."""

    record: Name
    count: Text | None = None


def _named(templates: Any) -> Any:
    """Templates as fields, which have names."""
    if not isinstance(templates, dict):
        return templates
    return {key: {"name": key, **one} if isinstance(one, dict) else one for key, one in templates.items()}


class Layout(Config):
    """A format schema: the fields of a fixed-width record by position (spec/formats.md 6.1)."""

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


def unfit_layout(message: str) -> PydanticCustomError:
    """The error for a format schema that makes no sense."""
    return model.unfit(message)

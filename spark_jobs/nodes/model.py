"""Types for configuration models: strict values, with all accepted spellings.

YAML's own types count: a quoted `"5"` is no number, but a plain `5` is accepted where a text is expected. Messages are
complete sentences. `plan/reading/reader.py` turns each into a diagnostic at the value's place. A custom error whose
type is a diagnostic's code becomes that diagnostic.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from spark_jobs.cxl import decimals, types
from spark_jobs.cxl.dates import zones
from spark_jobs.diagnostics import nearest
from spark_jobs.formats import registry
from spark_jobs.nodes.terms.sort import NullOrder, SortField

__all__ = ["Field", "model_validator"]

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E", bound=StrEnum)


class Config(BaseModel):
    """A mapping of the pipeline file: frozen, and unknown keys are errors."""

    # A command uses few of the models, so a validator is built when it is first used.
    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, arbitrary_types_allowed=True, defer_build=True
    )


class NodeConfig(Config):
    """The `config:` of a node, with facts that are needed before any node is bound."""

    @property
    def is_init(self) -> bool:
        """True if the node runs before everything else."""
        return False

    @property
    def sets(self) -> tuple[str, ...]:
        """The paths of the variables that the node sets."""
        return ()

    @property
    def collects(self) -> bool:
        """True if the node collects whole records in arrays."""
        return False

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The nodes that the node reads besides its inputs, as `node` or `node.port`."""
        return ()


def unfit(message: str, code: str = "E007") -> PydanticCustomError:
    """The error for a value that does not fit. `code` is the diagnostic's code."""
    return PydanticCustomError(code, "{message}", {"message": message})


def kind_of(value: Any) -> str:
    """A description of a YAML value for messages."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"the number `{getattr(value, 'text', value)}`"
        case str():
            return f"the text `{value}`" if len(value) <= 40 and "\n" not in value else "a text"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(getattr(value, "text", value))
    if value is None:
        raise unfit("expected a text, found nothing: YAML reads `null` and `~` so; put the word in quotes")
    raise unfit(f"expected a text, found {kind_of(value)}")


def _name(value: Any) -> str:
    text = _text(value)
    if not text.strip():
        raise unfit("a name must not be empty")
    return text


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise unfit(f"expected `true` or `false`, found {kind_of(value)}")


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise unfit(f"expected a whole number, found {kind_of(value)}")


def _number(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise unfit("the number is too large")
        return float(value)
    raise unfit(f"expected a number, found {kind_of(value)}")


def _constant(value: Any) -> bool | int | float | str:
    """A scalar as a CXL constant."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise unfit(f"{kind_of(value)} is beyond the 64 bits of an Int")
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    raise unfit(f"expected a text, a number, `true` or `false`, found {kind_of(value)}")


def _at_least(minimum: int, maximum: int | None = None) -> Any:
    def check(value: Any) -> int:
        number = _integer(value)
        if number < minimum:
            raise unfit(f"must be at least {minimum}, found {number}")
        if maximum is not None and number > maximum:
            raise unfit(f"must be at most {maximum}, found {number}")
        return number

    return BeforeValidator(check)


#: Text may be any YAML scalar, also in the JSON schema for editors.
_SCALAR = WithJsonSchema({"type": ["string", "number", "boolean"]})
Text = Annotated[str, BeforeValidator(_text), _SCALAR]
Name = Annotated[
    str,
    BeforeValidator(_name),
    Field(min_length=1),
    WithJsonSchema({"type": ["string", "number", "boolean"], "minLength": 1}),
]
Flag = Annotated[bool, BeforeValidator(_flag)]
Integer = Annotated[int, BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number)]
Constant = Annotated[bool | int | float | str, PlainValidator(_constant, json_schema_input_type=bool | float | str)]
Positive = Annotated[int, _at_least(1), Field(json_schema_extra={"minimum": 1})]
Natural = Annotated[int, _at_least(0), Field(json_schema_extra={"minimum": 0})]


def bounds(minimum: int, maximum: int) -> tuple[Any, Any]:
    """A validator and a schema for whole numbers with lower and upper bounds."""
    return _at_least(minimum, maximum), Field(json_schema_extra={"minimum": minimum, "maximum": maximum})


#: The seed of a random number generator: 64 bits.
Seed = Annotated[int, *bounds(0, 2**64 - 1)]


def choice(options: type[E], among: tuple[str, ...] | None = None, /, **aliases: str) -> Any:
    """A word of an enumeration, or of some of its words. `aliases` are other spellings: `datetime="date_time"`."""
    words = [str(option) for option in options if among is None or option in among]

    def check(value: Any) -> E:
        if isinstance(value, options):
            return value
        word = _text(value)
        word = aliases.get(word, word)
        if word not in words:
            raise unfit(_not_among(word, words))
        return options(word)

    schema = {"type": "string", "enum": [*words, *aliases]}
    return Annotated[options, BeforeValidator(check), WithJsonSchema(schema)]


#: The words that other tools use for column types and strategies.
_WORDS_ELSEWHERE = {
    **dict.fromkeys(("integr", "whole", "bigint", "smallint", "tinyint", "long", "int32", "int64", "serial"), "int"),
    **dict.fromkeys(("number", "money", "currency", "double", "real", "float32", "float64"), "float"),
    **dict.fromkeys(("varchar", "nvarchar", "char", "text", "object", "uuid"), "string"),
    **dict.fromkeys(("datetime64", "datetime2", "timestamptz", "timestamp_ntz"), "date_time"),
    **dict.fromkeys(("bit", "logical"), "bool"),
    **dict.fromkeys(("list", "struct_array"), "array"),
    **dict.fromkeys(("struct", "record", "jsonb", "variant"), "map"),
    **dict.fromkeys(("abort", "stop", "fail"), "fail_fast"),
    **dict.fromkeys(("skip", "dlq", "ignore"), "continue"),
}


def _not_among(word: str, words: list[str]) -> str:
    small = word.lower()
    known = _WORDS_ELSEWHERE.get(small) or next(
        (one.name for one in registry.formats().values() if small in one.known_as), None
    )
    proposal = f"did you mean `{known}`?" if known in words else nearest.hint(word, words)
    allowed = ", ".join(f"`{known}`" for known in words)
    return f"`{word}` is none of {allowed}" + (f"; {proposal}" if proposal else "")


_DURATION = re.compile(r"\s*(\d{1,12})\s*(ms|s|m|h|d)\s*")
_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"\s*(\d{1,18})\s*(B|KB|MB|GB)?\s*")
_SIZE_UNITS = {None: 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_MEMORY = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)


def duration_s(value: Any) -> float:
    """A duration in seconds: a whole number with `ms`, `s`, `m`, `h` or `d`."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise unfit(f"expected a duration like `30s`, `5m` or `1h`, found {kind_of(value)}", "E214")
    return int(found.group(1)) * _UNIT_SECONDS[found.group(2)]


def _positive_duration_s(value: Any) -> float:
    seconds = duration_s(value)
    if seconds <= 0:
        raise unfit("the duration must be longer than nothing", "E214")
    return seconds


def size_bytes(value: Any) -> int:
    """A size in bytes: a whole number, or one with `B`, `KB`, `MB`, `GB` (decimal)."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise unfit(f"expected a size like `500`, `64KB` or `10MB`, found {kind_of(value)}", "E215")
    return int(found.group(1)) * _SIZE_UNITS[found.group(2)]


def memory_bytes(value: Any) -> int:
    """An amount of memory in bytes: a whole number, or one with `K`, `M`, `G`, `T` (binary)."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return int(value)
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    size = int(float(found.group(1)) * 1024 ** " KMGT".index(found.group(2).upper() or " ")) if found else 0
    if size <= 0:
        raise unfit(f"expected an amount of memory like `512M` or `2G`, found {kind_of(value)}", "E215")
    return size


_BOUND = re.compile(r"(\d{1,12})(s|m|h|d)")


def time_bound(value: Any) -> float:
    """A moment in POSIX seconds: a duration before now, or an RFC 3339 timestamp with its offset."""
    text = _text(value)
    found = _BOUND.fullmatch(text)
    if found:
        return datetime.now(UTC).timestamp() - int(found.group(1)) * _UNIT_SECONDS[found.group(2)]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or "T" not in text.upper():
        raise unfit(
            f"expected an age like `7d` or a moment like `2026-01-31T00:00:00Z`, found {kind_of(value)}", "E214"
        )
    return moment.timestamp()


_DURATION_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^\s*\d+\s*(ms|s|m|h|d)\s*$"})
Duration = Annotated[float, BeforeValidator(duration_s), _DURATION_SCHEMA]
PositiveDuration = Annotated[float, BeforeValidator(_positive_duration_s), _DURATION_SCHEMA]
_SIZE_SCHEMA = WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]})
Size = Annotated[int, BeforeValidator(size_bytes), _SIZE_SCHEMA]
Memory = Annotated[int, BeforeValidator(memory_bytes), _SIZE_SCHEMA]
TimeBound = Annotated[float, BeforeValidator(time_bound), WithJsonSchema({"type": "string"})]


def _fraction(value: Any) -> float:
    number = _number(value)
    if not 0 < number <= 1:
        raise unfit(f"{number:g} is out of range; must be in (0.0, 1.0]", "E318")
    return number


Fraction = Annotated[float, BeforeValidator(_fraction), Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": 1})]


def _timezone(value: Any) -> str:
    try:
        return zones.zone(_text(value))
    except ValueError as problem:
        raise unfit(str(problem)) from None


#: The name of a time zone whose data exists (`cxl/dates/zones.py`).
Timezone = Annotated[str, BeforeValidator(_timezone), WithJsonSchema({"type": "string"})]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) or value is None else [value]


#: A list of names, or a single one.
Names = Annotated[
    list[Name],
    BeforeValidator(_listed, json_schema_input_type=Name | Annotated[list[Name], Field(min_length=1)]),
    Field(min_length=1),
]


#: A list of texts, or a single one.
Texts = Annotated[
    list[Text],
    BeforeValidator(_listed, json_schema_input_type=Text | Annotated[list[Text], Field(min_length=1)]),
    Field(min_length=1),
]


class Order(StrEnum):
    """The directions of sorting."""

    ASC = "asc"
    DESC = "desc"


class SortFieldConfig(Config):
    """A field of `sort_order` or `sort_by`, as users write it."""

    field: Name
    order: choice(Order) = Order.ASC  # type: ignore[valid-type]
    null_order: choice(NullOrder) = NullOrder.LAST  # type: ignore[valid-type]

    def of_type(self, type: types.Type | None) -> SortField:
        """The field in the form that steps use. The type is None if no schema declares the column."""
        return SortField(self.field, type, self.order is Order.DESC, self.null_order)


_SQL_ORDER = re.compile(r"(\S+)\s+(asc|desc)", re.IGNORECASE)


def _sort_fields(value: Any) -> Any:
    if not isinstance(value, list):
        value = [value]
    for item in value:
        if isinstance(item, str) and (found := _SQL_ORDER.fullmatch(item)) is not None:
            raise unfit(f"`{item}`: write `{{ field: {found[1]}, order: {found[2].lower()} }}`")
    return [{"field": item} if isinstance(item, str) else item for item in value]


_SortField = SortFieldConfig | Name
SortFields = Annotated[
    list[SortFieldConfig], BeforeValidator(_sort_fields, json_schema_input_type=_SortField | list[_SortField])
]

#: The words for types, in schemas and variables alike. The second half are other spellings.
TYPE_WORDS: dict[str, types.Type] = {
    "string": types.STRING,
    "int": types.INT,
    "float": types.FLOAT,
    "bool": types.BOOL,
    "date": types.DATE,
    "date_time": types.DATETIME,
    "array": types.ARRAY,
    "map": types.MAP,
    "numeric": types.NUMERIC,
    "any": types.ANY,
    "null": types.NULL,
}
TYPE_SPELLINGS: dict[str, str] = {
    "datetime": "date_time",
    "timestamp": "date_time",
    "integer": "int",
    "boolean": "bool",
    "str": "string",
    "object": "map",
    "decimal": "float",
}
#: A Decimal with its precision and scale.
_DECIMAL = re.compile(r"(?:decimal|numeric)\(\s*([0-9]{1,3})\s*(?:,\s*([0-9]{1,3})\s*)?\)", re.IGNORECASE)
#: The beginning of a Decimal type that a flow mapping without quotes cut at its comma.
_CUT_DECIMAL = re.compile(r"(?:decimal|numeric)\(\s*[0-9]+", re.IGNORECASE)
#: A type of SQL with its size: `decimal(10,2)`.
_SIZED = re.compile(r"(?:decimal|numeric|number|float|varchar|char|int)\s*\([\s0-9,]*\)", re.IGNORECASE)
_DECIMAL_PATTERN = r"^(nullable\(\s*)?(decimal|numeric)\(\s*[0-9]+\s*(,\s*[0-9]+\s*)?\)(\s*\))?$"
_NULLABLE = re.compile(r"nullable\(\s*(\w+|(?:decimal|numeric)\([0-9,\s]*\))\s*\)", re.IGNORECASE)


_DECIMALS_ARE_EXACT: ContextVar[bool] = ContextVar("decimals are exact", default=False)


@contextmanager
def exact_decimals(is_exact: bool) -> Iterator[None]:
    """While it lasts, the word `decimal` is the exact type and no word for `float`: a workspace may say so."""
    token = _DECIMALS_ARE_EXACT.set(is_exact)
    try:
        yield
    finally:
        _DECIMALS_ARE_EXACT.reset(token)


def decimals_are_exact() -> bool:
    """True if the word `decimal` is the exact type."""
    return _DECIMALS_ARE_EXACT.get()


def column_type(value: Any) -> types.Type:
    """A type as users write it: a word, `nullable(word)` or `{nullable: word}`."""
    if isinstance(value, types.Type):
        return value
    if isinstance(value, dict):
        if set(value) != {"nullable"}:
            raise unfit("a type is a word, `nullable(word)` or `{nullable: word}`")
        return column_type(value["nullable"]).or_null()
    if value is None:
        return types.NULL
    word = _text(value)
    inner = _NULLABLE.fullmatch(word)
    if inner:
        return column_type(inner.group(1)).or_null()
    if word == "decimal" and decimals_are_exact():
        return types.DECIMAL
    word = TYPE_SPELLINGS.get(word, word)
    if (digits := _DECIMAL.fullmatch(word)) is not None:
        return _decimal(word, int(digits.group(1)), int(digits.group(2) or 0))
    if _CUT_DECIMAL.fullmatch(word):
        raise unfit(f"`{word}` ends at a comma: within `{{ }}` and `[ ]` the type needs quotes, `'decimal(12,2)'`")
    if _SIZED.fullmatch(word):
        raise unfit(
            f"`{word}`: only Decimals have digits here; write `decimal(12,2)` for exact numbers, or a plain `float`, "
            "`int` or `string`"
        )
    if word not in TYPE_WORDS:
        raise unfit(_not_among(word, list(TYPE_WORDS)))
    return TYPE_WORDS[word]


def _decimal(word: str, precision: int, scale: int) -> types.Type:
    if not 1 <= precision <= decimals.MAX_DIGITS or scale > precision:
        raise unfit(
            f"`{word}`: a Decimal has 1 to {decimals.MAX_DIGITS} digits, and no more after the point than it has in all"
        )
    return types.decimal_of(precision, scale)


ColumnType = Annotated[
    types.Type,
    BeforeValidator(column_type),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": [*TYPE_WORDS, *TYPE_SPELLINGS]},
                {"type": "string", "pattern": r"^nullable\(\s*\w+\s*\)$"},
                {"type": "string", "pattern": _DECIMAL_PATTERN},
                {"type": "object", "properties": {"nullable": {"type": "string"}}, "additionalProperties": False},
            ]
        }
    ),
]


class ColumnConfig(Config):
    """A column of `schema:`; `long_unique` is a hint that needs nothing here."""

    name: Name
    type: ColumnType
    long_unique: Flag = False
    required: Flag = False
    format: Text | None = None
    description: Text | None = None


def columns_listed(value: Any) -> Any:
    """The columns of a schema as a list, where they are a map `name: type`."""
    if not isinstance(value, dict):
        return value
    return [{"name": name, **(kind if _is_column(kind) else {"type": kind})} for name, kind in value.items()]


def _is_column(kind: Any) -> bool:
    return isinstance(kind, dict) and "type" in kind


#: A column of a schema that is a map: its type, or its keys.
MapColumn = ColumnType | Annotated[dict[str, Any], WithJsonSchema({"type": "object", "required": ["type"]})]


#: A schema: a list of `{name, type}`, or a map `name: type`.
Columns = Annotated[
    list[ColumnConfig],
    BeforeValidator(columns_listed, json_schema_input_type=list[ColumnConfig] | dict[str, MapColumn]),
]

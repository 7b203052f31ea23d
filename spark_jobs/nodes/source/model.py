"""The configuration of sources."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.spelling import Spelling
from spark_jobs.nodes import formats
from spark_jobs.nodes.model import (
    ColumnConfig,
    ColumnType,
    Config,
    Duration,
    Flag,
    MapColumn,
    Name,
    Names,
    Natural,
    NodeConfig,
    Order,
    Positive,
    Size,
    SortFields,
    Text,
    Texts,
    TimeBound,
    Timezone,
    choice,
    columns_listed,
    unfit,
)
from spark_jobs.nodes.rules.model import RuleConfig, referred_to
from spark_jobs.scan.bookmarks import Changed
from spark_jobs.scan.network.endpoint import Strategy


class SortBy(StrEnum):
    """The property by which files are sorted."""

    NAME = "name"
    CREATED = "created"
    MODIFIED = "modified"


class OnNoMatch(StrEnum):
    """The policy for patterns that match no file."""

    ERROR = "error"
    WARN = "warn"
    SKIP = "skip"


class FilesConfig(Config):
    """`files:`, the order and choice among matched files."""

    sort_by: choice(SortBy) = SortBy.NAME  # type: ignore[valid-type]
    sort_order: choice(Order) = Order.ASC  # type: ignore[valid-type]
    take_first: Natural | None = None
    take_last: Natural | None = None
    recursive: Flag = True
    on_no_match: choice(OnNoMatch) = OnNoMatch.ERROR  # type: ignore[valid-type]


class IncrementalConfig(Config):
    """`incremental:`, for sources of which each run reads only the new records."""

    changed: choice(Changed) = Changed.READ  # type: ignore[valid-type]
    column: Name | None = None
    delay: Duration | None = None


def _switched(value: Any) -> Any:
    """`true` stands for an incremental source without further keys, `false` for none."""
    if isinstance(value, bool):
        return {} if value else None
    return value


class WatermarkConfig(Config):
    """`watermark:`, the event time of the source's records."""

    column: Name
    delay: Duration | None = None
    idle_timeout: Duration | None = None


class OnUnmappedConfig(Config):
    """`on_unmapped:` in its long form."""

    mode: choice(OnUnmapped)  # type: ignore[valid-type]


def _long_form(key: str) -> Any:
    return lambda value: {key: value} if isinstance(value, str) else value


class ExtractConfig(Config):
    """The location of an envelope section in a file."""

    xml_path: Text | None = None
    json_pointer: Text | None = None
    segment: Text | None = None


class SectionConfig(Config):
    """An envelope section: its place and its fields."""

    extract: ExtractConfig
    fields_: dict[str, ColumnType] = Field(default_factory=dict, alias="fields")


class EnvelopeConfig(Config):
    """`envelope:`."""

    sections: dict[str, SectionConfig] = Field(default_factory=dict)


class ArrayMode(StrEnum):
    """The ways to read an array: as a record per element, or as one text."""

    EXPLODE = "explode"
    JOIN = "join"


class ArrayPathConfig(Config):
    """An entry of `array_paths`."""

    path: Name
    mode: choice(ArrayMode) = ArrayMode.EXPLODE  # type: ignore[valid-type]
    separator: Text = ","


class PaginationConfig(Config):
    """`pagination:` of a network source."""

    strategy: choice(Strategy) = Strategy.NONE  # type: ignore[valid-type]
    offset_param: Name = "offset"
    limit_param: Name = "limit"
    limit: Positive | None = None
    cursor_param: Name | None = None
    next_token_pointer: Text | None = None


class AuthScheme(StrEnum):
    """The ways in which requests authenticate."""

    NONE = "none"
    BEARER = "bearer"
    HEADER = "header"


class AuthConfig(Config):
    """`auth:` of a network source. The secrets never appear in messages, plans or metrics."""

    scheme: choice(AuthScheme) = AuthScheme.NONE  # type: ignore[valid-type]
    token: Text | None = Field(None, repr=False)
    name: Text | None = None
    value: Text | None = Field(None, repr=False)


def _mapping(value: Any) -> Any:
    """A mapping. Any other value may be a misplaced secret, so no message shows it."""
    if isinstance(value, (dict, AuthConfig)):
        return value
    raise unfit("expected a mapping with `scheme` and its keys")


class TransportKind(StrEnum):
    """The kinds of places from which records come."""

    FILE = "file"
    REST = "rest"


class TransportConfig(Config):
    """`transport:` in its long form."""

    kind: choice(TransportKind)  # type: ignore[valid-type]
    url: Text | None = Field(None, repr=False)
    pagination: PaginationConfig = PaginationConfig()
    auth: Annotated[AuthConfig, BeforeValidator(_mapping)] = AuthConfig()
    max_pages: Positive | None = None
    max_records: Positive | None = None
    hosts: Names | None = None
    retries: Natural = 3
    timeout_secs: Positive = 30


def _transport(value: Any) -> Any:
    """The long form of a kind. Any other text may be an address with a password, so no message shows it."""
    if not isinstance(value, str):
        return value
    if value not in list(TransportKind):
        raise unfit("expected `file`, `rest`, or a mapping with `kind: rest` and `url`")
    return {"kind": value}


class SourceColumnConfig(ColumnConfig):
    """A column of a source's `schema:`."""

    format: Texts | None = None  # type: ignore[assignment]  # several, here
    timezone: Timezone | None = None
    decimal_separator: Text | None = None
    thousands_separator: Text | None = None
    null_values: Texts | None = None
    true_values: Texts | None = None
    false_values: Texts | None = None

    @property
    def spelling(self) -> dict[str, Any]:
        """The column's declared spelling of texts."""
        written = {key.name: getattr(self, key.name) for key in fields(Spelling)}
        return {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in written.items()
            if value is not None
        }


#: The schema of a source.
SourceColumns = Annotated[
    list[SourceColumnConfig],
    BeforeValidator(columns_listed, json_schema_input_type=list[SourceColumnConfig] | dict[str, MapColumn]),
]


class SourceConfig(NodeConfig):
    """`config:` of a source."""

    name: Name | None = None
    type: choice(formats.FormatName)  # type: ignore[valid-type]
    columns: SourceColumns | None = Field(None, alias="schema")
    options: dict[str, Any] | None = None
    transport: Annotated[
        TransportConfig, BeforeValidator(_transport, json_schema_input_type=TransportConfig | choice(TransportKind))
    ] = TransportConfig(kind=TransportKind.FILE)
    path: Name | None = None
    glob: Name | None = None
    regex: Name | None = None
    paths: list[Name] | None = None
    exclude: list[Text] = Field(default_factory=list)
    modified_after: TimeBound | None = None
    modified_before: TimeBound | None = None
    min_size: Size | None = None
    max_size: Size | None = None
    files: FilesConfig = FilesConfig()
    incremental: Annotated[
        IncrementalConfig | None, BeforeValidator(_switched, json_schema_input_type=IncrementalConfig | bool)
    ] = None
    watermark: WatermarkConfig | None = None
    envelope: EnvelopeConfig | None = None
    format_schema: Any = None
    schema_overrides: list[formats.LayoutField] | None = None
    array_paths: list[ArrayPathConfig] = Field(default_factory=list)
    sort_order: SortFields = Field(default_factory=list)
    correlation_key: Names | None = None
    validations: list[RuleConfig] = Field(default_factory=list[RuleConfig])
    on_unmapped: Annotated[
        OnUnmappedConfig,
        BeforeValidator(_long_form("mode"), json_schema_input_type=OnUnmappedConfig | choice(OnUnmapped)),
    ] = OnUnmappedConfig(mode=OnUnmapped.AUTO_WIDEN)

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The nodes that its `references` rules look values up in."""
        return referred_to(self.validations)

    @property
    def matchers(self) -> tuple[str, ...]:
        """The file matchers that are set."""
        return tuple(key for key in ("path", "glob", "regex", "paths") if getattr(self, key) is not None)

"""The pipeline file's own blocks as users write them: everything but the nodes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from spark_jobs.formats import date_forms
from spark_jobs.nodes.model import (
    Config,
    Flag,
    Fraction,
    Memory,
    Name,
    Names,
    Natural,
    Number,
    Positive,
    Text,
    choice,
    unfit,
)
from spark_jobs.nodes.output.config import FanoutPolicy
from spark_jobs.plan import date_locale
from spark_jobs.plan.plan import Strategy


class Backpressure(StrEnum):
    """The original engine's answers to memory pressure; Spark has its own."""

    SPILL = "spill"
    PAUSE = "pause"
    BOTH = "both"


class MemoryConfig(Config):
    """`pipeline.memory`."""

    limit: Memory | None = None
    backpressure: choice(Backpressure) | None = None  # type: ignore[valid-type]


class ConcurrencyConfig(Config):
    """`pipeline.concurrency`."""

    threads: Positive | None = None
    chunk_size: Positive | None = None


class MetricsConfig(Config):
    """`pipeline.metrics`."""

    spool_dir: Name | None = None


def _date_format(form: str) -> str:
    problem = date_forms.format_problem(form)
    if problem:
        raise unfit(f"{problem}; write a form like `%d.%m.%Y`")
    return form


DateFormat = Annotated[Text, AfterValidator(_date_format)]


def _date_locale(locale: str) -> str:
    try:
        date_locale.header(locale)
    except ValueError as problem:
        raise unfit(f"{problem}; write a language like `de`, `fr` or `pt_BR`") from None
    return locale


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class PipelineConfig(Config):
    """`pipeline:`. `vars` has a grammar of its own (see `variables.py`)."""

    name: Name
    memory: MemoryConfig = MemoryConfig()
    batch_size: Positive | None = None
    vars: dict[str, Any] = Field(default_factory=dict)
    concurrency: ConcurrencyConfig = ConcurrencyConfig()
    metrics: MetricsConfig = MetricsConfig()
    rules_path: Name | None = None
    date_formats: Annotated[
        list[Annotated[Text, AfterValidator(_date_format)]],
        BeforeValidator(_listed, json_schema_input_type=Text | list[Text]),
    ] = Field(default_factory=list)
    date_locale: Annotated[Text, AfterValidator(_date_locale)] | None = None
    log_rules: Name | None = None
    include_provenance: Flag = False
    bookmark: Name | None = None
    description: Text | None = None


def _share(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise unfit("must be a fraction between 0.0 and 1.0", "E318")
    return float(value)


class DeadLetterSourceConfig(Config):
    """An entry of `per_source`."""

    path: Name | None = None
    max_rate: Fraction | None = None
    min_records: Natural | None = None


class DeadLetterConfig(Config):
    """`error_handling.dlq`."""

    path: Name | None = None
    include_reason: Flag = True
    include_source_row: Flag = True
    max_rate: Fraction | None = None
    min_records: Natural = 100
    per_source: dict[str, DeadLetterSourceConfig] = Field(default_factory=dict)


class ErrorHandlingConfig(Config):
    """`error_handling:`."""

    strategy: choice(Strategy, dead_letter_queue="continue") = Strategy.FAIL_FAST  # type: ignore[valid-type]
    dlq: DeadLetterConfig | None = None
    type_error_threshold: Annotated[Number, BeforeValidator(_share)] | None = None
    max_group_buffer: Natural = 100_000
    correlation_fanout_policy: choice(FanoutPolicy) = FanoutPolicy.ANY  # type: ignore[valid-type]
    correlation_key: Names | None = None

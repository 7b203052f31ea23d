"""Aggregates as users write them."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from itertools import chain
from typing import Any

from pydantic import Field

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes import member_reads
from spark_jobs.nodes.aggregate.describe import DESCRIPTION
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.aggregate.timed.time_window import Kind, TimeWindow
from spark_jobs.nodes.binding import BindScope, Bound, Feed, Flow, NodeType, Wiring, report
from spark_jobs.nodes.model import Config, Duration, Name, NodeConfig, PositiveDuration, Text, choice
from spark_jobs.nodes.records.columns import CORRELATION, UNDECLARED_MAP, group_number, inherited_keys
from spark_jobs.nodes.terms.required_columns import RequiredColumns


class StrategyHint(StrEnum):
    """The ways to group records that a user may ask for."""

    AUTO = "auto"
    HASH = "hash"
    STREAMING = "streaming"


class Tumbling(Config):
    """Windows of one length, end to end."""

    size: PositiveDuration


class Hopping(Config):
    """Windows of one length that begin every `slide`."""

    size: PositiveDuration
    slide: PositiveDuration


class Session(Config):
    """Windows that end after a pause."""

    gap: PositiveDuration


class TimeWindowConfig(Config):
    """`time_window`: exactly one of the three."""

    tumbling: Tumbling | None = None
    hopping: Hopping | None = None
    session: Session | None = None


class AggregateConfig(NodeConfig):
    """`config:` of an aggregate."""

    name: Name | None = None
    #: None if the user left it out: one group for all records, with a warning.
    group_by_written: list[Name] | None = Field(None, alias="group_by")
    cxl: Text
    strategy: choice(StrategyHint) = StrategyHint.AUTO  # type: ignore[valid-type]
    time_window: TimeWindowConfig | None = None
    allowed_lateness: Duration | None = None

    @property
    def group_by(self) -> list[str]:
        """The key columns."""
        return self.group_by_written or []


def check(config: AggregateConfig, scope: BindScope) -> None:
    """Report problems of an aggregate that do not depend on its input."""
    if config.group_by_written is None:
        message = f'aggregate "{scope.name}" has no `group_by`: all records are one group'
        report(scope, codes.W006, message, "config", help="if that is intended, write `group_by: []`")
    seen: set[str] = set()
    for index, name in enumerate(config.group_by):
        if name in seen:
            report(scope, codes.E007, f"`{name}` is in `group_by` twice", "config", "group_by", index)
        seen.add(name)
    window = config.time_window
    kinds = [kind for kind in ("tumbling", "hopping", "session") if window and getattr(window, kind)]
    if window and len(kinds) != 1:
        message = "`time_window`: exactly one of tumbling, hopping, session is needed"
        report(scope, codes.E007, message, "config", "time_window")
    if config.allowed_lateness is not None and window is None:
        message = "`allowed_lateness` belongs to a `time_window`, and there is none"
        report(scope, codes.E007, message, "config", "allowed_lateness")


def bind(config: AggregateConfig, scope: BindScope) -> Bound | None:
    """The step of an aggregate and the row of a group."""
    feed = scope.feeds[0]
    undeclared = _undeclared(config, scope, feed)
    if undeclared is None:
        return None
    if undeclared:
        lifted = feed.flow.schema.with_columns(*(Column(name, types.ANY, feed.node) for name in undeclared))
        feed = replace(feed, flow=replace(feed.flow, schema=lifted))
    program = scope.compile(
        "config", "cxl", mode=cxl_scope.Mode.AGGREGATE, flow=feed.flow, group_by=tuple(config.group_by)
    )
    _check_correlation(config, scope, feed)
    window_fits = _check_watermarks(config, scope, feed)
    ordered = _check_order(config, scope, feed)
    if not isinstance(program, typed.AggregateProgram) or not window_fits or not ordered:
        return None
    splits_by = tuple(CORRELATION.of(field) for field in feed.flow.correlation if field in config.group_by)
    mixes = len(splits_by) < len(feed.flow.correlation) and config.time_window is None
    kept = () if mixes else inherited_keys(feed.flow.schema.names, CORRELATION.keys(splits_by))
    read = _needed(config.group_by, program).union(splits_by, *kept)
    engine = [
        Column(name, column.type, scope.name)
        for name in chain(splits_by, *kept)
        if (column := feed.flow.schema.get(name))
    ]
    if mixes:
        engine.append(Column(group_number(scope.name), types.INT, scope.name))
    output = _output(config, feed.flow, program, scope.name, engine)
    streams = config.group_by and set(feed.flow.ordered_by[: len(config.group_by)]) == set(config.group_by)
    flow = feed.flow.grouped(output, feed.flow.ordered_by[: len(config.group_by)] if streams else (), scope.name)
    step = AggregateStep(
        name=scope.name,
        group_by=tuple(config.group_by),
        program=program,
        input=Schema(tuple(column for column in feed.flow.schema if column.name in read)),
        output=output,
        strategy=str(config.strategy),
        time_window=_time_window(config),
        undeclared=undeclared,
        splits_by=splits_by,
        agreed_keys=kept,
    )
    return Bound(step, {"": flow})


def _undeclared(config: AggregateConfig, scope: BindScope, feed: Feed) -> tuple[str, ...] | None:
    """The keys that are undeclared columns, with a warning for each; None if a key names no column at all."""
    complete = True
    found: list[str] = []
    known = [column.name for column in feed.flow.schema.user_columns]
    for index, name in enumerate(config.group_by):
        if name not in known and feed.flow.can_name_undeclared and not name.startswith("$"):
            found.append(name)
            message = f'aggregate "{scope.name}": `{name}` is not declared: it is null where no file has it'
            hint = nearest.column_hint(name, known) or "declare it in the schema of its source to give it a type"
            report(scope, codes.W208, message, "config", "group_by", index, help=hint)
        elif name not in known:
            complete = False
            message = f'aggregate "{scope.name}": group_by field(s) ["{name}"] not present in upstream schema'
            hint = nearest.column_hint(name, known) or "columns here: " + ", ".join(known[:12])
            report(scope, codes.E200, message, "config", "group_by", index, help=hint)
    return tuple(found) if complete else None


def _check_correlation(config: AggregateConfig, scope: BindScope, feed: Feed) -> None:
    missing = [field for field in feed.flow.correlation if field not in config.group_by]
    if config.strategy is StrategyHint.STREAMING and missing:
        message = (
            f"aggregate '{scope.name}' has `strategy: streaming` but its group_by omits the correlation-key field(s) "
            f"{', '.join(missing)}"
        )
        help_text = "use `strategy: hash` or `auto`, or add the field(s) to group_by"
        report(scope, codes.E15Y, message, "config", "strategy", help=help_text)
    ended = [field for field in feed.flow.key if field not in config.group_by]
    if ended and config.time_window is not None:
        fields = ", ".join(f"`{field}`" for field in ended)
        message = (
            f"aggregate '{scope.name}' ends the correlation key {fields}: time windows are not computed again, so a "
            "row that fails downstream of it takes none of its records along"
        )
        help_text = f"add {fields} to `group_by` to keep it"
        report(scope, codes.W007, message, "config", "group_by" if config.group_by else "time_window", help=help_text)


def _check_order(config: AggregateConfig, scope: BindScope, feed: Feed) -> bool:
    """`strategy: streaming` needs an input that is provably sorted by the keys."""
    prefix = feed.flow.ordered_by[: len(config.group_by)]
    if config.strategy is not StrategyHint.STREAMING or set(prefix) == set(config.group_by):
        return True
    keys = ", ".join(config.group_by)
    message = (
        f"aggregate '{scope.name}' declared `strategy: streaming` but its input is not sorted on group key [{keys}]"
    )
    help_text = f"declare `sort_order: [{keys}]` on the source, or use `strategy: hash`"
    report(scope, codes.E003, message, "config", "strategy", help=help_text)
    return False


def _check_watermarks(config: AggregateConfig, scope: BindScope, feed: Feed) -> bool:
    if config.time_window is None:
        return True
    without = [name for name in feed.flow.sources if not scope.has_watermark(name)]
    if without:
        listed = ", ".join(f'"{name}"' for name in without)
        message = (
            f'aggregate "{scope.name}" declares `time_window:` but the following upstream-reachable source(s) do not '
            f"declare `watermark.column`: {listed}"
        )
        help_text = "add `watermark: {column: …}` to each of them"
        report(scope, codes.E156, message, "config", "time_window", help=help_text)
    return not without


def _needed(group_by: list[str], program: typed.AggregateProgram) -> set[str]:
    arguments = {argument for call in program.calls for argument in call.arguments}
    return set(group_by) | program.before.columns | arguments


def _output(
    config: AggregateConfig, flow: Flow, program: typed.AggregateProgram, name: str, engine: list[Column]
) -> Schema:
    """Keys, emits, then engine columns."""
    keys = [column for key in config.group_by if (column := flow.schema.get(key))]
    emits = [Column(emit, kind, name) for emit, kind in program.after.emits]
    row = Schema(tuple(keys)).with_columns(*emits)
    undeclared = [Column(UNDECLARED_MAP, types.MAP, name)] if flow.has_undeclared else []
    return row.with_columns(*engine, *undeclared)


def _time_window(config: AggregateConfig) -> TimeWindow | None:
    late = config.allowed_lateness or 0.0
    match config.time_window:
        case TimeWindowConfig(tumbling=Tumbling(size=size)):
            return TimeWindow.of_seconds(Kind.TUMBLING, size, size, late)
        case TimeWindowConfig(hopping=Hopping(size=size, slide=slide)):
            return TimeWindow.of_seconds(Kind.HOPPING, size, slide, late)
        case TimeWindowConfig(session=Session(gap=gap)):
            return TimeWindow.of_seconds(Kind.SESSION, gap, 0, late)
        case _:
            return None


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    """Keys and arguments are read whole; other columns only as far as the program before grouping reads them."""
    arguments = {name for call in step.program.calls for name in call.arguments}
    whole = RequiredColumns(frozenset(step.input.names)).only(arguments.union(step.keys, *step.agreed_keys))
    found = whole | member_reads.read(step.program.before)
    return (found | RequiredColumns(frozenset(step.input.names).difference(found.names)),)


NODE = NodeType("aggregate", Wiring.ONE, AggregateConfig, bind, _reads, DESCRIPTION, check=check)

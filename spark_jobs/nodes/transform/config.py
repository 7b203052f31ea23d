"""The configuration of transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import Field

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.cxl.syntax import names
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.source import Text as Text_
from spark_jobs.nodes import program_reads
from spark_jobs.nodes.binding import BindScope, Bound, Flow, NodeType, Wiring, emitted_schema, report
from spark_jobs.nodes.model import (
    ColumnType,
    Config,
    Constant,
    Flag,
    Name,
    NodeConfig,
    Positive,
    SortFields,
    Text,
    choice,
)
from spark_jobs.nodes.terms.required_columns import RequiredColumns
from spark_jobs.nodes.transform import log_lines
from spark_jobs.nodes.transform.describe import DESCRIPTION
from spark_jobs.nodes.transform.phases import Window
from spark_jobs.nodes.transform.step import TransformStep, Validation
from spark_jobs.nodes.windows import decompose
from spark_jobs.nodes.windows.call import Match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.source import Span


class Severity(StrEnum):
    """The consequence of a failed check: the record fails, or the run warns."""

    ERROR = "error"
    WARN = "warn"


class ValidationConfig(Config):
    """An entry of `validations`."""

    name: Name | None = None
    field: Name | None = None
    check: Text
    args: dict[Name, Constant] | None = None
    severity: choice(Severity) = Severity.ERROR  # type: ignore[valid-type]
    message: Text | None = None

    @property
    def rule(self) -> str:
        """The rule's name in dead letters."""
        return self.name or (f"{self.field}:{self.check}" if self.field else self.check)


class Phase(StrEnum):
    """The phase in which a node runs."""

    RUNTIME = "runtime"
    INIT = "init"


class VariableScope(StrEnum):
    """The lifetime of a variable."""

    PIPELINE = "pipeline"
    SOURCE = "source"
    RECORD = "record"


class DeclareConfig(Config):
    """An entry of `declares`: a scoped variable."""

    name: Name
    scope: choice(VariableScope)  # type: ignore[valid-type]
    type: ColumnType
    default: Any = None


class WindowConfig(Config):
    """`analytic_window`."""

    source: Name | None = None
    group_by: list[Name] = Field(default_factory=list)
    sort_by: SortFields = Field(default_factory=list)
    on: Text | None = None
    requires_buffer_recompute: Flag = False


class TransformConfig(NodeConfig):
    """`config:` of a transform."""

    name: Name | None = None
    cxl: Text
    analytic_window: WindowConfig | None = None
    log: list[log_lines.LogConfig] = Field(default_factory=list)
    validations: list[ValidationConfig] = Field(default_factory=list)
    declares: list[DeclareConfig] = Field(default_factory=list)
    phase: choice(Phase) = Phase.RUNTIME  # type: ignore[valid-type]
    max_expansion: Positive = 10_000
    batch_size: Positive | None = None

    @property
    def is_init(self) -> bool:
        return self.phase is Phase.INIT

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The source of an `analytic_window` over another source."""
        window = self.analytic_window
        return (window.source,) if window is not None and window.source is not None else ()


def check(config: TransformConfig, scope: BindScope) -> None:
    """Report problems of a transform that do not depend on its input."""
    log_lines.check(config.log, scope)


def bind(config: TransformConfig, scope: BindScope) -> Bound | None:
    """The step of a transform and the row that it produces."""
    feed = scope.feeds[0]
    window = _window(config.analytic_window, scope) if config.analytic_window else None
    if config.analytic_window and window is None:
        return None
    program = scope.compile(
        "config",
        "cxl",
        mode=cxl_scope.Mode.TRANSFORM,
        flow=feed.flow,
        window=window.scope if window else None,
        max_expansion=config.max_expansion,
    )
    if not isinstance(program, typed.Program) or (window and not window.is_complete):
        return None
    row = emitted_schema(feed.flow.schema, program, scope.name)
    written = {name for name, _ in program.emits}
    kept_order = not written & set(feed.flow.ordered_by) and not _has_distinct(program.statements)
    # Without any emit nothing is selected, and an output writes all columns.
    flow = feed.flow.with_row(row, frozenset(written) or None, in_order=kept_order)
    validations = [_validation(index, entry, scope, flow) for index, entry in enumerate(config.validations)]
    directives = [log_lines.directive(index, entry, scope, flow) for index, entry in enumerate(config.log)]
    if window:
        if not _holds_values(program, window.scope.row, scope):
            return None
        fields, system_values = _window_fields(program), _window_values(program)
        window = replace(window, step=replace(window.step, fields=fields, values=system_values))
        if not _comes_apart(program, window.step, scope):
            return None
    step = TransformStep(
        name=scope.name,
        program=program,
        validations=tuple(v for v in validations if v),
        log=tuple(directive for directive in directives if directive),
        max_expansion=config.max_expansion,
        window=window.step if window else None,
    )
    return Bound(step, {"": flow})


def _has_distinct(statements: tuple[typed.Statement, ...]) -> bool:
    return any(isinstance(statement, typed.Distinct) for statement in statements)


def _window_fields(program: typed.Program) -> frozenset[str]:
    """The columns that window functions of a program read."""
    calls = [part for part in program_reads.parts(program) if isinstance(part, typed.WindowCall)]
    return frozenset(name for call in calls for name, _ in _call_fields(call))


def _window_values(program: typed.Program) -> frozenset[str]:
    """The system values that window functions of a program read, by path."""
    calls = [part for part in program_reads.parts(program) if isinstance(part, typed.WindowCall)]
    return frozenset(path for call in calls for path in program_reads.system(call))


def _call_fields(call: typed.WindowCall) -> Iterator[tuple[str, tuple[int, int]]]:
    """The columns that a window function reads, with their places in the program."""
    if call.field is not None:
        yield call.field, call.place
    for part in program_reads.parts(call):
        if isinstance(part, typed.Column):
            yield part.name, part.place


def _holds_values(program: typed.Program, row: Schema, scope: BindScope) -> bool:
    """True unless a window function reads an array made by `match: collect`, which is reported."""
    text = scope.text("config", "cxl")
    holds = True
    for call in program_reads.parts(program):
        for name, place in _call_fields(call) if isinstance(call, typed.WindowCall) else ():
            holds = not _note_collected(row.get(name), text.span(*place), scope) and holds
    return holds


def _comes_apart(program: typed.Program, window: Window, scope: BindScope) -> bool:
    """True unless a window function inside a loop reads the loop's element, which is reported."""
    try:
        decompose.decomposed(program, dict(window.types), in_frame=window.source is None)
    except decompose.Unbound as found:
        message = f"`{found.name}` is an element of an array: a window function has no value of it for the record"
        help_text = "unpack the array in a transform upstream"
        scope.add(codes.E200.at(scope.text("config", "cxl").span(*found.place), message, help=help_text))
        return False
    return True


def _note_collected(column: Column | None, span: Span, scope: BindScope) -> bool:
    """True if a column holds the matches of a combine, which is reported."""
    if column is None or column.type.kind is not types.Kind.ARRAY or not scope.collects(column.origin):
        return False
    message = (
        f"windowed transform '{scope.name}' references field '{column.name}' typed as Array; the combine "
        f"'{column.origin}' collects its matches in it"
    )
    help_text = "unpack the array with `emit each`, or combine with `match: all`"
    scope.add(codes.E150E.at(span, message, help=help_text))
    return True


def _window(config: WindowConfig, scope: BindScope) -> _BoundWindow | None:
    """The bound window. It ranges over the input's rows, or over the rows of `source` if that is set.

    None if it has no rows. Despite other mistakes it is returned, so that programs can be checked.
    """
    feed = scope.feeds[0]
    rows = scope.source_flow(config.source) if config.source else feed.flow
    if rows is None:
        message = f'transform "{scope.name}": analytic_window.source "{config.source}" is no declared source'
        hint = nearest.hint(config.source or "", scope.sources) or f"sources here: {', '.join(scope.sources) or 'none'}"
        report(scope, codes.E003, message, "config", "analytic_window", "source", help=hint)
        return None
    if config.on is not None and config.source is None:
        message = (
            f"windowed transform '{scope.name}' has no rows to range over: `on: {config.on}` looks them up in another "
            "source, and `source` does not say in which"
        )
        help_text = "add `source:`, or remove `on` for a window over the input"
        report(scope, codes.E150D, message, "config", "analytic_window", "on", help=help_text)
        return None
    complete = True
    wanted: list[tuple[str, tuple[str | int, ...]]]
    wanted = [(name, ("group_by", index)) for index, name in enumerate(config.group_by)]
    wanted += [(field.field, ("sort_by", index, "field")) for index, field in enumerate(config.sort_by)]
    for name, path in wanted:
        column = rows.schema.get(name)
        if column is None:
            complete = False
            producer = config.source or feed.node
            message = (
                f"windowed transform '{scope.name}' references field '{name}' that the upstream operator '{producer}' "
                "does not emit"
            )
            report(
                scope, codes.E150B, message, "config", "analytic_window", *path, help=f"emit `{name}` in `{producer}`"
            )
        elif _note_collected(column, scope.span("config", "analytic_window", *path), scope):
            complete = False
    matches = _matches(config, scope, rows) if config.source and complete else ()
    kinds = {column.name: column.type.or_null() for column in rows.schema.user_columns}
    step = Window(
        group_by=tuple(config.group_by),
        sort_by=tuple(each.of_type(kinds.get(each.field)) for each in config.sort_by),
        source=rows.sources[0] if config.source else None,
        matches=matches or (),
        types=tuple(kinds.items()),
    )
    complete = complete and matches is not None
    return _BoundWindow(cxl_scope.WindowScope(Schema(rows.schema.user_columns)), step, complete)


@dataclass(frozen=True)
class _BoundWindow:
    """A window in two forms: the scope that programs are checked against, and the executable window if it is valid."""

    scope: cxl_scope.WindowScope
    step: Window
    is_complete: bool


def _matches(config: WindowConfig, scope: BindScope, rows: Flow) -> tuple[Match, ...] | None:
    """The columns of the record and of the source that must be equal; None if one is missing, which is reported.

    `on` is a column that both have, or an equality of one column of each. The other fields of `group_by` are matched
    with the record's columns of the same names. The record needs these if `on` does not name them.
    """
    row = scope.feeds[0].flow.schema
    pairs: list[tuple[str, str, tuple[str | int, ...]]] = []
    if config.on is not None:
        parts = [part.strip() for part in config.on.split("==")]
        here, there = (part.rpartition(".")[2] for part in (parts[0], parts[-1]))
        if len(parts) > 2 or row.get(here) is None:
            _missing(here, scope, ("on",))
            return None
        if rows.schema.get(there) is None and config.group_by:
            there = config.group_by[0]
        pairs.append((here, there, ("on",)))
    taken = {there for _, there, _ in pairs}
    for index, name in enumerate(config.group_by):
        if name not in taken and (config.on is None or row.get(name) is not None):
            pairs.append((name, name, ("group_by", index)))
    found = []
    for here, there, path in pairs:
        one, other = row.get(here), rows.schema.get(there)
        if one is None or other is None:
            _missing(here if one is None else there, scope, path)
            return None
        found.append(Match(here, one.type.or_null(), there, other.type.or_null()))
    return tuple(found)


def _missing(name: str, scope: BindScope, path: tuple[str | int, ...]) -> None:
    message = (
        f"windowed transform '{scope.name}' references field '{name}' that the upstream operator "
        f"'{scope.feeds[0].node}' does not emit"
    )
    report(scope, codes.E150B, message, "config", "analytic_window", *path)


def _validation(index: int, entry: ValidationConfig, scope: BindScope, after: Flow) -> Validation | None:
    path = ("config", "validations", index, "check")
    named = _named_check(entry, after)
    text = scope.text(*path)
    if named is not None:
        text = Text_(named, text.file, ((0, scope.span(*path).start),))
    if entry.args and named is not None:
        message = f"validation '{entry.rule}': the check `{entry.check.strip()}` takes no `args`"
        scope.add(codes.W003.at(scope.key_span("config", "validations", index, "args"), message))
    program = scope.compile_text(
        text, mode=cxl_scope.Mode.VALUE, flow=after, expected=types.BOOL, constants=entry.args or {}
    )
    if program is None:
        return None
    message = entry.message or f"validation '{entry.rule}' failed"
    return Validation(entry.rule, program, entry.severity is Severity.ERROR, message)


def _named_check(entry: ValidationConfig, after: Flow) -> str | None:
    """The expression behind a check's name; None if the check is already an expression."""
    column = after.schema.get(entry.field or "")
    if entry.field is None or entry.check.strip() not in ("not_empty", "not_null"):
        return None
    holds_text = column is None or column.type.kind in (types.Kind.STRING, types.Kind.ARRAY, types.Kind.ANY)
    test = "is_empty" if entry.check.strip() == "not_empty" and holds_text else "is_null"
    return f"not {names.column(entry.field)}.{test}()"


def _reads(step: TransformStep, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    """The columns that the program, its readers and the window read."""
    read = step.reads(wanted)
    if step.window is None:
        return (read,)
    if step.window.source is None:
        return (read | RequiredColumns(step.window.reads),)
    matched = RequiredColumns(frozenset(match.here for match in step.window.matches))
    return read | matched, RequiredColumns(step.window.reads)


NODE = NodeType("transform", Wiring.ONE, TransformConfig, bind, _reads, DESCRIPTION, check=check)

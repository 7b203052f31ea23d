"""The configuration of rules that go beyond one record: entries of `validations` of sources and outputs."""

from __future__ import annotations

import inspect
import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ConfigDict, WithJsonSchema

from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.binding import report
from spark_jobs.nodes.model import (
    Config,
    Name,
    Names,
    Natural,
    PositiveDuration,
    Text,
    choice,
    kind_of,
    model_validator,
    unfit,
)
from spark_jobs.nodes.rules.step import (
    Completeness,
    DistinctCount,
    Freshness,
    Max,
    Mean,
    Measured,
    Min,
    References,
    RowCount,
    Severity,
    Sum,
    Unique,
)
from spark_jobs.nodes.windows.call import Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.nodes.binding import BindScope
    from spark_jobs.nodes.rules.step import Rule

#: The keys of an entry that select the rule.
KINDS = (
    "unique",
    "references",
    "row_count",
    "completeness",
    "distinct_count",
    "sum",
    "mean",
    "min",
    "max",
    "freshness",
)
#: The rules about the values of a column, by their names.
MEASURED: dict[str, type[Measured]] = {
    each.kind: each for each in (Completeness, DistinctCount, Sum, Mean, Min, Max, Freshness)
}
_NUMBERS = (types.Kind.INT, types.Kind.FLOAT, types.Kind.DECIMAL)
_MOMENTS = (types.Kind.DATE, types.Kind.DATETIME)
#: The column types that a rule accepts. A rule that is not listed accepts all types.
_KINDS_OF_VALUES: dict[type[Measured], tuple[types.Kind, ...]] = {
    Sum: _NUMBERS,
    Mean: _NUMBERS,
    Min: (*_NUMBERS, *_MOMENTS),
    Max: (*_NUMBERS, *_MOMENTS),
    Freshness: _MOMENTS,
}
#: The keys of rules on single records, which only transforms have.
_OF_RECORDS = ("check", "field", "args")


class RowCountConfig(Config):
    """`row_count:`."""

    min: Natural | None = None
    max: Natural | None = None


def _bound(value: Any) -> int | Decimal | str:
    """A number with all digits of its text, or the text of a date or moment."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(getattr(value, "text", repr(value))) if value else 0
    raise unfit(f"expected a number, a day or a moment, found {kind_of(value)}")


def _share(value: Any) -> int | Decimal:
    found = _bound(value)
    if isinstance(found, str) or not 0 <= found <= 1:
        raise unfit(f"expected a share from 0 to 1, found {kind_of(value)}", "E351")
    return found


_BoundValue = Annotated[Any, BeforeValidator(_bound), WithJsonSchema({"type": ["number", "string"]})]
_Share = Annotated[Any, BeforeValidator(_share), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]


class ReferencesConfig(Config):
    """`references:`."""

    columns: Names
    source: Name
    to: Names | None = None


class ValueBoundsConfig(Config):
    """`sum:`, `mean:`, `min:` and `max:`."""

    column: Name
    min: _BoundValue | None = None
    max: _BoundValue | None = None


class CompletenessConfig(Config):
    """`completeness:`."""

    column: Name
    min: _Share | None = None
    max: _Share | None = None


class DistinctCountConfig(Config):
    """`distinct_count:`."""

    column: Name
    min: Natural | None = None
    max: Natural | None = None


class FreshnessConfig(Config):
    """`freshness:`."""

    column: Name
    max_age: PositiveDuration


def _bounds(value: Any) -> Any:
    """A mapping whose bounds leave at least one value between them."""
    if not isinstance(value, dict):
        raise unfit(f"expected a mapping with `min`, `max` or both, found {kind_of(value)}")
    if value.keys() - {"min", "max", "column"}:
        return value  # unknown keys have an error of their own
    least, most = value.get("min"), value.get("max")
    if least is None and most is None:
        raise unfit("a rule needs a number for `min`, `max` or both", "E351")
    if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
        raise unfit(f"`min` is {least} and `max` is {most}: no number is between them", "E351")
    return value


def described(kind: str) -> str:
    """The documentation of a rule, in one or two sentences."""
    of_records: dict[str, type[Rule]] = {each.kind: each for each in (Unique, References, RowCount)}
    return inspect.getdoc(MEASURED.get(kind) or of_records[kind]) or ""


def _one_kind(value: Any) -> Any:
    """An entry that has exactly one rule."""
    if not isinstance(value, dict):
        raise unfit(f"expected a rule such as `{{unique: [id]}}`, found {kind_of(value)}", "E351")
    if strays := [key for key in _OF_RECORDS if key in value]:
        raise unfit(
            f"`{strays[0]}` is about a single record, and belongs under `validations` of a transform; rules here are "
            f"about all records: {', '.join(KINDS)}",
            "E351",
        )
    named = [key for key in KINDS if value.get(key) is not None]
    unknown = [key for key in value if key not in RuleConfig.model_fields]
    if len(named) != 1 and not unknown:
        raise unfit(f"{_miscounted(named, value)}; each entry has one of {', '.join(KINDS)}", "E351")
    return value


def _miscounted(named: Sequence[str], value: Mapping[str, Any]) -> str:
    """The error for an entry that does not contain exactly one rule."""
    if named:
        return f"`{named[0]}` and `{named[1]}` are two rules: write an entry for each"
    empty = next((key for key in KINDS if key in value), None)
    return f"nothing stands at `{empty}`" if empty else "no rule is named"


class RuleConfig(Config):
    """An entry of `validations` of a source or an output."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [kind]} for kind in KINDS]})

    name: Name | None = None
    unique: Names | None = None
    references: ReferencesConfig | None = None
    row_count: Annotated[RowCountConfig | None, BeforeValidator(_bounds)] = None
    completeness: Annotated[CompletenessConfig | None, BeforeValidator(_bounds)] = None
    distinct_count: Annotated[DistinctCountConfig | None, BeforeValidator(_bounds)] = None
    sum: Annotated[ValueBoundsConfig | None, BeforeValidator(_bounds)] = None
    mean: Annotated[ValueBoundsConfig | None, BeforeValidator(_bounds)] = None
    min: Annotated[ValueBoundsConfig | None, BeforeValidator(_bounds)] = None
    max: Annotated[ValueBoundsConfig | None, BeforeValidator(_bounds)] = None
    freshness: FreshnessConfig | None = None
    severity: choice(Severity) | None = None  # type: ignore[valid-type]
    message: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_one(cls, value: Any) -> Any:
        return _one_kind(value)


def referred_to(configs: Sequence[RuleConfig]) -> tuple[str, ...]:
    """The nodes that rules refer to, as they are written."""
    return tuple(each.references.source for each in configs if each.references is not None)


def bound(
    configs: Sequence[RuleConfig], row: Schema, scope: BindScope, source_of: Callable[[str], str] = str
) -> tuple[Rule, ...]:
    """The rules of a node. Mistakes are reported.

    Args:
        configs: the configuration.
        row: the columns of the node's records.
        scope: the node.
        source_of: maps a column name of the node to the record's column.
    """
    found: dict[str, Rule] = {}
    for index, config in enumerate(configs):
        path = ("config", "validations", index)
        for rule in _rule(config, row, scope, path, source_of):
            if rule.name in found:
                message = f"two rules of '{scope.name}' are called '{rule.name}': metrics could not tell them apart"
                report(scope, codes.E351, message, *path, help="remove one, or give one of them another `name`")
            found[rule.name] = rule
    return tuple(found.values())


def _rule(
    config: RuleConfig, row: Schema, scope: BindScope, path: tuple[str | int, ...], source_of: Callable[[str], str]
) -> Iterator[Rule]:
    severity, message = config.severity, config.message or ""
    if config.unique is not None:
        columns = tuple(_columns(config.unique, row, scope, (*path, "unique"), source_of))
        name = config.name or f"unique: {', '.join(config.unique)}"
        if len(columns) == len(config.unique):
            yield Unique(name, severity or Severity.ERROR, message, columns=columns)
        return
    if config.references is not None:
        yield from _references(config, row, scope, (*path, "references"), source_of)
        return
    kind = next(kind for kind in KINDS if getattr(config, kind) is not None)
    if severity is Severity.ERROR:
        text = f"`severity: error` makes dead letters of records, and `{kind}` is about no single record"
        report(scope, codes.E351, text, *path, "severity", help="write `fail`, which is the default, or `warn`")
    severity = severity or Severity.FAIL
    if config.row_count is not None:
        bounds = config.row_count
        yield RowCount(config.name or "row_count", severity, message, least=bounds.min, most=bounds.max)
        return
    given = getattr(config, kind)
    for column, static in _columns([given.column], row, scope, (*path, kind), source_of, is_listed=False):
        made = MEASURED[kind]
        if not _suits(made, given.column, static, scope, (*path, kind, "column")):
            return
        facts: dict[str, Any] = {"column": column, "type": static}
        if isinstance(given, FreshnessConfig):
            facts["max_age_s"] = given.max_age
        elif isinstance(given, ValueBoundsConfig):
            for key, field in (("min", "least"), ("max", "most")):
                facts[field] = _read(getattr(given, key), static, scope, (*path, kind, key))
            if not _leave_room(facts["least"], facts["most"]):
                message = f"`min` is {given.min} and `max` is {given.max}: no value is between them"
                report(scope, codes.E351, message, *path, kind, help="swap them, or leave one out")
        else:
            facts |= {"least": given.min, "most": given.max}
        yield made(config.name or f"{kind}: {given.column}", severity, message, **facts)


def _references(
    config: RuleConfig, row: Schema, scope: BindScope, path: tuple[str | int, ...], source_of: Callable[[str], str]
) -> Iterator[Rule]:
    """A rule `references`, if the columns of both sides exist and have comparable types."""
    given = config.references
    assert given is not None
    referred = scope.node_flow(given.source)
    is_own = not scope.feeds and given.source == scope.name.rpartition("/")[2]
    if referred is None and not is_own:
        _report_unknown(given.source, scope, (*path, "source"))
        return
    if referred is None:
        message = f"'{scope.name}' refers to its own records, which are known when all of them have passed its rules"
        report(scope, codes.E351, message, *path, "source", help="write the rule under `validations` of an output")
        return
    source, rows = referred
    to = given.to or given.columns
    if len(to) != len(given.columns):
        message = f"{len(given.columns)} columns refer to {len(to)}: each needs one"
        report(scope, codes.E351, message, *path, "to", help="name as many columns in `columns` and in `to`")
        return
    here = list(_columns(given.columns, row, scope, (*path, "columns"), source_of))
    key = "to" if given.to else "columns"
    there = list(_columns(to, rows.schema, scope, (*path, key), str, owner=given.source))
    if len(here) != len(to) or len(there) != len(to):
        return
    for number, ((name, one), (other_name, other)) in enumerate(zip(here, there, strict=True)):
        if types.unify(one.non_null(), other.non_null()) is None:
            kinds = f"column '{name}' is `{one.kind}` and '{other_name}' of '{given.source}' is `{other.kind}`"
            message = f"{kinds}: no two values are equal"
            report(scope, codes.E351, message, *path, "columns", number, help="convert one of the two upstream")
            return
    matches = tuple(
        Match(name, one.or_null(), other_name, other.or_null())
        for (name, one), (other_name, other) in zip(here, there, strict=True)
    )
    name = config.name or f"references: {', '.join(given.columns)}"
    severity = config.severity or Severity.ERROR
    yield References(name, severity, config.message or "", source=source, matches=matches)


def _report_unknown(name: str, scope: BindScope, path: tuple[str | int, ...]) -> None:
    ports = [each for each in scope.nodes if each.startswith(f"{name}.")]
    known = ports or scope.nodes
    hint = "" if ports else nearest.hint(name, known)
    message = f"`references` needs a source, or another node whose records go on, and '{name}' is none"
    if ports:
        message = f"'{name}' has several ports, and `references` needs one"
    report(scope, codes.E351, message, *path, help=hint or f"nodes here: {', '.join(known) or 'none'}")


def _suits(made: type[Measured], name: str, static: types.Type, scope: BindScope, path: tuple[str | int, ...]) -> bool:
    """True if a rule accepts the type of a column. Otherwise a problem is reported."""
    wanted = _KINDS_OF_VALUES.get(made, ())
    if not wanted or static.kind in wanted:
        return True
    words = "days or moments" if made is Freshness else "numbers" if wanted is _NUMBERS else "numbers, days or moments"
    message = f"`{made.kind}` is about {words}, and column '{name}' is `{static.kind}`"
    report(
        scope,
        codes.E351,
        message,
        *path,
        help="name another column, or declare or convert this one so in its source or upstream",
    )
    return False


def _leave_room(least: int | Decimal | date | None, most: int | Decimal | date | None) -> bool:
    """True if a value can be within both bounds."""
    return least is None or most is None or least <= most  # type: ignore[operator]  # both bound one column


def _read(
    written: int | Decimal | str | None, static: types.Type, scope: BindScope, path: tuple[str | int, ...]
) -> int | Decimal | date | None:
    """A bound converted to the column's type; invalid bounds are reported."""
    is_moment = static.kind in _MOMENTS
    if written is None or (is_moment is isinstance(written, str) and not is_moment):
        return None if written is None else written  # type: ignore[return-value]  # numbers
    found: date | None = None
    if isinstance(written, str) and is_moment:
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is None:
            if static.kind is types.Kind.DATETIME:
                found = moment
            elif moment.time() == datetime.min.time():
                found = moment.date()
    if found is None:
        example = {types.Kind.DATE: "2026-01-31", types.Kind.DATETIME: "2026-01-31T12:00:00"}.get(static.kind, "100")
        message = f"`{written}` bounds no column that is `{static.kind}`"
        report(scope, codes.E351, message, *path, help=f"write a value like `{example}`")
    return found


def _columns(
    names: Sequence[str],
    row: Schema,
    scope: BindScope,
    path: tuple[str | int, ...],
    source_of: Callable[[str], str],
    *,
    is_listed: bool = True,
    owner: str = "",
) -> Iterator[tuple[str, types.Type]]:
    """The distinct columns that a rule names. Unknown columns are reported.

    Args:
        names: the configuration.
        row: the columns of the node's records.
        scope: the node.
        path: the path of the names in the configuration.
        source_of: maps a name to the record's column.
        is_listed: the rule takes a list of columns; otherwise its key `column` has the only one.
        owner: the owner of the columns, if it is not the node.
    """
    known = [column.name for column in row.user_columns]
    seen: set[str] = set()
    for index, written in enumerate(names):
        name = source_of(written)
        column = row.get(name) if name in known else None
        place = (*path, index if is_listed else "column")
        if column is None:
            message = f"'{owner or scope.name}' has no declared column '{written}' for this rule"
            together = [part.strip() for part in written.split(",")]
            if len(together) > 1 and all(source_of(part) in known for part in together):
                help_text = f"a list names several columns: `[{', '.join(together)}]`"
            else:
                help_text = nearest.column_hint(written, known) or f"its columns: {', '.join(known)}"
            report(scope, codes.E351, message, *place, help=help_text)
        elif name in seen:
            report(scope, codes.E351, f"the rule names '{written}' twice", *place, help="name each column once")
        elif column.type.kind is types.Kind.ARRAY:
            message = f"column '{written}' has arrays, which cannot be compared"
            report(scope, codes.E351, message, *place, help="compare a text or a number that a transform makes of it")
        else:
            seen.add(name)
            yield name, column.type

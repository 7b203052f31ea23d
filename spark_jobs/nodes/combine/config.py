"""Combines as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes import member_reads
from spark_jobs.nodes.binding import BindScope, Bound, Feed, NodeType, Wiring, report
from spark_jobs.nodes.combine import predicate
from spark_jobs.nodes.combine.describe import DESCRIPTION
from spark_jobs.nodes.combine.step import CombineStep, Match, OnMiss
from spark_jobs.nodes.model import Name, NodeConfig, Text, choice, kind_of, unfit
from spark_jobs.nodes.output.config import FanoutPolicy
from spark_jobs.nodes.records import columns
from spark_jobs.nodes.records.columns import CORRELATION, INHERITED, UNDECLARED_MAP
from spark_jobs.nodes.terms.required_columns import RequiredColumns

MAX_INPUTS = 8
#: System namespaces, written with a dollar sign: their bare names cannot be qualifiers.
_NAMESPACES = ("meta", "doc", "window", "pipeline", "source")


class CombineStrategy(StrEnum):
    """The ways to find candidates. `grace_hash` asks for partitions on disk."""

    AUTO = "auto"
    GRACE_HASH = "grace_hash"


@dataclass(frozen=True)
class Propagation:
    """The correlation keys that results carry: the driver's keys, all keys, or the named fields."""

    mode: str = "driver"
    fields: tuple[str, ...] = ()

    def takes(self, field: str, drives: bool) -> bool:
        """True if the result carries a field of the driver, or of a build side.

        The entries with which an aggregate numbers its rows cannot be named. From a build side they end in the match,
        unless all keys are carried (`docs/semantics/correlation.md`).
        """
        if self.mode == "named":
            return field in self.fields or columns.numbered(field) is not None
        return drives or self.mode == "all"


def _propagation(value: Any) -> Propagation:
    match value:
        case Propagation():
            return value
        case "driver" | "all":
            return Propagation(value)
        case {"named": [*names]} if len(value) == 1 and all(isinstance(name, str) and name for name in names):
            return Propagation("named", tuple(names))
        case _:
            raise unfit(f"expected `driver`, `all` or `{{named: [fields]}}`, found {kind_of(value)}")


_PROPAGATION_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": ["driver", "all"]},
        {
            "type": "object",
            "properties": {"named": {"type": "array", "items": {"type": "string"}}},
            "required": ["named"],
            "additionalProperties": False,
        },
    ]
}


class CombineConfig(NodeConfig):
    """`config:` of a combine."""

    name: Name | None = None
    where: Text
    match: choice(Match) = Match.FIRST  # type: ignore[valid-type]
    on_miss: choice(OnMiss) = OnMiss.NULL_FIELDS  # type: ignore[valid-type]
    cxl: Text = ""
    drive: Name | None = None
    strategy: choice(CombineStrategy) = CombineStrategy.AUTO  # type: ignore[valid-type]
    propagate_ck: Annotated[Propagation, BeforeValidator(_propagation), WithJsonSchema(_PROPAGATION_SCHEMA)] = (
        Propagation()
    )
    correlation_fanout_policy: choice(FanoutPolicy) | None = None  # type: ignore[valid-type]

    @property
    def collects(self) -> bool:
        return self.match is Match.COLLECT


def check(config: CombineConfig, scope: BindScope) -> None:
    """Report problems of a combine that do not depend on its inputs."""
    names = scope.qualifiers
    if len(names) < 2:
        message = f'combine "{scope.name}" declares {len(names)} input(s); combine requires at least 2'
        report(scope, codes.E300, message, "input")
    if len(names) > MAX_INPUTS:
        message = f'combine "{scope.name}" declares {len(names)} inputs, maximum supported is {MAX_INPUTS}'
        report(scope, codes.E300, message, "input", help="combine in two steps")
    for name in names:
        _check_qualifier(name, scope)
    if config.drive is not None and config.drive not in names:
        listed = ", ".join(f'"{name}"' for name in names)
        message = (
            f'combine "{scope.name}" drive hint "{config.drive}" is not a declared input; valid inputs: [{listed}]'
        )
        report(scope, codes.E306, message, "config", "drive", help=nearest.hint(config.drive, names))
    if config.match is Match.COLLECT and config.cxl.strip():
        message = f'combine "{scope.name}": match: collect gathers whole records, so `cxl` must be empty'
        report(scope, codes.E311, message, "config", "cxl", help="shape the arrays in a transform after it")
    if config.match is not Match.COLLECT and not config.cxl.strip():
        message = f'combine "{scope.name}" cxl body has no emit statements; the output would have no columns'
        report(scope, codes.E309, message, "config", "cxl", help="emit at least one field")
    if len(names) > 2 and config.drive is None:
        message = f'combine "{scope.name}" has {len(names)} inputs and no `drive`; the first, "{names[0]}", drives'
        report(scope, codes.W306, message, "input", help=f"write `drive: {names[0]}` to say so")


def _check_qualifier(name: str, scope: BindScope) -> None:
    span = scope.key_span("input", name)
    if name.startswith("$") or "." in name:
        message = f'combine "{scope.name}": the qualifier "{name}" must not start with `$` or contain a dot'
        scope.add(codes.E301.at(span, message, help="use letters, digits and underscores"))
    elif name in _NAMESPACES:
        message = f'combine "{scope.name}": the qualifier "{name}" is the bare name of the namespace `${name}`'
        scope.add(codes.E301.at(span, message, help=f"name the input otherwise; the namespace is written `${name}`"))


def bind(config: CombineConfig, scope: BindScope) -> Bound | None:
    """The step of a combine and the row that it produces."""
    driver = config.drive or scope.feeds[0].qualifier
    builds = tuple(feed.qualifier for feed in scope.feeds if feed.qualifier != driver)
    rows = {feed.qualifier: _visible(feed, feed.qualifier == driver, config.on_miss) for feed in scope.feeds}
    driving = next(feed for feed in scope.feeds if feed.qualifier == driver)
    qualified = driving.flow.with_row(
        Schema(tuple(Column(f"{q}.{c.name}", c.type, c.origin) for q, row in rows.items() for c in row))
    )
    with_undeclared = frozenset(feed.qualifier for feed in scope.feeds if feed.flow.can_name_undeclared)
    scope_fields: dict[str, Any] = {"flow": qualified, "inputs": rows, "open_inputs": with_undeclared}
    where = scope.compile("config", "where", mode=cxl_scope.Mode.PREDICATE, **scope_fields)
    body = None
    if config.match is not Match.COLLECT:
        body = scope.compile("config", "cxl", mode=cxl_scope.Mode.COMBINE, **scope_fields)
        if isinstance(body, typed.Program) and not body.emits:
            message = f'combine "{scope.name}" cxl body has no emit statements; the output would have no columns'
            report(scope, codes.E309, message, "config", "cxl", help="emit at least one field")
            body = None
    if where is None:
        return None
    parts = _decomposed(scope, where, (driver, *builds))
    if parts is None or (body is None and config.match is not Match.COLLECT):
        return None
    _warn_of_keys(config, scope, driver)
    inherited_keys = _inherited_keys(config, scope, driver)
    pass_through = _pass_through(config, scope.feeds, driver) + inherited_keys
    output = _output(config, scope, rows, driver, body, pass_through)
    step = CombineStep(
        name=scope.name,
        driver=driver,
        builds=parts.order[1:],
        schemas=tuple(rows.items()),
        equalities=parts.equalities,
        ranges=parts.ranges,
        residual=parts.residual,
        rest=parts.rest,
        residuals=parts.residuals,
        body=body,
        match=config.match,
        on_miss=config.on_miss,
        output=output,
        pass_through=pass_through,
        wants_shuffle=config.strategy is CombineStrategy.GRACE_HASH,
        undeclared=_undeclared(rows, [program for program in (where, body) if program is not None]),
        inherited_keys=inherited_keys,
    )
    flow = driving.flow.combined([feed.flow for feed in scope.feeds], output, scope.name)
    return Bound(step, {"": flow})


def _undeclared(rows: dict[str, Schema], programs: list[typed.Program]) -> tuple[tuple[str, str], ...]:
    """The undeclared columns that programs read, as (qualifier, column)."""
    names = sorted({name for program in programs for name in program.columns})
    read = [(qualifier, name) for qualifier, _, name in (each.partition(".") for each in names)]
    return tuple((qualifier, name) for qualifier, name in read if name not in rows[qualifier])


def _visible(feed: Feed, drives: bool, on_miss: OnMiss) -> Schema:
    """The columns of an input that programs see. Columns of a build side may be null."""
    missing = on_miss is OnMiss.NULL_FIELDS and not drives
    return Schema(
        tuple(Column(c.name, c.type.or_null() if missing else c.type, c.origin) for c in feed.flow.schema.user_columns)
    )


def _decomposed(scope: BindScope, where: typed.Program, order: tuple[str, ...]) -> predicate.Predicate | None:
    parts = predicate.decompose(where, order)
    if not parts.equalities and not parts.compared and parts.relates:
        message = (
            f'combine "{scope.name}" where-clause relates its inputs, but by no equality and no range that holds for '
            "every match; candidates are found by these alone"
        )
        help_text = f"join one with `and`: `{order[0]}.key == {order[1]}.key and …`; E305 says what a `where` needs"
        report(scope, codes.E313, message, "config", "where", help=help_text)
        return None
    if not parts.equalities and not parts.compared:
        message = (
            f'combine "{scope.name}" where-clause has no cross-input comparisons; combine requires at least one '
            "equality or range between two different inputs"
        )
        report(
            scope,
            codes.E305,
            message,
            "config",
            "where",
            help=f"compare two inputs: `{order[0]}.key == {order[1]}.key`",
        )
        return None
    if not predicate.is_connected(order, parts.links):
        message = (
            f'combine "{scope.name}" where-clause forms a disconnected join graph; compare every input with another'
        )
        report(scope, codes.E305, message, "config", "where")
        return None
    if not parts.equalities:
        sides = (
            "every pair of records is a candidate" if not parts.ranges else "each task looks at its whole build side"
        )
        message = f'combine "{scope.name}" compares by ranges alone; {sides}'
        report(scope, codes.W305, message, "config", "where", help="add an equality when the data has one")
    return parts


PassThrough = tuple[tuple[str, str, str], ...]


def _pass_through(config: CombineConfig, feeds: tuple[Feed, ...], driver: str) -> PassThrough:
    """The correlation keys that the result carries. If two inputs have the same field, the driver's wins."""
    order = sorted(feeds, key=lambda feed: feed.qualifier != driver)
    carried: dict[str, tuple[str, str, str]] = {}
    for feed in order:
        for field in feed.flow.correlation:
            name = CORRELATION.of(field)
            if name not in carried and config.propagate_ck.takes(field, feed.qualifier == driver):
                carried[name] = (name, feed.qualifier, name)
    return tuple(carried.values())


def _warn_of_keys(config: CombineConfig, scope: BindScope, driver: str) -> None:
    """Warn of a build side whose correlation key ends here without an explicit setting (W007)."""
    if "propagate_ck" in config.model_fields_set:
        return
    kept = next(feed.flow.key for feed in scope.feeds if feed.qualifier == driver)
    for feed in scope.feeds:
        ended = [field for field in feed.flow.key if field not in kept]
        if ended:
            fields = ", ".join(f"`{field}`" for field in ended)
            message = (
                f"combine \"{scope.name}\" ends the correlation key {fields} of '{feed.node}': its rows are of the "
                f"groups of '{driver}' alone"
            )
            help_text = "write `propagate_ck: all` to keep it, or `propagate_ck: driver` to confirm that it ends"
            report(scope, codes.W007, message, "input", feed.qualifier, help=help_text)


def _inherited_keys(config: CombineConfig, scope: BindScope, driver: str) -> PassThrough:
    """The columns that carry the groups of joined build records, even if a result shows another key."""
    found: list[tuple[str, str, str]] = []
    for feed in scope.feeds:
        if feed.qualifier == driver or config.propagate_ck.mode == "driver":
            continue
        keys = {CORRELATION.of(field): field for field in feed.flow.correlation if columns.numbered(field) is None}
        keys |= {
            name: INHERITED.key(name) for name in (column.name for column in feed.flow.schema) if name in INHERITED
        }
        found += [
            (columns.inherited_column(scope.name, feed.qualifier, key), feed.qualifier, column)
            for column, key in keys.items()
            if config.propagate_ck.takes(columns.inherited_field(key), drives=False)
        ]
    return tuple(found)


def _output(
    config: CombineConfig,
    scope: BindScope,
    rows: dict[str, Schema],
    driver: str,
    body: typed.Program | None,
    pass_through: PassThrough,
) -> Schema:
    flows = {feed.qualifier: feed.flow for feed in scope.feeds}
    if body is not None:
        row = Schema(tuple(Column(name, kind, scope.name) for name, kind in body.emits))
    else:
        arrays = [
            Column(
                q,
                types.array_of(types.Type(types.Kind.MAP, fields=tuple((c.name, c.type) for c in rows[q]))),
                scope.name,
            )
            for q in rows
            if q != driver
        ]
        row = Schema(rows[driver].columns).with_columns(*arrays)
    engine = [
        Column(name, column.type, scope.name)
        for name, qualifier, source in pass_through
        if (column := flows[qualifier].schema.get(source))
    ]
    engine += [
        Column(column.name, column.type, scope.name) for column in flows[driver].schema if column.name in INHERITED
    ]
    if flows[driver].has_undeclared:
        engine.append(Column(UNDECLARED_MAP, types.MAP, scope.name))
    return row.with_columns(*engine)


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    """The columns required of each input: the driver and the build sides, in the order of the node's inputs."""
    programs = [program for e in step.equalities for program in (e.driver, e.build)]
    programs += [step.residual] if step.residual is not None else []
    read = member_reads.read(step.body, wanted) if step.body is not None else RequiredColumns()
    for program in programs:
        read |= member_reads.read(program)
    sets = []
    for qualifier, row in step.schemas:
        own = _unqualified(read, qualifier)
        if step.body is None:
            own |= (
                wanted.only(row.names)
                if qualifier == step.driver
                else RequiredColumns(_collected(row, wanted, qualifier))
            )
        own |= RequiredColumns(
            frozenset(column for name, of, column in step.pass_through if of == qualifier and name in wanted)
        )
        sets.append(own)
    return tuple(sets)


def _unqualified(read: RequiredColumns, qualifier: str) -> RequiredColumns:
    """The required columns of one input, under their names in that input."""
    names = {name: name.partition(".")[2] for name in read.names if name.partition(".")[0] == qualifier}
    parts = {names[name]: members for name, members in read.parts.items() if name in names}
    return RequiredColumns(frozenset(names.values()), parts)


def _collected(row: Schema, wanted: RequiredColumns, qualifier: str) -> frozenset[str]:
    """The columns of a build side that its records have in the arrays."""
    parts = wanted.members(qualifier)
    return frozenset(row.names) if parts is None else parts.intersection(row.names)


NODE = NodeType("combine", Wiring.NAMED, CombineConfig, bind, _reads, DESCRIPTION, check=check)

"""Rules on data beyond one record as users write them: entries of `validations` of sources and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ConfigDict

from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.binding import report
from spark_jobs.nodes.model import Config, Name, Names, Natural, Text, choice, kind_of, model_validator, unfit
from spark_jobs.nodes.rules.step import RowCount, Severity, Unique

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.nodes.binding import BindScope
    from spark_jobs.nodes.rules.step import Rule

#: The keys of a rule that say which rule it is.
KINDS = ("unique", "row_count")
#: Keys of rules on single records, which transforms have.
_OF_RECORDS = ("check", "field", "args")


class RowCountConfig(Config):
    """`row_count:`."""

    min: Natural | None = None
    max: Natural | None = None


def _bounds(value: Any) -> Any:
    """A mapping with bounds that leave something between them."""
    if not isinstance(value, dict):
        raise unfit(f"expected a mapping with `min`, `max` or both, found {kind_of(value)}")
    if value.keys() - {"min", "max"}:
        return value  # unknown keys have an error of their own
    least, most = value.get("min"), value.get("max")
    if least is None and most is None:
        raise unfit("a rule needs a number for `min`, `max` or both", "E351")
    if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
        raise unfit(f"`min` is {least} and `max` is {most}: no number is between them", "E351")
    return value


def _one_kind(value: Any) -> Any:
    """An entry that is one rule."""
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
    """Why an entry that is not one rule is none."""
    if named:
        return f"`{named[0]}` and `{named[1]}` are two rules: write an entry for each"
    empty = next((key for key in KINDS if key in value), None)
    return f"nothing stands at `{empty}`" if empty else "no rule is named"


class RuleConfig(Config):
    """An entry of `validations` of a source or an output."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [kind]} for kind in KINDS]})

    name: Name | None = None
    unique: Names | None = None
    row_count: Annotated[RowCountConfig | None, BeforeValidator(_bounds)] = None
    severity: choice(Severity) | None = None  # type: ignore[valid-type]
    message: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_one(cls, value: Any) -> Any:
        return _one_kind(value)


def bound(
    configs: Sequence[RuleConfig], row: Schema, scope: BindScope, source_of: Callable[[str], str] = str
) -> tuple[Rule, ...]:
    """The rules of a node; what is wrong with them is noted.

    Args:
        configs: what is written.
        row: the columns of the node's records.
        scope: the node.
        source_of: the record's column behind a name that the node gives its columns.
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
    elif config.row_count is not None:
        if severity is Severity.ERROR:
            text = "`severity: error` makes dead letters of records, and `row_count` is about no single record"
            report(scope, codes.E351, text, *path, "severity", help="write `fail`, which is the default, or `warn`")
        bounds = config.row_count
        name = config.name or "row_count"
        yield RowCount(name, severity or Severity.FAIL, message, least=bounds.min, most=bounds.max)


def _columns(
    names: Sequence[str],
    row: Schema,
    scope: BindScope,
    path: tuple[str | int, ...],
    source_of: Callable[[str], str],
) -> Iterator[tuple[str, types.Type]]:
    """The columns that a rule names, each once; others are noted."""
    known = [column.name for column in row.user_columns]
    seen: set[str] = set()
    for index, written in enumerate(names):
        name = source_of(written)
        column = row.get(name) if name in known else None
        place = (*path, index)
        if column is None:
            message = f"'{scope.name}' has no declared column '{written}' for this rule"
            together = [part.strip() for part in written.split(",")]
            if len(together) > 1 and all(source_of(part) in known for part in together):
                help_text = f"a list names several columns: `[{', '.join(together)}]`"
            else:
                help_text = nearest.hint(written, known) or f"its columns: {', '.join(known)}"
            report(scope, codes.E351, message, *place, help=help_text)
        elif name in seen:
            report(scope, codes.E351, f"the rule names '{written}' twice", *place, help="name each column once")
        elif column.type.kind is types.Kind.ARRAY:
            message = f"column '{written}' has arrays, which cannot be compared"
            report(scope, codes.E351, message, *place, help="compare a text or a number that a transform makes of it")
        else:
            seen.add(name)
            yield name, column.type

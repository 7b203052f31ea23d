"""The configuration of `log:`: directives of a transform, and rules in a file for all of them."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.diagnostics import codes
from spark_jobs.nodes.binding import report
from spark_jobs.nodes.model import Config, Integer, Name, Text, choice
from spark_jobs.nodes.transform.step import LogDirective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes.binding import BindScope, Flow

#: The keys that a directive needs, from itself or from its rule.
_NEEDED = ("level", "when", "message")


class Level(StrEnum):
    """Levels of log lines."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Moment(StrEnum):
    """The moment at which a log directive writes."""

    BEFORE_TRANSFORM = "before_transform"
    AFTER_TRANSFORM = "after_transform"
    PER_RECORD = "per_record"
    ON_ERROR = "on_error"


class LogRule(Config):
    """A rule of the log rules file. It supplies the keys that directives with its name leave out."""

    level: choice(Level) | None = None  # type: ignore[valid-type]
    when: choice(Moment) | None = None  # type: ignore[valid-type]
    condition: Text | None = None
    message: Text | None = None
    fields_: list[Text] = Field(default_factory=list, alias="fields")
    every: Integer | None = None


class LogRules(Config):
    """The log rules file."""

    rules: dict[Name, LogRule]


class LogConfig(LogRule):
    """An entry of `log`. With a rule, the rule's keys count unless the entry sets its own."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["log_rule"]}, {"required": [*_NEEDED]}]})

    log_rule: Name | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The required keys that are missing."""
        return tuple(key for key in _NEEDED if getattr(self, key) is None)


def check(entries: Sequence[LogConfig], scope: BindScope) -> None:
    """Report problems of log directives that do not depend on the input."""
    for index, entry in enumerate(entries):
        path = ("config", "log", index)
        for key in entry.missing if entry.log_rule is None else ():
            report(scope, codes.E006, f"the key `{key}` is required here", *path, help=f"add `{key}:`")
        where = f'transform "{scope.name}": log directive #{index + 1}'
        if entry.every is not None and entry.every < 1:
            report(scope, codes.E011, f"{where}: every must be >= 1", *path, "every")
        elif entry.every is not None and entry.when is not None and entry.when is not Moment.PER_RECORD:
            message = f"{where}: 'every' is only valid with when: per_record"
            report(scope, codes.E011, message, *path, "every", help="remove `every`, or log per_record")


def directive(index: int, entry: LogConfig, scope: BindScope, after: Flow) -> LogDirective | None:
    """The bound directive; None if its condition does not compile."""
    condition = None
    if entry.condition is not None:
        condition = scope.compile("config", "log", index, "condition", mode=cxl_scope.Mode.PREDICATE, flow=after)
        if condition is None:
            return None
    found = LogDirective(
        level=str(entry.level),
        when=str(entry.when),
        message=entry.message or "",
        condition=condition,
        fields=tuple(entry.fields_),
        every=entry.every or 1,
    )
    return replace(found, came=_types(found, scope.feeds[0].flow), made=_types(found, after))


def _types(entry: LogDirective, flow: Flow) -> tuple[tuple[str, types.Type], ...]:
    return tuple((column.name, column.type) for column in flow.schema.user_columns if column.name in entry.names)

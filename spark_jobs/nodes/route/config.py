"""Routes as users write them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.checking import scope as cxl_scope
from spark_jobs.diagnostics import codes
from spark_jobs.nodes import member_reads
from spark_jobs.nodes.binding import BindScope, Bound, NodeType, Wiring, report
from spark_jobs.nodes.model import Name, NodeConfig, Text, choice
from spark_jobs.nodes.route.step import RouteStep
from spark_jobs.nodes.terms.description import (
    Description,
    Details,
    Expression,
    PlanContext,
    Section,
    by_record,
    no_facts,
    no_files,
    passed_on,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.terms.required_columns import RequiredColumns

MAX_BRANCHES = 256


class RouteMode(StrEnum):
    """The branches that a record takes: the first one whose condition holds, or all of them."""

    EXCLUSIVE = "exclusive"
    INCLUSIVE = "inclusive"


class RouteConfig(NodeConfig):
    """`config:` of a route; `conditions` are in order."""

    name: Name | None = None
    mode: choice(RouteMode) = RouteMode.EXCLUSIVE  # type: ignore[valid-type]
    conditions: dict[str, Text]
    default: Name


def check(config: RouteConfig, scope: BindScope) -> None:
    """Report a route without 2 to 256 distinct branches, and a default that is not one of them."""
    if not config.conditions:
        report(scope, codes.E013, f'route "{scope.name}" needs at least one condition', "config", "conditions")
    branches = len(config.conditions) + 1
    if branches > MAX_BRANCHES:
        message = (
            f'route "{scope.name}" has {branches} branches, the default counted; at most {MAX_BRANCHES} are allowed'
        )
        report(scope, codes.E013, message, "config", "conditions")
    if config.default in config.conditions:
        message = f'route "{scope.name}": default branch "{config.default}" must not match any condition name'
        report(scope, codes.E013, message, "config", "default", help="give the default branch another name")
    for branch in (*config.conditions, config.default):
        if "." in branch:
            message = f'route "{scope.name}": the branch name "{branch}" has a dot, which separates node and port'
            report(scope, codes.E010, message, "config", "conditions", branch)


def bind(config: RouteConfig, scope: BindScope) -> Bound | None:
    """The step of a route. Every branch has the input's row."""
    flow = scope.feeds[0].flow
    programs = {
        branch: scope.compile("config", "conditions", branch, mode=cxl_scope.Mode.PREDICATE, flow=flow)
        for branch in config.conditions
    }
    if any(program is None for program in programs.values()):
        return None
    step = RouteStep(
        name=scope.name,
        branches=tuple(programs.items()),
        default=config.default,
        inclusive=config.mode is RouteMode.INCLUSIVE,
    )
    return Bound(step, dict.fromkeys((*config.conditions, config.default), flow))


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    for _, program in step.branches:
        wanted |= member_reads.read(program)
    return (wanted,)


def _programs(step: RouteStep) -> Iterator[Expression]:
    for branch, program in step.branches:
        yield Expression(branch, program, branch)


def _lines(step: RouteStep, context: PlanContext) -> Iterator[str]:
    def readers(branch: str) -> str:
        return ", ".join(f"'{name}'" for name in context.readers.get(branch, ())) or "nothing"

    yield f"Route '{step.name}' (mode: {'inclusive' if step.inclusive else 'exclusive'}):"
    for branch, _ in step.branches:
        yield f"  Branch '{branch}' → {readers(branch)}"
    yield f"  Default: '{step.default}' → {readers(step.default)}"


DESCRIPTION = Description(
    parallel=by_record,
    facts=no_facts,
    programs=_programs,
    trace=passed_on,
    details=Details(Section.BRANCHES, _lines),
    unready=runs,
    files=no_files,
)
NODE = NodeType(
    "route",
    Wiring.ONE,
    RouteConfig,
    bind,
    _reads,
    DESCRIPTION,
    check=check,
    spellings={"routes": "conditions"},
)

"""The front end's entry: from a program's text to its typed tree and its diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import tree_walk, typed
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.checking import programs
from spark_jobs.cxl.checking.findings import Finding, Stage
from spark_jobs.cxl.checking.scope import Mode
from spark_jobs.cxl.syntax import ast, names, parser
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl.checking.scope import Scope
    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import Text


_PHASES = {
    Stage.PARSE: "CXL parse error in",
    Stage.RESOLVE: "CXL name resolution failed in",
    Stage.TYPECHECK: "CXL type error in",
}
_WHERE_PHASES = {
    Stage.PARSE: "where-clause parse error",
    Stage.RESOLVE: "where-clause name resolution",
    Stage.TYPECHECK: "where-clause type error",
}


@dataclass(frozen=True)
class Analysis:
    """The typed program (None when there are errors), the syntax tree, and everything found, in order of place."""

    program: typed.Program | typed.AggregateProgram | None
    tree: ast.Program
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Compiled:
    """The typed program, None when there are errors, and the diagnostics, warnings included."""

    program: typed.Program | typed.AggregateProgram | None
    diagnostics: list[Diagnostic]


def compile_program(text: Text, scope: Scope, where: str) -> Compiled:
    """Parse and check a program; returns the typed program, or the findings.

    Args:
        text: the program and where it stands in its file.
        scope: what it may name, and what kind of program it is.
        where: the node's name, for messages.

    Returns:
        `Mode` describes PREDICATE and VALUE programs.
    """
    analysis = analyse(text.value, scope)
    return Compiled(
        _placed(analysis.program, text), [diagnostic(finding, text, scope, where) for finding in analysis.findings]
    )


def _placed(program: typed.Program | typed.AggregateProgram | None, text: Text) -> Any:
    """The program, which knows where it stands."""
    if program is None:
        return None
    places = typed.TextPlaces(text.file.name, tuple(text.lines()))
    if isinstance(program, typed.AggregateProgram):
        before, after = replace(program.before, places=places), replace(program.after, places=places)
        return replace(program, before=before, after=after)
    return replace(program, places=places)


def analyse(source: str, scope: Scope) -> Analysis:
    """Parse and check a program; a program that does not parse is not checked."""
    single = scope.mode in (Mode.PREDICATE, Mode.VALUE, Mode.STATE)
    with tree_walk.room():
        parsed = parser.parse_expression(source) if single else parser.parse(source)
        if parsed.problems:
            columns = _in_need_of_backticks(scope)
            problems = [
                Finding(Stage.PARSE, one.message, one.place, _backticks(source, one.place[0], columns) or one.help)
                for one in parsed.problems
            ]
            return Analysis(None, parsed.tree, tuple(problems))
        tree = parsed.tree
        if scope.mode is Mode.STATE:
            tree, mode = _assignment(tree)
            scope = replace(scope, mode=mode, has_this=True)
        program, session = programs.check(tree, scope, source)
        found = [*session.findings, *_calls_of_values(tree, source, session.findings)]
    findings = tuple(sorted(found, key=lambda one: (one.text is not None, one.place)))
    return Analysis(None if any(one.is_error for one in findings) else program, parsed.tree, findings)


def _in_need_of_backticks(scope: Scope) -> list[str]:
    """The columns that programs name in backticks, the longest first."""
    schemas = (scope.row, *scope.inputs.values())
    known = {column.name for schema in schemas for column in schema.user_columns}
    return sorted((name for name in known if names.column(name) != name), key=lambda name: (-len(name), name))


def _backticks(source: str, position: int, columns: Sequence[str]) -> str | None:
    """The help where a program does not parse because a column is not in backticks; None where it is not so."""
    for name in columns:
        start = source.find(name, max(0, position - len(name) + 1))
        is_there = 0 <= start <= position
        if is_there and source[start - 1 : start] not in ("`", '"', "'"):
            return f"write the name of the column in backticks: {names.column(name)}"
    return None


def _calls_of_values(tree: ast.Program, source: str, known: Sequence[Finding]) -> Iterator[Finding]:
    """Warnings of `value (…)`, which is no call but two statements."""
    reported = {one.place for one in known if one.text is None}
    for statement in parser.in_a_row(tree.statements, source):
        if statement.place not in reported:
            message = "the parentheses begin a new statement, whose value is not used"
            help_text = "functions are methods, `value.method(…)`; if this is not a call, an operator is missing"
            yield Finding(Stage.TYPECHECK, message, statement.place, help_text, codes.W207)


def _assignment(tree: ast.Program) -> tuple[ast.Program, Mode]:
    """A state node's expression as the program that it is: one of all records where it has an aggregate function."""
    (statement,) = tree.statements
    assert isinstance(statement, ast.Evaluate)
    waiting: list[object] = [statement.value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, ast.FunctionCall) and part.name in declare.aggregates():
            place = statement.place
            return ast.Program((ast.Emit(place, programs.VALUE, statement.value, place),)), Mode.AGGREGATE
        elif is_dataclass(part):
            waiting.extend(getattr(part, one.name) for one in fields(part))
    return tree, Mode.VALUE


def diagnostic(finding: Finding, text: Text, scope: Scope, where: str) -> Diagnostic:
    """A finding as a diagnostic of the node that the program belongs to."""
    span = (finding.text or text).span(*finding.place)
    labels = (Label(span, finding.label),) if finding.label else ()
    return finding.code.at(span, _message(finding, scope, where), help=finding.help, labels=labels)


def _message(finding: Finding, scope: Scope, where: str) -> str:
    """The finding as a message of its node."""
    message = finding.message
    if not finding.is_error or not where:
        return message
    match finding.code:
        case codes.E303:
            return f'combine "{where}" where-clause is not boolean: {message}'
        case codes.E304:
            return f'combine "{where}" where-clause {message}'
        case codes.E307:
            return f'combine "{where}" {message}'
        case codes.E308:
            return f'combine "{where}" cxl body {message}'
        case codes.E003:
            return f"transform '{where}' {message}"
        case codes.E150B:
            return f"windowed transform '{where}' {message}"
        case codes.E210:
            return f'aggregate extraction failed for "{where}": {message}'
    if scope.inputs and scope.mode is Mode.PREDICATE:
        return f'combine "{where}" {_WHERE_PHASES[finding.stage]}: {message}'
    return f"{_PHASES[finding.stage]} node '{where}': {message}"

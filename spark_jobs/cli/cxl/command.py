"""The `cxl` command: check, evaluate and format CXL without a pipeline, and try it out interactively.

Exit status: 0 success (warnings included), 1 the program or the command line is wrong, or the record failed,
2 something cannot be read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from spark_jobs import __version__
from spark_jobs.cli import standard_streams
from spark_jobs.cli.command_line import Parser, WrongCommandLine
from spark_jobs.cli.cxl import input
from spark_jobs.cli.cxl.input import InputError
from spark_jobs.cli.cxl.terminal import OK, UNREADABLE, WRONG, read_program, say_error, say_findings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from spark_jobs.cxl.checking.findings import Finding
    from spark_jobs.cxl.compile import Analysis
    from spark_jobs.cxl.schema import Schema
    from spark_jobs.diagnostics.source import Text

INLINE = "<inline>"


def run() -> NoReturn:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command; gives the exit status."""
    standard_streams.prepare()
    return standard_streams.completed("cxl", lambda: _main(argv), UNREADABLE)


def _main(argv: Sequence[str]) -> int:
    commands = {"check": _check, "eval": _eval, "fmt": _format, "repl": _repl}
    try:
        options = _arguments().parse_args(list(argv))
        return commands[options.command](options)
    except WrongCommandLine as error:
        sys.stderr.write(error.shown)
        return WRONG
    except SystemExit:
        return OK
    except InputError as error:
        say_error(f"error: {error}")
        return UNREADABLE


def _arguments() -> argparse.ArgumentParser:
    parser = Parser(prog="cxl", description="Check, evaluate and format CXL programs.")
    parser.add_argument("--version", action="version", version=f"cxl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="parse, resolve and type-check a file", description="Check a CXL file.")
    check.add_argument("file", metavar="FILE", help="the program; - reads standard input")
    _add_scope(check)
    check.add_argument(
        "--group-by",
        action="append",
        metavar="FIELD",
        help="check as an aggregate node's program with this key (repeatable)",
    )

    evaluate = commands.add_parser(
        "eval", help="run a program on one record", description="Run a program on one record."
    )
    evaluate.set_defaults(parser=evaluate)
    evaluate.add_argument("file", nargs="?", metavar="FILE", help="the program; - reads standard input")
    evaluate.add_argument("-e", "--expr", action="append", metavar="CXL", help="a line of the program (repeatable)")
    record = evaluate.add_mutually_exclusive_group()
    record.add_argument("--record", metavar="JSON", help="the record as a JSON object")
    record.add_argument("--field", action="append", metavar="NAME=VALUE", help="one field of the record (repeatable)")
    _add_scope(evaluate)
    evaluate.add_argument("--json", action="store_true", help="print the outcome, errors included, as one JSON object")
    evaluate.add_argument(
        "--engine", choices=["interpreter", "arrow"], default="interpreter", help="the engine that runs it"
    )

    form = commands.add_parser("fmt", help="print a file in canonical format", description="Format CXL files.")
    form.add_argument("files", nargs="+", metavar="FILE", help="the program; - reads standard input")
    how = form.add_mutually_exclusive_group()
    how.add_argument(
        "--check", action="store_true", help="print the names of files that would change; exit status 1 if any"
    )
    how.add_argument("--diff", action="store_true", help="print what would change; exit status 1 if anything")
    how.add_argument("--write", action="store_true", help="rewrite the files in place")

    repl = commands.add_parser("repl", help="try expressions interactively", description="Try CXL interactively.")
    repl.add_argument("--record", metavar="JSON", help="the record, as a JSON object")
    _add_scope(repl)
    return parser


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", metavar="JSON", help='types of the columns, `{"amount": "float"}`')
    parser.add_argument(
        "--rules-path", type=Path, default=Path("rules"), metavar="DIR", help="where `use` finds modules"
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _check(options: argparse.Namespace) -> int:
    from spark_jobs.cxl import compile as front
    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.cxl.checking.scope import Mode, Scope, WindowScope
    from spark_jobs.cxl.schema import Schema

    text = read_program(options.file)
    row = input.declared(options.schema) if options.schema else Schema()
    scope = Scope(
        row=row,
        window=WindowScope(row),
        library=Library(options.rules_path),
        is_open=not options.schema,
        group_by=tuple(options.group_by or ()),
    )
    if options.group_by:
        from spark_jobs.cxl import types
        from spark_jobs.cxl.schema import Column

        keys = [Column(name, types.ANY) for name in options.group_by if name not in row]
        scope = replace(scope, mode=Mode.AGGREGATE, row=row.with_columns(*keys))
    analysis = front.analyse(text.value, scope)
    say_findings(analysis.findings, text)
    if analysis.program is None:
        return WRONG
    _say(f"ok: {text.file.name} is valid")
    return OK


def _eval(options: argparse.Namespace) -> int:
    from spark_jobs.cxl import compile as front
    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.cxl.checking.scope import Scope
    from spark_jobs.diagnostics.source import Text

    if options.expr and options.file:
        options.parser.error(f"two programs: give the FILE '{options.file}' or -e CXL")
    if options.expr:
        text = Text.whole("\n".join(options.expr), INLINE)
    elif options.file:
        text = read_program(options.file)
    else:
        options.parser.error("nothing to evaluate: give a FILE or -e CXL")
    given = input.record(options.record) if options.record else input.fields(options.field or ())
    row = input.declared(options.schema) if options.schema else input.row_of(given)
    analysis = front.analyse(text.value, Scope(row=row, library=Library(options.rules_path), is_alone=True))
    if analysis.program is None:
        if options.json:
            _say(_rejection(analysis, text))
        else:
            say_findings(analysis.findings, text)
        return WRONG
    say_findings([*analysis.findings, *_of_values(text, given, options)], text)
    return _evaluate(analysis, given, row, text, options)


def _of_values(text: Text, given: dict[str, object], options: argparse.Namespace) -> list[Finding]:
    """Indices that never find an element of the values that are given, where no schema says what they are."""
    from spark_jobs.cxl import compile as front
    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.cxl.checking.scope import Scope
    from spark_jobs.diagnostics import codes

    if options.schema:
        return []
    scope = Scope(row=input.row_by_values(given), library=Library(options.rules_path), is_alone=True)
    return [found for found in front.analyse(text.value, scope).findings if found.code is codes.W205]


def _rejection(analysis: Analysis, text: Text) -> str:
    diagnostics = []
    for finding in analysis.findings:
        if finding.is_error:
            span = (finding.text or text).span(*finding.place)
            found = {"code": finding.code.id, "message": finding.message, "line": span.line, "column": span.column}
            diagnostics.append({**found, "help": finding.help} if finding.help else found)
    return json.dumps({"status": "rejected", "diagnostics": diagnostics}, ensure_ascii=False)


def _evaluate(
    analysis: Analysis, given: dict[str, object], row: Schema, text: Text, options: argparse.Namespace
) -> int:
    from spark_jobs.cli.cxl import evaluation
    from spark_jobs.cxl import failure, typed

    assert isinstance(analysis.program, typed.Program)
    try:
        record = input.converted(given, row)
        outcome = evaluation.run(analysis.program, record, row, text.file.name, options.engine)
    except failure.Failure as problem:
        if options.json:
            _say(evaluation.json_of_failure(problem))
        else:
            say_error(f"error[eval]: {evaluation.failure_text(problem)}")
        return WRONG
    if options.json:
        _say(evaluation.json_of(outcome))
        return OK
    if outcome.filtered:
        say_error("note: record filtered by predicate")
    if outcome.duplicate:
        say_error("note: record dropped as duplicate (distinct)")
    records = outcome.records
    _say(evaluation.pretty(records if outcome.fans_out else records[0] if records else {}))
    return OK


def _format(options: argparse.Namespace) -> int:
    from spark_jobs.cli.cxl import format

    return format.run(options)


def _repl(options: argparse.Namespace) -> int:
    from spark_jobs.cli.cxl import interactive

    return interactive.run(options)

"""The `cxl` command: check, evaluate and format CXL without a pipeline, and try it out interactively.

Exit status: 0 success (warnings included), 1 the program or the command line is wrong, or the record failed,
2 something cannot be read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
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
    """Entry point of the console script `cxl`."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    standard_streams.prepare()
    return standard_streams.completed("cxl", lambda: _main(argv), UNREADABLE)


def _main(argv: Sequence[str]) -> int:
    commands = {"check": _check, "eval": _eval, "fmt": _format, "repl": _repl}
    try:
        arguments = _parser().parse_args(list(argv))
        return commands[arguments.command](arguments)
    except WrongCommandLine as error:
        sys.stderr.write(error.shown)
        return WRONG
    except SystemExit:
        return OK
    except InputError as error:
        say_error(f"error: {error}")
        return UNREADABLE


def _parser() -> argparse.ArgumentParser:
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
    for name, does in (
        ("check", "print the names of files that would change; exit status 1 if any"),
        ("diff", "print what would change; exit status 1 if anything"),
        ("write", "rewrite the files in place"),
    ):
        how.add_argument(f"--{name}", dest="how", action="store_const", const=name, help=does)

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


@dataclass(frozen=True)
class Program:
    """A program and the schema that it reads.

    Args:
        file: its file, `-` is standard input; None where it is given in `lines`.
        lines: the program.
        schema: the types of columns, as JSON.
        rules_path: where `use` finds modules.
        group_by: the keys of an aggregate node; None for other programs.
        record: the record, as JSON.
        fields: its fields, as `NAME=VALUE`.
        as_json: whether the outcome is printed as JSON, errors included.
        engine: what runs it, `interpreter` or `arrow`.
    """

    file: str | None
    lines: tuple[str, ...] = ()
    schema: str | None = None
    rules_path: Path = Path("rules")
    group_by: tuple[str, ...] = ()
    record: str | None = None
    fields: tuple[str, ...] = ()
    as_json: bool = False
    engine: str = "interpreter"


# ---- from arguments to options: commands get typed values, and never the namespace of argparse


def _check(arguments: argparse.Namespace) -> int:
    return check(
        Program(
            arguments.file,
            schema=arguments.schema,
            rules_path=arguments.rules_path,
            group_by=tuple(arguments.group_by or ()),
        )
    )


def _eval(arguments: argparse.Namespace) -> int:
    if arguments.expr and arguments.file:
        arguments.parser.error(f"two programs: give the FILE '{arguments.file}' or -e CXL")
    if not (arguments.expr or arguments.file):
        arguments.parser.error("nothing to evaluate: give a FILE or -e CXL")
    return evaluate(
        Program(
            arguments.file or None,
            lines=tuple(arguments.expr or ()),
            schema=arguments.schema,
            rules_path=arguments.rules_path,
            record=arguments.record,
            fields=tuple(arguments.field or ()),
            as_json=arguments.json,
            engine=arguments.engine,
        )
    )


def _format(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli.cxl import format

    return format.run(arguments.files, arguments.how)


def _repl(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli.cxl import interactive

    return interactive.run(arguments.record, arguments.schema, arguments.rules_path)


# ---- the commands


def check(program: Program) -> int:
    """`cxl check`: report the problems of a program."""
    from spark_jobs.cxl import compile as front
    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.cxl.checking.scope import Mode, Scope, WindowScope
    from spark_jobs.cxl.schema import Schema

    text = read_program(program.file or "-")
    row = input.declared(program.schema) if program.schema else Schema()
    scope = Scope(
        row=row,
        window=WindowScope(row),
        library=Library(program.rules_path),
        is_open=not program.schema,
        group_by=program.group_by,
    )
    if program.group_by:
        from spark_jobs.cxl import types
        from spark_jobs.cxl.schema import Column

        keys = [Column(name, types.ANY) for name in program.group_by if name not in row]
        scope = replace(scope, mode=Mode.AGGREGATE, row=row.with_columns(*keys))
    analysis = front.analyse(text.value, scope)
    say_findings(analysis.findings, text)
    if analysis.program is None:
        return WRONG
    _say(f"ok: {text.file.name} is valid")
    return OK


def evaluate(program: Program) -> int:
    """`cxl eval`: run a program on one record."""
    from spark_jobs.cxl import compile as front
    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.cxl.checking.scope import Scope
    from spark_jobs.diagnostics.source import Text

    text = read_program(program.file) if program.file else Text.whole("\n".join(program.lines), INLINE)
    declared = input.declared(program.schema) if program.schema else None
    given = input.record(program.record, declared) if program.record else input.fields(program.fields, declared)
    row = input.row_of(given) if declared is None else declared
    analysis = front.analyse(text.value, Scope(row=row, library=Library(program.rules_path), is_alone=True))
    if analysis.program is None:
        if program.as_json:
            _say(_rejection(analysis, text))
        else:
            say_findings(analysis.findings, text)
        return WRONG
    say_findings([*analysis.findings, *_of_values(text, given, program)], text)
    return _evaluate(analysis, given, row, text, program)


def _of_values(text: Text, given: dict[str, object], program: Program) -> list[Finding]:
    """Indices out of range in the given values, for columns without a schema."""
    from spark_jobs.cxl import compile as front
    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.cxl.checking.scope import Scope
    from spark_jobs.diagnostics import codes

    if program.schema:
        return []
    scope = Scope(row=input.row_by_values(given), library=Library(program.rules_path), is_alone=True)
    return [found for found in front.analyse(text.value, scope).findings if found.code is codes.W205]


def _rejection(analysis: Analysis, text: Text) -> str:
    diagnostics = []
    for finding in analysis.findings:
        if finding.is_error:
            span = (finding.text or text).span(*finding.place)
            found = {"code": finding.code.id, "message": finding.message, "line": span.line, "column": span.column}
            diagnostics.append({**found, "help": finding.help} if finding.help else found)
    return json.dumps({"status": "rejected", "diagnostics": diagnostics}, ensure_ascii=False)


def _evaluate(analysis: Analysis, given: dict[str, object], row: Schema, text: Text, program: Program) -> int:
    from spark_jobs.cli.cxl import evaluation
    from spark_jobs.cxl import failure, typed

    assert isinstance(analysis.program, typed.Program)
    try:
        record = input.converted(given, row)
        outcome = evaluation.run(analysis.program, record, row, text.file.name, program.engine)
    except failure.Failure as problem:
        if program.as_json:
            _say(evaluation.json_of_failure(problem))
        else:
            say_error(f"error[eval]: {evaluation.failure_text(problem)}")
        return WRONG
    if program.as_json:
        _say(evaluation.json_of(outcome))
        return OK
    if outcome.filtered:
        say_error("note: record filtered by predicate")
    if outcome.duplicate:
        say_error("note: record dropped as duplicate (distinct)")
    records = outcome.records
    _say(evaluation.pretty(records if outcome.fans_out else records[0] if records else {}))
    return OK

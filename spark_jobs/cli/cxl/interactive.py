"""`cxl repl`: try expressions and statements on a record, with history and unfinished lines going on.

An expression prints its value, a statement runs with the lets and emits before it. Commands begin with a colon.
"""

from __future__ import annotations

import cmd
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.cxl import input
from spark_jobs.cli.cxl.input import InputError

if TYPE_CHECKING:
    from spark_jobs.cxl.compile import Analysis
    from spark_jobs.cxl.schema import Schema

_HELP = """\
expression            print its value
let x = …, emit x = … keep it for the lines that follow
:type expression      print its type
:load record.json     read the record that bare names mean
:record {"n": 1}      the same from the line
:show                 print the record and the program so far
:reset                forget the program
:help, :quit"""
#: An expression alone is there to be shown, and what reads a let may come next.
_FINE_HERE = ("W202", "W207")
_UNFINISHED = "found the end of the program"


def run(record: str | None, schema: str | None, rules_path: Path) -> int:
    """Read lines until the end of the input.

    Args:
        record: the record that bare names read, as JSON.
        schema: the types of its columns, as JSON.
        rules_path: where `use` finds modules.
    """
    declared = input.declared(schema) if schema else None
    shell = Repl(input.record(record, declared) if record else {}, declared, rules_path)
    history = _history()
    try:
        shell.cmdloop()
    except KeyboardInterrupt:
        shell.say("")
    finally:
        history()
    return 0


def _history() -> Any:
    """Read the history of earlier sessions; returns the function that saves it."""
    if not sys.stdin.isatty():
        return lambda: None
    try:
        import readline
    except ImportError:
        return lambda: None
    file = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "clinker" / "cxl_history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            readline.read_history_file(file)
    except OSError:
        return lambda: None
    readline.set_history_length(1000)

    def save() -> None:
        try:
            readline.write_history_file(file)
        except OSError as error:
            sys.stderr.write(f"note: history is not kept: {error}\n")

    return save


class Repl(cmd.Cmd):
    """The loop: `program` are the statements so far, `pending` the lines of an unfinished one."""

    intro = "CXL: :help shows the commands, :quit leaves."

    def __init__(self, record: dict[str, Any], declared: Schema | None, rules_path: Path) -> None:
        super().__init__(stdin=sys.stdin, stdout=sys.stdout)
        self.use_rawinput = sys.stdin.isatty()
        self.record = record
        self.declared = declared
        self.rules_path = rules_path
        self.program: list[str] = []
        self.pending: list[str] = []
        self._prompt()

    def say(self, text: str) -> None:
        """Write a line to the terminal."""
        self.stdout.write(text + "\n")

    def _prompt(self) -> None:
        self.prompt = ("...> " if self.pending else "cxl> ") if self.use_rawinput else ""

    @property
    def row(self) -> Schema:
        """The columns that bare names read."""
        return self.declared if self.declared is not None else input.row_of(self.record)

    def onecmd(self, line: str) -> bool:
        """Handle a line: a command, the end of the input, or CXL."""
        if line == "EOF":
            self.say("")
            return True
        stripped = line.strip()
        if stripped.startswith(":") and not self.pending:
            word, _, rest = stripped[1:].partition(" ")
            if word in ("quit", "q", "exit"):
                return True
            self._command(word, rest.strip())
        elif stripped or self.pending:
            self._line(line)
        self._prompt()
        return False

    def emptyline(self) -> bool:
        """An empty line ends an unfinished statement."""
        return self.onecmd("")

    def _command(self, word: str, rest: str) -> None:
        try:
            match word:
                case "help" | "h" | "?":
                    self.say(_HELP)
                case "type" | "t":
                    self._type(rest)
                case "load" | "l":
                    self.record = input.record(_read(rest), self.declared)
                    self.say(f"record: {', '.join(self.record) or 'no fields'}")
                case "record" | "r":
                    self.record = input.record(rest or "{}", self.declared)
                case "show":
                    self._show()
                case "reset":
                    self.program.clear()
                case _:
                    self.say(f"unknown command :{word}; :help shows the commands")
        except InputError as error:
            self.say(f"error: {error}")

    def _show(self) -> None:
        from spark_jobs.cli.cxl import evaluation

        self.say(evaluation.pretty(self.record))
        for statement in self.program:
            self.say(statement)

    def _analyse(self, source: str) -> Analysis:
        from spark_jobs.cxl import compile as front
        from spark_jobs.cxl.checking.modules import Library
        from spark_jobs.cxl.checking.scope import Scope

        return front.analyse(source, Scope(row=self.row, library=Library(self.rules_path), is_alone=True))

    def _line(self, line: str) -> None:
        entered = "\n".join([*self.pending, line])
        analysis = self._analyse("\n".join([*self.program, entered]))
        unfinished = any(_UNFINISHED in finding.message for finding in analysis.findings)
        if unfinished and line.strip():
            self.pending.append(line)
            return
        self.pending.clear()
        self._complain(analysis, entered)
        if analysis.program is not None:
            self._run(entered)

    def _complain(self, analysis: Analysis, entered: str) -> None:
        """Print the problems of the lines just entered; warnings about lines before them are known already."""
        start = sum(len(statement) + 1 for statement in self.program)
        for finding in analysis.findings:
            if finding.place[1] < start or finding.code.id in _FINE_HERE:
                continue
            self.say(f"{'error' if finding.is_error else 'warning'}[{finding.stage}]: {finding.message}")
            if finding.help:
                self.say(f"  help: {finding.help}")

    def _run(self, entered: str) -> None:
        """Run the program with the lines just entered; expressions print and are forgotten, statements stay."""
        from spark_jobs.cli.cxl import evaluation
        from spark_jobs.cxl import failure, typed
        from spark_jobs.cxl.syntax import ast, parser

        statements = parser.parse(entered).tree.statements
        shown = f"emit it_ = {entered}" if len(statements) == 1 and isinstance(statements[0], ast.Evaluate) else None
        program = self._analyse("\n".join([*self.program, shown or entered])).program
        if not isinstance(program, typed.Program):
            return
        try:
            record = input.converted(self.record, self.row)
            outcome = evaluation.run(program, record, self.row, "<repl>", "interpreter")
        except failure.Failure as problem:
            self.say(f"error[eval]: {problem.detail}")
            return
        if shown:
            for result in outcome.records:
                self.say(evaluation.pretty(result.get("it_")))
            if not outcome.records:
                self.say("note: record filtered by the program so far")
            return
        self.program.append(entered)
        if any(isinstance(statement, (ast.Emit, ast.EmitEach, ast.Filter)) for statement in statements):
            self.say(evaluation.pretty(outcome.records if outcome.fans_out else (outcome.records or [{}])[0]))

    def _type(self, expression: str) -> None:
        from spark_jobs.cxl import typed

        analysis = self._analyse("\n".join([*self.program, f"emit it_ = {expression}"]))
        if isinstance(analysis.program, typed.Program):
            self.say(str(dict(analysis.program.emits)["it_"]))
        else:
            self._complain(analysis, expression)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read '{file}': {error}") from None

"""From text to syntax tree.

Lark gives tokens and reductions; this module drives it, so that line ends mean what they should
(`docs/semantics/cxl.md`, "Newlines"), every mistake is reported rather than only the first, and nothing recurses,
however deep the nesting.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from spark_jobs import ownership
from spark_jobs.cxl.syntax import ast, builder, habits, mistakes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark import Lark, Token
    from lark.parsers.lalr_interactive_parser import InteractiveParser

#: Levels of nesting in an expression, and of `emit each` blocks in one another.
MAX_DEPTH = 256
MAX_EACH_DEPTH = 32

#: Entries that a level of nesting has on the parser's stack, at most. With more of them than the allowed levels have,
#: the nesting is too deep whatever follows, and nobody waits for the rest to be read.
_ENTRIES = 16
_MOST_OPEN = _ENTRIES * (MAX_DEPTH + MAX_EACH_DEPTH)

#: A text with more mistakes than this is no program; reading on would help nobody.
MAX_PROBLEMS = 100

_STATEMENT_WORDS = frozenset({"LET", "EMIT", "FILTER", "DISTINCT", "TRACE", "USE", "FN"})
#: After these a line end means nothing: an operand or an element is still to come.
_OPEN_AFTER = mistakes.terminals(
    "_ASSIGN COALESCE OR AND NOT COMPARE PLUS MINUS STAR SLASH PERCENT _DOT _COMMA _ARROW _THEN _ELSE IF "
    "LPAR _LSQB _LBRACE MAP_OPEN _COLON _NL _COLONCOLON _IN"
)
#: Tokens that can only continue the expression before them, so that a preceding line end is ignored.
_GOES_ON_WITH = mistakes.terminals(
    "COALESCE OR AND COMPARE PLUS STAR SLASH PERCENT _DOT _COMMA _ARROW _THEN _ELSE RPAR RSQB _LBRACE "
    "RBRACE _COLON _COLONCOLON $END"
)
_OPENING = {"LPAR": "RPAR", "_LSQB": "RSQB", "_LBRACE": "RBRACE", "MAP_OPEN": "RBRACE"}
_CLOSING = frozenset(_OPENING.values())
_LINE_END = re.compile(r"[\r\n]")
_DATE = re.compile(r"#\d{4}-\d\d-\d\d#")


@dataclass(frozen=True)
class Problem:
    """A mistake in a text: what, where, and how to mend it."""

    message: str
    place: ast.Place
    help: str | None = None


@dataclass(frozen=True)
class Parsed:
    """The result of parsing: the tree of all statements without mistakes, and the mistakes."""

    tree: ast.Program
    problems: tuple[Problem, ...]


def parse(text: str) -> Parsed:
    """Parse a program into a syntax tree, or into its problems."""
    return _Driver(text, "program").run()


def parse_expression(text: str) -> Parsed:
    """Parse a text that is one expression; the tree has it as its only statement, if there is one."""
    return _Driver(text, "single").run()


class _AllLineEnds:
    """Tells Lark's contextual lexer to give out line ends in every state."""

    always_accept = ("LINE_END",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


def _cache_file(grammar: str) -> str | bool:
    """The path where the analysed grammar is cached for the next process; False if caching is impossible or unsafe."""
    import hashlib
    import sys

    import lark

    folder = ownership.cache_folder(make=True)
    if folder is None:
        return False
    key = hashlib.sha256(f"{grammar}\n{lark.__version__}\n{sys.version_info[:2]}".encode()).hexdigest()[:16]
    path = folder / f"cxl-grammar-{key}.bin"
    try:
        # Lark would make it as the umask says; an empty file is a cache that it fills.
        os.close(ownership.open_file(path, flags=os.O_RDWR | os.O_CREAT))
    except OSError:
        return False
    # The cache is unpickled, so nobody else may have written it.
    return str(path) if ownership.is_own_file(path) else False


@cache
def _lark() -> Lark:
    """The grammar's tables, made once per process."""
    import lark

    data = pkgutil.get_data(__package__, "grammar.lark")
    assert data is not None
    grammar = data.decode("utf-8")
    # Lark logs a traceback when its cache cannot be read or written; building anew is all there is to do then.
    logging.getLogger("lark").addFilter(_is_not_about_the_cache)
    return lark.Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["program", "single"],
        transformer=builder.Builder(),
        postlex=_AllLineEnds(),
        cache=_cache_file(grammar),
    )


def _is_not_about_the_cache(record: logging.LogRecord) -> bool:
    return " cache" not in str(record.msg)


@cache
def _statement_states() -> frozenset[Any]:
    """The parser's states in which a statement may begin: where recovery goes on."""
    from lark.parsers.lalr_analysis import Shift

    states = _lark().parse_interactive("", start="program").parser_state.parse_conf.states
    return frozenset(
        state for state, actions in states.items() if (action := actions.get("FILTER")) and action[0] is Shift
    )


class _Driver:
    """One run of the parser: its state, the open brackets, and the mistakes so far."""

    def __init__(self, text: str, start: str) -> None:
        self.text = text
        self.start = start
        self.problems: list[Problem] = []
        self.parser: InteractiveParser = _lark().parse_interactive(text, start=start)
        self.brackets: list[Token] = []
        self.previous: Token | None = None
        self.line_end: Token | None = None
        self.after_line_end = False
        self.skipping = False
        self.is_given_up = False

    def run(self) -> Parsed:
        """Feed every token, then the end."""
        for token in self._tokens():
            if self.is_given_up or len(self.problems) >= MAX_PROBLEMS:
                return Parsed(ast.Program(()), tuple(self.problems))
            if token.type == "LINE_END":
                self.line_end = self.line_end or token
            else:
                self._take(token)
        result = self._finish()
        statements: tuple[ast.Statement, ...] = ()
        if isinstance(result, ast.Program):
            statements = result.statements
        elif isinstance(result, ast.Expression):
            statements = (ast.Evaluate(result.place, result),)
        tree = ast.Program(statements)
        self.problems += _limits(tree)
        if not self.problems:
            self.problems += _without_operator(statements, self.text)
        return Parsed(tree, tuple(_in_cxl(self.problems, self.text)))

    def _tokens(self) -> Iterator[Token]:
        """The lexer's tokens; a character that begins no token is reported, and lexing continues after it."""
        import lark

        # Lark's interactive parser is public, but not typed throughout.
        thread: Any = self.parser.lexer_thread
        while True:
            try:
                yield from thread.lex(self.parser.parser_state)
                return
            except lark.UnexpectedToken as error:
                # A token of another context: the parser will refuse it in its own words.
                if error.token.type == "_COLON":
                    self._bad_characters(error.token.start_pos or 0)
                else:
                    yield error.token
            except lark.UnexpectedCharacters as error:
                position = error.pos_in_stream or 0
                end = self._bad_characters(position)
                thread.state.line_ctr.feed(self.text[position:end])

    def _bad_characters(self, position: int) -> int:
        """Report characters that begin no token here. Returns their end."""
        inside = self.brackets[-1].type if self.brackets else ""
        end, problem = mistakes.bad_characters(self.text, position, inside)
        self._mistake(Problem(*problem))
        return end

    def _take(self, token: Token) -> None:
        """Feed one token, after the line end before it if that means something."""
        if token.type == "MAP_OPEN" and not self.skipping and not self._takes("MAP_OPEN"):
            token = token.update(type="_LBRACE")
        if self.skipping and not self._resume(token):
            self._note_bracket(token)
            return
        pending, self.line_end = self.line_end, None
        self.after_line_end = pending is not None
        if pending and self._is_significant(token):
            self._feed(pending.update(type="_NL"))
            if self.skipping and not self._resume(token, after_line_end=True):
                self._note_bracket(token)
                return
        if problem := self._token_problem(token, new_line=pending is not None):
            self._mistake(problem)
            self._note_bracket(token)
            return
        self._feed(token)
        if self.skipping and pending and token.type in _STATEMENT_WORDS:
            # The statement before was not finished; this one is whole.
            self.line_end = pending
            if self._resume(token):
                self._feed(token)

    def _is_significant(self, token: Token) -> bool:
        if self.previous is None or (self.start == "single" and not self.brackets):
            return False
        if self.brackets and self.brackets[-1].type != "_LBRACE":
            # A statement's word at the start of a line shows that the bracket was never closed.
            return token.type in _STATEMENT_WORDS and self.previous.type not in _OPEN_AFTER
        return self.previous.type not in _OPEN_AFTER and token.type not in _GOES_ON_WITH

    def _feed(self, token: Token) -> None:
        import lark

        try:
            self.parser.feed_token(token)
        except lark.UnexpectedToken:
            self._mistake(self._unexpected(token))
        if len(self.parser.parser_state.state_stack) > _MOST_OPEN:
            self.problems.append(self._too_deep(token))
            self.is_given_up = True
        self.previous = token
        self._note_bracket(token)

    def _too_deep(self, token: Token) -> Problem:
        """The problem of too deep nesting: of blocks, or of the expression in the last statement."""
        state = self.parser.parser_state
        values, end = state.value_stack, token.end_pos or 0
        blocks = [word for word, each in itertools.pairwise(values) if getattr(each, "type", "") == "_EACH"]
        if len(blocks) > MAX_EACH_DEPTH:
            return _deep_blocks((blocks[MAX_EACH_DEPTH].start_pos, end))
        starts = _statement_states() if self.start == "program" else frozenset()
        at = next((n for n in reversed(range(len(values))) if state.state_stack[n] in starts), 0)
        words = [getattr(value, "type", "") for value in values[at:]]
        head = next((n + 1 for n, word in enumerate(words) if word in ("_ASSIGN", "_IN")), None)
        if head is None:
            head = next(n for n, word in enumerate(words) if word not in ("FILTER", "TRACE", "LEVEL"))
            head += words[:head][:1] == ["TRACE"] and words[head] == "IF"
        first = values[at + head]
        return _deep_expression((first.place[0] if isinstance(first, ast.Expression) else first.start_pos, end))

    def _unexpected(self, token: Token) -> Problem:
        import lark

        accepted = self._accepted()
        if self.after_line_end and token.type in _STATEMENT_WORDS and self.previous is not None:
            # The statement that begins here is as it should be; the one before breaks off.
            end = self.previous.end_pos or 0
            token = lark.Token("_NL", "", end, end_pos=end)
        return Problem(*mistakes.unexpected(self.text, token, self.previous, accepted, self.brackets))

    def _accepted(self) -> set[str]:
        """The terminals that could stand next."""
        interactive: Any = self.parser
        accepted: set[str] = interactive.accepts()
        return accepted

    def _takes(self, terminal: str) -> bool:
        """True if a terminal could stand next."""
        from lark.parsers.lalr_analysis import Shift

        state: Any = self.parser.parser_state
        # All of `_accepted` costs a copy of the parser's stack for each terminal.
        action = state.parse_conf.states[state.state_stack[-1]].get(terminal)
        return action is not None and (action[0] is Shift or terminal in self._accepted())

    def _note_bracket(self, token: Token) -> None:
        if token.type in _OPENING:
            self.brackets.append(token)
        elif token.type in _CLOSING and self.brackets:
            self.brackets.pop()

    def _token_problem(self, token: Token, *, new_line: bool) -> Problem | None:
        """Mistakes that the grammar does not see."""
        previous = self.previous
        place = (token.start_pos or 0, token.end_pos or 0)
        if token.type == "DATE" and not _is_date(str(token)):
            return Problem(
                f"invalid date literal {token}",
                place,
                mistakes.DATE_HELP,
            )
        if previous is None or new_line:
            return None
        if (
            previous.type in ("INT", "FLOAT", "DECIMAL")
            and token.type in ("NAME", "FUNCTION")
            and previous.end_pos == token.start_pos
        ):
            return Problem(
                f"invalid number `{previous}{token}`",
                (previous.start_pos or 0, place[1]),
                "numbers have digits and one dot alone, and a Decimal ends in `d`: no exponent, no `_`, no `0x`",
            )
        if previous.type == "NAME" and token.type == "STRING" and previous.end_pos == token.start_pos:
            return Problem(
                f"unexpected string after '{previous}'",
                place,
                "strings have no prefix and no interpolation: join the parts with `+`, numbers with `.to_string()`",
            )
        if previous.type == "DISTINCT" and token.type not in _STATEMENT_WORDS | {"_BY", "RBRACE", "$END"}:
            return Problem("distinct requires 'by' before the field name", place, f"write `distinct by {token}`")
        return None

    def _mistake(self, problem: Problem) -> None:
        """Report a mistake, unless it follows from the one before, and go back to the statements."""
        if not self.skipping:
            self.problems.append(problem)
        self.skipping = True
        if self.start == "program":
            self._level()

    def _level(self) -> int:
        """The number of open brackets of statement blocks. Recovery can continue at such a block."""
        state = self.parser.parser_state
        statement_states = _statement_states()
        while len(state.state_stack) > 1 and state.state_stack[-1] not in statement_states:
            state.state_stack.pop()
            state.value_stack.pop()
        return sum(getattr(value, "type", "") == "_LBRACE" for value in state.value_stack)

    def _resume(self, token: Token, *, after_line_end: bool = False) -> bool:
        """True if parsing goes on with this token after a mistake."""
        if self.start == "single":
            return False
        level = self._level()
        new_line = self.line_end is not None or after_line_end
        starts = token.type in _STATEMENT_WORDS and new_line
        if (
            not starts
            and not (new_line and len(self.brackets) <= level)
            and not (token.type == "RBRACE" and len(self.brackets) <= level and level)
        ):
            return False
        del self.brackets[level:]
        self.skipping = False
        self.line_end = None
        # Whatever follows stands at the start of a statement, so the line end before it says nothing new.
        self.previous = None
        return True

    def _finish(self) -> Any:
        """Feed the end of the text; None if nothing can be built."""
        import lark

        end = lark.Token("$END", "", len(self.text), 0, 0, 0, 0, len(self.text))
        if self.skipping:
            if self.start == "single":
                return None
            self._level()
            self._drop_open_blocks()
        try:
            return self.parser.feed_token(end)
        except lark.UnexpectedToken:
            self.skipping = False
            self._mistake(self._unexpected(end))
            return None

    def _drop_open_blocks(self) -> None:
        """After a mistake, an unclosed block is part of the mistake: keep the statements before it."""
        state = self.parser.parser_state
        while any(getattr(value, "type", "") == "_LBRACE" for value in state.value_stack):
            state.state_stack.pop()
            state.value_stack.pop()
        self._level()
        while state.value_stack and getattr(state.value_stack[-1], "type", "") == "_NL":
            state.state_stack.pop()
            state.value_stack.pop()


def _is_date(literal: str) -> bool:
    if not _DATE.fullmatch(literal):
        return False
    try:
        datetime.date.fromisoformat(literal[1:-1])
    except ValueError:
        return False
    return True


def in_a_row(statements: Sequence[ast.Statement], text: str) -> Iterator[ast.Evaluate]:
    """Find values that follow a statement on its line, as in `emit a = b c`: hardly anybody means two statements.

    On a line of its own a value is a statement that does nothing, of which the checker warns.
    """
    for before, statement in itertools.pairwise(statements):
        between = text[before.place[1] : statement.place[0]]
        if isinstance(statement, ast.Evaluate) and not _LINE_END.search(between):
            yield statement
    for statement in statements:
        if isinstance(statement, ast.EmitEach):
            yield from in_a_row(statement.body, text)


def _without_operator(statements: Sequence[ast.Statement], text: str) -> Iterator[Problem]:
    """Values in a row that are mistakes; `value (…)` is two statements, and the checker warns of it."""
    for statement in in_a_row(statements, text):
        start, end = statement.place
        if text[start] == "(":
            continue
        shown = text[start:end] if end - start <= 30 else f"{text[start : start + 29]}…"
        yield Problem(f"`{shown}` follows a complete value", statement.place, _missing(text, start))


def _in_cxl(problems: Sequence[Problem], text: str) -> Iterator[Problem]:
    """The mistakes; a form of another language replaces all mistakes on its lines with one of its own."""
    if not problems:
        return
    left = list(problems)
    of_forms: list[Problem] = []
    for form in habits.forms(text, [one.place[0] for one in problems]):
        first, last = (habits.line_of(text, position) for position in form.place)
        there = [one for one in left if first <= habits.line_of(text, one.place[0]) <= last]
        if there:
            of_forms.append(Problem(form.message, form.place, form.help))
            left = [one for one in left if one not in there]
    yield from sorted([*of_forms, *left], key=lambda one: one.place)


def _missing(text: str, start: int) -> str:
    """A guess at the intended text between two values in a row."""
    if text[start] in "\"'" and text[start - 1] == text[start]:
        return 'write a quote inside a text with a backslash, or use the other quotes around the text: "it\'s"'
    return "an operator is missing between the two, such as `*`, `+` or `??`; a statement begins on a line of its own"


def _deep_blocks(place: ast.Place) -> Problem:
    return Problem(f"emit each nesting too deep (max {MAX_EACH_DEPTH} levels)", place)


def _deep_expression(place: ast.Place) -> Problem:
    message = f"expression nesting too deep (max {MAX_DEPTH} levels)"
    return Problem(message, place, "give inner parts names with `let`")


def _limits(tree: ast.Program) -> Iterator[Problem]:
    """Mistakes of size: nesting that is too deep. For blocks the first level too many is reported."""
    stack = [(statement, 1) for statement in tree.statements]
    for statement, level in stack:
        if isinstance(statement, ast.EmitEach):
            if level == MAX_EACH_DEPTH + 1:
                yield _deep_blocks(statement.place)
            stack.extend((inner, level + 1) for inner in statement.body)
        for name in ("value", "predicate", "guard", "message", "body", "source"):
            expression = getattr(statement, name, None)
            if isinstance(expression, ast.Expression) and expression.depth > MAX_DEPTH:
                yield _deep_expression(expression.place)

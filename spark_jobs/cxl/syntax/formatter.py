"""The canonical text of a program: the same tree, one layout (`cxl fmt`).

One statement a line, minimal parentheses, comments and single blank lines kept. Statements that do not fit a line are
broken: arms of a match and branches of an `if` onto lines of their own, long chains at their operators. Formatting
again changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl.syntax import ast, names
from spark_jobs.cxl.syntax import layout as inline

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 100
_STEP = "  "
#: Strings and dates are matched so that a `#` inside them is no comment.
_COMMENT = re.compile(
    r""""(?:\\[^\r\n]|[^"\\\r\n])*"|'(?:\\[^\r\n]|[^'\\\r\n])*'|`[^`\r\n]*`|#[0-9][^#\r\n]*#|(?P<comment>#[^\r\n]*)"""
)
_LEVEL_WORD = re.compile(r"(debug|info|warn|error)\b")


@dataclass(frozen=True)
class Comment:
    """A comment, from its `#` to the end of the line."""

    start: int
    end: int
    text: str


def comments(source: str) -> list[Comment]:
    """The comments of a text, in order."""
    return [
        Comment(found.start(), found.end(), found["comment"].rstrip())
        for found in _COMMENT.finditer(source)
        if found["comment"]
    ]


def format_program(source: str, tree: ast.Program) -> str:
    """The canonical text of a parsed program, with a final line end (nothing for an empty program)."""
    printer = _Printer(source)
    lines = printer.block(tree.statements, 0, len(source), "")
    return "\n".join(lines) + "\n" if lines else ""


class _Printer:
    """Prints one program. Comments are taken in order. `hoisted` are comments without a place inside a statement."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.comments = comments(source)
        self.starts = [comment.start for comment in self.comments]
        self.next = 0
        self.hoisted: list[str] = []

    # ---- comments ------------------------------------------------------------------------------------

    def _take(self, end: int) -> list[Comment]:
        """The comments that begin before an offset and have not been printed yet."""
        start = self.next
        while self.next < len(self.comments) and self.comments[self.next].start < end:
            self.next += 1
        return self.comments[start : self.next]

    def _trailing_comment(self, stop: int, limit: int) -> Comment | None:
        """The comment that follows on the line where something ends."""
        if self.next >= len(self.comments):
            return None
        found = self.comments[self.next]
        if found.start >= limit or not re.fullmatch(r"[ \t,]*", self.source[stop : found.start]):
            return None
        self.next += 1
        return found

    def _pending(self, place: ast.Place) -> bool:
        """True if some comment that was not printed yet stands inside a place."""
        found = bisect_left(self.starts, place[0], self.next)
        return found < len(self.starts) and self.starts[found] < place[1]

    def _blank(self, lines: list[str], start: int, end: int) -> None:
        """Keep one of the blank lines between two things."""
        gap = self.source[start:end].replace("\r\n", "\n").replace("\r", "\n")
        if lines and gap.count("\n") > 1:
            lines.append("")

    # ---- statements ----------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.Statement], start: int, end: int, indent: str) -> list[str]:
        """The lines of the statements that stand between two offsets."""
        lines: list[str] = []
        position = start
        for number, statement in enumerate(statements):
            begin, stop = statement.place
            position = self._own_lines(lines, position, begin, indent)
            self._blank(lines, position, begin)
            text = self._statement(statement, indent)
            lines += [indent + comment for comment in self.hoisted]
            self.hoisted.clear()
            lines.append(indent + text)
            following = statements[number + 1].place[0] if number + 1 < len(statements) else end
            trailing = self._trailing_comment(stop, following)
            if trailing:
                lines[-1] += f"  {trailing.text}"
            position = trailing.end if trailing else stop
        self._own_lines(lines, position, end, indent)
        return lines

    def _own_lines(self, lines: list[str], position: int, end: int, indent: str) -> int:
        for comment in self._take(end):
            self._blank(lines, position, comment.start)
            lines.append(indent + comment.text)
            position = comment.end
        return position

    def _statement(self, statement: ast.Statement, indent: str) -> str:
        """A statement's text, lines after the first indented; comments that have no place in it go to `hoisted`."""
        text = self._words(statement, indent)
        self.hoisted += [comment.text for comment in self._take(statement.place[1])]
        return text

    def _words(self, statement: ast.Statement, indent: str) -> str:
        match statement:
            case ast.Let(name=name, value=value):
                return self._after(f"let {names.quote_if_needed(name)} = ", value, indent)
            case ast.Emit(name=name, value=value):
                return self._after(f"emit {names.quote_if_needed(name)} = ", value, indent)
            case ast.EmitMeta(key=key, value=value):
                return self._after(f"emit meta {names.quote_if_needed(key)} = ", value, indent)
            case ast.EmitSystem(namespace=namespace, keys=keys, value=value):
                return self._after(f"emit ${'.'.join((namespace, *keys))} = ", value, indent)
            case ast.Filter(predicate=predicate):
                return self._after("filter ", predicate, indent)
            case ast.Evaluate(value=value):
                return self._after("", value, indent)
            case ast.Distinct(key=key):
                return f"distinct by {names.quote_if_needed(key)}" if key else "distinct"
            case ast.Use(path=path, alias=alias):
                return f"use {'.'.join(path)}" + (f" as {alias}" if alias != path[-1] else "")
            case ast.Fn(name=name, parameters=parameters, body=body):
                return self._after(f"fn {name}({', '.join(parameters)}) = ", body, indent)
            case ast.Trace():
                return self._trace(statement, indent)
            case ast.EmitEach():
                return self._emit_each(statement, indent)
            case _:
                raise TypeError(f"no statement: {statement!r}")

    def _after(self, prefix: str, value: ast.Expression, indent: str) -> str:
        return prefix + self.expression(value, indent, len(indent) + len(prefix))

    def _trace(self, statement: ast.Trace, indent: str) -> str:
        prefix = "trace " if statement.level == "trace" else f"trace {statement.level} "
        if statement.guard is not None:
            prefix += f"if {self.expression(statement.guard, indent, len(indent) + len(prefix) + 3, inline.OR)} then "
        message = self.expression(statement.message, indent, len(indent) + len(prefix))
        # A message that begins with a level's name would be read as the level.
        if statement.level == "trace" and statement.guard is None and _LEVEL_WORD.match(message):
            message = f"({message})"
        return prefix + message

    def _emit_each(self, statement: ast.EmitEach, indent: str) -> str:
        prefix = f"emit each {statement.name} in "
        source = self.expression(statement.source, indent, len(indent) + len(prefix))
        stop = statement.source.place[1]
        self.hoisted += [comment.text for comment in self._take(stop)]
        hoisted, self.hoisted = self.hoisted, []
        inner = self.block(statement.body, self._body_start(stop), statement.place[1] - 1, indent + _STEP)
        self.hoisted = hoisted
        head = f"{prefix}{source}{' outer' if statement.outer else ''} {{"
        return "\n".join([head, *inner, indent + "}"])

    def _body_start(self, stop: int) -> int:
        """The offset after the brace that opens a block; comments before the brace belong to the block."""
        start = self.source.find("{", stop)
        while any(comment.start <= start < comment.end for comment in self.comments):
            start = self.source.find("{", start + 1)
        return start + 1

    # ---- expressions ---------------------------------------------------------------------------------

    def expression(self, node: ast.Expression, indent: str, column: int, level: int = inline.ANY) -> str:
        """An expression on one line where it fits, else broken; `column` is where its first line begins."""
        flat = inline.text_of(node, level)
        if column + len(flat) <= WIDTH and not self._has_comments(node):
            return flat
        broken = self._broken(node, indent, column)
        if broken is None:
            return flat
        return f"({broken})" if inline.level_of(node) < level else broken

    def _has_comments(self, node: ast.Expression) -> bool:
        """True if a match inside holds comments, which have their place between its arms."""
        return self._pending(node.place) and any(self._pending(found.place) for found in _matches(node))

    def _broken(self, node: ast.Expression, indent: str, column: int) -> str | None:
        inner = indent + _STEP
        match node:
            case ast.Match():
                return self._match(node, indent)
            case ast.If():
                return self._if(node, inner, column)
            case ast.Binary(operator=operator):
                level, left_level, right_level = inline.OPERATORS[operator]
                chain = _chain(node, level)
                first = self.expression(chain[0][1], inner, column, left_level)
                rest = [(sign, self.expression(part, inner, len(inner) + 3, right_level)) for sign, part in chain[1:]]
                # A line that begins with `-` would be a statement of its own.
                return first + "".join(
                    f" -\n{inner}{text}" if sign == "-" else f"\n{inner}{sign} {text}" for sign, text in rest
                )
            case ast.Method(base=base, name=name, arguments=arguments) if arguments:
                receiver = self.expression(base, indent, column, inline.POSTFIX)
                return f"{receiver}.{self._call(name, arguments, indent)}"
            case ast.Method(base=base, name=name):
                return f"{self.expression(base, indent, column, inline.POSTFIX)}.{name}()"
            case ast.Member(base=base, name=name):
                return f"{self.expression(base, indent, column, inline.POSTFIX)}.{names.member(name)}"
            case ast.Index(base=base, index=index):
                receiver = self.expression(base, indent, column, inline.POSTFIX)
                return f"{receiver}[{self.expression(index, indent, column + len(receiver) + 1)}]"
            case ast.Negate(operand=operand):
                return "-" + self.expression(operand, indent, column + 1, inline.UNARY)
            case ast.Not(operand=operand):
                return "not " + self.expression(operand, indent, column + 4, inline.NOT)
            case ast.FunctionCall(name=name, arguments=arguments) if arguments:
                return self._call(name, arguments, indent)
            case ast.ModuleMember(alias=alias, name=name, arguments=arguments) if arguments:
                return f"{alias}::{self._call(name, arguments, indent)}"
            case ast.MapLiteral(entries=entries) if entries:
                parts = [
                    f"{inner}{key}: {self.expression(entry.value, inner, len(inner) + len(key) + 2)}"
                    for entry in entries
                    for key in (inline.key_of(entry),)
                ]
                return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
            case ast.Closure(body=body):
                return "it => " + self.expression(body, indent, column + len("it => "))
            case _:
                return None

    def _call(self, name: str, arguments: Sequence[ast.Expression], indent: str) -> str:
        inner = indent + _STEP
        parts = [inner + self.expression(argument, inner, len(inner)) for argument in arguments]
        return f"{name}(\n" + ",\n".join(parts) + f"\n{indent})"

    def _if(self, node: ast.If, indent: str, column: int) -> str:
        parts = []
        current: ast.Expression | None = node
        word = "if "
        while isinstance(current, ast.If):
            condition = self.expression(current.condition, indent, column + len(word), inline.OR)
            then = self.expression(
                current.then, indent, len(indent) + len(word) + len(condition) + 6, inline.then_level(current)
            )
            parts.append(f"{word}{condition} then {then}")
            current = current.otherwise
            word = "else if "
        if current is not None:
            parts.append("else " + self.expression(current, indent, len(indent) + 5))
        return f"\n{indent}".join(parts)

    def _match(self, node: ast.Match, indent: str) -> str:
        inner = indent + _STEP
        self.hoisted += [comment.text for comment in self._take(node.place[0])]
        head = f"match {inline.text_of(node.subject, inline.ANY)} {{" if node.subject else "match {"
        lines = []
        for number, arm in enumerate(node.arms):
            lines += [inner + comment.text for comment in self._take(arm.place[0])]
            pattern = inline.text_of(arm.pattern, inline.COALESCE) if arm.pattern else "_"
            value = self.expression(arm.value, inner, len(inner) + len(pattern) + 4)
            last = number + 1 == len(node.arms)
            text = f"{inner}{pattern} => {value}{'' if last else ','}"
            # Comments inside a value have no place of their own: they go before the arm.
            lines += [inner + comment.text for comment in self._take(arm.place[1])]
            trailing = self._trailing_comment(
                arm.place[1], node.arms[number + 1].place[0] if not last else node.place[1]
            )
            lines.append(text + (f"  {trailing.text}" if trailing else ""))
        lines += [inner + comment.text for comment in self._take(node.place[1])]
        return "\n".join([head, *lines, indent + "}"])


def _matches(node: ast.Expression) -> list[ast.Match]:
    """Every match inside an expression, itself included."""
    found = []
    stack: list[object] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack.extend(part)
        elif isinstance(part, (ast.Expression, ast.Arm, ast.Entry)):
            if isinstance(part, ast.Match):
                found.append(part)
            stack.extend(getattr(part, name) for name in part.__dataclass_fields__)
    return found


def _chain(node: ast.Binary, level: int) -> list[tuple[str, ast.Expression]]:
    """The operands of a chain of operators that bind alike, each with the operator before it."""
    parts: list[tuple[str, ast.Expression]] = []
    if level == inline.COALESCE:
        current: ast.Expression = node
        sign = ""
        while isinstance(current, ast.Binary) and current.operator == "??":
            parts.append((sign, current.left))
            current, sign = current.right, "??"
        return [*parts, (sign, current)]
    current = node
    while isinstance(current, ast.Binary) and inline.OPERATORS[current.operator][0] == level:
        parts.append((current.operator, current.right))
        current = current.left
        if level == inline.COMPARISON:
            break
    return [("", current), *reversed(parts)]

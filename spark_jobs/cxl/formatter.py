"""The canonical text of a program: the same tree, one layout (`cxl fmt`).

One statement a line, minimal parentheses, comments and single blank lines kept. What does not fit a line is broken:
arms of a match and branches of an `if` onto lines of their own, long chains at their operators. Formatting twice gives
the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl import ast

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 100
_STEP = "  "
#: Strings and dates are matched so that a `#` inside them is no comment.
_COMMENT = re.compile(
    r""""(?:\\[^\r\n]|[^"\\\r\n])*"|'(?:\\[^\r\n]|[^'\\\r\n])*'|#[0-9][^#\r\n]*#|(?P<comment>#[^\r\n]*)"""
)
_LEVEL_WORD = re.compile(r"(debug|info|warn|error)\b")

# How tightly constructs bind; an operand that binds less gets parentheses.
_ANY, _COALESCE, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _POSTFIX = range(10)
_OPERATORS = {
    "??": (_COALESCE, _OR, _COALESCE),
    "or": (_OR, _OR, _AND),
    "and": (_AND, _AND, _NOT),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), (_COMPARISON, _SUM, _SUM)),
    **dict.fromkeys(("+", "-"), (_SUM, _SUM, _PRODUCT)),
    **dict.fromkeys(("*", "/", "%"), (_PRODUCT, _PRODUCT, _UNARY)),
}


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


def quoted(value: str) -> str:
    """A string as a literal in double quotes."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(character, character) for character in value) + '"'


class _Printer:
    """Prints one program. Comments are taken in order; `hoisted` are those that found no place inside a statement."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.comments = comments(source)
        self.next = 0
        self.hoisted: list[str] = []

    # ---- comments ------------------------------------------------------------------------------------

    def _take(self, end: int) -> list[Comment]:
        """The comments that begin before an offset and have not been printed yet."""
        start = self.next
        while self.next < len(self.comments) and self.comments[self.next].start < end:
            self.next += 1
        return self.comments[start : self.next]

    def _beside(self, stop: int, limit: int) -> Comment | None:
        """The comment that follows on the line where something ends."""
        if self.next >= len(self.comments):
            return None
        found = self.comments[self.next]
        if found.start >= limit or not re.fullmatch(r"[ \t,]*", self.source[stop : found.start]):
            return None
        self.next += 1
        return found

    def _pending(self, place: ast.Place) -> bool:
        """Whether a comment that was not printed yet stands inside a place."""
        return self.next < len(self.comments) and place[0] <= self.comments[self.next].start < place[1]

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
            beside = self._beside(stop, following)
            if beside:
                lines[-1] += f"  {beside.text}"
            position = beside.end if beside else stop
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
                return self._after(f"let {name} = ", value, indent)
            case ast.Emit(name=name, value=value):
                return self._after(f"emit {name} = ", value, indent)
            case ast.EmitMeta(key=key, value=value):
                return self._after(f"emit meta {key} = ", value, indent)
            case ast.EmitSystem(namespace=namespace, keys=keys, value=value):
                return self._after(f"emit ${'.'.join((namespace, *keys))} = ", value, indent)
            case ast.Filter(predicate=predicate):
                return self._after("filter ", predicate, indent)
            case ast.Evaluate(value=value):
                return self._after("", value, indent)
            case ast.Distinct(key=key):
                return f"distinct by {key}" if key else "distinct"
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
            prefix += f"if {self.expression(statement.guard, indent, len(indent) + len(prefix) + 3, _OR)} then "
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
        """The offset behind the brace that opens a block; comments before the brace belong to the block."""
        start = self.source.find("{", stop)
        while any(comment.start <= start < comment.end for comment in self.comments):
            start = self.source.find("{", start + 1)
        return start + 1

    # ---- expressions ---------------------------------------------------------------------------------

    def expression(self, node: ast.Expression, indent: str, column: int, level: int = _ANY) -> str:
        """An expression on one line where it fits, else broken; `column` is where its first line begins."""
        flat = _flat(node, level)
        if column + len(flat) <= WIDTH and not self._has_comments(node):
            return flat
        broken = self._broken(node, indent, column)
        if broken is None:
            return flat
        return f"({broken})" if _level(node) < level else broken

    def _has_comments(self, node: ast.Expression) -> bool:
        """Whether a match inside holds comments, which have their place between its arms."""
        return self._pending(node.place) and any(self._pending_inside(found.place) for found in _matches(node))

    def _pending_inside(self, place: ast.Place) -> bool:
        return any(place[0] <= comment.start < place[1] for comment in self.comments[self.next :])

    def _broken(self, node: ast.Expression, indent: str, column: int) -> str | None:
        inner = indent + _STEP
        match node:
            case ast.Match():
                return self._match(node, indent)
            case ast.If():
                return self._if(node, inner, column)
            case ast.Binary(operator=operator):
                level, left_level, right_level = _OPERATORS[operator]
                chain = _chain(node, level)
                first = self.expression(chain[0][1], inner, column, left_level)
                rest = [(sign, self.expression(part, inner, len(inner) + 3, right_level)) for sign, part in chain[1:]]
                # A line that begins with `-` would be a statement of its own.
                return first + "".join(
                    f" -\n{inner}{text}" if sign == "-" else f"\n{inner}{sign} {text}" for sign, text in rest
                )
            case ast.Method(base=base, name=name, arguments=arguments) if arguments:
                receiver = self.expression(base, indent, column, _POSTFIX)
                return f"{receiver}.{self._call(name, arguments, indent)}"
            case ast.FunctionCall(name=name, arguments=arguments) if arguments:
                return self._call(name, arguments, indent)
            case ast.ModuleMember(alias=alias, name=name, arguments=arguments) if arguments:
                return f"{alias}::{self._call(name, arguments, indent)}"
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
            condition = self.expression(current.condition, indent, column + len(word), _OR)
            then = self.expression(
                current.then, indent, len(indent) + len(word) + len(condition) + 6, _then_level(current)
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
        head = f"match {_flat(node.subject, _ANY)} {{" if node.subject else "match {"
        lines = []
        for number, arm in enumerate(node.arms):
            lines += [inner + comment.text for comment in self._take(arm.place[0])]
            pattern = _flat(arm.pattern, _COALESCE) if arm.pattern else "_"
            value = self.expression(arm.value, inner, len(inner) + len(pattern) + 4)
            last = number + 1 == len(node.arms)
            text = f"{inner}{pattern} => {value}{'' if last else ','}"
            # Comments inside a value have no place of their own: they go before the arm.
            lines += [inner + comment.text for comment in self._take(arm.place[1])]
            beside = self._beside(arm.place[1], node.arms[number + 1].place[0] if not last else node.place[1])
            lines.append(text + (f"  {beside.text}" if beside else ""))
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
        elif isinstance(part, (ast.Expression, ast.Arm)):
            if isinstance(part, ast.Match):
                found.append(part)
            stack.extend(getattr(part, name) for name in part.__dataclass_fields__)
    return found


def _chain(node: ast.Binary, level: int) -> list[tuple[str, ast.Expression]]:
    """The operands of a chain of operators that bind alike, each with the operator before it."""
    parts: list[tuple[str, ast.Expression]] = []
    if level == _COALESCE:
        current: ast.Expression = node
        sign = ""
        while isinstance(current, ast.Binary) and current.operator == "??":
            parts.append((sign, current.left))
            current, sign = current.right, "??"
        return [*parts, (sign, current)]
    current = node
    while isinstance(current, ast.Binary) and _OPERATORS[current.operator][0] == level:
        parts.append((current.operator, current.right))
        current = current.left
        if level == _COMPARISON:
            break
    return [("", current), *reversed(parts)]


def _level(node: ast.Expression) -> int:
    match node:
        case ast.Binary(operator=operator):
            return _OPERATORS[operator][0]
        case ast.Not():
            return _NOT
        case ast.Negate():
            return _UNARY
        case ast.If() | ast.Closure():
            return _ANY
        case ast.Match():
            return _UNARY
        case _:
            return _POSTFIX


def _then_level(node: ast.If) -> int:
    """An `if` without `else` in front of an `else` would take it."""
    return _COALESCE if node.otherwise is not None else _ANY


def _flat(node: ast.Expression, level: int) -> str:
    """An expression on one line; chains are walked in a loop, like everywhere."""
    text = _flat_chain(node)
    return f"({text})" if _level(node) < level else text


def _flat_chain(node: ast.Expression) -> str:
    tail: list[str] = []
    while True:
        match node:
            case ast.Binary(operator=operator, left=left, right=right) if operator != "??":
                _, left_level, right_level = _OPERATORS[operator]
                tail.append(f" {operator} {_flat(right, right_level)}")
                if _level(left) < left_level:
                    return f"({_flat_chain(left)})" + "".join(reversed(tail))
                node = left
            case ast.Member(base=base, name=name):
                tail.append(f".{name}")
                if _level(base) < _POSTFIX:
                    return f"({_flat_chain(base)})" + "".join(reversed(tail))
                node = base
            case ast.Method(base=base, name=name, arguments=arguments):
                tail.append(f".{name}({_list(arguments)})")
                if _level(base) < _POSTFIX:
                    return f"({_flat_chain(base)})" + "".join(reversed(tail))
                node = base
            case ast.Index(base=base, index=index):
                tail.append(f"[{_flat(index, _ANY)}]")
                if _level(base) < _POSTFIX:
                    return f"({_flat_chain(base)})" + "".join(reversed(tail))
                node = base
            case _:
                return _flat_head(node) + "".join(reversed(tail))


def _list(arguments: Sequence[ast.Expression]) -> str:
    return ", ".join(_flat(argument, _ANY) for argument in arguments)


def _flat_head(node: ast.Expression) -> str:
    match node:
        case ast.Literal():
            return _literal(node)
        case ast.Name(name=name):
            return name
        case ast.Now():
            return "now"
        case ast.Star():
            return "*"
        case ast.Dollar(namespace=namespace):
            return f"${namespace}"
        case ast.ModuleMember(alias=alias, name=name, arguments=arguments):
            return f"{alias}::{name}" + ("" if arguments is None else f"({_list(arguments)})")
        case ast.FunctionCall(name=name, arguments=arguments):
            return f"{name}({_list(arguments)})"
        case ast.Negate(operand=operand):
            return f"-{_flat(operand, _UNARY)}"
        case ast.Not(operand=operand):
            return f"not {_flat(operand, _NOT)}"
        case ast.Binary(left=left, right=right):
            return f"{_flat(left, _OR)} ?? {_flat(right, _COALESCE)}"
        case ast.If(condition=condition, then=then, otherwise=otherwise):
            text = f"if {_flat(condition, _OR)} then {_flat(then, _then_level(node))}"
            return text if otherwise is None else f"{text} else {_flat(otherwise, _ANY)}"
        case ast.Match(subject=subject, arms=arms):
            parts = [
                f"{_flat(arm.pattern, _COALESCE) if arm.pattern else '_'} => {_flat(arm.value, _ANY)}" for arm in arms
            ]
            head = f"match {_flat(subject, _ANY)}" if subject else "match"
            return f"{head} {{ {', '.join(parts)} }}"
        case ast.Closure(body=body):
            return f"it => {_flat(body, _ANY)}"
        case _:
            raise TypeError(f"no expression: {node!r}")


def _literal(node: ast.Literal) -> str:
    if node.kind != "string":
        return node.text
    # How the author escaped stays, as long as the quotes are the usual ones or spare an escape.
    return node.text if node.text[0] == '"' or '"' in str(node.value) else quoted(str(node.value))

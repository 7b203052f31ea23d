"""Expressions on one line, with as few parentheses as their meaning allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl.syntax import ast, names

if TYPE_CHECKING:
    from collections.abc import Sequence

# Precedences of constructs; an operand with a lower one gets parentheses.
ANY, COALESCE, OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, POSTFIX = range(10)
OPERATORS = {
    "??": (COALESCE, OR, COALESCE),
    "or": (OR, OR, AND),
    "and": (AND, AND, NOT),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), (COMPARISON, SUM, SUM)),
    **dict.fromkeys(("+", "-"), (SUM, SUM, PRODUCT)),
    **dict.fromkeys(("*", "/", "%"), (PRODUCT, PRODUCT, UNARY)),
}


def quoted(value: str) -> str:
    """A string as a literal in double quotes."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(character, character) for character in value) + '"'


def level_of(node: ast.Expression) -> int:
    """The precedence of an expression."""
    match node:
        case ast.Binary(operator=operator):
            return OPERATORS[operator][0]
        case ast.Not():
            return NOT
        case ast.Negate():
            return UNARY
        case ast.If() | ast.Closure():
            return ANY
        case ast.Match():
            return UNARY
        case _:
            return POSTFIX


def then_level(node: ast.If) -> int:
    """An `if` without `else` in front of an `else` would take it."""
    return COALESCE if node.otherwise is not None else ANY


def text_of(node: ast.Expression, level: int) -> str:
    """An expression on one line; chains are walked in a loop, like everywhere."""
    text = _chain(node)
    return f"({text})" if level_of(node) < level else text


def _chain(node: ast.Expression) -> str:
    tail: list[str] = []
    while True:
        match node:
            case ast.Binary(operator=operator, left=left, right=right) if operator != "??":
                _, left_level, right_level = OPERATORS[operator]
                tail.append(f" {operator} {text_of(right, right_level)}")
                if level_of(left) < left_level:
                    return f"({_chain(left)})" + "".join(reversed(tail))
                node = left
            case ast.Member(base=base, name=name):
                tail.append(f".{names.member(name)}")
                if level_of(base) < POSTFIX:
                    return f"({_chain(base)})" + "".join(reversed(tail))
                node = base
            case ast.Method(base=base, name=name, arguments=arguments):
                tail.append(f".{name}({_list(arguments)})")
                if level_of(base) < POSTFIX:
                    return f"({_chain(base)})" + "".join(reversed(tail))
                node = base
            case ast.Index(base=base, index=index):
                tail.append(f"[{text_of(index, ANY)}]")
                if level_of(base) < POSTFIX:
                    return f"({_chain(base)})" + "".join(reversed(tail))
                node = base
            case _:
                return _head(node) + "".join(reversed(tail))


def _list(arguments: Sequence[ast.Expression]) -> str:
    return ", ".join(text_of(argument, ANY) for argument in arguments)


def _head(node: ast.Expression) -> str:
    match node:
        case ast.Literal():
            return _literal(node)
        case ast.Name(name=name):
            return names.quote_if_needed(name)
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
            return f"-{text_of(operand, UNARY)}"
        case ast.Not(operand=operand):
            return f"not {text_of(operand, NOT)}"
        case ast.Binary(left=left, right=right):
            return f"{text_of(left, OR)} ?? {text_of(right, COALESCE)}"
        case ast.If(condition=condition, then=then, otherwise=otherwise):
            text = f"if {text_of(condition, OR)} then {text_of(then, then_level(node))}"
            return text if otherwise is None else f"{text} else {text_of(otherwise, ANY)}"
        case ast.Match(subject=subject, arms=arms):
            parts = [
                f"{text_of(arm.pattern, COALESCE) if arm.pattern else '_'} => {text_of(arm.value, ANY)}" for arm in arms
            ]
            head = f"match {text_of(subject, ANY)}" if subject else "match"
            return f"{head} {{ {', '.join(parts)} }}"
        case ast.MapLiteral(entries=entries):
            return "{" + ", ".join(f"{key_of(entry)}: {text_of(entry.value, ANY)}" for entry in entries) + "}"
        case ast.Closure(body=body):
            return f"it => {text_of(body, ANY)}"
        case _:
            raise TypeError(f"no expression: {node!r}")


def key_of(entry: ast.Entry) -> str:
    """A map's key: plain where it is a name, else in quotes."""
    return entry.key if names.member(entry.key) == entry.key else quoted(entry.key)


def _literal(node: ast.Literal) -> str:
    if node.kind != "string":
        return node.text
    # The author's escapes stay if the quotes are the usual ones or save an escape.
    return node.text if node.text[0] == '"' or '"' in str(node.value) else quoted(str(node.value))

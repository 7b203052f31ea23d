"""What stands in strings of the tests and is a name of the sources: targets of patches, programs of other processes.

Nothing is imported: a name is there if the text of its module defines it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("spark_jobs", "clinker_provider")
_DOTTED = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+(?!\S)")
_IMPORT = re.compile(rf"\bimport\s+((?:{'|'.join(PACKAGES)})(?:\.\w+)*)(?![\w.])")
_FROM = re.compile(rf"\bfrom\s+((?:{'|'.join(PACKAGES)})(?:\.\w+)*)\s+import\s+(\w+(?:\s*,\s*\w+)*)")
#: A name of a file, and no module.
_FILES = {"spark_jobs.zip"}
#: Stands for the values in an f-string.
_UNKNOWN = "_"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def module_file(name: str) -> Path | None:
    """The file of a module or package."""
    if not name:
        return None
    path = ROOT.joinpath(*name.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


def _defined(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """The names that statements define, with what defines them; those in branches too."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((each.asname or each.name.split(".")[0], node) for each in names)
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from ((each.id, node) for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case _:
                for field in ("body", "orelse", "finalbody", "handlers"):
                    inner = getattr(node, field, [])
                    yield from _defined([one for each in inner for one in getattr(each, "body", [each])])


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something that one defines."""
    parts = name.split(".")
    length = next((end for end in range(len(parts), 0, -1) if module_file(".".join(parts[:end]))), 0)
    file = module_file(".".join(parts[:length]))
    if file is None:
        return False
    body = parsed(file).body
    for part in parts[length:]:
        found = dict(_defined(body)).get(part)
        match found:
            case None:
                return False
            case ast.ClassDef(bases=[]):
                body = found.body
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in PACKAGES:
                original = next(each.name for each in found.names if (each.asname or each.name) == part)
                rest = parts[parts.index(part, length) + 1 :]
                return exists(".".join([module, original, *rest]))
            case _:
                # Inherited members and attributes of objects are not found in this module's source.
                return True
    return True


def _aliases(nodes: list[ast.AST]) -> dict[str, str]:
    """The names that a program gives to modules and members of the sources, with their full names."""
    found: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in PACKAGES:
                found |= {each.asname or each.name: f"{module}.{each.name}" for each in node.names}
            case ast.Import(names=names):
                found |= {each.asname: each.name for each in names if each.asname and each.name.startswith(PACKAGES)}
    return found


def _texts(nodes: list[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    """The strings of a module; a value in an f-string is a name that means nothing."""
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else _UNKNOWN for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node, node.value


def _program(text: str) -> Iterator[str]:
    """The names of the sources that a string uses if it is a program, or a part of one."""
    for match in _FROM.finditer(text):
        yield from (f"{match[1]}.{each.strip()}" for each in match[2].split(","))
    yield from (match[1] for match in _IMPORT.finditer(text) if not text[: match.start()].rstrip().endswith("."))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    nodes = list(ast.walk(tree))
    aliases = _aliases(nodes)
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=alias), attr=member) if module_file(aliases.get(alias, "")):
                yield f"{aliases[alias]}.{member}"
            case _:
                pass


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names of the sources in a test module's strings, with their lines.

    Left out are names that every object has, and patches that say that there is no such name yet.
    """
    for line, name in _named(tree):
        parts = name.split(".")
        if not any(part == _UNKNOWN or part.startswith("__") for part in parts):
            yield line, name


def _named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    nodes = list(ast.walk(tree))
    aliases = _aliases(nodes)
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setattr"),
                args=[ast.Name(id=alias), ast.Constant(value=str(member)), *_],
                keywords=[],
            ) if alias in aliases:
                yield node.lineno, f"{aliases[alias]}.{member}"
            case _:
                pass
    for text_node, text in _texts(nodes):
        if _DOTTED.fullmatch(text) and text not in _FILES:
            yield text_node.lineno, text
        elif any(package in text for package in PACKAGES):
            yield from ((text_node.lineno, name) for name in _program(text))

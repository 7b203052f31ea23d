"""Modules: files of functions and constants that programs, and other modules, import with `use`.

A module is parsed once per process and content, together with the modules it imports.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs import limits
from spark_jobs.cxl.checking.findings import Finding, Stage
from spark_jobs.cxl.syntax import ast, parser
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.source import SourceFile, Text
from spark_jobs.disk import small_files
from spark_jobs.stores.location import Location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.syntax.ast import Place
    from spark_jobs.diagnostics.diagnostic import Code
    from spark_jobs.stores.location import FilePath

_NOT_ALLOWED = {
    ast.Emit: "emit",
    ast.EmitMeta: "emit",
    ast.EmitSystem: "emit",
    ast.EmitEach: "emit",
    ast.Trace: "trace",
    ast.Filter: "filter",
    ast.Distinct: "distinct",
}


@dataclass(frozen=True, eq=False)
class Module:
    """A module's functions and constants by name, its imports by alias, and the errors found in the module itself.

    Whether its functions and constants have meaning is `inlining.findings`.
    """

    name: str
    text: Text
    functions: dict[str, ast.Fn] = field(default_factory=dict)
    constants: dict[str, ast.Let] = field(default_factory=dict)
    imports: dict[str, Module] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


class ModuleError(Exception):
    """A module that cannot be read. The message has the reason, `help_text` the remedy."""

    def __init__(self, message: str, help_text: str | None = None, code: Code = codes.E200) -> None:
        super().__init__(message)
        self.help_text = help_text
        self.code = code


@dataclass(eq=False)
class Library:
    """The modules that the programs of one pipeline may import: each is read once, whoever imports it.

    Args:
        folder: the rules path; None if there is none.
        roots: folders that must hold every module, behind all links; without any, links may lead anywhere.
    """

    folder: FilePath | None = None
    roots: tuple[FilePath, ...] = ()
    #: Parts of expressions that members of modules have put into programs (`limits.INLINED_EXPRESSIONS`).
    inlined: int = 0
    _loaded: dict[tuple[str, ...], Module] = field(default_factory=dict)

    def load(self, segments: tuple[str, ...], importing: tuple[str, ...] = ()) -> Module:
        """The module at a path below the rules path; raises `ModuleError`.

        Args:
            segments: the path that `use` names, always from the rules path, in nested modules too.
            importing: the modules whose imports lead here.
        """
        name = ".".join(segments)
        if name in importing:
            raise ModuleError(f"modules import each other: {' → '.join([*importing[importing.index(name) :], name])}")
        if segments not in self._loaded:
            self._loaded[segments] = self._read(name, segments, importing)
        return self._loaded[segments]

    def _read(self, name: str, segments: tuple[str, ...], importing: tuple[str, ...]) -> Module:
        if self.folder is None:
            raise ModuleError(f"module '{name}' not found: there is no rules path here", "set `rules_path`")
        if len(importing) >= limits.MODULE_DEPTH:
            raise ModuleError(f"imports lead through more than {limits.MODULE_DEPTH} modules at '{name}'")
        if len(self._loaded) >= limits.MODULES:
            raise ModuleError(f"more than {limits.MODULES} modules are imported, at '{name}'")
        path = self.folder / ("/".join(segments) + ".cxl")
        _refuse_escape(name, path, self.roots)
        source = _read(name, path, self.folder)
        text = Text(source, SourceFile(_shown(path), source))
        imports: dict[str, Module] = {}
        findings = []
        for statement in parsed(source).tree.statements:
            if isinstance(statement, ast.Use):
                findings += [
                    Finding(Stage.RESOLVE, *problem, text=text)
                    for problem in _import(self, statement, (*importing, name), imports)
                ]
        return _module(name, text, tuple(imports.items()), tuple(findings))


def _import(
    library: Library, statement: ast.Use, importing: tuple[str, ...], imports: dict[str, Module]
) -> Iterator[tuple[str, Place, str | None, Code]]:
    """Add the module that a statement imports; yields errors."""
    try:
        module = library.load(statement.path, importing)
    except ModuleError as error:
        yield str(error), statement.place, error.help_text, error.code
        return
    if statement.alias in imports:
        message = f"two modules are imported as '{statement.alias}'"
        yield message, statement.place, "name one of them with `as`", codes.E200
    imports[statement.alias] = module


def _refuse_escape(name: str, path: FilePath, roots: tuple[FilePath, ...]) -> None:
    """A module must be in the roots, and no symbolic link lead out of them."""
    real = path if isinstance(path, Location) else path.resolve()
    if roots and not any(_is_in(real, root) for root in roots):
        message = f'module \'{name}\': path escapes base directory via symlink: "{path}" -> "{real}"'
        raise ModuleError(message, "move the file below the base folder", codes.E_SEC_001)


def _is_in(real: FilePath, root: FilePath) -> bool:
    if isinstance(real, Location) or isinstance(root, Location):
        return isinstance(real, Location) and isinstance(root, Location) and real.name_in(root) is not None
    return real.is_relative_to(root.resolve())


def _read(name: str, path: FilePath, folder: FilePath) -> str:
    try:
        data = small_files.read(path, limits.MODULE_BYTES)
    except small_files.NotRegular as error:
        raise ModuleError(f"module '{name}' cannot be read from {path}: {error.strerror}") from None
    except StoreError as error:
        if error.kind is not Kind.MISSING:
            raise ModuleError(f"module '{name}': {error}", code=codes.E910) from None
        raise ModuleError(f"module '{name}' not found at {path}", f"modules are searched in {folder}") from None
    except OSError:
        help_text = f"modules are searched in the rules path {folder}"
        raise ModuleError(f"module '{name}' not found at {path}", help_text) from None
    except small_files.TooLarge:
        raise ModuleError(f"module '{name}' has more than {limits.MODULE_BYTES} bytes", "split it") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModuleError(f"module '{name}' is not UTF-8 text") from None


def _shown(path: FilePath) -> str:
    """A file's name as messages print it: relative to the working directory where that is possible, or its URI."""
    if isinstance(path, Location):
        return str(path)
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)


@lru_cache(maxsize=256)
def parsed(source: str) -> parser.Parsed:
    """A module's syntax tree."""
    return parser.parse(source)


@lru_cache(maxsize=256)
def _module(name: str, text: Text, imports: tuple[tuple[str, Module], ...], wrong: tuple[Finding, ...]) -> Module:
    """A module, with the errors in its statements."""
    tree = parsed(text.value)
    findings = [Finding(Stage.PARSE, one.message, one.place, one.help, text=text) for one in tree.problems]
    module = Module(name, text, imports=dict(imports))
    for statement in tree.tree.statements:
        findings += [Finding(Stage.PARSE, *problem, text=text) for problem in _declare(module, statement)]
    return Module(name, text, module.functions, module.constants, module.imports, (*findings, *wrong))


def _declare(module: Module, statement: ast.Statement) -> Iterator[tuple[str, Place]]:
    match statement:
        case ast.Fn(name=name, name_place=place):
            if name in module.functions:
                yield f"duplicate function '{name}' in module '{module.name}'", place
            module.functions.setdefault(name, statement)
        case ast.Let(name=name, name_place=place):
            if name in module.constants:
                yield f"duplicate constant '{name}' in module '{module.name}'", place
            module.constants.setdefault(name, statement)
        case ast.Use():
            if module.functions or module.constants:
                yield "use must appear before let and fn", statement.place
        case ast.Evaluate():
            yield "unexpected expression in module file", statement.place
        case _:
            yield f"{_NOT_ALLOWED[type(statement)]} is not allowed in module files", statement.place

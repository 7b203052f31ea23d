"""The state of one check: the scope, the findings, and the names that the program reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking.environment import Environment
from spark_jobs.cxl.checking.findings import Finding, Stage
from spark_jobs.cxl.syntax import names
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_jobs.cxl.checking.modules import Module
    from spark_jobs.cxl.checking.scope import Scope
    from spark_jobs.cxl.syntax import ast
    from spark_jobs.cxl.syntax.ast import Place
    from spark_jobs.diagnostics.diagnostic import Code
    from spark_jobs.diagnostics.source import Text


#: Mistakes that get a "did you mean".
MAX_SUGGESTIONS = 25


class Expressions(Protocol):
    """Checks expressions. Code that meets a nested expression asks the session to check it."""

    def __hash__(self) -> int:
        """Hashable, because results are cached by it."""

    def check(self, session: Session, node: ast.Expression, /) -> typed.Expression:
        """The typed tree of an expression."""

    def closure(self, session: Session, node: ast.Closure, element: types.Type, /) -> typed.Closure:
        """A closure over elements of this type."""


@dataclass
class Session:
    """The state of one program's check.

    Args:
        scope: what the program may name.
        expressions: what checks expressions.
        columns: input columns read so far; `system` likewise for `$…` paths.
        target: the field that is being emitted, for the bare `$window.lag(1)`.
        modules: what `use` has imported, by alias.
        module: the module whose function or constant is being checked, for sibling calls.
        calls: the module functions being inlined, to see recursion.
        row: how a bare column name is read; aggregates put the group's row in place of the record's.
        aggregate: what an aggregate call becomes; None if none may stand, with `no_aggregates` saying why.
        in_window: the name of the window function whose argument is being checked.
        text: the module's text while a module is checked, None for the program.
    """

    scope: Scope
    expressions: Expressions
    findings: list[Finding] = field(default_factory=list)
    environment: Environment = field(default_factory=Environment)
    columns: set[str] = field(default_factory=set)
    system: set[str] = field(default_factory=set)
    target: str | None = None
    modules: dict[str, Module] = field(default_factory=dict)
    module: Module | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    column: Callable[[str, Place], typed.Expression | None] | None = None
    aggregate: Callable[[ast.FunctionCall], typed.Expression] | None = None
    no_aggregates: str = "is not allowed in a row-level transform"
    per_record: str | None = None
    in_window: str | None = None
    text: Text | None = None
    #: The place for errors inside an inlined function: the call.
    call_place: Place | None = None
    distincts: int = 0
    _seen: set[Finding] = field(default_factory=set)
    _suggested: int = 0

    def sibling(self) -> Session:
        """A session for another part of the same program: its own names, but one list of findings."""
        return Session(self.scope, self.expressions, self.findings, modules=self.modules, _seen=self._seen)

    def check(self, node: ast.Expression) -> typed.Expression:
        """The typed tree of an expression."""
        return self.expressions.check(self, node)

    def closure(self, node: ast.Closure, element: types.Type) -> typed.Closure:
        """A closure over elements of this type."""
        return self.expressions.closure(self, node, element)

    @property
    def imports(self) -> dict[str, Module]:
        """The modules in scope: imported by the program, or by the module whose member is being checked."""
        return self.module.imports if self.module else self.modules

    def adopt(self, findings: Iterable[Finding]) -> None:
        """Report findings of another check."""
        for finding in findings:
            if finding not in self._seen:
                self._seen.add(finding)
                self.findings.append(finding)

    def error(
        self,
        stage: Stage,
        message: str,
        place: Place,
        help_text: str | None = None,
        code: Code = codes.E200,
        label: str | None = None,
    ) -> typed.Expression:
        """Report a mistake. Returns an expression of unknown type, so that nothing follows from the mistake."""
        self._add(Finding(stage, message, place, help_text, code, self.text, label))
        return typed.Literal(types.ANY, place, None)

    def unresolved(
        self, message: str, place: Place, help_text: str | None = None, code: Code = codes.E200
    ) -> typed.Expression:
        """Report a name that means nothing."""
        return self.error(Stage.RESOLVE, message, place, help_text, code)

    def mistyped(
        self,
        message: str,
        place: Place,
        help_text: str | None = None,
        code: Code = codes.E200,
        label: str | None = None,
    ) -> typed.Expression:
        """Report a type error; `label` are words for the place."""
        return self.error(Stage.TYPECHECK, message, place, help_text, code, label)

    def warn(self, code: Code, message: str, place: Place, help_text: str | None = None) -> None:
        """Report a warning at a place."""
        self._add(Finding(Stage.TYPECHECK, message, place, help_text, code, self.text))

    def suggest(self, name: str, candidates: Callable[[], Iterable[str]]) -> str | None:
        """The sentence that proposes the nearest name; only the first mistakes get one, for each costs a search."""
        self._suggested += 1
        found = nearest.nearest(name, candidates()) if self._suggested <= MAX_SUGGESTIONS else None
        if found is None:
            return None
        written = names.column(found)
        return f"did you mean {written}?" if written != found else f"did you mean '{found}'?"

    def _add(self, finding: Finding) -> None:
        if self.call_place is not None:
            name = "::".join(self.calls[-1]) if self.calls else "module"
            finding = Finding(
                finding.stage, f"in {name}: {finding.message}", self.call_place, finding.help, finding.code
            )
            if not finding.is_error:
                return
        self.adopt([finding])

"""Checks statements in order, names as they appear."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.cxl import fallibility, typed, types
from spark_jobs.cxl.checking import inlining, operators, reads
from spark_jobs.cxl.checking.environment import Binding
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl.checking.session import Session


def unused(session: Session, let: Binding) -> None:
    """Warn of a let that nothing reads; where any name is a column, a near one may have been meant to read it."""
    if let.used or let.name.startswith("_"):
        return
    message, help_text = f"`{let.name}` is never read", "remove the `let`, or begin its name with `_`"
    near = nearest.nearest(let.name, sorted(session.columns)) if session.scope.is_open else None
    if near is not None:
        message = f"`{let.name}` is never read, and `{near}` is read, which the program does not define"
        help_text = f"if `{near}` is no column: did you mean '{let.name}'?"
    session.warn(codes.W202, message, let.place, help_text)


@contextmanager
def no_aggregates(session: Session, why: str) -> Iterator[None]:
    """Within, an aggregate call is refused for this reason."""
    outer = session.no_aggregates, session.aggregate
    session.no_aggregates, session.aggregate = why, None
    yield
    session.no_aggregates, session.aggregate = outer


PREDICATE_REASON = "is not allowed in a filter predicate — aggregates apply after grouping"


class Statements:
    """Checks the statements of a program or block."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.environment = session.environment

    def check(self, statements: Sequence[ast.Statement], *, in_block: bool = False) -> list[typed.Statement]:
        """The typed statements; `in_block` inside `emit each`."""
        result: list[typed.Statement] = []
        fanned_out = False
        only_uses = True
        for statement in statements:
            if isinstance(statement, ast.Use):
                self._use(statement, allowed=only_uses and not in_block)
                continue
            only_uses = False
            if fanned_out and not in_block and isinstance(statement, (ast.Filter, ast.Distinct)):
                word = type(statement).__name__.lower()
                self.session.mistyped(
                    f"{word} after an emit each block",
                    statement.place,
                    f"put the {word} before the block, or into the next transform",
                )
            found = self.statement(statement)
            if found is not None:
                result.append(found)
            fanned_out = fanned_out or isinstance(statement, ast.EmitEach)
        self._check_after_blocks(statements)
        return result

    def _check_after_blocks(self, statements: Sequence[ast.Statement]) -> None:
        """After the last block its records are made, and nothing can be added to them."""
        blocks = [index for index, statement in enumerate(statements) if isinstance(statement, ast.EmitEach)]
        for statement in statements[blocks[-1] + 1 :] if blocks else ():
            if isinstance(statement, ast.Emit | ast.EmitMeta):
                name = statement.name if isinstance(statement, ast.Emit) else f"$meta.{statement.key}"
                self.session.warn(
                    codes.W206,
                    f"`{name}` is emitted after the `emit each` block, so no record of the block has it",
                    statement.name_place,
                    "emit it before the block for all of its records, or in the block",
                )

    def _use(self, statement: ast.Use, *, allowed: bool) -> None:
        if not allowed:
            self.session.unresolved("use must appear before let/emit/trace", statement.place, "move it to the top")
        else:
            inlining.use(self.session, statement)

    def statement(self, statement: ast.Statement) -> typed.Statement | None:
        """Check one statement."""
        match statement:
            case ast.Let():
                return self.let(statement)
            case ast.Emit():
                return self.emit(statement)
            case ast.EmitMeta():
                return self.emit_meta(statement)
            case ast.EmitSystem():
                self._emit_system(statement)
                return None
            case ast.EmitEach():
                return self._emit_each(statement)
            case ast.Filter():
                return self.filter(statement)
            case ast.Distinct():
                return self._distinct(statement)
            case ast.Trace():
                return self._trace(statement)
            case ast.Fn():
                self.session.unresolved(
                    f"function '{statement.name}' is declared in a program",
                    statement.place,
                    "put it into a module (a file in the rules path), and import it with `use`",
                )
                return None
            case ast.Evaluate():
                return self._evaluate(statement)
            case _:
                raise TypeError(f"no statement: {statement!r}")

    def _evaluate(self, statement: ast.Evaluate) -> typed.Evaluate:
        known = len(self.session.findings)
        value = self.session.check(statement.value)
        if len(self.session.findings) == known and fallibility.does_nothing(value):
            self.session.warn(
                codes.W207,
                "this expression is a statement of its own and does nothing",
                statement.place,
                "if it belongs to the value before it, an operator is missing; to keep it, write `emit name = …`",
            )
        return typed.Evaluate(statement.place, value)

    def let(self, statement: ast.Let) -> typed.Let:
        """`let`: the value does not see the name."""
        value = self.session.check(statement.value)
        slot = self.environment.new_slot()
        self.environment.bind(Binding(statement.name, value.type, statement.name_place, slot, is_let=True))
        return typed.Let(statement.place, slot, statement.name, value)

    def emit(self, statement: ast.Emit) -> typed.Emit:
        """`emit`: the value does not see the field."""
        self.session.target = statement.name
        value = self.session.check(statement.value)
        self.session.target = None
        slot = self.environment.new_slot()
        self.environment.emit(Binding(statement.name, value.type, statement.name_place, slot))
        return typed.Emit(statement.place, slot, statement.name, value)

    def emit_meta(self, statement: ast.EmitMeta) -> typed.EmitMeta:
        """Check `emit meta`."""
        value = self.session.check(statement.value)
        slot = self.environment.new_slot()
        self.environment.write_meta(Binding(statement.key, value.type, statement.name_place, slot))
        return typed.EmitMeta(statement.place, slot, statement.key, value)

    def _emit_system(self, statement: ast.EmitSystem) -> None:
        """Refuse the statement: only state nodes write system values."""
        message, help_text = system_refusal(statement)
        self.session.unresolved(message, statement.name_place, help_text)
        self.session.check(statement.value)

    def filter(self, statement: ast.Filter) -> typed.Filter:
        """Check `filter`: a nullable Bool is allowed; a record with a null predicate is dropped."""
        with no_aggregates(self.session, PREDICATE_REASON):
            predicate = self.session.check(statement.predicate)
        kind = predicate.type.kind
        if kind not in (Kind.BOOL, Kind.ANY, Kind.NULL):
            self.session.mistyped(
                f"filter predicate must be type Bool, got {kind}. Use an explicit comparison.", predicate.place
            )
        else:
            operators.condition(self.session, predicate, "filter predicate")
        return typed.Filter(statement.place, predicate)

    def _distinct(self, statement: ast.Distinct) -> typed.Distinct | None:
        self.session.distincts += 1
        number = self.session.distincts - 1
        if statement.key is not None and statement.key_place is not None:
            name = ast.Name(statement.key_place, 1, statement.key)
            return typed.Distinct(statement.place, (self.session.check(name),), number)
        emitted = self.environment.emitted_so_far()
        keys: list[typed.Expression] = [binding.read(statement.place) for binding in emitted]
        if not keys:
            keys = [
                found
                for column in self.session.scope.row.user_columns
                if (found := _own_column(self.session, column.name, statement.place)) is not None
            ]
        return typed.Distinct(statement.place, tuple(keys), number)

    def _trace(self, statement: ast.Trace) -> typed.Trace:
        guard = self.session.check(statement.guard) if statement.guard else None
        if guard is not None:
            operators.condition(self.session, guard, "trace guard")
        message = self.session.check(statement.message)
        return typed.Trace(statement.place, statement.level, guard, message)

    def _emit_each(self, statement: ast.EmitEach) -> typed.Each:
        with no_aggregates(self.session, PREDICATE_REASON):
            source = self.session.check(statement.source)
        kind = source.type.kind
        if kind not in (Kind.ARRAY, Kind.ANY) and not (statement.outer and kind is Kind.NULL):
            wanted = "... outer requires an Array, Null, or Any" if statement.outer else "requires an Array"
            self.session.mistyped(f"emit_each {wanted} source, got {kind}", source.place)
        element = source.type.element.or_null() if source.type.element else types.ANY
        self.environment.enter()
        slot = self.environment.new_slot()
        self.environment.bind(Binding(statement.name, element, statement.name_place, slot))
        body = tuple(self.check(statement.body, in_block=True))
        self.environment.leave()
        limit = self.session.scope.max_expansion
        return typed.Each(statement.place, slot, statement.name, source, statement.outer, body, limit)


def system_refusal(statement: ast.EmitSystem) -> tuple[str, str]:
    """Why a program cannot write a system value, and which construct can."""
    space, key = statement.namespace, statement.keys[-1]
    path = ".".join((space, *statement.keys))
    if space == "meta":
        return f"emit ${path} is not valid", f"write `emit meta {key} = …`"
    if space in ("pipeline", "source", "record"):
        help_text = f"${space} variables are written by `state` nodes; `emit {key} = …` writes a field"
        return f"emit ${path} is not valid in this node", help_text
    if space == "vars":
        return f"emit ${path} is not valid: $vars is read-only", f"write a field with `emit {key} = …`"
    if space == "ck":
        return f"emit ${path} is not valid: $ck is reserved", "correlation keys are the engine's own"
    return f"emit ${path} is not valid", f"write a field with `emit {key} = …`"


def _own_column(session: Session, name: str, place: ast.Place) -> typed.Expression | None:
    if session.scope.inputs:
        column = session.scope.row.get(name)
        session.columns.add(name)
        return typed.Column(column.type.or_null(), place, name) if column else None
    return reads.record_column(session, name, place)

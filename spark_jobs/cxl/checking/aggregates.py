"""Takes an aggregate node's program apart at its aggregate calls.

Arguments of calls, filters and lets run on each record before grouping; the expressions around calls run on each group.
A let is replaced by its expression wherever it is read, in the group's part over group keys alone. It also remains a
statement if it may fail, since it runs on every record even if nothing reads it, or if it is large and read.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import fallibility, typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.checking import checker, inlining, records
from spark_jobs.cxl.checking.environment import Binding
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.diagnostics import codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax.ast import Place


def check(session: Session, tree: ast.Program, text: str) -> typed.AggregateProgram:
    """The parts of an aggregate program; findings go to the session."""
    return _Aggregate(session, text).run(tree)


#: Nodes of a let that is put in place of its name; beyond, lets that read lets twice could grow without end.
_INLINED_NODES = 60


class _GroupLet(Binding):
    """A let as the group's part sees it: checked there when it is first read."""

    owner: _Aggregate
    node: ast.Let
    names: dict[str, Binding]
    row: Binding
    #: Its value was refused already.
    is_wrong: bool

    def read(self, place: Place) -> typed.Expression:
        self.row.used = True
        if self.is_wrong:
            return typed.Literal(types.ANY, place, None)
        if self.slot < 0:
            self.owner.move_to_group(self)
        return super().read(place)


class _Aggregate:
    def __init__(self, session: Session, text: str) -> None:
        self.text = text
        self.row = session
        self.group = session.sibling()
        self.group.column = self._group_column
        self.group.aggregate = self._call
        self.group.per_record = (
            "`{path}` is per-record provenance and cannot appear in an aggregate residual expression"
        )
        #: The record's part but for the arguments, in the order of the program.
        self.steps: list[typed.Let | typed.Filter] = []
        self.arguments: dict[Any, typed.Emit] = {}
        self.calls: dict[Any, typed.AggregateCall] = {}
        self.after: list[typed.Statement] = []

    def run(self, tree: ast.Program) -> typed.AggregateProgram:
        for statement in tree.statements:
            self._statement(statement)
        for let in self.row.environment.lets:
            checker.unused(self.row, let)
        before = self._before()
        # Lets that are no statements have left no trace, so neither should the columns they named.
        read = [node for statement in before for node in _nodes(statement)]
        plain = {name for call in self.calls.values() for name in call.arguments if not name.startswith("$")}
        self.row.columns = plain | {node.name for node in read if isinstance(node, typed.Column)}
        self.row.system = {node.path for node in read if isinstance(node, typed.System)}
        return typed.AggregateProgram(
            before=records.program(self.row, before, self.text),
            calls=tuple(self.calls.values()),
            after=records.program(self.group, self.after, self.text),
        )

    def _statement(self, statement: ast.Statement) -> None:
        match statement:
            case ast.Let():
                self._let(statement)
            case ast.Filter():
                self.steps.append(checker.Statements(self.row).filter(statement))
            case ast.Emit():
                self.after.append(checker.Statements(self.group).emit(statement))
            case ast.EmitMeta():
                self.after.append(checker.Statements(self.group).emit_meta(statement))
            case ast.Use():
                inlining.use(self.row, statement)
            case ast.Distinct():
                self._refuse(
                    statement,
                    "`distinct` is not permitted inside an aggregate transform",
                    "put a transform with `distinct` before it",
                )
            case ast.EmitEach():
                self._refuse(
                    statement,
                    "`emit each` is not permitted inside an aggregate transform",
                    "put a transform with `emit each` before it",
                )
            case ast.EmitSystem():
                path = ".".join((statement.namespace, *statement.keys))
                _, help_text = checker.system_refusal(statement)
                self._refuse(statement, f"`emit ${path}` is not permitted inside an aggregate transform", help_text)
            case ast.Trace() | ast.Evaluate() | ast.Fn():
                # They have no effect on groups, but their mistakes are mistakes.
                checker.Statements(self.row).statement(statement)
            case _:
                raise TypeError(f"no statement: {statement!r}")

    def _refuse(self, statement: ast.Statement, message: str, help_text: str | None) -> None:
        self.row.mistyped(message, statement.place, help_text, codes.E210)

    def _let(self, node: ast.Let) -> None:
        before = len(self.row.findings)
        self.row.aggregate = lambda call: self._aggregate_in_let(node, call)
        statement = checker.Statements(self.row).let(node)
        self.row.aggregate = None
        binding = self.row.environment.lets[-1]
        self.steps.append(statement)
        if _is_small(statement.value):
            binding.value = statement.value
        group = _GroupLet(node.name, binding.type, node.name_place)
        group.is_wrong = any(one.is_error for one in self.row.findings[before:])
        group.owner, group.node, group.row = self, node, binding
        names = self.group.environment.blocks[0].names
        group.names = dict(names)
        names[node.name] = group

    def _aggregate_in_let(self, node: ast.Let, call: ast.FunctionCall) -> typed.Expression:
        return self.row.mistyped(
            f"let-binding `{node.name}` references an aggregate; lets in aggregates see single records",
            call.place,
            "write the aggregate in the emit",
            codes.E210,
        )

    def move_to_group(self, let: _GroupLet) -> None:
        """Move a let to the statements that run on each group."""
        block = self.group.environment.blocks[0]
        names, block.names = block.names, let.names
        aggregate, self.group.aggregate = self.group.aggregate, None
        value = self.group.check(let.node.value)
        block.names, self.group.aggregate = names, aggregate
        let.type, let.slot = value.type, self.group.environment.new_slot()
        if _is_small(value):
            let.value = value
        else:
            self.after.append(typed.Let(let.node.place, let.slot, let.name, value))

    def _group_column(self, found: str, place: Place) -> typed.Expression | None:
        scope = self.group.scope
        column = scope.row.get(found)
        if column is None or column.is_engine:
            return None
        if found in scope.group_by:
            self.group.columns.add(found)
            return typed.Column(column.type.or_null(), place, found)
        if emitted := self.group.environment.emitted(found):
            return emitted.read(place)
        if scope.has_this:
            message = f"field '{found}' is of single records, the value of all of them"
            return self.group.mistyped(message, place, f"write `last(this.{found})`, or another aggregate function")
        return self.group.mistyped(
            f"field '{found}' must appear in the GROUP BY list or be used inside an aggregate function",
            place,
            f"write `any({found})`, or add '{found}' to group_by",
        )

    def _call(self, node: ast.FunctionCall) -> typed.Expression:
        """An aggregate call in the group's part: its accumulator's result."""
        name = node.name
        function = declare.aggregates()[name]
        given = [argument for argument in node.arguments if not isinstance(argument, ast.Star)]
        if len(given) < len(node.arguments) and name != "count":
            return self.group.mistyped(f"`{name}(*)` is not valid", node.place, "only count takes `*`")
        required = sum(parameter.default is parameter.REQUIRED for parameter in function.parameters)
        if not required <= len(given) <= len(function.parameters):
            names = ", ".join(parameter.name for parameter in function.parameters)
            count = "one argument" if len(function.parameters) == 1 else "two arguments"
            return self.group.mistyped(f"{name}() requires exactly {count} ({names})", node.place)
        arguments = [self._argument(argument) for argument in given]
        for argument, parameter in zip(arguments, function.parameters, strict=False):
            if not parameter.accepts(argument.type):
                wanted = parameter.type.kind if parameter.type else Kind.ANY
                return self.group.mistyped(
                    f"{name}() requires a {wanted} argument, got {argument.type.kind}", argument.place
                )
        key = (name, tuple(_meaning(argument) for argument in arguments))
        call = self.calls.get(key)
        if call is None:
            argument_types = tuple(argument.type for argument in arguments)
            columns = tuple(self._argument_column(argument) for argument in arguments)
            result = f"$agg.{len(self.calls)}"
            call = typed.AggregateCall(name, columns, argument_types, result, function.result(argument_types))
            self.calls[key] = call
        self.group.columns.add(call.result)
        return typed.Column(call.type, node.place, call.result)

    def _argument(self, node: ast.Expression) -> typed.Expression:
        with checker.no_aggregates(self.row, "cannot be nested inside another aggregate"):
            return self.row.check(node)

    def _argument_column(self, argument: typed.Expression) -> str:
        if isinstance(argument, typed.Column):
            return argument.name
        key = _meaning(argument)
        if key not in self.arguments:
            name = f"$arg.{len(self.arguments)}"
            slot = self.row.environment.new_slot()
            self.arguments[key] = typed.Emit(argument.place, slot, name, argument)
        return self.arguments[key].name

    def _before(self) -> list[typed.Statement]:
        """The record's part: filters, and the lets that may fail or are read, in order; then arguments."""
        arguments = list(self.arguments.values())
        read = {slot for emit in arguments for slot in _slots(emit.value)}
        kept: list[typed.Statement] = []
        for step in reversed(self.steps):
            if isinstance(step, typed.Let) and step.slot not in read and not fallibility.may_fail(step.value):
                continue
            read.update(_slots(step.value if isinstance(step, typed.Let) else step.predicate))
            kept.append(step)
        return [*reversed(kept), *arguments]


def _nodes(root: typed.Expression | typed.Statement) -> Iterator[Any]:
    """Every node of a tree, in order; one that is shared comes each time."""
    stack: list[Any] = [root]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack.extend(reversed(part))
        elif is_dataclass(part) and not isinstance(part, (Type, type)):
            yield part
            stack.extend(getattr(part, one.name) for one in reversed(fields(part)))


def _is_small(expression: typed.Expression) -> bool:
    return sum(1 for _ in islice(_nodes(expression), _INLINED_NODES + 1)) <= _INLINED_NODES


def _slots(expression: typed.Expression) -> list[int]:
    """The slots that an expression reads, each once, in order."""
    return list(dict.fromkeys(node.slot for node in _nodes(expression) if isinstance(node, typed.Local)))


def _meaning(node: Any) -> Any:
    """A key for the meaning of an expression, without places. Equal calls share one accumulator."""
    if isinstance(node, tuple):
        return tuple(_meaning(part) for part in node)
    if is_dataclass(node) and not isinstance(node, (type, Type)):
        return (
            type(node).__name__,
            *(_meaning(getattr(node, one.name)) for one in fields(node) if one.name != "place"),
        )
    # 1 and 1.0 and True are one key in Python.
    return type(node).__name__, node

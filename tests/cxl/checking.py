"""Programs for the tests of the checker: columns of every type, and what checking gives or says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import compile as front
from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking.scope import Scope
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics.source import Text

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostic

STRUCTURE = types.Type(
    Kind.MAP, fields=(("id", types.INT), ("user", types.Type(Kind.MAP, fields=(("name", types.STRING),))))
)
COLUMNS = {
    "n": types.INT,
    "x": types.FLOAT,
    "num": types.NUMERIC,
    "s": types.STRING,
    "b": types.BOOL,
    "d": types.DATE,
    "t": types.DATETIME,
    "xs": types.ARRAY,
    "names": types.array_of(types.STRING),
    "m": types.MAP,
    "doc": STRUCTURE,
    "v": types.ANY,
}


def schema_of(columns: dict[str, types.Type]) -> Schema:
    return Schema(tuple(Column(name, static) for name, static in columns.items()))


def compiled(text: str, columns: dict[str, types.Type] | None = None, **scope: Any) -> front.Compiled:
    row = schema_of(COLUMNS if columns is None else columns)
    return front.compile_program(Text.whole(text), Scope(row=row, **scope), "node")


def program(text: str, **scope: Any) -> typed.Program:
    result = compiled(text, **scope)
    assert isinstance(result.program, typed.Program), result.diagnostics
    return result.program


def type_of(expression: str) -> str:
    ((_, static),) = program(f"emit r = {expression}").emits
    element = f" of {static.element}" if static.element else ""
    return f"{static}{element}"


def refused(text: str, **scope: Any) -> Diagnostic:
    result = compiled(text, **scope)
    assert result.program is None, f"accepted: {text}"
    (found,) = [one for one in result.diagnostics if one.is_error]
    return found


def warnings(text: str, **scope: Any) -> list[tuple[str, str]]:
    result = compiled(text, **scope)
    assert result.program is not None, result.diagnostics
    return [(one.code.id, one.message) for one in result.diagnostics]

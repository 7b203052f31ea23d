"""The interface between the kernels of one kind of expression and the compiler that combines them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl import typed, types
    from spark_jobs.cxl.kernels.analysis import Analysis
    from spark_jobs.cxl.kernels.frames import Evaluate


class Compiler(Protocol):
    """Compiles the expressions inside an expression.

    `repeated` has the keys of computations that stand in several places.
    """

    analysis: Analysis
    repeated: set[Any]

    def compile(self, node: typed.Expression, wanted: types.Type | None = None) -> Evaluate:
        """An evaluation; `wanted` is the type that a null literal takes."""

    def condition(self, node: typed.Expression) -> Evaluate:
        """A Bool evaluation; dynamic values of other kinds count as null."""

    def row_by_row(self, node: typed.Expression, reason: str, adapt: Callable[[Any], Any] | None = None) -> Evaluate:
        """The interpreter's evaluation of an expression, noted with its reason."""

    def obstacle(self, node: typed.Expression) -> str | None:
        """Why an expression has no kernel, None when it has one."""

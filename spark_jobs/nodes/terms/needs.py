"""The needs of a step: values and rows that an earlier job provides. They determine the order of jobs.

The set of needs is closed: code that plans or runs jobs matches all of them and ends in `assert_never`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.cxl import types


@dataclass(frozen=True)
class Rows:
    """The records of an input, materialized.

    Args:
        node: the node that reads them.
        input: the node's name for the input, or the input's number if it has no name.
        why: the reason for materializing them, for `explain`; ignored by equality.
        go_on: the records continue through the node: tasks of the later job start from ranges of them, as others start
            from splits. Otherwise they are only looked up.
    """

    node: str
    input: str
    why: str = field(default="", compare=False)
    go_on: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """The name of the operator that materializes them."""
        return f"{self.node}#build:{self.input}"


@dataclass(frozen=True)
class Values:
    """The final values of a state node's variables, materialized.

    Args:
        node: the state node.
    """

    node: str

    def __str__(self) -> str:
        """The name of the operator that materializes them, in messages and files."""
        return f"{self.node}#values"


@dataclass(frozen=True)
class VariableRead:
    """A variable that a step reads after all its setters have seen their last record.

    Args:
        path: the path in programs.
        type: the type of its value.
        setters: the state nodes that set it; the last one that did counts.
        sources: the sources whose files' values are meant, if `path` names an input; the first file with a value
            counts.
    """

    path: str
    type: types.Type
    setters: tuple[str, ...]
    sources: tuple[str, ...] = ()

    @property
    def declared(self) -> str:
        """The path without the name of an input."""
        space, *_, name = self.path.split(".")
        return f"{space}.{name}"


#: The values that jobs can wait for.
Need = Rows | Values

"""The base class of steps. Binding a node makes a step.

A node type is a package. `config.py` has the model of its configuration (pydantic) and the flow of schemas through it
(`bind`). `step.py` has the frozen result of binding, the only part that is sent to executors. `run.py` has the
operators that process Arrow batches. Executors never import `config.py`, and the planner never imports `run.py`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, ClassVar

from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.needs import Values
from spark_jobs.nodes.terms.properties import ColumnProperties, MemberProperties, RecordProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from spark_jobs.nodes.rules.step import Rule
    from spark_jobs.nodes.terms.needs import Need, VariableRead
    from spark_jobs.nodes.terms.requirements import Requirements


@dataclass(frozen=True)
class Step:
    """A bound node, ready to run: frozen, picklable, standard library types and typed CXL programs only.

    `name` is the node's name; `kind` names the package whose `run` module knows the step.
    """

    kind: ClassVar[str]

    name: str
    #: The variables that the step's programs read and that state nodes set.
    reads_variables: tuple[VariableRead, ...] = field(default=(), kw_only=True)

    @property
    def stage(self) -> str:
        """The stage that dead letters name."""
        return f"{self.kind}:{self.name}"

    @property
    def module(self) -> str:
        """The module of the package whose `OPERATORS` has an operator for each role of the step."""
        return "run"

    def partitions(self, sizes: shape.Sizes) -> int:
        """The number of partitions of the step's exchanges."""
        return 1

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """The parts of the step, in the direction of the records."""
        return (shape.LocalPhase(self),)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The values and rows that earlier jobs have to provide."""
        return tuple(dict.fromkeys(Values(setter) for each in self.reads_variables for setter in each.setters))

    def schedule(self, counts: Sequence[int], create: Callable[[], IO[bytes]]) -> bool:
        """Write the order in which records of the inputs are read, if tasks cannot compute it from the counts.

        The driver calls this for steps that continue with inputs materialized by earlier jobs. Returns True if `create`
        was called to write such a file.
        """
        return False

    def pruned(self, required: Requirements) -> Step:
        """The step, once the requirements of steps downstream are known."""
        return self

    def unfolded(self) -> Step:
        """The step without its shortcut, once a pass has shown that it does not apply (see `Context.unfold`)."""
        return self

    @property
    def record_properties(self) -> RecordProperties:
        """The relation of the output records to the input records."""
        return RecordProperties()

    @property
    def column_properties(self) -> ColumnProperties:
        """The columns that the step adds or reads without a schema, and the predicates that it pushes down."""
        return ColumnProperties()

    @property
    def checked_rules(self) -> tuple[Rule, ...]:
        """The rules on data that records of the step may break."""
        return ()

    @property
    def member_properties(self) -> MemberProperties:
        """The `$` members that the step sets, and the `$` members that it reads outside its programs."""
        return MemberProperties()


def runner(step: Step) -> ModuleType:
    """The module that runs this step."""
    return importlib.import_module(f"spark_jobs.nodes.{step.kind}.{step.module}")


def open_step(step: Step, role: shape.Role, wiring: Any) -> Any:
    """The operator for one role of a step. It gets the values of the wiring that it has fields for."""
    known = runner(step).OPERATORS
    if role not in known:
        from spark_jobs.nodes import materialize

        known = materialize.OPERATORS
    opened = known[role]
    return opened(step, **wiring.for_fields(opened))

"""What nodes have in common: the step that a bound node becomes.

A node type is a package. `config.py` is what users write (a pydantic model) and how schemas flow through it (`bind`);
`step.py` is the frozen result of binding, the only thing that travels to executors; `run.py` is how a step treats
Arrow batches. `config.py` is never imported on executors, `run.py` never by the planner.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class Step:
    """A bound node, ready to run: frozen, picklable, standard library types and typed CXL programs only.

    `name` is the node's name; `kind` names the package whose `run` module knows the step.
    """

    kind: ClassVar[str]
    #: The module of the package that has `open_operator`.
    module: ClassVar[str] = "run"

    name: str

    @property
    def stage(self) -> str:
        """The stage as dead letters name it (spec/exec.md 5.5)."""
        return f"{self.kind}:{self.name}"


def runner(step: Step) -> ModuleType:
    """The module that runs this step."""
    return importlib.import_module(f"spark_jobs.nodes.{step.kind}.{step.module}")


def open_step(step: Step, **wiring: Any) -> Any:
    """The operator that runs a step, from its package's `run.open_operator`."""
    return runner(step).open_operator(step, **wiring)

"""The plan: what binding gives and execution takes. Frozen, and free of YAML, pydantic and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from spark_jobs.nodes.output.step import OutputStep
from spark_jobs.nodes.source.step import SourceStep
from spark_jobs.stores.location import Location
from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from spark_jobs.cxl import schema
    from spark_jobs.diagnostics import diagnostic, source
    from spark_jobs.nodes import binding, node
    from spark_jobs.stores.location import FilePath


_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The least memory of a task: a block of input, its columns, and the bytes of the outputs.
LEAST_TASK_BYTES = 4 * 1024 * 1024


#: Bytes of input that are worth a partition of an exchange, as long as the memory limit has room for them.
PARTITION_BYTES = 64 << 20


def partition_bytes(memory_limit_bytes: int, wanted: int = PARTITION_BYTES) -> int:
    """The bytes of input that a partition of an exchange takes under a memory limit."""
    return min(wanted, max(memory_limit_bytes // 8, 1 << 20))


class Strategy(StrEnum):
    """The effect of a failing record on the run (docs/semantics/runs.md, "Error strategies")."""

    FAIL_FAST = "fail_fast"
    CONTINUE = "continue"
    BEST_EFFORT = "best_effort"


@dataclass(frozen=True)
class DeadLetterTarget:
    """The dead-letter file of one source or of all; rates are fractions of the source's records."""

    path: str | None = None
    max_rate: float | None = None
    min_records: int = 100
    #: Where the path is written.
    place: source.Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ErrorHandling:
    """The `error_handling:` block with its defaults filled in; paths are as written, relative to the base directory."""

    strategy: Strategy = Strategy.FAIL_FAST
    dead_letters: DeadLetterTarget = DeadLetterTarget()
    per_source: Mapping[str, DeadLetterTarget] = field(default_factory=dict)
    include_reason: bool = True
    include_source_row: bool = True
    type_error_threshold: float | None = None
    max_group_buffer: int = 100_000
    correlation_fanout_policy: str = "any"

    @property
    def targets(self) -> dict[str, DeadLetterTarget]:
        """All targets by the keys that their paths stand under."""
        per_source = {f"error_handling.dlq.per_source.{name}.path": each for name, each in self.per_source.items()}
        return {"error_handling.dlq.path": self.dead_letters, **per_source}


@dataclass(frozen=True)
class Input:
    """An edge into a node: the producer, its port (`""` for nodes with one output), and the name the consumer gives it.

    `qualifier` is the combine's or composition port's name, empty elsewhere.
    """

    node: str
    port: str = ""
    qualifier: str = ""


@dataclass(frozen=True)
class PlannedNode:
    """A bound node.

    `outputs` are its ports with their columns. `step` is the bound step; None with `pending`, the diagnostic that says
    why
    this node binds and explains but does not run yet. `origins` are a source's columns that other keys than `schema:`
    declare or drop. `is_init` nodes run before all others.
    """

    name: str
    kind: str
    inputs: tuple[Input, ...]
    outputs: Mapping[str, schema.Schema]
    step: node.Step | None
    span: source.Span | None = None
    pending: diagnostic.Diagnostic | None = None
    origins: tuple[binding.ColumnOrigin, ...] = ()
    is_init: bool = False

    @property
    def is_source(self) -> bool:
        """Whether its records are read here; its inputs are then only looked up."""
        return self.kind == SourceStep.kind


def sources(nodes: Iterable[PlannedNode]) -> dict[str, SourceStep]:
    """The sources among nodes that are bound, by name."""
    return {planned.name: planned.step for planned in nodes if isinstance(planned.step, SourceStep)}


def outputs(nodes: Iterable[PlannedNode]) -> dict[str, OutputStep]:
    """The outputs among nodes that are bound, by name."""
    return {planned.name: planned.step for planned in nodes if isinstance(planned.step, OutputStep)}


@dataclass(frozen=True)
class Plan:
    """A pipeline that has passed every check.

    Args:
        nodes: in topological order, declaration order among independents.
        base_dir: what relative paths are resolved against, also a folder of a store.
        source_hash: BLAKE2b-256 of the interpolated text, hexadecimal, for `{pipeline_hash}`.
        variables: values of `$vars.*` and defaults of scoped variables by path (`vars.limit`).
        warnings: diagnostics that do not stop the run.
        places: where each source names its files, for messages about them.
        parameters: composition parameters by call and name, with the layers that set them, for `explain`.
        storage: settings of `clinker.toml`.
        bookmark: the configured path of the bookmark; None: beside the outputs.
        channel: the name of the channel; empty if there is none.
        credential_variables: the environment variables that credentials of network sources are made of.
    """

    name: str
    path: FilePath
    base_dir: FilePath
    source_hash: str
    nodes: tuple[PlannedNode, ...]
    errors: ErrorHandling = ErrorHandling()
    variables: Mapping[str, Any] = field(default_factory=dict)
    memory_limit_bytes: int = 512 * 1024 * 1024
    threads: int | None = None
    metrics_dir: str | None = None
    warnings: tuple[diagnostic.Diagnostic, ...] = ()
    places: Mapping[str, source.Span] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    storage: Any = None
    credential_variables: tuple[str, ...] = ()
    bookmark: str | None = None
    channel: str = ""

    @property
    def local_folder(self) -> Path:
        """Where relative paths of this machine start: the base folder, or the working directory where that is a URI."""
        return Path.cwd() if isinstance(self.base_dir, Location) else Path(self.base_dir)

    @property
    def stores(self) -> StoreSettings:
        """The settings of object stores."""
        return self.storage.stores if self.storage is not None else StoreSettings()

    @property
    def connections(self) -> Mapping[str, str]:
        """The URIs of the databases that `clinker.toml` knows, by the names of their connections."""
        return self.storage.connections if self.storage is not None else {}

    @property
    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The properties of the catalogues that `clinker.toml` knows, by their names."""
        return self.storage.catalogs if self.storage is not None else {}

    @property
    def is_incremental(self) -> bool:
        """True if any source is incremental, so that runs read only its new records."""
        return any(step.incremental is not None for step in self.sources.values())

    @property
    def whole(self) -> Plan:
        """The plan with sources that are read whole, whatever was read before: for runs that publish nothing."""
        if not self.is_incremental:
            return self
        steps = {name: replace(step, incremental=None) for name, step in self.sources.items()}
        nodes = tuple(replace(planned, step=steps.get(planned.name, planned.step)) for planned in self.nodes)
        return replace(self, nodes=nodes)

    @cached_property
    def derived(self) -> dict[Hashable, Any]:
        """Values computed from this plan and cached with it (see `cached_on_plan`)."""
        return {}

    @cached_property
    def by_name(self) -> dict[str, PlannedNode]:
        """The nodes by name."""
        return {planned.name: planned for planned in self.nodes}

    @cached_property
    def sources(self) -> dict[str, SourceStep]:
        """The sources that are bound, by name."""
        return sources(self.nodes)

    @cached_property
    def outputs(self) -> dict[str, OutputStep]:
        """The outputs that are bound, by name."""
        return outputs(self.nodes)

    @cached_property
    def consumers(self) -> dict[str, list[tuple[PlannedNode, Input]]]:
        """The edges out of each node, by consumer in topological order."""
        found: dict[str, list[tuple[PlannedNode, Input]]] = {planned.name: [] for planned in self.nodes}
        for planned in self.nodes:
            for edge in planned.inputs:
                found[edge.node].append((planned, edge))
        return found


def cached_on_plan(compute: Callable[Concatenate[Plan, _P], _T]) -> Callable[Concatenate[Plan, _P], _T]:
    """Cache the results of a function of a plan and hashable values on the plan. Results must not be modified."""

    @wraps(compute)
    def kept(plan: Plan, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        key = (compute.__module__, compute.__qualname__, args, tuple(kwargs.items()))
        if key not in plan.derived:
            plan.derived[key] = compute(plan, *args, **kwargs)
        found: _T = plan.derived[key]
        return found

    return kept

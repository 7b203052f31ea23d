"""From bound nodes to a plan: the last stages of planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.plan import paths, ports, state_readers
from spark_jobs.plan.checks import overlap
from spark_jobs.plan.expanding import expand
from spark_jobs.plan.options import PlanOptions, RunOptions
from spark_jobs.plan.physical import projection
from spark_jobs.plan.plan import LEAST_TASK_BYTES, DeadLetterTarget, ErrorHandling, Input, Plan, PlannedNode
from spark_jobs.plan.reading import interpolation, reader, yaml_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan import binder
    from spark_jobs.plan.reading import workspace
    from spark_jobs.plan.reading.document import Document
    from spark_jobs.plan.reading.model import ErrorHandlingConfig
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath


def planned_nodes(bound: binder.Bindings) -> tuple[PlannedNode, ...]:
    """The nodes as plans have them, with the columns that anybody reads."""
    pruned = projection.prune(tuple(_planned(bound)), bound.programs, list(bound.graph.nodes))
    return state_readers.wire_state(pruned, bound)


def _credential_variables(bound: binder.Bindings) -> Iterator[str]:
    for node in bound.graph.nodes.values():
        for key in ("auth", "headers"):
            where = ("config", "transport", key)
            found, _, depth = reader.locate(node.tree, where)
            waiting = [found] if depth == len(where) else []
            while waiting:
                match waiting.pop():
                    case yaml_tree.Scalar() as scalar:
                        yield from interpolation.names(scalar.written)
                    case yaml_tree.Sequence() as sequence:
                        waiting += sequence.items
                    case yaml_tree.Mapping() as mapping:
                        waiting += [entry.value for key, entry in mapping.entries.items() if key != "scheme"]


def error_handling(
    read: Document, bound: binder.Bindings, nodes: tuple[PlannedNode, ...], base_dir: FilePath, found: Diagnostics
) -> ErrorHandling:
    """The error handling: what happens to records that fail, and where their dead letters go."""
    assert read.errors is not None
    errors = _error_handling(read.errors, read.tree, bound.tokens)
    overlap.check_targets(nodes, errors, bound.expansion.nodes, base_dir, found)
    return errors


def finished(
    read: Document,
    path: FilePath,
    base_dir: FilePath,
    nodes: tuple[PlannedNode, ...],
    errors: ErrorHandling,
    bound: binder.Bindings,
    options: PlanOptions,
    limit: int,
    space: workspace.Workspace,
) -> Plan:
    """The plan, of all that the stages have made."""
    assert read.pipeline is not None
    overrides = options if isinstance(options, RunOptions) else RunOptions()
    return Plan(
        name=read.pipeline.name,
        path=path,
        base_dir=base_dir,
        source_hash=read.source_hash,
        nodes=nodes,
        errors=errors,
        variables=bound.variables.defaults(),
        memory_limit_bytes=limit,
        threads=overrides.threads or read.pipeline.concurrency.threads,
        metrics_dir=overrides.metrics_spool_dir or _resolved(read.pipeline.metrics.spool_dir, base_dir),
        warnings=tuple(bound.found.sorted()),
        storage=space.storage,
        bookmark=_bookmark(read, space, bound),
        channel=bound.tokens["channel"],
        credential_variables=tuple(sorted(set(_credential_variables(bound)))),
        parameters=expand.provenance(bound.expansion),
        places={node.name: _matcher_place(node) for node in bound.graph.nodes.values() if node.is_source},
    )


def _bookmark(read: Document, space: workspace.Workspace, bound: binder.Bindings) -> str | None:
    """The path of the bookmark if it is configured; otherwise it is next to the outputs."""
    assert read.pipeline is not None
    if read.pipeline.bookmark is not None:
        return read.pipeline.bookmark
    folder = space.storage.bookmark_dir
    return None if folder is None else f"{folder}/{paths.bookmark_name(read.pipeline.name, bound.tokens['channel'])}"


def memory_limit(read: Document, options: PlanOptions, found: Diagnostics) -> int:
    """The limit in bytes; the command line's wins. A limit that cannot hold one batch is E312."""
    written = read.pipeline.memory.limit if read.pipeline else None
    override = options.memory_limit_bytes if isinstance(options, RunOptions) else None
    limit = override or written or Plan.memory_limit_bytes
    if limit < LEAST_TASK_BYTES:
        place = reader.value_span(read.tree, ("pipeline", "memory", "limit")) if override is None else None
        message = f"memory.limit of {limit} bytes cannot hold one batch of records ({LEAST_TASK_BYTES} bytes)"
        found.add(codes.E312.at(place, message, help="raise `memory.limit` or `--memory-limit`"))
    return limit


def _matcher_place(node: NodeSource) -> Span:
    matchers = getattr(node.config, "matchers", ())
    return reader.value_span(node.tree, ("config", *matchers[:1]))


def _planned(bindings: binder.Bindings) -> Iterator[PlannedNode]:
    for name in bindings.graph.order:
        node = bindings.graph.nodes[name]
        bound = bindings.bound[name]
        inputs = tuple(
            Input(
                reference.node,
                ports.of(reference, name, tuple(bindings.flows[reference.node])) or "",
                reference.qualifier,
            )
            for reference in bindings.graph.inputs[name]
        )
        beside = ((each, *each.partition(".")[::2]) for each in _looked_up(bindings, name))
        inputs += tuple(Input(node_name, port, each) for each, node_name, port in beside)
        outputs = {port: flow.schema for port, flow in bound.outputs.items()}
        yield PlannedNode(name, node.kind, inputs, outputs, bound.step, node.span, bound.pending, bound.origins)


def _looked_up(bindings: binder.Bindings, name: str) -> tuple[str, ...]:
    """The nodes, or their ports, whose records a node reads in addition to its inputs."""
    step = bindings.bound[name].step
    return step.record_properties.looked_up if step is not None else ()


def _error_handling(config: ErrorHandlingConfig, tree: yaml_tree.Mapping, tokens: Mapping[str, str]) -> ErrorHandling:
    dlq = config.dlq
    block = ("error_handling", "dlq")
    if dlq is None:
        return ErrorHandling(
            strategy=config.strategy,
            type_error_threshold=config.type_error_threshold,
            max_group_buffer=config.max_group_buffer,
            correlation_fanout_policy=str(config.correlation_fanout_policy),
        )
    per_source = {
        name: DeadLetterTarget(
            _filled(entry.path, tokens),
            entry.max_rate,
            dlq.min_records if entry.min_records is None else entry.min_records,
            reader.value_span(tree, (*block, "per_source", name, "path")),
        )
        for name, entry in dlq.per_source.items()
    }
    return ErrorHandling(
        strategy=config.strategy,
        dead_letters=DeadLetterTarget(
            _filled(dlq.path, tokens), dlq.max_rate, dlq.min_records, reader.value_span(tree, (*block, "path"))
        ),
        per_source=per_source,
        include_reason=dlq.include_reason,
        include_source_row=dlq.include_source_row,
        type_error_threshold=config.type_error_threshold,
        max_group_buffer=config.max_group_buffer,
        correlation_fanout_policy=str(config.correlation_fanout_policy),
    )


def _resolved(path: str | None, base_dir: FilePath) -> str | None:
    return None if path is None else paths.resolve(path, base_dir)


def _filled(template: str | None, tokens: Mapping[str, str]) -> str | None:
    return None if template is None else paths.fill(template, tokens)

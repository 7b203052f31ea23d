"""From a pipeline file to a plan, stage by stage; all problems of a stage are reported together (decision 8).

1. Reading: YAML, models, wiring.  2. The graph and everything that can be checked without rows.  3. Binding.
4. Whole-plan checks.

A stage runs when the ones before it left something to work on; binding needs all of them clean.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import limits
from spark_jobs.cxl.checking.modules import Library
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.nodes.source import layout
from spark_jobs.nodes.source.model import SourceConfig
from spark_jobs.plan import binder, date_locale, graph, paths
from spark_jobs.plan.checks import overlap, remarks, scoping, written_paths
from spark_jobs.plan.expanding import channels, expand, variables
from spark_jobs.plan.options import PlanOptions, RunOptions
from spark_jobs.plan.physical import liveness, sizes
from spark_jobs.plan.plan import LEAST_TASK_BYTES, DeadLetterTarget, ErrorHandling, Input, Plan, PlannedNode
from spark_jobs.plan.reading import document, layouts, reader, workspace, yaml_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.reading.document import Document, NodeSource
    from spark_jobs.plan.reading.model import ErrorHandlingConfig


def plan(path: Path, options: PlanOptions) -> tuple[Plan | None, Diagnostics]:
    """The plan of a pipeline file, None when it has errors; and all that was found."""
    found = Diagnostics()
    file = document.open_text(path, found)
    read = document.read(file, options.lookup, found) if file else None
    if read is None:
        return None, found
    return plan_document(read, path, options, found), found


def plan_document(read: Document, path: Path, options: PlanOptions, found: Diagnostics) -> Plan | None:
    """The plan of a document that has been read."""
    if len(read.nodes) > limits.NODES:
        message = f"the pipeline has {len(read.nodes)} nodes (max {limits.NODES}); this is the first beyond"
        found.add(codes.E017.at(read.nodes[limits.NODES].span, message, help="split the pipeline"))
        return None
    base_dir = Path(os.path.abspath(options.base_dir or path.parent))
    space = workspace.load(base_dir, found)
    bindings = _prepared(read, path, base_dir, space, options, found)
    _check_statically(read, bindings, options)
    if found.has_errors or read.pipeline is None or read.errors is None:
        return None
    remarks.check(read, bindings.graph, found)
    binder.bind(bindings)
    scoping.check(bindings)
    if bindings.channel is not None and not found.has_errors:
        used = bindings.read | scoping.written(bindings)
        channels.check_read(bindings.channel, used, bindings.variables, found)
    overlap.check_shadows(bindings)
    if found.has_errors:
        return None
    nodes = liveness.prune(tuple(_planned(bindings)), bindings.programs, list(bindings.graph.nodes))
    errors = _error_handling(read.errors, read.tree, bindings.tokens)
    overlap.check_targets(nodes, errors, bindings.expansion.nodes, base_dir, found)
    limit = _memory_limit(read, options, found)
    sizes.check(nodes, bindings.graph, base_dir, limit, found)
    if found.has_errors:
        return None
    return _finished(read, path, base_dir, nodes, errors, bindings, options, limit, space.storage)


def _prepared(
    read: Document, path: Path, base_dir: Path, space: workspace.Workspace, options: PlanOptions, found: Diagnostics
) -> binder.Bindings:
    """Everything that binding starts from: variables under their channel, expanded nodes, the graph."""
    allow_absolute = options.allow_absolute_paths
    pipeline_tree = read.tree.get("pipeline")
    vars_tree = pipeline_tree.get("vars") if isinstance(pipeline_tree, yaml_tree.Mapping) else None
    declared = variables.read(vars_tree, found)
    _declare_inline(read.nodes, declared, found)
    channel = _channel(path, base_dir, options, space, found)
    expander = expand.Expander(base_dir, options.lookup, channel, found, allow_absolute=allow_absolute)
    expansion = expander.run(read.nodes, base_dir)
    if channel is not None:
        channels.overlay(channel, declared, expansion, options.environment, found)
        channels.check_used(channel, found)
    _check_exposed(expansion, declared, found)
    layouts.load(expansion.nodes, base_dir, options.lookup, found, allow_absolute=allow_absolute)
    _default_correlation(read, expansion, found)
    rules_path, module_roots = _rules(read, base_dir, options)
    return binder.Bindings(
        graph=graph.build(expansion.nodes, found, read.broken),
        base_dir=base_dir,
        library=Library(rules_path, module_roots),
        variables=declared,
        date_formats=tuple(read.pipeline.date_formats) if read.pipeline else (),
        date_header=date_locale.header(locale) if (locale := read.pipeline and read.pipeline.date_locale) else "",
        include_provenance=bool(read.pipeline and read.pipeline.include_provenance),
        tokens={"pipeline_hash": read.source_hash, "channel": channel.name if channel else ""},
        found=found,
        channel=channel,
        expansion=expansion,
    )


def _default_correlation(read: Document, expansion: expand.Expansion, found: Diagnostics) -> None:
    """`error_handling.correlation_key` is the default of sources that declare none (decision 60)."""
    key = read.errors.correlation_key if read.errors else None
    if not key:
        return
    place = reader.value_span(read.tree, ("error_handling", "correlation_key"))
    without = []
    for node in expansion.nodes:
        if not isinstance(node.config, SourceConfig) or node.config.correlation_key:
            continue
        columns = layout.declared(node.config, node.parts.get(("format_schema",))).columns
        if {column.name for column in columns}.issuperset(key):
            node.config = node.config.model_copy(update={"correlation_key": list(key)})
        else:
            without.append(node.name)
    uncorrelated = f"; uncorrelated, for lack of the column: {', '.join(without)}" if without else ""
    message = f"error_handling.correlation_key is the default of sources that declare none{uncorrelated}"
    found.add(codes.W005.at(place, message, help="declare `correlation_key` on the sources"))


def _channel(
    path: Path, base_dir: Path, options: PlanOptions, space: workspace.Workspace, found: Diagnostics
) -> channels.Channel | None:
    if options.channel is None:
        return None
    folders = [Path(), base_dir, *space.channel_folders]
    channel = channels.load(options.channel, folders, options.lookup, found)
    if channel is not None:
        channels.check_target(channel, path, found)
    return channel


def _check_exposed(expansion: expand.Expansion, declared: variables.Variables, found: Diagnostics) -> None:
    """Variables that compositions expose must be the pipeline's, with the same type (E174)."""
    for path, instance in expansion.instances.items():
        for namespace, members in instance.composition.signature.scoped_vars.items():
            for name, exposed in members.items():
                known = declared.declared.get(namespace, {}).get(name)
                place = instance.composition.place("scoped_vars", namespace, name)
                called = "/".join(path)
                if known is None:
                    message = (
                        f'composition "{called}": scoped_vars schema declares ${namespace}.{name} as {exposed.type} '
                        "but no parent declares it"
                    )
                    found.add(codes.E174.at(place, message))
                elif known.type.kind is not exposed.type.kind:
                    message = (
                        f'composition "{called}": scoped_vars schema declares ${namespace}.{name} as {exposed.type}, '
                        f"but the parent pipeline declares it as {known.type} — types must match"
                    )
                    found.add(codes.E174.at(place, message))


def _finished(
    read: Document,
    path: Path,
    base_dir: Path,
    nodes: tuple[PlannedNode, ...],
    errors: ErrorHandling,
    bindings: binder.Bindings,
    options: PlanOptions,
    limit: int,
    storage: workspace.Storage,
) -> Plan:
    assert read.pipeline is not None
    overrides = options if isinstance(options, RunOptions) else RunOptions()
    return Plan(
        name=read.pipeline.name,
        path=path,
        base_dir=base_dir,
        source_hash=read.source_hash,
        nodes=nodes,
        errors=errors,
        variables=bindings.variables.defaults(),
        memory_limit_bytes=limit,
        threads=overrides.threads or read.pipeline.concurrency.threads,
        metrics_dir=overrides.metrics_spool_dir or _resolved(read.pipeline.metrics.spool_dir, base_dir),
        warnings=tuple(bindings.found.sorted()),
        storage=storage,
        parameters=expand.provenance(bindings.expansion),
        places={node.name: _matcher_place(node) for node in bindings.graph.nodes.values() if node.is_source},
    )


def _memory_limit(read: Document, options: PlanOptions, found: Diagnostics) -> int:
    """The limit in bytes; the command line's wins. What cannot hold one batch is E312 (decision 41)."""
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


def _rules(read: Document, base_dir: Path, options: PlanOptions) -> tuple[Path, tuple[Path, ...]]:
    """The folder of modules, and the folders that hold all of them."""
    if options.rules_path is not None:
        chosen = Path(os.path.abspath(options.rules_path))
        return chosen, (base_dir, chosen)
    written = read.pipeline.rules_path if read.pipeline else None
    named = Path(paths.resolve(written or "rules", base_dir))
    return named, (base_dir, named) if options.allow_absolute_paths else (base_dir,)


def _declare_inline(nodes: list[NodeSource], declared: variables.Variables, found: Diagnostics) -> None:
    """Variables that transforms declare (book: channels)."""
    for node in nodes:
        entries, _, depth = reader.locate(node.tree, ("config", "declares"))
        if depth < 2 or not isinstance(entries, yaml_tree.Sequence) or node.config is None:
            continue
        for item, entry in zip(entries.items, getattr(node.config, "declares", ()), strict=False):
            assert isinstance(item, yaml_tree.Mapping)
            shown: dict[str, yaml_tree.Entry] = {
                key: item.entries[key] for key in ("type", "default") if key in item.entries
            }
            value = yaml_tree.Mapping(item.span, shown)
            variables.declare(declared, str(entry.scope), entry.name, value, item.entries["name"].value.span, found)


def _check_statically(read: Document, bindings: binder.Bindings, options: PlanOptions) -> None:
    found = bindings.found
    for node in bindings.graph.nodes.values():
        if node.config is not None and node.type.check:
            node.type.check(node.config, binder.NodeScope(node, bindings))
    written_paths.check(read, bindings, options)
    _check_sources(read, bindings.expansion, found)
    _check_dead_letter_sources(read, bindings.expansion, found)


def _check_sources(read: Document, expansion: expand.Expansion, found: Diagnostics) -> None:
    """A pipeline needs a source, in its own file or in a composition (E012)."""
    if "nodes" not in read.tree.entries or read.broken or expansion.unopened or expansion.sources:
        return
    if read.nodes or not found.has_errors:
        message = "pipeline declares no source nodes; nothing to execute"
        found.add(codes.E012.at(reader.head(read.tree.entries["nodes"].key), message))


def _check_dead_letter_sources(read: Document, expansion: expand.Expansion, found: Diagnostics) -> None:
    where = ("error_handling", "dlq", "per_source")
    per_source, _, depth = reader.locate(read.tree, where)
    if depth < len(where) or not isinstance(per_source, yaml_tree.Mapping):
        return
    for name, entry in per_source.entries.items():
        if name not in expansion.sources and name not in read.broken and not expansion.may_have(name):
            message = f'error_handling.dlq.per_source key "{name}" does not match any declared Source node'
            found.add(codes.E317.at(entry.key, message, help=f"sources here: {', '.join(expansion.sources)}"))


def _planned(bindings: binder.Bindings) -> Iterator[PlannedNode]:
    for name in bindings.graph.order:
        node = bindings.graph.nodes[name]
        bound = bindings.bound[name]
        inputs = tuple(
            Input(
                reference.node,
                binder.port_of(reference, name, tuple(bindings.flows[reference.node])) or "",
                reference.qualifier,
            )
            for reference in bindings.graph.inputs[name]
        )
        outputs = {port: flow.schema for port, flow in bound.outputs.items()}
        yield PlannedNode(name, node.kind, inputs, outputs, bound.step, node.span, bound.pending, bound.origins)


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


def _resolved(path: str | None, base_dir: Path) -> str | None:
    return None if path is None else paths.resolve(path, base_dir)


def _filled(template: str | None, tokens: Mapping[str, str]) -> str | None:
    return None if template is None else paths.fill(template, tokens)

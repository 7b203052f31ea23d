"""From a pipeline file to a plan. `plan_document` calls every stage; the problems of a stage are reported together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import limits
from spark_jobs.cxl.checking.modules import Library
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.nodes import model
from spark_jobs.nodes.source import layout
from spark_jobs.nodes.source.model import SourceConfig
from spark_jobs.plan import assembly, binder, date_locale, graph, paths
from spark_jobs.plan.checks import overlap, produced, remarks, scoping, written_paths
from spark_jobs.plan.expanding import channels, expand, variables
from spark_jobs.plan.physical import sizes
from spark_jobs.plan.reading import document, layouts, log_rules, reader, workspace, yaml_tree
from spark_jobs.plan.reading import nodes as written
from spark_jobs.stores import location, small_objects
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.plan.reading.document import Document
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath


def plan(path: FilePath, options: PlanOptions) -> tuple[Plan | None, Diagnostics]:
    """The plan of a pipeline file, None when it has errors; and all that was found.

    The file, its base folder and whatever is in there may be in a store.
    """
    found = Diagnostics()
    with reaching(path, options):
        file = document.open_text(path, found)
        read = document.read(file, options.lookup, found) if file else None
        if read is None:
            return None, found
        return plan_document(read, path, options, found), found


def reaching(path: FilePath, options: PlanOptions) -> AbstractContextManager[None]:
    """Within, the stores that files of a pipeline are in are reached as the workspace of its base folder says.

    Where that is itself in a store, the workspace of the working directory says it.
    """
    base = location.absolute(options.base_dir or path.parent)
    folder = Path.cwd() if isinstance(base, location.Location) else base
    return small_objects.reached(lambda: workspace.load(folder, Diagnostics()).storage.stores)


def plan_document(read: Document, path: FilePath, options: PlanOptions, found: Diagnostics) -> Plan | None:
    """The plan of a document that has been read."""
    try:
        with reaching(path, options):
            return _plan_document(read, path, options, found)
    except StoreError as error:
        found.add(codes.E910.at(None, str(error)))
        return None


def _plan_document(read: Document, path: FilePath, options: PlanOptions, found: Diagnostics) -> Plan | None:
    if len(read.nodes) > limits.NODES:
        message = f"the pipeline has {len(read.nodes)} nodes (max {limits.NODES}); this is the first beyond"
        found.add(codes.E017.at(read.nodes[limits.NODES].span, message, help="split the pipeline"))
        return None
    # These stages report as much as they can, whatever was found before them.
    bindings, space = prepare(read, path, options, found)
    if found.has_errors:
        return None
    remarks.check(read, bindings.graph, found)
    if space.decimal is None:
        remarks.check_decimals(read, found)
    if found.has_errors:
        return None
    # Binding gives every node its step and its rows, so it needs a pipeline without errors so far.
    binder.bind(bindings)
    scoping.check(bindings)
    produced.check(bindings)
    if not found.has_errors:
        _check_channel_use(bindings, found)
    overlap.check_shadows(bindings)
    if found.has_errors:
        return None
    nodes = assembly.planned_nodes(bindings)
    errors = assembly.error_handling(read, bindings, nodes, bindings.base_dir, found)
    limit = assembly.memory_limit(read, options, found)
    sizes.check(nodes, bindings.graph, bindings.base_dir, limit, found)
    if found.has_errors:
        return None
    return assembly.finished(read, path, bindings.base_dir, nodes, errors, bindings, options, limit, space)


def prepare(
    read: Document, path: FilePath, options: PlanOptions, found: Diagnostics
) -> tuple[binder.Bindings, workspace.Workspace]:
    """Everything that binding needs, and the workspace. They are usable if no error was found.

    Raises:
        StoreError: a store does not say whether a file is there.
    """
    base_dir = location.absolute(options.base_dir or path.parent)
    with reaching(path, options):
        return _prepare(read, path, base_dir, options, found)


def _prepare(
    read: Document, path: FilePath, base_dir: FilePath, options: PlanOptions, found: Diagnostics
) -> tuple[binder.Bindings, workspace.Workspace]:
    space = workspace.load(base_dir, found)
    if isinstance(base_dir, location.Location):
        stores = space.storage.stores.completed(small_objects.settings())
        space = replace(space, storage=replace(space.storage, stores=stores))
    is_exact = space.decimal is workspace.DecimalMeaning.EXACT
    with model.exact_decimals(is_exact):
        if is_exact:
            # The nodes were read before the workspace was known; their problems have been reported.
            read.nodes = written.read_nodes(read.tree, Diagnostics())
        bindings = _prepared(read, path, base_dir, options, space, found)
    bindings.has_exact_decimals = is_exact
    return bindings, space


def _prepared(
    read: Document,
    path: FilePath,
    base_dir: FilePath,
    options: PlanOptions,
    space: workspace.Workspace,
    found: Diagnostics,
) -> binder.Bindings:
    """Everything that binding needs."""
    declared = _declared(read, found)
    channel = _channel(path, base_dir, options, space, found)
    expansion = _expansion(read, base_dir, options, channel, declared, found)
    bindings = _bindings(read, base_dir, options, channel, declared, expansion, found)
    _check_statically(read, bindings, options)
    return bindings


def _declared(read: Document, found: Diagnostics) -> variables.Variables:
    """The variables of the pipeline and of its transforms."""
    pipeline_tree = read.tree.get("pipeline")
    vars_tree = pipeline_tree.get("vars") if isinstance(pipeline_tree, yaml_tree.Mapping) else None
    declared = variables.read(vars_tree, found)
    _declare_inline(read.nodes, declared, found)
    return declared


def _expansion(
    read: Document,
    base_dir: FilePath,
    options: PlanOptions,
    channel: channels.Channel | None,
    declared: variables.Variables,
    found: Diagnostics,
) -> expand.Expansion:
    """The nodes with the bodies of compositions for their calls, under the channel, which may change variables too."""
    allow_absolute = options.allow_absolute_paths
    expander = expand.Expander(base_dir, options.lookup, channel, found, allow_absolute=allow_absolute)
    expansion = expander.run(read.nodes, base_dir)
    if channel is not None:
        channels.overlay(channel, declared, expansion, options.environment, found)
        channels.check_used(channel, found)
    variables.give(declared, options.given, found)
    _check_exposed(expansion, declared, found)
    layouts.load(expansion.nodes, base_dir, options.lookup, found, allow_absolute=allow_absolute)
    _apply_log_rules(read, expansion, base_dir, options, found)
    _default_correlation(read, expansion, found)
    return expansion


def _bindings(
    read: Document,
    base_dir: FilePath,
    options: PlanOptions,
    channel: channels.Channel | None,
    declared: variables.Variables,
    expansion: expand.Expansion,
    found: Diagnostics,
) -> binder.Bindings:
    """Everything that binding needs, including the graph."""
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


def _check_channel_use(bound: binder.Bindings, found: Diagnostics) -> None:
    if bound.channel is not None:
        used = bound.read | scoping.written_variables(bound)
        channels.check_read(bound.channel, used, bound.variables, found)


def _apply_log_rules(
    read: Document, expansion: expand.Expansion, base_dir: FilePath, options: PlanOptions, found: Diagnostics
) -> None:
    """Log directives have the keys of their rules."""
    written = read.pipeline.log_rules if read.pipeline else None
    file = None
    if written:
        if paths.security_problem(written, base_dir, allow_absolute=options.allow_absolute_paths):
            return  # which is told with the other paths
        place = reader.value_span(read.tree, ("pipeline", "log_rules"))
        path = paths.placed(written, base_dir)
        named = str(path) if isinstance(path, location.Location) else written
        file = log_rules.RuleFile(path, base_dir, named, place)
    log_rules.load(expansion.nodes, file, options.lookup, found)


def _default_correlation(read: Document, expansion: expand.Expansion, found: Diagnostics) -> None:
    """`error_handling.correlation_key` is the default for sources that declare none."""
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
    path: FilePath, base_dir: FilePath, options: PlanOptions, space: workspace.Workspace, found: Diagnostics
) -> channels.Channel | None:
    if options.channel is None:
        return None
    folders: list[FilePath] = [Path(), base_dir, *space.channel_folders]
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


def _rules(read: Document, base_dir: FilePath, options: PlanOptions) -> tuple[FilePath, tuple[FilePath, ...]]:
    """The folder of modules, and the folders that hold all of them."""
    if options.rules_path is not None:
        chosen = location.absolute(options.rules_path)
        return chosen, (base_dir, chosen)
    written = read.pipeline.rules_path if read.pipeline else None
    named = paths.placed(written or "rules", base_dir)
    return named, (base_dir, named) if options.allow_absolute_paths else (base_dir,)


def _declare_inline(nodes: list[NodeSource], declared: variables.Variables, found: Diagnostics) -> None:
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
    """Run the checks that do not need rows."""
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

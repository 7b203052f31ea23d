"""Scoped variables against the graph: which nodes may read them, and the order of the init phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Label
from spark_jobs.nodes import program_reads
from spark_jobs.nodes.binding import Wiring
from spark_jobs.plan.reading import reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl import types
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.binder import Bindings
    from spark_jobs.plan.reading.nodes import NodeSource


@dataclass(frozen=True)
class Read:
    """A read of a variable in a node: its path, its type, and its place in the file."""

    node: str
    path: str
    type: types.Type
    span: Span

    @property
    def variable(self) -> str:
        """The path without the name of an input."""
        space, *_, name = self.path.split(".")
        return f"{space}.{name}"

    @property
    def input(self) -> str | None:
        """The input whose value is meant, of `source.<input>.<name>`."""
        return self.path.split(".")[1] if _is_of_input(self.path) else None


def check(bindings: Bindings) -> None:
    """Note readers beside their writers (E171), ambiguous ones (E172), and a broken init phase (E150c, E164, E175)."""
    setters = writers(bindings)
    init = init_nodes(bindings)
    _check_init_edges(bindings, init)
    _check_init_windows(bindings, init)
    for read in reads(bindings):
        written_by = setters.get(read.variable, [])
        if read.input is not None:
            if not written_by:
                _check_input(read, bindings)
        elif read.path.startswith("source."):
            _check_joined(read, bindings)
        if written_by:
            _check_order(read, written_by, init, bindings)


def written_variables(bindings: Bindings) -> set[str]:
    """The paths of the variables that state nodes write."""
    return set(writers(bindings))


def writers(bindings: Bindings) -> dict[str, list[str]]:
    """The state nodes that set each variable, by its path, in the order of the graph."""
    found: dict[str, list[str]] = {}
    for name in bindings.graph.order:
        bound = bindings.bound.get(name)
        for path in bound.step.member_properties.sets if bound is not None and bound.step is not None else ():
            found.setdefault(path, []).append(name)
    return found


def init_nodes(bindings: Bindings) -> set[str]:
    """The nodes that declare the init phase, and all they depend on."""
    graph = bindings.graph
    declared = {name for name in graph.order if _is_init(graph.nodes[name])}
    found = declared.union(*(graph.ancestors(name) for name in declared))
    while True:
        # Sources that are read then wait for the records that their rules refer to.
        referred = {read for name in found if graph.nodes[name].is_source for read in graph.lookups[name]}
        if referred <= found:
            return found
        found = found.union(referred, *(graph.ancestors(name) for name in referred))


def _is_init(node: NodeSource) -> bool:
    return node.config is not None and node.config.is_init


def _check_init_edges(bindings: Bindings, init: set[str]) -> None:
    graph = bindings.graph
    for name in graph.order:
        if name in init:
            continue
        for reference in graph.inputs[name]:
            producer = graph.nodes[reference.node]
            if _is_init(producer):
                message = (
                    f'init-phase node "{reference.node}" has runtime descendant "{name}": init nodes must be terminal'
                )
                help_text = "read the variable instead, or give the consumer another input"
                bindings.found.add(codes.E164.at(reference.span, message, help=help_text))


def _check_init_windows(bindings: Bindings, init: set[str]) -> None:
    """Windows of the init phase over sources that are read afterwards, because runtime nodes take their records.

    A source that nothing but the window reads is read when the window needs it.
    """
    consumers = bindings.graph.consumers()
    for name in bindings.graph.order:
        bound = bindings.bound.get(name)
        step = bound.step if bound is not None else None
        # The source that a node of the init phase looks up, which can only be for a window.
        source = next(iter(step.record_properties.looked_up_nodes), None) if step is not None else None
        if name not in init or source is None or source in init:
            continue
        readers = consumers[source]
        if readers:
            message = (
                f"cross-source window references source '{source}' whose ingestion tier is downstream of "
                f"'{name}': '{readers[0]}' reads the source in the runtime phase, and '{name}' runs in the init phase"
            )
            place = reader.value_span(bindings.graph.nodes[name].tree, ("config", "analytic_window", "source"))
            help_text = "add a separate source over the same files for the window"
            bindings.found.add(codes.E150C.at(place, message, help=help_text))


def reads(bindings: Bindings) -> Iterator[Read]:
    """Every place where a program reads a declared variable."""
    declared = {
        f"{namespace}.{name}"
        for namespace in ("pipeline", "source", "record")
        for name in bindings.variables.declared[namespace]
    }
    for name in bindings.graph.order if declared else ():
        for compiled in bindings.programs.get(name, []):
            for part in program_reads.parts(compiled.program):
                if isinstance(part, typed.System) and (part.path in declared or _is_of_input(part.path)):
                    yield Read(name, part.path, part.type, compiled.text.span(*part.place))


def _is_of_input(path: str) -> bool:
    """True if a path is `source.<input>.<name>`, a variable of one input."""
    return path.startswith("source.") and path.count(".") > 1


def _check_input(read: Read, bindings: Bindings) -> None:
    """Report that the sources of an input differ in a value that no node sets."""
    name = read.variable.removeprefix("source.")
    message = f"node '{read.node}' reads ${read.path}, and the sources of '{read.input}' have different values"
    bindings.found.add(codes.E172.at(read.span, message, help=f"name one of them: `$source.<source>.{name}`"))


def _check_joined(read: Read, bindings: Bindings) -> None:
    node = bindings.graph.nodes[read.node]
    feeds = bindings.feeds.get(read.node, ())
    joined = (
        read.node if node.type.wiring is Wiring.NAMED else next((f.flow.joined for f in feeds if f.flow.joined), None)
    )
    if joined is not None:
        name = read.path.removeprefix("source.")
        message = (
            f"node '{read.node}' reads user-declared ${read.path} downstream of Merge/Combine node '{joined}': each "
            "record has its own source's value"
        )
        bindings.found.add(codes.E172.at(read.span, message, help=f"name the input: `$source.<input>.{name}`"))


def _check_order(read: Read, written_by: list[str], init: set[str], bindings: Bindings) -> None:
    early = [writer for writer in written_by if writer in init]
    if read.node in init:
        if not early:
            message = (
                f"init-phase node '{read.node}' reads ${read.path} which is only written by runtime-phase node "
                f"'{written_by[0]}'"
            )
            help_text = f"give '{written_by[0]}' `phase: init`, or read it at run time"
            bindings.found.add(codes.E175.at(read.span, message, help=help_text))
            return
        written_by = early
    elif early:
        return
    if read.node in written_by:
        return
    ancestors = bindings.graph.ancestors(read.node)
    if not ancestors.intersection(written_by):
        writer = written_by[0]
        message = f"node '{read.node}' reads ${read.path} but is not a DAG descendant of writer '{writer}'"
        labels = (_written_here(bindings, writer),)
        help_text = f"put '{read.node}' below '{writer}'"
        if not early:
            help_text += f", or give '{writer}' `phase: init`"
        bindings.found.add(codes.E171.at(read.span, message, help=help_text, labels=labels))


def _written_here(bindings: Bindings, writer: str) -> Label:
    """The label that points at the writer."""
    return Label(bindings.graph.nodes[writer].span, "written here")

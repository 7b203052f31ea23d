"""Channels: a pipeline's settings for one client or environment, laid over it before it is bound (book: channels)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.diagnostic import Diagnostics, Label
from spark_jobs.plan import document, reader, variables, yaml_tree
from spark_jobs.plan.yaml_tree import Entry, Mapping, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingType

    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.variables import Variable, Variables

SUFFIX = ".channel.yaml"


@dataclass
class Channel:
    """A channel file, read.

    `default` and `fixed` have composition parameters by `call.parameter`; `used` collects those that fit.
    """

    name: str
    tree: Mapping
    target: Scalar
    default: dict[str, Entry]
    fixed: dict[str, Entry]
    folder: Path
    used: set[str] = field(default_factory=set)


def find(named: str, folders: list[Path]) -> Path | None:
    """The file of a channel: a path, or a channel's name in one of the folders."""
    direct = Path(named)
    if os.path.isfile(direct):
        return direct
    if os.sep in named or named.endswith((".yaml", ".yml")):
        return next((folder / named for folder in folders if os.path.isfile(folder / named)), None)
    candidates = (folder / where / (named + SUFFIX) for folder in folders for where in ("", "channels"))
    return next((path for path in candidates if os.path.isfile(path)), None)


def load(named: str, folders: list[Path], lookup: MappingType[str, str], found: Diagnostics) -> Channel | None:
    """The channel, None when it is not usable, which `found` says as E112."""
    path = find(named, folders)
    if path is None:
        found.add(codes.E112.at(None, f"channel '{named}': no such file", help="give the path of a .channel.yaml file"))
        return None
    problems = Diagnostics()
    file = document.open_text(path, problems, os.path.normpath(path) if not path.is_absolute() else str(path))
    tree = yaml_tree.read(file, lookup, problems) if file else None
    channel = None
    if isinstance(tree, Mapping):
        channel = _read(tree, path, problems)
    elif tree is not None:
        problems.add(codes.E112.at(reader.head(tree.span), "a channel file is a mapping with `channel:`"))
    for problem in problems:
        code = problem.code if problem.code is codes.E112 or not problem.is_error else codes.E112
        found.add(code.at(problem.span, f"channel '{named}': {problem.message}", help=problem.help))
    return None if problems.has_errors else channel


_TOP = ["channel", "config", "resources", "vars"]


def _read(tree: Mapping, path: Path, problems: Diagnostics) -> Channel | None:
    for key in tree.entries:
        if key not in (*_TOP, "_notes"):
            problems.add(reader.unknown_key(tree, (key,), _TOP))
    header = tree.get("channel")
    if not isinstance(header, Mapping):
        problems.add(codes.E112.at(reader.head(tree.span), "the key `channel` with `name` and `target` is required"))
        return None
    for key in header.entries:
        if key not in ("name", "target", "description", "_notes"):
            problems.add(reader.unknown_key(header, (key,), ["name", "target", "description"]))
    name, target = header.get("name"), header.get("target")
    if not isinstance(name, Scalar) or not isinstance(target, Scalar):
        missing = "name" if not isinstance(name, Scalar) else "target"
        problems.add(reader.missing_key(tree, ("channel", missing), codes.E112))
        return None
    blocks = [_block(tree, kind, problems) for kind in ("default", "fixed")]
    return Channel(name.text, tree, target, blocks[0], blocks[1], path.parent)


def _block(tree: Mapping, kind: str, problems: Diagnostics) -> dict[str, Entry]:
    config, place, depth = reader.locate(tree, ("config", kind))
    if depth < 2:
        return {}
    if not isinstance(config, Mapping):
        problems.add(codes.E112.at(reader.head(place), f"`config.{kind}` maps `call.parameter` to values"))
        return {}
    return dict(config.entries)


def check_target(channel: Channel, pipeline: Path, found: Diagnostics) -> None:
    """W104 when the channel was written for another pipeline, E109 when a composition's channel has variables."""
    target = channel.target.text
    if target.endswith(".comp.yaml"):
        if channel.tree.get("vars") is not None:
            message = (
                f'channel "{channel.name}": var overrides not supported on composition channels (target: {target})'
            )
            found.add(codes.E109.at(channel.tree.entries["vars"].key, message))
        return
    wanted = {os.path.realpath(channel.folder / target), os.path.realpath(target)}
    if os.path.realpath(pipeline) not in wanted:
        message = f'channel "{channel.name}" targets "{target}" but run loaded "{pipeline}"; proceeding'
        found.add(codes.W104.at(channel.target.span, message))


def check_used(channel: Channel, found: Diagnostics) -> None:
    """W103 for settings that match no composition parameter."""
    for key, entry in {**channel.default, **channel.fixed}.items():
        if key not in channel.used:
            message = f'channel "{channel.name}": config key "{key}" does not match any composition parameter'
            found.add(codes.W103.at(entry.key, message))


def overlay(
    channel: Channel, declared: Variables, sources: list[str], environment: str | None, found: Diagnostics
) -> None:
    """Lay the channel's variables over the declared ones: overrides must keep the type, additions declare."""
    block = channel.tree.get("vars")
    if not isinstance(block, Mapping) or channel.target.text.endswith(".comp.yaml"):
        return
    for key, entry in block.entries.items():
        if key not in variables.NAMESPACES or not isinstance(entry.value, Mapping):
            found.add(reader.unknown_key(block, (key,), list(variables.NAMESPACES)))
        elif key == "source":
            _overlay_sources(channel, entry.value, declared, sources, environment, found)
        else:
            for name, inner in entry.value.entries.items():
                variable = _variable(channel, variables.NAMESPACES[key], name, inner, declared, environment, found)
                if variable is not None:
                    declared.declared[variables.NAMESPACES[key]][name] = variable


def _overlay_sources(
    channel: Channel,
    block: Mapping,
    declared: Variables,
    sources: list[str],
    environment: str | None,
    found: Diagnostics,
) -> None:
    for source, entry in block.entries.items():
        if source not in sources:
            message = (
                f'channel "{channel.name}": source "{source}" not declared in pipeline (known: {", ".join(sources)})'
            )
            found.add(codes.E111.at(entry.key, message, help=nearest.hint(source, sources)))
            continue
        for name, inner in entry.value.entries.items() if isinstance(entry.value, Mapping) else ():
            variable = _variable(channel, "source", name, inner, declared, environment, found)
            if variable is not None:
                declared.per_source[source, name] = variable.default
                declared.declared["source"].setdefault(name, replace(variable, default=None))


def _variable(
    channel: Channel,
    namespace: str,
    name: str,
    entry: Entry,
    declared: Variables,
    environment: str | None,
    found: Diagnostics,
) -> Variable | None:
    """The variable after the overlay; None when the entry is wrong, not for this environment, or gives no value."""
    if name in variables.RESERVED.get(namespace, ()):
        message = f'channel "{channel.name}": var ${namespace}.{name} shadows reserved system field'
        found.add(codes.E110.at(entry.key, message, help="choose another name"))
        return None
    written = entry.value
    if isinstance(written, Mapping) and "when" in written.entries:
        if not _applies(written.entries["when"], environment):
            return None
        written = Mapping(written.span, {k: e for k, e in written.entries.items() if k != "when"}, written.size)
    known = declared.declared[namespace].get(name)
    problems = Diagnostics()
    fresh = variables.Variables()
    variable = variables.declare(fresh, namespace, name, written, entry.key, problems)
    for problem in problems:
        found.add(codes.E107.at(problem.span, f'channel "{channel.name}": {problem.message}', help=problem.help))
    if variable is None:
        return None
    if known is not None and known.type.kind is not variable.type.kind:
        message = (
            f'channel "{channel.name}": var ${namespace}.{name} override type mismatch — declared {known.type.kind}, '
            f"override declared {variable.type.kind}"
        )
        found.add(codes.E107.at(entry.key, message, labels=(_declared_here(known.span),)))
        return None
    if variable.default is None and known is not None:
        return None
    return replace(variable, layer=channel.name)


def _declared_here(span: Span) -> Label:
    """The label that points at the declaration."""
    return Label(span, "declared here")


def _applies(when: Entry, environment: str | None) -> bool:
    """Whether a `when:` condition names the active environment: a name, a list of names, or `{env: …}`."""
    value = when.value
    if isinstance(value, Mapping):
        inner = value.get("env")
        value = inner if inner is not None else value
    names = [item.text for item in value.items if isinstance(item, Scalar)] if isinstance(value, Sequence) else []
    if isinstance(value, Scalar):
        names = [value.text]
    return environment in names

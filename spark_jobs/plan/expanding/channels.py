"""Channels: a pipeline's settings for one client or environment, which override its own before it is bound."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import AfterValidator, BeforeValidator, Field

from spark_jobs.cxl.builtin_members import MEMBERS
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.diagnostic import Diagnostics, Label
from spark_jobs.disk import small_files
from spark_jobs.nodes.model import Config, Name, Text, unfit
from spark_jobs.plan import paths
from spark_jobs.plan.expanding import variables
from spark_jobs.plan.reading import document, reader, yaml_tree
from spark_jobs.plan.reading.yaml_tree import Entry, Mapping, Scalar
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as MappingType

    from spark_jobs.cxl import types
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.expanding.variables import Variable, Variables
    from spark_jobs.stores.location import FilePath

SUFFIX = ".channel.yaml"


def _name(value: str) -> str:
    problem = paths.value_problem(value)
    if problem:
        raise unfit(f"{problem}; the name replaces `{{channel}}` in paths")
    return value


class _HeaderConfig(Config):
    """`channel:`."""

    name: Annotated[Name, AfterValidator(_name)]
    target: Name
    description: Text | None = None


class Expanded(Protocol):
    """The properties of an expanded pipeline that channels need."""

    @property
    def sources(self) -> list[str]:
        """The names of all sources."""

    def may_have(self, name: str) -> bool:
        """True if a node that is not known may stand in a call that could not be opened."""


def _or_empty(value: Any) -> Any:
    """A block without entries may be left empty."""
    return {} if value is None else value


_Block = Annotated[dict[str, Any], BeforeValidator(_or_empty)]


class _LayersConfig(Config):
    """`config:`, parameters of compositions by `call.parameter`."""

    default: _Block = Field(default_factory=dict)
    fixed: _Block = Field(default_factory=dict)


class _VarsConfig(Config):
    """`vars:`; what a variable is written like says `variables.py`."""

    static: _Block = Field(default_factory=dict)
    pipeline: _Block = Field(default_factory=dict)
    source: Annotated[dict[str, _Block], BeforeValidator(_or_empty)] = Field(default_factory=dict)
    record: _Block = Field(default_factory=dict)


class _File(Config):
    """A channel file."""

    channel: _HeaderConfig
    config: Annotated[_LayersConfig, BeforeValidator(_or_empty)] = _LayersConfig()
    resources: Annotated[_LayersConfig, BeforeValidator(_or_empty)] = _LayersConfig()
    vars: Annotated[_VarsConfig, BeforeValidator(_or_empty)] = _VarsConfig()


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _WhenConfig(Config):
    """`when:`, the environments that an entry is for."""

    env: Annotated[list[Name], BeforeValidator(_listed), Field(min_length=1)]


@dataclass
class Channel:
    """A channel file, read.

    `default` and `fixed` have composition parameters by `call.parameter`, `default_resources` and `fixed_resources`
    what calls hand over by `call.resource`; `used` collects those that fit.
    """

    name: str
    tree: Mapping
    target: Scalar
    default: dict[str, Entry]
    fixed: dict[str, Entry]
    default_resources: dict[str, Entry]
    fixed_resources: dict[str, Entry]
    folder: FilePath
    used: set[str] = field(default_factory=set)
    #: The variables that the pipeline does not declare, by namespace and name, with their places.
    added: list[tuple[str, str, Span]] = field(default_factory=list)
    #: The environments that its conditions name.
    environments: list[str] = field(default_factory=list)


def find(named: str, folders: Sequence[FilePath]) -> FilePath | None:
    """The file of a channel: a path or URI, or a channel's name in one of the folders.

    Raises:
        StoreError: a store does not say whether it is there.
    """
    direct = location.located(named)
    if small_files.is_there(direct):
        return direct
    if isinstance(direct, location.Location):
        return None
    if _is_path(named):
        there = (location.located(named, folder) for folder in folders)
        return next((path for path in there if small_files.is_there(path)), None)
    candidates = (place / (named + SUFFIX) for place in _places(folders))
    return next((path for path in candidates if small_files.is_there(path)), None)


def _is_path(named: str) -> bool:
    return os.sep in named or named.endswith((".yaml", ".yml"))


def _places(folders: Sequence[FilePath]) -> list[FilePath]:
    """The folders in which a channel may be, known by its name."""
    return list(dict.fromkeys(place for folder in folders for place in (folder, folder / "channels")))


def _absent(named: str, folders: Sequence[FilePath]) -> str:
    """A remedy for a channel that is not found: the file or name that was probably meant, or the folders searched."""
    if location.is_uri(named):
        return "check the URI"
    if _is_path(named):
        return "the path starts at this folder, the pipeline's or that of channels"
    places = [place for place in _places(folders) if isinstance(place, location.Location) or place.is_dir()]
    there = [path for place in places if isinstance(place, Path) for path in sorted(place.glob("*.y*ml"))]
    misnamed = next((path for path in there if path.stem == named), None)
    if misnamed is not None:
        return f"a channel's file ends with {SUFFIX}: rename `{misnamed}`"
    known = [path.name.removesuffix(SUFFIX) for path in there if path.name.endswith(SUFFIX)]
    hint = nearest.hint(named, known)
    looked = ", ".join(f"`{place}`" for place in places)
    return f"there is no {named}{SUFFIX} in {looked}" + (f"; {hint}" if hint else "")


def load(named: str, folders: Sequence[FilePath], lookup: MappingType[str, str], found: Diagnostics) -> Channel | None:
    """The channel, None when it is not usable, which `found` says as E112."""
    try:
        path = find(named, folders)
    except location.BadLocation as error:
        found.add(codes.E112.at(None, f"channel '{named}' leads nowhere: {error.message}", help=error.remedy))
        return None
    if path is None:
        found.add(codes.E112.at(None, f"channel '{named}': no such file", help=_absent(named, folders)))
        return None
    problems = Diagnostics()
    is_relative = isinstance(path, Path) and not path.is_absolute()
    file = document.open_text(path, problems, os.path.normpath(str(path)) if is_relative else str(path))
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


def _read(tree: Mapping, path: FilePath, problems: Diagnostics) -> Channel | None:
    bare = _bare(tree)
    shown = {key: entry for key, entry in tree.entries.items() if key != "vars" or not bare}
    if bare:
        blocks = tree.entries["vars"].value
        assert isinstance(blocks, Mapping)
        rest = Mapping(blocks.span, {k: e for k, e in blocks.entries.items() if k not in bare}, blocks.size)
        shown["vars"] = Entry(tree.entries["vars"].key, rest)
    read = reader.read(_File, Mapping(tree.span, shown, tree.size), problems)
    target = reader.locate(tree, ("channel", "target"))[0]
    if read is None or not isinstance(target, Scalar):
        return None
    default, fixed = (_entries(tree, ("config", kind)) for kind in ("default", "fixed"))
    default_files, fixed_files = (_entries(tree, ("resources", kind)) for kind in ("default", "fixed"))
    return Channel(read.channel.name, tree, target, default, fixed, default_files, fixed_files, path.parent)


def _entries(tree: Mapping, path: tuple[str, ...]) -> dict[str, Entry]:
    """The entries of a block; nothing where it is absent or empty."""
    block, _, depth = reader.locate(tree, path)
    if depth < len(path) or not isinstance(block, Mapping):
        return {}
    return {key: entry for key, entry in block.entries.items() if key != "_notes"}


def check_target(channel: Channel, pipeline: FilePath, found: Diagnostics) -> None:
    """W104 when the channel was written for another pipeline, E109 when a composition's channel has variables."""
    target = channel.target.text
    if target.endswith(".comp.yaml"):
        blocks = _VarsConfig.model_fields
        if _bare(channel.tree) or any(_entries(channel.tree, ("vars", block)) for block in blocks):
            message = (
                f'channel "{channel.name}": var overrides not supported on composition channels (target: {target})'
            )
            found.add(codes.E109.at(channel.tree.entries["vars"].key, message))
        return
    if _real(pipeline) not in {_real(start) for start in _targets(channel, target, pipeline)}:
        message = f'channel "{channel.name}" targets "{target}" but run loaded "{pipeline}"; proceeding'
        found.add(codes.W104.at(channel.target.span, message))


def _targets(channel: Channel, target: str, pipeline: FilePath) -> Iterator[FilePath]:
    """The files that a channel may mean by its target. A store has no working directory but the pipeline's folder."""
    for start in (channel.folder, pipeline.parent if isinstance(pipeline, location.Location) else ""):
        with contextlib.suppress(location.BadLocation):  # it is no pipeline's place
            yield location.located(target, start)


def _real(path: FilePath) -> str:
    return str(path) if isinstance(path, location.Location) else small_files.real_path(path)


def check_used(channel: Channel, found: Diagnostics) -> None:
    """W103 for settings that match no composition parameter, or resource."""
    for block, word, entries in (
        ("config", "parameter", {**channel.default, **channel.fixed}),
        ("resources", "resource", {**channel.default_resources, **channel.fixed_resources}),
    ):
        for key, entry in entries.items():
            if key not in channel.used:
                message = f'channel "{channel.name}": {block} key "{key}" does not match any composition {word}'
                found.add(codes.W103.at(entry.key, message))


def check_read(channel: Channel, read: set[str], declared: Variables, found: Diagnostics) -> None:
    """W105 for variables that the pipeline does not declare, no program reads and no state node writes.

    Args:
        channel: whose variables they are.
        read: the paths that are read or written: `vars.limit`, `source.left.label`.
        declared: all variables, for near names.
        found: where the warnings go.
    """
    known = {(path.partition(".")[0], path.rpartition(".")[2]) for path in read}
    for namespace, name, place in channel.added:
        if (namespace, name) not in known:
            here = set(declared.declared[namespace]) - {other for _, other, _ in channel.added}
            others = here | {other for space, other in known if space == namespace}
            message = f'channel "{channel.name}": nothing in the pipeline reads `${namespace}.{name}`'
            found.add(codes.W105.at(place, message, help=nearest.hint(name, others)))


def overlay(
    channel: Channel, declared: Variables, expansion: Expanded, environment: str | None, found: Diagnostics
) -> None:
    """Lay the channel's variables over the declared ones: overrides must keep the type, additions declare."""
    if channel.target.text.endswith(".comp.yaml"):
        return
    _overlay_sources(channel, declared, expansion, environment, found)
    for key, namespace in variables.NAMESPACES.items():
        entries = _entries(channel.tree, ("vars", key)) if key != "source" else {}
        if key == "static":
            entries = {**_bare(channel.tree), **entries}
        for name, entry in entries.items():
            variable = _variable(channel, namespace, name, entry, declared, environment, found)
            if variable is not None:
                if name not in declared.declared[namespace]:
                    channel.added.append((namespace, name, entry.key))
                declared.declared[namespace][name] = variable


def _is_variable(value: yaml_tree.Node) -> bool:
    """True if this is written like a variable: a value, or `{type, default}`."""
    return isinstance(value, Scalar) or (isinstance(value, Mapping) and "type" in value.entries)


def _bare(tree: Mapping) -> dict[str, Entry]:
    """The variables directly below `vars:` of a channel. They belong to `$vars`, as under `pipeline.vars`."""
    blocks = _VarsConfig.model_fields
    return {k: e for k, e in _entries(tree, ("vars",)).items() if k not in blocks and _is_variable(e.value)}


def _overlay_sources(
    channel: Channel,
    declared: Variables,
    expansion: Expanded,
    environment: str | None,
    found: Diagnostics,
) -> None:
    for source, entry in _entries(channel.tree, ("vars", "source")).items():
        if source not in expansion.sources:
            if not expansion.may_have(source):
                known = ", ".join(expansion.sources)
                message = f'channel "{channel.name}": source "{source}" not declared in pipeline (known: {known})'
                found.add(codes.E111.at(entry.key, message, help=nearest.hint(source, expansion.sources)))
            continue
        for name, inner in _entries(channel.tree, ("vars", "source", source)).items():
            variable = _variable(channel, "source", name, inner, declared, environment, found)
            if variable is not None:
                if name not in declared.declared["source"]:
                    channel.added.append(("source", name, inner.key))
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
    """The variable after the overlay; None if the entry is wrong, not for this environment, or gives no value."""
    if name in MEMBERS.get(namespace, ()):
        message = f'channel "{channel.name}": var ${namespace}.{name} shadows reserved system field'
        found.add(codes.E110.at(entry.key, message, help="choose another name"))
        return None
    written = entry.value
    if isinstance(written, Mapping) and "when" in written.entries:
        if not _applies(channel, written.entries["when"], environment, found):
            return None
        written = Mapping(written.span, {k: e for k, e in written.entries.items() if k != "when"}, written.size)
    known = declared.declared[namespace].get(name)
    problems = Diagnostics()
    fresh = variables.Variables()
    kind = known.type if known is not None and known.type.kind is Kind.DECIMAL else None
    variable = variables.declare(fresh, namespace, name, written, entry.key, problems, kind)
    for problem in problems:
        found.add(codes.E107.at(problem.span, f'channel "{channel.name}": {problem.message}', help=problem.help))
    if variable is None:
        return None
    if known is not None and not _same_type(known.type, variable.type):
        message = (
            f'channel "{channel.name}": var ${namespace}.{name} override type mismatch — declared {known.type}, '
            f"override declared {variable.type}"
        )
        found.add(codes.E107.at(entry.key, message, labels=(_declared_here(known.span),)))
        return None
    if variable.default is None and known is not None:
        return None
    return replace(variable, layer=channel.name)


def _same_type(declared: types.Type, given: types.Type) -> bool:
    """True if a variable may have values of a type: Decimals need the same digits."""
    return declared == given if declared.kind is Kind.DECIMAL else declared.kind is given.kind


def _declared_here(span: Span) -> Label:
    """The label that points at the declaration."""
    return Label(span, "declared here")


def _applies(channel: Channel, when: Entry, environment: str | None, found: Diagnostics) -> bool:
    """True if a `when:` condition names the active environment: a name, a list of names, or `{env: …}`."""
    value = when.value
    written = value if isinstance(value, Mapping) else Mapping(value.span, {"env": Entry(when.key, value)})
    problems = Diagnostics()
    condition = reader.read(_WhenConfig, written, problems, key="when", place=when.key)
    for problem in problems:
        message = f'channel "{channel.name}": in `when`, {problem.message}'
        found.add(codes.E112.at(problem.span, message, help=problem.help))
    if condition is None:
        return False
    _warn_of_names(channel, when, condition.env, environment, found)
    return environment in condition.env


def _warn_of_names(
    channel: Channel, when: Entry, names: list[str], environment: str | None, found: Diagnostics
) -> None:
    """W106 for a name that is nearly that of the active environment, or one that the channel has named before.

    Environments are declared nowhere, so a name alone is never wrong.
    """
    known = [environment] if environment else []
    for name in names:
        meant = next((other for other in (*known, *channel.environments) if _is_nearly(name, other)), None)
        if meant is not None and name not in known and name not in channel.environments:
            message = (
                f'channel "{channel.name}": `when` names the environment `{name}`, which is nearly `{meant}`: '
                "there the entry does not apply"
            )
            found.add(codes.W106.at(when.key, message, help=f"did you mean `{meant}`?"))
        else:
            channel.environments.append(name)


def _is_nearly(name: str, other: str) -> bool:
    """True if one is the other misspelt: in one letter, or in upper and lower case; `dev1` and `dev2` are two names."""
    letters, others = ("".join(c for c in text if not c.isdigit()) for text in (name.casefold(), other.casefold()))
    if letters == others:
        return name != other and name.casefold() == other.casefold()
    return nearest.nearest(name, [other]) is not None and nearest.distance(name.casefold(), other.casefold()) == 1

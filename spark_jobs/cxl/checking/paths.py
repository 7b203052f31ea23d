"""Binds names: bare names, dotted paths, fields of inputs, `$…` values, members of modules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl import builtin_members, typed, types
from spark_jobs.cxl.checking import calls, inlining, reads, windows
from spark_jobs.cxl.checking.reads import Dotted, Qualifier, This
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax import ast
    from spark_jobs.cxl.syntax.ast import Place

NAMESPACES = ("pipeline", "source", "vars", "record", "meta", "doc", "window", "config")

#: Keywords of SQL and other languages, with their counterparts in CXL.
_FOREIGN_WORDS = {
    "SELECT": "write `emit name = expression`, one line for each field",
    "select": "write `emit name = expression`, one line for each field",
    "WHERE": "write `filter condition`",
    "where": "write `filter condition`",
    "case": "write `if … then … else …` or `match { condition => value, _ => default }`",
    "when": "write `if … then … else …` or `match { condition => value, _ => default }`",
    "switch": "write `match value { pattern => result, _ => default }`",
    "Math": "numbers have methods: `value.abs()`, `value.round(2)`",
    "return": "write `emit name = expression`",
    "between": "write `x >= low and x <= high`",
    "in": "compare with each value, joined by `or`, or use `match`",
    "like": 'use `.matches("…")`, `.starts_with("…")` or `.contains("…")`',
    "is": "test for null with `.is_null()`, compare with `==`",
    "elif": "write `else if`",
    "elsif": "write `else if`",
    "True": "write `true`",
    "False": "write `false`",
    "None": "write `null`",
    "NULL": "write `null`",
    "TRUE": "write `true`",
    "FALSE": "write `false`",
    "Null": "write `null`",
    "nil": "write `null`",
    "undefined": "write `null`",
    "current_date": "write `now.to_date()`",
    "CURRENT_DATE": "write `now.to_date()`",
    "current_timestamp": "write `now`",
    "CURRENT_TIMESTAMP": "write `now`",
    "sysdate": "write `now`",
    "row": "fields of the record are read by their bare names",
    "record": "fields of the record are read by their bare names",
    "this": "fields of the record are read by their bare names",
    **dict.fromkeys(("df", "data", "self", "item"), "fields of the record are read by their bare names"),
    **dict.fromkeys(("math", "np", "numpy", "pd", "F"), "there are no modules of Python: values have methods"),
    "re": "patterns are methods of texts: `.matches(p)`, `.capture(p, group)`, `.regex_replace(p, new)`",
    "datetime": "write `now` for the clock, `value.to_date(format)` for a text",
    "try": "conversions that fail give null with `.try_int()`, `.try_float()` or `.try_date()`",
    "var": "write `let name = expression`",
    "const": "write `let name = expression`",
}


def _of_cell(name: str) -> str | None:
    """A hint for a name such as `A1` that is no field."""
    is_cell = re.fullmatch(r"[A-Z]{1,2}[0-9]{1,5}", name)
    return "a program reads one record, by the names of its fields, not by cells of a sheet" if is_cell else None


@dataclass(frozen=True)
class Namespace:
    """`$pipeline` and the members read so far, before the value is reached."""

    place: Place
    namespace: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alias:
    """A module that still lacks its member."""

    place: Place
    name: str


@dataclass(frozen=True)
class Unknown:
    """An unknown name, not reported until it is clear which members are read from it."""

    place: Place
    name: str


Partial = Namespace | Qualifier | Dotted | This | Alias | Unknown


def complete(session: Session, value: typed.Expression | Partial) -> typed.Expression:
    """The value of a path; reports a namespace without a member."""
    match value:
        case typed.Expression():
            return windows.completed(session, value)
        case Namespace(namespace="source", keys=(key,), place=place) if key not in session.scope.streams:
            known = {**builtin_members.MEMBERS["source"], **session.scope.variables.get("source", {})}
            return _no_member(session, "source", key, known, place)
        case Namespace(namespace=namespace, keys=keys, place=place):
            shown = ".".join((namespace, *keys))
            return session.unresolved(
                f"`${shown}` is no value by itself", place, f"read a member of it: `${shown}.name`"
            )
        case Qualifier(name=name, place=place):
            # A field may be called like an input: alone it is the field, before a dot it is the input.
            if emitted := session.environment.emitted(name):
                return emitted.read(place)
            return session.unresolved(
                f"`{name}` is an input, not a value", place, f"read a field of it: `{name}.field`"
            )
        case Dotted():
            return reads.bare_object(session, value)
        case This(place=place):
            return session.unresolved("`this` is the record, not a value", place, "read a column of it: `this.name`")
        case Alias(name=name, place=place):
            return session.unresolved(
                f"`{name}` is a module, not a value", place, f"read a member of it: `{name}::name`"
            )
        case Unknown():
            return _unresolved(session, value)


# ---- bare names ----------------------------------------------------------------------------------


def name(session: Session, node: ast.Name) -> typed.Expression | Partial:
    """The meaning of a bare name: a let, else an input column, else a field emitted earlier."""
    found = node.name
    if local := session.environment.local(found):
        return local.read(node.place)
    if found == "this" and session.scope.has_this and not session.environment.is_closed:
        return This(node.place)
    if found in session.scope.inputs and not session.environment.is_closed:
        return Qualifier(node.place, found)
    if (value := reads.field(session, found, node.place)) is not None:
        return value
    if found in session.imports:
        return Alias(node.place, found)
    if session.module and (constant := session.module.constants.get(found)):
        return inlining.constant(session, session.module, constant, node.place)
    if session.scope.is_open and not session.environment.is_closed and found not in NAMESPACES:
        session.columns.add(found)
        return typed.Column(types.ANY, node.place, found)
    return Unknown(node.place, found)


def _unresolved(session: Session, unknown: Unknown, path: str | None = None) -> typed.Expression:
    found = unknown.name
    if found in NAMESPACES:
        return session.unresolved(
            f"unresolved identifier '{found}'",
            unknown.place,
            f"system values have a dollar sign: `${path or found}`",
            codes.E301,
        )
    if session.scope.inputs and (problem := reads.unknown_in_combine(session, found, unknown.place, path)):
        return problem
    if found == "it":
        return session.unresolved(
            "'it' is only valid inside a closure or an `emit each it in …` block",
            unknown.place,
            "there is no column of this name here; name the field itself",
        )
    help_text = (
        _FOREIGN_WORDS.get(found)
        or _of_cell(found)
        or _qualified(session, path)
        or session.suggest(found, lambda: _candidates(session))
    )
    what = "unresolved identifier" if session.environment.is_closed else "unknown field"
    return session.unresolved(f"{what} '{found}'", unknown.place, help_text)


def _qualified(session: Session, path: str | None) -> str | None:
    """A hint for a field qualified by the name of a table or node."""
    if session.environment.is_closed or path is None:
        return None
    return nearest.unqualified(path, {column.name for column in session.scope.row.user_columns})


def _candidates(session: Session) -> list[str]:
    columns = [] if session.environment.is_closed else [column.name for column in session.scope.row.user_columns]
    for schema in session.scope.inputs.values():
        columns += [column.name for column in schema.user_columns]
    constants = list(session.module.constants) if session.module else []
    return [*session.environment.names(), *columns, *constants, *session.imports]


# ---- members -------------------------------------------------------------------------------------


def member(
    session: Session, node: ast.Member, base: typed.Expression | Partial, *, is_path: bool
) -> typed.Expression | Partial:
    """`base.name`: the next step of a path, or a method without arguments.

    A path begins with a name or an index (`items[0].sku`); after anything else a member is a method,
    unless the value is a map.
    """
    match base:
        case Namespace():
            return _system(session, base, node.name, node.place)
        case Qualifier():
            return reads.qualified(session, base.name, node.name, node.place)
        case This():
            return reads.of_this(session, node.name, node.place)
        case Dotted():
            found = reads.step(session, base, node.name, node.place)
            if found is not None:
                return found
            base = reads.bare_object(session, base)
        case Alias():
            return inlining.member(session, base.name, node.name, None, node.place, node.name_place)
        case Unknown():
            return _unresolved(session, base, f"{base.name}.{node.name}")
    if isinstance(base, typed.WindowCall) and base.field is None and windows.is_positional(base.function):
        return windows.field(session, base, node)
    known = bool(calls.overloads(node.name))
    if is_path or base.type.kind is Kind.MAP or (base.type.kind is Kind.ANY and not known):
        return _path_step(session, base, node)
    return calls.method(session, base, node.name, (), node.place, node.name_place)


def _path_step(session: Session, base: typed.Expression, node: ast.Member) -> typed.Expression:
    kind = base.type.kind
    key = typed.Literal(types.STRING, node.name_place, node.name)
    if kind in (Kind.ANY, Kind.NULL):
        return typed.Index(types.ANY, node.place, base, key)
    if kind is not Kind.MAP:
        help_text = f"methods have parentheses: `.{node.name}()`" if calls.overloads(node.name) else None
        if kind is Kind.ARRAY:
            help_text = f"read one element, `[0].{node.name}`, or all of them, `.map(it => it.{node.name})`"
        return session.mistyped(f"{kind} has no field '{node.name}'", node.name_place, help_text)
    fields = dict(base.type.fields) if base.type.fields is not None else None
    if fields is None:
        return typed.Index(types.ANY, node.place, base, key)
    if node.name not in fields:
        return session.mistyped(
            f"field '{node.name}' is not in the declared structure",
            node.name_place,
            nearest.hint(node.name, fields, "'"),
        )
    return typed.Index(fields[node.name].or_null(), node.place, base, key)


def method(session: Session, node: ast.Method, base: typed.Expression | Partial) -> typed.Expression | Partial:
    """Check `base.name(arguments)`."""
    match base:
        case Namespace(namespace="window", keys=()):
            return windows.call(session, node.name, node.arguments, node.place, node.name_place)
        case Alias():
            return inlining.member(session, base.name, node.name, node.arguments, node.place, node.name_place)
        case Unknown():
            _unresolved(session, base, None)
            return typed.Literal(types.ANY, node.place, None)
    value = complete(session, base)
    return calls.method(session, value, node.name, node.arguments, node.place, node.name_place)


# ---- system values -------------------------------------------------------------------------------


def namespace(session: Session, node: ast.Dollar) -> typed.Expression | Partial:
    """Check `$namespace`."""
    if node.namespace not in NAMESPACES:
        near = nearest.nearest(node.namespace, NAMESPACES)
        help_text = f"did you mean '${near}'?" if near else "the namespaces are $" + ", $".join(NAMESPACES)
        message = f"unknown system namespace '${node.namespace}'"
        if node.namespace == "ck":
            help_text = "correlation keys are the engine's own; read the column itself"
        return session.unresolved(message, node.place, help_text)
    return Namespace(node.place, node.namespace)


def _system(session: Session, base: Namespace, key: str, place: Place) -> typed.Expression | Partial:
    space, keys = base.namespace, (*base.keys, key)
    if space == "window":
        return windows.call(session, key, (), place, place)
    is_own = space == "source" and not base.keys and key != "count" and key not in session.scope.streams
    if session.per_record and (space == "meta" or is_own):
        return session.mistyped(
            session.per_record.format(path=f"{space}.{key}"), place, "use it inside an aggregate function"
        )
    if space == "meta":
        return _meta(session, key, place)
    if space == "doc":
        return _document(session, keys, place)
    declared = session.scope.variables.get(space, {})
    if space == "source" and len(keys) == 2:
        return _of_input(session, keys[0], key, declared, place)
    known: Mapping[str, Type] = {**builtin_members.MEMBERS.get(space, {}), **declared}
    if key in known:
        return _read(session, f"{space}.{key}", known[key], place)
    if space == "source" and (declared or key in session.scope.streams):
        return Namespace(place, space, keys)
    return _no_member(session, space, key, known, place)


def _of_input(
    session: Session, given: str, key: str, declared: Mapping[str, Type], place: Place
) -> typed.Expression | Partial:
    """`$source.<input>.<name>`: the variable of one input, whichever record reads it."""
    streams = session.scope.streams
    if given not in streams:
        listed = f"inputs here: {', '.join(sorted(streams))}" if streams else None
        help_text = nearest.hint(given, streams, "'") or listed
        return session.unresolved(f"unknown input '{given}' in `$source.{given}.{key}`", place, help_text)
    if key in declared:
        return _read(session, f"source.{given}.{key}", declared[key], place)
    if key in builtin_members.MEMBERS["source"]:
        help_text = f"each record knows its own: `$source.{key}`"
        return session.unresolved(f"`{key}` is no variable of the input '{given}'", place, help_text)
    return _no_member(session, "source", f"{given}.{key}", [f"{given}.{name}" for name in declared], place)


def _no_member(session: Session, space: str, key: str, known: Collection[str], place: Place) -> typed.Expression:
    near = nearest.nearest(key, known)
    help_text = f"did you mean '${space}.{near}'?" if near else f"declare it in `vars.{space}`"
    if space == "vars" and not near:
        help_text = "declare it in the pipeline's `vars`"
    kind = "vars key" if space == "vars" else f"{space} member"
    return session.unresolved(f"unknown {kind} '${space}.{key}'", place, help_text)


def _read(session: Session, path: str, of: Type | None, place: Place) -> typed.Expression:
    path = builtin_members.SAME.get(path, path)
    session.system.add(path)
    space, _, name = path.partition(".")
    builtin = builtin_members.MEMBERS.get(space, {}).get(name)
    return typed.System(builtin or (of or types.ANY).or_null(), place, path)


def _meta(session: Session, key: str, place: Place) -> typed.Expression:
    if written := session.environment.meta(key):
        return written.read(place)
    if key in session.scope.metas:
        return upstream_meta(session, key, place)
    session.warn(
        codes.W204,
        f"nothing writes `$meta.{key}`: it is always null",
        place,
        nearest.hint(key, session.scope.metas, "'") or f"write it upstream with `emit meta {key} = …`",
    )
    return typed.Literal(types.NULL, place, None)


def upstream_meta(session: Session, key: str, place: Place) -> typed.Expression:
    """The metadata that nodes before this one wrote under a key of `scope.metas`."""
    return _read(session, f"meta.{key}", session.scope.metas[key], place)


def _document(session: Session, keys: tuple[str, ...], place: Place) -> typed.Expression | Partial:
    if len(keys) < 2:
        return Namespace(place, "doc", keys)
    section, found = keys
    scope = session.scope
    if found not in scope.documents.get(section, {}) and not (scope.is_open or scope.is_alone):
        _warn_of_document(session, section, found, place)
    return _read(session, f"doc.{section}.{found}", scope.documents.get(section, {}).get(found), place)


def _warn_of_document(session: Session, section: str, found: str, place: Place) -> None:
    """W214: nothing gives a value of `$doc`."""
    scope, path = session.scope, f"$doc.{section}.{found}"
    if section in scope.documents:
        fields = scope.documents[section]
        why = f"the section `{section}` declares no field `{found}`"
        near = nearest.nearest(found, fields)
        help_text = f"did you mean `$doc.{section}.{near}`?" if near else f"fields here: {', '.join(fields)}"
    elif scope.grouped_by is not None:
        why = f"downstream of the aggregate '{scope.grouped_by}' rows belong to no document"
        help_text = "emit it as a field upstream of the aggregate, and group by it or take its `first()`"
    else:
        why = f"no source of these records has a section `{section}`"
        near = nearest.nearest(section, scope.documents)
        help_text = f"did you mean `$doc.{near}.{found}`?" if near else "declare it under `envelope` of the source"
    session.warn(codes.W214, f"`{path}` is always null: {why}", place, help_text)

"""Binds reads of records: columns by name, declared dotted names by their path, fields of a combine's inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking.scope import Mode
from spark_jobs.cxl.syntax import names
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax.ast import Place
    from spark_jobs.diagnostics.diagnostic import Code


@dataclass(frozen=True)
class Qualifier:
    """An input of a combine that still lacks its field."""

    place: Place
    name: str


@dataclass(frozen=True)
class Dotted:
    """The first part of declared dotted names: `m`, where `m.a` is a column and is read as `m.a`.

    `qualifier` is the input that has them, in a combine; `whole` reads what the beginning is by itself, if it is
    anything.
    """

    place: Place
    path: str
    qualifier: str | None
    whole: Callable[[], typed.Expression | None] | None


#: The remedy for an undeclared column that is intended.
UNDECLARED = "declare it in the schema of its source to give it a type"


@dataclass(frozen=True)
class This:
    """The record, before the column that is read of it."""

    place: Place


# ---- names


def field(session: Session, found: str, place: Place) -> typed.Expression | Dotted | None:
    """The column or the emitted field of this name, or the beginning of columns' names."""
    if not _begins(session, found):
        return _whole(session, found, place)
    is_value = _is_column(session, found) or session.environment.emitted(found) is not None
    return Dotted(place, found, None, (lambda: _whole(session, found, place)) if is_value else None)


def _whole(session: Session, found: str, place: Place) -> typed.Expression | None:
    begins_only = _begins(session, found) and not _is_column(session, found)
    value = None if begins_only else column_of(session, found, place)
    if value is None and (emitted := session.environment.emitted(found)):
        value = emitted.read(place)
    return value


def column_of(session: Session, found: str, place: Place) -> typed.Expression | None:
    """The column that a bare name reaches, if there is one."""
    if session.environment.is_closed:
        return None
    if session.column:
        return session.column(found, place)
    return record_column(session, found, place)


def record_column(session: Session, found: str, place: Place) -> typed.Expression | None:
    """A column of the input record; in a combine, columns are read only by their qualified names."""
    column = session.scope.row.get(found)
    if session.scope.inputs or column is None or column.is_engine:
        return None
    session.columns.add(found)
    return typed.Column(column.type.or_null(), place, found)


def _names(session: Session) -> Collection[str]:
    """The columns that bare names reach."""
    if session.environment.is_closed or session.scope.inputs:
        return ()
    window = session.scope.window if session.in_window else None
    return (window.row if window else session.scope.row).names


def _begins(session: Session, path: str) -> bool:
    if session.environment.is_closed or session.scope.inputs:
        return False
    window = session.scope.window if session.in_window else None
    return path in (window.row if window else session.scope.row).beginnings


def _is_column(session: Session, found: str) -> bool:
    return found in _names(session)


def of_this(session: Session, name: str, place: Place) -> typed.Expression | Dotted:
    """`this.name`: the record's column, whatever else has its name."""
    is_column = _is_column(session, name)
    if _begins(session, name):
        return Dotted(place, name, None, (lambda: column_of(session, name, place)) if is_column else None)
    if (value := column_of(session, name, place)) is not None:
        return value
    help_text = session.suggest(name, lambda: [column.name for column in session.scope.row.user_columns])
    return session.unresolved(f"unknown field 'this.{name}'", place, help_text)


# ---- dotted names


def step(session: Session, base: Dotted, name: str, place: Place) -> typed.Expression | Dotted | None:
    """The next step of a declared path; None if it goes into the value of the step before."""
    path = f"{base.path}.{name}"
    if base.qualifier is not None:
        schema = session.scope.inputs[base.qualifier]
        if path in schema or path in schema.beginnings:
            return qualified(session, base.qualifier, path, place)
        if base.qualifier in session.scope.open_inputs and base.path not in (*schema.names, *schema.beginnings):
            return _undeclared_step(session, base, name, place)
    elif _begins(session, path):
        is_column = _is_column(session, path)
        return Dotted(place, path, None, (lambda: column_of(session, path, place)) if is_column else None)
    elif _is_column(session, path):
        return column_of(session, path, place)
    if base.whole is not None:
        return None
    return session.mistyped(
        f"field '{name}' is not in the declared structure of '{base.path}'", place, _declared(session, base, path)
    )


def bare_object(session: Session, base: Dotted) -> typed.Expression:
    """The beginning of declared names by itself."""
    value = base.whole() if base.whole is not None else None
    if value is not None:
        return value
    help_text = _declared(session, base, "")
    return session.unresolved(f"`{base.path}` is no column by itself", base.place, help_text)


def _declared(session: Session, base: Dotted, wanted: str) -> str:
    known = session.scope.inputs[base.qualifier].names if base.qualifier is not None else _names(session)
    below = [name for name in known if name.startswith(f"{base.path}.")]
    return nearest.hint(wanted, below, "'") or "declared are " + ", ".join(f"`{name}`" for name in below[:12])


# ---- inputs of a combine


def qualified(session: Session, qualifier: str, found: str, place: Place) -> typed.Expression | Dotted:
    """Check `qualifier.field`."""
    schema = session.scope.inputs[qualifier]
    column = schema.get(found)
    full = f"{qualifier}.{found}"

    def read() -> typed.Expression | None:
        if column is None or column.is_engine:
            return None
        session.columns.add(full)
        return typed.Column(column.type.or_null(), place, full)

    if found in schema.beginnings:
        return Dotted(place, found, qualifier, read if column is not None else None)
    if (value := read()) is not None:
        return value
    help_text = session.suggest(found, lambda: [column.name for column in schema.user_columns])
    if qualifier in session.scope.open_inputs:
        message = f"`{full}` is not declared: it is null where no file has it"
        session.warn(codes.W208, message, place, help_text or UNDECLARED)
        return Dotted(place, found, qualifier, lambda: _undeclared(session, full, place))
    help_text = help_text or "declare it in the schema of its source, or say `on_unmapped: auto_widen` there"
    return session.unresolved(f"references unknown field `{full}`", place, help_text, _field_code(session))


def _undeclared(session: Session, full: str, place: Place) -> typed.Expression:
    session.columns.add(full)
    return typed.Column(types.ANY, place, full)


def _undeclared_step(session: Session, base: Dotted, name: str, place: Place) -> Dotted:
    """A step into an undeclared object: a column of its own where the leaves of undeclared objects are columns."""
    path = f"{base.path}.{name}"

    def read() -> typed.Expression:
        assert base.whole is not None
        outer, key = base.whole(), typed.Literal(types.STRING, place, name)
        assert outer is not None
        leaf = _undeclared(session, f"{base.qualifier}.{path}", place)
        return typed.Coalesce(types.ANY, place, leaf, typed.Index(types.ANY, place, outer, key))

    return Dotted(place, path, base.qualifier, read)


def unknown_in_combine(session: Session, found: str, place: Place, path: str | None) -> typed.Expression | None:
    """A name in a combine that is a column without its input, or the input of a path that the combine lacks."""
    owners = [qualifier for qualifier, schema in session.scope.inputs.items() if found in schema]
    if owners and not session.environment.is_closed:
        written = names.member(found)
        ways = " or ".join(f"`{owner}.{found}`" if written == found else f"{owner}.{written}" for owner in owners)
        return session.unresolved(f"reads `{found}` without its input", place, f"write {ways}", _field_code(session))
    if path is None:
        return None
    inputs = ", ".join(f"`{name}`" for name in session.scope.inputs)
    hint = session.suggest(found, lambda: session.scope.inputs)
    help_text = f"{hint}; the inputs are {inputs}" if hint else f"the inputs are {inputs}"
    return session.unresolved(f"has no input `{found}`, which `{path}` names", place, help_text, codes.E307)


def _field_code(session: Session) -> Code:
    return codes.E304 if session.scope.mode is Mode.PREDICATE else codes.E308

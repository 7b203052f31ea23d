"""The shape of the records that a program makes: fields and metadata with their types.

Without `emit each` there is one kind of record. Each innermost block makes a kind of its own, with the fields emitted
before and around it, and its own fields. Fields emitted after the last block reach no record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import paths, reads
from spark_jobs.cxl.types import Kind, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.checking.session import Session


@dataclass
class _Record:
    """The types by name that each kind of record has."""

    emits: dict[str, Type] = field(default_factory=dict)
    metas: dict[str, Type] = field(default_factory=dict)

    def copy(self) -> _Record:
        return _Record(dict(self.emits), dict(self.metas))


def program(session: Session, statements: Sequence[typed.Statement], text: str) -> typed.Program:
    """The typed program of checked statements."""
    found = tuple(statements)
    if any(isinstance(statement, typed.Each) for statement in found):
        found = (*_kept(session, found), *found)
    kinds = _kinds(found, _Record())
    return typed.Program(
        text=text,
        statements=found,
        slots=session.environment.slots,
        emits=tuple(_joined([kind.emits for kind in kinds]).items()),
        metas=tuple(_joined([kind.metas for kind in kinds]).items()),
        columns=frozenset(session.columns),
        system=frozenset(session.system),
    )


def _kinds(statements: Sequence[typed.Statement], so_far: _Record) -> list[_Record]:
    """The kinds of record that come out of a list of statements."""
    record = so_far.copy()
    kinds: list[_Record] = []
    blocks = 0
    for statement in statements:
        match statement:
            case typed.Emit(name=name, value=value):
                record.emits[name] = value.type
            case typed.EmitMeta(key=key, value=value):
                record.metas[key] = value.type
            case typed.Each(body=body):
                blocks += 1
                kinds += _kinds(body, record)
            case _:
                pass
    return kinds if blocks else [record]


def _joined(kinds: Sequence[dict[str, Type]]) -> dict[str, Type]:
    """A type for every name that fits the values in all kinds of records; null where a kind lacks the name."""
    names = dict.fromkeys(name for kind in kinds for name in kind)
    found: dict[str, Type] = {}
    for name in names:
        own = [kind[name] for kind in kinds if name in kind]
        joined = own[0]
        for other in own[1:]:
            joined = _either(joined, other)
        found[name] = joined if len(own) == len(kinds) else joined.or_null()
    return found


def _either(one: Type, other: Type) -> Type:
    """A type for values of both as they are: unlike `unify`, nothing is widened."""
    if one.is_numeric and other.is_numeric and one.kind is not other.kind:
        return Type(Kind.NUMERIC, one.nullable or other.nullable)
    if one.kind is Kind.ARRAY and other.kind is Kind.ARRAY:
        element = _either(one.element, other.element) if one.element and other.element else None
        return Type(Kind.ARRAY, one.nullable or other.nullable, element=element)
    return types.unify(one, other) or types.ANY


def _kept(session: Session, statements: Sequence[typed.Statement]) -> list[typed.Statement]:
    """Emits that repeat the input record's own value, for names that only some kinds of records emit.

    With them each kind has the name, so that the program's type for it holds the input's values too.
    """
    kinds = _kinds(statements, _Record())
    place = statements[0].place
    kept: list[typed.Statement] = []
    for name in dict.fromkeys(name for kind in kinds for name in kind.emits):
        if all(name in kind.emits for kind in kinds) or session.scope.inputs:
            continue
        if (column := reads.record_column(session, name, place)) is not None:
            kept.append(typed.Emit(place, session.environment.new_slot(), name, column))
    for key in dict.fromkeys(key for kind in kinds for key in kind.metas):
        if key in session.scope.metas and not all(key in kind.metas for kind in kinds):
            value = paths.upstream_meta(session, key, place)
            kept.append(typed.EmitMeta(place, session.environment.new_slot(), key, value))
    return kept

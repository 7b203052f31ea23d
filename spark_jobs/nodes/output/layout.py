"""The format schema of an output as configured: its mistakes, and the shapes of its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.formats import date_forms
from spark_jobs.formats.rules import declared as rules
from spark_jobs.nodes import formats
from spark_jobs.nodes.binding import plain, report
from spark_jobs.nodes.output.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.cxl import types
    from spark_jobs.formats.format import Format
    from spark_jobs.nodes.binding import BindScope

_KEY = "schema"


def resolved_layout(scope: BindScope) -> formats.Layout | None:
    """The format schema with inherited field properties; None if it is absent or broken."""
    layout = scope.part(_KEY)
    return formats.with_templates(layout) if isinstance(layout, formats.Layout) else None


def check(format: Format, scope: BindScope) -> None:
    """Report problems of the format schema of an output by itself."""
    layout = resolved_layout(scope)
    if layout is None:
        return
    places = format.layout(plain(layout), is_written=True) if format.layout else ()
    for problem in (*places, *_problems(layout, has_names=not format.layout)):
        report(scope, codes.E007, f"output '{scope.name}': {problem}", "config", _KEY)
    formats.check_layout(layout, format, scope, _KEY)
    formats.check_rules(layout, format, _said(layout), scope, _KEY)


def check_columns(format: Format, scope: BindScope, kinds: Mapping[str, types.Type], *, has_undeclared: bool) -> None:
    """Report problems of the format schema once the columns of the record are known.

    Args:
        format: the format of the files.
        scope: the node.
        kinds: the types of the columns, by their written names.
        has_undeclared: there may be undeclared columns.
    """
    layout = resolved_layout(scope)
    if layout is None:
        return
    said = _said(layout)
    formats.check_rules(layout, format, {k: v for k, v in kinds.items() if k not in said}, scope, _KEY)
    for one in layout.all_fields:
        if one.name not in kinds and one.default is None and not format.layout and not has_undeclared:
            message = f"output '{scope.name}': schema names '{one.name}', which the input does not have"
            report(scope, codes.W212, message, "config", _KEY, help=nearest.hint(one.name, kinds))


def _said(layout: formats.Layout) -> dict[str, types.Type]:
    """The types that a format schema declares for its columns."""
    return {one.name: formats.LAYOUT_TYPES[one.type] for one in layout.all_fields if one.type is not None}


def _problems(layout: formats.Layout, *, has_names: bool) -> Iterator[str]:
    labels: set[str] = set()
    for field in layout.all_fields:
        label = field.alias or field.name
        if has_names and label in labels:
            yield f"two fields are written as `{label}`"
        labels.add(label)
        if field.timezone is not None:
            yield f"`timezone` of `{field.name}`: outputs write local times as they are; leave it out"
        # A written date may be incomplete; a date that is read may not.
        if field.format is not None and (problem := date_forms.writing_problem(field.format)):
            yield f"`format` of `{field.name}`: {problem}"


def writer_layout(layout: formats.Layout | None, format: Format, date_header: str) -> Any:
    """The format schema in the form that writers use, with date formats in the pipeline's language.

    None in formats whose writers need no positions.
    """
    return _with_names(plain(layout), date_header) if format.layout else None


def _with_names(layout: Any, date_header: str) -> Any:
    if not date_header or not isinstance(layout, tuple):
        return layout
    return tuple(
        (each[0], date_header + each[1])
        if isinstance(each, tuple) and len(each) == 2 and each[0] == "format" and isinstance(each[1], str)
        else _with_names(each, date_header)
        for each in layout
    )


def shapes_of(layout: formats.Layout | None, format: Format, date_header: str) -> tuple[Shape, ...] | None:
    """The fields of a format schema, each name once; None without a schema.

    If fields have positions, the writer itself handles their types, date formats, decimal points and defaults.
    """
    if layout is None:
        return None
    found: dict[str, Shape] = {}
    for field in layout.all_fields:
        keys = dict(field)
        if format.layout:
            shape = Shape(field.name, field.name, rules=rules.of({**keys, "default": None}, is_pointed=False))
            # A field that some kinds of records lack is empty in these records.
            shape = replace(shape, is_required=bool(field.required) and layout.records is None)
        else:
            shape = Shape(
                field.name,
                field.alias or field.name,
                None if field.type is None else formats.LAYOUT_TYPES[field.type],
                None if field.format is None else date_header + field.format,
                bool(field.required),
                rules.of(keys, is_pointed=False),
                field.scale,
                keeps_decimals=field.type == "decimal",
            )
        found.setdefault(field.name, shape)
    return tuple(found.values())

"""The configuration of outputs, and the selection and names of their columns."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.formats import registry
from spark_jobs.formats.format import DOCUMENT, RAW
from spark_jobs.nodes import formats
from spark_jobs.nodes.binding import BindScope, Bound, Flow, NodeType, Wiring, report
from spark_jobs.nodes.model import (
    Config,
    Flag,
    Name,
    Names,
    NodeConfig,
    Positive,
    Size,
    SortFields,
    Text,
    bounds,
    choice,
    unfit,
)
from spark_jobs.nodes.output import layout, shape
from spark_jobs.nodes.output.describe import DESCRIPTION
from spark_jobs.nodes.output.step import ChunkRule, IfExists, OutputColumn, OutputStep, Oversize
from spark_jobs.nodes.records.columns import CORRELATION, META
from spark_jobs.nodes.rules import model as binding
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.rules.model import RuleConfig, referred_to
from spark_jobs.nodes.terms import sort
from spark_jobs.nodes.terms.required_columns import RequiredColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.cxl.schema import Column


class FanoutPolicy(StrEnum):
    """The failures that reject a correlation group: any, all of its records, or its first record."""

    ANY = "any"
    ALL = "all"
    PRIMARY = "primary"


class SplitConfig(Config):
    """`split:`."""

    max_records: Positive | None = None
    max_bytes: Size | None = None
    group_key: Name | None = None
    naming: Text = "{stem}_{seq:04}.{ext}"
    repeat_header: Flag = True
    oversize_group: choice(Oversize) = Oversize.WARN  # type: ignore[valid-type]


def _metadata(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("all", "none"):
            raise unfit(f"expected `all`, `none` or a list of keys, found `{value}`")
        return None if value == "all" else []
    return value


class OutputConfig(NodeConfig):
    """`config:` of an output."""

    name: Name | None = None
    type: choice(formats.FormatName)  # type: ignore[valid-type]
    path: Name | None = None
    options: dict[str, Any] | None = None
    columns: Names | None = None
    include_unmapped: Flag = True
    mapping: dict[str, Text] = Field(default_factory=dict)
    exclude: list[Text] = Field(default_factory=list)
    include_header: Flag = True
    preserve_nulls: Flag = False
    include_correlation_keys: Flag = False
    #: None is `all`.
    include_metadata: Annotated[
        list[Text] | None, BeforeValidator(_metadata, json_schema_input_type=Text | list[Text] | None)
    ] = Field(default_factory=list)
    sort_order: SortFields = Field(default_factory=list)
    layout: Any = Field(None, alias="schema")
    split: SplitConfig | None = None
    parts: Flag = False
    if_exists: choice(IfExists) = IfExists.ERROR  # type: ignore[valid-type]
    unique_suffix_width: Annotated[int, *bounds(0, 255)] = 0
    write_meta: Flag = False
    correlation_fanout_policy: choice(FanoutPolicy) | None = None  # type: ignore[valid-type]
    validations: list[RuleConfig] = Field(default_factory=list[RuleConfig])

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The nodes in which the `references` rules of the output look up values."""
        return referred_to(self.validations)


_NAMING_TOKEN = re.compile(r"\{(?:stem|ext|seq(?::0\d{1,2})?)\}")


def _parts(values: Mapping[str, Any]) -> dict[tuple[str | int, ...], type[Config]]:
    return formats.parts(values, "schema", lambda format: format.write_options)


def check(config: OutputConfig, scope: BindScope) -> None:
    """Report problems of an output that do not depend on its input."""
    format = registry.named(config.type)
    formats.check(format.write_options, scope, "schema")
    _check_place(config, scope)
    if config.split and format.is_one_file:
        message = f"output '{scope.name}': {config.type} output cannot be combined with split"
        report(
            scope, format.is_one_file, message, "config", "split", help="an interchange is one file; remove `split:`"
        )
    _check_parts(config, scope)
    _check_table(config, scope)
    if config.columns is not None and config.layout is not None:
        message = f"output '{scope.name}': `schema` says which columns are written, and `columns` does too"
        report(scope, codes.E007, message, "config", "columns", help="remove `columns`")
    layout.check(format, scope)
    if format.layout and config.layout is None:
        message = f"output '{scope.name}': {format.name} needs a format schema, and the key `schema` is missing"
        report(scope, codes.E006, message, "config", help="add `schema:` with a path or with `fields:`")
    if config.split:
        _check_split(config.split, scope)


#: The keys of an output that apply to files only, not to tables.
_OF_FILES = ("split", "parts", "if_exists", "unique_suffix_width", "write_meta", "include_header", "schema")
#: Keys that do not apply to a table outside of folders either.
_OF_PATHS = ("path", "sort_order")


def _needs_path(config: OutputConfig) -> bool:
    format = registry.named(config.type)
    return format.has_files or format.is_in_folder


def _check_place(config: OutputConfig, scope: BindScope) -> None:
    """Report a missing path of files and folders, and a path of other tables."""
    if _needs_path(config):
        if config.path is None:
            report(scope, codes.E006, "the key `path` is required here", "config", help="add `path:`")
        return
    format = registry.named(config.type)
    for key in (*_OF_PATHS, *_OF_FILES):
        if key == "sort_order" and format.is_in_catalog:
            continue
        if ("layout" if key == "schema" else key) in config.model_fields_set:
            what = f"{format.article} {config.type} output"
            message = f"output '{scope.name}': `{key}` is about files, and {what} has none"
            report(scope, codes.E219, message, "config", key, help=f"remove `{key}:`")


def _check_parts(config: OutputConfig, scope: BindScope) -> None:
    if not config.parts:
        return
    if config.split:
        message = f"output '{scope.name}': `parts` and `split` exclude each other, because both make several files"
        report(scope, codes.E007, message, "config", "parts", help="remove one of them")
    if registry.named(config.type).is_one_file:
        message = f"output '{scope.name}': an interchange is one file and has no parts"
        report(scope, codes.E007, message, "config", "parts", help="remove `parts`")


def _check_table(config: OutputConfig, scope: BindScope) -> None:
    """Report keys of files on an output that is a table."""
    if not registry.named(config.type).is_in_folder:
        return
    for key in _OF_FILES:
        if ("layout" if key == "schema" else key) in config.model_fields_set:
            message = f"output '{scope.name}': `{key}` is about files, and a {config.type} output is a table"
            help_text = "remove it; `options: { mode: … }` says what becomes of the records that are there"
            report(scope, codes.E007, message, "config", key, help=help_text)
    if any(token in (config.path or "") for token in ("{source_file}", "{source_path}")):
        message = f"output '{scope.name}': a {config.type} output is one table, and no table for each input file"
        report(scope, codes.E007, message, "config", "path", help="write `$source.file` into a column")


def _check_split(split: SplitConfig, scope: BindScope) -> None:
    if split.max_records is None and split.max_bytes is None:
        message = f"output '{scope.name}': `split` has no effect: without a limit no second file is started"
        scope.add(codes.W003.at(scope.key_span("config", "split"), message, help="set `max_records` or `max_bytes`"))
    rest = _NAMING_TOKEN.sub("", split.naming)
    if "{" in rest or "}" in rest or "{seq" not in split.naming:
        message = (
            f"output '{scope.name}': `naming` needs `{{seq}}` or `{{seq:0N}}`; `{{stem}}` and `{{ext}}` are optional"
        )
        report(scope, codes.E014, message, "config", "split", "naming")
    if "/" in split.naming or "\\" in split.naming:
        message = f"output '{scope.name}': `naming` is a file name; folders belong into `path`"
        report(scope, codes.E014, message, "config", "split", "naming")


def bind(config: OutputConfig, scope: BindScope) -> Bound | None:
    """The step of an output."""
    if config.path is None and _needs_path(config):
        return None
    flow = scope.feeds[0].flow
    path, by_file = scope.output_path(config.path, "config", "path") if config.path is not None else ("", False)
    has_parts = config.parts or registry.named(config.type).is_in_folder
    if has_parts:
        path = path.rstrip("/") or path
    _check_fields(config, scope, flow)
    undeclared = _unused(config, scope, flow)
    options = formats.checked_options(
        registry.named(config.type).write_options, scope.part("options"), scope.part("schema")
    )
    format = registry.named(config.type)
    written = layout.resolved_layout(scope)
    shapes = layout.shapes_of(written, format, scope.date_header)
    columns = _columns(config, scope, flow)
    if config.columns is not None:
        columns = _chosen(config, columns, scope, flow)
    layout.check_columns(
        format, scope, {column.name: column.type for column in columns}, has_undeclared=flow.has_undeclared
    )
    columns = shape.arranged(columns, shapes)
    step = OutputStep(
        name=scope.name,
        path=path,
        format=str(config.type),
        options=options,
        columns=columns,
        writes_undeclared=_writes_undeclared(config, flow) and shape.takes_undeclared(shapes, columns),
        exclude=frozenset(config.exclude),
        mapping=tuple(config.mapping.items()),
        if_exists=config.if_exists,
        unique_suffix_width=config.unique_suffix_width,
        sort_order=tuple(_sort_fields(config, flow)),
        split=_split(config, flow),
        parts=has_parts,
        by_file=flow.files_of if by_file else None,
        write_meta=config.write_meta,
        label=config.name if config.name != scope.name else None,
        include_header=config.include_header,
        preserve_nulls=config.preserve_nulls,
        layout=layout.writer_layout(written, format, scope.date_header),
        shapes=shapes,
        header=tuple(_header(options.header_section, flow)),
        undeclared=undeclared,
        correlation_fanout_policy=str(config.correlation_fanout_policy) if config.correlation_fanout_policy else None,
        rules=binding.bound(config.validations, flow.schema, scope, partial(_sort_source, config, flow)),
    )
    _check_names(step, scope)
    _check_types(step, scope)
    _check_together(step, scope, flow)
    return Bound(step, {}, _pending(config, scope))


def _header(section: str | None, flow: Flow) -> Iterator[tuple[str, types.Type]]:
    """The paths and types of the header: a whole segment, or the fields of a section from another format."""
    if section is not None:
        found = {RAW: types.STRING, **flow.documents.get(section, {})}
        yield from ((f"{DOCUMENT}{section}.{name}", kind) for name, kind in found.items())


def _check_together(step: OutputStep, scope: BindScope, flow: Flow) -> None:
    """Report columns that do not form records of the format, and a header section that no source has."""
    section = step.options.header_section
    if section is not None and section not in flow.documents:
        message = f"output '{scope.name}': no source of these records has a section '{section}'"
        help_text = nearest.hint(section, flow.documents) or "declare it under `envelope` of the source"
        report(scope, codes.E007, message, "config", "options", "interchange_from_doc", help=help_text)
    if step.writes_undeclared:
        return  # The run reports other mistakes.
    names = [one.name for one in shape.written_columns(step, (), types.STRING)]
    for key, problem in step.options.column_problems(names):
        place = ("type",) if key is None else ("options", key)
        report(scope, codes.E007, f"output '{scope.name}': {problem}", "config", *place)


def _check_types(step: OutputStep, scope: BindScope) -> None:
    """Report columns that have no type in a format that keeps types."""
    for column in step.columns:
        if (problem := step.options.type_problem(column.type)) is not None:
            message = f"output '{scope.name}': column '{column.name}': {problem}"
            help_text = "convert it to a text, a number or an array of one kind in CXL, or leave it out with `exclude`"
            report(scope, codes.E007, message, "config", "type", help=help_text)


def _check_names(step: OutputStep, scope: BindScope) -> None:
    """Report column names that the encoding cannot write. Undeclared columns are checked in the run."""
    if step.options.problems():
        return
    mapped = dict(step.mapping)
    for name, message in step.unwritable(column.name for column in step.columns):
        path: tuple[str, ...] = ("mapping", name) if name in mapped else ("options", "encoding")
        help_text = "choose an encoding that has it, or another name under `mapping`"
        if step.options.name_problem(name) is not None:
            path = path if name in mapped else ("type",)
            help_text = "name it under `mapping`, or leave it out by `exclude`"
        report(scope, codes.E007, f"output '{scope.name}': {message}", "config", *path, help=help_text)


def _type(name: str, flow: Flow) -> types.Type | None:
    """The type of a field of the record; None for a field that no schema declares, which files may still have."""
    column = flow.schema.get(name)
    return column.type if column else None


def _split(config: OutputConfig, flow: Flow) -> ChunkRule | None:
    if config.split is None:
        return None
    known = dict(config.split)
    if config.split.group_key is not None:
        name = _group_source(config, config.split.group_key)
        known["group_key"] = sort.Field(name, _type(name, flow))
    return ChunkRule(**known)


def _group_source(config: OutputConfig, name: str) -> str:
    """The record's field for a `group_key`, which may name the written column or the record's own."""
    return config.mapping.get(name, name)


def _sort_fields(config: OutputConfig, flow: Flow) -> Iterator[sort.SortField]:
    for each in config.sort_order:
        name = _sort_source(config, flow, each.field)
        yield replace(each.of_type(_type(name, flow)), name=name)


def _sort_source(config: OutputConfig, flow: Flow, name: str) -> str:
    """The record's field for a field of `sort_order`: by its own name, else by its written name."""
    return name if name in flow.schema else config.mapping.get(name, name)


def _pending(config: OutputConfig, scope: BindScope) -> Any:
    format = registry.named(config.type)
    if not format.can_write:
        return scope.pending(f"writing {config.type} files", "config", "type")
    return None


def _check_fields(config: OutputConfig, scope: BindScope, flow: Flow) -> None:
    """Report fields of `sort_order` and `split` that the record does not have."""
    wanted: list[tuple[str, str, tuple[str | int, ...]]] = [
        (_sort_source(config, flow, field.field), "sort_order", ("sort_order", index, "field"))
        for index, field in enumerate(config.sort_order)
    ]
    if config.split and config.split.group_key is not None:
        name = _group_source(config, config.split.group_key)
        wanted.append((name, "split.group_key", ("split", "group_key")))
    known = [column.name for column in flow.schema.user_columns]
    for name, key, place in wanted:
        if name not in flow.schema and not flow.has_undeclared:
            message = f"output '{scope.name}': {key} names '{name}', which the input does not have"
            report(scope, codes.E007, message, "config", *place, help=nearest.column_hint(name, known))


def _unused(config: OutputConfig, scope: BindScope, flow: Flow) -> tuple[str, ...]:
    """The undeclared columns that `mapping` and `exclude` name, with a warning unless files may have such columns."""
    known = [column.name for column in flow.schema.user_columns]
    named = [(source, "mapping", ("mapping", name)) for name, source in config.mapping.items()]
    named += [(name, "exclude", ("exclude", index)) for index, name in enumerate(config.exclude)]  # type: ignore[misc]
    named = [each for each in named if each[0] not in flow.schema]
    if not _writes_undeclared(config, flow):
        for name, key, place in named:
            help_text = nearest.column_hint(name, known)
            if key == "mapping" and place[1] in flow.schema:
                help_text = f"the name in the file comes first: `{name}: {place[1]}`"
            message = f"output '{scope.name}': {key} names '{name}', which the input does not have"
            report(scope, codes.W212, message, "config", *place, help=help_text)
        return ()
    return tuple(dict.fromkeys(name for name, _, _ in named))


def _columns(config: OutputConfig, scope: BindScope, flow: Flow) -> tuple[OutputColumn, ...]:
    """The columns to write, in order. A name given by `mapping` replaces a column with that name."""
    kept = _kept(config, flow)
    there = {column.name for column in kept}
    given = {name: source for name, source in config.mapping.items() if source in there}
    renamed: dict[str, list[str]] = {}
    for name, source in given.items():
        renamed.setdefault(source, []).append(name)
    written: dict[str, OutputColumn] = {}
    for column in kept:
        source = column.name
        default = source.removeprefix("$") if source in META else source
        if source not in renamed and default in given:
            message = f"output '{scope.name}': {shape.name_taken_message(default, given[default])}"
            report(scope, codes.W213, message, "config", "mapping", default, help=shape.TAKEN_HELP)
            continue
        for name in renamed.get(source, [default]):
            written[name] = OutputColumn(source, name, column.type)
    return tuple(written.values())


def _writes_undeclared(config: OutputConfig, flow: Flow) -> bool:
    """True if undeclared columns of files are written. They are not if `columns` lists the columns."""
    return config.include_unmapped and flow.has_undeclared and config.columns is None


def _chosen(
    config: OutputConfig, columns: tuple[OutputColumn, ...], scope: BindScope, flow: Flow
) -> tuple[OutputColumn, ...]:
    """The columns listed in `columns`, in its order, then metadata and correlation keys that other keys ask for."""
    written = {column.name: column for column in columns}
    chosen: dict[str, OutputColumn] = {}
    for index, name in enumerate(config.columns or ()):
        if name in written:
            chosen[name] = written[name]
            continue
        message = f"output '{scope.name}': columns names '{name}', which is not among the columns to write"
        renamed = next((new for new, source in config.mapping.items() if source == name), None)
        help_text = nearest.column_hint(name, written)
        if renamed is not None:
            help_text = f"`mapping` calls it `{renamed}`"
        elif name in config.exclude:
            help_text = "`exclude` leaves it out"
        elif help_text is None and flow.has_undeclared:
            help_text = "emit it in a node upstream; declare a column that only the files have in the source's `schema`"
        report(scope, codes.E007, message, "config", "columns", index, help=help_text)
    asked = [column for column in columns if column.source in META or column.source in CORRELATION]
    return (*chosen.values(), *(column for column in asked if column.name not in chosen))


def _kept(config: OutputConfig, flow: Flow) -> list[Column]:
    metas: list[Column] = []
    kept: list[Column] = []
    for column in flow.schema:
        if column.name in config.exclude:
            continue
        if column.name in META:
            key = META.key(column.name)
            if config.include_metadata is None or key in config.include_metadata:
                metas.append(column)
        elif column.name in CORRELATION:
            if config.include_correlation_keys:
                kept.append(column)
        elif not column.is_engine and (
            config.columns or config.include_unmapped or flow.emitted is None or column.name in flow.emitted
        ):
            kept.append(column)
    return kept + metas


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    names = {c.source for c in step.columns} | {f.name for f in step.fields if f.type is not None}
    mine = RequiredColumns(frozenset(names).union(*(rule.reads for rule in step.rules)))
    sources = step.record_properties.looked_up
    return (mine, *(RequiredColumns(rules.referenced_columns(step.rules, source)) for source in sources))


NODE = NodeType("output", Wiring.ONE, OutputConfig, bind, _reads, DESCRIPTION, check=check, parts=_parts, is_end=True)

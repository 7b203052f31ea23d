"""Checks and binds sources: the mistakes of a source by itself, and the row that it produces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics import codes
from spark_jobs.formats import date_forms, registry, spelling
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import ArrayPath
from spark_jobs.formats.spelling import Spelling
from spark_jobs.nodes import formats
from spark_jobs.nodes.binding import (
    BindScope,
    Bound,
    ColumnOrigin,
    Flow,
    NodeType,
    Wiring,
    plain,
    report,
)
from spark_jobs.nodes.records.columns import CORRELATION, META, UNDECLARED_MAP
from spark_jobs.nodes.rules import model as rules
from spark_jobs.nodes.rules import step as step_rules
from spark_jobs.nodes.source import envelope, layout, network
from spark_jobs.nodes.source.describe import DESCRIPTION
from spark_jobs.nodes.source.model import ArrayMode, SourceConfig, TransportKind
from spark_jobs.nodes.source.step import PROVENANCE, FileMatch, SourceStep
from spark_jobs.nodes.terms.required_columns import RequiredColumns
from spark_jobs.scan.bookmarks import Growth, Incremental

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.formats.format import SourceColumn
    from spark_jobs.nodes.model import Config
    from spark_jobs.nodes.source.layout import Declared
    from spark_jobs.nodes.source.model import SourceColumnConfig


def check(config: SourceConfig, scope: BindScope) -> None:
    """Report problems of a source that do not depend on other nodes."""
    declared = layout.declared(config, scope.part("format_schema"))
    for problem in (*_matcher_problems(config, scope.name), *_schema_problems(config, declared, scope.name)):
        code, message, path, help_text = problem
        report(scope, code, message, "config", *path, help=help_text)
    _check_patterns(config, scope)
    _check_incremental(config, scope)
    envelope.check(config, scope)
    format = registry.named(config.type)
    if format.layout and config.format_schema is None:
        message = f"source '{scope.name}': {format.name} needs a layout, and the key `format_schema` is missing"
        report(scope, codes.E006, message, "config", help="add `format_schema:` with a path or with `fields:`")
    formats.check(format.read_options, scope, "format_schema")
    if declared.layout is not None:
        kinds = {column.name: column.type for column in declared.columns}
        formats.check_layout(declared.layout, format, scope, "format_schema")
        formats.check_rules(declared.layout, format, kinds, scope, "format_schema")
        for message in format.layout(plain(declared.layout)) if format.layout else ():
            report(scope, codes.E007, f"source '{scope.name}': {message}", "config", "format_schema")
    if config.array_paths and not format.has_arrays:
        possible = " and ".join(each.title for each in registry.formats().values() if each.has_arrays)
        message = f"source '{scope.name}': {format.title} records have no arrays for `array_paths`"
        report(scope, codes.E223, message, "config", "array_paths", help=f"{possible} files have them; remove the key")


def _parts(values: Mapping[str, Any]) -> dict[tuple[str | int, ...], type[Config]]:
    return formats.parts(values, "format_schema", lambda format: format.read_options)


_MATCHERS = "path, glob, regex, paths"


def _matcher_problems(config: SourceConfig, name: str) -> Iterator[network.Problem]:
    set_ = config.matchers
    if config.transport.kind is TransportKind.REST:
        yield from network.problems(config, name)
        return
    yield from network.strays(config.transport)
    format = registry.named(config.type)
    if not format.has_files:
        for key in (*set_, *(key for key in network.OF_FILES if key in config.model_fields_set)):
            if key == "path" and format.is_in_folder:
                continue
            what = "chooses its files by itself" if format.is_table else "has none"
            message = f"source '{name}': `{key}` chooses among files, and {format.article} {config.type} source {what}"
            yield codes.E219, message, (key,), f"remove `{key}:`"
        if format.is_in_folder and "path" not in set_:
            message = f"source '{name}': a {config.type} source needs `path`, the folder of the table"
            yield codes.E211, message, (), "add `path:` with the folder of the table"
        return
    if not set_:
        message = f"source '{name}': file transport declares no matcher; set exactly one of {_MATCHERS}"
        yield codes.E211, message, (), "add `path:` with the file to read"
    elif len(set_) > 1:
        message = f"source '{name}': file transport declares more than one matcher ({', '.join(set_)})"
        yield codes.E210, message, (set_[1],), f"keep one of {_MATCHERS}"
    if config.files.take_first is not None and config.files.take_last is not None:
        message = f"source '{name}': files.take_first and files.take_last are mutually exclusive"
        yield codes.E218, message, ("files", "take_last"), "keep one of the two"


def _schema_problems(config: SourceConfig, declared: Declared, name: str) -> Iterator[network.Problem]:
    if config.columns is None and config.format_schema is None:
        yield codes.E201, "the key `schema` is required here", (), "add `schema:`"
        return
    yield from _override_problems(config, declared, name)
    columns: dict[str, types.Type] = {}
    for index, column in enumerate(config.columns or ()):
        if column.name in columns:
            message = f"the column `{column.name}` is declared twice"
            yield codes.E007, message, ("schema", index, "name"), "keep one of the two"
        columns[column.name] = column.type
    if declared.layout is None and config.format_schema is not None:
        return  # The layout is broken, which has been reported: its fields are not known.
    yield from _column_problems(config, declared)
    columns = {column.name: column.type for column in declared.columns}
    for index, field in enumerate(config.correlation_key or ()):
        if field not in columns:
            message = (
                f'source "{name}" declares correlation_key field "{field}" but the field is not present in this '
                "source's `schema:` block"
            )
            yield codes.E153, message, ("correlation_key", index), "declare the column in `schema:`"
    if config.watermark:
        yield from _watermark_problems(config.watermark.column, columns, name)


def _column_problems(config: SourceConfig, declared: Declared) -> Iterator[network.Problem]:
    """Problems of the columns, whichever key declares them."""
    places: dict[str, tuple[str | int, ...]] = dict.fromkeys((c.name for c in declared.columns), ("format_schema",))
    places |= {column.name: ("schema", index) for index, column in enumerate(config.columns or ())}
    places |= {change.column: ("schema_overrides", change.patch) for change in declared.changes}
    read_from: dict[str, str] = {}
    for column in declared.columns:
        first = read_from.setdefault(column.key, column.name)
        if first != column.name:
            message = f"the columns `{first}` and `{column.name}` are both read from `{column.key}`"
            yield codes.E007, message, places[column.name], "give one of them another `alias`"
        if column.name.startswith("$"):
            message = f"`{column.name}`: names with `$` belong to the engine"
            yield codes.E007, message, (*places[column.name], "name"), None
        if column.zone is not None:
            yield from _zone_problems(column, config, places[column.name])
        yield from _format_problems(column, places[column.name])
    for index, written in enumerate(config.columns or ()):
        yield from _spelling_problems(written, ("schema", index))


def _format_problems(column: SourceColumn, place: tuple[str | int, ...]) -> Iterator[network.Problem]:
    if column.type.kind not in (types.Kind.DATE, types.Kind.DATETIME):
        return
    for form in column.formats:
        problem = date_forms.format_problem(form)
        if problem:
            message = f"`format` of `{column.name}`: {problem}"
            yield codes.E007, message, (*place, "format"), "write a form like `%d.%m.%Y`"


#: The column types to which each key applies.
_USES = {
    "decimal_separator": spelling.NUMBERS,
    "thousands_separator": spelling.NUMBERS,
    "true_values": (types.Kind.BOOL,),
    "false_values": (types.Kind.BOOL,),
}


def _spelling_problems(column: SourceColumnConfig, place: tuple[str | int, ...]) -> Iterator[network.Problem]:
    """Problems of the keys that describe the spelling of a column's texts."""
    for key in column.spelling:
        uses = _USES.get(key)
        if uses is not None and column.type.kind not in uses:
            message = (
                f"`{key}` of `{column.name}`: it is for {' and '.join(map(str, uses))}, and this column is "
                f"`{column.type.kind}`"
            )
            yield codes.E007, message, (*place, key), "leave it out"
            return
    for key, problem in spelling.problems(Spelling(**column.spelling)):
        at = key if key in column.spelling else next(iter(column.spelling))
        yield codes.E007, f"`{key}` of `{column.name}`: {problem}", (*place, at), None


def _zone_problems(
    column: SourceColumn, config: SourceConfig, place: tuple[str | int, ...]
) -> Iterator[network.Problem]:
    """Problems of `timezone` where it has no effect: on types other than dates, and in files that store no texts."""
    if column.type.kind not in (types.Kind.DATE, types.Kind.DATETIME):
        message = (
            f"`timezone` of `{column.name}`: it is for `date` and `date_time`, and this column is `{column.type.kind}`"
        )
        yield codes.E007, message, (*place, "timezone"), "leave it out"
    elif registry.named(config.type).is_typed:
        message = f"`timezone` of `{column.name}`: timestamps in {config.type} files are not texts, and are read in UTC"
        yield codes.E007, message, (*place, "timezone"), "leave it out; a `format` with `%z` reads texts with an offset"


def _override_problems(config: SourceConfig, declared: Declared, name: str) -> Iterator[network.Problem]:
    """Problems of `schema_overrides`."""
    if not config.schema_overrides:
        return
    if isinstance(config.format_schema, dict):
        message = f"input '{name}': cannot use both inline 'schema' and 'schema_overrides'"
        yield codes.E007, message, ("schema_overrides",), "edit the inline schema"
    elif config.format_schema is None:
        message = f"input '{name}': 'schema_overrides' changes a `format_schema` in a separate file, but there is none"
        yield codes.E007, message, ("schema_overrides",), "change `schema:` itself, or name the file: `format_schema:`"
    for mistake in declared.mistakes:
        path = (mistake.patch,) if mistake.key is None else (mistake.patch, mistake.key)
        yield codes.E007, mistake.message, ("schema_overrides", *path), mistake.help


def _watermark_problems(column: str, columns: dict[str, types.Type], name: str) -> Iterator[network.Problem]:
    path = ("watermark", "column")
    if column not in columns:
        message = (
            f'source "{name}" declares watermark.column = "{column}" but the column is not present in its `schema:`'
        )
        yield codes.E154, message, path, "declare the column in `schema:`"
    elif columns[column].kind not in (types.Kind.DATE, types.Kind.DATETIME):
        message = (
            f'source "{name}" declares watermark.column = "{column}" but its declared type "{columns[column]}" is not '
            "event-time-coercible; watermark columns must be `date_time` or `date`"
        )
        yield codes.E155, message, path, None


#: The keys of `incremental:` for each way in which a source grows.
_GROWING = {Growth.FILES: ("changed",), Growth.COLUMN: ("column", "delay"), Growth.VERSION: ()}

_BY = {
    Growth.FILES: "files that are added",
    Growth.COLUMN: "rows that are added",
    Growth.VERSION: "versions that are added",
}


def _check_incremental(config: SourceConfig, scope: BindScope) -> None:
    """Report keys of `incremental:` that the kind of source does not support."""
    if config.incremental is None:
        return
    name, format = scope.name, registry.named(config.type)
    if config.transport.kind is TransportKind.REST:
        message = f"source '{name}': nobody knows which pages of a network source are new"
        report(scope, codes.E225, message, "config", "incremental", help="remove `incremental:`")
        return
    if format.growth is None:
        message = f"source '{name}': a {config.type} source reads all of its table in each run"
        report(scope, codes.E225, message, "config", "incremental", help="remove `incremental:`")
        return
    growing = _GROWING[format.growth]
    for key in sorted(config.incremental.model_fields_set.difference(growing)):
        by = _BY[format.growth]
        message = f"source '{name}': `{key}` has no meaning here: a {config.type} source grows by {by}"
        can = f"{' and '.join(f'`{each}`' for each in growing)} can be set" if growing else "write `incremental: true`"
        help_text = f"remove it; {can}"
        report(scope, codes.E225, message, "config", "incremental", key, help=help_text)
    if format.growth is Growth.COLUMN and config.incremental.column is None:
        message = f"source '{name}': the key `column` is required here: new rows have greater values in it"
        help_text = "name a column of times or numbers that only grows: `incremental: {column: updated_at}`"
        report(scope, codes.E225, message, "config", "incremental", help=help_text)


def _check_patterns(config: SourceConfig, scope: BindScope) -> None:
    if config.regex is not None:
        problem = _regex_problem(config.regex)
        if problem:
            report(scope, codes.E213, f"source '{scope.name}': invalid regex pattern: {problem}", "config", "regex")
    for key, pattern in (("glob", config.glob), *(("exclude", text) for text in config.exclude)):
        if pattern is not None and _unclosed_bracket(pattern):
            message = f"source '{scope.name}': invalid glob pattern \"{pattern}\": a `[` is not closed"
            report(scope, codes.E212, message, "config", key, help="write `[[]` for the character itself")


def _regex_problem(pattern: str) -> str | None:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        return str(error.args[0].decode() if isinstance(error.args[0], bytes) else error)
    return None


def _unclosed_bracket(pattern: str) -> bool:
    at = pattern.find("[")
    while at >= 0:
        close = pattern.find("]", at + 2)
        if close < 0:
            return True
        at = pattern.find("[", close)
    return False


def bind(config: SourceConfig, scope: BindScope) -> Bound:
    """The step of a source, and the row that it produces."""
    declared = layout.declared(config, scope.part("format_schema"))
    key = tuple(config.correlation_key or ())
    kinds = {column.name: column.type for column in declared.columns}
    row = [Column(column.name, _row_type(column.type), scope.name) for column in declared.columns]
    row += [Column(CORRELATION.of(field), _row_type(kinds[field]), scope.name) for field in key]
    if config.on_unmapped.mode is OnUnmapped.AUTO_WIDEN:
        row.append(Column(UNDECLARED_MAP, types.MAP, scope.name))
    if scope.include_provenance:
        kinds_of = dict(zip(PROVENANCE, (types.STRING, types.STRING, types.INT), strict=True))
        row += [Column(META.of(key), kind, scope.name) for key, kind in kinds_of.items()]
    options = formats.checked_options(
        registry.named(config.type).read_options, scope.part("options"), scope.part("format_schema")
    )
    spellings = {column.name: column.spelling for column in config.columns or ()}
    columns = tuple(_spelled(column, options.spelling, spellings.get(column.name, {})) for column in declared.columns)
    step = SourceStep(
        name=scope.name,
        format=str(config.type),
        options=options,
        match=_match(config),
        columns=_localized(columns, scope.date_header),
        on_unmapped=config.on_unmapped.mode,
        label=config.name if config.name != scope.name else None,
        date_formats=tuple(scope.date_header + form for form in scope.date_formats),
        correlation_key=key,
        rules=rules.bound(config.validations, Schema(tuple(row)), scope),
        watermark_column=config.watermark.column if config.watermark else None,
        watermark_delay_s=config.watermark.delay or 0.0 if config.watermark else 0.0,
        idle_timeout_s=config.watermark.idle_timeout if config.watermark else None,
        array_paths=tuple(
            ArrayPath(entry.path.removeprefix("$."), entry.mode is ArrayMode.EXPLODE, entry.separator)
            for entry in config.array_paths
        ),
        sections=tuple(envelope.sections(config)),
        layout=plain(declared.layout),
        typed_fields=_typed_fields(config, declared, scope),
        endpoint=network.endpoint(config.transport),
        incremental=_incremental(config),
    )
    flow = Flow(
        Schema(tuple(row)),
        sources=(scope.name,),
        documents=envelope.documents(config),
        ordered_by=tuple(field.field for field in config.sort_order),
        files_of=scope.name,
        can_name_undeclared=config.on_unmapped.mode is OnUnmapped.AUTO_WIDEN
        and "on_unmapped" in config.model_fields_set,
        on_unmapped=config.on_unmapped.mode,
    )
    return Bound(step, {"": flow}, _pending(config, scope), tuple(_origins(config, declared, scope)))


def _incremental(config: SourceConfig) -> Incremental | None:
    if (written := config.incremental) is None:
        return None
    return Incremental(written.changed, written.column or "", written.delay or 0.0)


def _typed_fields(config: SourceConfig, declared: Declared, scope: BindScope) -> tuple[SourceColumn, ...]:
    """The types that the format schema gives to undeclared fields with positions, if those are carried."""
    if config.on_unmapped.mode is not OnUnmapped.AUTO_WIDEN or registry.named(config.type).layout is None:
        return ()
    return _localized(layout.undeclared(declared), scope.date_header)


def _localized(columns: tuple[SourceColumn, ...], header: str) -> tuple[SourceColumn, ...]:
    """The columns with formats that use the names of the pipeline's language."""
    if not header:
        return columns
    return tuple(replace(one, formats=tuple(header + form for form in one.formats)) for one in columns)


def _spelled(column: SourceColumn, of_file: Spelling, said: Mapping[str, Any]) -> SourceColumn:
    """A column whose spelling of texts comes from the options of its file, unless the column sets it itself."""
    spelling = replace(of_file, **said)
    return column if spelling.is_usual else replace(column, spelling=spelling)


def _origins(config: SourceConfig, declared: Declared, scope: BindScope) -> Iterator[ColumnOrigin]:
    """The columns that keys other than `schema:` declare or drop."""
    changed = {change.column: change for change in declared.changes}
    if config.columns is None:
        for column in declared.columns:
            if column.name not in changed:
                yield ColumnOrigin(column.name, "format_schema", scope.span("config", "format_schema"))
    for change in declared.changes:
        place = scope.span("config", "schema_overrides", change.patch)
        yield ColumnOrigin(change.column, "schema_overrides", place, change.dropped)


def _row_type(declared: types.Type) -> types.Type:
    """The type in the row: nullable, because empty cells of other types are null, and a string may be missing."""
    return declared.or_null()


def _match(config: SourceConfig) -> FileMatch:
    return FileMatch(
        path=config.path,
        glob=config.glob,
        regex=config.regex,
        paths=tuple(config.paths or ()),
        exclude=tuple(config.exclude),
        modified_after=config.modified_after,
        modified_before=config.modified_before,
        min_size=config.min_size,
        max_size=config.max_size,
        sort_by=str(config.files.sort_by),
        sort_order=str(config.files.sort_order),
        take_first=config.files.take_first,
        take_last=config.files.take_last,
        recursive=config.files.recursive,
        on_no_match=str(config.files.on_no_match),
    )


def _pending(config: SourceConfig, scope: BindScope) -> Any:
    if not registry.named(config.type).can_read:
        return scope.pending(f"reading {config.type} files", "config", "type")
    return None


def _reads(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    referred = step.record_properties.looked_up
    return tuple(RequiredColumns(step_rules.referenced_columns(step.rules, each)) for each in referred)


NODE = NodeType("source", Wiring.NONE, SourceConfig, bind, _reads, DESCRIPTION, check=check, parts=_parts)

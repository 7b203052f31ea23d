"""From trees to models: pydantic validates plain data, and its errors become diagnostics with source positions."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.model import kind_of
from spark_jobs.plan.reading.yaml_tree import Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingType

    from spark_jobs.diagnostics.diagnostic import Code, Diagnostic, Diagnostics
    from spark_jobs.diagnostics.source import Span

M = TypeVar("M", bound=BaseModel)
Path = tuple[str | int, ...]

_KINDS = {
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
}


_COLUMNS = "write each column as `{ name: id, type: int }`, or all of them as `schema: { id: int, day: date }`"
#: The right form of values that people often write in another form, by the key and the expected or found type.
_FORMS = {
    ("path", "a list"): "write `paths:` for several files, or `glob:` for a pattern",
    ("schema", "a mapping"): _COLUMNS,
    ("schema", "a list"): _COLUMNS,
    ("dlq", "a mapping"): "write `dlq: { path: rejected.csv }`",
    ("vars", "a mapping"): "write `vars: { name: value }`",
    ("memory", "a mapping"): "write `memory: { limit: 2G }`",
    ("options", "a mapping"): "write `options: { delimiter: ';' }`",
    ("error_handling", "a mapping"): "write `error_handling: { strategy: continue, dlq: { path: rejected.csv } }`",
}


def data(node: Node) -> Any:
    """The plain values of a tree; `_notes` are left out."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [data(item) for item in node.items]
        case Mapping():
            return {key: data(entry.value) for key, entry in node.entries.items() if key != "_notes"}


def locate(node: Node, path: Path) -> tuple[Node, Span, int]:
    """The node at a path, the place of its key (its own where it has none), and how many steps of the path exist."""
    place = node.span
    for depth, part in enumerate(path):
        following: Node | None = None
        if isinstance(node, Mapping):
            entry = node.entries.get(str(part))
            if entry is None and isinstance(part, int) and part < len(node.entries):
                # A mapping that a model reads as a list of its entries.
                entry = list(node.entries.values())[part]
            if entry is not None:
                following, place = entry.value, entry.key
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            following = node.items[part]
            place = following.span
        if following is None:
            return node, place, depth
        node = following
    return node, place, len(path)


def value_span(node: Node, path: Path) -> Span:
    """The place of the value at a path; for collections and absent values, the nearest key."""
    found, key, depth = locate(node, path)
    return found.span if isinstance(found, Scalar) and depth == len(path) else head(key)


def head(span: Span) -> Span:
    """The first line of a place."""
    end = span.file.text.find("\n", span.start)
    return type(span)(span.file, span.start, max(span.start, min(span.end, end))) if end >= 0 else span


def read(
    model: type[M],
    node: Node,
    found: Diagnostics,
    key: str = "",
    place: Span | None = None,
    below: MappingType[str, str] | None = None,
) -> M | None:
    """A model of the values of a tree, or None when they do not fit, which `found` then says in full.

    Args:
        model: the model that the values must fit.
        node: the tree.
        found: collects problems.
        key: the key of the tree, for messages about the tree itself.
        place: where messages about missing keys point when the tree is not written on one line.
        below: keys that are unknown here, but known below another one, with that one.
    """
    try:
        return model.model_validate(_without(data(node), model))
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=True):
            path = problem["loc"]
            if problem["type"] == "extra_forbidden" and len(path) == 1 and path[0] in (below or {}):
                found.add(unknown_key(node, path, [], below_of(str(path[0]), below or {})))
            else:
                found.add(_diagnostic(model, node, problem, key, place))
    return None


def _without(values: Any, model: type[BaseModel]) -> Any:
    if isinstance(values, dict) and "description" in values and "description" not in allowed_keys(model):
        return {key: value for key, value in values.items() if key != "description"}
    return values


def _diagnostic(model: type[BaseModel], node: Node, problem: Any, key: str, place: Span | None) -> Diagnostic:
    path: Path = tuple(problem["loc"])
    kind = problem["type"]
    match kind:
        case "missing":
            return missing_key(node, path, place=place)
        case "extra_forbidden":
            return unknown_key(node, path, allowed_keys(_model_at(model, path[:-1])))
        case _ if kind in codes.by_id():
            help = _FORMS.get((_written(node, path), kind_of(problem["input"])))
            return codes.by_id()[kind].at(value_span(node, path), _named(node, path, key, problem["msg"]), help=help)
        case _ if kind in _KINDS:
            message = f"expected {_KINDS[kind]}, found {kind_of(problem['input'])}"
            help = _FORMS.get((_written(node, path) or key, _KINDS[kind]))
            return codes.E007.at(value_span(node, path), _named(node, path, key, message), help=help)
        case "too_short":
            return codes.E007.at(value_span(node, path), _named(node, path, key, "must not be empty"))
        case _:
            return codes.E007.at(value_span(node, path), _named(node, path, key, problem["msg"]))


def _named(node: Node, path: Path, key: str, message: str) -> str:
    """The message with the key that the value stands under, as it is written."""
    name = _written(node, path) or key
    return f"`{name}`: {message}" if name else message


def _written(node: Node, path: Path) -> str:
    """The key that a value stands under, as it is written; empty if none does."""
    written = path[: locate(node, path)[2]]
    return next((part for part in reversed(written) if isinstance(part, str)), "")


def missing_key(node: Node, path: Path, code: Code = codes.E006, place: Span | None = None) -> Diagnostic:
    """The diagnostic for a required key that is absent; it points at what should hold the key."""
    _, nearest_place, depth = locate(node, path[:-1])
    place = place if place is not None and depth == 0 else nearest_place
    return code.at(head(place), f"the key `{path[-1]}` is required here", help=f"add `{path[-1]}:`")


#: Keys that belong elsewhere in the pipeline file, with a remedy.
_ELSEWHERE = dict.fromkeys(
    ("strategy", "error_strategy", "error_handling", "on_error", "dlq"),
    "error handling applies to all nodes: write `error_handling: {strategy: …, dlq: {path: …}}` beside `nodes:`",
)


#: Names that other tools use for keys.
_KEYS_ELSEWHERE: dict[str, str | tuple[str, ...]] = {
    **dict.fromkeys(("sep", "separator", "field_separator", "field_delimiter"), "delimiter"),
    **dict.fromkeys(("quotechar", "quote", "enclosure", "text_qualifier"), "quote_char"),
    **dict.fromkeys(("escapechar", "escape"), "escape_char"),
    **dict.fromkeys(("header", "first_row_is_header"), "has_header"),
    **dict.fromkeys(("skiprows", "skip_lines", "skip"), "skip_rows"),
    **dict.fromkeys(("skipfooter", "skip_last", "footer"), "skip_footer"),
    **dict.fromkeys(("na_values", "nullvalue", "nullstr", "null_value", "nulls"), "null_values"),
    **dict.fromkeys(("decimal", "decimal_point"), "decimal_separator"),
    **dict.fromkeys(("thousands", "group_separator"), "thousands_separator"),
    **dict.fromkeys(("charset", "codepage", "code_page"), "encoding"),
    **dict.fromkeys(("lineterminator", "line_separator", "linesep", "newline"), "record_separator"),
    **dict.fromkeys(("file", "filename", "filepath", "location"), "path"),
    **dict.fromkeys(("sql", "query", "expression", "program", "code"), "cxl"),
    **dict.fromkeys(("groupby", "by", "keys"), "group_by"),
    **dict.fromkeys(("order_by", "sort_by", "sort", "orderby"), ("sort_order", "sort_by")),
    "partition_by": "group_by",
    **dict.fromkeys(("inputs", "from", "upstream"), "input"),
    **dict.fromkeys(("column", "column_name", "field"), "name"),
    **dict.fromkeys(("fields", "dtypes"), "schema"),
    **dict.fromkeys(("on", "join_on", "condition"), "where"),
    "format": "type",
}


#: Remedies for keys that other tools have and pipelines do not.
_INSTEAD = {
    **dict.fromkeys(("having", "filter", "where"), "put a transform with `filter …` upstream or downstream"),
    **dict.fromkeys(
        ("limit", "top", "head"),
        "number the records with `analytic_window` and `$window.row_number()` in a transform, and `filter` them",
    ),
    **dict.fromkeys(
        ("overwrite", "if_exists", "write_mode", "mode"),
        "files are written anew as a whole; `clinker run --force` replaces those that exist",
    ),
    **dict.fromkeys(
        ("order_by", "sort_by", "orderby", "sort"), "an output sorts what it writes: `sort_order: [column]` there"
    ),
    **dict.fromkeys(("nullable", "not_null", "notnull"), "`required: true` refuses records without a value"),
    **dict.fromkeys(
        ("primary_key", "unique", "unique_key"),
        "a rule on all records says so: `validations: [{ unique: column }]` beside `schema:`",
    ),
    **dict.fromkeys(
        ("default", "fillna", "default_value"), "a transform gives a value where there is none: `emit name = name ?? 0`"
    ),
    **dict.fromkeys(
        ("max_errors", "max_dlq_rate", "max_bad_records", "error_threshold", "max_error_rate"),
        "`type_error_threshold: 0.05` fails the run if a larger share of records does",
    ),
    **dict.fromkeys(("memory_limit", "max_memory", "driver_memory"), "write `memory: { limit: 2G }`"),
}


def elsewhere(name: str) -> str | None:
    """The remedy for a key that belongs elsewhere."""
    return _ELSEWHERE.get(name)


def below_of(name: str, below: MappingType[str, str]) -> str | None:
    """The remedy for a key that belongs below another one."""
    return f"`{name}` belongs under `{below[name]}:`: write `{below[name]}: {{ {name}: … }}`" if name in below else None


def _instead(name: str, allowed: list[str]) -> str | None:
    """Advise on a key of another tool, where pipelines may have keys of this kind; None if there is no advice."""
    return _INSTEAD.get(name) if {"path", "cxl", "type", "strategy", "memory"} & set(allowed) else None


def unknown_key(node: Node, path: Path, allowed: list[str], help: str | None = None) -> Diagnostic:
    """The diagnostic for a key that is not among the allowed ones; `help` tells where it belongs, if that is known."""
    name = str(path[-1])
    _, place, _ = locate(node, path)
    if help is not None:
        return codes.E005.at(place, f"unknown key `{name}`", help=help)
    found = _KEYS_ELSEWHERE.get(name.lower(), ())
    known = next((key for key in ((found,) if isinstance(found, str) else found) if key in allowed), None)
    proposal = f"did you mean `{known}`?" if known is not None else nearest.hint(name, allowed)
    listed = "allowed here: " + ", ".join(sorted(allowed)) if allowed else "no key is allowed here"
    if proposal is None and (other := elsewhere(name) or _instead(name.lower(), allowed)) is not None:
        listed = other
    return codes.E005.at(place, f"unknown key `{name}`" + (f"; {proposal}" if proposal else ""), help=listed)


def allowed_keys(model: type[BaseModel] | None) -> list[str]:
    """The keys of a model as users write them."""
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


def _model_at(annotation: Any, path: Path) -> type[BaseModel] | None:
    """The model that a path leads to, through optional values, lists and mappings."""
    annotation = _unwrapped(annotation)
    for part in path:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields = {info.alias or name: info for name, info in annotation.model_fields.items()}
            if part not in fields:
                return None
            annotation = _unwrapped(fields[str(part)].annotation)
        else:
            arguments = get_args(annotation)
            if not arguments:
                return None
            annotation = _unwrapped(arguments[-1])
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _unwrapped(annotation: Any) -> Any:
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (Union, UnionType):
            annotation = next(part for part in get_args(annotation) if part is not type(None))
        else:
            return annotation

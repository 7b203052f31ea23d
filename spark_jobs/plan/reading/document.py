"""Reads and checks a pipeline file by itself: its blocks as models, its nodes as written, all with source positions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import SourceFile, Span
from spark_jobs.disk import small_files
from spark_jobs.limits import FILE_CHARACTERS
from spark_jobs.plan import paths
from spark_jobs.plan.reading import model, reader, secrecy, yaml_tree
from spark_jobs.plan.reading import nodes as written
from spark_jobs.plan.reading.yaml_tree import Mapping, Node, Scalar, Sequence, is_null
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Collection
    from collections.abc import Mapping as MappingType

    from spark_jobs.stores.location import FilePath


#: No character has more bytes, and a mark may stand before them.
_MOST_BYTES = 4 * FILE_CHARACTERS + 3


@dataclass
class Document:
    """A pipeline file, read."""

    file: SourceFile
    tree: Mapping
    pipeline: model.PipelineConfig | None
    errors: model.ErrorHandlingConfig | None
    nodes: list[written.NodeSource]
    source_hash: str
    #: Names of nodes that could not be read: inputs that name them are not to blame.
    broken: frozenset[str] = frozenset()


def open_text(path: FilePath, found: Diagnostics, name: str | None = None) -> SourceFile | None:
    """A file's text; None if it cannot be read as UTF-8, which `found` then says."""
    shown = name or str(path)
    try:
        raw = small_files.read(path, _MOST_BYTES)
    except StoreError as error:
        if error.kind is Kind.MISSING:
            found.add(codes.E000.at(None, f"cannot read `{error.uri}`: {error.message}"))
        else:
            found.add(codes.E910.at(None, str(error)))
        return None
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
        schemes = ", ".join(f"{each}://" for each in sorted(location.READABLE))
        help_text = f"a URI is one of {schemes}: copy the file there, or to a folder" if paths.is_remote(shown) else ""
        found.add(codes.E000.at(None, f"cannot read `{shown}`: {reason}", help=help_text or "check the path"))
        return None
    except small_files.TooLarge:
        message = f"cannot read `{shown}`: the file is larger than {FILE_CHARACTERS >> 20} MiB"
        found.add(codes.E000.at(None, message, help="check the path"))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        file = SourceFile(shown, before)
        secrecy.hide_unread(file, 0, len(before))
        message = f"the file is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}"
        found.add(codes.E000.at(Span(file, len(before), len(before)), message, help="save the file as UTF-8"))
        return None
    return SourceFile(shown, text)


def open_tree(
    path: FilePath,
    name: str,
    variables: MappingType[str, str],
    found: Diagnostics,
    *,
    base_dir: FilePath,
    marks: Collection[str],
) -> tuple[SourceFile | None, Node | None]:
    """The text and the tree of a file that a pipeline names; None for each that is not available.

    A file outside of the base folder that has no key by which files of its kind are known may be anything, a file of
    secrets as well: no message shows a line of it.

    Args:
        path: where the file is.
        name: how messages call it.
        variables: the values of variables.
        found: collects its problems.
        base_dir: the base folder.
        marks: the keys by which a file of its kind is known.
    """
    mine = Diagnostics()
    file = open_text(path, mine, name)
    tree = yaml_tree.read(file, variables, mine) if file else None
    is_known = isinstance(tree, Mapping) and any(mark in tree.entries for mark in marks)
    if not is_known and not paths.is_inside(path, base_dir):
        for shown in [file, *(problem.span.file for problem in mine if problem.span)]:
            if shown is not None:
                shown.hide(0, len(shown.text))
    for problem in mine:
        found.add(problem)
    return file, tree


def read(file: SourceFile, variables: MappingType[str, str], found: Diagnostics) -> Document | None:
    """The document of a pipeline file; None if it is not even a mapping."""
    tree = yaml_tree.read(file, variables, found)
    if tree is None:
        return None
    if not isinstance(tree, Mapping):
        message = "a pipeline file is a mapping with `pipeline:` and `nodes:`"
        found.add(codes.E000.at(reader.head(tree.span), message))
        return None
    return read_tree(file, tree, found)


_TOP_KEYS = ["pipeline", "nodes", "error_handling"]


def read_tree(file: SourceFile, tree: Mapping, found: Diagnostics) -> Document:
    """The document of a tree."""
    for key in tree.entries:
        if key not in (*_TOP_KEYS, "_notes"):
            found.add(reader.unknown_key(tree, (key,), _TOP_KEYS))
    start = Span(file, 0, 0)
    for key in ("pipeline", "nodes"):
        if key not in tree.entries:
            found.add(codes.E006.at(start, f"the key `{key}` is required at the top of a pipeline file"))
    pipeline_tree, errors_tree = tree.get("pipeline"), tree.get("error_handling")
    pipeline = reader.read(model.PipelineConfig, pipeline_tree, found, key="pipeline") if pipeline_tree else None
    errors: model.ErrorHandlingConfig | None = model.ErrorHandlingConfig()
    if errors_tree is not None and not is_null(errors_tree):
        errors = reader.read(model.ErrorHandlingConfig, errors_tree, found, key="error_handling")
    nodes = written.read_nodes(tree, found)
    return Document(file, tree, pipeline, errors, nodes, _digest(tree), _broken(tree, nodes))


def _broken(tree: Mapping, nodes: list[written.NodeSource]) -> frozenset[str]:
    listed = tree.get("nodes")
    items = listed.items if isinstance(listed, Sequence) else []
    names = (item.get("name") for item in items if isinstance(item, Mapping))
    return frozenset(name.text for name in names if isinstance(name, Scalar)) - {node.name for node in nodes}


def _digest(tree: Node) -> str:
    """BLAKE2b-256 of the values after interpolation, so that comments and layout do not count but every value does."""
    digest = hashlib.blake2b(digest_size=32)
    stack: list[Any] = [tree]
    while stack:
        match stack.pop():
            case Scalar() as scalar:
                digest.update(b"=" + scalar.text.encode("utf-8", "surrogatepass") + b"\0")
            case Sequence() as sequence:
                digest.update(b"[")
                stack.extend(reversed(sequence.items))
            case Mapping() as mapping:
                digest.update(b"{")
                for key, entry in reversed(mapping.entries.items()):
                    stack.extend((entry.value, key))
            case str() as key:
                digest.update(key.encode("utf-8", "surrogatepass") + b":")
    return digest.hexdigest()

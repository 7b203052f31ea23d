"""Finds files of cases in folders, and reads them with source positions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli.cases import model
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import SourceFile
from spark_jobs.disk import small_files
from spark_jobs.plan.reading import document, reader, yaml_tree
from spark_jobs.stores import globs, small_objects
from spark_jobs.stores.location import BadLocation, Location, located
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.diagnostics.source import Span
    from spark_jobs.stores.location import FilePath

#: The suffix of case files.
ENDING = ".test.yaml"


@dataclass(frozen=True)
class Case:
    """A case with its places.

    Args:
        path: the file.
        pipeline: the pipeline's file.
        config: the case as it is written.
        tree: the same with places.
    """

    path: FilePath
    pipeline: FilePath
    config: model.Case
    tree: yaml_tree.Mapping
    file: SourceFile

    @property
    def name(self) -> str:
        """The name of the case: a sentence about its purpose."""
        return self.config.name

    @property
    def span(self) -> Span:
        """The place of the case in its file."""
        return reader.value_span(self.tree, ("name",))

    def place(self, *path: str | int) -> Span:
        """The place of one of its keys in the file."""
        _, place, depth = reader.locate(self.tree, path)
        return place if depth else self.span

    def node(self, *path: str | int) -> yaml_tree.Node | None:
        """The value under some keys."""
        node, _, depth = reader.locate(self.tree, path)
        return node if depth == len(path) else None


def files(paths: Iterable[FilePath]) -> Iterator[FilePath]:
    """The named files and the files below named folders, sorted by name.

    Raises:
        FileNotFoundError: a path leads nowhere.
        StoreError: a store does not say.
    """
    for path in paths:
        if isinstance(path, Location):
            yield from _objects(path)
        elif path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                yield from (Path(folder, name) for name in sorted(names) if name.endswith(ENDING))
        elif path.exists():
            yield path
        else:
            raise FileNotFoundError(2, "no such file or folder", str(path))


def _objects(path: Location) -> Iterator[Location]:
    """An object, or the files of cases below a folder of a store."""
    if small_files.is_there(path):
        yield path
        return
    objects = [each.location for each in globs.matching_below(path, "**", small_objects.settings())]
    if not objects:
        raise FileNotFoundError(2, "no such object or folder", str(path))
    below = {each.name_in(path) or "": each for each in objects if each.name.endswith(ENDING)}
    yield from (each for name, each in sorted(below.items()) if not any(p.startswith(".") for p in name.split("/")))


def is_yaml(file: SourceFile, text: str) -> bool:
    """Whether a file could have this text."""
    found = Diagnostics()
    return yaml_tree.read(SourceFile(file.name, text), dict(os.environ), found) is not None and not found.has_errors


def read(path: FilePath, found: Diagnostics) -> list[Case]:
    """Read the cases of a file; problems of the file are added to `found`."""
    file = document.open_text(path, found)
    tree = yaml_tree.read(file, dict(os.environ), found) if file else None
    if file is None or tree is None:
        return []
    if not isinstance(tree, yaml_tree.Mapping):
        found.add(codes.E000.at(reader.head(tree.span), "a file of cases is a mapping with `pipeline:` and `cases:`"))
        return []
    if "nodes" in tree.entries and "cases" not in tree.entries:
        advice = f"name a file of cases, such as `{path.stem}{ENDING}`; `clinker validate` checks a pipeline"
        found.add(codes.E000.at(reader.head(tree.span), "this is a pipeline and not a file of cases", help=advice))
        return []
    read_file = reader.read(model.CaseFile, tree, found)
    if read_file is None:
        return []
    written = tree.entries["cases"].value
    assert isinstance(written, yaml_tree.Sequence)
    place = reader.value_span(tree, ("pipeline",))
    try:
        pipeline = located(read_file.pipeline, path.parent)
        is_there = small_files.is_there(pipeline)
    except BadLocation as error:
        found.add(codes.E000.at(place, f"cannot read the pipeline: {error.message}", help=error.remedy))
        return []
    except StoreError as error:
        found.add(codes.E910.at(place, str(error)))
        return []
    if not is_there:
        found.add(codes.E000.at(place, f"cannot read `{read_file.pipeline}`: no such file", help="check the path"))
        return []
    return [
        Case(path, pipeline, config, node, file)
        for config, node in zip(read_file.cases, written.items, strict=True)
        if isinstance(node, yaml_tree.Mapping)
    ]

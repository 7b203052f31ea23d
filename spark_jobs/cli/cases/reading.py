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
from spark_jobs.plan.reading import document, reader, yaml_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.diagnostics.source import Span

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

    path: Path
    pipeline: Path
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


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The named files and the files below named folders, sorted by name.

    Raises:
        FileNotFoundError: a path leads nowhere.
    """
    for path in paths:
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                yield from (Path(folder, name) for name in sorted(names) if name.endswith(ENDING))
        elif path.exists():
            yield path
        else:
            raise FileNotFoundError(2, "no such file or folder", str(path))


def is_yaml(file: SourceFile, text: str) -> bool:
    """Whether a file could have this text."""
    found = Diagnostics()
    return yaml_tree.read(SourceFile(file.name, text), dict(os.environ), found) is not None and not found.has_errors


def read(path: Path, found: Diagnostics) -> list[Case]:
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
    pipeline = path.parent / read_file.pipeline
    if not pipeline.is_file():
        place = reader.value_span(tree, ("pipeline",))
        found.add(codes.E000.at(place, f"cannot read `{read_file.pipeline}`: no such file", help="check the path"))
        return []
    return [
        Case(path, pipeline, config, node, file)
        for config, node in zip(read_file.cases, written.items, strict=True)
        if isinstance(node, yaml_tree.Mapping)
    ]

"""YAML for the generators of the documentation: a key that stands twice is an error, as it is in pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys, which YAML's own loader drops without a word."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if key in seen:
            raise ValueError(f"line {key_node.start_mark.line + 1}: the key {key!r} stands twice")
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path: Path) -> Any:
    """Returns the document in `path`.

    Raises:
        ValueError: when a mapping has a key twice; the message names the line.
    """
    # The loader is a SafeLoader: it makes plain values only.
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)

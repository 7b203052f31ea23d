"""The reference of the formats: a page for each, from the classes of its options and the examples in `formats/`."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from docs import strict_yaml
from docs.generate_nodes import table
from spark_jobs.formats import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

#: For each format what is to say about it, and examples of its options; `tests/formats/test_examples.py` runs them.
EXAMPLES = Path(__file__).resolve().parent / "formats"

_PAGE = """# {title}

<!-- Written by docs/generate.py from spark_jobs/formats/{name} and docs/formats/{name}.yaml; change those. -->

{about}
"""


@cache
def examples(name: str) -> dict[str, Any]:
    """What `docs/formats/` has of a format."""
    found: dict[str, Any] = strict_yaml.load(EXAMPLES / f"{name}.yaml")
    return found


def options(name: str, direction: str) -> set[str]:
    """The options of a format that is read, or written (`write`)."""
    return {option.name for option in fields(_class(name, direction))}


def _class(name: str, direction: str) -> type[Any]:
    known = registry.named(name)
    return known.read_options if direction == "read" else known.write_options


def config(name: str, direction: str, example: dict[str, Any]) -> dict[str, Any]:
    """What an example says of its node, beside the path."""
    schema = {"schema": example["schema"]} if direction == "read" and "schema" in example else {}
    chosen = {"options": example["options"]} if example["options"] else {}
    return {"type": name, **chosen, **example.get("config", {}), **schema}


def page(name: str) -> str:
    """The page of a format."""
    known = registry.named(name)
    parts = [
        _PAGE.format(
            title=known.title[:1].upper() + known.title[1:], name=name, about=examples(name)["about"].strip()
        ).strip()
    ]
    for direction, title in (("read", "Reading"), ("write", "Writing")):
        if direction == "write" and not known.can_write:
            parts.append("## Writing\n\nOutputs cannot have this type.")
            continue
        has_some = bool(options(name, direction))
        parts.append(
            f"## {title}\n\n" + (table(_class(name, direction).__name__) if has_some else "There are no options.")
        )
        for example in examples(name)[direction]:
            parts += _shown(name, direction, example)
    return "\n\n".join(parts) + "\n"


def _shown(name: str, direction: str, example: dict[str, Any]) -> Iterator[str]:
    """An example: what the node says, what comes in, and what comes of it."""
    yield _block(
        "yaml", yaml.safe_dump(config(name, direction, example), sort_keys=False, width=100, allow_unicode=True)
    )
    file = _block("text", _visible(example["file"]))
    if direction == "read":
        yield f"reads\n\n{file}"
        yield f"as\n\n{_block('json', example['records'])}"
    elif "from" in example:
        source = yaml.safe_dump(example["from"], sort_keys=False, width=100)
        yield f"writes, from a source\n\n{_block('yaml', source)}\n\nof\n\n{_block('text', example['records'])}"
        yield f"the file\n\n{file}"
    else:
        yield f"writes\n\n{_block('json', example['records'])}\n\nas\n\n{file}"


def _visible(text: str) -> str:
    return text.replace("\r", "␍")


def _block(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip(chr(10))}\n```"

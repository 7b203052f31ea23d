"""The nodes reference: every key of a pipeline file, from the configuration models and `keys.yaml`."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from docs import strict_yaml
from spark_jobs.formats import registry as known_formats
from spark_jobs.nodes import formats, registry
from spark_jobs.nodes.binding import Wiring
from spark_jobs.plan.expanding import composition
from spark_jobs.plan.reading import model, workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.nodes.binding import NodeType
    from spark_jobs.nodes.model import Config

HERE = Path(__file__).resolve().parent
#: What the keys of each configuration model mean; every key has its line there, and no line is without its key.
KEYS = HERE / "keys.yaml"
#: The pipeline whose nodes are shown as examples.
EXAMPLE = HERE.parent / "examples" / "orders" / "pipeline.yaml"

_NODES = """# Nodes reference

<!-- Written by docs/generate.py from the models in spark_jobs/nodes and spark_jobs/plan, and docs/keys.yaml. -->

A pipeline file has three blocks: `pipeline:`, `nodes:` and, if wanted, `error_handling:`. Every node has a `type`, a
`name` that no other node has, its inputs, and its settings under `config:` (or directly beside `name`: both places are
good, one at a time). An input is a node's name, or `node.port` for a branch of a route or a port of a composition.
`description` and `_notes` are for readers and may stand anywhere. Unknown keys are errors.

`clinker schema` prints all of this as a JSON Schema for editors. What is marked in [the roadmap](../roadmap.md) is
checked and explained, and does not run yet.
"""
_COMPOSITIONS = """## Composition files

A file with its signature under `_compose:` and the body under `nodes:`. [Reuse](../reuse.md) shows one at work.

"""
_WORKSPACE = """## clinker.toml

Settings of a workspace, looked for in the base folder and then upwards; paths in it are relative to it.
[Storage](../storage.md) says what they do. Under `[storage]`:

"""
_WIRED = {
    Wiring.NONE: "It has no input.",
    Wiring.ONE: "`input:` names one node.",
    Wiring.LIST: "`inputs:` lists the nodes: `inputs: [monday, tuesday]`.",
    Wiring.NAMED: "`input:` gives each input the name that expressions call it by: `input: {orders: priced, customers:"
    " customers}`.",
    Wiring.CALL: "`use:` names the composition's file, `input:` one input or `inputs:` the input of each port, `alias:`"
    " the name before those of its nodes, in place of its own, `outputs:` which node gets which port (`high: review`:"
    " the node `review` may then write the call's bare name as its input), `resources:` the files that its signature"
    " asks for. `config:` has the values of its parameters. [Reuse](../reuse.md) shows one at work.",
}


@cache
def meanings() -> dict[str, dict[str, str]]:
    """What every key of every model means."""
    found: dict[str, dict[str, str]] = strict_yaml.load(KEYS)
    return found | _of_options()


def _of_options() -> dict[str, dict[str, str]]:
    """What the options of each format mean, by the `Args:` of their classes."""
    return {
        options.__name__: {
            key: re.sub(r"\s+", " ", text).strip()
            for key, text in re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)$", _documented(options), re.MULTILINE)
        }
        for one in known_formats.formats().values()
        for options in (one.read_options, one.write_options)
        if fields(options)
    }


def _documented(options: type[Any]) -> str:
    """The docstrings of a class and of those that it has options from."""
    return "\n".join(each.__doc__ or "" for each in reversed(options.__mro__))


def _options() -> list[type[Config]]:
    """The models of the options of all formats."""
    return [
        formats.model_of(options)
        for one in known_formats.formats().values()
        for options in (one.read_options, one.write_options)
    ]


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every configuration model, by the model's name."""
    roots: list[type[Config]] = [kind.config for kind in registry.node_types().values()]
    roots += [model.PipelineConfig, model.ErrorHandlingConfig, *_options()]
    roots += [formats.Layout, composition.ComposeConfig, workspace.StorageConfig, workspace.ChannelsConfig]
    roots += [workspace.BehaviorConfig]
    _, found = models_json_schema([(one, "validation") for one in roots])
    definitions: dict[str, dict[str, Any]] = found["$defs"]
    return definitions


def documented() -> dict[str, set[str]]:
    """The models that the page shows, each with its keys: what `docs/keys.yaml` has to explain."""
    return {
        name: set(found["properties"])
        for name, found in _definitions().items()
        if found.get("properties") and name not in ("Type", "Kind")
    }


def _value(found: Mapping[str, Any]) -> str:
    """What may stand for a key, in words."""
    if "$ref" in found:
        name = found["$ref"].rpartition("/")[2]
        return "a type" if name == "Type" else f"[mapping](#{_title(name).replace(' ', '-')})"
    if "enum" in found:
        words = [f"`{word}`" for word in found["enum"]]
        return "a type" if "`date_time`" in words else ", ".join(words)
    if isinstance(found.get("type"), list):
        return "text"  # YAML may read it as something else
    if "anyOf" in found:
        several = [one for one in found["anyOf"] if one.get("type") != "null"]
        if [one.get("type") for one in several] == ["integer", "string"]:
            return "size"
        return " or ".join(dict.fromkeys(map(_value, several)))
    match found.get("type"):
        case "array":
            return f"list of {_value(found.get('items', {}))}"
        case "object":
            inner = found.get("additionalProperties")
            return f"mapping of {_value(inner)}" if isinstance(inner, dict) and inner else "mapping"
        case "string":
            pattern = found.get("pattern", "")
            return "duration" if "ms|s|m|h|d" in pattern else "a type" if "nullable" in pattern else "text"
        case "integer":
            begin = f" from {found['minimum']}" if "minimum" in found else ""
            return f"whole number{begin}" + (f" to {found['maximum']:,}" if "maximum" in found else "")
        case "number":
            return "number"
        case "boolean":
            return "`true`, `false`"
        case _:
            return "any value"


def _default(key: str, found: Mapping[str, Any], required: list[str]) -> str:
    if key in required:
        return "required"
    value = found.get("default")
    if value in (None, "") or isinstance(value, dict | list):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def in_table(text: str) -> str:
    """A text as the cell of a table: Markdown ends a cell at a bar, in code too."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _title(name: str) -> str:
    """The heading of a model's table: `DeadLetterConfig` is `dead letter`."""
    return " ".join(re.findall(r"[A-Z][a-z0-9]*", name.removesuffix("Config"))).lower()


def table(name: str, hidden: frozenset[str] = frozenset()) -> str:
    """The keys of a configuration model, each with its values, its default and its meaning."""
    found = _definitions()[name]
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, inner in found["properties"].items():
        if key not in hidden:
            default = _default(key, inner, found.get("required", []))
            cells = (f"`{key}`", _value(inner), default, meanings()[name][key])
            rows.append(f"| {' | '.join(map(in_table, cells))} |")
    return "\n".join(rows)


def _inside(name: str) -> Iterator[str]:
    """The models that a model's keys have, in order, those inside them included."""
    for target in dict.fromkeys(re.findall(r'"#/\$defs/(\w+)"', json.dumps(_definitions()[name]["properties"]))):
        if target in documented():
            yield target
            yield from _inside(target)


def _example(kind: str) -> str | None:
    """The example pipeline's first node of a kind, as it is written there."""
    text = EXAMPLE.read_text(encoding="utf-8").split("nodes:\n")[1]
    nodes = re.split(r"\n\n(?=  - type|\S)", text)
    return next((node.strip("\n") for node in nodes if node.startswith(f"  - type: {kind}\n")), None)


def _node(kind: NodeType) -> str:
    package = importlib.import_module(f"spark_jobs.nodes.{kind.kind}")
    about = re.sub(rf"^{kind.kind}: ", "", package.__doc__ or "", flags=re.IGNORECASE).split(". ")[0].strip(" .\n")
    lines = [f"## {kind.kind}", f"{about[:1].upper()}{about[1:]}.", _WIRED[kind.wiring]]
    if example := _example(kind.kind):
        lines.append(f"```yaml\n{example}\n```")
    if kind.config.__name__ in documented():
        lines.append(table(kind.config.__name__))
    return "\n\n".join(lines)


def _formats() -> Iterator[str]:
    yield "## formats"
    known = known_formats.formats().values()
    read, written = (
        ", ".join(f"`{one.name}`" for one in known if is_running(one))
        for is_running in (lambda one: one.can_read, lambda one: one.can_write)
    )
    verdict = f"Read are {read}, written {written}; the others are checked only."
    yield f"The `options:` of sources and outputs depend on their `type`. {verdict}"
    rows = [f"| [`{one.name}`](formats/{one.name}.md) | {one.title} |" for one in known]
    yield "\n".join(["| `type` | |", "|---|---|", *rows])
    yield "### layout"
    yield "A format schema, under `format_schema:` of a source or `schema:` of an output, or in a file of its own."
    yield table("Layout")


def nodes() -> str:
    """The blocks and nodes of pipeline files, key by key."""
    kinds = list(registry.node_types().values())
    parts = [_NODES.strip()]
    parts += [f"## pipeline\n\n{table('PipelineConfig')}", f"## error_handling\n\n{table('ErrorHandlingConfig')}"]
    parts += map(_node, kinds)
    parts += _formats()
    parts.append(_COMPOSITIONS + table("ComposeConfig"))
    parts.append(_WORKSPACE + table("StorageConfig") + "\n\nUnder `[channels]`:\n\n" + table("ChannelsConfig"))
    parts.append("Under `[behavior]`:\n\n" + table("BehaviorConfig"))
    parts.append("## Mappings inside\n\nIn the order of their names; the keys above say where each belongs.")
    roots = ["PipelineConfig", "ErrorHandlingConfig", "Layout", "ComposeConfig", "StorageConfig"]
    roots += [kind.config.__name__ for kind in kinds]
    inner = sorted({name for root in roots for name in _inside(root)}, key=_title)
    parts += [f"### {_title(name)}\n\n{_definitions()[name].get('description', '')}\n\n{table(name)}" for name in inner]
    return "\n\n".join(parts) + "\n"

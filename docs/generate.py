"""Writes the generated pages of the reference from the code; `--check` says which ones are stale instead.

    python docs/generate.py
    python docs/generate.py --check

A page is a function that gives its text; `PAGES` names the file it goes to.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic.json_schema import models_json_schema

from spark_jobs.cli import clinker
from spark_jobs.cli import cxl as cxl_command
from spark_jobs.cxl import types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.builtins.declare import INTERPRETED, Aggregate, Builtin, Parameter, Window
from spark_jobs.diagnostics import codes as codes_module
from spark_jobs.diagnostics import pages
from spark_jobs.nodes import formats, registry
from spark_jobs.nodes.binding import Wiring
from spark_jobs.plan import composition, model, workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spark_jobs.nodes.binding import NodeType
    from spark_jobs.nodes.model import Config

HERE = Path(__file__).resolve().parent
#: What the keys of each configuration model mean; every key has its line there, and no line is without its key.
KEYS = HERE / "keys.yaml"
#: The pipeline whose nodes are shown as examples.
EXAMPLE = HERE.parent / "examples" / "orders" / "pipeline.yaml"

_INTRODUCTION = """# CXL reference

<!-- Written by docs/generate.py from the declarations in spark_jobs/cxl/builtins; change those. -->

Methods are called on a value: `name.trim().upper()`. A null receiver gives null unless the method says otherwise, and
so does a null argument. Every example here is a test that runs in both engines, the interpreter and the Arrow kernels.
"""
_NULLS = {
    "propagate": "",
    "receiver": "A null receiver gives null; null arguments have the meaning said above.",
    "handle": "Null is a value like any other here.",
}


def _parameter(parameter: Parameter, variadic: bool) -> str:
    if parameter.is_closure:
        return "it => …"
    kinds = " or ".join(str(one.kind) for one in (parameter.type, *parameter.others) if one is not None)
    shown = f"{parameter.name}: {kinds}" + (", …" if variadic else "")
    return shown if parameter.default is Parameter.REQUIRED else f"[{shown}]"


def _parameters(parameters: tuple[Parameter, ...], variadic: bool = False) -> str:
    last = len(parameters) - 1
    return ", ".join(_parameter(parameter, variadic and index == last) for index, parameter in enumerate(parameters))


def _result(builtin: Builtin) -> str:
    """The type of a call with arguments that are not null."""
    given = [builtin.receiver, *(one.type or types.ANY for one in builtin.parameters)]
    result = builtin.result_type([one.non_null() for one in given])
    shown = f"{result.kind}({result.element.kind})" if result.element else str(result.kind)
    return f"{shown} or Null" if result.nullable else shown


def _method(overloads: list[Builtin]) -> str:
    """One method with the kinds of receivers that share it."""
    builtin = overloads[0]
    receivers = " or ".join(str(one.receiver.kind) for one in overloads)
    results = list(dict.fromkeys(_result(one) for one in overloads))
    parameters = _parameters(builtin.parameters, builtin.variadic)
    lines = [
        f"### {builtin.name}",
        "",
        f"`{receivers}` `.{builtin.name}({parameters})` → {' or '.join(results)}",
        "",
        builtin.prose,
    ]
    if _NULLS[builtin.nulls]:
        lines += ["", _NULLS[builtin.nulls]]
    if builtin.fails:
        lines += ["", "What it cannot do is an error of the record."]
    if isinstance(builtin.arrow, INTERPRETED):
        lines += ["", f"Runs row by row: {builtin.arrow.reason}."]
    if builtin.examples:
        shown = "\n".join(f"{example}\n# {result}" for example, result in builtin.examples)
        lines += ["", "```cxl", shown, "```"]
    return "\n".join(lines)


def _family(module: str, builtins: list[Builtin]) -> str:
    """A module's methods, those with one body together."""
    title = (sys.modules[module].__doc__ or module).splitlines()[0].split("(")[0].strip().rstrip(".")
    by_body: dict[tuple[str, int], list[Builtin]] = {}
    for builtin in builtins:
        by_body.setdefault((builtin.name, id(builtin.body)), []).append(builtin)
    return "\n\n".join([f"## {title}", *(_method(overloads) for overloads in by_body.values())])


def _aggregate(function: Aggregate) -> str:
    return f"### {function.name}\n\n`{function.name}({_parameters(function.parameters)})`\n\n{function.doc}"


def _window(function: Window) -> str:
    return f"| `$window.{function.name}` | {function.takes} | {function.doc} |"


def cxl() -> str:
    """The methods, aggregate functions and window functions of CXL."""
    families: dict[str, list[Builtin]] = {}
    for builtin in declare.registry().values():
        families.setdefault(builtin.body.__module__, []).append(builtin)
    aggregates = "\n\n".join(map(_aggregate, declare.aggregates().values()))
    windows = "\n".join(map(_window, declare.windows().values()))
    return "\n\n".join(
        [
            _INTRODUCTION.strip(),
            *(_family(module, builtins) for module, builtins in sorted(families.items())),
            "## Aggregate functions",
            "Called in aggregate nodes, with any expression inside and around: `sum(price * quantity).round(2)`.",
            aggregates,
            "## Window functions",
            "Called in a transform with `analytic_window`. The frame is the partition's rows from the first to the"
            " current one, in the order of `sort_by`.",
            "| function | takes | gives |\n|---|---|---|\n" + windows,
        ]
    ) + "\n"  # fmt: skip


# ---- nodes ---------------------------------------------------------------------------------------------------------

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
`[storage.spill]` and `[storage.staging]` are checked, and have no effect yet. Under `[storage]`:

"""
_WIRED = {
    Wiring.NONE: "It has no input.",
    Wiring.ONE: "`input:` names one node.",
    Wiring.LIST: "`inputs:` lists the nodes: `inputs: [monday, tuesday]`.",
    Wiring.NAMED: "`input:` gives each input the name that expressions call it by: `input: {orders: priced, customers:"
    " customers}`.",
    Wiring.CALL: "`use:` names the composition's file, `input:` one input or `inputs:` the input of each port, `alias:`"
    " the name its nodes get, `outputs:` and `resources:` what its signature asks for. `config:` has the values of its"
    " parameters. [Reuse](../reuse.md) shows one at work.",
}


@cache
def _meanings() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load(KEYS.read_text(encoding="utf-8"))
    return found


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every configuration model, by the model's name."""
    roots: list[type[Config]] = [kind.config for kind in registry.node_types().values()]
    roots += [model.PipelineConfig, model.ErrorHandlingConfig, *formats.READ.values(), *formats.WRITE.values()]
    roots += [formats.Layout, composition.ComposeConfig, workspace.StorageConfig, workspace.ChannelsConfig]
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
            return f"whole number from {found['minimum']}" if "minimum" in found else "whole number"
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


def _title(name: str) -> str:
    """The heading of a model's table: `DeadLetterConfig` is `dead letter`."""
    return " ".join(re.findall(r"[A-Z][a-z0-9]*", name.removesuffix("Config"))).lower()


def _table(name: str, hidden: frozenset[str] = frozenset()) -> str:
    found = _definitions()[name]
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, inner in found["properties"].items():
        if key not in hidden:
            default = _default(key, inner, found.get("required", []))
            rows.append(f"| `{key}` | {_value(inner)} | {default} | {_meanings()[name][key]} |")
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
        lines.append(_table(kind.config.__name__))
    return "\n\n".join(lines)


def _formats() -> Iterator[str]:
    yield "## formats"
    running = ", ".join(f"`{one}`" for one in formats.Format if one in formats.RUNNING)
    yield f"The `options:` of sources and outputs depend on their `type`. {running} run; the others are checked only."
    for one in formats.Format:
        yield f"### {one}"
        for verb, models in (("read", formats.READ), ("written", formats.WRITE)):
            yield f"Options of a {one} file that is {verb}:\n\n{_table(models[one].__name__)}"
    yield "### layout"
    yield "A format schema, under `format_schema:` of a source or `schema:` of an output, or in a file of its own."
    yield _table("Layout")


def nodes() -> str:
    """The blocks and nodes of pipeline files, key by key."""
    kinds = list(registry.node_types().values())
    parts = [_NODES.strip()]
    parts += [f"## pipeline\n\n{_table('PipelineConfig')}", f"## error_handling\n\n{_table('ErrorHandlingConfig')}"]
    parts += map(_node, kinds)
    parts += _formats()
    parts.append(_COMPOSITIONS + _table("ComposeConfig"))
    parts.append(_WORKSPACE + _table("StorageConfig") + "\n\nUnder `[channels]`:\n\n" + _table("ChannelsConfig"))
    parts.append("## Mappings inside\n\nIn the order of their names; the keys above say where each belongs.")
    roots = ["PipelineConfig", "ErrorHandlingConfig", "Layout", "ComposeConfig", "StorageConfig"]
    roots += [kind.config.__name__ for kind in kinds]
    inner = sorted({name for root in roots for name in _inside(root)}, key=_title)
    parts += [
        f"### {_title(name)}\n\n{_definitions()[name].get('description', '')}\n\n{_table(name)}" for name in inner
    ]
    return "\n\n".join(parts) + "\n"


# ---- commands ------------------------------------------------------------------------------------------------------

_CLI = """# Command line reference

<!-- Written by docs/generate.py from the parsers in spark_jobs/cli; change those. -->

`clinker` runs, checks and explains pipelines; `cxl` does the same for programs of the expression language alone.
`python -m spark_jobs` is `clinker` where the console scripts are not installed.

Exit codes of `clinker`: 0 success, 1 the pipeline or the command line is wrong, 2 finished with dead letters, 3
records broke the pipeline's rules, 4 a file could not be read or written or Spark broke down, 130 interrupted. Of
`cxl`: 0 success, 1 the program is wrong or its record failed, 2 something cannot be read or the command line is wrong.
Warnings never change them.
"""


def _argument(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    shown = action.metavar if isinstance(action.metavar, str) else None
    if shown is None and action.choices is not None:
        shown = "{" + ",".join(map(str, action.choices)) + "}"
    if shown is None and action.nargs != 0:
        shown = action.dest.upper()
    value = f"`[{shown}]`" if shown and action.nargs == "?" else f"`{shown}`" if shown else ""
    if action.nargs == "+":
        value += " …"
    text = (action.help or "").replace("|", "\\|")
    return f"| {' '.join(filter(None, (names, value)))} | {text} |"


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """A section for every command of a parser, those below it included."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from _commands(command, f"{name} {word}")
            return
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    rows = "\n".join(["| argument | meaning |", "|---|---|", *map(_argument, shown)])
    yield f"## {name}\n\n{parser.description}\n\n{rows}"


def cli() -> str:
    """The commands with their arguments."""
    sections = [*_commands(clinker._parser(), "clinker"), *_commands(cxl_command._arguments(), "cxl")]
    return "\n\n".join([_CLI.strip(), *sections]) + "\n"


# ---- diagnostics ---------------------------------------------------------------------------------------------------

_DIAGNOSTICS = """# Diagnostics reference

<!-- Written by docs/generate.py from spark_jobs/diagnostics/codes.py; change that. -->

Every problem has a code, and every code a page with its meaning, an example that has the problem, and one that has
not: `clinker explain --code E303` prints it. Errors end the work with exit code 1 (3 or 4 for those that only a run can
find), warnings (W) never change it.
"""


def diagnostics() -> str:
    """All codes, in the groups of `codes.py`."""
    lines = [_DIAGNOSTICS.rstrip()]
    declared = {code.id: code for code in codes_module.by_id().values()}
    for line in Path(codes_module.__file__).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            lines.append(f"\n## {line[2:]}\n\n| code | problem | meaning |\n|---|---|---|")
        elif found := re.match(r'\w+ = Code\("([^"]+)"', line):
            code = declared.pop(found.group(1))
            page = f"../../spark_jobs/diagnostics/explain/{code.id}.md"
            lines.append(f"| [{code.id}]({page}) | {code.title} | {_first_sentence(code.id)} |")
    assert not declared, f"declared elsewhere: {declared}"
    return "\n".join(lines) + "\n"


def _first_sentence(code: str) -> str:
    text = (pages.page(code) or "").split("## What it means", 1)[1].split("##", 1)[0]
    text = " ".join(text.split("```", 1)[0].split())
    found = re.match(r".*?[.!?](?= |$)", text)
    return (found.group(0) if found else text).rstrip(":").replace("|", "\\|")


# ---- modules -------------------------------------------------------------------------------------------------------

_MODULES = """# Modules

<!-- Written by docs/generate.py from the docstrings of the modules; change those. -->

What every module of the engine and of the provider is for, in its own words. [CONTRIBUTING](../../CONTRIBUTING.md) has
the map of the folders.
"""


def _about(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    return paragraph.replace("|", "\\|")


def modules() -> str:
    """All modules by folder."""
    lines = [_MODULES.rstrip()]
    root = HERE.parent
    for top in ("spark_jobs", "clinker_provider"):
        for folder in sorted({path.parent for path in (root / top).glob("**/*.py")}):
            init = folder / "__init__.py"
            lines.append(f"\n## {folder.relative_to(root)}\n\n{_about(init)}\n\n| module | what it is for |\n|---|---|")
            lines += [f"| `{path.name}` | {_about(path)} |" for path in sorted(folder.glob("*.py")) if path != init]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference/cxl.md": cxl,
    "reference/nodes.md": nodes,
    "reference/cli.md": cli,
    "reference/diagnostics.md": diagnostics,
    "reference/modules.md": modules,
}


def main(arguments: list[str]) -> int:
    """Write all pages, or report the stale ones; the exit status."""
    stale = []
    for name, page in PAGES.items():
        path, text = HERE / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if "--check" in arguments and stale:
        print("stale, run `python docs/generate.py`: " + ", ".join(stale))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

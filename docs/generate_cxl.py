"""The CXL reference: every builtin, from its declaration."""

from __future__ import annotations

import sys

from spark_jobs.cxl import types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.builtins.declare import INTERPRETED, Aggregate, Builtin, Parameter, Window

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
        lines += ["", "A value for which this is impossible is an error of the record."]
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

"""The documentation of functions of CXL, as the language server and `clinker help` show it."""

from __future__ import annotations

from spark_jobs.cxl.builtins import declare


def methods(name: str) -> list[declare.Builtin]:
    """The methods of a name, one for each type that has it."""
    return [one for one in declare.registry().values() if one.name == name]


def signature(one: declare.Builtin) -> str:
    """A method with its receiver, parameters and result.

    >>> signature(methods("upper")[0])
    'String.upper() -> String'
    """
    parameters = ", ".join(parameter.name for parameter in one.parameters)
    return f"{one.receiver}.{one.name}({parameters}) -> {one.result}"


def example_lines(one: declare.Builtin) -> str:
    """The examples of a method, a line for each."""
    return "\n".join(f"{expression}  # {value}" for expression, value in one.examples)


def prose(doc: str) -> str:
    """A documentation without its examples."""
    return doc.split(">>> ")[0].strip()


def names() -> list[str]:
    """The names of all methods, aggregate functions and window functions."""
    found = [each.name for each in declare.registry().values()]
    return [*dict.fromkeys([*found, *declare.aggregates(), *declare.windows()])]


def text(name: str) -> str | None:
    """The documentation of all functions with a name, as plain text; None if there is none.

    >>> print(text("is_ascii").splitlines()[0])
    String.is_ascii() -> Bool
    """
    found = []
    for one in methods(name):
        shown = "\n".join(f"  {line}" for line in example_lines(one).splitlines())
        found.append(f"{signature(one)}\n\n{one.prose}\n" + (f"\n{shown}\n" if shown else ""))
    for kind, table in (("aggregate function", declare.aggregates()), ("window function", declare.windows())):
        if name in table:
            found.append(f"{name}: {kind}\n\n{prose(table[name].doc)}\n")
    return "\n".join(found) or None

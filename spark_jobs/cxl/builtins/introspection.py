"""Methods that look at a value: its type, whether it is there, its text in the log."""

from __future__ import annotations

from typing import Any

from spark_jobs.cxl import tracing, types, values
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins.declare import BY_VALUE, INTERPRETED, Anything, Bool, String, method

_NAMES = {
    "bool": "Bool",
    "int64": "Int",
    "double": "Float",
    "string": "String",
    "date32[day]": "Date",
    "timestamp[us]": "DateTime",
}


def _type_of(pc: Any, value: Any) -> Any:
    kind = str(value.type)
    name = _NAMES.get(kind, "Decimal" if kind.startswith("decimal") else "Array")
    return pc.if_else(pc.is_null(value), arrays.scalar("Null", types.STRING), arrays.scalar(name, types.STRING))


@method(arrow=_type_of, nulls="handle")
def type_of(value: Anything) -> String:
    """The name of the value's type: Null, Bool, Int, Float, Decimal, String, Date, DateTime, Array or Map.

    >>> 42.type_of()
    "Int"
    >>> null.type_of()
    "Null"
    """
    return str(values.kind_of(value))


@method(arrow=lambda pc, value: pc.is_null(value), nulls="handle")
def is_null(value: Anything) -> Bool:
    """Whether the value is null.

    >>> null.is_null()
    true
    >>> "".is_null()
    false
    """
    return value is None


def _is_empty(pc: Any, value: Any) -> Any:
    kind = str(value.type)
    if kind == "string":
        length = pc.binary_length(value)
    elif kind.startswith("list"):
        length = pc.list_value_length(value)
    else:
        return pc.is_null(value)
    return pc.fill_null(pc.equal(length, 0), True)


@method(arrow=_is_empty, nulls="handle")
def is_empty(value: Anything) -> Bool:
    """Whether the value is an empty text, an empty array or null.

    >>> "".is_empty()
    true
    >>> null.is_empty()
    true
    >>> 0.is_empty()
    false
    """
    return value is None or value in ("", [])


def _debug_text(value: Any) -> str:
    """A value with its kind, as log lines show it."""
    if value is None:
        return "Null"
    kind = values.kind_of(value)
    return f"{'Integer' if kind is types.Kind.INT else kind}({values.json_text(value)})"


def _debug(pc: Any, value: Any, label: Any) -> Any:
    if tracing.is_enabled("trace"):
        return value, pc.or_(pc.is_null(value), pc.is_valid(value))  # the interpreter writes a line for each row
    return value


@method(arrow=_debug, nulls="handle", result=lambda arguments: arguments[0])
def debug(value: Anything, label: String = "") -> Anything:
    """The value itself; the log gets a line such as `price: Integer(100)` at trace level, for null too.

    >>> 42.debug("check value")
    42
    """
    if tracing.is_enabled("trace"):
        tracing.write("trace", f"{label}: {_debug_text(value)}" if label else _debug_text(value))
    return value


@method(
    arrow=INTERPRETED("`catch` is `??`, which the compiler puts in its place"),
    nulls="handle",
    result=lambda arguments: types.unify(arguments[0].non_null(), arguments[1]) or types.ANY,
)
def catch(value: Anything, fallback: Anything) -> Anything:
    """The value, or the fallback if it is null; the fallback is evaluated only then. The same as `??`.

    >>> null.catch("default")
    "default"
    >>> "present".catch("default")
    "present"
    """
    return fallback if value is None else value


@method(arrow=BY_VALUE, nulls="handle", result=lambda arguments: arguments[0].or_null())
def null_if(value: Anything, other: Anything) -> Anything:
    """The value, or null if it equals the other one, as `==` compares them; ours.

    >>> "n/a".null_if("n/a")
    null
    >>> "Ada".null_if("n/a")
    "Ada"
    """
    return None if value is None or (other is not None and values.equal(value, other)) else value

"""How a builtin is declared: one decorated function, read by the checker, both engines, the docs and the tests.

    @method(arrow=lambda pc, text: pc.utf8_upper(text))
    def upper(text: String) -> String:
        \"\"\"Upper-case the text by Unicode's full mapping.

        >>> "straße".upper()
        "STRASSE"
        \"\"\"
        return text.upper()

The annotations give the types: the first parameter is the receiver, defaults make parameters optional. The body is the meaning: the
interpreter calls it with non-null values (`nulls="propagate"`, the default: a null receiver or argument gives null without a call).
`arrow=` gets the `pyarrow.compute` module and one array per parameter (a pyarrow scalar where the argument is constant) and
returns an array; it may return `(array, bad)` with a Boolean mask of rows whose failure the interpreter must name, or raise
`pyarrow.ArrowInvalid` when some row fails. `INTERPRETED(reason)` instead of a kernel says why there is none. Examples run on both engines.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from spark_jobs.cxl import types

String = Annotated[str, types.STRING]
Int = Annotated[int, types.INT]
Float = Annotated[float, types.FLOAT]
Bool = Annotated[bool, types.BOOL]
Date = Annotated[Any, types.DATE]
DateTime = Annotated[Any, types.DATETIME]
Numeric = Annotated[Any, types.NUMERIC]
Array = Annotated[list[Any], types.ARRAY]
Map = Annotated[dict[str, Any], types.MAP]
Anything = Annotated[Any, types.ANY]
#: A closure parameter: the body receives a Python callable of one value.
ClosureOf = Annotated[Callable[[Any], Any], "closure"]


@dataclass(frozen=True)
class INTERPRETED:  # noqa: N801 - reads as the constant it stands for
    """There is no kernel, for this reason; `explain` prints it."""

    reason: str


Kernel = Callable[..., Any]
ResultRule = Callable[[Sequence[types.Type]], types.Type]


@dataclass(frozen=True)
class Parameter:
    """A parameter after the receiver; `default` is `Parameter.REQUIRED` where the argument must be given."""

    name: str
    type: types.Type | None
    default: Any

    REQUIRED = inspect.Parameter.empty

    @property
    def is_closure(self) -> bool:
        """Whether the argument is `it => expression`."""
        return self.type is None


@dataclass(frozen=True)
class Builtin:
    """One builtin. `key` is what typed trees carry: the receiver's kind, a dot, the name."""

    name: str
    receiver: types.Type
    parameters: tuple[Parameter, ...]
    variadic: bool
    result: types.Type
    result_rule: ResultRule | None
    nulls: Literal["propagate", "receiver", "handle"]
    arrow: Kernel | INTERPRETED
    body: Callable[..., Any]
    doc: str

    @property
    def key(self) -> str:
        """The registry key, `String.upper`."""
        return f"{self.receiver.kind}.{self.name}"

    def result_type(self, arguments: Sequence[types.Type]) -> types.Type:
        """The type of a call, from the types of receiver and arguments (closures count with their body's type)."""
        result = self.result_rule(arguments) if self.result_rule else self.result
        if self.nulls == "propagate" and any(argument.may_be_null for argument in arguments):
            return result.or_null()
        if self.nulls == "receiver" and arguments[0].may_be_null:
            return result.or_null()
        return result


_REGISTRY: dict[str, Builtin] = {}


def method(
    *,
    arrow: Kernel | INTERPRETED,
    name: str | None = None,
    nulls: Literal["propagate", "receiver", "handle"] = "propagate",
    result: ResultRule | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a method.

    Args:
        arrow: the kernel, or the reason why there is none.
        name: the name in CXL, where it is not the function's (overloads by receiver, Python keywords).
        nulls: `propagate`: null anywhere gives null; `receiver`: a null receiver gives null, null arguments reach the body;
            `handle`: nulls reach the body and the kernel.
        result: the result type from the argument types, where the annotation does not say enough.
    """

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        builtin = _read(body, name or body.__name__.rstrip("_"), arrow, nulls, result)
        if builtin.key in _REGISTRY:
            raise ValueError(f"builtin {builtin.key} is declared twice")
        _REGISTRY[builtin.key] = builtin
        return body

    return declare


def _type_of(annotation: Any) -> types.Type | None:
    if get_origin(annotation) is Annotated or hasattr(annotation, "__metadata__"):
        marker = get_args(annotation)[1]
        return None if marker == "closure" else marker
    raise TypeError(f"{annotation} is no CXL type")


def _read(
    body: Callable[..., Any],
    name: str,
    arrow: Kernel | INTERPRETED,
    nulls: Literal["propagate", "receiver", "handle"],
    rule: ResultRule | None,
) -> Builtin:
    hints = get_type_hints(body, include_extras=True)
    signature = inspect.signature(body)
    parameters = list(signature.parameters.values())
    receiver = _type_of(hints[parameters[0].name])
    result = _type_of(hints["return"])
    if receiver is None or result is None:
        raise TypeError(f"{name}: a closure is neither a receiver nor a result")
    return Builtin(
        name=name,
        receiver=receiver,
        parameters=tuple(Parameter(p.name, _type_of(hints[p.name]), p.default) for p in parameters[1:]),
        variadic=parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL,
        result=result,
        result_rule=rule,
        nulls=nulls,
        arrow=arrow,
        body=body,
        doc=inspect.getdoc(body) or "",
    )


def registry() -> dict[str, Builtin]:
    """Every builtin by key; imports the families on first use."""
    from spark_jobs import discovery
    from spark_jobs.cxl import builtins

    discovery.load(builtins)
    return _REGISTRY


def overloads(name: str) -> list[Builtin]:
    """The builtins of this name, one per receiver kind."""
    return [builtin for builtin in registry().values() if builtin.name == name]

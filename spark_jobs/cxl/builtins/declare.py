"""Declares builtins: one decorated function, read by the checker, both engines, the docs and the tests.

    @method(arrow=lambda pc, text: pc.utf8_upper(text))
    def upper(text: String) -> String:
        \"\"\"Upper-case the text by Unicode's full mapping.

        >>> "straße".upper()
        "STRASSE"
        \"\"\"
        return text.upper()

The annotations give the types: the first parameter is the receiver, defaults make parameters optional. The body is
the meaning: the interpreter calls it with non-null values (`nulls="propagate"`, the default: a null receiver or
argument gives null without a call). `arrow=` gets the `pyarrow.compute` module and one array per parameter (a pyarrow
scalar where the argument is constant) and returns an array; it may return `(array, bad)` with a Boolean mask of rows
whose failure the interpreter must name, or raise `pyarrow.ArrowInvalid` when some row fails, or `NoKernel` when it
has nothing for these arguments. `BY_VALUE` instead of a kernel runs the body on distinct values, `INTERPRETED(reason)`
says why there is nothing. Examples run on both engines.
"""

from __future__ import annotations

import decimal
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol, get_args, get_origin, get_type_hints

from spark_jobs.cxl import failure, types

String = Annotated[str, types.STRING]
Int = Annotated[int, types.INT]
Float = Annotated[float, types.FLOAT]
Decimal = Annotated[decimal.Decimal, types.DECIMAL]
#: The number of digits after the point of a Decimal result. The checker knows it for literals.
Scale = Annotated[int, types.INT, "scale"]


def _scale_complaint(scale: Any) -> str | None:
    return f"no Decimal has {scale} digits after the point; `.round({scale})` rounds before it" if scale < 0 else None


#: The same for functions that do not round before the point.
DigitsAfterPoint = Annotated[int, types.INT, "scale", _scale_complaint]
Bool = Annotated[bool, types.BOOL]
Date = Annotated[Any, types.DATE]
DateTime = Annotated[Any, types.DATETIME]
Numeric = Annotated[Any, types.NUMERIC]
Array = Annotated[list[Any], types.ARRAY]
Map = Annotated[dict[str, Any], types.MAP]
Anything = Annotated[Any, types.ANY]
#: A Date or a DateTime; a method with such a receiver is declared for both.
Temporal = Annotated[Any, types.DATE, types.DATETIME]
#: An Int that no Float stands in for (elsewhere a dynamic Float argument is truncated).
ExactInt = Annotated[int, types.INT, "exact"]
#: A closure parameter: the body receives a Python callable of one value.
ClosureOf = Annotated[Callable[[Any], Any], "closure"]


@dataclass(frozen=True)
class INTERPRETED:
    """There is no kernel, for this reason; `explain` prints it."""

    reason: str


class ByValue:
    """A kernel for rare or costly work: the body on each distinct value, or on each row with several columns."""


BY_VALUE = ByValue()


class Elementwise:
    """A kernel of the engine's own: a closure on the elements of all rows at once, when their type is known."""


ELEMENTWISE = Elementwise()


class NoKernel(Exception):
    """Raised by a kernel that has nothing for these arguments: the body runs row by row."""


Kernel = Callable[..., Any] | ByValue | Elementwise
ResultRule = Callable[[Sequence[types.Type]], types.Type]


@dataclass(frozen=True)
class Parameter:
    """A parameter after the receiver; `default` is `Parameter.REQUIRED` where the argument must be given.

    `others` are types that are as welcome as `type`. `exact` keeps a dynamic Float from being cut to an Int.
    `is_scale`: a literal argument is the scale of the result, where that is a Decimal. `check` looks at a literal
    argument when the program is compiled: it gives the complaint, or None.
    """

    name: str
    type: types.Type | None
    default: Any
    others: tuple[types.Type, ...] = ()
    exact: bool = False
    is_scale: bool = False
    check: Callable[[Any], str | None] | None = None

    REQUIRED = inspect.Parameter.empty

    @property
    def is_closure(self) -> bool:
        """True if the argument is `it => expression`."""
        return self.type is None

    def accepts(self, argument: types.Type) -> bool:
        """True if an argument of this static type is allowed; dynamic types are checked at run time."""
        return self.type is not None and any(accepts(wanted, argument) for wanted in (self.type, *self.others))


def accepts(wanted: types.Type, given: types.Type) -> bool:
    """True if a value of the type `given` fits a parameter of the type `wanted`; null always does."""
    if types.Kind.ANY in (wanted.kind, given.kind) or given.kind is types.Kind.NULL or wanted.kind is given.kind:
        return True
    if types.Kind.NUMERIC in (wanted.kind, given.kind):
        return wanted.is_numeric and given.is_numeric
    return wanted.kind is types.Kind.FLOAT and given.kind is types.Kind.INT


@dataclass(frozen=True)
class Builtin:
    """A builtin. Typed trees refer to it by `key`: the receiver's kind, a dot, the name.

    `fails` says that the body may raise `Failure`, as the reference does. `takes_tagged` says that the kernel also
    takes containers of unknown things for receivers, as their tagged texts.
    """

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
    fails: bool = False
    takes_tagged: bool = False

    @property
    def key(self) -> str:
        """The registry key, `String.upper`."""
        return f"{self.receiver.kind}.{self.name}"

    @property
    def examples(self) -> list[tuple[str, str]]:
        """The docstring's examples: an expression and its value as JSON text, or `error: …`."""
        lines = self.doc.splitlines()
        return [(line[4:], lines[i + 1].strip()) for i, line in enumerate(lines) if line.startswith(">>> ")]

    @property
    def prose(self) -> str:
        """The docstring without its examples."""
        return self.doc.split(">>> ")[0].strip()

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
    fails: bool = False,
    takes_tagged: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a method, once for every type of its receiver.

    Args:
        arrow: the kernel, or the reason why there is none.
        name: the name in CXL, where it is not the function's (overloads by receiver, Python keywords).
        nulls: `propagate`: null anywhere gives null; `receiver`: a null receiver gives null, null arguments reach
            the body; `handle`: nulls reach the body and the kernel.
        result: the result type from the argument types, where the annotation does not say enough.
        fails: whether the body may raise `Failure`.
        takes_tagged: whether the kernel also takes containers of unknown things for receivers, as their tagged texts.
    """

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        for builtin in _read(body, name or body.__name__.rstrip("_"), arrow, nulls, result, fails):
            builtin = replace(builtin, takes_tagged=takes_tagged)
            if builtin.key in _REGISTRY:
                raise ValueError(f"builtin {builtin.key} is declared twice")
            _REGISTRY[builtin.key] = builtin
        return body

    return declare


def _markers(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated or hasattr(annotation, "__metadata__"):
        return get_args(annotation)[1:]
    raise TypeError(f"{annotation} is no CXL type")


def _types_of(annotation: Any) -> tuple[types.Type, ...]:
    return tuple(marker for marker in _markers(annotation) if isinstance(marker, types.Type))


def _parameter(parameter: inspect.Parameter, annotation: Any) -> Parameter:
    first, *others = _types_of(annotation) or (None,)
    checks = [marker for marker in _markers(annotation) if callable(marker)]
    return Parameter(
        parameter.name,
        first,
        parameter.default,
        others=tuple(other for other in others if other),
        exact="exact" in _markers(annotation),
        is_scale="scale" in _markers(annotation),
        check=checks[0] if checks else None,
    )


def _read(
    body: Callable[..., Any],
    name: str,
    arrow: Kernel | INTERPRETED,
    nulls: Literal["propagate", "receiver", "handle"],
    rule: ResultRule | None,
    fails: bool,
) -> list[Builtin]:
    hints = get_type_hints(body, include_extras=True)
    first, *rest = inspect.signature(body).parameters.values()
    results = _types_of(hints["return"])
    if not results:
        raise TypeError(f"{name}: a closure is no result")
    return [
        Builtin(
            name=name,
            receiver=receiver,
            parameters=tuple(_parameter(parameter, hints[parameter.name]) for parameter in rest),
            variadic=bool(rest) and rest[-1].kind is inspect.Parameter.VAR_POSITIONAL,
            result=results[0],
            result_rule=rule,
            nulls=nulls,
            arrow=arrow,
            body=body,
            doc=inspect.getdoc(body) or "",
            fails=fails,
        )
        for receiver in _types_of(hints[first.name])
    ]


def registry() -> dict[str, Builtin]:
    """Every builtin by key; imports the families on first use."""
    from spark_jobs import discovery
    from spark_jobs.cxl import builtins

    discovery.load(builtins)
    return _REGISTRY


def overloads(name: str) -> list[Builtin]:
    """The builtins of this name, one per receiver kind."""
    return [builtin for builtin in registry().values() if builtin.name == name]


# ---- aggregate functions -------------------------------------------------------------------------------------------


class Accumulator(Protocol):
    """The state of a group in an aggregate: created empty, fed by `step`, joined in record order by `merge`."""

    def step(self, *values: Any) -> None:
        """Take one record's arguments in."""

    def merge(self, other: Any) -> None:
        """Merge the state of later records."""

    def finish(self) -> Any:
        """The result; may raise `Failure`."""


#: Makes the kernel of a call. It gets the module of kernels, which is loaded where groups are computed and not before
#: (`spark_jobs/nodes/aggregate/accumulators.py`, `spark_jobs/nodes/windows/kernels/choice.py`), and the call.
KernelRule = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function: its name, its parameters, the type of its result, its meaning and its kernel.

    Args:
        name: its name in CXL.
        parameters: the parameters of the accumulator's `step`.
        result: the result type from the argument types.
        accumulator: the meaning.
        grouped: the kernel of groups; None if the accumulator computes each group from its values.
        reversible: whether a value can be taken back out of a result; `explain` says so where groups are retracted.
        doc: the documentation.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: ResultRule
    accumulator: Callable[[], Accumulator]
    grouped: KernelRule | None
    reversible: bool
    doc: str

    @property
    def numbers(self) -> tuple[bool, ...]:
        """For each parameter whether it takes numbers alone, so that a record with another value fails."""
        return tuple(each.type is not None and each.type.kind is types.Kind.NUMERIC for each in self.parameters)

    def fold(self, rows: Iterable[Sequence[Any]]) -> tuple[Any, bool]:
        """The result for the arguments of a group's records, in order, and whether it is an error (with null)."""
        accumulator = self.accumulator()
        for arguments in rows:
            accumulator.step(*arguments)
        try:
            return accumulator.finish(), False
        except failure.Failure:
            return None, True


_AGGREGATES: dict[str, Aggregate] = {}


def aggregate(
    *,
    result: ResultRule,
    name: str | None = None,
    grouped: KernelRule | None = None,
    reversible: bool = False,
    windows: Mapping[str, str] | None = None,
    running: KernelRule | None = None,
) -> Callable[[type[Any]], type[Any]]:
    """Declare an aggregate function by its accumulator class, and the window functions that are the same up to a row.

    The class has `step`, whose parameters are the function's, `merge` and `finish`; its docstring is the documentation.

    Args:
        result: the result type from the argument types, of the windows too.
        name: the name in CXL, where it is not the class's in lower case.
        grouped: the kernel of groups, for arguments of one type; None if the class does for all.
        reversible: whether a value can be taken back out of a result.
        windows: the window functions by their names in CXL, with their documentation.
        running: the kernel of these, for arguments of one type; None if the class does for all.
    """

    def declare(accumulator: type[Any]) -> type[Any]:
        called = name or accumulator.__name__.lower()
        if called in _AGGREGATES:
            raise ValueError(f"aggregate {called} is declared twice")
        hints = get_type_hints(accumulator.step, include_extras=True)
        parameters = list(inspect.signature(accumulator.step).parameters.values())[1:]
        _AGGREGATES[called] = Aggregate(
            name=called,
            parameters=tuple(_parameter(parameter, hints[parameter.name]) for parameter in parameters),
            result=result,
            accumulator=accumulator,
            grouped=grouped,
            reversible=reversible,
            doc=inspect.getdoc(accumulator) or "",
        )
        takes = Takes.NUMBER if all(_AGGREGATES[called].numbers) else Takes.FIELD
        for each, doc in (windows or {}).items():
            window(each, takes, result, doc, running=running, meaning=accumulator)
        return accumulator

    return declare


def aggregates() -> dict[str, Aggregate]:
    """Every aggregate function by name; imports none of the methods, which executors may do without."""
    importlib.import_module("spark_jobs.cxl.builtins.aggregates")
    return _AGGREGATES


# ---- window functions ----------------------------------------------------------------------------------------------


class Takes(StrEnum):
    """The arguments of a window function."""

    NOTHING = "nothing"
    FIELD = "a field"
    NUMBER = "a numeric field"
    PREDICATE = "a predicate"
    POSITION = "a field of one row"
    OFFSET = "an offset and a field"


class RunningMeaning(Protocol):
    """The meaning of a window function for a frame that grows row by row."""

    def step(self, value: Any) -> None:
        """Take the next row's value in."""

    def finish(self) -> Any:
        """The result up to here; may raise `Failure`."""


class Gathers(StrEnum):
    """The values of its frame that a function gathers in an array for each row."""

    ALL = "all"
    DISTINCT = "each once"


@dataclass(frozen=True)
class Window:
    """A function of `$window`.

    Args:
        name: its name in CXL.
        takes: what it is given.
        result: the type from the type of the field or predicate.
        doc: the documentation.
        running: the kernel; None if `meaning` does for all values.
        meaning: what takes values in whose kind shows at run time only, and arrays; None if the kernel does.
        empty: the result for a frame without rows.
        gathers: which values it gathers in an array for each row; None if it gives single values.
        by_position: whether it counts from the row's place in its partition. A record has no place in the partitions
            of another source, so that there it gives null.
    """

    name: str
    takes: Takes
    result: ResultRule
    doc: str
    running: KernelRule | None
    meaning: Callable[[], RunningMeaning] | None
    empty: Any
    gathers: Gathers | None
    by_position: bool

    def is_by_row(self, argument: types.Type) -> bool:
        """True if values of a type are taken in one row after the other, as the meaning says."""
        return self.meaning is not None and (
            self.running is None or argument.is_dynamic or argument.kind is types.Kind.ARRAY
        )


_WINDOWS: dict[str, Window] = {}


def window(
    name: str,
    takes: Takes,
    result: ResultRule,
    doc: str,
    *,
    running: KernelRule | None,
    meaning: Callable[[], RunningMeaning] | None = None,
    empty: Any = None,
    gathers: Gathers | None = None,
    by_position: bool = False,
) -> None:
    """Declare a window function; see `Window`."""
    if name in _WINDOWS:
        raise ValueError(f"window function {name} is declared twice")
    if running is None and meaning is None:
        raise ValueError(f"window function {name} has neither a kernel nor a meaning")
    _WINDOWS[name] = Window(name, takes, result, doc, running, meaning, empty, gathers, by_position)


def windows() -> dict[str, Window]:
    """Every window function by name; imports none of the methods, which executors may do without."""
    importlib.import_module("spark_jobs.cxl.builtins.aggregates")
    importlib.import_module("spark_jobs.cxl.builtins.window")
    return _WINDOWS

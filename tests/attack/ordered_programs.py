"""Random programs over the columns of generated pipelines: each expression is its text, and a function of an `Env`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.execute.window_model import Failed
from tests.models import ordered

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from tests.models.ordered import Env

#: What an expression is: its text, and its value.
Made = tuple[str, "Callable[[Env], Any]"]


def of(name: str) -> Callable[[Env], Any]:
    return lambda env: env[name]


def with_both(one: Any, other: Any, made: Callable[[Any, Any], Any]) -> Callable[[Env], Any]:
    def found(env: Env) -> Any:
        left, right = one(env), other(env)
        return None if left is None or right is None else made(left, right)

    return found


def _divided(env: Env) -> Any:
    if env["n"] is None:
        return None
    if env["n"] == 0:
        raise Failed
    return int(60 / env["n"])


def _or(one: Any, other: Any) -> Callable[[Env], Any]:
    def found(env: Env) -> Any:
        left = one(env)
        if left is True:
            return True
        right = other(env)
        return True if right is True else None if left is None or right is None else False

    return found


def _else(one: Any, value: Any) -> Callable[[Env], Any]:
    return lambda env: value if one(env) is None else one(env)


def _some(held: Any) -> Callable[[Env], Any]:
    """Whether an element of `v` is as long as what a let holds; of elements, null is not true."""

    def found(env: Env) -> Any:
        least = held(env)
        return (
            None if env["v"] is None else any(least is not None and len(each) >= least for each in env["v"].split(" "))
        )

    return found


N, _M, ID, _F, _K, _V, _B = (of(name) for name in ("n", "m", "id", "f", "k", "v", "b"))
INTS: list[Made] = [
    ("n", N), ("m", _M), ("id", ID), ("n + m", with_both(N, _M, int.__add__)), ("60 / n", _divided),
    ("id * 2 - (n ?? 1)", lambda env: env["id"] * 2 - (1 if env["n"] is None else env["n"])),
    ("v.length()", lambda env: None if env["v"] is None else len(env["v"])),
]  # fmt: skip
FLOATS: list[Made] = [
    ("f", _F), ("f * 2.0", lambda env: None if env["f"] is None else env["f"] * 2.0),
    ("(n ?? 0) * 0.5", lambda env: (env["n"] or 0) * 0.5),
]  # fmt: skip
TEXTS: list[Made] = [
    ("k", _K), ("v", _V), ('k + "_"', lambda env: None if env["k"] is None else env["k"] + "_"),
    ('k ?? "none"', _else(_K, "none")),
]  # fmt: skip
BOOLS: list[Made] = [
    ("b", _B), ("n > 2", lambda env: None if env["n"] is None else env["n"] > 2),
    ("n < m", with_both(N, _M, int.__lt__)),
    ('k == "x"', lambda env: None if env["k"] is None else env["k"] == "x"),
    ("id % 3 != 0", lambda env: env["id"] % 3 != 0),
    ("60 / n > 10", lambda env: None if env["n"] is None else _divided(env) > 10),
    ("b or m > 1", _or(_B, lambda env: None if env["m"] is None else env["m"] > 1)),
    ('v.split(" ").any(it => it == "3")', lambda env: None if env["v"] is None else "3" in env["v"].split(" ")),
]  # fmt: skip
_COLUMNS: dict[str, list[Made]] = {"n": INTS, "m": INTS, "f": FLOATS, "k": TEXTS, "v": TEXTS, "b": BOOLS}


def statements(
    chance: random.Random, reads: Sequence[Made], *, windows: bool = False, across: bool = False
) -> tuple[str, ordered.Program]:
    """A program, and its model; `reads` are Ints that are no columns."""
    lines: list[str] = []
    found: list[tuple[Any, ...]] = []
    lets: list[Made] = []
    if chance.random() < 0.25:
        names = chance.choice([["k"], ["n"], ["h"], ["k", "v", "n", "m", "f", "b", "h", "ts", "id"]])
        lines.append(f"distinct by {names[0]}" if len(names) == 1 else "distinct")
        found.append(("distinct", names))
    for number in range(chance.choice([0, 0, 1, 2])):
        text, value = chance.choice(INTS if chance.random() < 0.7 else reads)
        lines.append(f"let l{number} = {text}")
        found.append(("let", f"l{number}", value))
        lets.append((f"l{number}", lambda env, name=f"l{number}": env.let(name)))  # type: ignore[misc]
    if windows and chance.random() < 0.3:
        text, value = _call_of(chance, "n", lets, reads, across=across)
        lines.append(f"let w = {text}")
        found.append(("let", "w", value))
        lets.append(("w", lambda env: env.let("w")))
    columns = chance.sample([*_COLUMNS, "h"], chance.randint(1, 4))
    for column in columns:
        if windows and chance.random() < 0.75:
            text, value = _call_of(chance, column, lets, reads, across=across)
        elif column == "h":
            continue
        elif column in ("n", "m") and chance.random() < 0.5:
            text, value = chance.choice([*lets, *reads])
        else:
            text, value = chance.choice(_COLUMNS[column])
        if column == "n" and not windows and chance.random() < 0.1:
            column, text, value = "ts", "$source.event_time", ordered.event_time
        lines.append(f"emit {column} = {text}")
        found.append(("emit", column, value))
    if chance.random() < 0.35:
        text, value = _call_of(chance, "b", lets, reads, across=across) if windows else chance.choice(BOOLS)
        place = chance.randint(0, len(lines))
        # A `let` that a predicate reads stands before it.
        place = max(place, sum(line.startswith(("let", "distinct")) for line in lines))
        lines.insert(place, f"filter {text}")
        found.insert(place, ("filter", value))
    if chance.random() < 0.2:
        lines.append('emit each it in v.split(" ") {\n  emit v = it\n  emit m = id + it.length()\n}')
        body = [("v", lambda env: env.item), ("m", lambda env: env["id"] + len(env.item))]
        found.append(("each", lambda env: None if env["v"] is None else env["v"].split(" "), body))
    if not lines:
        lines, found = ["emit n = n"], [("emit", "n", N)]
    return "\n".join(lines), ordered.Program(found)


def validations(chance: random.Random, program: ordered.Program) -> dict[str, Any]:
    """What asks something of the records that come out, which the model asks too."""
    if chance.random() < 0.8:
        return {}
    text, program.check = chance.choice(BOOLS)
    return {"validations": [{"name": "v", "check": text}]}


def _joined(value: Any) -> Any:
    return None if value is None else "-".join(str(item) for item in value)


def _call_of(chance: random.Random, column: str, lets: Sequence[Made], reads: Sequence[Made], *, across: bool) -> Made:
    """A call whose value fits a column; what it reads around a row is that of each row of the frame."""
    call = ordered.call
    around = chance.sample(reads, 2)
    ints = [*INTS, *([*lets] * 2), *around]
    if column in ("n", "m"):
        function = chance.choice(
            ["row_number", "count", "rank", "dense_rank", "sum", "min", "max", "first_value", "last_value", "lag",
             "lead", "first", "last", "distinct", "distinct_h"]
        )  # fmt: skip
        if function in ("row_number", "count", "rank", "dense_rank"):
            return f"$window.{function}()", call(function)
        if function in ("first", "last"):
            return f"$window.{function}().m", call(function, "m")
        if function in ("lag", "lead"):
            return _reaching(chance, function)
        if function.startswith("distinct"):
            text, value = ("h", of("h")) if function.endswith("h") else chance.choice(ints)
            made = call("distinct", value)
            shown = f"$window.distinct({text}).length()"
            return shown, lambda env: None if made(env) is None else len(made(env))
        text, value = chance.choice(ints)
        return f"$window.{function}({text})", call(function, value)
    if column == "f":
        function = chance.choice(["sum", "cumulative_sum", "avg", "min", "max", "first_value"])
        text, value = chance.choice(ints if function == "avg" and chance.random() < 0.5 else FLOATS)
        if function == "avg" and chance.random() < 0.2:
            text, value = "h", of("h")
        return f"$window.{function}({text})", call(function, value)
    if column in ("k", "v"):
        function = chance.choice(["min", "max", "first_value", "last_value", "collect", "collect_n", "distinct"])
        if function == "collect_n":
            text, value = chance.choice(ints)
            made = call("collect", value)
            return f'$window.collect({text}).join("-")', lambda env: _joined(made(env))
        text, value = chance.choice(TEXTS)
        if function in ("collect", "distinct"):
            made = call(function, value)
            return f'$window.{function}({text}).join("-")', lambda env: _joined(made(env))
        return f"$window.{function}({text})", call(function, value)
    if column == "b":
        function = chance.choice(["any", "exists", "every", "not_exists"])
        bools = list(BOOLS)
        for shown, held in (*lets, *around):
            bools.append((f"m < {shown}", with_both(_M, held, int.__lt__)))
            bools.append((f"n == {shown}", with_both(N, held, int.__eq__)))
            text = f'v.split(" ").any(it => it.length() >= {shown})'
            bools.append((text, _some(held)))
        text, value = chance.choice(bools)
        return f"$window.{function}({text})", call(function, value)
    function = chance.choice(["first_value", "min", "max", "last_value", "sum"])
    return f"$window.{function}(h)", call(function, of("h"))


def _reaching(chance: random.Random, function: str) -> Made:
    if chance.random() < 0.3:
        return f"$window.{function}(id % 4 - 1, n)", ordered.call(function, "n", lambda env: env["id"] % 4 - 1)
    steps = chance.choice([1, 1, 2, 5])
    return f"$window.{function}({steps}).n", ordered.call(function, "n", steps)


def sorts(chance: random.Random) -> tuple[list[Any], list[ordered.Sort]]:
    """A `sort_by`, and its model."""
    names = chance.sample(["n", "f", "v", "ts", "id", "b", "h"], chance.choice([0, 1, 1, 2]))
    fields = [(name, chance.random() < 0.4, chance.choice(["first", "last", "last", "drop"])) for name in names]
    shown = [
        {"field": name, "order": "desc" if descending else "asc", "null_order": nulls}
        for name, descending, nulls in fields
    ]
    return shown, fields

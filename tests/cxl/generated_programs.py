"""Generated programs over the columns of `generated_records.py`: most of them compile, many fail on some records."""

from __future__ import annotations

from hypothesis import strategies as st


def _choice(*options: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(*options)


def _form(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda **found: template.format(**found), **parts)


_SEARCHES = st.sampled_from(["starts_with", "ends_with", "contains"])
#: Formats that read, some with offsets, one of years of two digits.
_read_format = st.sampled_from(
    ['"%Y-%m-%dT%H:%M:%S%z"', '"%Y-%m-%dT%H:%M:%SZ"', '"%d.%m.%Y"', '"%d.%m.%y"', '"%m/%d/%Y %H:%M %:z"', '"%Y"']
)
_small = st.sampled_from(["-3", "-1", "0", "1", "2", "5", "40"])
_format = st.sampled_from(
    ['"%Y-%m-%d"', '"%d/%m/%Y"', '"%B %-d, %y"', '"%Y-%m-%dT%H:%M:%S"', '"%j %U %W %V %G %a"', '"%H:%M:%S%.f"']
)
#: Patterns of numbers, one of them none.
_number_pattern = st.sampled_from(
    ['"0.00"', '"#,##0.###"', '"000;(0)"', '"#.#%"', '"#,##,##0.0"', "\"'n '0\"", '""', "s", '(if b then "0.0" else t)']
)
_pattern = st.sampled_from(
    [
        '"(?i)([a-z])(x)?|([0-9]+)"',
        '"[(]?(a*)[]x[:alpha:]](\\\\()?"',
        '"[a-z]+"',
        '"[0-9]+"',
        '"(a|b)(c)?"',
        '"^.b"',
        '"(?i)s"',
        '"\\\\w+"',
    ]
)


def ints(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["n", "m", "0", "1", "3", "-7", "9223372036854775807"])
    if depth == 0:
        return leaves
    i, f, s, b, d = ints(depth - 1), floats(depth - 1), strings(depth - 1), bools(depth - 1), dates(depth - 1)
    w = datetimes(depth - 1)
    return _choice(
        leaves,
        _form("({l} {o} {r})", l=i, o=st.sampled_from(["+", "-", "*", "/", "%"]), r=i),
        _form("(-{l})", l=i),
        _form("(if {c} then {l} else {r})", c=b, l=i, r=i),
        _form("({l} ?? {r})", l=i, r=i),
        _form("({l}).{f}()", l=i, f=st.sampled_from(["abs", "ceil", "floor"])),
        _form("({l}).{f}()", l=f, f=st.sampled_from(["ceil", "floor", "to_int", "try_int"])),
        _form("({l}).{f}({r})", l=i, f=st.sampled_from(["min", "max"]), r=i),
        _form("({l}).clamp({p}, {q})", l=i, p=i, q=i),
        _form("({l}).{f}()", l=s, f=st.sampled_from(["to_int", "try_int", "length"])),
        _form("({l}).{f}()", l=d, f=st.sampled_from(["year", "month", "day", "hour"])),
        _form("({l}).{f}()", l=w, f=st.sampled_from(["year", "month", "day", "hour", "minute", "second"])),
        _form(
            "({l}).{f}({r})",
            l=_choice(d, w),
            f=st.sampled_from(["diff_days", "diff_months", "diff_years"]),
            r=_choice(d, w),
        ),
        _form('(match {k} {{ "abc" => {l}, "42" => {r}, null => 5, _ => n }})', k=s, l=i, r=i),
        _form("(match {k} {{ 0 => 10, 1 => 20, 7 => 30, _ => 40 }})", k=i),
        _form("(match {{ {c} => {l}, {e} => {r}, _ => m }})", c=b, e=b, l=i, r=i),
        _form("({l}).split({r}).length()", l=s, r=st.sampled_from(['","', '"a"', '""'])),
    )


def floats(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["x", "y", "0.0", "1.5", "2.0", "100.25"])
    if depth == 0:
        return leaves
    i, f, s, b = ints(depth - 1), floats(depth - 1), strings(depth - 1), bools(depth - 1)
    return _choice(
        leaves,
        _form("({l} {o} {r})", l=_choice(f, i), o=st.sampled_from(["+", "-", "*", "/", "%"]), r=f),
        _form("(-{l})", l=f),
        _form("(if {c} then {l} else {r})", c=b, l=f, r=_choice(i, f)),
        _form("({l} ?? {r})", l=f, r=_choice(f, i)),
        _form("({l}).round({p})", l=_choice(f, i), p=st.sampled_from(["", "0", "2", "-2", "n", "15"])),
        _form("({l}).round_to({p})", l=_choice(f, i), p=st.sampled_from(["1", "-1", "m"])),
        _form("({l}).{f}({r})", l=f, f=st.sampled_from(["min", "max"]), r=_choice(f, i)),
        _form("({l}).clamp({p}, {q})", l=f, p=_choice(f, i), q=f),
        _form("({l}).abs()", l=f),
        _form("({l}).{f}()", l=_choice(s, i), f=st.sampled_from(["to_float", "try_float"])),
        _form("(match {{ {c} => {l}, _ => {r} }})", c=b, l=f, r=f),
    )


def decimals(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["p", "q", "r", "z", "0d", "1.50d", "-0.001d", "99999999999999999999999999999999999999d"])
    if depth == 0:
        return leaves
    i, f, s, b, c = ints(depth - 1), floats(depth - 1), strings(depth - 1), bools(depth - 1), decimals(depth - 1)
    scale = st.sampled_from(["", "0", "2", "5", "38"])
    return _choice(
        leaves,
        _form("({l} {o} {r})", l=c, o=st.sampled_from(["+", "-", "*", "/", "%"]), r=_choice(c, c, i)),
        _form("({l} {o} {r})", l=i, o=st.sampled_from(["+", "-", "*", "/", "%"]), r=c),
        _form("(-{l})", l=c),
        _form("(if {k} then {l} else {r})", k=b, l=c, r=_choice(c, i)),
        _form("({l} ?? {r})", l=c, r=_choice(c, i)),
        _form("({l}).abs()", l=c),
        _form(
            "({l}).{f}({p})",
            l=c,
            f=st.sampled_from(["round", "round_to"]),
            p=st.sampled_from(["0", "1", "-2", "7", "n"]),
        ),
        _form("({l}).{f}({r})", l=c, f=st.sampled_from(["min", "max"]), r=_choice(c, i)),
        _form("({l}).clamp({p}, {q})", l=c, p=_choice(c, i), q=c),
        _form("({l}).{f}({p})", l=_choice(c, i, f, s), f=st.sampled_from(["to_decimal", "try_decimal"]), p=scale),
        _form("(match {{ {k} => {l}, _ => {r} }})", k=b, l=c, r=c),
    )


def _of_decimals(depth: int) -> st.SearchStrategy[str]:
    """What takes Decimals and gives other types."""
    c, i, f = decimals(depth - 1), ints(depth - 1), floats(depth - 1)
    compare = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return _choice(
        _form("({l} {o} {r})", l=c, o=compare, r=_choice(c, i, f)),
        _form("({l} {o} {r})", l=_choice(i, f), o=compare, r=c),
        _form("({l} {o} {r})", l=c, o=st.sampled_from(["+", "-", "*", "/", "%"]), r=f),
        _form(
            "({l}).{f}()",
            l=c,
            f=st.sampled_from(["to_int", "try_int", "to_float", "ceil", "floor", "to_string", "type_of"]),
        ),
        _form("({l}).format({p})", l=c, p=_number_pattern),
        _form("(match {l} {{ 0 => 1, 1.5d => 2, _ => 3 }})", l=c),
        _form("(a {o} {r})", o=_choice(compare, st.sampled_from(["+", "*"])), r=c),
        _form("({l} ?? {r})", l=c, r=_choice(f, st.just("a"))),
        _form("(if b then {l} else {r})", l=c, r=_choice(f, st.just("a"), st.just("s"))),
    )


def strings(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["s", "t", '""', '"ab"', '"É x"'])
    if depth == 0:
        return leaves
    i, f, s, b, d = ints(depth - 1), floats(depth - 1), strings(depth - 1), bools(depth - 1), dates(depth - 1)
    w = datetimes(depth - 1)
    return _choice(
        leaves,
        _form("({l} + {r})", l=s, r=s),
        _form("(if {c} then {l} else {r})", c=b, l=s, r=s),
        _form("({l} ?? {r})", l=s, r=s),
        _form("({l}).{f}()", l=s, f=st.sampled_from(["upper", "lower", "trim", "trim_start", "trim_end", "reverse"])),
        _form("({l}).{f}()", l=s, f=st.sampled_from(["file_name", "file_stem", "extension", "parent", "parent_name"])),
        _form("({l}).{f}({p})", l=s, f=st.sampled_from(["left", "right", "repeat"]), p=_choice(_small, i)),
        _form("({l}).substring({p}, {q})", l=s, p=_small, q=_choice(_small, i)),
        _form("({l}).{f}({p}, {q})", l=s, f=st.sampled_from(["pad_left", "pad_right"]), p=_small, q=s),
        _form("({l}).replace({p}, {q})", l=s, p=_choice(s, st.just('"a"')), q=s),
        _form("({l}).concat({p}, {q})", l=s, p=_choice(s, i, f, b, d, w), q=s),
        _form("({l}).capture({p}, {q})", l=s, p=_pattern, q=st.sampled_from(["0", "1", "2", "n"])),
        _form("({l}).to_string()", l=_choice(i, f, s, b, d, w)),
        _form("({l}).{f}({p})", l=_choice(d, w), f=st.sampled_from(["format_date", "format"]), p=_choice(_format, s)),
        _form("({l}).format({p})", l=_choice(i, f), p=_number_pattern),
        _form("({l}).format({p})", l=_choice(s, b, st.just("a")), p=_choice(st.just('""'), s)),
        _form("({l}).type_of()", l=_choice(i, f, s, b, d, w, st.just("a"))),
        _form('({l}).split(",")[{p}]', l=s, p=st.sampled_from(["0", "1", "3"])),
        _form('({l}).split(",").join({p})', l=s, p=_choice(st.just('"+"'), s)),
        _form('({l}).split(",").map(it => it.upper() + {r}).join("|")', l=s, r=s),
        _form('(match {k} {{ 0 => {l}, 1 => "one", _ => {r} }})', k=i, l=s, r=s),
        _form('(match {k} {{ 1 => "one", "a" => "text", _ => {r} }})', k=st.just("a"), r=s),
    )


def bools(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["b", "true", "false", "n > 1", "x < 2.0", "s == t", "d >= e"])
    if depth == 0:
        return st.sampled_from(["b", "(n > 1)", "(x < 2.0)", '(s == "abc")', "(d >= e)", "(w < v)", "(n == m)"])
    i, f, s, b, d = ints(depth - 1), floats(depth - 1), strings(depth - 1), bools(depth - 1), dates(depth - 1)
    w = datetimes(depth - 1)
    compare = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return _choice(
        _form("({l})", l=leaves),
        _form("({l} {o} {r})", l=_choice(i, f), o=compare, r=_choice(i, f)),
        _form("({l} {o} {r})", l=s, o=compare, r=s),
        _form("({l} {o} {r})", l=d, o=compare, r=d),
        _form("({l} {o} {r})", l=w, o=compare, r=w),
        _form("({l} {o} {r})", l=b, o=st.sampled_from(["and", "or", "==", "!="]), r=b),
        _form("(not {l})", l=b),
        _form("({l} ?? {r})", l=b, r=b),
        _form("({l}).is_null()", l=_choice(i, f, s, b, d, w, st.just("a"))),
        _form("({l}).is_empty()", l=_choice(s, i, st.just("a"))),
        _form("({l}).{f}({r})", l=s, f=_SEARCHES, r=_choice(s, st.just('"a"'))),
        _form("({l}).{f}({r})", l=s, f=st.sampled_from(["matches", "find"]), r=_pattern),
        _form("({l}).{f}()", l=_choice(s, i), f=st.sampled_from(["to_bool", "try_bool"])),
        _form("({l}).split(\",\").any(it => it == {r})", l=s, r=s),
        _form("(a == {l})", l=_choice(i, s, b)),
        _form("(a and {l})", l=b),
    )  # fmt: skip


def dates(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["d", "e", "#2024-02-29#"])
    if depth == 0:
        return leaves
    i, s, b, d = ints(depth - 1), strings(depth - 1), bools(depth - 1), dates(depth - 1)
    return _choice(
        leaves,
        _form("({l}).{f}({p})", l=d, f=st.sampled_from(["add_days", "add_months", "add_years"]), p=_choice(_small, i)),
        _form("(if {c} then {l} else {r})", c=b, l=d, r=d),
        _form("({l} ?? {r})", l=d, r=d),
        _form("({l}).{f}()", l=_choice(s, d, datetimes(depth - 1)), f=st.sampled_from(["to_date", "try_date"])),
        _form("({l}).{f}({p})", l=s, f=st.sampled_from(["to_date", "try_date"]), p=_choice(_format, _read_format)),
    )


def datetimes(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["w", "v"])
    if depth == 0:
        return leaves
    i, s, b, w = ints(depth - 1), strings(depth - 1), bools(depth - 1), datetimes(depth - 1)
    return _choice(
        leaves,
        _form("({l}).{f}({p})", l=w, f=st.sampled_from(["add_days", "add_months", "add_years"]), p=_choice(_small, i)),
        _form("(if {c} then {l} else {r})", c=b, l=w, r=w),
        _form("({l}).{f}()", l=_choice(s, w, dates(depth - 1)), f=st.sampled_from(["to_datetime", "try_datetime"])),
        _form(
            "({l}).{f}({p})", l=s, f=st.sampled_from(["to_datetime", "try_datetime"]), p=_choice(_format, _read_format)
        ),
    )


def lists(depth: int) -> st.SearchStrategy[str]:
    split = _form(
        "({l}).split({p})", l=st.sampled_from(["s", "t", '"1,22,,a"']), p=st.sampled_from(['","', '"a"', '""', "t"])
    )
    if depth < 2:
        return split
    i, b, xs = ints(1), bools(1), lists(depth - 1)
    bodies = ["it.upper()", "it.length() + n", "it.to_int()", "it.try_float() ?? x", "it + s", "if b then it else t"]
    tests = ['it == "a"', "it.length() > n", "it.to_int() > 2", "it < t", 'it.find("[0-9]")']
    flat = ['it.split("-")', "it.try_int()", "it.trim()"]
    return _choice(
        split,
        _form("({l}).map(it => {p})", l=xs, p=st.sampled_from(bodies)),
        _form("({l}).filter(it => {p})", l=xs, p=st.sampled_from(tests)),
        _form("({l}).flat_map(it => {p})", l=xs, p=st.sampled_from(flat)),
        _form("({l}).find(it => {p})", l=split, p=st.sampled_from(tests)),
        _form("({l}).any(it => {p})", l=split, p=st.sampled_from(tests)),
        _form('({l}).map(it => it.split("").any(it => it == t))', l=split),
        _form("({l}).map(it => it.length()).join({p})", l=split, p=st.sampled_from(['"+"', "t"])),
        _form("({l}).remove({p})", l=split, p=i),
        _form("(if {c} then {l} else {r})", c=b, l=split, r=split),
        _form("({l} ?? {r})", l=split, r=split),
    )


def anys(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return st.sampled_from(["a", "(a ?? 1)", "(if b then a else n)"])
    x, i, f, s, b = anys(depth - 1), ints(depth - 1), floats(depth - 1), strings(depth - 1), bools(depth - 1)
    return _choice(
        x,
        _form("({l} {o} {r})", l=x, o=st.sampled_from(["+", "-", "*", "/", "%", "==", "<"]), r=_choice(x, i, f, s)),
        _form("(if {c} then {l} else {r})", c=_choice(b, x), l=x, r=_choice(x, i)),
        _form("({l} ?? {r})", l=x, r=_choice(x, s, i)),
        _form(
            "({l}).{f}()", l=x, f=st.sampled_from(["upper", "length", "abs", "to_string", "try_int", "keys", "year"])
        ),
        _form("({l}).{f}({r})", l=x, f=st.sampled_from(["left", "round", "min", "add_days"]), r=_choice(x, i)),
        _form(
            "({l}).{f}({t})",
            l=x,
            f=st.sampled_from(["contains", "starts_with", "find", "matches", "join", "concat", "split", "catch"]),
            t=_choice(st.sampled_from(['"a"', '","', '"1"']), s),
        ),
        _form("({l}).{f}", l=x, f=st.sampled_from(["remove(0)", "is_empty()", "reverse()", "type_of()", "values()"])),
        _form("({l})[{p}]", l=x, p=_choice(st.sampled_from(['"k"', '"$date"', "0", "1"]), x)),
        _form("({l}).map(it => it + {r})", l=x, r=_choice(i, x)),
        _form('({l}).set("k.j", {r})', l=x, r=_choice(i, x)),
        _form('{{k: {l}, "j i": {r}}}', l=x, r=_choice(i, f, s, b, x)),
        _form("{{k: {l}, j: {r}}}.k", l=_choice(i, f, s), r=x),
        _form('{{}}.set("k.j", {l}).merge({{m: {r}}})', l=x, r=s),
        _form("(match {k} {{ 1 => {l}, {p} => {r}, _ => 0 }})", k=x, l=x, p=i, r=s),
        _form("({l} and {r})", l=x, r=b),
        _form("(not {l})", l=x),
    )


_STRATEGIES = {
    "any": anys,
    "int": ints,
    "float": floats,
    "decimal": decimals,
    "of decimals": _of_decimals,
    "string": strings,
    "bool": bools,
    "date": dates,
    "datetime": datetimes,
    "list": lists,
}
_ALL = {kind: {depth: make(depth) for depth in (1, 2)} for kind, make in _STRATEGIES.items()}


@st.composite
def programs(draw: st.DrawFn, depth: int) -> str:
    """A program of a few statements; later ones use what earlier ones made."""
    lines: list[str] = []
    for number in range(draw(st.integers(1, 4))):
        expression = draw(_ALL[draw(st.sampled_from(sorted(_ALL)))][depth])
        if lines and draw(st.booleans()):
            expression = expression.replace("n", "n", 1)
        lines.append(f"emit f{number} = {expression}")
        kind = draw(st.integers(0, 9))
        if kind == 0:
            lines.append(f"filter {draw(_ALL['bool'][1])}")
        elif kind == 1:
            lines.append(
                draw(
                    st.sampled_from(
                        ["distinct", *(f"distinct by {key}" for key in ("n", "s", "b", "d", "x", "p", "z", "a"))]
                    )
                )
            )
        elif kind == 2:
            lines.append(
                f"let k{number} = {draw(_ALL['int'][1])}\nemit g{number} = k{number} + f0.to_string().length()"
            )
    return "\n".join(lines)


_BODY = st.sampled_from(
    [
        "emit v = it",
        'emit v = it["k"]',
        "emit v = it + n",
        "emit v = 10 / it",
        "emit v = it.to_string() + s",
        "let k = it\n  emit v = k\n  emit w = (if b then k else 0)",
        "emit meta mark = it\n  emit v = n + 1",
        "emit v = n / m\n  emit w = it.is_null()",
        "emit v = (it ?? n).to_string().to_int()",
        "n / m",
        "emit x = x",
    ]
)
_SOURCES = st.sampled_from(
    ["a", 's.split(",")', "(if b then a else null)", "(a ?? a)", 's.split("").map(it => it.length() + n)']
)


@st.composite
def explosions(draw: st.DrawFn) -> str:
    """A program that ends in an `emit each` block."""
    before = draw(
        st.sampled_from(["", "emit f = n + 1", "filter b", "emit meta mark = n\nemit f = s", "distinct by n"])
    )
    body = "\n  ".join(draw(st.lists(_BODY, min_size=1, max_size=3)))
    outer = draw(st.sampled_from(["", " outer"]))
    behind = draw(st.sampled_from(["", "", "", "emit v = s", "let k = d\nemit w = k", "emit meta mark = x", "n / m"]))
    return f"{before}\nemit each it in {draw(_SOURCES)}{outer} {{\n  {body}\n}}\n{behind}"


_INNER_SOURCES = st.one_of(_SOURCES, st.sampled_from(["it", "(it ?? a)", "s.split(it.to_string())"]))
_BETWEEN = st.sampled_from(
    [
        "emit y = n + 1",
        "emit z = 10 / n",
        "let k = s.to_int()",
        "emit meta mark = n / m",
        "n / m",
        'trace if b "seen"',
        "emit y = s",
    ]
)


@st.composite
def nested_blocks(draw: st.DrawFn) -> str:
    """A program of blocks in and behind blocks, with statements around all of them."""

    def around() -> list[str]:
        return draw(st.lists(_BETWEEN, max_size=2))

    def block(levels: int, sources: st.SearchStrategy[str] = _INNER_SOURCES) -> list[str]:
        source = draw(sources)
        inner = draw(st.lists(_BODY, max_size=2))
        for _ in range(draw(st.integers(0, 2)) if levels else 0):
            inner += [*block(levels - 1), *draw(st.lists(st.one_of(_BODY, _BETWEEN), max_size=1))]
        outer = draw(st.sampled_from(["", " outer"]))
        return [f"emit each it in {source}{outer} {{", *inner, "emit w = it", "}"]

    lines = [draw(st.sampled_from(["", "filter b", "distinct by n"])), *around(), *block(2, _SOURCES), *around()]
    if draw(st.booleans()):
        lines += [*block(1, _SOURCES), *around()]
    return "\n".join(lines)


#: Values of many types for one name, and what may give it them.
_VALUES = st.sampled_from(["n", "x", "s", "b", "d", "w", "null", 's.split(",")', 's.split("").map(it => n)'])
_TARGETS = st.sampled_from(["emit {} = {}", "emit {} = {}", "emit meta {} = {}", "let {} = {}"])


@st.composite
def same_targets(draw: st.DrawFn) -> str:
    """A program with blocks, before, in and behind which one name is written: `x`, a column, or `f`, which is none."""
    target = draw(st.sampled_from(["x", "f"]))

    def writes() -> list[str]:
        return [draw(_TARGETS).format(target, draw(_VALUES)) for _ in range(draw(st.integers(0, 2)))]

    def block(levels: int) -> list[str]:
        inner = [*block(levels - 1), *writes()] if levels and draw(st.booleans()) else []
        return [f"emit each q in {draw(st.sampled_from(['a', 'cells']))} {{", *writes(), *inner, "}"]

    lines = ['let cells = s.split(",")', *writes(), *block(1), *writes()]
    if draw(st.booleans()):
        lines += [*block(1), *writes()]
    return "\n".join([*lines, draw(st.sampled_from(["", "let z = x", f"trace $meta.{target}"]))])

"""Lines of NDJSON of every kind that a file may have: for tests that compare ways of reading them."""

from __future__ import annotations

from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats.format import SourceColumn

#: A column of each declared type, two of them inside objects.
COLUMNS = (
    SourceColumn("s", types.STRING),
    SourceColumn("i", types.INT),
    SourceColumn("f", types.FLOAT),
    SourceColumn("n", types.NUMERIC),
    SourceColumn("b", types.BOOL),
    SourceColumn("d", types.DATE, formats=("%d.%m.%Y",)),
    SourceColumn("t", types.DATETIME),
    SourceColumn("a", types.ARRAY),
    SourceColumn("m", types.MAP),
    SourceColumn("x", types.ANY),
    SourceColumn("o.i", types.INT),
    SourceColumn("o.p.s", types.STRING),
)
UNDECLARED = ("u", "v", "o.z", "w.k")

NUMBERS = (
    "0", "1", "-7", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "1000000000000000000000000000000", "1" + "0" * 400, "-1" + "0" * 400, "1" * 5000,
    "-0", "-0.0", "1.0", "2.50", "0.1", "1e2", "1E+2", "1e-7", "1e16", "123456789012345.6", "1e400", "-1e400", "1e-400",
    "1.9e308", "17976931348623159" + "0" * 292,
    "5e-324", "2.4703282292062328e-324", "3.0000000000000001", "9999999999999999.9999", "0.30000000000000004",
    "0.10000000000000001", "9007199254740993.0", "12345678901234567890e-3", "1.2345678901e-310",
    "1.23456789012345678901e-7", "12.50000000000000000000",
)  # fmt: skip
_TEXTS = (
    '""', '"a"', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\u0000"', '"\\u001f"', '"\\""',
    '"\\\\"', '"\\/"', '"5"', '"+5"', '"3.0"', '"1e2"', '"nan"', '"true"', '"no"', '"2024-02-29"', '"2023-02-29"',
    '"2024-02-29T10:11:12"', '"2024-02-29 10:11:12.5"', '"24.12.2024"', '"0000-01-01"', '" "', '"},{"', '"}\\n{"',
    '"NaN"', '"[NaN]"', '"$date"', '"x\u2028y"', '"\ufeff"', '"[1,2]"', '"{}"',
)  # fmt: skip
_BROKEN_VALUES = (
    "NaN",
    "-Infinity",
    "Infinity",
    "Inf",
    "nan",
    "01",
    "1.",
    ".5",
    "+1",
    "-",
    "tru",
    "'a'",
    '"\t"',
    '"\\x"',
    "",
)
_DEEP = ("[" * 126 + "]" * 126, "[" * 127 + "]" * 127, "[" * 128 + "]" * 128, '{"k":' * 200 + "1" + "}" * 200)
_KEYS = (
    *(column.name for column in COLUMNS), *UNDECLARED, "o", "o.p", "p.s", "w", "", "\\u0069", "o\\u002ei", "$k", "é",
)  # fmt: skip
_SPACES = st.sampled_from(["", "", "", " ", "\t", "  "])

#: Numbers of any digits, point and exponent.
numbers = st.builds(
    lambda sign, whole, fraction, exponent: sign + whole + fraction + exponent,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**22).map(str),
    st.one_of(
        st.just(""), st.integers(0, 10**22).map(lambda found: f".{found}"), st.just(".50"), st.just("." + "0" * 18)
    ),
    st.sampled_from(["", "", "", "e0", "E-7", "e+16", "e-30", "e-300", "e-320", "e300"]),
)
_scalars = st.sampled_from(("null", "true", "false", *NUMBERS, *_TEXTS))


def _array(items: list[str]) -> str:
    return "[" + ",".join(items) + "]"


@st.composite
def _members(draw: st.DrawFn, values: st.SearchStrategy[str], keys: st.SearchStrategy[str]) -> str:
    chosen = draw(st.lists(st.tuples(keys, values), max_size=4))
    space = draw(_SPACES)
    return "{" + f",{space}".join(f'"{key}"{space}:{space}{value}' for key, value in chosen) + "}"


_inner_keys = st.sampled_from(["i", "p", "s", "z", "k", "p.s", "q"])
_nested = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3).map(_array) | _members(inner, _inner_keys), max_leaves=6
)
#: JSON texts that suit their columns, so that a line of several mostly reads well.
_FITTING = {
    "s": ['"a"', '"é"', '"say \\"hi\\""', '""'],
    "i": ["0", "1", "-5", "123456"],
    "f": ["1.5", "2", "-0.25", "1e3"],
    "n": ["1", "2.5"],
    "b": ["true", "false"],
    "d": ['"2024-01-31"', '"24.12.2024"'],
    "t": ['"2024-01-31T01:02:03"'],
    "a": ["[]", "[1,2]", "[1, 2]", '["a\\n","é",{"k":[null, true]}]', '[{"k":1},{"k":2.50}]', "null"],
    "m": [
        "{}",
        '{"k":1}',
        '{"k": {"k": "a, b: c"}, "i": [0.5]}',
        '{"k":1,"k":2}',
        '{"$k":-0}',
        '{"k":"\\u00e9"}',
        "null",
    ],
    "x": ["1", "2", '"t"', "[1]", '{"k":[1, 2]}', "1.0"],
    "o": ['{"i":1,"p":{"s":"q"}}', '{"i":2}', '{"p":null,"z":5}', "{}"],
    "u": ["1", "2", "30"],
    "v": ['"p"', '"q"', "null", "[1]", '["p", {"i":1}]'],
    "w": ['{"k":true}', '{"k":false}', "{}"],
}


@st.composite
def _fitting_line(draw: st.DrawFn) -> str:
    keys = draw(
        st.sampled_from([("s", "i", "f", "b", "u"), ("i", "d", "t", "o", "v"), tuple(_FITTING), ("s", "x", "w")])
    )
    return "{" + ",".join(f'"{key}":{draw(st.sampled_from(_FITTING[key]))}' for key in keys) + "}"


_odd_line = _members(st.one_of(_scalars, _nested, st.sampled_from(_DEEP)), st.sampled_from(_KEYS))
_broken_line = st.one_of(
    _members(st.sampled_from(_BROKEN_VALUES), st.sampled_from(_KEYS)),
    st.sampled_from(
        ["null", "{", "}", "[]", "{}{}", '{"i":1} {"i":2}', '{"i":1} null {"i":2}', '{"i":1},{"i":2}', '{"i":1}]}', "x"]
    ),
)
_blank = st.sampled_from(["", " ", "\t"])

#: A record that mostly reads well, and any line at all.
fitting = _fitting_line()
any_line = st.one_of(_odd_line, _odd_line, _broken_line)

#: Mostly records that fit, some odd ones, few that are broken or blank.
lines = st.lists(
    st.integers(0, 19).flatmap(
        lambda at: _fitting_line() if at < 13 else _odd_line if at < 17 else _broken_line if at < 19 else _blank
    ),
    max_size=12,
)
line_ends = st.sampled_from(["\n", "\n", "\r\n", "\r"])

_WITHOUT_ESCAPES = tuple(text for text in _TEXTS if "\\" not in text)


@st.composite
def _of_one_shape(draw: st.DrawFn) -> list[str]:
    keys = draw(st.lists(st.sampled_from([*"sifnbdtxuv", "o.i", "k", ""]), min_size=1, max_size=5, unique=True))
    some_kinds = [NUMBERS, NUMBERS[:4], _WITHOUT_ESCAPES, ("true", "false"), ("1", "null")]
    kinds = [draw(st.sampled_from(some_kinds)) for _ in keys]
    odd = draw(st.sampled_from([(), (), (), _BROKEN_VALUES, _TEXTS, NUMBERS]))
    space = draw(_SPACES)
    rows = draw(st.lists(st.tuples(*(st.sampled_from(kind) for kind in kinds)), min_size=2, max_size=12))
    found = [[f'"{key}":{space}{cell}' for key, cell in zip(keys, row, strict=True)] for row in rows]
    if odd:
        row, place = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(keys) - 1))
        found[row][place] = f'"{keys[place]}":{space}{draw(st.sampled_from(odd))}'
    return ["{" + f",{space}".join(cells) + "}" for cells in found]


#: Lines with the same members in the same order, of which one value may be another.
lines_of_one_shape = _of_one_shape()

#: Records with arrays of objects, of scalars, of all kinds; members of elements that records have, too.
_ELEMENT_KEYS = st.sampled_from(["i", "s", "f", "x", "u", "r", "q", "o", "o.i", "p.s", "k"])
_small = st.sampled_from(["1", "2", "7", "1.5", "2.0", "-0", '"a"', '"b"', "true", "null"])
_alike = st.sampled_from(
    [["1", "2"], ['"a"', '"b,c"'], ["true"], ["1", "2.5"], ["1.0"], ["null", "1"], ['"x"', "null"]]
)
_object = _members(
    _small | st.sampled_from(['{"i":3}', '{"i":null}', "[1,2]", '["a"]', '[{"i":9,"k":1}]']), _ELEMENT_KEYS
)
_same_object = st.sampled_from(
    ['{"s":"a","i":1}', '{"s":"b","i":null}', '{"s":"c"}', '{"i":4,"o":{"i":5}}', '{"f":1.5}']
)
_some_array = st.one_of(
    st.lists(_same_object, max_size=3), st.lists(_same_object, max_size=3), st.lists(_object, max_size=3), _alike
).map(_array)
_array_value = st.one_of(_some_array, _some_array, _some_array, _small, st.just("{}"), st.just('{"k":[1]}'))


@st.composite
def _line_with_arrays(draw: st.DrawFn) -> str:
    found = [f'"{key}":{draw(_FITTING_VALUES[key])}' for key in draw(st.sampled_from(_SOME_KEYS))]
    arrays = draw(st.sampled_from([("r",), ("r",), ("r", "q"), ("q",), ()]))
    found += [f'"{key}":{draw(_array_value)}' for key in arrays]
    if draw(st.integers(0, 3)) == 0:
        found.append(f'"w":{{"k":{draw(_array_value)},"i":1}}')
    return "{" + ",".join(found) + "}"


_FITTING_VALUES = {key: st.sampled_from(found) for key, found in _FITTING.items()}
_SOME_KEYS = [("i", "s"), ("i", "s", "o"), ("x", "u"), ("i", "f", "b"), ()]

#: Mostly records with arrays, some of any kind.
lines_with_arrays = st.lists(
    st.integers(0, 9).flatmap(lambda at: any_line if at == 0 else _line_with_arrays()), max_size=12
)

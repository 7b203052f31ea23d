"""Generated records for tests of both engines: values of all types, edges first."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from spark_jobs.cxl import types

COLUMNS = {
    "n": types.INT,
    "m": types.INT,
    "x": types.FLOAT,
    "y": types.FLOAT,
    "s": types.STRING,
    "t": types.STRING,
    "b": types.BOOL,
    "d": types.DATE,
    "e": types.DATE,
    "w": types.DATETIME,
    "v": types.DATETIME,
    "p": types.decimal_of(12, 2),
    "q": types.decimal_of(None, 10),
    "r": types.decimal_of(38, 0),
    "z": types.DECIMAL,
    "a": types.ANY,
}

_INTS = st.sampled_from([0, 1, -1, 2, 7, -13, 100, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-20, 20)
_FLOATS = st.sampled_from(
    [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e-7, 1e16, 1e21, 1e300, -1e308, 123.456, float("nan"), float("inf"), 9.3e18, 0.1]
) | st.floats(-100, 100)
_STRINGS = st.sampled_from(
    [
        "",
        " ",
        "abc",
        "ABC x",
        " pad ",
        "straße",
        "ΣΑΣ",
        "İ",
        "ǆ",
        "e\u0301",
        "😀a",
        "\x1cfs",
        "\u3000wide",
        "a\nb",
        "42",
        "-7",
        "+5",
        "007",
        "0x1F",
        " 42",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
        ".5",
        "5.",
        "1e5",
        "nan",
        "-inf",
        "1_0",
        "TRUE",
        "no",
        "2024-02-29",
        "2023-02-29",
        "0000-01-01",
        "2024-3-5",
        "15/03/2024",
        "2024-02-29T23:59:59",
        "2024-02-29T23:59:59.25",
        "2024-02-29 23:59:59",
        "2024-02-29T23:59:59Z",
        "2024-02-29T00:30:00+05:45",
        "2024-02-29T00:30:00-0330",
        "02/29/2024 12:30 -00:00",
        "05.03.26",
        "05.03.2026",
        "a,b,,c",
        "#,##0.00",
        "%Y-%m",
        "0;(0)",
        "/in/a.tar.gz",
    ]
) | st.text(alphabet="aB1, .-é", max_size=8)
_DATES = (
    st.sampled_from([date(2024, 2, 29), date(2023, 1, 31), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)])
    | st.dates()
)
_DATETIMES = (
    st.sampled_from(
        [
            datetime(2024, 2, 29, 23, 59, 59),
            datetime(1969, 12, 31, 23, 59, 59, 500_000),
            datetime(1, 1, 1),
            datetime(9999, 12, 31, 23),
        ]
    )
    | st.datetimes()
)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of one scale, those with all digits among them."""
    most = 10**precision - 1
    edges = [0, 1, -1, 5, 10**scale, -(10**scale), most, -most, most // 2 + 1]
    units = st.sampled_from(edges) | st.integers(-2000, 2000) | st.integers(-most, most)
    return units.map(lambda count: Decimal((int(count < 0), tuple(map(int, str(abs(count)))), -scale)))


_OF_ANY_SCALE = st.one_of(_decimals(38, 38), _decimals(20, 3), _decimals(5, 1), _decimals(3, 2), _decimals(20, 0))
_ANY: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), _INTS, st.floats(allow_nan=False, allow_infinity=False), _STRINGS, _DATES,
    _OF_ANY_SCALE, st.lists(st.integers(0, 3) | _decimals(3, 2), max_size=3),
    st.dictionaries(st.sampled_from(["k", "$date", "é"]), st.integers(0, 3), max_size=2),
)  # fmt: skip

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys("nm", _INTS),
    **dict.fromkeys("xy", _FLOATS),
    **dict.fromkeys("st", _STRINGS),
    "b": st.booleans(),
    **dict.fromkeys("de", _DATES),
    **dict.fromkeys("wv", _DATETIMES),
    "p": _decimals(12, 2),
    "q": _decimals(38, 10),
    "r": _decimals(38, 0),
    "z": _OF_ANY_SCALE,
    "a": _ANY,
}
RECORDS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in _VALUES.items()}), min_size=1, max_size=24
)
_LISTS = st.none() | st.lists(
    st.none() | st.integers(-2, 2) | st.text("ab1", max_size=2) | st.fixed_dictionaries({"k": st.integers(0, 2)}),
    max_size=4,
)
EACH_RECORDS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in {**_VALUES, "a": _LISTS | _ANY}.items()}),
    min_size=1,
    max_size=16,
)
